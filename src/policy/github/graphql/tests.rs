//! The rows of github-scope.md 7 that are about GraphQL, what gh sends, and everything that tries to get around the walk.

mod answers;
mod documents;
mod mutations;
mod random;
mod recorded;
mod rows;

use std::sync::Arc;

use super::super::known::{Membership, NodeOwner, Repository};
use super::*;

/// A binding of acme/widget, and acme/tools beside it.
struct Fake {
    all: bool,
}

impl Known for Fake {
    fn repository(&self, name: &RepoName) -> Membership {
        match name.to_string().as_str() {
            "acme/widget" => Membership::Is(record(name.clone(), 1001)),
            "acme/tools" => Membership::Is(record(name.clone(), 1002)),
            "acme/renamed" => Membership::Changed,
            _ if self.all => Membership::Any,
            _ => Membership::Not,
        }
    }

    fn repository_of_id(&self, id: u64) -> Option<Arc<Repository>> {
        match id {
            1001 => Some(record(RepoName::new("acme", "widget").unwrap(), id)),
            1002 => Some(record(RepoName::new("acme", "tools").unwrap(), id)),
            _ => None,
        }
    }

    fn node(&self, id: &str) -> Option<NodeOwner> {
        match id {
            "R_ok" | "PR_known" | "I_known" | "C_known" | "L_known" | "REF_known" => Some(NodeOwner::Repository(1001)),
            // What the answers to the recorded commands had.
            "Re_1" | "Pu_1" | "Is_1" | "Mi_1" | "La_1" => Some(NodeOwner::Repository(1001)),
            "R_tools" => Some(NodeOwner::Repository(1002)),
            "R_lost" => Some(NodeOwner::Repository(9)),
            "U_known" | "Us_1" => Some(NodeOwner::Account),
            "PR_foreign" | "PVT_known" => Some(NodeOwner::Foreign),
            _ => None,
        }
    }

    fn issue_id(&self, _: u64) -> bool {
        false
    }
}

fn record(name: RepoName, id: u64) -> Arc<Repository> {
    let (node_id, default_branch) = ("R_ok".to_owned(), "main".to_owned());
    Arc::new(Repository { name, id, node_id, owner_id: 1, default_branch, parent_id: None })
}

fn rules() -> Rules {
    Rules { web_host: "github.com".to_owned(), ..Rules::default() }
}

fn merging() -> Rules {
    Rules { merge: true, ..rules() }
}

fn judge(body: &str, rules: &Rules) -> Result<Answer, OutOfScope> {
    let verdict = check(body.as_bytes(), rules, &Fake { all: rules.all });
    if let Err(refused) = &verdict {
        assert!(!refused.message.contains('\n') && refused.message.len() < 400, "{refused}");
    }
    verdict
}

fn body(query: &str, variables: &str) -> String {
    format!("{{\"query\":{},\"variables\":{variables}}}", serde_json::Value::from(query))
}

fn query(query: &str) -> Result<Answer, OutOfScope> {
    judge(&body(query, "null"), &rules())
}

/// Below the allowed repository.
fn inside(selection: &str) -> Result<Answer, OutOfScope> {
    query(&format!("{{repository(owner:\"acme\",name:\"widget\"){{{selection}}}}}"))
}

#[track_caller]
fn covered(verdict: Result<Answer, OutOfScope>) -> Checked {
    match verdict {
        Ok(Answer::Covered(checked)) => *checked,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(verdict: Result<Answer, OutOfScope>) -> Code {
    match verdict {
        Err(refused) => refused.code,
        Ok(answer) => panic!("{answer:?}"),
    }
}

#[track_caller]
fn unknown(verdict: Result<Answer, OutOfScope>) -> Vec<(String, Expect)> {
    match verdict {
        Ok(Answer::Unknown(ids)) => ids,
        other => panic!("{other:?}"),
    }
}
