"""Where credentials come from: installations of an App and their tokens, refresh and narrowing of a user's token.

The JWT is looked at for its form alone."""

import time
from urllib.parse import parse_qs

from answers import as_json, message, redirect, refuse
from rest_forms import account_form, repository_form

PERMISSIONS = {
    "actions": "write", "checks": "write", "contents": "write", "deployments": "write", "issues": "write",
    "metadata": "read", "pull_requests": "write", "statuses": "write", "workflows": "write", "administration": "write",
}


def serve(world, request):
    with world.lock:
        segments = request.segments()
        if segments[:2] == ["login", "oauth"]:
            return refresh(world, request)
        if segments[0] == "applications":
            return narrow(world, request, segments)
        credential = request.credential() or ""
        if credential.count(".") != 2 or not (request.headers.get("Authorization") or "").startswith("Bearer "):
            return message(401, "A JSON web token could not be decoded")
        if segments == ["app"]:
            return as_json(200, {"id": 900, "slug": "acme-app", "client_id": "Iv1.acme", "name": "acme app"})
        if segments[-1] == "installation":
            return of_owner(world, request, segments)
        if segments == ["app", "installations"]:
            return as_json(200, [installation_form(world, request, row) for row in world.installations.values()])
        if segments[:2] == ["app", "installations"] and segments[2].isdigit():
            return one(world, request, segments)
    return message(404, "Not Found")


def installation_form(world, request, row):
    account = world.accounts[row["account"]]
    return {
        "id": row["id"], "account": account_form(account, request.site), "repository_selection": "selected", "app_id": 900,
        "target_type": account.kind, "permissions": PERMISSIONS, "suspended_at": "2026-01-01T00:00:00Z" if row["suspended"] else None,
        "access_tokens_url": f"{request.site.api}/app/installations/{row['id']}/access_tokens",
    }


def of_owner(world, request, segments):
    owner = segments[1]
    if segments[0] == "repos":
        name = "/".join(segments[1:3])
        if world.find(name) is None:
            moved = world.moved(name)
            target = f"{request.site.api}/repositories/{moved.id}/installation" if moved else None
            return redirect(301, target) if moved else message(404, "Not Found")
    if segments[0] == "repositories":
        found = world.repositories.get(int(segments[1]))
        owner = found.owner.login if found else ""
    for row in world.installations.values():
        if row["account"] == owner.lower():
            return as_json(200, installation_form(world, request, row))
    return message(404, "Not Found")


def one(world, request, segments):
    row = world.installations.get(int(segments[2]))
    if row is None:
        return message(404, "Not Found")
    if segments[3:] != ["access_tokens"]:
        return as_json(200, installation_form(world, request, row))
    if row["suspended"]:
        return message(403, "This installation has been suspended")
    body = request.json()
    mine = [r for r in world.repositories.values() if r.owner.login.lower() == row["account"]]
    chosen = choose(mine, body)
    wanted = body.get("permissions") or PERMISSIONS
    levels = ["read", "write"]
    for name, level in wanted.items():
        if name not in PERMISSIONS or levels.index(level) > levels.index(PERMISSIONS[name]):
            return message(422, f"The permissions requested are not granted to this installation: {name}.")
    write = wanted.get("contents") == "write"
    life = row.get("lifetime") or world.lifetime
    text = world.mint("acme-app[bot]", {r.id for r in chosen or mine}, write, life, installation=row["id"])
    expires = moment(world.tokens[text].expires)
    if row.get("dead"):
        world.tokens.pop(text)
    answer = {"token": text, "expires_at": expires, "permissions": wanted, "repository_selection": "all"}
    if chosen:
        answer |= {"repository_selection": "selected", "repositories": [repository_form(r, request.site) for r in chosen]}
    return as_json(201, answer)


def moment(seconds):
    """With the fraction of a second, of which nothing is lost for tokens that live for seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000000):06}Z"


def choose(mine, body):
    """The repositories that the body names, by number or by name."""
    chosen = []
    for key, value in [("repository_ids", lambda r: r.id), ("repositories", lambda r: r.name.lower())]:
        for wanted in body.get(key) or []:
            wanted = wanted.lower() if isinstance(wanted, str) else wanted
            found = [r for r in mine if value(r) == wanted]
            if not found:
                refuse(422, "There is at least one repository that does not exist or is not accessible to the parent installation.")
            chosen += found
    return chosen


def refresh(world, request):
    """Each refresh token is good once; errors come with status 200."""
    form = {name: values[-1] for name, values in parse_qs(request.body.decode()).items()}
    old = world.stored.pop(("refresh", form.get("refresh_token")), None)
    if form.get("client_id") != "Iv1.acme" or form.get("client_secret") != "client-secret":
        return as_json(200, {"error": "incorrect_client_credentials", "error_description": "wrong"})
    if form.get("grant_type") != "refresh_token" or not (old or form.get("refresh_token") == "ghr_first"):
        return as_json(200, {"error": "bad_refresh_token", "error_description": "The refresh token is incorrect or expired."})
    if form.get("refresh_token") == "ghr_first" and world.stored.get("first used"):
        return as_json(200, {"error": "bad_refresh_token", "error_description": "The refresh token was used."})
    world.stored["first used"] = True
    text = world.mint("octo-user", None, True, 28800, "ghu_" + str(next(world.numbers)).rjust(36, "u"))
    new = "ghr_" + str(next(world.numbers)).rjust(76, "r")
    world.stored[("refresh", new)] = True
    return as_json(200, {
        "access_token": text, "expires_in": 28800, "refresh_token": new, "refresh_token_expires_in": 15897600, "scope": "",
        "token_type": "bearer",
    })


def narrow(world, request, segments):
    """`POST /applications/CLIENT/token/scoped`: the same user's token for fewer repositories."""
    if segments[2:] != ["token", "scoped"] or request.method != "POST":
        return message(404, "Not Found")
    if request.credential() != "client-secret":
        return message(401, "Bad credentials")
    body = request.json()
    parent = world.tokens.get(body.get("access_token"))
    if parent is None:
        return message(404, "Not Found")
    target = body.get("target", "").lower()
    mine = [r for r in world.repositories.values() if r.owner.login.lower() == target or r.owner.id == body.get("target_id")]
    chosen = choose(mine, body)
    text = world.mint(parent.viewer.login, {r.id for r in chosen}, True, 28800, "ghu_" + str(next(world.numbers)).rjust(36, "n"))
    installation = {"permissions": body.get("permissions"), "repository_selection": "selected", "account": {"login": target, "id": 1}}
    return as_json(200, {
        "id": 1, "token": text, "expires_at": moment(world.tokens[text].expires), "user": {"login": parent.viewer.login},
        "installation": installation,
    })
