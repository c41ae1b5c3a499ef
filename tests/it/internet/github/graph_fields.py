"""What stands behind the fields of GraphQL that clients look at."""

import base64
import re

from search import find_issues
from world import NOW, Thing, node_id


class NotThere(Exception):
    """An error of one field, in GitHub's words, and its kind."""

    def __init__(self, text, kind="NOT_FOUND"):
        super().__init__(text)
        self.kind = kind


# What a document starts from.


def repository_named(call, owner, name, follow=True):
    full = f"{owner}/{name}"
    found = call.world.find(full) or (call.world.moved(full) if follow else None)
    if found is None or not call.token.sees(found):
        raise NotThere(f"Could not resolve to a Repository with the name '{full}'.")
    return found


def node(call, text):
    """A thing by its id of today's form or of the older one, if the asker sees the repository it is in."""
    found = call.world.nodes.get(text) or older(call.world, text)
    repository = getattr(found, "repository", None)
    if found is None or (repository is not None and not call.token.sees(repository)):
        raise NotThere(f"Could not resolve to a node with the global id of '{text}'")
    return found


def older(world, text):
    """`011:PullRequest5003` in base64."""
    try:
        match = re.fullmatch(r"0\d+:([A-Za-z]+)(\d+)", base64.b64decode(text, validate=True).decode())
    except ValueError:
        return None
    wanted = match and (match.group(1), int(match.group(2)))
    return next((thing for thing in world.nodes.values() if (thing.kind, thing.id) == wanted), None)


def nodes(call, ids):
    return [node(call, text) if call.world.nodes.get(text) or older(call.world, text) else None for text in ids]


def resource(call, url):
    parts = url.removeprefix(call.site.web).strip("/").split("/")
    found = repository_named(call, *parts[:2])
    if len(parts) == 4 and parts[2] in ("issues", "pull"):
        return issue_of(found, int(parts[3]))
    return found


def search(call, arguments):
    if arguments["type"] == "REPOSITORY":
        words = arguments["query"].lower().split()
        seen = [r for r in call.world.repositories.values() if call.token.sees(r)]
        return [r for r in seen if all(word in r.full_name.lower() for word in words)]
    return find_issues(call.world, call.token, arguments["query"])


def account(call, login, kind):
    found = call.world.accounts.get(login.lower())
    if found is None or found.kind != kind:
        raise NotThere(f"Could not resolve to a {kind} with the login of '{login}'.")
    return found


# Repositories.


def issue_of(repository, number, kind=None):
    found = repository.issues.get(number)
    if found is None or (kind and found.kind != kind):
        raise NotThere(f"Could not resolve to an {kind or 'issue or pull request'} with the number of {number}.")
    return found


def listed(repository, kind, arguments):
    """In the order asked for: newest first unless the other is."""
    found = [issue for issue in repository.issues.values() if issue.kind == kind]
    filters = arguments.get("filterBy") or {}
    states = arguments.get("states") or filters.get("states")
    wanted = arguments.get("labels") or filters.get("labels")
    found = [i for i in found if not states or i.state in states]
    found = [i for i in found if not wanted or set(wanted) & {label.name for label in i.labels}]
    for argument, name in [("headRefName", "head_ref_name"), ("baseRefName", "base_ref_name")]:
        if arguments.get(argument):
            found = [i for i in found if getattr(i, name) == arguments[argument]]
    ascending = (arguments.get("orderBy") or {}).get("direction") == "ASC"
    return found if ascending else found[::-1]


def release_named(repository, tag):
    return next((r for r in repository.releases if r.tag_name == tag), None)


def ref(world, repository, name):
    """A branch or tag by its full name or the short one."""
    for full in (name, f"refs/heads/{name}", f"refs/tags/{name}"):
        oid = repository.git.resolve(full) if full.startswith("refs/") else None
        if oid:
            short = full.split("/", 2)[2]
            key = ("ref", repository.id, full)
            thing = world.stored.get(key)
            if thing is None:
                thing = Thing("Ref", 0, node_id("REF", repository.id, next(world.numbers)), name=short, repository=repository)
                thing.full, thing.prefix = full, full[: -len(short)]
                world.stored[key] = world.nodes[thing.node] = thing
            return thing
    return None


def refs(world, repository, arguments):
    query = arguments.get("query") or ""
    rows = repository.git.refs(arguments["refPrefix"])
    return [ref(world, repository, row[0]) for row in rows if query in row[0]]


def commit(world, repository, revision):
    parts = repository.git.commit(revision)
    if parts is None:
        return None
    key = ("commit", repository.id, parts["oid"])
    if key not in world.stored:
        node_text = "C_" + base64.urlsafe_b64encode(f"{repository.id}:{parts['oid']}".encode()).decode().rstrip("=")
        thing = Thing("Commit", 0, node_text, repository=repository, oid=parts["oid"], parts=parts)
        thing.path = f"{repository.path}/commit/{parts['oid']}"
        thing.message, thing.message_headline = parts["text"].strip(), parts["text"].split("\n")[0]
        thing.committed_date, thing.authored_date = parts["committed"], parts["date"]
        thing.abbreviated_oid = parts["oid"][:7]
        world.stored[key] = world.nodes[node_text] = thing
    return world.stored[key]


def git_object(world, repository, arguments):
    expression = arguments.get("oid") or arguments.get("expression")
    revision, _, path = expression.partition(":")
    if not path:
        return commit(world, repository, revision)
    found = repository.git.resolve(revision)
    rows = repository.git.tree(found, path) if found else []
    if not rows or rows[0][1] != "blob":
        return None
    data = repository.git.bytes("cat-file", "blob", rows[0][2])
    node_text = node_id("B", repository.id, int(rows[0][2][:7], 16))
    thing = Thing("Blob", 0, node_text, repository=repository, oid=rows[0][2], text=data.decode("utf-8", "replace"))
    thing.byte_size, thing.is_binary = len(data), False
    world.nodes[node_text] = thing
    return thing


def git_actor(parts, name, email, date):
    return {"name": parts[name], "email": parts[email], "date": parts[date], "user": None}


def rollup(world, thing):
    """The checks on a commit, or nothing where there are none."""
    checks = [check for check in thing.repository.check_runs if check.head_sha == thing.oid]
    if not checks:
        return None
    return {"id": "SCR_1", "state": "SUCCESS", "contexts": checks, "commit": thing}


def suite(check):
    run = check.run
    workflow = run and {"event": run.event, "workflow": run.workflow, "url": "https://github.com" + run.path, "databaseId": run.id}
    return {"id": "CS_1", "databaseId": run.suite_id if run else 1, "workflowRun": workflow, "status": "COMPLETED"}


# Pull requests.


def commits(world, pull):
    oids = pull.repository.git.log(f"{pull.base_oid}..{pull.head_oid}")[::-1]
    made = [commit(world, pull.repository, oid) for oid in oids]
    return [{"id": "PRC_" + thing.node, "commit": thing, "pullRequest": pull} for thing in made]


def files(pull):
    kinds = {"A": "ADDED", "D": "DELETED", "M": "MODIFIED"}
    rows = pull.repository.git.files(pull.base_oid, pull.head_oid)
    return [{"path": row[3], "additions": row[1], "deletions": row[2], "changeType": kinds.get(row[0], "CHANGED")} for row in rows]


def summed(pull, name):
    return sum(row[name] for row in files(pull))


def timeline(call, issue):
    """Its comments, and a mention from a repository that the asker may or may not see."""
    rows, foreign = list(issue.comments), call.world.find("other/secret")
    if foreign and call.token.sees(foreign):
        rows.append({"__typename": "CrossReferencedEvent", "source": foreign.issues[1], "target": issue, "createdAt": NOW})
    return rows


def repositories_of(call, owner):
    return [r for r in call.world.repositories.values() if r.owner is owner and call.token.sees(r)]


ISSUE = {
    "closed": lambda o, a, c: o.state != "OPEN",
    "comments": lambda o, a, c: o.comments,
    "bodyText": lambda o, a, c: o.body,
    "bodyHTML": lambda o, a, c: o.body,
    "timelineItems": lambda o, a, c: timeline(c, o),
    "reactionGroups": lambda o, a, c: [],
    "viewerDidAuthor": lambda o, a, c: o.author is c.viewer,
}
REPOSITORY_OWNER = {
    "repositories": lambda o, a, c: repositories_of(c, o),
    "repository": lambda o, a, c: repository_named(c, o.login, a["name"]),
    "avatarUrl": lambda o, a, c: "https://avatars.githubusercontent.com/u/1",
}
FIELDS = {
    "Query": {
        "repository": lambda o, a, c: repository_named(c, a["owner"], a["name"], a.get("followRenames", True)),
        "node": lambda o, a, c: node(c, a["id"]),
        "nodes": lambda o, a, c: nodes(c, a["ids"]),
        "resource": lambda o, a, c: resource(c, a["url"]),
        "search": lambda o, a, c: search(c, a),
        "viewer": lambda o, a, c: c.viewer if c.viewer.kind == "User" else {"login": c.viewer.login, "id": c.viewer.node},
        "user": lambda o, a, c: account(c, a["login"], "User"),
        "organization": lambda o, a, c: account(c, a["login"], "Organization"),
        "repositoryOwner": lambda o, a, c: c.world.accounts.get(a["login"].lower()),
        "relay": lambda o, a, c: {},
        "rateLimit": lambda o, a, c: {"limit": 5000, "remaining": 4999, "used": 1, "cost": 1, "nodeCount": 0},
    },
    "User": REPOSITORY_OWNER,
    "Organization": REPOSITORY_OWNER,
    "Bot": {},
    "Repository": {
        "nameWithOwner": lambda o, a, c: o.full_name,
        "isFork": lambda o, a, c: o.parent is not None,
        "isPrivate": lambda o, a, c: not o.public,
        "visibility": lambda o, a, c: "PUBLIC" if o.public else "PRIVATE",
        "defaultBranchRef": lambda o, a, c: ref(c.world, o, f"refs/heads/{o.default_branch}"),
        "viewerPermission": lambda o, a, c: "WRITE" if c.token.write else "READ",
        "viewerCanAdminister": lambda o, a, c: False,
        "hasIssuesEnabled": lambda o, a, c: True,
        "hasWikiEnabled": lambda o, a, c: True,
        "mergeCommitAllowed": lambda o, a, c: True,
        "rebaseMergeAllowed": lambda o, a, c: True,
        "squashMergeAllowed": lambda o, a, c: True,
        "sshUrl": lambda o, a, c: f"git@{c.site.web.removeprefix('https://')}:{o.full_name}.git",
        "tempCloneToken": lambda o, a, c: "temporary-clone-token-of-" + o.name,
        "issue": lambda o, a, c: issue_of(o, a["number"], "Issue"),
        "pullRequest": lambda o, a, c: issue_of(o, a["number"], "PullRequest"),
        "issueOrPullRequest": lambda o, a, c: issue_of(o, a["number"]),
        "issues": lambda o, a, c: listed(o, "Issue", a),
        "pullRequests": lambda o, a, c: listed(o, "PullRequest", a),
        "label": lambda o, a, c: next((label for label in o.labels if label.name == a["name"]), None),
        "release": lambda o, a, c: release_named(o, a["tagName"]),
        "releases": lambda o, a, c: o.releases,
        "latestRelease": lambda o, a, c: next((r for r in o.releases if not r.is_draft), None),
        "ref": lambda o, a, c: ref(c.world, o, a["qualifiedName"]),
        "refs": lambda o, a, c: refs(c.world, o, a),
        "object": lambda o, a, c: git_object(c.world, o, a),
        "forks": lambda o, a, c: [r for r in c.world.repositories.values() if r.parent is o and c.token.sees(r)],
        "assignableUsers": lambda o, a, c: [c.world.accounts["octo-user"]],
        "mentionableUsers": lambda o, a, c: [c.world.accounts["octo-user"]],
        "repositoryTopics": lambda o, a, c: [],
        "pushedAt": lambda o, a, c: NOW,
    },
    "Issue": {**ISSUE, "subIssues": lambda o, a, c: getattr(o, "sub_issues", [])},
    "PullRequest": {
        **ISSUE,
        "headRefOid": lambda o, a, c: o.head_oid,
        "baseRefOid": lambda o, a, c: o.base_oid,
        "headRef": lambda o, a, c: ref(c.world, o.head_repository, f"refs/heads/{o.head_ref_name}"),
        "baseRef": lambda o, a, c: ref(c.world, o.repository, f"refs/heads/{o.base_ref_name}"),
        "headRepository": lambda o, a, c: o.head_repository,
        "baseRepository": lambda o, a, c: o.repository,
        "headRepositoryOwner": lambda o, a, c: o.head_repository.owner,
        "isCrossRepository": lambda o, a, c: o.head_repository is not o.repository,
        "mergeable": lambda o, a, c: "MERGEABLE",
        "mergeStateStatus": lambda o, a, c: "CLEAN",
        "merged": lambda o, a, c: o.state == "MERGED",
        "mergeCommit": lambda o, a, c: commit(c.world, o.repository, o.merge_sha) if o.merge_sha else None,
        "commits": lambda o, a, c: commits(c.world, o),
        "files": lambda o, a, c: files(o),
        "changedFiles": lambda o, a, c: len(files(o)),
        "additions": lambda o, a, c: summed(o, "additions"),
        "deletions": lambda o, a, c: summed(o, "deletions"),
        "reviews": lambda o, a, c: o.reviews,
        "latestReviews": lambda o, a, c: o.reviews,
        "reviewRequests": lambda o, a, c: [{"id": "RRQ_1", "requestedReviewer": account} for account in o.requested],
        "closingIssuesReferences": lambda o, a, c: [i for i in o.repository.issues.values() if i.kind == "Issue"][:1],
        "statusCheckRollup": lambda o, a, c: rollup(c.world, commit(c.world, o.repository, o.head_oid)),
    },
    "PullRequestReview": {"submittedAt": lambda o, a, c: NOW, "pullRequest": lambda o, a, c: o.pull},
    "IssueComment": {"issue": lambda o, a, c: o.subject, "authorAssociation": lambda o, a, c: "MEMBER"},
    "Label": {"isDefault": lambda o, a, c: False},
    "Milestone": {"state": lambda o, a, c: o.state.upper()},
    "Release": {
        "releaseAssets": lambda o, a, c: o.assets,
        "description": lambda o, a, c: o.body,
        "isLatest": lambda o, a, c: o is next((r for r in o.repository.releases if not r.is_draft), None),
        "tag": lambda o, a, c: ref(c.world, o.repository, f"refs/tags/{o.tag_name}"),
    },
    "ReleaseAsset": {"size": lambda o, a, c: len(o.data), "release": lambda o, a, c: o.release},
    "Ref": {
        "target": lambda o, a, c: commit(c.world, o.repository, o.full),
        "associatedPullRequests": lambda o, a, c: [
            i for i in o.repository.issues.values() if i.kind == "PullRequest" and i.head_ref_name == o.name
        ],
        "branchProtectionRule": lambda o, a, c: None,
    },
    "Commit": {
        "messageBody": lambda o, a, c: "\n".join(o.message.split("\n")[2:]),
        "author": lambda o, a, c: git_actor(o.parts, "name", "email", "date"),
        "committer": lambda o, a, c: git_actor(o.parts, "committer", "committer_email", "committed"),
        "authors": lambda o, a, c: [git_actor(o.parts, "name", "email", "date")],
        "parents": lambda o, a, c: [commit(c.world, o.repository, oid) for oid in o.parts["parents"]],
        "history": lambda o, a, c: [commit(c.world, o.repository, oid) for oid in o.repository.git.log(o.oid)],
        "statusCheckRollup": lambda o, a, c: rollup(c.world, o),
        "zipballUrl": lambda o, a, c: f"{c.site.codeload}{o.repository.path}/legacy.zip/{o.oid}?token=CODELOAD",
        "tarballUrl": lambda o, a, c: f"{c.site.codeload}{o.repository.path}/legacy.tar.gz/{o.oid}?token=CODELOAD",
        "associatedPullRequests": lambda o, a, c: [
            i for i in o.repository.issues.values() if i.kind == "PullRequest" and i.head_oid == o.oid
        ],
    },
    "CheckRun": {
        "startedAt": lambda o, a, c: NOW,
        "completedAt": lambda o, a, c: NOW,
        "detailsUrl": lambda o, a, c: f"{c.site.web}/check/{o.id}",
        "url": lambda o, a, c: f"{c.site.web}/check/{o.id}",
        "isRequired": lambda o, a, c: False,
        "checkSuite": lambda o, a, c: suite(o),
    },
    "Workflow": {"name": lambda o, a, c: o.name},
}
