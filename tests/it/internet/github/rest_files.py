"""REST of a repository itself, its files, commits and refs."""

import base64

import gitweb
from answers import Answer, as_json, message, refuse
from gitrepo import Failed
from rest_forms import commit_form, file_form, ref_form, repository_form


def show(call):
    return as_json(200, repository_form(call.repository, call.site, full=True))


def change(call):
    for name, value in call.body.items():
        if name == "name":
            call.world.rename(call.repository, f"{call.repository.owner.login}/{value}")
        elif name in ("description", "homepage", "default_branch"):
            setattr(call.repository, name, value)
        else:
            call.repository.settings[name] = value
    return show(call)


def remove(call):
    call.world.forget(call.repository)
    return Answer(204)


def fork(call):
    import seed

    name = f"{call.viewer.login}/{call.repository.name}"
    made = call.world.find(name) or seed.fork(call.world, name, call.repository)
    return as_json(202, repository_form(made, call.site, full=True))


def forks(call):
    all_of = call.world.repositories.values()
    return call.page([r for r in all_of if r.parent is call.repository and call.token.sees(r)], repository_form)


def readme(call):
    return contents(call, "README.md")


def reference(call):
    return call.request.argument("ref") or call.repository.default_branch


def contents(call, path=""):
    git, path = call.repository.git, path.strip("/")
    commit = git.resolve(reference(call))
    if commit is None:
        return message(404, f"No commit found for the ref {reference(call)}")
    rows = git.tree(commit, path) if path else []
    if path and not rows:
        return message(404, "Not Found")
    if path and rows[0][1] == "blob":
        return one_file(call, rows[0][2], path)
    if path and rows[0][1] == "commit":
        return as_json(200, {"type": "submodule", "name": path.split("/")[-1], "path": path, "sha": rows[0][2], "size": 0})
    kinds = {"blob": "file", "tree": "dir", "commit": "submodule"}
    rows = git.tree(commit, path + "/" if path else "")
    return as_json(200, [
        {"type": kinds[kind], "name": name.split("/")[-1], "path": name, "sha": oid, "size": int(size) if size.isdigit() else 0}
        for _, kind, oid, size, name in rows
    ])


def one_file(call, oid, path):
    data = call.repository.git.bytes("cat-file", "blob", oid)
    if call.request.accepts("raw"):
        return Answer(200, data, ("Content-Type", "application/vnd.github.raw; charset=utf-8"))
    return as_json(200, file_form(data, oid, path, reference(call), call.repository, call.site))


def write(call, path):
    branch = call.body.get("branch") or call.repository.default_branch
    git = call.repository.git
    rows = git.tree(git.branch(branch) or refuse(404, f"Branch {branch} not found"), path)
    if rows and call.body.get("sha") != rows[0][2]:
        return message(409, f"{path} does not match {call.body.get('sha')}")
    data = None if call.request.method == "DELETE" else base64.b64decode(call.body["content"])
    new = git.write_file(branch, path, data, call.body.get("message", "change"))
    gitweb.follow_pushes(call.repository)
    content = None if data is None else file_form(data, git.tree(new, path)[0][2], path, branch, call.repository, call.site)
    return as_json(201 if not rows else 200, {"content": content, "commit": {"sha": new}})


def commits(call):
    git = call.repository.git
    oids = git.log(call.request.argument("sha") or call.repository.default_branch, call.request.argument("path"))
    return call.page(oids, lambda oid, site: commit_form(git.commit(oid), call.repository, site))


def commit(call, revision):
    git = call.repository.git
    found = git.commit(revision)
    if found is None:
        return message(422, f"No commit found for SHA: {revision}")
    if call.request.accepts("diff"):
        return Answer(200, git.bytes("show", "--format=", found["oid"]), ("Content-Type", "application/vnd.github.v3.diff"))
    form = commit_form(found, call.repository, call.site)
    files = git.files(found["parents"][0], found["oid"]) if found["parents"] else []
    return as_json(200, form | {"files": [file_row(row) for row in files], "stats": {"total": sum(r[1] + r[2] for r in files)}})


def file_row(row):
    status = {"A": "added", "D": "removed", "M": "modified"}.get(row[0], "changed")
    return {"filename": row[3], "status": status, "additions": row[1], "deletions": row[2], "changes": row[1] + row[2], "sha": ""}


def statuses_of(call, revision):
    oid = call.repository.git.resolve(revision) or refuse(404, "Not Found")
    return as_json(200, {"state": "success", "statuses": call.repository.statuses.get(oid, []), "sha": oid, "total_count": 0})


def set_status(call, oid):
    row = {"state": call.body.get("state"), "context": call.body.get("context", "default"), "id": next(call.world.numbers)}
    call.repository.statuses.setdefault(oid, []).append(row)
    return as_json(201, row)


def side(call, name):
    """`branch`, `owner:branch` or `owner:repository:branch`: the git directory and a commit in it."""
    parts = name.split(":")
    repository = call.repository
    if len(parts) > 1:
        wanted = f"{parts[0]}/{parts[1] if len(parts) == 3 else repository.name}"
        repository = call.world.find(wanted)
        if repository is None or not call.token.sees(repository):
            refuse(404, "Not Found")
    return repository, repository.git.resolve(parts[-1]) or refuse(404, "Not Found")


def compare(call, base_head):
    base_name, dots, head_name = base_head.partition("...")
    if not dots:
        return message(404, "Not Found")
    (_, base), (other, head) = side(call, base_name), side(call, head_name)
    git = call.repository.git
    if other is not call.repository:
        git.text("fetch", "-q", other.git.path, head)
    if call.request.accepts("diff"):
        return Answer(200, git.bytes("diff", f"{base}...{head}"), ("Content-Type", "application/vnd.github.v3.diff"))
    try:
        merge_base = git.text("merge-base", base, head)
    except Failed:
        return message(404, "No common ancestor between the two")
    ahead, behind = git.log(f"{base}..{head}"), git.log(f"{head}..{base}")
    status = {(0, 0): "identical", (1, 0): "ahead", (0, 1): "behind"}.get((bool(ahead), bool(behind)), "diverged")
    form = lambda oid: commit_form(git.commit(oid), call.repository, call.site)
    return as_json(200, {
        "status": status, "ahead_by": len(ahead), "behind_by": len(behind), "total_commits": len(ahead),
        "base_commit": form(base), "merge_base_commit": form(merge_base), "commits": [form(oid) for oid in reversed(ahead)],
        "files": [file_row(row) for row in git.files(base, head)],
    })


def branches(call):
    return call.page(call.repository.git.refs("refs/heads/"), branch_form)


def branch_form(row, _site):
    return {"name": row[0].removeprefix("refs/heads/"), "commit": {"sha": row[1]}, "protected": False}


def branch(call, name):
    oid = call.repository.git.branch(name)
    return as_json(200, branch_form((name, oid), call.site)) if oid else message(404, "Branch not found")


def rename_branch(call, name):
    git, new = call.repository.git, call.body["new_name"]
    git.set(f"refs/heads/{new}", git.branch(name) or refuse(404, "Branch not found"))
    git.delete(f"refs/heads/{name}")
    return as_json(201, branch_form((new, git.branch(new)), call.site))


def tags(call):
    form = lambda row, _: {"name": row[0].removeprefix("refs/tags/"), "commit": {"sha": row[1]}}
    return call.page(call.repository.git.refs("refs/tags/"), form)


def matching_refs(call, prefix=""):
    return call.page(call.repository.git.refs(f"refs/{prefix}"), lambda row, site: ref_form(row, call.repository, site))


def ref(call, name):
    for row in call.repository.git.refs(f"refs/{name}"):
        if row[0] == f"refs/{name}":
            return as_json(200, ref_form(row, call.repository, call.site))
    return message(404, "Not Found")


def make_ref(call):
    name, git = call.body.get("ref", ""), call.repository.git
    if not name.startswith("refs/") or name.count("/") < 2:
        return message(422, "Reference name must start with 'refs/'")
    if git.resolve(name):
        return message(422, "Reference already exists")
    git.set(name, call.body["sha"])
    return as_json(201, ref_form((name, call.body["sha"], "commit"), call.repository, call.site))


def move_ref(call, name):
    git, new = call.repository.git, call.body["sha"]
    old = git.resolve(f"refs/{name}") or refuse(422, "Reference does not exist")
    if not call.body.get("force") and not git.ancestor(old, new):
        return message(422, "Update is not a fast forward")
    git.set(f"refs/{name}", new)
    gitweb.follow_pushes(call.repository)
    return as_json(200, ref_form((f"refs/{name}", new, "commit"), call.repository, call.site))


def delete_ref(call, name):
    if call.repository.git.resolve(f"refs/{name}") is None:
        return message(422, "Reference does not exist")
    call.repository.git.delete(f"refs/{name}")
    return Answer(204)


def blob(call, oid):
    data = call.repository.git.bytes("cat-file", "blob", oid)
    return as_json(200, {"sha": oid, "size": len(data), "encoding": "base64", "content": base64.b64encode(data).decode()})


def make_blob(call):
    text = call.body.get("content", "")
    data = base64.b64decode(text) if call.body.get("encoding") == "base64" else text.encode()
    return as_json(201, {"sha": call.repository.git.text("hash-object", "-w", "--stdin", given=data)})


def tree(call, revision):
    rows = call.repository.git.tree(revision, deep=bool(call.request.argument("recursive")))
    entries = [{"mode": mode, "type": kind, "sha": oid, "path": path} for mode, kind, oid, _, path in rows]
    return as_json(200, {"sha": revision, "tree": entries, "truncated": False})


def git_commit(call, oid):
    return as_json(200, commit_form(call.repository.git.commit(oid) or refuse(404, "Not Found"), call.repository, call.site)["commit"])


def make_commit(call):
    parents = [word for parent in call.body.get("parents", []) for word in ("-p", parent)]
    oid = call.repository.git.text("commit-tree", call.body["tree"], "-m", call.body["message"], *parents)
    return as_json(201, {"sha": oid, "message": call.body["message"], "tree": {"sha": call.body["tree"]}})


def merge(call):
    git, base = call.repository.git, call.body["base"]
    head = git.resolve(call.body["head"]) or refuse(404, "Head does not exist")
    if git.ancestor(head, git.branch(base) or refuse(404, "Base does not exist")):
        return Answer(204)
    new = git.merge(base, head, call.body.get("commit_message") or f"Merge {call.body['head']} into {base}")
    return as_json(201, commit_form(git.commit(new), call.repository, call.site))


def archive(call, kind, name=""):
    return gitweb.archive_link(call.world, call.request, call.repository, "zip" if kind == "zip" else "tar.gz", name.strip("/"))


def languages(call):
    return as_json(200, {"Text": 100})


def topics(call):
    return as_json(200, {"names": call.repository.topics})


def empty(call, *_):
    return as_json(200, [])


def made(call, *_):
    """A write that only the log is asked about."""
    return as_json(201, {"id": next(call.world.numbers), "url": call.site.api})


ROUTES = [
    ("GET", "", show), ("PATCH", "", change), ("DELETE", "", remove),
    ("GET", "/forks", forks), ("POST", "/forks", fork),
    ("GET", "/readme(?:/.*)?", readme), ("GET", "/contents(/.*)?", contents),
    ("PUT", "/contents/(.+)", write), ("DELETE", "/contents/(.+)", write),
    ("GET", "/commits", commits), ("GET", "/commits/([^/]+)", commit), ("GET", "/commits/(.+)/status", statuses_of),
    ("POST", "/statuses/([0-9a-f]+)", set_status), ("GET", "/compare/(.+)", compare),
    ("GET", "/branches", branches), ("GET", "/branches/([^/]+)", branch), ("POST", "/branches/(.+)/rename", rename_branch),
    ("GET", "/tags", tags), ("GET", "/git/refs", matching_refs), ("GET", "/git/matching-refs/(.*)", matching_refs),
    ("GET", "/git/refs?/(.+)", ref), ("POST", "/git/refs", make_ref), ("PATCH", "/git/refs/(.+)", move_ref),
    ("DELETE", "/git/refs/(.+)", delete_ref), ("GET", "/git/blobs/([0-9a-f]+)", blob), ("POST", "/git/blobs", make_blob),
    ("GET", "/git/trees/([^/]+)", tree), ("GET", "/git/commits/([0-9a-f]+)", git_commit), ("POST", "/git/commits", make_commit),
    ("POST", "/merges", merge), ("GET", "/(tar|zip)ball(/.*)?", archive), ("GET", "/languages", languages),
    ("GET", "/topics", topics), ("GET", "/rules/branches/.+|/rulesets.*|/hooks|/keys|/collaborators", empty),
    ("GET", "/secret-scanning/alerts|/stargazers|/events|/activity|/contributors|/deployments", empty),
    ("POST", "/(?:hooks|keys|transfer|generate|dispatches|deployments|actions/runners/registration-token)", made),
    ("PUT", "/(?:collaborators/.+|subscription|topics|actions/secrets/.+|import)", made),
]
