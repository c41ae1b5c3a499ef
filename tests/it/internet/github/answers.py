"""Requests and answers, as the parts of the server hand them on."""

import base64
import json
from urllib.parse import parse_qs, unquote, urlsplit

DOCUMENTATION = "https://docs.github.com/rest"


class Answer:
    """Status, headers as pairs, body as bytes."""

    def __init__(self, status, body=b"", *headers):
        self.status, self.headers = status, list(headers)
        self.body = body if isinstance(body, bytes) else body.encode()


class Refusal(Exception):
    """An answer that ends the handling of a request."""

    def __init__(self, answer):
        super().__init__(answer.status)
        self.answer = answer


class Request:
    """A request, its target taken apart; `hosts.place` adds the site."""

    def __init__(self, method, host, target, headers, body):
        self.method, self.host, self.target, self.headers, self.body = method, host, target, headers, body
        parts = urlsplit(target)
        self.path, self.query = parts.path, parse_qs(parts.query, keep_blank_values=True)
        self.query_text, self.site = parts.query, None

    def segments(self):
        return [unquote(segment) for segment in self.path.strip("/").split("/")]

    def argument(self, name, otherwise=None):
        return self.query.get(name, [otherwise])[-1]

    def json(self):
        """The body as an object; an empty one is the empty object."""
        try:
            value = json.loads(self.body or b"{}")
        except ValueError:
            raise Refusal(message(400, "Problems parsing JSON")) from None
        return value if isinstance(value, dict) else {}

    def accepts(self, part):
        return part in (self.headers.get("Accept") or "")

    def credential(self):
        """The token or JWT in it, in whatever scheme, or None."""
        scheme, _, value = (self.headers.get("Authorization") or "").partition(" ")
        if scheme.lower() in ("bearer", "token", "remoteauth"):
            return value.strip()
        if scheme.lower() != "basic":
            return value or None
        try:
            user, _, password = base64.b64decode(value).decode().partition(":")
        except ValueError:
            return "not base64"
        return user if password in ("", "x-oauth-basic") else password


def as_json(status, value, *headers):
    kind = ("Content-Type", "application/json; charset=utf-8")
    return Answer(status, json.dumps(value), kind, ("X-GitHub-Media-Type", "github.v3; format=json"), *headers)


def message(status, text, **more):
    """GitHub's form of an error."""
    return as_json(status, {"message": text, "documentation_url": DOCUMENTATION, "status": str(status), **more})


def redirect(status, location):
    return as_json(status, {"message": "Moved", "url": location}, ("Location", location))


def refuse(status, text, **more):
    raise Refusal(message(status, text, **more))
