//! Which credential goes to which destination.

use crate::types::Authority;

/// A secret put into one header of the requests to one host (the seed's type of that name).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderBinding {
    host: Authority,
    header: http::HeaderName,
    secret_name: String,
    path_prefix: String,
    prefix: String,
    suffix: String,
}

impl HeaderBinding {
    /// The host and port it is for.
    pub fn host(&self) -> &Authority {
        &self.host
    }

    /// The header it sets.
    pub fn header(&self) -> &http::HeaderName {
        &self.header
    }

    /// The secret whose value it takes.
    pub fn secret_name(&self) -> &str {
        &self.secret_name
    }

    /// What the path must begin with, as plain text.
    pub fn path_prefix(&self) -> &str {
        &self.path_prefix
    }

    /// What stands before the value.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What stands behind the value.
    pub fn suffix(&self) -> &str {
        &self.suffix
    }
}
