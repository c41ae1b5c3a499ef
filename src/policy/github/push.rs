//! Changes of refs, through whatever door: git, REST and GraphQL are judged alike.

mod glob;
mod refs;
mod rules;

pub use glob::RefGlob;
pub use refs::{NAME_MAX, branch_ref, check_name, full_ref};
pub use rules::{Branches, Judged, PushRuleError, PushRules, WrittenPushRules};

/// A change of one ref that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefChange {
    /// Which ref.
    pub target: RefTarget,
    /// What becomes of it.
    pub change: Change,
}

/// A ref as a request names it. All but the first have to be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefTarget {
    /// By its full name, such as `refs/heads/main`.
    Named(String),
    /// The repository's default branch.
    DefaultBranch,
    /// The branch that the pull request with this number goes into.
    PullBase(u64),
    /// The branch that the pull request with this number comes from.
    PullHead(u64),
    /// The branch that the pull request with this node id goes into.
    PullBaseNode(String),
    /// The branch that the pull request with this node id comes from.
    PullHeadNode(String),
    /// The ref with this node id.
    RefNode(String),
    /// The tag that the release with this number is for.
    ReleaseTag(u64),
}

/// What becomes of a ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is made.
    Create,
    /// It moves.
    Update(Forced),
    /// It is made or it moves, which of the two is not known; a move is no forced one.
    Put,
    /// It goes.
    Delete,
}

/// Whether a move drops commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// It is asked to, or does.
    Yes,
    /// GitHub refuses it if it would.
    No,
    /// Nobody knows yet.
    Unknown,
}
