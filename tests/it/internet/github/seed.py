"""The world at its beginning.

| repository | id | what it has |
|---|---|---|
| acme/widget | 1001, node id R_ok | submodule libs/lib, LFS file big.bin, tags, pull request 2, issues 1 and 3, release v1, run 100, wiki |
| acme/lib | 1002 | one file |
| acme/private-lib | 1003 | one file |
| other/secret | 2001 | a file, an issue, a pull request, a release: nothing of it may ever be seen |
| other/public | 2002 | seen by everybody |
| evil/widget | 3001 | a fork of acme/widget with a branch of its own |

acme/old was the name of acme/widget."""

import hashlib
import os

from gitrepo import Git
from world import NOW

LARGE = b"large file of acme/widget\n" * 400
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"


def plant(world):
    for login, kind, number in [
        ("acme", "Organization", 11), ("other", "Organization", 12), ("evil", "User", 13),
        ("octo-user", "User", 14), ("acme-app[bot]", "Bot", 15),
    ]:
        world.account(login, kind, number)
    world.installations = {
        71: {"id": 71, "account": "acme", "suspended": False}, 72: {"id": 72, "account": "other", "suspended": False}
    }
    lib = simple(world, "acme/lib", 1002)
    simple(world, "acme/private-lib", 1003)
    widget(world, lib)
    secret = simple(world, "other/secret", 2001)
    issue(world, secret, "secret issue", "secret body")
    pull(world, secret, "feature", "secret pull request")
    release(world, secret, "v1", "secret-asset.txt", b"secret asset\n")
    simple(world, "other/public", 2002, public=True)
    fork(world, "evil/widget", world.find("acme/widget"), 3001)
    world.renamed["acme/old"] = 1001


def simple(world, name, number=None, public=False):
    """A repository with a README on main and a branch `feature` one commit ahead."""
    repository = world.repository(name, number, public=public)
    repository.git.create()
    first = repository.git.write_file("main", "README.md", f"# {name}\n\nhello from {name}\n".encode(), "first")
    repository.git.set("refs/heads/feature", first)
    repository.git.write_file("feature", "feature.txt", b"a feature\n", "Add a feature")
    for label in ["bug", "enhancement"]:
        repository.labels.append(world.add("Label", repository, name=label, color="d73a4a", description=""))
    return repository


def widget(world, lib, name="acme/widget", number=1001, node="R_ok"):
    """The one that tests are allowed to use."""
    repository = world.repository(name, number, node)
    git = repository.git
    git.create()
    oid = hashlib.sha256(LARGE).hexdigest()
    world.large[(repository.id, oid)] = LARGE
    files = {
        "README.md": f"# {name}\n\nhello from {name}\n",
        "src/main.txt": "line\n" * 20,
        ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
        "big.bin": POINTER.format(oid, len(LARGE)),
        ".gitmodules": '[submodule "libs/lib"]\n\tpath = libs/lib\n\turl = https://github.com/acme/lib.git\n',
        ".github/workflows/ci.yml": "name: CI\non: push\n",
    }
    for path, text in files.items():
        git.write_file("main", path, text.encode(), f"Add {path}")
    with_submodule(git, "libs/lib", lib.git.branch("main"))
    main = git.branch("main")
    git.set("refs/tags/v1", main)
    git.set("refs/heads/feature", main)
    git.write_file("feature", "feature.txt", b"a feature\n", "Add a feature")
    for label in ["bug", "enhancement"]:
        repository.labels.append(world.add("Label", repository, name=label, color="d73a4a", description=""))
    repository.milestones.append(world.add("Milestone", repository, number=1, title="one", state="open"))
    issue(world, repository, "first issue", "its body")
    pull(world, repository, "feature", "first pull request")
    issue(world, repository, "second issue", "another body")
    release(world, repository, "v1", "asset.txt", b"asset of widget\n")
    runs(world, repository)
    wiki = Git(world.directory, f"{repository.id}.wiki")
    wiki.create()
    wiki.write_file("master", "Home.md", b"wiki of widget\n", "wiki")
    wiki.text("symbolic-ref", "HEAD", "refs/heads/master")
    return repository


def with_submodule(git, path, commit):
    index = {"GIT_INDEX_FILE": os.path.join(git.path, "fake-index")}
    parent = git.branch("main")
    git.indexed(index, "read-tree", parent)
    git.indexed(index, "update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    tree = git.indexed(index, "write-tree")
    os.remove(index["GIT_INDEX_FILE"])
    git.set("refs/heads/main", git.text("commit-tree", tree, "-m", "Add a submodule", "-p", parent))


def fork(world, name, parent, number=None):
    """A fork, with a branch `evil` that the parent does not have; the two share their objects, as on GitHub."""
    repository = world.repository(name, number, parent=parent)
    repository.git.create(parent.git)
    repository.git.write_file("evil", "evil.txt", b"of the fork only\n", "Only in the fork")
    with open(os.path.join(parent.git.path, "objects/info/alternates"), "a", encoding="utf-8") as file:
        file.write(os.path.join(repository.git.path, "objects") + "\n")
    return repository


def issue(world, repository, title, body="", author="octo-user"):
    thing = world.add("Issue", repository, title=title, body=body, state="OPEN", comments=[], labels=[], assignees=[])
    return numbered(world, repository, thing, author, "issues")


def pull(world, repository, head, title, body="", base=None, head_repository=None, draft=False):
    thing = world.add(
        "PullRequest", repository, title=title, body=body, state="OPEN", comments=[], labels=[], assignees=[],
        head_ref_name=head, base_ref_name=base or repository.default_branch, is_draft=draft, reviews=[],
        head_repository=head_repository or repository, requested=[], merged_at=None, merge_sha=None,
    )
    numbered(world, repository, thing, "octo-user", "pull")
    thing.head_oid = thing.head_repository.git.branch(head)
    thing.base_oid = repository.git.branch(thing.base_ref_name)
    if thing.head_repository is repository:
        repository.git.set(f"refs/pull/{thing.number}/head", thing.head_oid)
    else:
        source = thing.head_repository.git.path
        repository.git.text("fetch", "-q", source, f"refs/heads/{head}:refs/pull/{thing.number}/head")
    return thing


def numbered(world, repository, thing, author, word):
    thing.number = max(repository.issues, default=0) + 1
    thing.path = f"{repository.path}/{word}/{thing.number}"
    thing.author, thing.milestone, thing.closed_at, thing.locked = world.accounts[author], None, None, False
    repository.issues[thing.number] = thing
    return thing


def comment(world, thing, body, author):
    made = world.add("IssueComment", thing.repository, body=body, author=author, subject=thing, includes_created_edit=False)
    made.path = f"{thing.path}#issuecomment-{made.id}"
    thing.comments.append(made)
    return made


def release(world, repository, tag, asset=None, data=b"", draft=False, name=None, body="notes"):
    made = world.add(
        "Release", repository, tag_name=tag, name=name or tag, body=body, is_draft=draft, is_prerelease=False, assets=[],
        author=world.accounts["octo-user"], published_at=None if draft else NOW, target=repository.default_branch,
    )
    made.path = f"{repository.path}/releases/tag/{tag}"
    repository.releases.insert(0, made)
    if not draft and repository.git.resolve(f"refs/tags/{tag}") is None:
        repository.git.set(f"refs/tags/{tag}", repository.git.branch(repository.default_branch))
    if asset:
        add_asset(world, made, asset, data, "text/plain", "")
    return made


def add_asset(world, release_, name, data, kind, label):
    made = world.add("ReleaseAsset", release_.repository, name=name, data=data, content_type=kind, label=label)
    made.release, made.download_count = release_, 0
    release_.assets.append(made)
    return made


def runs(world, repository):
    """Workflow 7 with its run 100, one job, one artifact, and the check run on the head of `feature`."""
    workflow = world.add("Workflow", repository, name="CI", state="active")
    workflow.path = ".github/workflows/ci.yml"
    head = repository.git.branch("feature")
    run = world.add(
        "WorkflowRun", repository, name="CI", status="completed", conclusion="success", event="push", workflow=workflow,
        head_branch="feature", head_sha=head, attempt=1, title="Add a feature", number=1, log=b"build\tall is well\n",
    )
    job = world.add("CheckRun", repository, name="build", status="COMPLETED", conclusion="SUCCESS", head_sha=head)
    artifact = world.add("Artifact", repository, name="results", data=b"result of the run\n", run=run)
    if repository.id == 1001:
        workflow.id, run.id, job.id, artifact.id = 7, 100, 200, 300
    run.suite_id = run.id + 9
    job.run = run
    run.path = f"{repository.path}/actions/runs/{run.id}"
    repository.workflows, repository.runs = [workflow], [run]
    repository.check_runs, repository.artifacts = [job], [artifact]
