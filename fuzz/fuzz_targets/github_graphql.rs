//! The check of a GraphQL request reads any bytes without a panic, and what it takes for a document is one for a second parser, too.
//! The first byte says whether the rest is a whole body or the text of a query.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use sandbox_proxy::policy::github::graphql::{Answer, Rules, check};
use sandbox_proxy::policy::github::{Known, Membership, NodeOwner, RepoName, Repository};

static RULES: LazyLock<Rules> = LazyLock::new(|| Rules {
    web_host: "github.com".to_owned(),
    admin: true,
    merge: true,
    deploy: true,
    org_read: true,
    projects: vec!["PVT_1".to_owned()],
    ..Rules::default()
});

static WIDGET: LazyLock<Arc<Repository>> = LazyLock::new(|| {
    let name = RepoName::parse("acme/widget").expect("a name");
    let (node_id, default_branch) = ("R_1".to_owned(), "main".to_owned());
    Arc::new(Repository { name, id: 1, node_id, owner_id: 1, default_branch, parent_id: None })
});

struct Widget;

impl Known for Widget {
    fn repository(&self, name: &RepoName) -> Membership {
        if *name == WIDGET.name { Membership::Is(WIDGET.clone()) } else { Membership::Not }
    }

    fn repository_of_id(&self, id: u64) -> Option<Arc<Repository>> {
        (id == WIDGET.id).then(|| WIDGET.clone())
    }

    fn node(&self, id: &str) -> Option<NodeOwner> {
        match id.as_bytes().first()? {
            b'U' => Some(NodeOwner::Account),
            b'F' => Some(NodeOwner::Foreign),
            b'?' => None,
            _ => Some(NodeOwner::Repository(1)),
        }
    }

    fn issue_id(&self, _: u64) -> bool {
        false
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    if first != b'q' {
        let _ = check(rest, &RULES, &Widget);
        return;
    }
    let Ok(query) = std::str::from_utf8(rest) else { return };
    let body = serde_json::json!({ "query": query, "variables": { "id": "I_1", "owner": "acme", "name": "widget" } }).to_string();
    let Ok(Answer::Covered(checked)) = check(body.as_bytes(), &RULES, &Widget) else { return };
    // Nothing else is known by name, and nothing else by id.
    assert!(checked.repositories.len() <= 2, "{query:?}: {checked:?}");
    let tree = apollo_parser::Parser::new(query).parse();
    // Behind `...` that parser takes no comma, which the specification does.
    assert!(query.contains(',') || tree.errors().next().is_none(), "{query:?}");
});
