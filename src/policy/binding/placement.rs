//! The places of a request that a credential can go into.

use std::fmt;

use http::HeaderName;
use http::header::{AUTHORIZATION, COOKIE};

use super::fields::Kind;

/// Where in a request the value of a secret goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Into a header, between two texts.
    Header {
        /// The header.
        name: HeaderName,
        /// What stands before the value.
        prefix: String,
        /// What stands behind the value.
        suffix: String,
    },
    /// Into a parameter of the query, percent-encoded.
    QueryParameter {
        /// The parameter, decoded.
        name: String,
    },
    /// Into `Authorization: Basic` (RFC 7617), as the password.
    Basic {
        /// The user.
        user: BasicUser,
    },
    /// Into a cookie (RFC 6265).
    Cookie {
        /// Its name.
        name: String,
    },
    /// Into the path: in place of a placeholder of the secret that, with these texts around it, is all of a segment. Percent-encoded.
    PathSegment {
        /// What stands before the value in its segment.
        prefix: String,
        /// What stands behind the value in its segment.
        suffix: String,
    },
    /// Into the TLS handshake, as the key of a client certificate.
    ClientCertificate {
        /// The secret that holds the certificate with its chain.
        certificate: String,
    },
}

/// The user of Basic credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BasicUser {
    /// A plain text.
    Plain(String),
    /// The value of the secret of this name.
    Secret(String),
}

impl Placement {
    /// The name of its kind in a policy file.
    pub fn kind(&self) -> &'static str {
        let kind = match self {
            Self::Header { .. } => Kind::Header,
            Self::QueryParameter { .. } => Kind::QueryParameter,
            Self::Basic { .. } => Kind::Basic,
            Self::Cookie { .. } => Kind::Cookie,
            Self::PathSegment { .. } => Kind::PathSegment,
            Self::ClientCertificate { .. } => Kind::ClientCertificate,
        };
        kind.name()
    }

    /// The header that is wholly its own.
    pub fn header(&self) -> Option<&HeaderName> {
        match self {
            Self::Header { name, .. } => Some(name),
            Self::Basic { .. } => Some(&AUTHORIZATION),
            Self::QueryParameter { .. }
            | Self::Cookie { .. }
            | Self::PathSegment { .. }
            | Self::ClientCertificate { .. } => None,
        }
    }

    /// The secret that it takes besides: the user of Basic, or the certificate.
    pub fn other_secret(&self) -> Option<&str> {
        match self {
            Self::Basic { user: BasicUser::Secret(name) } | Self::ClientCertificate { certificate: name } => Some(name),
            Self::Basic { user: BasicUser::Plain(_) }
            | Self::Header { .. }
            | Self::QueryParameter { .. }
            | Self::Cookie { .. }
            | Self::PathSegment { .. } => None,
        }
    }

    /// Whether both set one place of a request. Segments of a path are one place where the same placeholder marks them.
    pub(super) fn overlaps(&self, other: &Self, same_marker: bool) -> bool {
        match (self, other) {
            (Self::QueryParameter { name: ours }, Self::QueryParameter { name: theirs })
            | (Self::Cookie { name: ours }, Self::Cookie { name: theirs }) => same_name(ours, theirs),
            (Self::PathSegment { .. }, Self::PathSegment { .. }) => same_marker && self == other,
            (Self::ClientCertificate { .. }, Self::ClientCertificate { .. }) => true,
            (Self::Cookie { .. }, header) | (header, Self::Cookie { .. }) => header.header() == Some(&COOKIE),
            (ours, theirs) => match (ours.header(), theirs.header()) {
                (Some(ours), Some(theirs)) => same_header(ours.as_str(), theirs.as_str()),
                (Some(_) | None, Some(_) | None) => false,
            },
        }
    }

    /// What the place holds, with `{SECRET}` for the value of the secret of that name.
    pub fn sample(&self, secret: &str) -> String {
        match self {
            Self::Header { name, prefix, suffix } => {
                format!("{name}: {}{{{secret}}}{}", prefix.escape_debug(), suffix.escape_debug())
            }
            Self::QueryParameter { name } => format!("?{}={{{secret}}}", name.escape_debug()),
            Self::Basic { user: BasicUser::Plain(user) } => {
                format!("authorization: Basic {}:{{{secret}}}", user.escape_debug())
            }
            Self::Basic { user: BasicUser::Secret(user) } => format!("authorization: Basic {{{user}}}:{{{secret}}}"),
            Self::Cookie { name } => format!("cookie: {name}={{{secret}}}"),
            Self::PathSegment { prefix, suffix } => format!("/{prefix}{{{secret}}}{suffix}"),
            Self::ClientCertificate { certificate } => format!("TLS: {{{certificate}}} with the key {{{secret}}}"),
        }
    }
}

/// As messages name it.
impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header { name, .. } => write!(f, "the header {name}"),
            Self::QueryParameter { name } => write!(f, "the query parameter {}", name.escape_debug()),
            Self::Basic { .. } => f.write_str("the header authorization"),
            Self::Cookie { name } => write!(f, "the cookie {name}"),
            Self::PathSegment { .. } => f.write_str("the path"),
            Self::ClientCertificate { .. } => f.write_str("the client certificate"),
        }
    }
}

/// Servers that make variables of headers read `x_api_key` as `x-api-key`, so a client could slip its own past a name that is
/// compared letter by letter.
pub(super) fn same_header(a: &str, b: &str) -> bool {
    let fold = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    a.bytes().map(fold).eq(b.bytes().map(fold))
}

/// As servers compare names of parameters and cookies that ignore capitals, or make variables of them (PHP, "Variables From
/// External Sources").
fn same_name(a: &str, b: &str) -> bool {
    let fold = |byte: u8| if matches!(byte, b'.' | b' ') { b'_' } else { byte.to_ascii_lowercase() };
    a.bytes().map(fold).eq(b.bytes().map(fold))
}
