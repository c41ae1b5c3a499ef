//! Secrets: where they come from ([`source`]), what gives them ([`issue`]), what keeps them valid ([`renew`]), how they get into a
//! request ([`header`]), and how their values are found in what comes back ([`scrub`]). [`records`] know what a GitHub binding's requests are about.

pub mod fetch;
pub mod header;
pub mod issue;
pub mod issuers;
pub mod placeholder;
pub mod records;
pub mod renew;
pub mod scrub;
pub mod source;

mod command;
mod file;
mod github;
mod oauth;
mod place;
mod vault;

pub use command::end_commands;
pub use fetch::{Fetch, FetchError};
pub use file::{SecretFile, check_secret_file};
pub use github::GitHubError;
pub use header::{InjectError, Injector, Used};
pub use issue::{IssueError, Issued, Issuer, Issuing};
pub use issuers::{Supply, issuers};
pub use place::sigv4::PayloadHash;
pub use placeholder::Placeholder;
pub use records::{Calls, Kept, LookUpError, Methods, Records};
pub use renew::Keeper;
pub use scrub::{Scrubber, Watch};
pub use source::{Source, SourceContext, SourceError, SourceIssuer, read_secret};
