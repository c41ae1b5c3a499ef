//! What is known about repositories and ids when a request is judged.

use std::sync::Arc;

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
