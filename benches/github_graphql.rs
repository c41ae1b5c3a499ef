//! What the check of a GraphQL request costs: `cargo bench --bench github_graphql`. The documents are those that gh 2.23.0 sent for `pr view`
//! and `pr status` with every field, and `repo view`.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use sandbox_proxy::policy::github::graphql::{Answer, Rules, check};
use sandbox_proxy::policy::github::{Listed, RepoName, Repository};

fn judge(c: &mut Criterion) {
    let name = RepoName::parse("acme/widget").expect("a name");
    let (node_id, default_branch) = ("R_1".to_owned(), "main".to_owned());
    let known = Listed {
        all: false,
        repositories: vec![Arc::new(Repository { name, id: 1, node_id, owner_id: 1, default_branch, parent_id: None })],
    };
    let rules = Rules { web_host: "github.com".to_owned(), ..Rules::default() };
    let recorded = include_str!("../src/policy/github/graphql/tests/recorded.jsonl");
    for command in
        ["gh pr view feature --json EVERYTHING", "gh pr status --json EVERYTHING", "gh repo view acme/widget"]
    {
        let row = recorded.lines().find(|row| row.contains(&format!("\"{command}\""))).expect("it was recorded");
        let row: serde_json::Value = serde_json::from_str(row).expect("JSON");
        let body = row["body"].to_string();
        assert!(matches!(check(body.as_bytes(), &rules, &known), Ok(Answer::Covered(_))), "{command}");
        c.bench_function(&format!("{command}, {} bytes", body.len()), |b| {
            b.iter(|| check(black_box(body.as_bytes()), &rules, &known));
        });
    }
}

criterion_group!(benches, judge);
criterion_main!(benches);
