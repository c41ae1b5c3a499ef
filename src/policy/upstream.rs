//! The proxy through which upstreams are dialled, where the network has one: `[upstream] proxy`, or `--upstream-proxy`.

use crate::types::Authority;

/// Another HTTP proxy, between this one and every upstream. It gets addresses, not names, unless
/// it says otherwise: they are resolved and checked first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamProxy {
    /// Where it listens, in plain text.
    pub authority: Authority,
    /// The name of the secret `USER:PASSWORD` that it asks for (Basic, RFC 7617).
    pub auth: Option<String>,
    /// `resolve = "upstream"`: it is asked for names, so that no rule about addresses holds for them.
    pub looks_up: bool,
}

/// Why a text names no upstream proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamProxyError {
    /// Another scheme, or none.
    #[error("it does not begin with http://, and a proxy of another kind cannot be used")]
    Scheme,
    /// A user part.
    #[error("it holds a user and password, which others could read; declare a secret and name it as the proxy's auth")]
    Credentials,
    /// A path, query or fragment.
    #[error("there is something behind the port, and a proxy has no path")]
    Path,
    /// No port, or no host.
    #[error("it is not a host and a port")]
    Authority,
}

/// Where a proxy listens.
///
/// # Errors
/// [`UpstreamProxyError`]
pub(super) fn parse(text: &str) -> Result<Authority, UpstreamProxyError> {
    let (scheme, rest) = text.split_once("://").ok_or(UpstreamProxyError::Scheme)?;
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(UpstreamProxyError::Scheme);
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains('@') {
        return Err(UpstreamProxyError::Credentials);
    }
    if rest.contains(['/', '?', '#']) {
        return Err(UpstreamProxyError::Path);
    }
    // With two defaults that differ, a port that is missing shows itself.
    match (Authority::parse(rest, 1), Authority::parse(rest, 2)) {
        (Ok(authority), Ok(same)) if authority == same => Ok(authority),
        (Ok(_) | Err(_), Ok(_) | Err(_)) => Err(UpstreamProxyError::Authority),
    }
}

#[cfg(test)]
mod tests {
    use super::UpstreamProxyError::{Authority, Credentials, Path, Scheme};
    use super::*;

    macro_rules! proxies {
        ($($test:ident: $text:literal => $parsed:expr;)*) => {
            $(#[test]
            fn $test() {
                let parsed = parse($text).map(|authority| authority.to_string());
                assert_eq!(parsed, $parsed.map(str::to_owned));
            })*
        };
    }

    proxies! {
        a_name_and_a_port: "http://Proxy.Test:3128" => Ok::<&str, UpstreamProxyError>("proxy.test:3128");
        a_final_slash_is_nothing: "HTTP://proxy.test:3128/" => Ok::<&str, UpstreamProxyError>("proxy.test:3128");
        an_address_of_this_host: "http://127.0.0.1:8080" => Ok::<&str, UpstreamProxyError>("127.0.0.1:8080");
        an_ipv6_address: "http://[::1]:8080" => Ok::<&str, UpstreamProxyError>("[::1]:8080");
        no_scheme: "proxy.test:3128" => Err::<&str, _>(Scheme);
        tls_to_the_proxy: "https://proxy.test:3128" => Err::<&str, _>(Scheme);
        socks: "socks5://proxy.test:1080" => Err::<&str, _>(Scheme);
        credentials: "http://u:p@proxy.test:3128" => Err::<&str, _>(Credentials);
        a_path: "http://proxy.test:3128/pac" => Err::<&str, _>(Path);
        a_query: "http://proxy.test:3128?x" => Err::<&str, _>(Path);
        no_port: "http://proxy.test" => Err::<&str, _>(Authority);
        no_host: "http://:3128" => Err::<&str, _>(Authority);
        two_ports: "http://proxy.test:1:2" => Err::<&str, _>(Authority);
        nothing: "http://" => Err::<&str, _>(Authority);
    }
}
