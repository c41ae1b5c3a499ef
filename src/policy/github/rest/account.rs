//! What is not below a repository: accounts, organizations, and what concerns all of GitHub (github-scope.md, section 3.4). What no row
//! names is refused; those that are named here say why.

use super::super::scope::GitHubOption::{OrgRead, Packages, PublicSearch};
use super::row::*;

const ACROSS: &str = "it reaches across repositories";
const CONTROL: &str = "it is about the account itself or a lasting credential";
const CREATES: &str = "it makes a repository";
const WIDENS: &str = "it changes what the credential reaches";
const OWNERS: &str = "it belongs to an owner and not to a repository";
const SITE: &str = "it administers the installation";
const APP: &str = "it is about Apps and their tokens";
const GISTS: &str = "gists belong to no repository";
const MINTS: &str = "it makes a credential or starts a machine";

pub(super) const TABLE: Table = &[
    ("", &[plain("/")]),
    ("admin", &[deny(ANY, "/admin/**", SITE)]),
    ("advisories", &[plain("/advisories/**")]),
    ("agents", &[deny(ANY, "/agents/**", MINTS)]),
    ("app", &[deny(ANY, "/app/**", APP)]),
    ("app-manifests", &[deny(ANY, "/app-manifests/**", APP)]),
    ("applications", &[deny(ANY, "/applications/**", APP)]),
    ("apps", &[deny(ANY, "/apps/**", APP)]),
    ("assignments", &[deny(ANY, "/assignments/**", ACROSS)]),
    ("classrooms", &[deny(ANY, "/classrooms/**", ACROSS)]),
    ("codes_of_conduct", &[plain("/codes_of_conduct/**")]),
    ("codespaces", &[deny(ANY, "/codespaces/**", MINTS)]),
    ("copilot_internal", &[deny(ANY, "/copilot_internal/**", MINTS)]),
    ("credentials", &[deny(ANY, "/credentials/**", CONTROL)]),
    ("emojis", &[plain("/emojis")]),
    ("enterprise", &[deny(ANY, "/enterprise/**", SITE)]),
    ("enterprise-installation", &[deny(ANY, "/enterprise-installation/**", SITE)]),
    ("enterprises", &[deny(ANY, "/enterprises/**", SITE)]),
    ("events", &[deny(ANY, "/events", ACROSS)]),
    ("feeds", &[deny(ANY, "/feeds", ACROSS)]),
    ("gists", &[deny(ANY, "/gists/**", GISTS)]),
    ("gitignore", &[plain("/gitignore/templates/**")]),
    (
        "installation",
        &[
            local(GET, "/installation/repositories", Local::InstallationRepositories),
            local(DELETE, "/installation/token", Local::TokenRevoked),
        ],
    ),
    ("internal", &[deny(ANY, "/internal/**", MINTS)]),
    ("issues", &[deny(ANY, "/issues/**", ACROSS)]),
    ("licenses", &[plain("/licenses/**")]),
    ("markdown", &[body(POST, "/markdown", Door::Context), check(POST, "/markdown/raw", Check::Text)]),
    ("marketplace_listing", &[deny(ANY, "/marketplace_listing/**", APP)]),
    ("meta", &[plain("/meta")]),
    ("networks", &[deny(ANY, "/networks/**", ACROSS)]),
    ("notifications", &[deny(ANY, "/notifications/**", ACROSS)]),
    ("octocat", &[plain("/octocat")]),
    (
        "organizations",
        &[
            option(GET, "/organizations/#", OrgRead),
            deny(ANY, "/organizations/#/teams/*/{repos,projects,discussions}/**", ACROSS),
            option(GET, "/organizations/#/{members,teams}/**", OrgRead),
            deny(ANY, "/organizations/**", OWNERS),
        ],
    ),
    (
        "orgs",
        &[
            option(GET, "/orgs/*", OrgRead),
            deny(ANY, "/orgs/*/teams/*/{repos,projects,discussions,external-groups}/**", ACROSS),
            deny(ANY, "/orgs/*/members/*/{codespaces,copilot}/**", MINTS),
            option(GET, "/orgs/*/{members,teams}/**", OrgRead),
            deny(POST, "/orgs/*/repos", CREATES),
            option(GET, "/orgs/*/packages/**", Packages),
            deny(ANY, "/orgs/**", OWNERS),
        ],
    ),
    ("packages", &[option(GET, "/packages/**", Packages), deny(WRITES, "/packages/**", OWNERS)]),
    ("rate_limit", &[plain("/rate_limit")]),
    ("scim", &[deny(ANY, "/scim/**", SITE)]),
    (
        "search",
        &[
            check(GET, "/search/{issues,code,commits}", Check::Search),
            Row {
                verdict: Verdict::Both(PublicSearch, Check::PublicSearch),
                ..plain("/search/{repositories,topics,users}")
            },
            check(GET, "/search/labels", Check::LabelRepository),
        ],
    ),
    ("setup", &[deny(ANY, "/setup/**", SITE)]),
    (
        "teams",
        &[
            deny(ANY, "/teams/#/{repos,projects,discussions}/**", ACROSS),
            option(GET, "/teams/#/**", OrgRead),
            deny(ANY, "/teams/**", OWNERS),
        ],
    ),
    (
        "user",
        &[
            local(GET, "/user", Local::User),
            plain("/user/#"),
            local(GET, "/user/repos", Local::UserRepositories),
            deny(POST, "/user/repos", CREATES),
            check(GET, "/user/starred/*/*", Check::StarredRepository),
            deny(WRITES, "/user/installations/**", WIDENS),
            option(GET, "/user/packages/**", Packages),
            deny(GET, "/user/**", ACROSS),
            deny(WRITES, "/user/**", CONTROL),
        ],
    ),
    ("users", &[plain("/users/*"), option(GET, "/users/*/packages/**", Packages), deny(ANY, "/users/**", ACROSS)]),
    ("versions", &[plain("/versions")]),
    ("zen", &[plain("/zen")]),
];
