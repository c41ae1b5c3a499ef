"""The LFS API of a repository: batch, locks; the transfer itself is the storage's."""

import hashlib
import json
import secrets

from answers import Answer
from world import NOW

KIND = ("Content-Type", "application/vnd.git-lfs+json; charset=utf-8")
STORE = "github-cloud.s3.amazonaws.com"


def reply(status, value):
    return Answer(status, json.dumps(value), KIND)


def fail(status, text):
    return reply(status, {"message": text, "documentation_url": "https://docs.github.com", "request_id": "FA4E:1"})


def serve(world, request, repository, token, tail):
    body = request.json()
    with world.lock:
        if tail == "objects/batch" and request.method == "POST":
            return batch(world, request, repository, token, body)
        if tail == "locks/verify" and request.method == "POST":
            own = [lock for lock in repository.locks if token and lock["owner"]["name"] == token.viewer.login]
            return reply(200, {"ours": own, "theirs": [lock for lock in repository.locks if lock not in own]})
        if tail == "locks" and request.method == "GET":
            return reply(200, {"locks": repository.locks})
        if not token or not token.write:
            return fail(403, "You must have push access to do that")
        if tail == "locks" and request.method == "POST":
            return lock_path(repository, token, body["path"])
        if tail.startswith("locks/") and tail.endswith("/unlock"):
            for lock in repository.locks:
                if lock["id"] == tail.split("/")[1]:
                    repository.locks.remove(lock)
                    return reply(200, {"lock": lock})
    return fail(404, "Not Found")


def lock_path(repository, token, path):
    for lock in repository.locks:
        if lock["path"] == path:
            return reply(409, {"lock": lock, "message": "already created lock"})
    lock = {"id": secrets.token_hex(4), "path": path, "locked_at": NOW, "owner": {"name": token.viewer.login}}
    repository.locks.append(lock)
    return reply(201, {"lock": lock})


def batch(world, request, repository, token, body):
    """Links for each object, of exactly one method each."""
    operation = body.get("operation")
    if operation not in ("download", "upload"):
        return fail(422, "no such operation")
    if operation == "upload" and not (token and token.write):
        return fail(403, "You must have push access to do that")
    answer = download if operation == "download" else upload
    objects = [answer(world, request, repository, item["oid"], item["size"]) for item in body.get("objects", [])]
    return reply(200, {"transfer": "basic", "objects": objects, "hash_algo": "sha256"})


def download(world, _request, repository, oid, size):
    data = world.large.get((repository.id, oid))
    if data is None:
        return {"oid": oid, "size": size, "error": {"code": 404, "message": "Object does not exist"}}
    path = f"/alambic/media/{repository.id}/{oid[:2]}/{oid}"
    href = world.link(STORE, path, ("GET",), lambda _: (data, "application/octet-stream"))
    actions = {"download": {"href": href, "expires_at": "2099-01-01T00:00:00Z", "expires_in": 3600}}
    return {"oid": oid, "size": len(data), "authenticated": True, "actions": actions}


def upload(world, request, repository, oid, size):
    if (repository.id, oid) in world.large:
        return {"oid": oid, "size": size, "authenticated": True}

    def put(given):
        if hashlib.sha256(given.body).hexdigest() != oid or given.headers.get("x-amz-storage-class") != "STANDARD":
            return None
        world.large[(repository.id, oid)] = given.body
        return b"", "text/plain"

    href = world.link(STORE, f"/alambic/media/{repository.id}/{oid[:2]}/{oid}", ("PUT",), put)
    word = secrets.token_hex(12)
    host = "lfs.github.com" if request.site.web == "https://github.com" else "lfs.acme.ghe.com"
    verify = f"https://{host}{repository.path}/verify"
    world.links[(host, word)] = (("POST",), (repository, oid))
    actions = {
        "upload": {"href": href, "header": {"x-amz-storage-class": "STANDARD"}, "expires_in": 900},
        "verify": {"href": verify, "header": {"Authorization": f"RemoteAuth {word}", "Accept": KIND[1]}, "expires_in": 900},
    }
    return {"oid": oid, "size": size, "authenticated": True, "actions": actions}
