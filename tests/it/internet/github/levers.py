"""What the tests move: one JSON object a line with `do`, one answer a line."""

import json
import time
import traceback

import graph
import seed


def obey(world, stream):
    """Until the tests end the stream."""
    lines = stream.makefile("rw", encoding="utf-8")
    lines.write('{"ready":true}\n')
    lines.flush()
    for line in lines:
        order = json.loads(line)
        try:
            with world.lock:
                value = LEVERS[order.pop("do")](world, **order)
            reply = {"ok": value}
        except Exception as error:
            traceback.print_exc()
            reply = {"error": repr(error)}
        lines.write(json.dumps(reply) + "\n")
        lines.flush()


def token(world, text=None, repositories=None, viewer="octo-user", write=True, lifetime=None, scopes=None):
    """A token for repositories by name (None: for all), of a user; the installation's viewer is `acme-app[bot]`."""
    ids = None if repositories is None else {world.find(name).id for name in repositories}
    return world.mint(viewer, ids, write, lifetime, text, scopes=scopes)


def repository(world, name, like="widget", public=False):
    """A fresh one: with all that acme/widget has (`widget`), with a README (`simple`), or a fork of the one named."""
    owner = name.split("/")[0]
    if owner.lower() not in world.accounts:
        world.account(owner, "Organization")
    if like == "widget":
        made = seed.widget(world, world.find("acme/lib"), name, None, None)
    elif like == "simple":
        made = seed.simple(world, name, public=public)
    else:
        made = seed.fork(world, name, world.find(like))
    return {"id": made.id, "node_id": made.node}


def revoke(world, text):
    world.tokens.pop(text, None)


def revoke_of(world, number):
    """Every token of an installation."""
    world.tokens = {text: token for text, token in world.tokens.items() if token.installation != number}


def revoke_all(world):
    world.tokens.clear()


def expire(world, text, seconds=0):
    world.tokens[text].expires = time.time() + seconds


def lifetime(world, seconds):
    """Of the tokens that installations get from now on."""
    world.lifetime = seconds


def installation(world, account, number=None, suspended=False, gone=False, lifetime=None, dead=False):
    """Of the App, for an account; of a dead one every token is refused, those it has given and those it will give."""
    for key in [key for key, row in world.installations.items() if row["account"] == account]:
        number = number or key
        del world.installations[key]
    if not gone:
        number = number or next(world.numbers)
        world.installations[number] = {
            "id": number, "account": account, "suspended": suspended, "lifetime": lifetime, "dead": dead,
        }
    if dead:
        revoke_of(world, number)
    return number


def rename(world, name, to):
    world.rename(world.find(name), to)


def delete(world, name):
    world.forget(world.find(name))


def fault(world, **row):
    world.faults.add(row)


def git(world, name, words):
    """What git prints in the bare repository: for looking at what arrived."""
    return world.find(name).git.text(*words)


def look(world, name):
    """What there is in a repository: issues and pull requests with their state and comments, releases with assets."""
    found = world.find(name)
    issues = [
        {"number": i.number, "kind": i.kind, "node_id": i.node, "title": i.title, "body": i.body, "state": i.state,
         "comments": [c.body for c in i.comments]} for i in found.issues.values()
    ]
    releases = [
        {"tag": r.tag_name, "draft": r.is_draft, "assets": {a.name: len(a.data) for a in r.assets}} for r in found.releases
    ]
    return {"id": found.id, "node_id": found.node, "issues": issues, "releases": releases}


def large(world, name):
    """The LFS objects that a repository has, with their sizes."""
    wanted = world.find(name).id
    return {oid: len(data) for (number, oid), data in world.large.items() if number == wanted}


def warm(_world):
    """Reads the GraphQL schema now: the first GraphQL request takes seconds otherwise."""
    graph.schema()


LEVERS = {
    lever.__name__: lever
    for lever in [
        token, repository, revoke, revoke_of, revoke_all, expire, lifetime, installation, rename, delete, fault, git, look, large, warm
    ]
}
