//! Which hosts a rule is for: one, or all below a name.

use std::fmt;

use crate::types::{Authority, Host, HostError, HostName};

use super::network::is_local;

/// The host of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// Exactly this name or address.
    Exact(Host),
    /// `*.x`: every name that ends in `.x`, at any depth; never `x` itself, never an address.
    Below(HostName),
    /// `*`: every name and every address. Only the deny lists of other systems hold it; [`Self::parse`] refuses it.
    Every,
}

/// Why a text is no [`HostPattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// `https://…`.
    #[error("a rule's host has no scheme; write the host alone, and the scheme under `scheme`")]
    Scheme,
    /// A path, query or fragment.
    #[error("a rule's host has no path; write the host alone, and paths under `paths`")]
    Path,
    /// `host:port`.
    #[error("a rule's host has no port; write the host alone, and ports under `ports`")]
    Port,
    /// `*`.
    #[error("a bare `*` is every host; name the hosts, such as api.example.com or *.example.com")]
    Every,
    /// `*.com`.
    #[error("`*.{0}` is every name of a top-level domain; name a domain below it, such as *.example.{0}")]
    TopLevel(HostName),
    /// `*.co.uk`, whose names belong to anybody (the ICANN section of the public suffix list).
    #[error("anybody can register a name below {0}; name a domain below it, such as *.example.{0}")]
    PublicSuffix(HostName),
    /// `a*.example.com`, `a.*.example.com`.
    #[error("`*` stands for whole labels at the beginning only; write *.example.com, or the full name")]
    Inside,
    /// `*.192.0.2.1`.
    #[error("an address has nothing below it; write the address alone")]
    Address,
    /// A name for the machine itself, which is never resolved.
    #[error("this name means the machine itself and is never resolved; list the address, such as 127.0.0.1")]
    Local,
    /// No host.
    #[error("{0}; write a host such as api.example.com or *.example.com")]
    Host(HostError),
}

impl HostPattern {
    /// Parses `host` or `*.host`. Names are canonicalised as everywhere else.
    ///
    /// # Errors
    /// [`PatternError`] says what is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.contains("://") {
            return Err(PatternError::Scheme);
        }
        if text.contains(['/', '?', '#']) {
            return Err(PatternError::Path);
        }
        if text == "*" {
            return Err(PatternError::Every);
        }
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        if name.contains('*') {
            return Err(PatternError::Inside);
        }
        let host = match (Authority::parse(name, 1), Authority::parse(name, 2)) {
            (Ok(one), Ok(two)) if one == two => return Err(PatternError::Port),
            (one, _) => one.map_err(PatternError::Host)?.host,
        };
        match (below, host) {
            (_, host) if is_local(&host) => Err(PatternError::Local),
            (true, Host::Ip(_)) => Err(PatternError::Address),
            (true, Host::Name(name)) => below_name(name),
            (false, host) => Ok(Self::Exact(host)),
        }
    }

    /// Whether every host of `other` is one of this.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Every, Self::Exact(_) | Self::Below(_) | Self::Every) => true,
            (Self::Exact(_) | Self::Below(_), Self::Every) => false,
            (Self::Exact(one), Self::Exact(two)) => one == two,
            (Self::Exact(_), Self::Below(_)) | (Self::Below(_), Self::Exact(Host::Ip(_))) => false,
            (Self::Below(one), Self::Exact(Host::Name(name))) => is_below(name, one),
            (Self::Below(one), Self::Below(two)) => one == two || is_below(two, one),
        }
    }
}

fn below_name(name: HostName) -> Result<HostPattern, PatternError> {
    if !name.as_str().contains('.') {
        Err(PatternError::TopLevel(name))
    } else if is_open_to_anybody(&name) {
        Err(PatternError::PublicSuffix(name))
    } else {
        Ok(HostPattern::Below(name))
    }
}

/// Whether anybody can register a name below this one (the ICANN section of the public suffix list).
pub(super) fn is_open_to_anybody(name: &HostName) -> bool {
    // The second: *.kawasaki.jp in the list makes suffixes of all that stands below kawasaki.jp.
    is_icann_suffix(name.as_str()) || is_icann_suffix(&format!("0.{name}"))
}

fn is_icann_suffix(name: &str) -> bool {
    psl::suffix(name.as_bytes())
        .is_some_and(|suffix| suffix.typ() == Some(psl::Type::Icann) && suffix.as_bytes() == name.as_bytes())
}

fn is_below(name: &HostName, of: &HostName) -> bool {
    name.as_str().strip_suffix(of.as_str()).is_some_and(|rest| rest.ends_with('.'))
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => host.fmt(f),
            Self::Below(name) => write!(f, "*.{name}"),
            Self::Every => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> String {
        HostPattern::parse(text).map_or_else(|e| format!("error: {e}"), |pattern| pattern.to_string())
    }

    macro_rules! patterns {
        ($($name:ident: $text:expr => $want:expr;)*) => { $(
            #[test]
            fn $name() {
                assert_eq!(parse($text).split("; ").next().unwrap(), $want);
            }
        )* };
    }

    patterns! {
        exact: "API.Example.com." => "api.example.com";
        single_label: "intranet" => "intranet";
        v4: "192.0.2.1" => "192.0.2.1";
        v4_in_hexadecimal: "0xc0000201" => "192.0.2.1";
        v6: "2606:4700::1" => "[2606:4700::1]";
        v6_in_brackets: "[2606:4700::1]" => "[2606:4700::1]";
        v6_mapped: "::ffff:192.0.2.1" => "192.0.2.1";
        international: "b\u{fc}cher.example" => "xn--bcher-kva.example";
        below: "*.Example.com" => "*.example.com";
        below_final_dot: "*.example.com." => "*.example.com";
        below_international: "*.b\u{fc}cher.example" => "*.xn--bcher-kva.example";
        below_deep: "*.a.b.c.example.com" => "*.a.b.c.example.com";
        below_a_domain_of_a_suffix: "*.example.co.uk" => "*.example.co.uk";
        below_a_private_suffix: "*.github.io" => "*.github.io";
        below_an_unlisted_name: "*.corp.internal" => "*.corp.internal";
        below_an_exception: "*.www.ck" => "*.www.ck";
        below_an_exception_of_a_city: "*.city.kawasaki.jp" => "*.city.kawasaki.jp";
        underscore: "*._tcp.example.com" => "*._tcp.example.com";
        every: "*" => "error: a bare `*` is every host";
        every_dot: "*." => "error: the host is empty";
        top_level: "*.com" => "error: `*.com` is every name of a top-level domain";
        top_level_upper_case: "*.COM." => "error: `*.com` is every name of a top-level domain";
        top_level_unlisted: "*.internal" => "error: `*.internal` is every name of a top-level domain";
        suffix: "*.co.uk" => "error: anybody can register a name below co.uk";
        suffix_upper_case: "*.Co.UK" => "error: anybody can register a name below co.uk";
        suffix_of_a_country: "*.com.au" => "error: anybody can register a name below com.au";
        suffix_of_a_wildcard: "*.foo.ck" => "error: anybody can register a name below foo.ck";
        above_a_wildcard: "*.kawasaki.jp" => "error: anybody can register a name below kawasaki.jp";
        below_a_wildcard: "*.abc.kawasaki.jp" => "error: anybody can register a name below abc.kawasaki.jp";
        suffix_international: "*.\u{516c}\u{53f8}.cn" => "error: anybody can register a name below xn--55qx5d.cn";
        star_in_a_label: "a*.example.com" => "error: `*` stands for whole labels at the beginning only";
        star_at_the_end_of_a_label: "*a.example.com" => "error: `*` stands for whole labels at the beginning only";
        star_in_the_middle: "a.*.example.com" => "error: `*` stands for whole labels at the beginning only";
        star_at_the_end: "example.*" => "error: `*` stands for whole labels at the beginning only";
        two_stars: "*.*.example.com" => "error: `*` stands for whole labels at the beginning only";
        double_star: "**.example.com" => "error: `*` stands for whole labels at the beginning only";
        star_below_an_address: "*.192.0.2.1" => "error: an address has nothing below it";
        star_below_v6: "*.[::1]" => "error: an address has nothing below it";
        scheme: "https://example.com" => "error: a rule's host has no scheme";
        path: "example.com/v1" => "error: a rule's host has no path";
        query: "example.com?x" => "error: a rule's host has no path";
        port: "example.com:8443" => "error: a rule's host has no port";
        port_below: "*.example.com:8443" => "error: a rule's host has no port";
        port_of_v6: "[2606:4700::1]:443" => "error: a rule's host has no port";
        port_of_nothing: "example.com:" => "error: the port is not a number from 1 to 65535";
        local: "localhost" => "error: this name means the machine itself and is never resolved";
        local_below: "*.localhost" => "error: this name means the machine itself and is never resolved";
        local_name_below: "*.x.localhost" => "error: this name means the machine itself and is never resolved";
        white_space: "a b" => "error: ' ' is not allowed in a host name";
        at_sign: "u@example.com" => "error: '@' is not allowed in a host name";
        leading_dot: ".example.com" => "error: the host name has an empty or overlong part (63 characters a label, 253 in all)";
        a_number_that_is_no_address: "1.2.3.4.5" => "error: the host looks like an IPv4 address and is none";
    }

    #[test]
    fn covering() {
        let parse = |text| if text == "*" { HostPattern::Every } else { HostPattern::parse(text).unwrap() };
        let covers = |one, two| parse(one).covers(&parse(two));
        for (one, two, want) in [
            ("a.test", "A.TEST.", true),
            ("a.test", "b.test", false),
            ("a.b.test", "*.a.b.test", false),
            ("*.a.test", "x.a.test", true),
            ("*.a.test", "x.y.a.test", true),
            ("*.a.test", "a.test", false),
            ("*.a.test", "xa.test", false),
            ("*.a.test", "*.a.test", true),
            ("*.a.test", "*.x.a.test", true),
            ("*.x.a.test", "*.a.test", false),
            ("*.a.test", "*.xa.test", false),
            ("*.a.test", "192.0.2.1", false),
            ("*", "*.a.test", true),
            ("*", "192.0.2.1", true),
            ("*", "*", true),
            ("a.test", "*", false),
            ("*.a.test", "*", false),
        ] {
            assert_eq!(covers(one, two), want, "{one} {two}");
        }
    }
}
