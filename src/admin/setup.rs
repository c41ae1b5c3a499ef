//! What a sandbox elsewhere runs to use the proxy (`../shared/spec/seed-systems.md` A.4.6 and A.4.7): commands for any POSIX sh, and the
//! variables that they read. The commands are the same for everybody; whatever is secret stands in the variables.

use std::collections::BTreeMap;
use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Uri;

use crate::trust::{self, VariableKind};
use crate::types::PROXY_USER;

const COMMON: &str = include_str!("setup/common.sh");
const GITHUB: &str = include_str!("setup/github.sh");
const GITHUB_SETUP: &str = include_str!("setup/github-setup.sh");
const GITHUB_RENEWAL: &str = include_str!("setup/github-renewal.sh");
const INJECTION: &str = include_str!("setup/injection.sh");
const INJECTION_SETUP: &str = include_str!("setup/injection-setup.sh");
const INJECTION_RENEWAL: &str = include_str!("setup/injection-renewal.sh");

/// Where sandboxes find the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyUrl {
    scheme: String,
    authority: String,
}

/// A text is no [`ProxyUrl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write http:// or https:// and a host, with a port where it is another than the scheme's, and nothing else")]
pub struct ProxyUrlError;

impl ProxyUrl {
    /// Reads one.
    ///
    /// # Errors
    /// [`ProxyUrlError`].
    pub fn parse(text: &str) -> Result<Self, ProxyUrlError> {
        let uri: Uri = text.parse().map_err(|_| ProxyUrlError)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(ProxyUrlError) };
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none() && !authority.as_str().contains('@');
        if !is_bare || !matches!(scheme, "http" | "https") || authority.host().is_empty() {
            return Err(ProxyUrlError);
        }
        Ok(Self { scheme: scheme.to_owned(), authority: authority.to_string() })
    }

    /// Without credentials.
    pub fn plain(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// With the user that every token goes with, and a token.
    pub fn with_token(&self, token: &str) -> String {
        let mut url = format!("{}://{PROXY_USER}:", self.scheme);
        for byte in token.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => url.push(char::from(byte)),
                // A String takes whatever is written.
                _ => write!(url, "%{byte:02X}").unwrap_or_default(),
            }
        }
        url + "@" + &self.authority
    }
}

/// Commands, and the variables that they are to have. `Debug` would show tokens, so there is none.
pub struct Setup {
    /// The variables of both commands.
    pub env: BTreeMap<String, String>,
    /// Makes the sandbox use the proxy.
    pub command: String,
    /// The same again with new credentials; to be run with the variables of a new set-up.
    pub renewal: String,
}

/// What every set-up tells of the proxy.
pub struct Proxy<'a> {
    /// Where it is.
    pub url: &'a ProxyUrl,
    /// The sandbox's authority, as PEM.
    pub ca_pem: &'a str,
    /// The same as a trust store for Java.
    pub ca_jks: &'a [u8],
    /// The right to use it.
    pub egress_token: &'a str,
}

/// git and gh on `host` (github.com, `NAME.ghe.com` or a GitHub Enterprise Server), through the proxy.
pub fn github(proxy: &Proxy<'_>, host: &str, token: &str) -> Setup {
    let mut env = BTreeMap::from([
        ("SANDBOX_PROXY_URL", proxy.url.plain()),
        ("SANDBOX_PROXY_CA_CERT", proxy.ca_pem.trim_end().to_owned()),
        ("SANDBOX_PROXY_GITHUB_PROXY", proxy.url.with_token(proxy.egress_token)),
        ("REQUESTS_CA_BUNDLE", BUNDLE.to_owned()),
        ("SSL_CERT_FILE", BUNDLE.to_owned()),
    ]);
    env.extend(["SANDBOX_PROXY_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"].map(|name| (name, token.to_owned())));
    if host != "github.com" {
        env.insert("GH_HOST", host.to_owned());
        if !host.ends_with(".ghe.com") {
            env.extend(["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"].map(|name| (name, token.to_owned())));
        }
    }
    let of = |rest: &str| format!("{COMMON}{GITHUB}{rest}");
    Setup { env: owned(env), command: of(GITHUB_SETUP), renewal: of(GITHUB_RENEWAL) }
}

/// Every client through the proxy, which puts the workspace's secrets in. The commands leave a file that a shell reads before each
/// further command: `/tmp/sandbox-proxy/secret-injection.env`.
pub fn secret_injection(proxy: &Proxy<'_>) -> Setup {
    let env = BTreeMap::from([
        ("SANDBOX_PROXY_URL", proxy.url.plain()),
        ("SANDBOX_PROXY_CA_CERT", proxy.ca_pem.trim_end().to_owned()),
        ("SANDBOX_PROXY_CA_JKS", BASE64_STANDARD.encode(proxy.ca_jks)),
        ("SANDBOX_PROXY_URL_WITH_TOKEN", proxy.url.with_token(proxy.egress_token)),
    ]);
    let names = |kind| trust::variables(kind).collect::<Vec<_>>().join(" ");
    let injection = INJECTION
        .replace("@BUNDLE_VARIABLES@", &names(VariableKind::Bundle))
        .replace("@CA_ONLY_VARIABLES@", &names(VariableKind::CaOnly))
        .replace("@UNSET_VARIABLES@", &names(VariableKind::Unset));
    let of = |rest: &str| format!("{COMMON}{injection}{rest}");
    Setup { env: owned(env), command: of(INJECTION_SETUP), renewal: of(INJECTION_RENEWAL) }
}

/// Where the commands put the bundle.
const BUNDLE: &str = "/tmp/sandbox-proxy/sandbox-proxy-ca-bundle.crt";

fn owned(env: BTreeMap<&str, String>) -> BTreeMap<String, String> {
    env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_carry_the_pair() {
        let url = |text: &str| ProxyUrl::parse(text).map(|url| url.with_token("a.b_c-d/é"));
        let wanted = |text: &str| Ok(text.to_owned());
        assert_eq!(url("http://proxy.test:3128"), wanted("http://sandbox-proxy:a.b_c-d%2F%C3%A9@proxy.test:3128"));
        assert_eq!(url("https://[2001:db8::1]/"), wanted("https://sandbox-proxy:a.b_c-d%2F%C3%A9@[2001:db8::1]"));
        for bad in [
            "proxy.test:3128",
            "proxy.test",
            "ftp://a.test",
            "http://u:p@a.test",
            "http://a.test/x",
            "http://a.test?x",
            "",
        ] {
            assert_eq!(ProxyUrl::parse(bad), Err(ProxyUrlError), "{bad}");
        }
    }

    #[test]
    fn hosts_get_their_variables() {
        let url = ProxyUrl::parse("http://p.test:1").unwrap();
        let proxy = Proxy { url: &url, ca_pem: "PEM\n", ca_jks: b"JKS", egress_token: "EGRESS" };
        let names = |host: &str| {
            github(&proxy, host, "TOKEN")
                .env
                .into_keys()
                .filter(|name| name.contains("H_HOST") || name.contains("ENTERPRISE"))
                .collect::<Vec<_>>()
        };
        assert_eq!(names("github.com"), Vec::<String>::new());
        assert_eq!(names("acme.ghe.com"), ["GH_HOST"]);
        assert_eq!(names("ghes.test"), ["GH_ENTERPRISE_TOKEN", "GH_HOST", "GITHUB_ENTERPRISE_TOKEN"]);
        let setup = github(&proxy, "github.com", "TOKEN");
        assert_eq!(setup.env["SANDBOX_PROXY_GITHUB_PROXY"], "http://sandbox-proxy:EGRESS@p.test:1");
        assert!(["SANDBOX_PROXY_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"].iter().all(|name| setup.env[*name] == "TOKEN"));
        for setup in [setup, secret_injection(&proxy)] {
            for command in [&setup.command, &setup.renewal] {
                assert!(!command.contains("EGRESS") && !command.contains("_VARIABLES@"), "{command}");
            }
        }
    }
}
