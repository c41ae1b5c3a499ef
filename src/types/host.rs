//! Host names and authorities in their one canonical spelling. Nothing else in the tree lower-cases a host, drops its
//! final dot, applies IDNA or understands an odd spelling of an address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

/// A DNS name: A-labels, lower case, no final dot, letters, digits, hyphen and underscore only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostName(Arc<str>);

/// A name or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A DNS name.
    Name(HostName),
    /// A literal address; an IPv4 address written inside IPv6 (`::ffff:a.b.c.d`) is the IPv4 address.
    Ip(IpAddr),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The port; never 0.
    pub port: u16,
}

/// Why a text is no host or authority. The text shown is cut and escaped, so it can go to a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// No characters.
    #[error("the host is empty")]
    Empty,
    /// A character that no host name has.
    #[error("{0:?} is not allowed in a host name")]
    Character(char),
    /// Over 253 characters, or a label that is empty or over 63.
    #[error("the host name has an empty or overlong part (63 characters a label, 253 in all)")]
    Length,
    /// A label with a hyphen at an end.
    #[error("a part of the host name begins or ends with a hyphen")]
    Hyphen,
    /// IDNA refuses it.
    #[error("the host name is not a valid international name")]
    Idna,
    /// Its last label is a number, so it must be an IPv4 address, and it is none.
    #[error("the host looks like an IPv4 address and is none")]
    Number,
    /// Brackets without an IPv6 address between them, or with a zone id.
    #[error("what stands between the brackets is not an IPv6 address (a zone id is not allowed)")]
    Bracket,
    /// A port that is not 1 to 65535.
    #[error("the port is not a number from 1 to 65535")]
    Port,
}

impl HostName {
    /// Parses and canonicalises a DNS name.
    ///
    /// # Errors
    /// [`HostError`] for anything that is no name, literal addresses included.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        match Host::parse(text)? {
            Host::Name(name) => Ok(name),
            Host::Ip(_) => Err(HostError::Number),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Host {
    /// Parses and canonicalises a host: a name, an IPv4 address in any spelling that `inet_aton` takes, or an IPv6
    /// address with or without brackets.
    ///
    /// # Errors
    /// [`HostError`] says what is wrong.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(HostError::Bracket)?;
            return Ipv6Addr::from_str(inner).map(Self::from_v6).map_err(|_| HostError::Bracket);
        }
        if text.contains(':') {
            return Ipv6Addr::from_str(text).map(Self::from_v6).map_err(|_| HostError::Character(':'));
        }
        let ascii = to_ascii(text)?;
        let name = ascii.strip_suffix('.').unwrap_or(&ascii);
        if last_label_is_number(name) {
            return parse_inet_aton(name).map(|v4| Self::Ip(IpAddr::V4(v4))).ok_or(HostError::Number);
        }
        check_ldh(name)?;
        Ok(Self::Name(HostName(name.into())))
    }

    /// The address a client or a DNS answer gave; IPv4 inside `::ffff:0:0/96` becomes IPv4.
    pub fn from_ip(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::Ip(ip),
            IpAddr::V6(v6) => Self::from_v6(v6),
        }
    }

    fn from_v6(v6: Ipv6Addr) -> Self {
        Self::Ip(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4))
    }
}

impl Authority {
    /// A host and a port.
    pub fn new(host: Host, port: u16) -> Self {
        Self { host, port }
    }

    /// Parses `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address.
    ///
    /// # Errors
    /// [`HostError`] says what is wrong.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, HostError> {
        let (host, port) = split_port(text)?;
        let port = match port {
            None => default_port,
            Some(digits) => parse_port(digits)?,
        };
        Ok(Self { host: Host::parse(host)?, port })
    }
}

fn split_port(text: &str) -> Result<(&str, Option<&str>), HostError> {
    if let Some(end) = text.strip_prefix('[').and_then(|_| text.find(']')) {
        let (host, rest) = text.split_at(end + 1);
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(HostError::Bracket),
        };
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Ok((text, None)),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

fn parse_port(digits: &str) -> Result<u16, HostError> {
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match digits.parse::<u16>() {
        Ok(port) if plain && port != 0 => Ok(port),
        Ok(_) | Err(_) => Err(HostError::Port),
    }
}

/// IDNA (UTS 46, non-transitional) for anything that is not plain ASCII, lower case for the rest. Full-width digits and
/// ideographic dots become what they stand for, so that a disguised address is seen as one.
fn to_ascii(text: &str) -> Result<String, HostError> {
    if let Some(c) = text.chars().find(|c| c.is_ascii() && !is_name_char(*c)) {
        return Err(HostError::Character(c));
    }
    let lower = text.to_ascii_lowercase();
    if lower.is_ascii() && !lower.split('.').any(|label| label.starts_with("xn--")) {
        return Ok(lower);
    }
    let ascii = idna::domain_to_ascii(&lower).map_err(|_| HostError::Idna)?;
    match ascii.chars().find(|c| !is_name_char(*c)) {
        Some(c) => Err(HostError::Character(c)),
        None if ascii.is_empty() => Err(HostError::Empty),
        None => Ok(ascii),
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn check_ldh(name: &str) -> Result<(), HostError> {
    if name.is_empty() || name.len() > 253 {
        return Err(HostError::Length);
    }
    for label in name.split('.') {
        if label.is_empty() || label.len() > 63 {
            return Err(HostError::Length);
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(HostError::Hyphen);
        }
    }
    Ok(())
}

/// The test of the WHATWG URL standard: such a host is an IPv4 address or an error, never a name.
fn last_label_is_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    !last.is_empty() && (last.bytes().all(|b| b.is_ascii_digit()) || parse_number(last).is_some())
}

/// `inet_aton`: one to four numbers, decimal, octal with a leading 0 or hexadecimal with 0x, the last filling the rest.
fn parse_inet_aton(name: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u64> = name.split('.').map(parse_number).collect::<Option<_>>()?;
    let (&last, heads) = parts.split_last()?;
    if heads.len() > 3 || heads.iter().any(|&n| n > 255) {
        return None;
    }
    let room = 8 * (4 - heads.len() as u32);
    if last >= 1 << room {
        return None;
    }
    let high = heads.iter().enumerate().fold(0u64, |acc, (i, &n)| acc | n << (24 - 8 * i));
    u32::try_from(high | last).ok().map(Ipv4Addr::from)
}

fn parse_number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    if radix == 16 && digits.is_empty() {
        return Some(0);
    }
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Ip(IpAddr::V4(ip)) => ip.fmt(f),
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
        }
    }
}

/// The port is left out when it is 443, as in an `https` URL.
impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            443 => self.host.fmt(f),
            port => write!(f, "{}:{port}", self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> String {
        Host::parse(text).map_or_else(|e| format!("error: {e}"), |h| h.to_string())
    }

    macro_rules! hosts {
        ($($name:ident: $text:expr => $want:expr;)*) => { $(
            #[test]
            fn $name() {
                assert_eq!(host($text), $want);
            }
        )* };
    }

    hosts! {
        lower_case: "Example.COM" => "example.com";
        one_final_dot: "example.com." => "example.com";
        two_final_dots: "example.com.." => "error: the host name has an empty or overlong part (63 characters a label, 253 in all)";
        underscore: "_dmarc.a_b.test" => "_dmarc.a_b.test";
        international: "B\u{fc}cher.test" => "xn--bcher-kva.test";
        a_label: "xn--BCHER-kva.test" => "xn--bcher-kva.test";
        bad_a_label: "xn--\u{ff}" => "error: the host name is not a valid international name";
        nul: "evil.test\0.allowed.test" => "error: '\\0' is not allowed in a host name";
        space: "a b" => "error: ' ' is not allowed in a host name";
        percent: "a%00.test" => "error: '%' is not allowed in a host name";
        at_sign: "a@b.test" => "error: '@' is not allowed in a host name";
        slash: "a/b" => "error: '/' is not allowed in a host name";
        star: "*.allowed.test" => "error: '*' is not allowed in a host name";
        only_dots: "..." => "error: the host name has an empty or overlong part (63 characters a label, 253 in all)";
        leading_dot: ".allowed.test" => "error: the host name has an empty or overlong part (63 characters a label, 253 in all)";
        leading_hyphen: "-a.test" => "error: a part of the host name begins or ends with a hyphen";
        decimal: "2130706433" => "127.0.0.1";
        hexadecimal: "0x7f000001" => "127.0.0.1";
        hexadecimal_upper: "0X7F.1" => "127.0.0.1";
        octal: "0177.0.0.1" => "127.0.0.1";
        short: "127.1" => "127.0.0.1";
        zero: "0" => "0.0.0.0";
        bare_hex: "0x" => "0.0.0.0";
        dotted_with_dot: "127.0.0.1." => "127.0.0.1";
        too_many_parts: "1.2.3.4.5" => "error: the host looks like an IPv4 address and is none";
        too_big: "4294967296" => "error: the host looks like an IPv4 address and is none";
        number_label_last: "example.0x1" => "error: the host looks like an IPv4 address and is none";
        digits_with_nine: "a.09" => "error: the host looks like an IPv4 address and is none";
        circled_digits: "\u{2460}\u{2461}\u{2466}.0.0.1" => "127.0.0.1";
        ideographic_dots: "127\u{3002}0\u{3002}0\u{3002}1" => "127.0.0.1";
        full_width: "\u{ff11}27.0.0.1" => "127.0.0.1";
        mapped: "::ffff:10.0.0.1" => "10.0.0.1";
        mapped_hex: "[::ffff:0a00:1]" => "10.0.0.1";
        v6: "[2001:DB8::1]" => "[2001:db8::1]";
        zone: "[fe80::1%eth0]" => "error: what stands between the brackets is not an IPv6 address (a zone id is not allowed)";
        empty: "" => "error: the host is empty";
    }

    #[test]
    fn labels_and_names_have_bounds() {
        assert!(Host::parse(&format!("{}.test", "a".repeat(63))).is_ok());
        assert_eq!(Host::parse(&format!("{}.test", "a".repeat(64))), Err(HostError::Length));
        assert_eq!(Host::parse(&vec!["abcdefghi"; 26].join(".")), Err(HostError::Length));
    }

    #[test]
    fn authorities() {
        let parse = |t: &str| Authority::parse(t, 443).map(|a| (a.host.to_string(), a.port));
        assert_eq!(parse("a.test"), Ok(("a.test".into(), 443)));
        assert_eq!(parse("a.test:8443"), Ok(("a.test".into(), 8443)));
        assert_eq!(parse("[::1]:80"), Ok(("[::1]".into(), 80)));
        assert_eq!(parse("::1"), Ok(("[::1]".into(), 443)));
        assert_eq!(parse("a.test:"), Err(HostError::Port));
        assert_eq!(parse("a.test:0"), Err(HostError::Port));
        assert_eq!(parse("a.test:+80"), Err(HostError::Port));
        assert_eq!(parse("a.test:65536"), Err(HostError::Port));
        assert_eq!(parse("[::1]x"), Err(HostError::Bracket));
    }
}
