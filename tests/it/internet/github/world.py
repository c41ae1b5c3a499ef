"""What there is: accounts, repositories and what is in them, tokens, links to the storage."""

import base64
import itertools
import secrets
import struct
import threading
import time

from faults import Faults
from gitrepo import Git

NOW = "2026-01-02T03:04:05Z"
PREFIXES = {
    "User": "U", "Organization": "O", "Bot": "BOT", "Repository": "R", "Issue": "I", "PullRequest": "PR",
    "IssueComment": "IC", "PullRequestReview": "PRR", "PullRequestReviewComment": "PRRC", "Label": "LA",
    "Milestone": "MI", "Release": "RE", "ReleaseAsset": "RA", "CheckRun": "CR", "CheckSuite": "CS",
    "WorkflowRun": "WFR", "Workflow": "W", "Job": "JOB", "Artifact": "AR", "StatusContext": "SC",
    "Team": "T", "ProjectV2": "PVT", "Discussion": "D",
}


class Thing:
    """Anything with a type, a number and a node id."""

    def __init__(self, kind, id, node, **values):
        self.kind, self.id, self.node = kind, id, node
        self.created_at = self.updated_at = NOW
        self.__dict__.update(values)


def node_id(prefix, *numbers):
    """The form of today: a prefix and MessagePack of [0, repository, own number]."""
    packed = bytes([0x91 + len(numbers), 0]) + b"".join(b"\xce" + struct.pack(">I", number) for number in numbers)
    return prefix + "_" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


class Token:
    """A credential: what it may see (None: everything), whether it may write, until when, whose it is."""

    def __init__(self, viewer, repositories=None, write=True, expires=None, installation=None, scopes=None):
        self.viewer, self.repositories, self.write, self.expires = viewer, repositories, write, expires
        self.installation, self.scopes = installation, scopes

    def sees(self, repository):
        return repository.public or self.repositories is None or repository.id in self.repositories


class World:
    """All of it, behind one lock that a request holds while it reads or changes it."""

    def __init__(self, directory):
        self.directory, self.lock, self.faults = directory, threading.RLock(), Faults()
        self.accounts, self.names, self.renamed, self.repositories, self.nodes = {}, {}, {}, {}, {}
        self.tokens, self.stored, self.links, self.large, self.installations = {}, {}, {}, {}, {}
        self.lifetime = 3600
        self.numbers = itertools.count(5000)
        import seed

        seed.plant(self)

    # Making things.

    def account(self, login, kind="User", number=None):
        number = number or next(self.numbers)
        thing = Thing(kind, number, node_id(PREFIXES[kind], number), login=login, name=login.title(), email="")
        thing.path = "/" + login
        self.accounts[login.lower()] = self.nodes[thing.node] = thing
        return thing

    def add(self, kind, repository, **values):
        """Something in a repository, under a number and a node id of its own."""
        number = next(self.numbers)
        thing = Thing(kind, number, node_id(PREFIXES[kind], repository.id, number), repository=repository, **values)
        self.nodes[thing.node] = thing
        return thing

    def repository(self, name, number=None, node=None, parent=None, public=False):
        owner, _, short = name.partition("/")
        number = number or next(self.numbers)
        node = node or node_id("R", number)
        thing = Thing("Repository", number, node, name=short, owner=self.accounts[owner.lower()], parent=parent)
        thing.public, thing.path, thing.full_name, thing.default_branch = public, "/" + name, name, "main"
        thing.description, thing.homepage, thing.topics, thing.settings = f"All about {short}", "", [], {}
        thing.issues, thing.labels, thing.milestones, thing.releases = {}, [], [], []
        thing.runs, thing.workflows, thing.artifacts, thing.check_runs = [], [], [], []
        thing.statuses, thing.locks, thing.deleted = {}, [], False
        thing.repository, thing.git = thing, Git(self.directory, number)
        self.repositories[number] = self.nodes[node] = thing
        self.names[name.lower()] = number
        return thing

    def rename(self, repository, name):
        """The old name redirects from now on."""
        old = repository.full_name.lower()
        self.renamed[old] = repository.id
        self.names.pop(old, None)
        repository.owner = self.accounts[name.split("/")[0].lower()]
        repository.full_name, repository.name, repository.path = name, name.split("/")[1], "/" + name
        self.names[name.lower()] = repository.id

    def forget(self, repository):
        repository.deleted = True
        self.names.pop(repository.full_name.lower(), None)
        self.repositories.pop(repository.id, None)
        self.nodes = {node: thing for node, thing in self.nodes.items() if owner_of(thing) is not repository}

    # Who asks, and what they see.

    def token(self, request):
        """The token of a request; None without; `Unknown` where it is not, or no longer, good."""
        credential = request.credential()
        if credential is None:
            return None
        token = self.tokens.get(credential)
        if token is None or (token.expires and token.expires < time.time()):
            raise Unknown()
        return token

    def mint(self, viewer, repositories=None, write=True, lifetime=None, text=None, **more):
        """A new token, and its text."""
        text = text or "ghs_" + secrets.token_hex(18)
        expires = time.time() + lifetime if lifetime else None
        self.tokens[text] = Token(self.accounts[viewer.lower()], repositories, write, expires, **more)
        return text

    def find(self, name):
        """The repository of a name of today, in any case."""
        return self.repositories.get(self.names.get(name.lower()))

    def moved(self, name):
        """The repository that once had this name."""
        return self.repositories.get(self.renamed.get(name.lower()))

    # The storage.

    def store(self, data, host, kind="application/octet-stream", name="file"):
        """A link to data that needs no credential, for GET and HEAD."""
        return self.link(host, f"/{secrets.token_hex(6)}/{name}", ("GET", "HEAD"), lambda _: (data, kind))

    def link(self, host, path, methods, serve):
        target = f"{path}?X-Amz-Expires=300&X-Amz-Signature={secrets.token_hex(16)}&sig={secrets.token_hex(8)}"
        self.links[(host, target)] = (methods, serve)
        return f"https://{host}{target}"


class Unknown(Exception):
    """A credential that is none."""


def owner_of(thing):
    """The repository that a thing is in, or None."""
    return getattr(thing, "repository", None)
