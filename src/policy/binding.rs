//! Which credential goes to which destination.

use std::time::Duration;

use http::{HeaderName, HeaderValue};

use crate::types::Authority;

use super::network::{EntryError, parse_entry};
use super::path;

/// A secret put into one header of the https requests to one host (the seed's type of that name).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderBinding {
    host: Authority,
    header: HeaderName,
    secret_name: String,
    path_prefix: String,
    prefix: String,
    suffix: String,
    accepts: Accepts,
    ttl: Option<Duration>,
    scrub: bool,
}

/// What a client may send under the bound header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// Anything: the credential takes its place, also that of nothing.
    Anything,
    /// The placeholder, whose place the credential takes, or nothing, which it leaves so. All else is refused.
    PlaceholderOnly,
}

/// Why a [`HeaderBinding`] cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindingError {
    /// The host.
    #[error("{0}")]
    Host(EntryError),
    /// Not a token (RFC 9110 section 5.1).
    #[error("it is no header name; write one such as Authorization or X-Api-Key")]
    HeaderName,
    /// A header that says how the message travels, not what it asks for.
    #[error("the header {0} belongs to the connection, the framing or the proxy itself and cannot be bound")]
    HeaderReserved(String),
    /// The name of the secret.
    #[error("a secret's name has 1 to 256 letters, digits, `-` and `_`")]
    SecretName,
    /// The path prefix does not begin with `/`.
    #[error("a path prefix begins with `/`")]
    PathStart,
    /// A path prefix that no request could be compared with.
    #[error("the path prefix is ambiguous: {0}; write it plainly, such as /v1/")]
    PathAmbiguous(&'static str),
    /// Text around the value that a header cannot carry (RFC 9110 section 5.5).
    #[error("it holds a control character, which a header cannot carry")]
    AffixControl,
    /// White space at the end of a header's value, which parsers take off.
    #[error("the header's value would begin or end with white space, which is lost on the way")]
    AffixPadding,
}

impl HeaderBinding {
    /// Binds a secret to a header of every path of `host` (`host` or `host:port`, 443 without one), with nothing around
    /// its value.
    ///
    /// # Errors
    /// [`BindingError`] says which part is wrong.
    pub fn new(host: &str, header: &str, secret_name: &str) -> Result<Self, BindingError> {
        Ok(Self {
            host: parse_host(host)?,
            header: parse_header(header)?,
            secret_name: parse_secret_name(secret_name)?,
            path_prefix: "/".to_owned(),
            prefix: String::new(),
            suffix: String::new(),
            accepts: Accepts::Anything,
            ttl: None,
            scrub: true,
        })
    }

    /// One of parts that are known to be good, for every path.
    pub(super) fn of_parts(host: Authority, header: HeaderName, secret_name: String, prefix: &str) -> Self {
        Self {
            host,
            header,
            secret_name,
            path_prefix: "/".to_owned(),
            prefix: prefix.to_owned(),
            suffix: String::new(),
            accepts: Accepts::Anything,
            ttl: None,
            scrub: true,
        }
    }

    pub(super) fn with_accepts(self, accepts: Accepts) -> Self {
        Self { accepts, ..self }
    }

    pub(super) fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// The same for paths that begin with `path_prefix` only: a plain prefix, with no regard to segments.
    ///
    /// # Errors
    /// [`BindingError::PathStart`] and [`BindingError::PathAmbiguous`].
    pub fn with_path_prefix(self, path_prefix: &str) -> Result<Self, BindingError> {
        Ok(Self { path_prefix: parse_path_prefix(path_prefix)?, ..self })
    }

    /// The same with text before the value, such as `Bearer `.
    ///
    /// # Errors
    /// [`BindingError::AffixControl`] and [`BindingError::AffixPadding`].
    pub fn with_prefix(self, prefix: &str) -> Result<Self, BindingError> {
        Ok(Self { prefix: parse_prefix(prefix)?, ..self })
    }

    /// The same with text behind the value.
    ///
    /// # Errors
    /// [`BindingError::AffixControl`] and [`BindingError::AffixPadding`].
    pub fn with_suffix(self, suffix: &str) -> Result<Self, BindingError> {
        Ok(Self { suffix: parse_suffix(suffix)?, ..self })
    }

    /// The same with responses searched for the value, as they are, or not.
    pub fn with_scrub(self, scrub: bool) -> Self {
        Self { scrub, ..self }
    }

    /// The host and port it is for.
    pub fn host(&self) -> &Authority {
        &self.host
    }

    /// The header it sets.
    pub fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The secret whose value it takes.
    pub fn secret_name(&self) -> &str {
        &self.secret_name
    }

    /// What the path must begin with, in canonical form.
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

    /// What a client may send under the header.
    pub fn accepts(&self) -> Accepts {
        self.accepts
    }

    /// How long its credential is used at most before it is asked for anew, where that may give another.
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// Whether the host's responses are searched for the value, so that it does not come back.
    pub fn scrub(&self) -> bool {
        self.scrub
    }

    /// Whether a header is the bound one in any spelling: servers that make variables of headers read `x_api_key` as
    /// `x-api-key`, so a client could slip its own past a name that is compared letter by letter.
    pub fn covers_header(&self, name: &HeaderName) -> bool {
        same_header(self.header.as_str(), name.as_str())
    }

    /// Makes one of all its fields by name, and reports each that is wrong. A required field that is missing makes none
    /// and is the caller's to report.
    pub(super) fn from_fields<'a>(
        field: impl Fn(Field) -> Option<&'a str>,
        mut report: impl FnMut(Field, BindingError),
    ) -> Option<Self> {
        let host = check(field(Field::Host), parse_host, |e| report(Field::Host, e));
        let header = check(field(Field::Header), parse_header, |e| report(Field::Header, e));
        let secret_name = check(field(Field::SecretName), parse_secret_name, |e| report(Field::SecretName, e));
        let path_prefix = field(Field::PathPrefix).or(Some("/"));
        let path_prefix = check(path_prefix, parse_path_prefix, |e| report(Field::PathPrefix, e));
        let prefix = check(field(Field::Prefix).or(Some("")), parse_prefix, |e| report(Field::Prefix, e));
        let suffix = check(field(Field::Suffix).or(Some("")), parse_suffix, |e| report(Field::Suffix, e));
        Some(Self {
            host: host?,
            header: header?,
            secret_name: secret_name?,
            path_prefix: path_prefix?,
            prefix: prefix?,
            suffix: suffix?,
            accepts: Accepts::Anything,
            ttl: None,
            scrub: true,
        })
    }

    /// Whether both would set one header of one request.
    pub(super) fn collides_with(&self, other: &Self) -> bool {
        self.host == other.host
            && self.covers_header(&other.header)
            && (self.path_prefix.starts_with(&other.path_prefix) || other.path_prefix.starts_with(&self.path_prefix))
    }

    /// Whether it must look at the path to know if it applies.
    pub(super) fn looks_at_path(&self) -> bool {
        self.path_prefix != "/"
    }
}

/// A field of a [`HeaderBinding`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    Host,
    Header,
    SecretName,
    PathPrefix,
    Prefix,
    Suffix,
}

fn check<T>(
    text: Option<&str>,
    parse: impl Fn(&str) -> Result<T, BindingError>,
    report: impl FnOnce(BindingError),
) -> Option<T> {
    text.and_then(|text| parse(text).map_err(report).ok())
}

pub(super) fn parse_host(text: &str) -> Result<Authority, BindingError> {
    parse_entry(text).map_err(BindingError::Host)
}

/// Checks the name of a secret.
///
/// # Errors
/// [`BindingError::SecretName`].
pub(super) fn parse_secret_name(text: &str) -> Result<String, BindingError> {
    let legal = text.bytes().all(is_secret_char) && (1..=256).contains(&text.len());
    if legal { Ok(text.to_owned()) } else { Err(BindingError::SecretName) }
}

fn is_secret_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn parse_header(text: &str) -> Result<HeaderName, BindingError> {
    let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| BindingError::HeaderName)?;
    let reserved = RESERVED.iter().any(|reserved| same_header(reserved, name.as_str()))
        || name.as_str().replace('_', "-").starts_with("x-sandbox-proxy-");
    if reserved { Err(BindingError::HeaderReserved(text.to_owned())) } else { Ok(name) }
}

/// Hop-by-hop (RFC 9110 section 7.6.1), the authority, and what frames a message.
const RESERVED: [&str; 14] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-encoding",
];

fn same_header(a: &str, b: &str) -> bool {
    let fold = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    a.bytes().map(fold).eq(b.bytes().map(fold))
}

fn parse_path_prefix(text: &str) -> Result<String, BindingError> {
    if !text.starts_with('/') {
        return Err(BindingError::PathStart);
    }
    if text.contains("//") {
        return Err(BindingError::PathAmbiguous("a repeated slash"));
    }
    path::canonical(text).map(std::borrow::Cow::into_owned).map_err(BindingError::PathAmbiguous)
}

fn parse_prefix(text: &str) -> Result<String, BindingError> {
    if text.starts_with([' ', '\t']) { Err(BindingError::AffixPadding) } else { parse_affix(text) }
}

fn parse_suffix(text: &str) -> Result<String, BindingError> {
    if text.ends_with([' ', '\t']) { Err(BindingError::AffixPadding) } else { parse_affix(text) }
}

fn parse_affix(text: &str) -> Result<String, BindingError> {
    match HeaderValue::from_bytes(text.as_bytes()) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(BindingError::AffixControl),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(header: &str) -> Result<HeaderBinding, BindingError> {
        HeaderBinding::new("a.test", header, "KEY")
    }

    #[test]
    fn defaults_are_the_seeds() {
        let b = binding("X-Api-Key").unwrap();
        assert_eq!((b.path_prefix(), b.prefix(), b.suffix()), ("/", "", ""));
        assert_eq!((b.host().port, b.header().as_str(), b.secret_name()), (443, "x-api-key", "KEY"));
    }

    #[test]
    fn headers_that_frame_or_travel_are_refused_in_any_spelling() {
        for name in
            RESERVED.iter().copied().chain(["Content_Length", "HOST", "X-Sandbox-Proxy-Token", "x_sandbox_proxy-x"])
        {
            assert_eq!(binding(name), Err(BindingError::HeaderReserved(name.to_owned())));
        }
        for name in ["", "a b", "a:", ":path", "x\r\ny", "\u{fc}"] {
            assert_eq!(binding(name), Err(BindingError::HeaderName), "{name:?}");
        }
    }

    #[test]
    fn a_path_prefix_is_plain() {
        let with = |prefix| binding("x").unwrap().with_path_prefix(prefix).map(|b| b.path_prefix);
        assert_eq!(with("/v1/"), Ok("/v1/".to_owned()));
        assert_eq!(with("/%76%31/\u{fc}"), Ok("/v1/%C3%BC".to_owned()));
        assert_eq!(with("v1"), Err(BindingError::PathStart));
        assert_eq!(with(""), Err(BindingError::PathStart));
        assert_eq!(with("*"), Err(BindingError::PathStart));
        assert_eq!(with("/a/../b"), Err(BindingError::PathAmbiguous("a dot segment")));
        assert_eq!(with("/a//b"), Err(BindingError::PathAmbiguous("a repeated slash")));
        assert_eq!(with("/a?b"), Err(BindingError::PathAmbiguous("a query or fragment inside the path")));
    }

    #[test]
    fn what_stands_around_the_value_is_legal_in_a_header() {
        assert!(binding("x").unwrap().with_prefix("Bearer ").is_ok());
        assert_eq!(binding("x").unwrap().with_prefix(" x"), Err(BindingError::AffixPadding));
        assert_eq!(binding("x").unwrap().with_prefix("a\r\nb"), Err(BindingError::AffixControl));
        assert_eq!(binding("x").unwrap().with_suffix("x "), Err(BindingError::AffixPadding));
        assert_eq!(binding("x").unwrap().with_suffix("\0"), Err(BindingError::AffixControl));
    }

    #[test]
    fn hosts_and_secret_names_are_checked() {
        let host = |host| HeaderBinding::new(host, "x", "KEY").map(|b| b.host.to_string());
        assert_eq!(host("A.test.:8443"), Ok("a.test:8443".to_owned()));
        assert_eq!(host("*.a.test"), Err(BindingError::Host(EntryError::Wildcard)));
        assert_eq!(host("localhost"), Err(BindingError::Host(EntryError::Local)));
        for name in ["", "a b", "a.b", "{K}", &"a".repeat(257)] {
            assert_eq!(HeaderBinding::new("a.test", "x", name), Err(BindingError::SecretName), "{name:?}");
        }
    }

    #[test]
    fn the_bound_header_is_known_in_any_spelling() {
        let b = binding("X-Api-Key").unwrap();
        for (name, same) in [("x_api_key", true), ("X-API_Key", true), ("x-api-keys", false), ("xapikey", false)] {
            assert_eq!(b.covers_header(&HeaderName::from_bytes(name.as_bytes()).unwrap()), same, "{name}");
        }
    }
}
