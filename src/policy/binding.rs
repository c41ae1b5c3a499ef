//! Which credential goes to which destination.

use std::time::Duration;

use http::HeaderName;

use crate::types::Authority;

use super::network::EntryError;

pub(super) mod fields;
mod placement;

pub(super) use fields::{Field, Kind, parse_host, parse_secret_name};
pub use placement::{BasicUser, Placement, SignedScope};

use fields::{parse_header, parse_path_prefix, parse_prefix, parse_suffix};

/// A secret put into one place of the https requests to one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    host: Authority,
    path_prefix: String,
    secret_name: String,
    placement: Placement,
    accepts: Accepts,
    ttl: Option<Duration>,
    scrub: bool,
    github: Option<ForGitHub>,
}

/// That a binding is one of a [`super::GitHubBinding`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct ForGitHub {
    /// Whose repositories it is for; `None` for everybody's.
    owner: Option<String>,
}

/// A secret put into one header (the seed's type of that name): the parts of a [`Binding`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderBinding {
    host: Authority,
    header: HeaderName,
    secret_name: String,
    path_prefix: String,
    prefix: String,
    suffix: String,
}

/// What a client may send in the bound place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// Anything: the credential takes its place, also that of nothing.
    Anything,
    /// The placeholder, whose place the credential takes, or nothing, which it leaves so. All else is refused.
    PlaceholderOnly,
}

/// Why a [`Binding`] cannot be made.
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
    /// Not the name of a query parameter.
    #[error(
        "a query parameter's name has 1 to 256 characters, none of them a control character, and no white space in front"
    )]
    Parameter,
    /// Not a token (RFC 6265 section 4.1.1).
    #[error("it is no cookie's name; write one such as session")]
    CookieName,
    /// A user that Basic cannot carry (RFC 7617 section 2).
    #[error("a user has no colon and no control character: Basic cannot carry them")]
    User,
    /// Text around the value that would not stay in its segment of a path.
    #[error("it holds what cannot stand in one segment of a path: write letters, digits and `-._~!$&'()*+,=:@`")]
    Segment,
    /// Not the name of a region or a service of AWS.
    #[error(
        "a region's or a service's name has 1 to 64 small letters, digits, `-`, `_` and `.`, such as eu-west-1 or s3"
    )]
    Scope,
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
        })
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
}

impl From<HeaderBinding> for Binding {
    fn from(header: HeaderBinding) -> Self {
        let HeaderBinding { host, header, secret_name, path_prefix, prefix, suffix } = header;
        let placement = Placement::Header { name: header, prefix, suffix };
        Self { path_prefix, ..Self::of_parts(host, secret_name, placement) }
    }
}

impl Binding {
    /// One of parts that are known to be good, for every path.
    pub(super) fn of_parts(host: Authority, secret_name: String, placement: Placement) -> Self {
        let (path_prefix, accepts, ttl, scrub) = ("/".to_owned(), Accepts::Anything, None, true);
        Self { host, path_prefix, secret_name, placement, accepts, ttl, scrub, github: None }
    }

    pub(super) fn with_accepts(self, accepts: Accepts) -> Self {
        Self { accepts, ..self }
    }

    pub(super) fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    pub(super) fn for_github(self, owner: Option<String>) -> Self {
        Self { github: Some(ForGitHub { owner }), ..self }
    }

    /// Whether it is of a [`super::GitHubBinding`]: it is used where that one's check says so.
    pub fn is_for_github(&self) -> bool {
        self.github.is_some()
    }

    /// Whether its token is for the repositories of this owner, in lower case. Where it is one of a GitHub App, it is for those of one
    /// owner alone.
    pub fn is_for_owner(&self, owner: Option<&str>) -> bool {
        let mine = self.github.as_ref().and_then(|github| github.owner.as_deref());
        mine.is_none() || owner.is_none() || mine == owner
    }

    /// The same with responses searched for the values, as they are, or not.
    pub fn with_scrub(self, scrub: bool) -> Self {
        Self { scrub, ..self }
    }

    /// The host and port it is for.
    pub fn host(&self) -> &Authority {
        &self.host
    }

    /// The place in a request that it sets.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The secret whose value it takes.
    pub fn secret_name(&self) -> &str {
        &self.secret_name
    }

    /// Every secret that it takes, [`Self::secret_name`] first.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.secret_name.as_str()).chain(self.placement.other_secrets())
    }

    /// Whether it takes a secret of this name.
    pub fn uses(&self, secret: &str) -> bool {
        self.secrets().any(|name| name == secret)
    }

    /// What the path must begin with, in canonical form.
    pub fn path_prefix(&self) -> &str {
        &self.path_prefix
    }

    /// What a client may send in the place.
    pub fn accepts(&self) -> Accepts {
        self.accepts
    }

    /// How long its credential is used at most before it is asked for anew, where that may give another.
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// Whether the host's responses are searched for the values, so that they do not come back. What TLS uses never leaves.
    pub fn scrub(&self) -> bool {
        self.scrub
    }

    /// Whether it is used when a connection is made, and in no request.
    pub fn is_for_connection(&self) -> bool {
        matches!(self.placement, Placement::ClientCertificate { .. })
    }

    /// Whether both would set one place of a request that both are for.
    pub fn shares_place(&self, other: &Self) -> bool {
        let same_marker = self.secret_name == other.secret_name;
        self.placement.overlaps(&other.placement, same_marker)
    }

    /// Whether both would set one place of one request.
    pub(super) fn collides_with(&self, other: &Self) -> bool {
        self.host == other.host
            && !(self.is_for_github() && other.is_for_github())
            && self.shares_place(other)
            && (self.path_prefix.starts_with(&other.path_prefix) || other.path_prefix.starts_with(&self.path_prefix))
    }

    /// Whether it must look at the path to know if it applies.
    pub(super) fn looks_at_path(&self) -> bool {
        self.path_prefix != "/"
    }
}

#[cfg(test)]
mod tests;
