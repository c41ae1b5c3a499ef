"""The mutations of GraphQL that the tests and the clients use: each takes the input and gives the payload."""

import base64

import gitweb
import rest_issues
import seed
from answers import refuse
from graph_fields import NotThere, commit, node, ref, repository_named
from world import NOW


def typed(call, text, *kinds):
    found = node(call, text)
    if kinds and found.kind not in kinds:
        raise NotThere(f"Could not resolve to {kinds[0]} node with the global id of '{text}'.")
    return found


def apply(call, thing, given):
    """What the inputs of several mutations have in common."""
    for name in ("title", "body"):
        if given.get(name) is not None:
            setattr(thing, name, given[name])
    for name, key in [("labels", "labelIds"), ("assignees", "assigneeIds")]:
        if given.get(key) is not None:
            setattr(thing, name, [node(call, text) for text in given[key]])
    if given.get("milestoneId"):
        thing.milestone = node(call, given["milestoneId"])
    return thing


def create_issue(call, given):
    repository = typed(call, given["repositoryId"], "Repository")
    made = seed.issue(call.world, repository, given["title"], given.get("body") or "", call.viewer.login.lower())
    return {"issue": apply(call, made, {**given, "title": None, "body": None})}


def update_issue(call, given):
    found = typed(call, given["id"], "Issue")
    found.state = given.get("state") or found.state
    return {"issue": apply(call, found, given)}


def set_state(key, field, state):
    def mutate(call, given):
        found = typed(call, given[key], field[0].upper() + field[1:])
        found.state, found.closed_at = state, NOW if state != "OPEN" else None
        return {field: found}

    return mutate


def delete_issue(call, given):
    found = typed(call, given["issueId"], "Issue")
    del found.repository.issues[found.number], call.world.nodes[found.node]
    return {"repository": found.repository}


def transfer_issue(call, given):
    found, target = typed(call, given["issueId"], "Issue"), typed(call, given["repositoryId"], "Repository")
    del found.repository.issues[found.number]
    found.repository = target
    return {"issue": seed.numbered(call.world, target, found, found.author.login.lower(), "issues")}


def add_comment(call, given):
    found = typed(call, given["subjectId"], "Issue", "PullRequest")
    made = seed.comment(call.world, found, given["body"], call.viewer)
    return {"commentEdge": {"node": made, "cursor": "1"}, "subject": found}


def update_comment(call, given):
    found = typed(call, given["id"], "IssueComment")
    found.body = given["body"]
    return {"issueComment": found}


def create_pull_request(call, given):
    repository = typed(call, given["repositoryId"], "Repository")
    head, source = given["headRefName"], repository
    if given.get("headRepositoryId"):
        source = typed(call, given["headRepositoryId"], "Repository")
    if ":" in head:
        owner, _, head = head.partition(":")
        source = repository_named(call, owner, source.name)
    if source.git.branch(head) is None:
        refuse(422, f"Head sha can't be blank, Base sha can't be blank, No commits between {given['baseRefName']} and {head}")
    for other in repository.issues.values():
        same = other.kind == "PullRequest" and other.state == "OPEN" and other.head_repository is source
        if same and other.head_ref_name == head:
            refuse(422, f"A pull request already exists for {source.owner.login}:{head}.")
    title, body, base = given["title"], given.get("body") or "", given["baseRefName"]
    return {"pullRequest": seed.pull(call.world, repository, head, title, body, base, source, bool(given.get("draft")))}


def update_pull_request(call, given):
    found = typed(call, given["pullRequestId"], "PullRequest")
    if given.get("baseRefName"):
        found.base_ref_name = given["baseRefName"]
        found.base_oid = found.repository.git.branch(found.base_ref_name)
    if given.get("state"):
        found.state = given["state"]
    return {"pullRequest": apply(call, found, given)}


def draft(value):
    def mutate(call, given):
        found = typed(call, given["pullRequestId"], "PullRequest")
        found.is_draft = value
        return {"pullRequest": found}

    return mutate


def merge_pull_request(call, given):
    found = typed(call, given["pullRequestId"], "PullRequest")
    method = (given.get("mergeMethod") or "MERGE").lower()
    rest_issues.merge_now(found, method, given.get("commitHeadline"), given.get("expectedHeadOid"))
    return {"pullRequest": found, "actor": call.viewer}


def same_pull_request(call, given):
    return {"pullRequest": typed(call, given["pullRequestId"], "PullRequest")}


def request_reviews(call, given):
    found = typed(call, given["pullRequestId"], "PullRequest")
    found.requested = [node(call, text) for text in given.get("userIds") or []]
    return {"pullRequest": found}


def add_review(call, given):
    found = typed(call, given["pullRequestId"], "PullRequest")
    made = rest_issues.review(call.world, found, given.get("event"), given.get("body"), call.viewer)
    return {"pullRequestReview": made}


def labels(add):
    def mutate(call, given):
        found = typed(call, given["labelableId"], "Issue", "PullRequest")
        chosen = [node(call, text) for text in given["labelIds"]]
        found.labels = [label for label in found.labels if label not in chosen] + (chosen if add else [])
        return {"labelable": found}

    return mutate


def add_reaction(call, given):
    found = typed(call, given["subjectId"])
    return {"subject": found, "reaction": {"id": "REA_1", "content": given["content"]}}


def create_label(call, given):
    repository = typed(call, given["repositoryId"], "Repository")
    words = {"color": given["color"], "description": given.get("description") or ""}
    made = call.world.add("Label", repository, name=given["name"], **words)
    repository.labels.append(made)
    return {"label": made}


def move(git, name, oid, force=False):
    old = git.resolve(name)
    if old and not force and not git.ancestor(old, oid):
        refuse(422, "Update is not a fast forward")
    git.set(name, oid)


def create_ref(call, given):
    repository = typed(call, given["repositoryId"], "Repository")
    if repository.git.resolve(given["name"]):
        refuse(422, f"A ref named \"{given['name']}\" already exists in the repository.")
    repository.git.set(given["name"], given["oid"])
    return {"ref": ref(call.world, repository, given["name"])}


def update_ref(call, given):
    found = typed(call, given["refId"], "Ref")
    move(found.repository.git, found.full, given["oid"], given.get("force"))
    gitweb.follow_pushes(found.repository)
    return {"ref": found}


def update_refs(call, given):
    repository = typed(call, given["repositoryId"], "Repository")
    for row in given["refUpdates"]:
        if row["afterOid"] == "0" * 40:
            repository.git.delete(row["name"])
        else:
            move(repository.git, row["name"], row["afterOid"], row.get("force"))
    return {}


def delete_ref(call, given):
    found = typed(call, given["refId"], "Ref")
    found.repository.git.delete(found.full)
    return {}


def create_commit(call, given):
    branch = given["branch"]
    if branch.get("id"):
        target = typed(call, branch["id"], "Ref")
        repository, name = target.repository, target.name
    else:
        repository = repository_named(call, *branch["repositoryNameWithOwner"].split("/"))
        name = branch["branchName"].removeprefix("refs/heads/")
    git = repository.git
    if git.branch(name) != given["expectedHeadOid"]:
        refuse(409, f"Expected branch to point to \"{given['expectedHeadOid']}\" but it did not.")
    changes, text = given.get("fileChanges") or {}, given["message"]["headline"]
    for row in changes.get("additions") or []:
        git.write_file(name, row["path"], base64.b64decode(row["contents"]), text)
    for row in changes.get("deletions") or []:
        git.write_file(name, row["path"], None, text)
    return {"commit": commit(call.world, repository, f"refs/heads/{name}"), "ref": ref(call.world, repository, f"refs/heads/{name}")}


def merge_branch(call, given):
    repository = typed(call, given["repositoryId"], "Repository")
    head = repository.git.resolve(given["head"]) or refuse(404, "Head does not exist")
    text = given.get("commitMessage") or f"Merge {given['head']}"
    return {"mergeCommit": commit(call.world, repository, repository.git.merge(given["base"], head, text))}


def create_repository(call, given):
    made = seed.simple(call.world, f"{call.viewer.login}/{given['name']}")
    return {"repository": made}


CHANGES = {
    "createIssue": create_issue, "updateIssue": update_issue, "closeIssue": set_state("issueId", "issue", "CLOSED"),
    "reopenIssue": set_state("issueId", "issue", "OPEN"), "deleteIssue": delete_issue, "transferIssue": transfer_issue,
    "addComment": add_comment, "updateIssueComment": update_comment, "createPullRequest": create_pull_request,
    "updatePullRequest": update_pull_request, "closePullRequest": set_state("pullRequestId", "pullRequest", "CLOSED"),
    "reopenPullRequest": set_state("pullRequestId", "pullRequest", "OPEN"), "markPullRequestReadyForReview": draft(False),
    "convertPullRequestToDraft": draft(True), "mergePullRequest": merge_pull_request,
    "enablePullRequestAutoMerge": same_pull_request, "disablePullRequestAutoMerge": same_pull_request,
    "updatePullRequestBranch": same_pull_request, "requestReviews": request_reviews, "addPullRequestReview": add_review,
    "addLabelsToLabelable": labels(True), "removeLabelsFromLabelable": labels(False), "addReaction": add_reaction,
    "createLabel": create_label, "createRef": create_ref, "updateRef": update_ref, "updateRefs": update_refs,
    "deleteRef": delete_ref, "createCommitOnBranch": create_commit, "mergeBranch": merge_branch,
    "createRepository": create_repository,
}
