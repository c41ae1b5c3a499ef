//! An entry of a list of hosts as srt has it (seed-systems B.8), which GitLab's lists are handed to as well: `host`,
//! `*.host` or either with `:port`, and in a deny list also `*` and `*:port`. It takes what srt 0.0.83 takes, and where srt
//! takes what no host is called, such as `a..b`, so does this, with a warning.
//!
//! It differs from srt where srt is at fault: a name is brought to its one spelling before it is compared, so that
//! `bücher.example`, `EXAMPLE.com` and `127.1` mean what they say. In srt a deny entry in Unicode never matches. And a zone
//! id (`[fe80::1%eth0]`), which srt drops, is refused.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::types::{Host, HostError, HostName};

use super::super::network::is_local;
use super::super::pattern::HostPattern;

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// These hosts, on this port or on every one.
    Hosts {
        pattern: HostPattern,
        port: Option<u16>,
        /// It is one address, in the spelling in which everybody reads it as that address.
        literal: bool,
    },
    /// A name for the machine itself.
    Local,
    /// No host has such a name.
    Nobody,
}

/// Which list an entry stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wildcards {
    /// `*.host` alone.
    Below,
    /// `*` as well.
    Every,
}

/// Why a text is no [`Entry`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EntryError {
    #[error("an entry has no scheme; write the host alone, such as api.example.com or api.example.com:8443")]
    Scheme,
    #[error("a network is no entry here; list single addresses, or permit the network by --allow-cidr")]
    Network,
    #[error("an entry has no path; write the host alone, such as api.example.com or api.example.com:8443")]
    Path,
    #[error("the port is not a number from 1 to 65535 without leading zeros; write it, or leave it out for every port")]
    Port,
    #[error(
        "what stands between the brackets is not an IPv6 address, or something follows that is no port; write [::1] or [::1]:443"
    )]
    Bracket,
    #[error("an IPv6 address stands in brackets here; write [{0}]")]
    Bare(Ipv6Addr),
    #[error("it has more than one colon and is no IPv6 address; write host:port")]
    Colons,
    #[error("a bare `*` is every host; name the hosts, such as api.example.com or *.example.com")]
    Every,
    #[error("`*.{0}` is every name of a top-level domain; name a domain below it, such as *.example.{0}")]
    TopLevel(String),
    #[error("`*` stands for whole labels at the beginning only; write *.example.com, or the full name")]
    Inside,
    #[error("a name without a dot is no entry here; write the full name, such as host.example.com")]
    Undotted,
    #[error("an entry begins and ends with a name, not with a dot; take the dot away")]
    Dot,
    #[error("{0}; write a host such as api.example.com or *.example.com")]
    Host(HostError),
}

impl Entry {
    pub(super) fn parse(text: &str, wildcards: Wildcards) -> Result<Self, EntryError> {
        let (host, port) = split(text)?;
        if let Some(v6) = host.strip_prefix('[') {
            let v6 = v6.strip_suffix(']').unwrap_or(v6).parse::<Ipv6Addr>().map_err(|_| EntryError::Bracket)?;
            let pattern = HostPattern::Exact(Host::from_ip(v6.into()));
            return Ok(Self::Hosts { pattern, port, literal: true });
        }
        if host == "*" {
            return match wildcards {
                Wildcards::Every => Ok(Self::Hosts { pattern: HostPattern::Every, port, literal: false }),
                Wildcards::Below => Err(EntryError::Every),
            };
        }
        let (below, name) = host.strip_prefix("*.").map_or((false, host), |name| (true, name));
        if name.contains('*') {
            return Err(EntryError::Inside);
        }
        if name.starts_with('.') || name.ends_with('.') {
            return Err(EntryError::Dot);
        }
        match (below, name.contains('.')) {
            (true, false) if !name.is_empty() => return Err(EntryError::TopLevel(name.to_owned())),
            (false, false) if !name.is_empty() && !name.eq_ignore_ascii_case("localhost") => {
                return Err(EntryError::Undotted);
            }
            (true | false, true | false) => {}
        }
        named(below, name, port)
    }
}

fn named(below: bool, name: &str, port: Option<u16>) -> Result<Entry, EntryError> {
    match (below, Host::parse(name)) {
        (_, Ok(host)) if is_local(&host) => Ok(Entry::Local),
        (false, Ok(host)) => {
            let literal = name.parse::<Ipv4Addr>().is_ok();
            Ok(Entry::Hosts { pattern: HostPattern::Exact(host), port, literal })
        }
        (true, Ok(Host::Name(name))) => Ok(Entry::Hosts { pattern: HostPattern::Below(name), port, literal: false }),
        (true, Ok(Host::Ip(_))) | (_, Err(HostError::Number)) | (false, Err(HostError::Length)) => Ok(Entry::Nobody),
        (_, Err(error)) => Err(EntryError::Host(error)),
    }
}

/// The host, in brackets where it was, and the port.
fn split(text: &str) -> Result<(&str, Option<u16>), EntryError> {
    if text.contains("://") {
        return Err(EntryError::Scheme);
    }
    if let Some((host, rest)) = text.split_once('/') {
        let is_address = host.parse::<std::net::IpAddr>().is_ok() && rest.bytes().all(|b| b.is_ascii_digit());
        return Err(if is_address { EntryError::Network } else { EntryError::Path });
    }
    if text.starts_with('[') {
        let end = text.find(']').ok_or(EntryError::Bracket)? + 1;
        return match (&text[end..], text[end..].strip_prefix(':')) {
            ("", _) => Ok((&text[..end], None)),
            (_, Some(digits)) => Ok((&text[..end], Some(port(digits)?))),
            (_, None) => Err(EntryError::Bracket),
        };
    }
    match text.split_once(':') {
        None => Ok((text, None)),
        Some((_, rest)) if rest.contains(':') => Err(text.parse().map_or(EntryError::Colons, EntryError::Bare)),
        Some((host, digits)) => Ok((host, Some(port(digits)?))),
    }
}

fn port(digits: &str) -> Result<u16, EntryError> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| plain).ok_or(EntryError::Port)
}

/// The name of which an entry takes everybody's, where anybody can register below it.
pub(super) fn open_suffix(pattern: &HostPattern) -> Option<&HostName> {
    match pattern {
        HostPattern::Below(name) if super::super::pattern::is_open_to_anybody(name) => Some(name),
        HostPattern::Below(_) | HostPattern::Exact(_) | HostPattern::Every => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, wildcards: Wildcards) -> String {
        match Entry::parse(text, wildcards) {
            Ok(Entry::Hosts { pattern, port, literal }) => {
                let port = port.map_or_else(String::new, |port| format!(" port {port}"));
                format!("{pattern}{port}{}", if literal { " literal" } else { "" })
            }
            Ok(Entry::Local) => "local".to_owned(),
            Ok(Entry::Nobody) => "nobody".to_owned(),
            Err(error) => format!("error: {}", error.to_string().split("; ").next().unwrap()),
        }
    }

    /// One row, one test: the text of an entry, what it is in an allow list, and, where that differs, in a deny list.
    macro_rules! entries {
        ($($name:ident: $text:expr => $allow:expr $(, deny $deny:expr)?;)*) => { $(
            #[test]
            fn $name() {
                assert_eq!(parse($text, Wildcards::Below), $allow);
                #[allow(unused_variables, reason = "most rows say it once")]
                let deny = $allow;
                $(let deny = $deny;)?
                assert_eq!(parse($text, Wildcards::Every), deny);
            }
        )* };
    }

    const BARE: &str = "error: a bare `*` is every host";
    const INSIDE: &str = "error: `*` stands for whole labels at the beginning only";
    const PORT: &str = "error: the port is not a number from 1 to 65535 without leading zeros";
    const BRACKET: &str =
        "error: what stands between the brackets is not an IPv6 address, or something follows that is no port";

    // The valid ones of B.8.
    entries! {
        exact: "example.com" => "example.com";
        below: "*.example.com" => "*.example.com";
        below_a_public_suffix: "*.co.uk" => "*.co.uk";
        localhost: "localhost" => "local";
        localhost_with_a_port: "localhost:8080" => "local";
        v4: "127.0.0.1" => "127.0.0.1 literal";
        v4_with_a_port: "10.1.2.3:5432" => "10.1.2.3 port 5432 literal";
        v6: "[::1]" => "[::1] literal";
        v6_with_a_port: "[::1]:443" => "[::1] port 443 literal";
        v6_mapped: "[::ffff:10.0.0.1]" => "10.0.0.1 literal";
        the_first_port: "example.com:1" => "example.com port 1";
        the_last_port: "example.com:65535" => "example.com port 65535";
        below_with_a_port: "*.example.com:8443" => "*.example.com port 8443";
        upper_case: "API.Example.COM" => "api.example.com";
        unicode: "b\u{fc}cher.example" => "xn--bcher-kva.example";
        unicode_below: "*.b\u{fc}cher.example" => "*.xn--bcher-kva.example";
        two_dots: "a..b" => "nobody";
    }

    // The invalid ones of B.8, and `*` in a deny list.
    entries! {
        scheme: "https://example.com" => "error: an entry has no scheme";
        path: "example.com/v1" => "error: an entry has no path";
        no_dot: "com" => "error: a name without a dot is no entry here";
        every: "*" => BARE, deny "*";
        every_with_a_port: "*:22" => BARE, deny "* port 22";
        top_level: "*.com" => "error: `*.com` is every name of a top-level domain";
        star_inside: "exa*mple.com" => INSIDE;
        port_zero: "example.com:0" => PORT;
        port_with_a_zero: "example.com:0443" => PORT;
        bare_v6: "::1" => "error: an IPv6 address stands in brackets here";
        cidr: "10.0.0.0/8" => "error: a network is no entry here";
        final_dot: "example.com." => "error: an entry begins and ends with a name, not with a dot";
        empty: "" => "error: the host is empty";
    }

    // What lies beside them.
    entries! {
        final_dot_below: "*.example.com." => "error: an entry begins and ends with a name, not with a dot";
        leading_dot: ".example.com" => "error: an entry begins and ends with a name, not with a dot";
        every_dot: "*." => "error: the host is empty";
        two_dots_below: "*.a..b" => "error: the host name has an empty or overlong part (63 characters a label, 253 in all)";
        two_stars: "*.*.example.com" => INSIDE;
        star_in_the_middle: "a.*.example.com" => INSIDE;
        port_too_large: "example.com:65536" => PORT;
        port_with_a_sign: "example.com:+443" => PORT;
        port_of_nothing: "example.com:" => PORT;
        every_port_zero: "*:0" => PORT;
        bracket_without_end: "[::1" => BRACKET;
        bracket_with_rest: "[::1]x" => BRACKET;
        bracket_port_zero: "[::1]:0" => PORT;
        bracket_v4: "[127.0.0.1]" => BRACKET;
        zone: "[fe80::1%eth0]" => BRACKET;
        three_colons: "a.test:1:2" => "error: it has more than one colon and is no IPv6 address";
        white_space: "a b.test" => "error: ' ' is not allowed in a host name";
        quote: "a.test'; id" => "error: '\\'' is not allowed in a host name";
        percent: "a%00.test" => "error: '%' is not allowed in a host name";
        local_below: "*.localhost" => "error: `*.localhost` is every name of a top-level domain";
        local_name: "x.localhost" => "local";
        odd_spelling: "127.1" => "127.0.0.1";
        odd_octal: "0177.0.0.1" => "127.0.0.1";
        below_an_address: "*.10.0.0.1" => "nobody";
        five_numbers: "1.2.3.4.5" => "nobody";
    }

    #[test]
    fn what_anybody_can_register_is_known() {
        let suffix = |text| match Entry::parse(text, Wildcards::Below).unwrap() {
            Entry::Hosts { pattern, .. } => open_suffix(&pattern).map(ToString::to_string),
            Entry::Local | Entry::Nobody => None,
        };
        assert_eq!(suffix("*.co.uk").as_deref(), Some("co.uk"));
        assert_eq!(suffix("*.example.co.uk"), None);
        assert_eq!(suffix("*.github.io"), None);
    }
}
