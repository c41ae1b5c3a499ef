//! Secrets: where they come from ([`source`]) and how they get into a request ([`header`]).

pub mod header;
pub mod source;

mod command;

pub use header::{InjectError, Injector};
pub use source::{Source, SourceContext, SourceError, check_secret_file, read_secret};
