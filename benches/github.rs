//! What it costs to find the row of a REST path and to judge a request: `cargo bench --bench github`.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use sandbox_proxy::policy::github::{GitHubHost, Listed, Options, RepoName, Repository, Request, Scope, judge};

fn routes(c: &mut Criterion) {
    let name = RepoName::parse("acme/widget").expect("a name");
    let (node_id, default_branch) = ("R_1".to_owned(), "main".to_owned());
    let known = Listed {
        all: false,
        repositories: vec![Arc::new(Repository {
            name,
            id: 1001,
            node_id,
            owner_id: 1,
            default_branch,
            parent_id: None,
        })],
    };
    let options = Options::default();
    let scope =
        Scope { host: GitHubHost::Public, all: false, write: true, options, projects: Vec::new(), user_token: false };
    for (what, host, target, allowed) in [
        ("fetch", "github.com", "/acme/widget.git/info/refs?service=git-upload-pack", true),
        ("repository", "api.github.com", "/repos/acme/widget", true),
        ("last row of actions", "api.github.com", "/repos/acme/widget/actions/concurrency_groups", true),
        ("issue", "api.github.com", "/repos/acme/widget/issues/1/comments?per_page=100", true),
        ("by number", "api.github.com", "/repositories/1001/issues?page=2", true),
        ("deep file", "api.github.com", "/repos/acme/widget/contents/a/b/c/d/e/f/g/h/i/j/k.rs?ref=main", true),
        ("search", "api.github.com", "/search/issues?q=foo+repo:acme/widget+state:open&per_page=100", true),
        ("account", "api.github.com", "/user/starred", false),
        ("another repository", "api.github.com", "/repos/other/secret/issues", false),
        ("unlisted", "api.github.com", "/repos/acme/widget/unlisted", false),
    ] {
        let request = Request { host, method: "GET", target, content_type: None, body: false };
        assert_eq!(judge(&scope, &known, &request).is_ok(), allowed, "{target}");
        c.bench_function(what, |b| b.iter(|| judge(black_box(&scope), &known, black_box(&request)).is_ok()));
    }
}

criterion_group!(benches, routes);
criterion_main!(benches);
