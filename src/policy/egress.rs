//! The IP layer of a policy: which addresses a client may dial itself, in addition to the names of Network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The seed's `EgressPolicy`. It judges the address that the client itself dialled and never causes a look-up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy(Reach);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Reach {
    #[default]
    BlockAll,
    AllowAll,
    Custom(Vec<Cidr>),
}

/// The mode of an [`EgressPolicy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressMode {
    /// No address.
    BlockAll,
    /// Every address that is not blocked.
    AllowAll,
    /// The addresses of `allow_cidrs`.
    Custom,
}

/// An address or network of `allow_cidrs`, kept as it was written.
#[derive(Clone, Debug)]
pub struct Cidr {
    text: String,
    net: IpNet,
}

/// Why a text is no entry of `allow_cidrs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// No characters but white space.
    #[error("the entry is empty; write an address or a network such as 192.0.2.0/24")]
    Empty,
    /// An IPv6 zone id.
    #[error("an IPv6 zone id (`%`) is not allowed; write the address without it")]
    Zone,
    /// Neither an address nor a network. A host name or a port is none.
    #[error("it is no IP address or network; write one such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32")]
    Address,
    /// What stands behind the slash.
    #[error("what follows the `/` is no prefix length (0 to 32 for IPv4, 0 to 128 for IPv6) and no netmask")]
    Prefix,
}

/// Why an [`EgressPolicy`] cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// `custom` without an entry.
    #[error("custom needs at least one CIDR; block_all permits none")]
    NoCidr,
    /// A bad entry.
    #[error("{entry:?}: {error}")]
    Cidr {
        /// The entry as given.
        entry: String,
        /// What is wrong with it.
        error: CidrError,
    },
}

impl EgressPolicy {
    /// No address may be dialled by number.
    pub fn block_all() -> Self {
        Self(Reach::BlockAll)
    }

    /// Every address that is not blocked may be dialled.
    pub fn allow_all() -> Self {
        Self(Reach::AllowAll)
    }

    /// The addresses of these CIDRs may be dialled. Entries are trimmed and may have host bits (`192.0.2.5/24`).
    ///
    /// # Errors
    /// [`EgressError`] when there is no entry, or for the first bad one.
    pub fn custom<I>(allow_cidrs: I) -> Result<Self, EgressError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let parse = |entry: I::Item| {
            let text = entry.as_ref();
            Cidr::parse(text).map_err(|error| EgressError::Cidr { entry: text.to_owned(), error })
        };
        let cidrs = allow_cidrs.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        if cidrs.is_empty() { Err(EgressError::NoCidr) } else { Ok(Self::of_cidrs(cidrs)) }
    }

    /// The mode.
    pub fn mode(&self) -> EgressMode {
        match self.0 {
            Reach::BlockAll => EgressMode::BlockAll,
            Reach::AllowAll => EgressMode::AllowAll,
            Reach::Custom(_) => EgressMode::Custom,
        }
    }

    /// The entries of `custom`; empty in the other modes.
    pub fn cidrs(&self) -> &[Cidr] {
        match &self.0 {
            Reach::BlockAll | Reach::AllowAll => &[],
            Reach::Custom(cidrs) => cidrs,
        }
    }

    /// The entry that permits to dial this address, or `allow_all`. Only the address itself counts, never one inside it:
    /// `PREFIX::5efe:a.b.c.d` is routed by its prefix. Blocked addresses are judged elsewhere.
    pub fn entry_for(&self, ip: IpAddr) -> Option<&str> {
        match &self.0 {
            Reach::BlockAll => None,
            Reach::AllowAll => Some("allow_all"),
            Reach::Custom(cidrs) => {
                let ip = ip.to_canonical();
                cidrs.iter().find(|cidr| cidr.net.contains(&ip)).map(|cidr| cidr.text.as_str())
            }
        }
    }

    /// The caller has made sure that there is an entry.
    pub(super) fn of_cidrs(mut cidrs: Vec<Cidr>) -> Self {
        let mut seen = std::collections::HashSet::new();
        cidrs.retain(|cidr| seen.insert(cidr.net));
        Self(Reach::Custom(cidrs))
    }
}

impl Cidr {
    /// Parses an address, or a network with a prefix length or a netmask. Host bits are cut off; a network inside
    /// `::ffff:0:0/96` is the IPv4 network.
    ///
    /// # Errors
    /// [`CidrError`] says what is wrong.
    pub fn parse(text: &str) -> Result<Self, CidrError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(CidrError::Empty);
        }
        if text.contains('%') {
            return Err(CidrError::Zone);
        }
        let (address, suffix) = match text.split_once('/') {
            Some((address, suffix)) => (address, Some(suffix)),
            None => (text, None),
        };
        let net = match address.parse().map_err(|_| CidrError::Address)? {
            IpAddr::V4(v4) => IpNet::V4(v4_net(v4, suffix)?),
            IpAddr::V6(v6) => canonical(v6, prefix_len(suffix, 128)?)?,
        };
        Ok(Self { text: text.to_owned(), net: net.trunc() })
    }

    /// The entry as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The network it stands for.
    pub fn net(&self) -> IpNet {
        self.net
    }
}

/// Two spellings of one network are equal.
impl PartialEq for Cidr {
    fn eq(&self, other: &Self) -> bool {
        self.net == other.net
    }
}

impl Eq for Cidr {}

fn v4_net(address: Ipv4Addr, suffix: Option<&str>) -> Result<Ipv4Net, CidrError> {
    match suffix.filter(|suffix| suffix.contains('.')) {
        Some(mask) => {
            let mask = mask.parse().map_err(|_| CidrError::Prefix)?;
            Ipv4Net::with_netmask(address, mask).map_err(|_| CidrError::Prefix)
        }
        None => Ipv4Net::new(address, prefix_len(suffix, 32)?).map_err(|_| CidrError::Prefix),
    }
}

fn canonical(address: Ipv6Addr, len: u8) -> Result<IpNet, CidrError> {
    let net = match (address.to_ipv4_mapped(), len.checked_sub(96)) {
        (Some(v4), Some(len)) => Ipv4Net::new(v4, len).map(IpNet::V4),
        (_, _) => Ipv6Net::new(address, len).map(IpNet::V6),
    };
    net.map_err(|_| CidrError::Prefix)
}

fn prefix_len(suffix: Option<&str>, max: u8) -> Result<u8, CidrError> {
    let Some(digits) = suffix else { return Ok(max) };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match digits.parse::<u8>() {
        Ok(len) if plain && len <= max => Ok(len),
        Ok(_) | Err(_) => Err(CidrError::Prefix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, CidrError> {
        Cidr::parse(text).map(|cidr| cidr.net.to_string())
    }

    /// The table of the seed's own parser.
    #[test]
    fn entries_are_what_the_seed_takes() {
        let ok = |text: &str| parse(text).unwrap_or_else(|e| format!("error: {e}"));
        assert_eq!(ok("203.0.113.5/24"), "203.0.113.0/24");
        assert_eq!(ok(" 203.0.113.5 "), "203.0.113.5/32");
        assert_eq!(ok("10.0.0.0/255.0.0.0"), "10.0.0.0/8");
        assert_eq!(ok("0.0.0.0/0"), "0.0.0.0/0");
        assert_eq!(ok("::/0"), "::/0");
        assert_eq!(ok("::ffff:10.0.0.0/104"), "10.0.0.0/8");
        assert_eq!(ok("2001:DB8::1/32"), "2001:db8::/32");
        for (text, error) in [
            ("", CidrError::Empty),
            (" ", CidrError::Empty),
            ("10", CidrError::Address),
            ("1.2.3.4:443", CidrError::Address),
            ("a.test", CidrError::Address),
            ("010.0.0.1", CidrError::Address),
            ("[::1]", CidrError::Address),
            ("fe80::1%eth0/64", CidrError::Zone),
            ("10.0.0.0/33", CidrError::Prefix),
            ("10.0.0.0/", CidrError::Prefix),
            ("10.0.0.0/+8", CidrError::Prefix),
            ("10.0.0.0/8/8", CidrError::Prefix),
            ("10.0.0.0/255.0.255.0", CidrError::Prefix),
            ("::/129", CidrError::Prefix),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn custom_needs_an_entry_and_keeps_it_as_written() {
        assert_eq!(EgressPolicy::custom::<[&str; 0]>([]), Err(EgressError::NoCidr));
        let error = EgressPolicy::custom(["10.0.0.0/8", "a.test"]).map_err(|e| e.to_string());
        assert!(error.is_err_and(|text| text.starts_with("\"a.test\": it is no IP address")));
        let policy = EgressPolicy::custom(["203.0.113.5/24", "203.0.113.0/24"]).unwrap();
        assert_eq!(policy.cidrs().len(), 1);
        assert_eq!(policy.entry_for(IpAddr::from([203, 0, 113, 77])), Some("203.0.113.5/24"));
        assert_eq!(policy.entry_for("::ffff:203.0.113.77".parse().unwrap()), Some("203.0.113.5/24"));
        assert_eq!(policy.entry_for("2a00::5efe:203.0.113.77".parse().unwrap()), None);
        assert_eq!(policy.entry_for(IpAddr::from([203, 0, 114, 1])), None);
    }

    #[test]
    fn the_other_modes() {
        let ip = IpAddr::from([8, 8, 8, 8]);
        assert_eq!(EgressPolicy::default(), EgressPolicy::block_all());
        assert_eq!(EgressPolicy::block_all().entry_for(ip), None);
        assert_eq!(EgressPolicy::allow_all().entry_for(ip), Some("allow_all"));
    }
}
