"""REST of releases and their assets."""

import seed
from answers import Answer, as_json, message, redirect, refuse
from rest_forms import asset_form, release_form
from world import NOW


def find(call, number):
    for release in call.repository.releases:
        if release.id == int(number):
            return release
    return refuse(404, "Not Found")


def releases(call):
    return call.page(call.repository.releases, release_form)


def make(call):
    tag = call.body["tag_name"]
    if any(release.tag_name == tag and not release.is_draft for release in call.repository.releases):
        return message(422, "Validation Failed", errors=[{"resource": "Release", "code": "already_exists", "field": "tag_name"}])
    draft = bool(call.body.get("draft"))
    made = seed.release(call.world, call.repository, tag, draft=draft, name=call.body.get("name"), body=call.body.get("body") or "")
    made.is_prerelease = bool(call.body.get("prerelease"))
    return as_json(201, release_form(made, call.site))


def show(call, number):
    return as_json(200, release_form(find(call, number), call.site))


def by_tag(call, tag):
    for release in call.repository.releases:
        if release.tag_name == tag and not release.is_draft:
            return as_json(200, release_form(release, call.site))
    return message(404, "Not Found")


def latest(call):
    for release in call.repository.releases:
        if not release.is_draft:
            return as_json(200, release_form(release, call.site))
    return message(404, "Not Found")


def change(call, number):
    release = find(call, number)
    for name in ("name", "body", "tag_name"):
        setattr(release, name, call.body.get(name, getattr(release, name)))
    if call.body.get("draft") is False and release.is_draft:
        release.is_draft, release.published_at = False, NOW
        git = call.repository.git
        if git.resolve(f"refs/tags/{release.tag_name}") is None:
            git.set(f"refs/tags/{release.tag_name}", git.branch(call.repository.default_branch))
    return show(call, number)


def delete(call, number):
    call.repository.releases.remove(find(call, number))
    return Answer(204)


def notes(call):
    return as_json(200, {"name": call.body.get("tag_name"), "body": "## What's Changed"})


def assets(call, number):
    return call.page(find(call, number).assets, asset_form)


def find_asset(call, number):
    for release in call.repository.releases:
        for asset in release.assets:
            if asset.id == int(number):
                return asset
    return refuse(404, "Not Found")


def show_asset(call, number):
    """Its form, or where its bytes are."""
    asset = find_asset(call, number)
    if not call.request.accepts("application/octet-stream"):
        return as_json(200, asset_form(asset, call.site))
    host = "release-assets.githubusercontent.com"
    return redirect(302, call.world.store(asset.data, host, asset.content_type, asset.name))


def delete_asset(call, number):
    asset = find_asset(call, number)
    asset.release.assets.remove(asset)
    return Answer(204)


def upload(call, number):
    name = call.request.argument("name") or refuse(422, "name is missing")
    release = find(call, number)
    if any(asset.name == name for asset in release.assets):
        return message(422, "Validation Failed", errors=[{"resource": "ReleaseAsset", "code": "already_exists", "field": "name"}])
    kind = call.request.headers.get("Content-Type") or "application/octet-stream"
    made = seed.add_asset(call.world, release, name, call.request.body, kind, call.request.argument("label", ""))
    return as_json(201, asset_form(made, call.site))


ONE = "/releases/([0-9]+)"
ROUTES = [
    ("GET", "/releases", releases), ("POST", "/releases", make), ("GET", ONE, show), ("GET", "/releases/tags/(.+)", by_tag),
    ("GET", "/releases/latest", latest), ("PATCH", ONE, change), ("DELETE", ONE, delete),
    ("POST", "/releases/generate-notes", notes), ("GET", f"{ONE}/assets", assets),
    ("GET", "/releases/assets/([0-9]+)", show_asset), ("DELETE", "/releases/assets/([0-9]+)", delete_asset),
]
