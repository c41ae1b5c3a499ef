"""A bare repository on disk, through the real git."""

import os
import shutil
import subprocess

IDENTITY = {
    "GIT_AUTHOR_NAME": "Octo User", "GIT_AUTHOR_EMAIL": "octo@users.test",
    "GIT_COMMITTER_NAME": "GitHub", "GIT_COMMITTER_EMAIL": "noreply@users.test",
}


class Failed(Exception):
    """What git wrote when it did not do it."""


class Git:
    """`DIRECTORY/git/NUMBER.git`: a name that survives a rename."""

    def __init__(self, directory, number):
        self.root = os.path.join(directory, "git")
        self.name = f"{number}.git"
        self.path = os.path.join(self.root, self.name)

    def environment(self):
        base = {"PATH": os.environ["PATH"], "HOME": self.root, "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C.UTF-8"}
        return {**base, **IDENTITY}

    def bytes(self, *words, given=b""):
        command = ["git", "--git-dir", self.path, *words]
        done = subprocess.run(command, input=given, capture_output=True, env=self.environment(), check=False)
        if done.returncode:
            raise Failed(done.stderr.decode("utf-8", "replace") or f"git {words[0]} failed")
        return done.stdout

    def text(self, *words, given=b""):
        return self.bytes(*words, given=given).decode("utf-8", "replace").strip()

    def create(self, like=None):
        """An empty repository, or a copy of another one with all its refs."""
        if like:
            shutil.copytree(like.path, self.path)
            return
        os.makedirs(self.root, exist_ok=True)
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", self.path], check=True, env=self.environment())
        for key, value in {
            "http.receivepack": "true", "receive.hideRefs": "refs/pull", "receive.advertisePushOptions": "true",
            "receive.denyDeleteCurrent": "refuse", "uploadpack.allowFilter": "true",
            "uploadpack.allowAnySHA1InWant": "true", "core.logAllRefUpdates": "false", "gc.auto": "0",
        }.items():
            self.text("config", key, value)

    def resolve(self, revision):
        """The commit of a revision, or None."""
        try:
            return self.text("rev-parse", "--verify", "-q", "--end-of-options", f"{revision}^{{commit}}")
        except Failed:
            return None

    def branch(self, name):
        return self.resolve(f"refs/heads/{name}")

    def refs(self, prefix="refs/"):
        """Name, object and the object's type, in the order of names."""
        form = "%(refname) %(objectname) %(objecttype)"
        return [tuple(line.split(" ")) for line in self.text("for-each-ref", f"--format={form}", prefix).splitlines()]

    def set(self, ref, new, old=None):
        self.text("update-ref", ref, new, *([old] if old else []))

    def delete(self, ref):
        self.text("update-ref", "-d", ref)

    def ancestor(self, old, new):
        try:
            self.bytes("merge-base", "--is-ancestor", old, new)
            return True
        except Failed:
            return False

    def commit(self, revision):
        """The parts of a commit, or None."""
        sha = self.resolve(revision)
        if sha is None:
            return None
        form = "%H%x00%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B"
        parts = self.text("log", "-1", f"--format={form}", sha).split("\0")
        names = ["oid", "tree", "parents", "name", "email", "date", "committer", "committer_email", "committed", "text"]
        commit = dict(zip(names, parts))
        commit["parents"] = commit["parents"].split()
        return commit

    def log(self, revision, path=None):
        """Object ids, newest first."""
        return self.text("rev-list", revision, *(["--", path] if path else [])).splitlines()

    def files(self, base, head):
        """(status letter, additions, deletions, path) of each file that the two differ in."""
        span = f"{base}...{head}"
        numbers = [line.split("\t") for line in self.text("diff", "--no-renames", "--numstat", span).splitlines()]
        letters = [line.split("\t") for line in self.text("diff", "--no-renames", "--name-status", span).splitlines()]
        count = lambda text: int(text) if text.isdigit() else 0
        return [(letter[0], count(n[0]), count(n[1]), n[2]) for n, letter in zip(numbers, letters)]

    def tree(self, revision, path="", deep=False):
        """(mode, type, object, size, path) of each entry."""
        words = ["ls-tree", "-l", *(["-r", "-t"] if deep else []), revision, *(["--", path] if path else [])]
        rows = []
        for line in self.text(*words).splitlines():
            head, name = line.split("\t", 1)
            rows.append((*head.split(), name))
        return rows

    def write_file(self, branch, path, data, text):
        """Commits one file (None: without it) on a branch; the new commit."""
        index = {"GIT_INDEX_FILE": os.path.join(self.path, "fake-index")}
        run = lambda *words, given=b"": self.indexed(index, *words, given=given)
        parent = self.branch(branch)
        try:
            run("read-tree", parent) if parent else run("read-tree", "--empty")
            if data is None:
                run("update-index", "--force-remove", path)
            else:
                blob = self.text("hash-object", "-w", "--stdin", given=data)
                run("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
            tree = run("write-tree")
        finally:
            if os.path.exists(index["GIT_INDEX_FILE"]):
                os.remove(index["GIT_INDEX_FILE"])
        new = self.text("commit-tree", tree, "-m", text, *(["-p", parent] if parent else []))
        self.set(f"refs/heads/{branch}", new)
        return new

    def indexed(self, index, *words, given=b""):
        command = ["git", "--git-dir", self.path, "--work-tree", self.root, *words]
        environment = {**self.environment(), **index}
        done = subprocess.run(command, input=given, capture_output=True, env=environment, check=False)
        if done.returncode:
            raise Failed(done.stderr.decode())
        return done.stdout.decode().strip()

    def merge(self, branch, head, text, method="merge"):
        """Merges a commit into a branch; the new commit, or `Failed` with a conflict."""
        base = self.branch(branch)
        tree = self.text("merge-tree", "--write-tree", base, head).splitlines()[0]
        parents = ["-p", base] + (["-p", head] if method == "merge" else [])
        new = self.text("commit-tree", tree, "-m", text, *parents)
        self.set(f"refs/heads/{branch}", new, base)
        return new
