"""REST of issues, pull requests, comments, labels, reviews."""

import gitweb
import seed
from answers import Answer, as_json, message, refuse
from gitrepo import Failed
from rest_forms import comment_form, commit_form, issue_form, label_form, milestone_form, pull_form, review_form
from rest_files import file_row
from world import NOW


def thing(call, number, kind=None):
    found = call.repository.issues.get(int(number))
    if found is None or (kind and found.kind != kind):
        refuse(404, "Not Found")
    return found


def listed(call, kinds):
    wanted = call.request.argument("state", "open")
    open_too = {"open": [True], "closed": [False], "all": [True, False]}.get(wanted, [True])
    found = [i for i in call.repository.issues.values() if i.kind in kinds and (i.state == "OPEN") in open_too]
    head = call.request.argument("head")
    found = [i for i in found if not head or getattr(i, "head_ref_name", None) == head.split(":")[-1]]
    return sorted(found, key=lambda i: -i.number)


def issues(call):
    return call.page(listed(call, ("Issue", "PullRequest")), issue_form)


def make_issue(call):
    made = seed.issue(call.world, call.repository, call.body["title"], call.body.get("body") or "", call.viewer.login.lower())
    set_labels(call, made, call.body.get("labels") or [])
    return as_json(201, issue_form(made, call.site))


def show_issue(call, number):
    return as_json(200, issue_form(thing(call, number), call.site))


def change(found, body):
    for name in ("title", "body"):
        if body.get(name) is not None:
            setattr(found, name, body[name])
    if body.get("state"):
        found.state = {"open": "OPEN", "closed": "CLOSED"}[body["state"]]
        found.closed_at = NOW if found.state == "CLOSED" else None


def change_issue(call, number):
    found = thing(call, number)
    change(found, call.body)
    if call.body.get("labels") is not None:
        found.labels = []
        set_labels(call, found, call.body["labels"])
    return show_issue(call, number)


def set_labels(call, found, names):
    for name in names:
        name = name["name"] if isinstance(name, dict) else name
        known = [label for label in call.repository.labels if label.name == name]
        label = known[0] if known else call.world.add("Label", call.repository, name=name, color="ededed", description="")
        if not known:
            call.repository.labels.append(label)
        if label not in found.labels:
            found.labels.append(label)


def issue_labels(call, number):
    return call.page(thing(call, number).labels, label_form)


def add_labels(call, number):
    set_labels(call, thing(call, number), call.body.get("labels", []))
    return issue_labels(call, number)


def remove_label(call, number, name):
    found = thing(call, number)
    found.labels = [label for label in found.labels if label.name != name]
    return issue_labels(call, number)


def assignees(call, number):
    found = thing(call, number)
    found.assignees = [call.world.accounts[login.lower()] for login in call.body.get("assignees", [])]
    return as_json(201, issue_form(found, call.site))


def comments(call, number):
    return call.page(thing(call, number).comments, comment_form)


def make_comment(call, number):
    made = seed.comment(call.world, thing(call, number), call.body["body"], call.viewer)
    return as_json(201, comment_form(made, call.site))


def find_comment(call, number):
    for found in call.repository.issues.values():
        for comment in found.comments:
            if comment.id == int(number):
                return comment
    return refuse(404, "Not Found")


def show_comment(call, number):
    return as_json(200, comment_form(find_comment(call, number), call.site))


def change_comment(call, number):
    find_comment(call, number).body = call.body["body"]
    return show_comment(call, number)


def delete_comment(call, number):
    comment = find_comment(call, number)
    comment.subject.comments.remove(comment)
    return Answer(204)


def all_comments(call):
    return call.page([c for i in call.repository.issues.values() for c in i.comments], comment_form)


def timeline(call, number):
    """Its comments, and a mention from a repository that the asker may or may not see."""
    found = thing(call, number)
    rows = [comment_form(comment, call.site) | {"event": "commented"} for comment in found.comments]
    foreign = call.world.find("other/secret")
    if foreign and call.token.sees(foreign):
        source = issue_form(foreign.issues[1], call.site)
        rows.append({"event": "cross-referenced", "created_at": NOW, "source": {"type": "issue", "issue": source}})
    return call.page(rows, lambda row, _: row)


def sub_issues(call, number):
    return call.page(getattr(thing(call, number), "sub_issues", []), issue_form)


def add_sub_issue(call, number):
    wanted = call.body.get("sub_issue_id")
    for repository in call.world.repositories.values():
        for found in repository.issues.values():
            if found.id == wanted and call.token.sees(repository):
                parent = thing(call, number)
                parent.sub_issues = [*getattr(parent, "sub_issues", []), found]
                return as_json(201, issue_form(parent, call.site))
    return message(404, "The provided sub-issue does not exist")


def labels(call):
    return call.page(call.repository.labels, label_form)


def make_label(call):
    made = call.world.add("Label", call.repository, name=call.body["name"], color=call.body.get("color", "ededed"),
                          description=call.body.get("description") or "")
    call.repository.labels.append(made)
    return as_json(201, label_form(made, call.site))


def milestones(call):
    return call.page(call.repository.milestones, milestone_form)


def pulls(call):
    return call.page(listed(call, ("PullRequest",)), pull_form)


def make_pull(call):
    head, repository = call.body["head"], call.repository
    source = repository
    if ":" in head:
        owner, _, head = head.partition(":")
        source = call.world.find(f"{owner}/{call.body.get('head_repo') or repository.name}")
    if source is None or not call.token.sees(source) or source.git.branch(head) is None:
        return message(422, "Validation Failed", errors=[{"resource": "PullRequest", "field": "head", "code": "invalid"}])
    made = seed.pull(call.world, repository, head, call.body.get("title", ""), call.body.get("body") or "",
                     call.body.get("base"), source, bool(call.body.get("draft")))
    return as_json(201, pull_form(made, call.site))


def show_pull(call, number):
    found = thing(call, number, "PullRequest")
    span = f"{found.base_oid}...{found.head_oid}"
    git = found.repository.git
    if call.request.accepts("diff"):
        return Answer(200, git.bytes("diff", span), ("Content-Type", "application/vnd.github.v3.diff; charset=utf-8"))
    if call.request.accepts("patch"):
        data = git.bytes("format-patch", "--stdout", f"{found.base_oid}..{found.head_oid}")
        return Answer(200, data, ("Content-Type", "application/vnd.github.v3.patch; charset=utf-8"))
    return as_json(200, pull_form(found, call.site))


def change_pull(call, number):
    found = thing(call, number, "PullRequest")
    change(found, call.body)
    if call.body.get("base"):
        found.base_ref_name = call.body["base"]
        found.base_oid = found.repository.git.branch(found.base_ref_name)
    return show_pull(call, number)


def pull_files(call, number):
    found = thing(call, number, "PullRequest")
    rows = found.repository.git.files(found.base_oid, found.head_oid)
    return call.page(rows, lambda row, _: file_row(row))


def pull_commits(call, number):
    found = thing(call, number, "PullRequest")
    git = found.repository.git
    oids = git.log(f"{found.base_oid}..{found.head_oid}")[::-1]
    return call.page(oids, lambda oid, site: commit_form(git.commit(oid), call.repository, site))


def merge_now(found, method="merge", text=None, sha=None):
    """Merges a pull request, for REST and GraphQL alike; refuses with GitHub's words."""
    git = found.repository.git
    if found.state != "OPEN":
        refuse(405, "Pull Request is not mergeable")
    if sha and sha != found.head_oid:
        refuse(409, "Head branch was modified. Review and try the merge again.")
    try:
        text = text or f"Merge pull request #{found.number} from {found.head_ref_name}"
        found.merge_sha = git.merge(found.base_ref_name, found.head_oid, text, method)
    except Failed:
        refuse(405, "Pull Request is not mergeable")
    found.state, found.merged_at, found.closed_at = "MERGED", NOW, NOW


def merge(call, number):
    found = thing(call, number, "PullRequest")
    merge_now(found, call.body.get("merge_method", "merge"), call.body.get("commit_title"), call.body.get("sha"))
    return as_json(200, {"sha": found.merge_sha, "merged": True, "message": "Pull Request successfully merged"})


def is_merged(call, number):
    return Answer(204) if thing(call, number, "PullRequest").state == "MERGED" else message(404, "Not Found")


def update_branch(call, number):
    found = thing(call, number, "PullRequest")
    git = found.head_repository.git
    if not git.ancestor(found.base_oid, found.head_oid):
        git.merge(found.head_ref_name, found.base_oid, f"Merge {found.base_ref_name}")
        gitweb.follow_pushes(found.head_repository)
    return as_json(202, {"message": "Updating pull request branch.", "url": call.site.web + found.path})


def reviews(call, number):
    return call.page(thing(call, number, "PullRequest").reviews, review_form)


def make_review(call, number):
    made = review(call.world, thing(call, number, "PullRequest"), call.body.get("event"), call.body.get("body"), call.viewer)
    return as_json(200, review_form(made, call.site))


def review(world, pull, event, body, viewer):
    state = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}.get(event, "PENDING")
    made = world.add("PullRequestReview", pull.repository, body=body or "", author=viewer, state=state, pull=pull)
    made.path = f"{pull.path}#pullrequestreview-{made.id}"
    pull.reviews.append(made)
    return made


def request_reviewers(call, number):
    found = thing(call, number, "PullRequest")
    found.requested = [call.world.accounts[login.lower()] for login in call.body.get("reviewers", [])]
    return as_json(201, pull_form(found, call.site))


def empty(call, *_):
    return as_json(200, [])


ISSUE = "/issues/([0-9]+)"
PULL = "/pulls/([0-9]+)"
ROUTES = [
    ("GET", "/issues", issues), ("POST", "/issues", make_issue), ("GET", "/issues/comments", all_comments),
    ("GET", ISSUE, show_issue), ("PATCH", ISSUE, change_issue), ("GET", f"{ISSUE}/labels", issue_labels),
    ("POST", f"{ISSUE}/labels", add_labels), ("PUT", f"{ISSUE}/labels", add_labels),
    ("DELETE", f"{ISSUE}/labels/(.+)", remove_label), ("POST", f"{ISSUE}/assignees", assignees),
    ("GET", f"{ISSUE}/comments", comments), ("POST", f"{ISSUE}/comments", make_comment),
    ("GET", "/issues/comments/([0-9]+)", show_comment), ("PATCH", "/issues/comments/([0-9]+)", change_comment),
    ("DELETE", "/issues/comments/([0-9]+)", delete_comment), ("GET", f"{ISSUE}/timeline", timeline),
    ("GET", f"{ISSUE}/events", timeline), ("GET", f"{ISSUE}/sub_issues", sub_issues),
    ("POST", f"{ISSUE}/sub_issues", add_sub_issue), ("GET", "/labels", labels), ("POST", "/labels", make_label),
    ("GET", "/milestones", milestones), ("GET", "/pulls", pulls), ("POST", "/pulls", make_pull), ("GET", PULL, show_pull),
    ("PATCH", PULL, change_pull), ("GET", f"{PULL}/files", pull_files), ("GET", f"{PULL}/commits", pull_commits),
    ("PUT", f"{PULL}/merge", merge), ("GET", f"{PULL}/merge", is_merged), ("PUT", f"{PULL}/update-branch", update_branch),
    ("GET", f"{PULL}/reviews", reviews), ("POST", f"{PULL}/reviews", make_review),
    ("POST", f"{PULL}/requested_reviewers", request_reviewers),
    ("GET", f"{PULL}/comments|/pulls/comments|{ISSUE}/reactions|/assignees|/comments", empty),
]
