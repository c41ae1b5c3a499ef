//! Any target on any host of GitHub: what goes out with the credential is about the one repository, whichever way a server decodes it, or
//! it is one of the few things that are about none. What this file says of paths is written down a second time on purpose, and stricter.
//!
//! An input is the host, the method, the target, a line feed, and the body.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use sandbox_proxy::policy::github::{
    Action, CredentialForm, GitHubHost, GitHubOption, Listed, Options, RepoName, Repository, Request, Route, Scope,
    judge,
};

const HOSTS: [(&str, &str); 9] = [
    ("github.com", "github.com"),
    ("github.com", "api.github.com"),
    ("github.com", "uploads.github.com"),
    ("github.com", "raw.githubusercontent.com"),
    ("github.com", "codeload.github.com"),
    ("github.com", "media.githubusercontent.com"),
    ("github.com", "maven.pkg.github.com"),
    ("ghes.test", "ghes.test"),
    ("acme.ghe.com", "acme.ghe.com"),
];
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
const KINDS: [Option<&str>; 6] = [
    Some("application/json"),
    Some("application/x-git-upload-pack-request"),
    Some("application/x-git-receive-pack-request"),
    Some("application/vnd.git-lfs+json"),
    Some("text/plain"),
    None,
];

fuzz_target!(|input: &[u8]| {
    let [host, how, rest @ ..] = input else { return };
    let (target, body) = rest.iter().position(|byte| *byte == b'\n').map_or((rest, &b""[..]), |at| (&rest[..at], &rest[at + 1..]));
    let Ok(target) = std::str::from_utf8(target) else { return };
    let (installation, host) = HOSTS[usize::from(*host) % HOSTS.len()];
    let how = usize::from(*how);
    let (method, write, kind) = (METHODS[how % 6], how / 6 % 2 == 0, KINDS[how / 12 % 6]);
    let every = how / 72 % 2 == 0;
    let known = Listed { all: false, repositories: vec![widget()] };
    let installation: GitHubHost = installation.parse().expect("an installation");
    let options = if every { GitHubOption::ALL.into_iter().collect() } else { Options::default() };
    let scope = Scope { host: installation, all: false, write, options, projects: Vec::new(), user_token: true };
    let request = Request { host, method, target, content_type: kind, body: !body.is_empty() };
    let Ok(route) = judge(&scope, &known, &request) else { return };
    if route.credential != CredentialForm::None {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        for reading in readings(path) {
            let reading: Vec<&str> = reading.iter().map(String::as_str).collect();
            assert!(own(host, &reading, query), "{method} {host} {target} as {reading:?}: {route:?}");
            assert!(write || reads(method, &reading), "{method} {host} {target}: {route:?}");
        }
    }
    doors(&route, method, target, body, &known);
});

fn widget() -> Arc<Repository> {
    let name = RepoName::parse("acme/widget").expect("a name");
    let (node_id, default_branch) = ("R_1".to_owned(), "main".to_owned());
    Arc::new(Repository { name, id: 1001, node_id, owner_id: 1, default_branch, parent_id: None })
}

/// The segments of a path as servers may see them: decoded after they were told apart, decoded before, or twice; dots resolved, empty ones
/// gone.
fn readings(path: &str) -> Vec<Vec<String>> {
    let once = decode(path);
    let twice = decode(&once);
    let apart = path.split('/').map(decode).filter(|segment| !segment.is_empty()).collect();
    vec![apart, normal(&once), normal(&twice), normal(&twice.replace('\\', "/"))]
}

fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match code.filter(|_| first == b'%').and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn normal(path: &str) -> Vec<String> {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment.to_owned()),
        }
    }
    segments
}

/// Whether a request is about acme/widget, or about no repository at all.
fn own(host: &str, path: &[&str], query: &str) -> bool {
    let named = |at: usize| {
        path.get(at).is_some_and(|owner| owner.eq_ignore_ascii_case("acme"))
            && path.get(at + 1).is_some_and(|name| name.eq_ignore_ascii_case("widget"))
    };
    match (host, path) {
        ("api.github.com", _) => api(path, query, named(1)),
        ("ghes.test" | "acme.ghe.com", ["api", "v3", below @ ..]) => api(below, query, named(3)),
        ("ghes.test" | "acme.ghe.com", ["api", "graphql"]) => true,
        ("ghes.test" | "acme.ghe.com", ["api", "uploads", "repos", ..]) => named(3),
        ("uploads.github.com", ["repos", _, _, "releases", _, "assets"]) => named(1),
        ("media.githubusercontent.com", ["media", ..]) => named(1),
        ("ghes.test", ["raw", ..]) => named(1),
        ("raw.githubusercontent.com" | "codeload.github.com" | "maven.pkg.github.com", _) => named(0),
        ("github.com" | "ghes.test" | "acme.ghe.com", [owner, name, ..]) => {
            let name = name.to_ascii_lowercase();
            owner.eq_ignore_ascii_case("acme")
                && matches!(name.as_str(), "widget" | "widget.git" | "widget.wiki" | "widget.wiki.git")
        }
        _ => false,
    }
}

fn api(path: &[&str], query: &str, named: bool) -> bool {
    match path {
        ["repos", _, _, "hooks" | "transfer" | "import" | "invitations" | "copilot" | "generate", ..] => false,
        ["repos", _, _, "actions", "runners" | "permissions" | "oidc", ..] => false,
        ["repos", ..] => named,
        ["repositories", id, ..] => *id == "1001",
        ["search", "labels"] => query.split('&').any(|pair| pair == "repository_id=1001"),
        ["search", _] => searches(query),
        ["user", "starred", owner, name] => owner.eq_ignore_ascii_case("acme") && name.eq_ignore_ascii_case("widget"),
        ["user", "packages", ..] | ["users", _, "packages", ..] | ["orgs", _, "packages", ..] | ["packages", ..] => true,
        ["orgs" | "organizations", _] | ["users" | "user", _] | ["user"] => path != ["user", "repos"],
        ["orgs" | "organizations", _, "members" | "teams", below @ ..] | ["teams", _, below @ ..] => {
            !below.iter().any(|word| matches!(*word, "codespaces" | "copilot" | "discussions"))
                && below.get(1).is_none_or(|word| *word != "repos" && *word != "projects")
                && (path[0] != "teams" || below.first().is_none_or(|word| *word != "repos" && *word != "projects"))
        }
        [] | ["graphql" | "meta" | "zen" | "octocat" | "emojis" | "versions" | "rate_limit" | "markdown"] => true,
        ["markdown", "raw"] | ["gitignore", "templates", ..] => true,
        ["licenses" | "codes_of_conduct" | "advisories", ..] => true,
        _ => false,
    }
}

/// Every `repo:` of a search that stands outside quotes is the one repository, and there is one.
fn searches(query: &str) -> bool {
    let Some(text) = query.split('&').find_map(|pair| pair.strip_prefix("q=")) else { return false };
    let text = decode(&text.replace('+', " ")).to_lowercase();
    let unquoted: String = unquoted(&text);
    let (mut words, mut named) = (unquoted.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')')), false);
    words.all(|word| match word.trim_start_matches('-').split_once(':') {
        Some(("repo", name)) => {
            named |= !word.starts_with('-');
            name == "acme/widget"
        }
        Some((key, _)) => !matches!(key, "org" | "user" | "owner" | "enterprise" | "saved" | "project" | "team"),
        None => true,
    }) && named
}

/// A search without what is quoted; but `repo:"a/b"` is as if it were not.
fn unquoted(text: &str) -> String {
    let (mut out, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        if c != '"' {
            out.push(c);
            continue;
        }
        let mut inside = String::new();
        while let Some(c) = chars.next().filter(|c| *c != '"') {
            inside.extend(if c == '\\' { chars.next() } else { Some(c) });
        }
        if out.ends_with("repo:") {
            out += &inside;
        }
    }
    out
}

/// What may be asked of a binding that does not write.
fn reads(method: &str, path: &[&str]) -> bool {
    let tail = |tail: &[&str]| path.ends_with(tail);
    matches!(method, "GET" | "HEAD")
        || (method == "POST"
            && (tail(&["graphql"])
                || tail(&["git-upload-pack"])
                || tail(&["info", "lfs", "objects", "batch"])
                || tail(&["info", "lfs", "locks", "verify"])
                || tail(&["markdown"])
                || tail(&["markdown", "raw"])))
}

/// Every door to a ref says which one changes.
fn doors(route: &Route, method: &str, target: &str, body: &[u8], known: &Listed) {
    let path: Vec<&str> = target.split('?').next().unwrap_or_default().trim_matches('/').split('/').collect();
    let below = match path.iter().position(|word| matches!(*word, "repos" | "repositories")) {
        Some(at) if route.credential == CredentialForm::Bearer => {
            path.get(at + if path[at] == "repos" { 3 } else { 2 }..).unwrap_or_default()
        }
        _ => &[],
    };
    let door = match (method, below) {
        (_, ["releases", "assets" | "generate-notes", ..]) => false,
        ("POST", ["git", "refs"] | ["merges"] | ["merge-upstream"] | ["releases"]) => true,
        ("PATCH" | "DELETE", ["git", "refs", ..]) | ("PUT" | "DELETE", ["contents", ..]) => true,
        ("PUT", ["pulls", _, "merge" | "update-branch"]) | ("POST", ["branches", .., "rename"]) => true,
        ("POST", ["code-scanning", "alerts", _, "autofix", "commits"]) => true,
        _ => false,
    };
    match &route.action {
        Action::Body(check) => {
            if let Ok(changes) = check.check(body, known) {
                assert!(!door || !changes.is_empty(), "{method} {target}: a door without a change");
                let json = body.is_empty() || serde_json::from_slice::<serde_json::Value>(body).is_ok();
                assert!(json, "{method} {target}: no JSON");
            }
        }
        Action::Forward | Action::Git(_) | Action::Graphql | Action::LfsBatch | Action::Capability | Action::Local(_) => {
            assert!(!door, "{method} {target}: a door without a check");
        }
    }
}
