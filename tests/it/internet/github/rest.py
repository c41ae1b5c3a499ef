"""REST: who asks, which repository, which route; pages."""

import re
from urllib.parse import unquote, urlencode

import rest_account
import rest_actions
import rest_files
import rest_issues
import rest_releases
from answers import Refusal, as_json, message, redirect, refuse
from gitrepo import Failed
from world import Unknown

REPOSITORY = [*rest_files.ROUTES, *rest_issues.ROUTES, *rest_releases.ROUTES, *rest_actions.ROUTES]


class Call:
    """One call: the request, who it is from, and the repository where the path names one."""

    def __init__(self, world, request, token, repository=None):
        self.world, self.request, self.token, self.repository = world, request, token, repository
        self.site, self.body = request.site, request.json() if not request.path.endswith("/assets") else {}
        self.viewer = token.viewer if token else None

    def page(self, items, form, wrap=None):
        """A page of a list, with `Link` as GitHub writes it: by the number of the repository."""
        size = min(int(self.request.argument("per_page", 30) or 30), 100)
        number = int(self.request.argument("page", 1) or 1)
        part = items[(number - 1) * size:number * size]
        last = max(1, -(-len(items) // size))
        headers = [("Link", self.links(number, last))] if last > 1 else []
        value = [form(item, self.site) for item in part]
        return as_json(200, {"total_count": len(items), wrap: value} if wrap else value, *headers)

    def links(self, number, last):
        path = self.request.path
        if self.repository:
            path = re.sub(r"^/repos/[^/]+/[^/]+", f"/repositories/{self.repository.id}", path)
        others = {name: values[-1] for name, values in self.request.query.items() if name != "page"}
        link = lambda page, rel: f'<{self.site.api}{path}?{urlencode({**others, "page": page})}>; rel="{rel}"'
        links = [link(number - 1, "prev")] if number > 1 else []
        links += [link(number + 1, "next"), link(last, "last")] if number < last else []
        return ", ".join(links + ([link(1, "first")] if number > 1 else []))


def identify(world, request, public=False):
    """The token; 401 in GitHub's words without a good one, unless the answer is for everybody."""
    try:
        token = world.token(request)
    except Unknown:
        raise Refusal(message(401, "Bad credentials")) from None
    if token is None and not public:
        raise Refusal(message(401, "Requires authentication"))
    return token


def serve(world, request):
    with world.lock:
        path = request.path.rstrip("/") or "/"
        target = locate(world, request, path)
        token = identify(world, request, public=target is not None and target[0].public)
        try:
            if target:
                reply = in_repository(world, request, token, *target)
            else:
                reply = dispatch(rest_account.ROUTES, Call(world, request, token), path)
        except Failed as failed:
            reply = message(422, f"Reference problem: {failed}".strip())
        return with_limits(reply, token)


def locate(world, request, path):
    """(repository, rest of the path) where the path is below one that the token sees; a redirect from an old name."""
    match = re.match(r"^/(?:repos/([^/]+/[^/]+)|repositories/(\d+))(/.*)?$", path)
    if match is None:
        return None
    name, number, rest = match.groups()
    name = name and unquote(name)
    found = world.find(name) if name else world.repositories.get(int(number))
    if found and found.public and request.credential() is None:
        return found, rest or ""
    token = identify(world, request)
    moved = world.moved(name) if name and found is None else None
    if moved and token.sees(moved):
        query = "?" + request.query_text if request.query_text else ""
        raise Refusal(redirect(301 if request.method in ("GET", "HEAD") else 307,
                               f"{request.site.api}/repositories/{moved.id}{rest or ''}{query}"))
    if found is None or not token.sees(found):
        raise Refusal(message(404, "Not Found"))
    return found, rest or ""


def in_repository(world, request, token, repository, rest):
    if request.method not in ("GET", "HEAD") and not (token and token.write):
        refuse(403, "Resource not accessible by integration")
    return dispatch(REPOSITORY, Call(world, request, token, repository), rest)


def dispatch(routes, call, path):
    method = "GET" if call.request.method == "HEAD" else call.request.method
    for verb, pattern, handler in routes:
        match = re.fullmatch(pattern, path) if verb == method else None
        if match:
            return handler(call, *match.groups())
    return message(404, "Not Found")


def with_limits(reply, token):
    reply.headers += [("X-RateLimit-Limit", "5000"), ("X-RateLimit-Remaining", "4999"), ("X-RateLimit-Used", "1"),
                      ("X-RateLimit-Reset", "4102444800"), ("X-RateLimit-Resource", "core")]
    if token and token.scopes is not None:
        reply.headers.append(("X-OAuth-Scopes", token.scopes))
    return reply


def serve_upload(world, request):
    """The uploads host: assets of releases, nothing else."""
    with world.lock:
        found = locate(world, request, request.path)
        token = identify(world, request)
        match = re.fullmatch(r"/releases/(\d+)/assets", found[1]) if found else None
        if match is None or request.method != "POST":
            return message(404, "Not Found")
        if not token.write:
            return message(403, "Resource not accessible by integration")
        return rest_releases.upload(Call(world, request, token, found[0]), match.group(1))

