//! Secrets: where they come from ([`source`]), what gives them ([`issue`]) and how they get into a request ([`header`]).

pub mod header;
pub mod issue;
pub mod source;

mod command;

pub use header::{InjectError, Injector};
pub use issue::{IssueError, Issued, Issuer, Issuing};
pub use source::{Source, SourceContext, SourceError, SourceIssuer, check_secret_file, read_secret};
