use super::*;

/// Numbers that look random and are the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const WORDS: &[&str] = &[
    "repos",
    "repositories",
    "acme",
    "widget",
    "other",
    "secret",
    "1001",
    "1002",
    "info",
    "refs",
    "issues",
    "pulls",
    "compare",
    "main...x",
    "user",
    "starred",
    "search",
    "raw",
    "api",
    "v3",
    "contents",
    "git",
    "heads",
    "branches",
    "rename",
    "hooks",
    "orgs",
    "releases",
    "5",
    "assets",
    "media",
    "tar.gz",
    "comments",
    "timeline",
    "actions",
    "runs",
    "logs",
    "labels",
    "commits",
    "git-receive-pack",
    "markdown",
];

const NOISE: &[&str] = &[
    "/",
    "?",
    "&",
    "=",
    ".git",
    "service=git-upload-pack",
    "%2e",
    "%2F",
    "%25",
    "..",
    ".",
    ";",
    "other:secret:x",
    "?q=repo:acme/widget",
    "+OR+",
    "%00",
    "%",
    "é",
    " ",
    "\"",
    "(",
    ")",
    "?token=x",
    "?page=2",
    "%61",
    "\\",
];

/// Whatever is asked: no panic, and nothing with a credential for another repository.
#[test]
fn random_requests_get_no_credential_for_another_repository() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let hosts =
        ["github.com", "api.github.com", "uploads.github.com", "raw.githubusercontent.com", "codeload.github.com"];
    let options: Options = GitHubOption::ALL.into_iter().collect();
    let mut scope =
        Scope { host: GitHubHost::Public, all: false, write: true, options, projects: Vec::new(), user_token: true };
    let known = Repositories::new(false);
    let mut allowed = 0;
    for _ in 0..200_000 {
        let mut target = random.pick(&["", "/repos/acme/widget", "/repositories/1001", "/acme/widget.git"]).to_owned();
        for _ in 0..random.below(6) {
            if random.below(6) == 0 {
                target += random.pick(NOISE);
            } else {
                target.push('/');
                target += random.pick(WORDS);
            }
        }
        let method = random.pick(&["GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]);
        let content_type = [None, Some("application/json")][random.below(2)];
        let body = random.below(3) == 0;
        let request = Request { host: random.pick(&hosts), method, target: &target, content_type, body };
        scope.write = random.below(2) == 0;
        let Ok(route) = judge(&scope, &known, &request) else { continue };
        allowed += 1;
        if route.credential != CredentialForm::None {
            let named = route.repository.as_ref().and_then(Subject::name).map(RepoName::to_string);
            assert!(named.as_deref().is_none_or(|name| name == WIDGET), "{target}: {route:?}");
            assert!(named.is_some() || route.family.starts_with('/'), "{target}: {route:?}");
        }
        if !scope.write && !matches!(method, "GET" | "HEAD") {
            let local = matches!(route.action, Action::Local(_) | Action::Capability);
            assert!(local || route.family.starts_with("/markdown"), "{method} {target}: {route:?}");
        }
        if let Action::Body(check) = &route.action {
            let _ = check.check(target.as_bytes(), &known);
        }
        let _ = super::super::search::check(&target, &known, false);
    }
    assert!(allowed > 5000, "{allowed} of the requests are allowed");
}
