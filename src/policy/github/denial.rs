//! Why a request to GitHub is refused.

/// A request that a GitHub binding does not cover.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OutOfScope {
    /// The kind of reason.
    pub code: Code,
    /// One line that says what was asked for and what would be allowed; a person or a model inside the sandbox reads it. It names no
    /// repository, option or rule that the request did not name itself.
    pub message: String,
}

/// The kinds of reasons, as `x-deny-reason` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The request can be read in more than one way, or not at all.
    Malformed,
    /// The repository is not one of the binding's.
    RepoNotAllowed,
    /// The name belongs to another repository than at the start.
    RepoIdentityChanged,
    /// No row of the tables allows it.
    NotAllowed,
    /// An option of the binding would allow it, which is off.
    OptionOff,
    /// The binding reads only.
    ReadOnly,
    /// A push rule.
    PushRule,
    /// A URL of a storage host that no answer has named.
    UnknownCapability,
    /// Something of another repository, or that nobody knows the repository of.
    ForeignObject,
    /// What has to be known could not be looked up.
    Unresolved,
    /// GitHub refuses the credential that the proxy has.
    CredentialRefused,
}

impl Code {
    /// As the header has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::RepoNotAllowed => "repo_not_allowed",
            Self::RepoIdentityChanged => "repo_identity_changed",
            Self::NotAllowed => "not_allowed",
            Self::OptionOff => "option_off",
            Self::ReadOnly => "read_only",
            Self::PushRule => "push_rule",
            Self::UnknownCapability => "unknown_capability",
            Self::ForeignObject => "foreign_object",
            Self::Unresolved => "unresolved",
            Self::CredentialRefused => "credential_refused",
        }
    }
}

impl OutOfScope {
    /// A refusal for this reason.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}
