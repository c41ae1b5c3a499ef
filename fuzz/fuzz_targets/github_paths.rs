//! Any target on any host of GitHub: what goes out with the credential is about the one repository, whichever way a server decodes it, or
//! it is a row of the tables that is about none.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use sandbox_proxy::policy::github::{
    Action, CredentialForm, GitHubHost, GitHubOption, Listed, RepoName, Repository, Request,
    Scope, Subject, judge,
};

const HOSTS: [(&str, &str); 7] = [
    ("github.com", "github.com"),
    ("github.com", "api.github.com"),
    ("github.com", "uploads.github.com"),
    ("github.com", "raw.githubusercontent.com"),
    ("github.com", "codeload.github.com"),
    ("ghes.test", "ghes.test"),
    ("acme.ghe.com", "acme.ghe.com"),
];

fuzz_target!(|input: (u8, u8, bool, &str, &[u8])| {
    let (host, method, write, target, body) = input;
    let (installation, host) = HOSTS[usize::from(host) % HOSTS.len()];
    let method = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"][usize::from(method) % 6];
    let name = RepoName::parse("acme/widget").expect("a name");
    let known = Listed { all: false, repositories: vec![Arc::new(Repository {
        name,
        id: 1001,
        node_id: "R_1".to_owned(),
        owner_id: 1,
        default_branch: "main".to_owned(),
        parent_id: None,
    })] };
    let installation: GitHubHost = installation.parse().expect("an installation");
    let options = GitHubOption::ALL.into_iter().collect();
    let scope = Scope { host: installation, all: false, write, options, user_token: true };
    let request = Request { host, method, target, content_type: Some("application/json"), body: !body.is_empty() };
    let Ok(route) = judge(&scope, &known, &request) else { return };
    if route.credential != CredentialForm::None {
        let about = route.repository.as_ref().and_then(Subject::name);
        assert!(about.is_some() || route.family.starts_with('/'), "{target}: {route:?}");
        let path = target.split('?').next().unwrap_or_default();
        assert!(!resolved(path).is_some_and(|path| path.contains("..")), "{target}");
    }
    if let Action::Body(check) = &route.action {
        let _ = check.check(body, &known);
    }
});

/// The dot segments that a path has after it was decoded again and again.
fn resolved(path: &str) -> Option<String> {
    let mut text = path.to_ascii_lowercase();
    for _ in 0..4 {
        text = text.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/").replace("%25", "%");
    }
    text.split('/').any(|segment| segment == "..").then_some(text)
}
