"""REST outside of any repository."""

import re

from answers import Answer, as_json, message, refuse
from rest_forms import account_form, issue_form, repository_form
from search import find_issues


def root(call):
    return as_json(200, {"current_user_url": f"{call.site.api}/user", "repository_url": call.site.api + "/repos/{owner}/{repo}"})


def user(call):
    if call.token.installation:
        refuse(403, "Resource not accessible by integration")
    return as_json(200, account_form(call.viewer, call.site) | {"name": call.viewer.name})


def user_of(call, login):
    found = call.world.accounts.get(login.lower())
    return as_json(200, account_form(found, call.site)) if found else message(404, "Not Found")


def mine(call):
    seen = [repository for repository in call.world.repositories.values() if call.token.sees(repository)]
    return seen


def user_repositories(call):
    return call.page(mine(call), repository_form)


def of_owner(call, login):
    return call.page([r for r in mine(call) if r.owner.login.lower() == login.lower()], repository_form)


def installation_repositories(call):
    if not call.token.installation:
        refuse(403, "You must authenticate with an installation access token")
    return call.page([r for r in mine(call) if not r.public], repository_form, "repositories")


def revoke_own(call):
    if not call.token.installation:
        refuse(403, "You must authenticate with an installation access token")
    call.world.tokens.pop(call.request.credential())
    return Answer(204)


def rate_limit(call):
    row = {"limit": 5000, "remaining": 4999, "reset": 4102444800, "used": 1}
    return as_json(200, {"resources": {"core": row, "graphql": row, "search": row}, "rate": row})


def meta(call):
    return as_json(200, {"verifiable_password_authentication": False, "domains": {"website": ["*.github.com"]}})


def search_issues(call):
    found = find_issues(call.world, call.token, call.request.argument("q", ""))
    reply = call.page(found, issue_form, "items")
    return reply


def search_repositories(call):
    words = call.request.argument("q", "").lower().split()
    return call.page([r for r in mine(call) if all(word in r.full_name.lower() for word in words)], repository_form, "items")


def search_code(call):
    """Files of the default branch whose text has every word."""
    words = call.request.argument("q", "").split()
    names = {word.partition(":")[2].lower() for word in words if word.lower().startswith("repo:")}
    plain = [word for word in words if ":" not in word]
    rows = []
    for repository in mine(call):
        if names and repository.full_name.lower() not in names:
            continue
        for _, kind, oid, _, path in repository.git.tree(repository.default_branch, deep=True):
            text = repository.git.text("cat-file", "blob", oid) if kind == "blob" else ""
            if plain and all(word in text for word in plain):
                rows.append({"path": path, "name": path.split("/")[-1], "sha": oid, "repository": repository})
    form = lambda row, site: row | {"repository": repository_form(row["repository"], site)}
    return call.page(rows, form, "items")


def search_labels(call):
    repository = call.world.repositories.get(int(call.request.argument("repository_id", 0)))
    if repository is None or not call.token.sees(repository):
        refuse(404, "Not Found")
    word = call.request.argument("q", "").lower()
    form = lambda label, _: {"id": label.id, "node_id": label.node, "name": label.name, "color": label.color}
    return call.page([label for label in repository.labels if word in label.name.lower()], form, "items")


def markdown(call):
    text = call.body.get("text", "") if call.request.path == "/markdown" else call.request.body.decode()
    return Answer(200, f"<p>{re.sub('[<>&]', '', text)}</p>", ("Content-Type", "text/html; charset=utf-8"))


def empty(call, *_):
    return as_json(200, [])


def made(call, *_):
    """What a sandbox should never reach: that it got here is what the tests look for in the log."""
    return as_json(201, {"id": 1, "node_id": "", "url": call.site.api})


ROUTES = [
    ("GET", "/", root),
    ("GET", "/user", user),
    ("GET", "/users/([^/]+)", user_of),
    ("GET", "/orgs/([^/]+)", user_of),
    ("GET", "/user/repos", user_repositories),
    ("GET", "/(?:users|orgs)/([^/]+)/repos", of_owner),
    ("GET", "/installation/repositories", installation_repositories),
    ("DELETE", "/installation/token", revoke_own),
    ("GET", "/rate_limit", rate_limit),
    ("GET", "/meta", meta),
    ("GET", "/zen", lambda call: Answer(200, "Keep it logically awesome.", ("Content-Type", "text/plain"))),
    ("GET", "/emojis|/licenses.*|/gitignore/templates.*|/codes_of_conduct.*|/versions|/advisories.*", empty),
    ("GET", "/search/issues", search_issues),
    ("GET", "/search/repositories", search_repositories),
    ("GET", "/search/code", search_code),
    ("GET", "/search/labels", search_labels),
    ("POST", "/markdown|/markdown/raw", markdown),
    ("GET", "/notifications|/gists|/events|/user/keys|/user/orgs|/user/issues|/issues|/users/[^/]+/.*", empty),
    ("POST", "/gists|/user/keys|/user/repos|/orgs/[^/]+/repos", made),
]
