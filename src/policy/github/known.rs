//! What is known about repositories and ids when a request is judged.

use std::sync::Arc;

use super::denial::{Code, OutOfScope};
use super::name::RepoName;

/// One repository as it was when the binding started. Scope is bound to its id; a name may change hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// Its name as GitHub has it now, in lower case.
    pub name: RepoName,
    /// Its number, which a new name or owner does not change.
    pub id: u64,
    /// Its node id in GraphQL.
    pub node_id: String,
    /// The owner's number.
    pub owner_id: u64,
    /// The branch that a request means which names none.
    pub default_branch: String,
    /// The repository it is a fork of.
    pub parent_id: Option<u64>,
}

/// What a node id of GraphQL belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeOwner {
    /// Something of the repository with this number.
    Repository(u64),
    /// A user, an organization, a team.
    Account,
    /// Something of no repository of the binding.
    Foreign,
}

/// Whether a name is one of the binding's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It is this one.
    Is(Arc<Repository>),
    /// The binding is for every repository, and nobody has asked for this one's record yet.
    Any,
    /// It is none.
    Not,
    /// It was one, and belongs to another repository now.
    Changed,
    /// It is one, and what it leads to could not be looked up.
    Unresolved,
}

impl Membership {
    /// The record of a repository of this name, where it may be used; none where the binding is for `all` and nobody has asked for it.
    ///
    /// # Errors
    /// The refusal. Why something could not be looked up is the operator's to know.
    pub fn record(self, name: &RepoName, all: bool) -> Result<Option<Arc<Repository>>, OutOfScope> {
        let (code, message) = match self {
            Self::Is(repository) => return Ok(Some(repository)),
            Self::Any if all => return Ok(None),
            Self::Any | Self::Not => (Code::RepoNotAllowed, format!("this sandbox may not use the repository {name}")),
            Self::Changed => (
                Code::RepoIdentityChanged,
                format!(
                    "{name} is not the repository any more that it was when the sandbox started, or has another owner"
                ),
            ),
            Self::Unresolved => return Err(Self::unresolved(name)),
        };
        Err(OutOfScope::new(code, message))
    }

    /// The refusal where a repository's record cannot be had.
    pub fn unresolved(name: &RepoName) -> OutOfScope {
        let message = format!(
            "the repository {name} could not be looked up: it is not there, the proxy's token does not reach it, or GitHub does not \
             answer"
        );
        OutOfScope::new(Code::Unresolved, message)
    }
}

/// Fixed records, and nothing else: no id has been seen.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The binding is for every repository.
    pub all: bool,
    /// Those that are known.
    pub repositories: Vec<Arc<Repository>>,
}

impl Listed {
    /// These names, taken to be what they are called.
    pub fn assumed(names: Option<&[RepoName]>) -> Self {
        let named = |name: &RepoName| {
            let (node_id, default_branch) = (String::new(), String::new());
            Arc::new(Repository { name: name.clone(), id: 0, node_id, owner_id: 0, default_branch, parent_id: None })
        };
        Self { all: names.is_none(), repositories: names.unwrap_or_default().iter().map(named).collect() }
    }
}

impl Known for Listed {
    fn repository(&self, name: &RepoName) -> Membership {
        match self.repositories.iter().find(|known| known.name == *name) {
            Some(known) => Membership::Is(Arc::clone(known)),
            None if self.all => Membership::Any,
            None => Membership::Not,
        }
    }

    fn repository_of_id(&self, id: u64) -> Option<Arc<Repository>> {
        // A number of 0 stands for none.
        self.repositories.iter().find(|known| id != 0 && known.id == id).cloned()
    }

    fn node(&self, _: &str) -> Option<NodeOwner> {
        None
    }

    fn issue_id(&self, _: u64) -> bool {
        false
    }
}

/// Answers from memory. Nothing here waits: a check that needs more says what, and is made again when it is known.
pub trait Known {
    /// The repository of a name.
    fn repository(&self, name: &RepoName) -> Membership;
    /// The repository of a number, where it is one of the binding's.
    fn repository_of_id(&self, id: u64) -> Option<Arc<Repository>>;
    /// What a node id belongs to, where that was learned from an answer or looked up.
    fn node(&self, id: &str) -> Option<NodeOwner>;
    /// Whether an answer about one of the binding's repositories has shown an issue with this number of its own (not the one in URLs).
    fn issue_id(&self, id: u64) -> bool;
}
