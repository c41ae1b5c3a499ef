//! What a sandbox may reach: [`document`] → [`compile`] → decide. No clock, no DNS, no disk: the same question always has
//! the same answer, so `policy explain` runs the very functions that enforce.

pub mod address;
pub mod binding;
pub mod case;
pub mod compile;
mod decide;
pub mod dialect;
pub mod diff;
mod document;
pub mod egress;
mod entry;
pub mod explanation;
pub mod files;
pub mod github;
pub mod glob;
pub mod learn;
mod lines;
pub mod mistake;
pub mod mistral;
pub mod network;
pub mod options;
#[cfg(test)]
pub(crate) mod oracle;
mod path;
pub mod pattern;
pub mod preset;
mod print;
pub mod question;
pub mod recorded;
pub mod rule;
pub mod rules;
mod shadow;
pub mod source;
mod upstream;
pub mod verdict;
mod written;

pub use address::{AddressClass, CheckedAddrs};
pub use binding::{Accepts, BasicUser, Binding, BindingError, HeaderBinding, Placement, SignedScope};
pub use case::Case;
pub use compile::{Compiled, NamedText, PlaceholderSpec, load};
pub use decide::Policy;
pub use dialect::{Dialect, GitlabSettings, dialect_of, recommended_directory};
pub use diff::{More, more};
pub use egress::{Cidr, CidrError, EgressError, EgressMode, EgressPolicy};
pub use entry::Entry;
pub use explanation::{
    Credential, Decider, DeciderKind, Explanation, OnGitHub, OtherBinding, OtherRule, Through, Verdict,
};
pub use files::{FileLimits, FilePath, FilePathError, FilePolicy, UnixSockets};
pub use github::GitHubBinding;
pub use glob::{GlobError, PathGlob};
pub use mistake::{Mistake, Mistakes, Place, Warning};
pub use mistral::{MistralApiBinding, MistralApiError};
pub use network::{EntryError, Network, NetworkError, NetworkMode};
pub use options::PolicyOptions;
pub use pattern::{HostPattern, PatternError};
pub use preset::{Index, PRESETS, Preset, Tool};
pub use print::toml;
pub use question::{Question, QuestionError, UrlError};
pub use recorded::{Before, Fate, Recorded};
pub use rule::{Action, Rule, RuleState};
pub use rules::RuleSet;
pub use source::{
    ClientAuth, CommandSource, HttpSource, OAuth2Source, OAuthGrant, SecretSource, SecretSpec, VaultSource,
};
pub use upstream::{UpstreamProxy, UpstreamProxyError};
pub use verdict::{Denial, Grant, Permit};
pub use written::Written;
