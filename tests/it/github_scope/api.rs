//! REST: other repositories, what belongs to none, and what is closed of one's own.

use serde_json::json;

use super::{Names, Row, row, scoped, table};
use crate::internet::github::github;

const OTHER: &str = "this sandbox may not use the repository other/secret";

pub fn other_repositories_by_rest() {
    github().repository("acme/byrest");
    github().lever(json!({"do": "repository", "name": "evil/byrest", "like": "acme/byrest"}));
    let evil = github().git("evil/byrest", &["rev-parse", "refs/heads/evil"]);
    let token = github().wide_token();
    let other = |line: &'static str| row(line).refused("repo_not_allowed", OTHER);
    let rows: Vec<Row> = vec![
        row("GET api.github.com/repos/ACME/ByRest"),
        row("GET api.github.com/repositories/<own_id>/issues?page=2"),
        row("GET api.github.com/repos/acme/byrest/compare/main...feature"),
        // Repositories of a fork network share their objects on GitHub, and nobody outside can tell whose a commit is.
        row("GET api.github.com/repos/acme/byrest/git/commits/<evil>"),
        other("GET api.github.com/repos/other/secret"),
        row("HEAD api.github.com/repos/other/secret").refused("repo_not_allowed", ""),
        other("GET api.github.com/repos/other/secret/contents/README.md"),
        other("GET api.github.com/repos/other/secret/tarball/main"),
        other("GET api.github.com/repos/other/secret/actions/runs"),
        other("PUT api.github.com/repos/other/secret/contents/x").sends(r#"{"message":"m","content":"eA=="}"#),
        other("POST api.github.com/repos/other/secret/issues").sends(r#"{"title":"t"}"#),
        other("POST api.github.com/repos/other/secret/git/refs").sends(r#"{"ref":"refs/heads/x","sha":"x"}"#),
        other("DELETE api.github.com/repos/other/secret"),
        other("GET api.github.com/repos/acme/byrest/compare/main...other:secret:main"),
        other("GET api.github.com/repos/acme/byrest/compare/other:secret:main...main"),
        other("GET api.github.com/search/issues?q=foo+repo:acme/byrest+repo:other/secret"),
        other("GET api.github.com/search/issues?q=foo+repo:acme/byrest+-repo:other/secret"),
        other("GET api.github.com/search/code?q=foo+repo:other/secret"),
        other("POST api.github.com/markdown").sends(r#"{"text":"t","mode":"gfm","context":"other/secret"}"#),
        row("GET api.github.com/repositories/<secret_id>").refused("repo_not_allowed", "the number <"),
        row("GET api.github.com/repositories/<secret_id>/contents/README.md").refused("repo_not_allowed", ""),
        row("GET api.github.com/search/labels?repository_id=<secret_id>&q=bug").refused("repo_not_allowed", ""),
        // A name that GitHub leads elsewhere is no name of the binding's.
        row("GET api.github.com/repos/acme/old").refused("repo_not_allowed", "acme/old"),
        row("GET api.github.com/repos/acme/private-lib").refused("repo_not_allowed", "acme/private-lib"),
        row("GET api.github.com/repos/acme/byrest/compare/main...evil:evil").refused("repo_not_allowed", "evil:evil"),
        row("POST api.github.com/repos/acme/byrest/pulls")
            .sends(r#"{"title":"t","head":"evil:evil","base":"main"}"#)
            .refused("repo_not_allowed", ""),
        row("POST api.github.com/repos/acme/byrest/pulls")
            .sends(r#"{"title":"t","head":"main","head_repo":"secret","base":"main"}"#)
            .refused("repo_not_allowed", ""),
        row("POST api.github.com/repos/acme/byrest/issues/1/sub_issues")
            .sends(r#"{"sub_issue_id":777}"#)
            .refused("foreign_object", "777"),
        row("PATCH api.github.com/repos/acme/byrest/issues/1")
            .sends(r#"{"state":"closed","duplicate_issue_id":777}"#)
            .refused("foreign_object", "777"),
        row("POST api.github.com/repos/acme/byrest/merge-upstream")
            .sends(r#"{"branch":"main"}"#)
            .refused("repo_not_allowed", ""),
    ];
    let rows: Vec<Row> = rows.into_iter().map(numbered).collect();
    table(scoped(&token, &["acme/byrest"]), &token, &Names::of("acme/byrest").and("<evil>", evil), &rows);
}

/// The message has the number, which a row cannot say.
fn numbered(row: Row) -> Row {
    match row.came {
        super::Came::Refused(code, "the number <") => row.refused(code, "the number 2001"),
        super::Came::Refused(..) | super::Came::Unread(_) | super::Came::Passed(_) | super::Came::Here(_) => row,
    }
}

pub fn what_belongs_to_no_repository() {
    github().repository("acme/ofnone");
    let token = github().wide_token();
    let closed = |line: &'static str, why: &'static str| row(line).refused("not_allowed", why);
    let off = |line: &'static str| row(line).refused("option_off", "is switched off for this sandbox");
    let rows: Vec<Row> = vec![
        row("GET api.github.com/rate_limit"),
        row("GET api.github.com/repos/acme/ofnone/keys"),
        row("DELETE api.github.com/installation/token").here(204),
        closed("GET api.github.com/repositories", "it is not among what this sandbox may ask of GitHub"),
        closed("GET api.github.com/user/keys", "it reaches across repositories"),
        closed("POST api.github.com/user/keys", "a lasting credential").sends(r#"{"key":"ssh-ed25519 A"}"#),
        closed("POST api.github.com/user/gpg_keys", "a lasting credential").sends("{}"),
        closed("POST api.github.com/user/repos", "it makes a repository").sends(r#"{"name":"x"}"#),
        closed("POST api.github.com/orgs/acme/repos", "it makes a repository").sends(r#"{"name":"x"}"#),
        closed("PUT api.github.com/user/starred/other/secret", "").sends(""),
        closed("PUT api.github.com/user/installations/1/repositories/2001", "what the credential reaches").sends(""),
        closed("GET api.github.com/gists", "gists belong to no repository"),
        closed("POST api.github.com/gists", "gists belong to no repository")
            .sends(r#"{"files":{"a":{"content":"b"}}}"#),
        closed("GET api.github.com/notifications", "it reaches across repositories"),
        closed("GET api.github.com/issues", "it reaches across repositories"),
        closed("GET api.github.com/users/octo-user/repos", "it reaches across repositories"),
        closed("GET api.github.com/orgs/acme/repos", "it belongs to an owner"),
        closed("GET api.github.com/networks/acme/ofnone/events", "it reaches across repositories"),
        closed("POST api.github.com/app/installations/71/access_tokens", "Apps and their tokens").sends("{}"),
        closed("GET api.github.com/copilot_internal/v2/token", "it makes a credential"),
        closed("GET api.github.com/search/issues?q=foo", "add repo:OWNER/NAME"),
        closed("GET api.github.com/search/issues?q=repo:acme/ofnone+OR+is:public", "add repo:OWNER/NAME"),
        closed("GET api.github.com/search/issues?q=(repo:acme/ofnone)+x", "add repo:OWNER/NAME"),
        closed("GET api.github.com/search/issues?q=x+repo:acme/ofnone+org:other", "org:"),
        closed("GET api.github.com/search/code?q=x+repo:acme/ofnone+USER:other", ""),
        closed("POST api.github.com/repos/acme/ofnone/forks", "it makes or moves a repository").sends("{}"),
        closed("POST api.github.com/repos/acme/ofnone/transfer", "it makes or moves a repository")
            .sends(r#"{"new_owner":"evil"}"#),
        closed("POST api.github.com/repos/acme/ofnone/generate", "it makes or moves a repository").sends("{}"),
        closed("DELETE api.github.com/repos/acme/ofnone", "it administers the repository"),
        closed("GET api.github.com/repos/acme/ofnone/hooks", "events elsewhere"),
        closed("POST api.github.com/repos/acme/ofnone/hooks", "events elsewhere")
            .sends(r#"{"config":{"url":"https://evil.test"}}"#),
        closed("POST api.github.com/repos/acme/ofnone/keys", "a lasting credential")
            .sends(r#"{"key":"k","title":"t"}"#),
        closed("PUT api.github.com/repos/acme/ofnone/collaborators/evil", "it gives others access").sends("{}"),
        closed("POST api.github.com/repos/acme/ofnone/actions/runners/registration-token", "a lasting credential")
            .sends(""),
        closed("PUT api.github.com/repos/acme/ofnone/actions/secrets/X", "it changes secrets").sends("{}"),
        closed("PUT api.github.com/repos/acme/ofnone/actions/permissions", "what workflows may do").sends("{}"),
        closed("PUT api.github.com/repos/acme/ofnone/import", "it reaches other repositories")
            .sends(r#"{"vcs_url":"https://evil.test"}"#),
        closed("PUT api.github.com/repos/acme/ofnone/subscription", "the account's own state").sends("{}"),
        closed("POST api.github.com/repos/acme/ofnone/actions/runs/100/approve", "left to people").sends(""),
        closed("POST api.github.com/repos/acme/ofnone/new-thing", "it is not among").sends("{}"),
        off("GET api.github.com/repos/acme/ofnone/secret-scanning/alerts"),
        off("GET api.github.com/repos/acme/ofnone/forks"),
        off("GET api.github.com/user/repos"),
        off("GET api.github.com/search/repositories?q=acme"),
        off("GET api.github.com/orgs/acme"),
        off("PATCH api.github.com/repos/acme/ofnone").sends(r#"{"visibility":"public"}"#),
        off("PATCH api.github.com/repos/acme/ofnone").sends(r#"{"name":"other"}"#),
        off("PUT api.github.com/repos/acme/ofnone/pulls/2/merge").sends("{}"),
        off("POST api.github.com/repos/acme/ofnone/dispatches").sends(r#"{"event_type":"x"}"#),
        off("POST api.github.com/repos/acme/ofnone/actions/workflows/7/dispatches").sends(r#"{"ref":"main"}"#),
        off("DELETE api.github.com/repos/acme/ofnone/actions/runs/100"),
    ];
    table(scoped(&token, &["acme/ofnone"]), &token, &Names::default(), &rows);
}

pub fn odd_spellings_of_rest() {
    github().repository("acme/oddly");
    let token = github().wide_token();
    let odd = |line: &'static str| row(line).refused("malformed", "");
    let rows: Vec<Row> = vec![
        row("GET api.github.com/repos/acme/oddl%79"),
        odd("GET api.github.com/repos/acme/oddly.git"),
        odd("GET api.github.com/repos/acme/oddly/"),
        odd("GET api.github.com/repos/acme/oddly/../../other/secret"),
        odd("GET api.github.com/repos/acme/oddly/%2e%2e/%2e%2e/other/secret"),
        odd("GET api.github.com/repos/acme/oddly/contents/..%2F..%2F..%2F..%2Fother%2Fsecret"),
        row("GET api.github.com/repos/acme%2Foddly").refused("not_allowed", "it is not among"),
        odd("GET api.github.com/repos/acme/oddly%2F..%2F..%2Fother%2Fsecret"),
        odd("GET api.github.com/repos/acme/%6fddl%2579"),
        odd("GET api.github.com/repos//acme/oddly"),
        odd("GET api.github.com//repos/other/secret"),
        odd("GET api.github.com/repos/acme/oddly;/../other"),
        odd("GET api.github.com/repos/acme/oddly%3Bx"),
        odd(r"GET api.github.com/repos/acme/oddly\..\..\other\secret"),
        row("GET api.github.com/repos/acme/oddly#/../../other/secret").unread(400),
        odd("GET api.github.com/repos/acme/oddly/%69ssues"),
        odd("GET api.github.com/repos/acme/%EF%BD%8Fddly"),
        odd("GET api.github.com/repos/acme/oddly%0a"),
        odd("GET api.github.com/repos/acme/oddly?access_token=ghp_x"),
        odd("GET api.github.com/repos/acme/oddly?a=b&ACCESS_TOKEN=x"),
        odd("GET api.github.com/repos/acme/oddly?client_id=a&client_secret=b"),
        odd("GET api.github.com/repositories/0<own_id>"),
        odd("GET api.github.com/repositories/+<own_id>"),
        odd("GET api.github.com/repos/acme/oddly/compare/main...feature...other:secret:main"),
        odd("GET api.github.com/search/issues?q=a+repo:acme/oddly&q=b+repo:other/secret"),
        odd("GET api.github.com/search/issues?q=a+repo:acme/oddly;q=b+repo:other/secret"),
        odd("GET api.github.com/search/issues?q=a+repo:%22acme/oddly"),
        odd("GET api.github.com/search/issues"),
        odd("GET api.github.com/repos/acme/oddly").sends("{}"),
        odd("POST api.github.com/repos/acme/oddly/issues?title=x").sends(r#"{"title":"t"}"#),
        odd("POST api.github.com/repos/acme/oddly/issues").sends(r#"{"title":"t","title":"u"}"#),
        odd("POST api.github.com/repos/acme/oddly/issues").sends("\u{feff}{\"title\":\"t\"}"),
        odd("POST api.github.com/repos/acme/oddly/issues").sends("[]"),
        odd("POST api.github.com/repos/acme/oddly/issues").sends(r#"{"title":"t"}"#).zipped(),
        row("PROPFIND api.github.com/repos/acme/oddly").refused("not_allowed", "this method is not used"),
        row("OPTIONS api.github.com/repos/acme/oddly").refused("not_allowed", "this method is not used"),
        row("GET api.github.com/repos/acme/oddlé").unread(400),
    ];
    table(scoped(&token, &["acme/oddly"]), &token, &Names::of("acme/oddly"), &rows);
}
