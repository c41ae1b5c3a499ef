//! What a decision may look at, and nothing else.

use std::fmt;
use std::net::IpAddr;

use super::host::Authority;

/// How a destination is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// TLS that ends at the proxy, HTTP inside it.
    Https,
    /// HTTP without TLS.
    Http,
    /// Bytes that nobody looks into.
    Tcp,
}

impl Scheme {
    /// The scheme as rules spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Tcp => "tcp",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a connection wants to go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The name (or literal address) and port that was asked for.
    pub authority: Authority,
    /// What is spoken.
    pub scheme: Scheme,
    /// The address that the client itself dialled, where it dialled one that the proxy did not make up for it.
    pub dialled: Option<IpAddr>,
}

impl Destination {
    /// Host and port as `Host` has them, without the port where it is the scheme's own.
    pub fn asked_as(&self) -> String {
        match (self.scheme, self.authority.port) {
            (Scheme::Http, 80) => self.authority.host.to_string(),
            (Scheme::Http | Scheme::Tcp, port) => format!("{}:{port}", self.authority.host),
            (Scheme::Https, _) => self.authority.to_string(),
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    /// Where its connection goes.
    pub destination: &'a Destination,
    /// The method, as sent.
    pub method: &'a str,
    /// The path without query, as sent.
    pub path: &'a str,
}
