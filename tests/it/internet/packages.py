"""Makes one package for each index: argv[1] gets the trees pypi.test, npm.test and crates.test."""

import base64
import hashlib
import io
import json
import os
import sys
import tarfile
import zipfile

ROOT = sys.argv[1]


def write(path, data):
    path = os.path.join(ROOT, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def pypi():
    files = {
        "demo_pkg/__init__.py": "WORD = 'wheel from pypi.test'\n",
        "demo_pkg-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo-pkg\nVersion: 1.0\n",
        "demo_pkg-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "demo_pkg-1.0.dist-info/RECORD"
    files[record] = "".join(f"{name},,\n" for name in [*files, record])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    name, digest = "demo_pkg-1.0-py3-none-any.whl", hashlib.sha256(out.getvalue()).hexdigest()
    write(f"pypi.test/files/{name}", out.getvalue())
    link = f'<a href="/files/{name}#sha256={digest}">{name}</a>'
    write("pypi.test/simple/demo-pkg/index.html", f"<!DOCTYPE html><html><body>{link}</body></html>")


def npm():
    package = {"name": "demo-pkg", "version": "1.0.0", "main": "index.js"}
    tgz = tar({
        "package/package.json": json.dumps(package),
        "package/index.js": "module.exports = 'tarball from npm.test'\n",
    })
    dist = {
        "tarball": "https://npm.test/demo-pkg/-/demo-pkg-1.0.0.tgz",
        "shasum": hashlib.sha1(tgz).hexdigest(),
        "integrity": "sha512-" + base64.b64encode(hashlib.sha512(tgz).digest()).decode(),
    }
    document = {"name": "demo-pkg", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**package, "dist": dist}}}
    write("npm.test/demo-pkg/index.html", json.dumps(document))
    write("npm.test/demo-pkg/-/demo-pkg-1.0.0.tgz", tgz)


def crates():
    manifest = '[package]\nname = "demo-crate"\nversion = "1.0.0"\nedition = "2021"\n'
    crate = tar({
        "demo-crate-1.0.0/Cargo.toml": manifest,
        "demo-crate-1.0.0/src/lib.rs": '//! A crate from crates.test\n',
    })
    row = {
        "name": "demo-crate", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False,
        "cksum": hashlib.sha256(crate).hexdigest(),
    }
    write("crates.test/config.json", json.dumps({"dl": "https://crates.test/dl"}))
    write("crates.test/de/mo/demo-crate", json.dumps(row) + "\n")
    write("crates.test/dl/demo-crate/1.0.0/download", crate)


pypi()
npm()
crates()
