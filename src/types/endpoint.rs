//! Addresses of services that the person who runs the proxy names: of issuers of credentials.

use std::fmt;

use http::uri::PathAndQuery;

use super::host::{Authority, Host, HostError};

/// An `https://` URL, or an `http://` one of a loopback address of this host. `Display` shows neither path nor query, which may
/// hold what is nobody's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    tls: bool,
    authority: Authority,
    path: String,
}

/// Why a text is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Another scheme, or none.
    #[error("it does not begin with https://")]
    Scheme,
    /// Plain text that would leave this host.
    #[error(
        "http:// is for a loopback address such as 127.0.0.1 or [::1] alone, since credentials must not be readable on the way"
    )]
    Plain,
    /// A user part.
    #[error("it holds a user or password, which others could read")]
    Credentials,
    /// A fragment, a space, or what is not ASCII.
    #[error("its path holds a character that no path has, or a fragment")]
    Path,
    /// No host.
    #[error("{0}")]
    Host(#[from] HostError),
}

impl Endpoint {
    /// Parses a URL.
    ///
    /// # Errors
    /// [`EndpointError`].
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let (scheme, rest) = text.split_once("://").ok_or(EndpointError::Scheme)?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(EndpointError::Scheme),
        };
        let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if host.contains('@') {
            return Err(EndpointError::Credentials);
        }
        let authority = Authority::parse(host, if tls { 443 } else { 80 })?;
        if !tls && !is_loopback(&authority) {
            return Err(EndpointError::Plain);
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let endpoint = Self { tls, authority, path };
        if endpoint.path.contains('#') || !endpoint.path.is_ascii() || endpoint.target().is_none() {
            return Err(EndpointError::Path);
        }
        Ok(endpoint)
    }

    /// Whether it is spoken to over TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Whether it is on this very host.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.authority)
    }

    /// Host and port.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Path and query; begins with `/`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Path and query as a request has them. None for what [`Self::parse`] takes is never made.
    pub fn target(&self) -> Option<PathAndQuery> {
        self.path.parse().ok()
    }

    /// The whole URL.
    pub fn url(&self) -> String {
        format!("{self}{}", self.path)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        if self.authority.port == if self.tls { 443 } else { 80 } {
            write!(f, "{scheme}://{}", self.authority.host)
        } else {
            write!(f, "{scheme}://{}:{}", self.authority.host, self.authority.port)
        }
    }
}

fn is_loopback(authority: &Authority) -> bool {
    match &authority.host {
        Host::Ip(ip) => ip.is_loopback(),
        Host::Name(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Result<String, EndpointError> {
        Endpoint::parse(text).map(|endpoint| endpoint.url())
    }

    #[test]
    fn endpoints() {
        let good = |text, want: &str| assert_eq!(url(text), Ok(want.to_owned()), "{text}");
        good("HTTPS://Issuer.Test", "https://issuer.test/");
        good("https://issuer.test:8443/a/b?c=d", "https://issuer.test:8443/a/b?c=d");
        good("https://issuer.test?c", "https://issuer.test/?c");
        good("https://10.1.2.3:443/x", "https://10.1.2.3/x");
        good("http://127.0.0.1:8200/", "http://127.0.0.1:8200/");
        good("http://[::1]/x", "http://[::1]/x");
    }

    #[test]
    fn what_is_no_endpoint() {
        for (text, want) in [
            ("issuer.test", EndpointError::Scheme),
            ("ftp://issuer.test", EndpointError::Scheme),
            ("http://issuer.test/", EndpointError::Plain),
            ("http://localhost/", EndpointError::Plain),
            ("http://10.1.2.3/", EndpointError::Plain),
            ("https://u:p@issuer.test/", EndpointError::Credentials),
            ("https://issuer.test/#x", EndpointError::Path),
            ("https://issuer.test/a b", EndpointError::Path),
            ("https://issuer.test/\u{fc}", EndpointError::Path),
            ("https://issuer.test/\r\n", EndpointError::Path),
        ] {
            assert_eq!(url(text), Err(want), "{text}");
        }
        assert!(matches!(url("https:///x"), Err(EndpointError::Host(_))));
        assert!(matches!(url("https://a.test:0/"), Err(EndpointError::Host(_))));
    }

    #[test]
    fn the_path_is_not_shown() {
        let endpoint = Endpoint::parse("https://issuer.test:8443/canary?canary").map(|endpoint| endpoint.to_string());
        assert_eq!(endpoint, Ok("https://issuer.test:8443".to_owned()));
    }
}
