//! What is below `/repos/{owner}/{repo}` (github-scope.md, sections 3.1 and 3.2). What no row names is refused.

use super::super::scope::GitHubOption::{Admin, Deploy, Dispatch, Forks, Merge, Secrets, Security};
use super::row::*;

const COPIES: &str = "it makes or moves a repository";
const ADMIN: &str = "it administers the repository";
const GRANTS: &str = "it gives others access";
const DURABLE: &str = "it makes or shows a lasting credential";
const SENDS: &str = "it sends the repository's events elsewhere";
const SECRET: &str = "it changes secrets";
const APPROVES: &str = "approving is left to people";
const ELSEWHERE: &str = "it reaches other repositories";
const ORGANIZATION: &str = "it shows what belongs to the organization";
const MACHINES: &str = "it starts machines or agents outside this sandbox";
const ACCOUNT: &str = "it changes the account's own state";
const TRUST: &str = "it changes what workflows may do";
const FINDINGS: &str = "it changes security findings";

pub(super) const TABLE: Table = &[
    ("", &[plain(""), both(PATCH, "", Admin, Door::Settings), deny(DELETE, "", ADMIN)]),
    ("actions", ACTIONS),
    ("activity", &[plain("activity")]),
    (
        "agents",
        &[
            option(GET, "agents/secrets/**", Secrets),
            deny(WRITES, "agents/secrets/**", SECRET),
            plain("agents/variables/**"),
            option(WRITES, "agents/variables/**", Admin),
            deny(ANY, "agents/**", MACHINES),
        ],
    ),
    ("assignees", &[plain("assignees/**")]),
    ("attestations", &[plain("attestations/**"), write(POST, "attestations")]),
    ("autolinks", &[plain("autolinks/**"), option(WRITES, "autolinks/**", Admin)]),
    ("automated-security-fixes", &[option(WRITES, "automated-security-fixes", Admin)]),
    (
        "branches",
        &[
            body(POST, "branches/***/rename", Door::BranchRename),
            option(WRITES, "branches/@/protection/**", Admin),
            read("branches/***"),
        ],
    ),
    ("check-runs", &[read("check-runs/**"), write(POST.and(PATCH), "check-runs/**")]),
    ("check-suites", &[read("check-suites/**"), write(POST.and(PATCH), "check-suites/**")]),
    ("code-quality", &[plain("code-quality/**"), deny(WRITES, "code-quality/**", FINDINGS)]),
    (
        "code-scanning",
        &[
            deny(ANY, "code-scanning/codeql/variant-analyses/**", ELSEWHERE),
            body(POST, "code-scanning/alerts/*/autofix/commits", Door::Autofix),
            write(POST, "code-scanning/sarifs"),
            option(PATCH, "code-scanning/alerts/*", Security),
            plain("code-scanning/codeql/databases/*"),
            plain("code-scanning/**"),
            deny(WRITES, "code-scanning/**", FINDINGS),
        ],
    ),
    ("code-security-configuration", &[option(WRITES, "code-security-configuration", Admin)]),
    ("codeowners", &[plain("codeowners/errors")]),
    (
        "codespaces",
        &[
            option(GET, "codespaces/secrets/**", Secrets),
            deny(WRITES, "codespaces/secrets/**", SECRET),
            deny(ANY, "codespaces/**", MACHINES),
        ],
    ),
    ("collaborators", &[plain("collaborators/**"), deny(WRITES, "collaborators/**", GRANTS)]),
    ("comments", &[read("comments/**"), write(WRITES, "comments/**")]),
    ("commits", &[write(POST, "commits/*/comments"), plain("commits/***/pulls"), read("commits/***")]),
    ("community", &[plain("community/profile")]),
    ("compare", &[check(GET, "compare/***", Check::Compare)]),
    ("contents", &[plain("contents/***"), body(PUT.and(DELETE), "contents/***", Door::Contents)]),
    ("contributors", &[plain("contributors")]),
    ("copilot", &[deny(ANY, "copilot/**", MACHINES)]),
    (
        "dependabot",
        &[
            option(GET, "dependabot/secrets/**", Secrets),
            deny(WRITES, "dependabot/secrets/**", SECRET),
            option(PATCH, "dependabot/alerts/*", Security),
            plain("dependabot/alerts/**"),
            deny(WRITES, "dependabot/alerts/**", FINDINGS),
        ],
    ),
    (
        "dependency-graph",
        &[
            check(GET, "dependency-graph/compare/***", Check::Compare),
            plain("dependency-graph/**"),
            write(POST, "dependency-graph/snapshots"),
        ],
    ),
    (
        "deployments",
        &[
            both(POST, "deployments", Deploy, Door::Deployment),
            option(POST, "deployments/*/statuses", Deploy),
            option(DELETE, "deployments/*", Deploy),
            read("deployments/**"),
        ],
    ),
    ("dispatches", &[option(POST, "dispatches", Dispatch)]),
    ("environments", ENVIRONMENTS),
    ("events", &[plain("events")]),
    ("forks", &[option(GET, "forks", Forks), deny(POST, "forks", COPIES)]),
    ("generate", &[deny(POST, "generate", COPIES)]),
    (
        "git",
        &[
            write(POST, "git/{blobs,trees,commits,tags}"),
            body(POST, "git/refs", Door::RefCreate),
            body(PATCH, "git/refs/***", Door::RefUpdate),
            body(DELETE, "git/refs/***", Door::RefDelete),
            read("git/***"),
        ],
    ),
    ("hash-algorithm", &[plain("hash-algorithm")]),
    ("hooks", &[deny(ANY, "hooks/**", SENDS)]),
    ("immutable-releases", &[plain("immutable-releases"), option(WRITES, "immutable-releases", Admin)]),
    ("import", &[deny(ANY, "import/**", ELSEWHERE)]),
    ("installation", &[deny(ANY, "installation", DURABLE)]),
    ("interaction-limits", &[plain("interaction-limits"), option(WRITES, "interaction-limits", Admin)]),
    ("invitations", &[deny(ANY, "invitations/**", GRANTS)]),
    ("issue-types", &[plain("issue-types")]),
    ("issues", ISSUES),
    ("keys", &[plain("keys/**"), deny(WRITES, "keys/**", DURABLE)]),
    ("labels", &[read("labels"), read("labels/@"), write(POST, "labels"), write(PATCH.and(DELETE), "labels/@")]),
    ("languages", &[plain("languages")]),
    ("license", &[plain("license")]),
    ("merge-upstream", &[body(POST, "merge-upstream", Door::MergeUpstream)]),
    ("merges", &[body(POST, "merges", Door::Merges)]),
    ("milestones", &[read("milestones/**"), write(WRITES, "milestones/**")]),
    ("notifications", &[plain("notifications"), deny(WRITES, "notifications", ACCOUNT)]),
    ("pages", &[plain("pages/**"), option(WRITES, "pages/**", Admin)]),
    (
        "private-vulnerability-reporting",
        &[plain("private-vulnerability-reporting"), option(WRITES, "private-vulnerability-reporting", Admin)],
    ),
    ("properties", &[plain("properties/values"), option(WRITES, "properties/values", Admin)]),
    ("pulls", PULLS),
    ("readme", &[plain("readme/***")]),
    ("releases", RELEASES),
    ("rules", &[plain("rules/branches/***")]),
    ("rulesets", &[plain("rulesets/**"), option(WRITES, "rulesets/**", Admin)]),
    ("secret-scanning", &[option(GET, "secret-scanning/**", Security), deny(WRITES, "secret-scanning/**", FINDINGS)]),
    ("security-advisories", &[plain("security-advisories/**"), deny(WRITES, "security-advisories/**", FINDINGS)]),
    ("stacks", &[plain("stacks/**")]),
    ("stargazers", &[plain("stargazers/**")]),
    ("stats", &[plain("stats/**")]),
    ("statuses", &[read("statuses/***"), write(POST, "statuses/*")]),
    ("subscribers", &[plain("subscribers")]),
    ("subscription", &[plain("subscription"), deny(WRITES, "subscription", ACCOUNT)]),
    ("tags", &[read("tags")]),
    ("tarball", &[plain("tarball/***")]),
    ("teams", &[plain("teams"), deny(WRITES, "teams/**", GRANTS)]),
    ("topics", &[plain("topics"), option(WRITES, "topics", Admin)]),
    ("traffic", &[plain("traffic/**")]),
    ("transfer", &[deny(POST, "transfer", COPIES)]),
    ("vulnerability-alerts", &[plain("vulnerability-alerts"), option(WRITES, "vulnerability-alerts", Admin)]),
    ("zipball", &[plain("zipball/***")]),
];

const ACTIONS: &[Row] = &[
    deny(ANY, "actions/runners/**", DURABLE),
    option(GET, "actions/secrets/**", Secrets),
    deny(WRITES, "actions/secrets/**", SECRET),
    plain("actions/variables/**"),
    option(WRITES, "actions/variables/**", Admin),
    deny(GET, "actions/{organization-secrets,organization-variables}/**", ORGANIZATION),
    deny(ANY, "actions/{permissions,oidc}/**", TRUST),
    deny(POST, "actions/runs/*/{approve,pending_deployments,deployment_protection_rule}", APPROVES),
    write(POST, "actions/runs/*/{rerun,rerun-failed-jobs,cancel,force-cancel}"),
    write(POST, "actions/jobs/*/rerun"),
    option(POST, "actions/workflows/*/dispatches", Dispatch),
    option(PUT, "actions/workflows/*/{enable,disable}", Admin),
    option(DELETE, "actions/runs/*", Admin),
    option(DELETE, "actions/runs/*/logs", Admin),
    option(DELETE, "actions/artifacts/*", Admin),
    option(DELETE, "actions/caches/**", Admin),
    plain("actions/runs/*/logs"),
    plain("actions/runs/*/attempts/*/logs"),
    plain("actions/jobs/*/logs"),
    plain("actions/artifacts/*/*"),
    read("actions/{runs,jobs,workflows,artifacts}/**"),
    plain("actions/caches"),
    plain("actions/cache/usage"),
    deny(WRITES, "actions/cache/**", TRUST),
    plain("actions/concurrency_groups/**"),
];

const ENVIRONMENTS: &[Row] = &[
    option(GET, "environments/@/secrets/**", Secrets),
    deny(WRITES, "environments/@/secrets/**", SECRET),
    plain("environments/@/variables/**"),
    plain("environments"),
    plain("environments/@"),
    plain("environments/@/{deployment-branch-policies,deployment_protection_rules}/**"),
    option(WRITES, "environments/@/**", Admin),
];

const ISSUES: &[Row] = &[
    reduce("issues/*/{timeline,events,sub_issues,parent}"),
    reduce("issues/*/dependencies/{blocked_by,blocking}"),
    body(POST.and(DELETE).and(PATCH), "issues/*/{sub_issue,sub_issues}/**", Door::IssueIds),
    body(POST.and(DELETE), "issues/*/dependencies/blocked_by/**", Door::IssueIds),
    body(POST, "issues", Door::Issue),
    body(PATCH, "issues/#", Door::Issue),
    write(WRITES, "issues/#/labels"),
    write(DELETE, "issues/#/labels/@"),
    write(WRITES, "issues/#/{assignees,lock,comments,reactions}/**"),
    write(WRITES, "issues/comments/**"),
    read("issues/**"),
];

const PULLS: &[Row] = &[
    deny(ANY, "pulls/*/codespaces/**", MACHINES),
    body(POST, "pulls", Door::Head),
    both(PUT, "pulls/#/merge", Merge, Door::PullMerge),
    body(PUT, "pulls/#/update-branch", Door::PullUpdate),
    body(PATCH, "pulls/#", Door::PullEdit),
    write(WRITES, "pulls/#/{comments,reviews,requested_reviewers}/**"),
    write(WRITES, "pulls/comments/**"),
    read("pulls/**"),
];

const RELEASES: &[Row] = &[
    body(POST, "releases", Door::ReleaseCreate),
    body(PATCH, "releases/#", Door::ReleaseUpdate),
    write(DELETE, "releases/#"),
    write(POST, "releases/generate-notes"),
    write(POST, "releases/#/reactions"),
    write(DELETE, "releases/#/reactions/*"),
    write(POST, "releases/#/assets"),
    write(PATCH.and(DELETE), "releases/assets/#"),
    read("releases/tags/***"),
    read("releases/**"),
];
