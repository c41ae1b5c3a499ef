"""The web host: git smart HTTP by the real backend, archives, raw files; and the hosts of files."""

import gzip
import os
import re
import subprocess
from urllib.parse import unquote

import lfs
from answers import Answer, Refusal, redirect
from gitrepo import Failed, Git
from world import Unknown

REPOSITORY = re.compile(r"^/([^/]+)/([^/]+?)(\.git)?/(info/refs|git-upload-pack|git-receive-pack|info/lfs/.*)$")
FILES = re.compile(r"^/([^/]+)/([^/]+)/(archive|tarball|zipball|raw|releases/download|releases/latest)(?:/(.*))?$")


def text(status, line, *headers):
    return Answer(status, line + "\n", ("Content-Type", "text/plain; charset=utf-8"), *headers)


def ask():
    return text(401, "Repository not found.", ("WWW-Authenticate", 'Basic realm="GitHub"'))


def serve(world, request):
    owner, slash, rest = request.path.lstrip("/").partition("/")
    name, below, tail = rest.rstrip("/").partition("/")
    path = f"/{unquote(owner)}{slash}{unquote(name)}{below}{tail}"
    if match := REPOSITORY.match(path):
        owner, name, _, tail = match.groups()
        wiki = name.endswith(".wiki")
        full = f"{owner}/{name.removesuffix('.wiki')}"
        with world.lock:
            repository, token = visible(world, request, full, ask)
        if tail.startswith("info/lfs/"):
            return lfs.serve(world, request, repository, token, tail.removeprefix("info/lfs/"))
        git = Git(world.directory, f"{repository.id}.wiki") if wiki else repository.git
        if not os.path.exists(git.path):
            return text(404, "Repository not found.")
        return backend(world, request, repository, git, token, tail)
    if match := FILES.match(path):
        owner, name, kind, rest = match.groups()
        with world.lock:
            repository, _ = visible(world, request, f"{owner}/{name}", lambda: text(404, "Not Found"))
            return file_page(world, request, repository, kind, rest or "")
    return text(404, "Not Found")


def visible(world, request, name, without):
    """The repository of a name and the token, or the answer of one who may not see it."""
    try:
        token = world.token(request)
    except Unknown:
        raise Refusal(text(401, "Invalid username or token.", ("WWW-Authenticate", 'Basic realm="GitHub"'))) from None
    repository = world.find(name)
    moved = None if repository else world.moved(name)
    if moved and token and token.sees(moved) and request.method == "POST":
        return moved, token  # git that was asked to authenticate before it was redirected keeps to the old name
    if moved and token and token.sees(moved):
        tail = request.target.split("/", 3)[3]
        suffix = ".git" if request.path.split("/")[2].endswith(".git") else ""
        raise Refusal(Answer(301, "", ("Location", f"{request.site.web}{moved.path}{suffix}/{tail}")))
    if repository and repository.public and token is None:
        return repository, None
    if token is None:
        raise Refusal(without())
    if repository is None or not token.sees(repository):
        raise Refusal(text(404, "Repository not found."))
    return repository, token


def backend(world, request, repository, git, token, tail):
    """The real `git http-backend` as a CGI program."""
    service = request.argument("service") if tail == "info/refs" else tail
    if service not in ("git-upload-pack", "git-receive-pack"):
        return text(403, "Please upgrade your git client. GitHub.com no longer supports git over dumb-http.")
    if service == "git-receive-pack" and token is None:
        return ask()
    if service == "git-receive-pack" and not token.write:
        return text(403, f"Permission to {repository.full_name}.git denied to {token.viewer.login}.")
    body = request.body
    if request.headers.get("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    environment = {
        **git.environment(),
        "GIT_PROJECT_ROOT": git.root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": f"/{git.name}/{tail}",
        "QUERY_STRING": request.query_text, "REQUEST_METHOD": request.method, "REMOTE_USER": "octo-user",
        "CONTENT_TYPE": request.headers.get("Content-Type") or "", "CONTENT_LENGTH": str(len(body)),
        "GIT_PROTOCOL": request.headers.get("Git-Protocol") or "", "REMOTE_ADDR": "11.22.33.1",
    }
    done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=environment, check=False)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    status, headers = 200, []
    for line in head.decode("latin-1").splitlines():
        name, _, value = line.partition(": ")
        if name.lower() == "status":
            status = int(value[:3])
        else:
            headers.append((name, value))
    if service == "git-receive-pack" and request.method == "POST":
        with world.lock:
            follow_pushes(repository)
    return Answer(status, body, *headers)


def follow_pushes(repository):
    """Moves the heads of open pull requests to where their branches are now."""
    for thing in repository.issues.values():
        if thing.kind != "PullRequest" or thing.state != "OPEN" or thing.head_repository is not repository:
            continue
        now = repository.git.branch(thing.head_ref_name)
        if now and now != thing.head_oid:
            thing.head_oid = now
            repository.git.set(f"refs/pull/{thing.number}/head", now)


def file_page(world, request, repository, kind, rest):
    if kind == "raw":
        return redirect(302, f"{request.site.raw}{repository.path}/{rest}")
    if kind == "releases/download":
        tag, _, name = rest.rpartition("/")
        found = [asset for release in repository.releases if release.tag_name == tag for asset in release.assets]
        for asset in found:
            if asset.name == name:
                return redirect(302, world.store(asset.data, "release-assets.githubusercontent.com", name=name))
        return text(404, "Not Found")
    if kind == "releases/latest":
        published = [release for release in repository.releases if not release.is_draft]
        return redirect(302, request.site.web + published[0].path) if published else text(404, "Not Found")
    return archive_link(world, request, repository, "zip" if kind == "zipball" or rest.endswith(".zip") else "tar.gz", rest)


def archive_link(world, request, repository, kind, reference):
    """302 to codeload, with a token of its own."""
    reference = re.sub(r"\.(zip|tar\.gz)$", "", reference) or repository.default_branch
    commit = repository.git.resolve(reference)
    if commit is None:
        return text(404, "Not Found")
    data = repository.git.bytes("archive", f"--format={kind}", f"--prefix={repository.name}-{reference}/", commit)
    host = request.site.codeload.removeprefix("https://").split("/")[0]
    word = "legacy.zip" if kind == "zip" else "legacy.tar.gz"
    prefix = request.site.codeload.removeprefix(f"https://{host}")
    path = f"{repository.path}/{word}/{reference}"
    link = world.link(host, path, ("GET", "HEAD"), lambda _: (data, "application/x-gzip"))
    return redirect(302, f"https://{host}{prefix}" + link.removeprefix(f"https://{host}"))


def serve_codeload(world, request):
    """A link with its own token, in both of its spellings, or a path with a credential."""
    owner, name, kind, reference = (request.segments() + ["", "", ""])[:4]
    form = "zip" if "zip" in kind else "tar.gz"
    target = request.path + ("?" + request.query_text if request.query_text else "")
    named = target if "/legacy." in target else target.replace(f"/{form}/", f"/legacy.{form}/")
    with world.lock:
        if found := world.links.get((request.host, named)):
            data = found[1](request)[0]
        else:
            repository, _ = visible(world, request, f"{owner}/{name}", ask)
            try:
                data = repository.git.bytes("archive", f"--format={form}", f"--prefix={name}/", reference)
            except Failed:
                return text(404, "Not Found")
    kept = ("Content-Disposition", f"attachment; filename={name}-{reference.rpartition('/')[2]}.{form}")
    return Answer(200, data, ("Content-Type", "application/x-gzip"), kept)


def serve_raw(world, request):
    segments = request.segments()
    with world.lock:
        repository, _ = visible(world, request, "/".join(segments[:2]), lambda: text(404, "404: Not Found"))
        rest = segments[2:]
        rest = rest[2:] if rest[:2] == ["refs", "heads"] else rest
        try:
            data = repository.git.bytes("cat-file", "blob", f"{rest[0]}:{'/'.join(rest[1:])}")
        except (Failed, IndexError):
            return text(404, "404: Not Found")
    return Answer(200, data, ("Content-Type", "text/plain; charset=utf-8"))


def serve_media(world, request):
    """`/media/OWNER/NAME/REF/PATH`: what the pointer at the path points to."""
    segments = request.segments()[1:]
    with world.lock:
        repository, _ = visible(world, request, "/".join(segments[:2]), lambda: text(404, "Not Found"))
        try:
            pointer = repository.git.text("cat-file", "blob", f"{segments[2]}:{'/'.join(segments[3:])}")
        except (Failed, IndexError):
            return text(404, "Not Found")
        oid = pointer.partition("sha256:")[2].split("\n")[0]
        data = world.large.get((repository.id, oid))
    return Answer(200, data, ("Content-Type", "application/octet-stream")) if data else text(404, "Not Found")
