//! The places of a request that a credential can go into.

use std::fmt;

use http::HeaderName;
use http::header::{AUTHORIZATION, COOKIE};

use super::fields::Kind;

static SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

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
    /// Into the signature of a request that was signed with placeholders (AWS Signature Version 4), as the secret access key.
    AwsSigv4 {
        /// The secret that holds the access key ID.
        access_key_id: String,
        /// The secret that holds the session token of temporary keys.
        session_token: Option<String>,
        /// What requests must be signed for.
        scope: SignedScope,
    },
}

/// The region and the service that a request must be signed for; `None` for any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedScope {
    /// The region, such as `eu-west-1`.
    pub region: Option<String>,
    /// The service, such as `s3`.
    pub service: Option<String>,
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
            Self::AwsSigv4 { .. } => Kind::AwsSigv4,
        };
        kind.name()
    }

    /// The header that is wholly its own.
    pub fn header(&self) -> Option<&HeaderName> {
        match self {
            Self::Header { name, .. } => Some(name),
            Self::Basic { .. } | Self::AwsSigv4 { .. } => Some(&AUTHORIZATION),
            Self::QueryParameter { .. }
            | Self::Cookie { .. }
            | Self::PathSegment { .. }
            | Self::ClientCertificate { .. } => None,
        }
    }

    /// The header that is its own besides [`Self::header`].
    pub fn other_header(&self) -> Option<&HeaderName> {
        match self {
            Self::AwsSigv4 { .. } => Some(&SECURITY_TOKEN),
            Self::Header { .. }
            | Self::Basic { .. }
            | Self::QueryParameter { .. }
            | Self::Cookie { .. }
            | Self::PathSegment { .. }
            | Self::ClientCertificate { .. } => None,
        }
    }

    /// The headers that are wholly its own.
    pub fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.header().into_iter().chain(self.other_header())
    }

    /// The secrets that it takes besides: the user of Basic, the certificate, or the access key ID and the session token.
    pub fn other_secrets(&self) -> impl Iterator<Item = &str> {
        let names = match self {
            Self::Basic { user: BasicUser::Secret(name) } | Self::ClientCertificate { certificate: name } => {
                [Some(name), None]
            }
            Self::AwsSigv4 { access_key_id, session_token, .. } => [Some(access_key_id), session_token.as_ref()],
            Self::Basic { user: BasicUser::Plain(_) }
            | Self::Header { .. }
            | Self::QueryParameter { .. }
            | Self::Cookie { .. }
            | Self::PathSegment { .. } => [None, None],
        };
        names.into_iter().flatten().map(String::as_str)
    }

    /// Whether both set one place of a request. Segments of a path are one place where the same placeholder marks them.
    pub(super) fn overlaps(&self, other: &Self, same_marker: bool) -> bool {
        match (self, other) {
            (Self::QueryParameter { name: ours }, Self::QueryParameter { name: theirs })
            | (Self::Cookie { name: ours }, Self::Cookie { name: theirs }) => same_name(ours, theirs),
            (Self::PathSegment { .. }, Self::PathSegment { .. }) => same_marker && self == other,
            (Self::ClientCertificate { .. }, Self::ClientCertificate { .. }) => true,
            (Self::Cookie { .. }, header) | (header, Self::Cookie { .. }) => header.header() == Some(&COOKIE),
            (ours, theirs) => ours.headers().any(|ours| {
                let mut theirs = theirs.headers();
                theirs.any(|theirs| same_header(ours.as_str(), theirs.as_str()))
            }),
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
            Self::AwsSigv4 { access_key_id, session_token, scope } => {
                let token = session_token.as_ref().map_or_else(String::new, |token| format!(" and {{{token}}}"));
                let part = |part: &Option<String>| part.as_deref().unwrap_or("*").to_owned();
                let (region, service) = (part(&scope.region), part(&scope.service));
                format!(
                    "authorization: AWS4-HMAC-SHA256 {{{access_key_id}}}/*/{region}/{service} signed with {{{secret}}}{token}"
                )
            }
        }
    }
}

/// As messages name it.
impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header { name, .. } => write!(f, "the header {name}"),
            Self::QueryParameter { name } => write!(f, "the query parameter {}", name.escape_debug()),
            Self::Basic { .. } | Self::AwsSigv4 { .. } => f.write_str("the header authorization"),
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
