"""The hosts behind links: exact URLs, no credential; and the host that LFS uploads are verified on."""

from answers import Answer
from lfs import fail, reply


def deny(status, code):
    return Answer(status, f"<Error><Code>{code}</Code></Error>\n", ("Content-Type", "application/xml"))


def serve(world, request):
    """As a bucket: a link is signed for one host, one path, one query and its methods; a second credential is an error."""
    target = request.path + ("?" + request.query_text if request.query_text else "")
    with world.lock:
        found = world.links.get((request.host, target))
        if request.headers.get("Authorization"):
            return deny(400, "InvalidArgument: only one auth mechanism allowed")
        if found is None or request.method not in found[0]:
            return deny(403, "SignatureDoesNotMatch")
        got = found[1](request)
        if got is None:
            return deny(400, "BadDigest")
        data, kind = got
    return ranged(request, data, kind)


def ranged(request, data, kind):
    """The whole, or the bytes from the place that `Range` names on."""
    headers = [("Content-Type", kind), ("Accept-Ranges", "bytes"), ("ETag", f'"{len(data)}"')]
    wanted = request.headers.get("Range") or ""
    start = wanted.removeprefix("bytes=").split("-")[0]
    if not start.isdigit() or int(start) >= len(data):
        return Answer(200, data, *headers)
    part = data[int(start):]
    place = f"bytes {start}-{len(data) - 1}/{len(data)}"
    return Answer(206, part, *headers, ("Content-Range", place))


def serve_lfs(world, request):
    """Verify: only with the word that the batch answer gave."""
    word = request.credential() or ""
    with world.lock:
        found = world.links.get((request.host, word))
        if found is None or not (request.headers.get("Authorization") or "").startswith("RemoteAuth "):
            return fail(401, "Bad credentials")
        repository, oid = found[1]
        if request.path != f"{repository.path}/verify" or request.json().get("oid") != oid:
            return fail(422, "not what was to be verified")
        present = (repository.id, oid) in world.large
    return reply(200, {}) if present else fail(404, "Object does not exist")
