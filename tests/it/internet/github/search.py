"""Search over what a token sees."""

import shlex


def find_issues(world, token, query):
    """Issues and pull requests: several `repo:` are a union, other qualifiers narrow, other words are text."""
    try:
        terms = shlex.split(query)
    except ValueError:
        terms = query.split()
    names, tests, words = set(), [], []
    for term in terms:
        key, colon, value = term.partition(":")
        key, value = key.lower(), value.lower()
        if key == "repo" and colon:
            names.add(value)
        elif colon and key in QUALIFIERS:
            tests.append((QUALIFIERS[key], value))
        elif not colon:
            words.append(term.lower())
    found = []
    for repository in world.repositories.values():
        if not token.sees(repository) or (names and repository.full_name.lower() not in names):
            continue
        for issue in repository.issues.values():
            text = (issue.title + " " + (issue.body or "")).lower()
            if all(test(issue, value) for test, value in tests) and all(word in text for word in words):
                found.append(issue)
    return sorted(found, key=lambda issue: -issue.id)


def state(issue, value):
    kinds = {"issue": "Issue", "pr": "PullRequest", "pull-request": "PullRequest"}
    if value in kinds:
        return issue.kind == kinds[value]
    return (issue.state == "OPEN") == (value == "open") if value in ("open", "closed") else True


QUALIFIERS = {
    "is": state,
    "state": state,
    "type": state,
    "author": lambda issue, value: value in ("@me", issue.author.login.lower()),
    "assignee": lambda issue, value: value in [account.login.lower() for account in issue.assignees],
    "label": lambda issue, value: value in [label.name.lower() for label in issue.labels],
    "user": lambda issue, value: issue.repository.owner.login.lower() == value,
    "org": lambda issue, value: issue.repository.owner.login.lower() == value,
    "head": lambda issue, value: getattr(issue, "head_ref_name", None) == value,
    "review-requested": lambda issue, value: False,
}
