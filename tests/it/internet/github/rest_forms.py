"""How REST shows things."""

import base64

from world import NOW


def account_form(account, site):
    return {
        "login": account.login, "id": account.id, "node_id": account.node, "type": account.kind, "site_admin": False,
        "url": f"{site.api}/users/{account.login}", "html_url": site.web + account.path, "avatar_url": "",
    }


def repository_form(repository, site, full=False):
    api = f"{site.api}/repos{repository.full_name and '/' + repository.full_name}"
    web = f"{site.web}/{repository.full_name}"
    form = {
        "id": repository.id, "node_id": repository.node, "name": repository.name, "full_name": repository.full_name,
        "private": not repository.public, "visibility": "public" if repository.public else "private",
        "owner": account_form(repository.owner, site), "html_url": web, "url": api, "fork": repository.parent is not None,
        "description": repository.description, "homepage": repository.homepage, "default_branch": repository.default_branch,
        "clone_url": f"{web}.git", "ssh_url": f"git@{site.web.removeprefix('https://')}:{repository.full_name}.git",
        "archived": False, "disabled": False, "has_issues": True, "has_wiki": True, "created_at": NOW, "updated_at": NOW,
        "pushed_at": NOW, "topics": repository.topics, "permissions": {"admin": False, "push": True, "pull": True},
        **repository.settings,
    }
    if full and repository.parent:
        form["parent"] = form["source"] = repository_form(repository.parent, site)
    return form


def label_form(label, site):
    url = f"{site.api}/repos/{label.repository.full_name}/labels/{label.name}"
    return {"id": label.id, "node_id": label.node, "name": label.name, "color": label.color, "url": url,
            "description": label.description, "default": False}


def milestone_form(milestone, site):
    return {"id": milestone.id, "node_id": milestone.node, "number": milestone.number, "title": milestone.title,
            "state": milestone.state, "url": f"{site.api}/repos/{milestone.repository.full_name}/milestones/{milestone.number}"}


def issue_form(issue, site):
    api = f"{site.api}/repos/{issue.repository.full_name}"
    form = {
        "id": issue.id, "node_id": issue.node, "number": issue.number, "title": issue.title, "body": issue.body,
        "state": "open" if issue.state == "OPEN" else "closed", "user": account_form(issue.author, site),
        "labels": [label_form(label, site) for label in issue.labels], "comments": len(issue.comments),
        "assignees": [account_form(account, site) for account in issue.assignees], "locked": issue.locked,
        "milestone": milestone_form(issue.milestone, site) if issue.milestone else None, "repository_url": api,
        "url": f"{api}/issues/{issue.number}", "html_url": site.web + issue.path, "created_at": NOW, "updated_at": NOW,
        "closed_at": issue.closed_at, "comments_url": f"{api}/issues/{issue.number}/comments",
    }
    if issue.kind == "PullRequest":
        form["pull_request"] = {"url": f"{api}/pulls/{issue.number}", "html_url": site.web + issue.path}
    return form


def pull_form(pull, site):
    api = f"{site.api}/repos/{pull.repository.full_name}"
    form = issue_form(pull, site)
    del form["pull_request"]
    side = lambda repository, name, oid: {
        "ref": name, "sha": oid, "label": f"{repository.owner.login}:{name}", "user": account_form(repository.owner, site),
        "repo": repository_form(repository, site),
    }
    return form | {
        "url": f"{api}/pulls/{pull.number}", "diff_url": f"{site.web}{pull.path}.diff", "draft": pull.is_draft,
        "merged": pull.state == "MERGED", "merged_at": pull.merged_at, "merge_commit_sha": pull.merge_sha, "mergeable": True,
        "mergeable_state": "clean", "head": side(pull.head_repository, pull.head_ref_name, pull.head_oid),
        "base": side(pull.repository, pull.base_ref_name, pull.base_oid), "maintainer_can_modify": False,
        "requested_reviewers": [account_form(account, site) for account in pull.requested], "requested_teams": [],
    }


def comment_form(comment, site):
    api = f"{site.api}/repos/{comment.repository.full_name}"
    return {
        "id": comment.id, "node_id": comment.node, "body": comment.body, "user": account_form(comment.author, site),
        "url": f"{api}/issues/comments/{comment.id}", "html_url": site.web + comment.path, "created_at": NOW,
        "issue_url": f"{api}/issues/{comment.subject.number}", "updated_at": NOW,
    }


def review_form(review, site):
    return {
        "id": review.id, "node_id": review.node, "body": review.body, "user": account_form(review.author, site),
        "state": review.state, "html_url": f"{site.web}{review.pull.path}#pullrequestreview-{review.id}",
        "commit_id": review.pull.head_oid, "submitted_at": NOW,
    }


def asset_form(asset, site):
    repository = asset.repository
    return {
        "id": asset.id, "node_id": asset.node, "name": asset.name, "label": asset.label, "size": len(asset.data),
        "content_type": asset.content_type, "state": "uploaded", "download_count": 0, "created_at": NOW, "updated_at": NOW,
        "url": f"{site.api}/repos/{repository.full_name}/releases/assets/{asset.id}",
        "browser_download_url": f"{site.web}/{repository.full_name}/releases/download/{asset.release.tag_name}/{asset.name}",
    }


def release_form(release, site):
    name = release.repository.full_name
    api = f"{site.api}/repos/{name}/releases/{release.id}"
    return {
        "id": release.id, "node_id": release.node, "tag_name": release.tag_name, "name": release.name, "body": release.body,
        "draft": release.is_draft, "prerelease": release.is_prerelease, "target_commitish": release.target, "created_at": NOW,
        "published_at": release.published_at, "author": account_form(release.author, site), "url": api,
        "html_url": site.web + release.path, "assets_url": f"{api}/assets",
        "upload_url": f"{site.uploads}/repos/{name}/releases/{release.id}/assets{{?name,label}}",
        "tarball_url": f"{site.api}/repos/{name}/tarball/{release.tag_name}",
        "zipball_url": f"{site.api}/repos/{name}/zipball/{release.tag_name}",
        "assets": [asset_form(asset, site) for asset in release.assets],
    }


def commit_form(commit, repository, site):
    api = f"{site.api}/repos/{repository.full_name}"
    return {
        "sha": commit["oid"], "node_id": "", "url": f"{api}/commits/{commit['oid']}",
        "html_url": f"{site.web}/{repository.full_name}/commit/{commit['oid']}", "author": None, "committer": None,
        "commit": {
            "message": commit["text"].strip(), "tree": {"sha": commit["tree"], "url": f"{api}/git/trees/{commit['tree']}"},
            "author": {"name": commit["name"], "email": commit["email"], "date": commit["date"]},
            "committer": {"name": commit["committer"], "email": commit["committer_email"], "date": commit["committed"]},
        },
        "parents": [{"sha": parent, "url": f"{api}/commits/{parent}"} for parent in commit["parents"]],
    }


def ref_form(row, repository, site):
    name, oid, kind = row
    api = f"{site.api}/repos/{repository.full_name}/git"
    return {"ref": name, "node_id": "", "url": f"{api}/{name}", "object": {"sha": oid, "type": kind, "url": f"{api}/{kind}s/{oid}"}}


def workflow_form(workflow, site):
    api = f"{site.api}/repos/{workflow.repository.full_name}"
    return {"id": workflow.id, "node_id": workflow.node, "name": workflow.name, "path": workflow.path, "state": workflow.state,
            "url": f"{api}/actions/workflows/{workflow.id}", "html_url": f"{site.web}/{workflow.repository.full_name}/actions"}


def run_form(run, site):
    repository = run.repository
    api = f"{site.api}/repos/{repository.full_name}/actions/runs/{run.id}"
    return {
        "id": run.id, "node_id": run.node, "name": run.name, "display_title": run.title, "workflow_id": run.workflow.id,
        "status": run.status, "conclusion": run.conclusion, "event": run.event, "head_branch": run.head_branch,
        "head_sha": run.head_sha, "run_number": run.number, "run_attempt": run.attempt, "check_suite_id": run.suite_id,
        "created_at": NOW, "updated_at": NOW, "run_started_at": NOW, "html_url": site.web + run.path, "url": api,
        "jobs_url": f"{api}/jobs", "logs_url": f"{api}/logs", "artifacts_url": f"{api}/artifacts", "pull_requests": [],
        "cancel_url": f"{api}/cancel", "rerun_url": f"{api}/rerun", "workflow_url": f"{api}/workflows/{run.workflow.id}",
        "head_commit": {"id": run.head_sha, "message": run.title, "timestamp": NOW}, "repository": repository_form(repository, site),
        "head_repository": repository_form(repository, site),
    }


def check_form(check, site):
    api = f"{site.api}/repos/{check.repository.full_name}/check-runs/{check.id}"
    conclusion = check.conclusion.lower() if check.conclusion else None
    return {
        "id": check.id, "node_id": check.node, "name": check.name, "head_sha": check.head_sha, "status": check.status.lower(),
        "conclusion": conclusion, "started_at": NOW, "completed_at": NOW, "url": api, "html_url": f"{site.web}/check/{check.id}",
        "output": {"title": None, "summary": None, "annotations_count": 0, "annotations_url": f"{api}/annotations"},
    }


def job_form(job, site):
    step = {"name": "Set up job", "status": "completed", "conclusion": "success", "number": 1}
    url = f"{site.web}{job.run.path}/job/{job.id}"
    return check_form(job, site) | {"run_id": job.run.id, "html_url": url, "steps": [step], "workflow_name": job.run.name}


def artifact_form(artifact, site):
    api = f"{site.api}/repos/{artifact.repository.full_name}/actions/artifacts/{artifact.id}"
    return {"id": artifact.id, "node_id": artifact.node, "name": artifact.name, "size_in_bytes": len(artifact.data), "url": api,
            "archive_download_url": f"{api}/zip", "expired": False, "created_at": NOW, "expires_at": "2099-01-01T00:00:00Z",
            "workflow_run": {"id": artifact.run.id, "head_branch": artifact.run.head_branch}}


def file_form(data, oid, path, reference, repository, site):
    api = f"{site.api}/repos/{repository.full_name}/contents/{path}"
    return {
        "type": "file", "encoding": "base64", "size": len(data), "name": path.split("/")[-1], "path": path, "sha": oid,
        "content": base64.encodebytes(data).decode(), "url": f"{api}?ref={reference}",
        "git_url": f"{site.api}/repos/{repository.full_name}/git/blobs/{oid}",
        "html_url": f"{site.web}/{repository.full_name}/blob/{reference}/{path}",
        "download_url": f"{site.raw}/{repository.full_name}/{reference}/{path}?token=FAKE{oid[:12]}",
    }
