//! Which addresses may be dialled: the IANA special-purpose registries (RFC 6890), multicast, the metadata services of
//! the clouds and this host itself are blocked, unless the policy carves them out.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::types::Authority;

use super::egress::EgressPolicy;
use super::network::DEFAULT_PORT;
use super::rule::Ports;
use super::verdict::Denial;

/// The kind of a blocked address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressClass {
    /// 0/8 and `::`: the host itself, on Linux.
    Unspecified,
    /// 127/8 and `::1`.
    Loopback,
    /// 10/8, 172.16/12, 192.168/16 (RFC 1918) and fc00::/7 (RFC 4193).
    Private,
    /// 100.64/10, between a provider and its customers (RFC 6598).
    Shared,
    /// 169.254/16 and fe80::/10.
    LinkLocal,
    /// fec0::/10 (RFC 3879).
    SiteLocal,
    /// 192.0.0/24 and 2001::/23 without its globally reachable parts.
    Protocol,
    /// 192.0.2/24, 198.51.100/24, 203.0.113/24, 2001:db8::/32 and 3fff::/20.
    Documentation,
    /// 198.18/15 (RFC 2544), from which the proxy takes the addresses it makes up for refused names.
    Benchmarking,
    /// 224/4 and ff00::/8.
    Multicast,
    /// 240/4, broadcast included.
    Reserved,
    /// 100::/64 (RFC 6666).
    Discard,
    /// 5f00::/16 (RFC 9602).
    SegmentRouting,
    /// 64:ff9b:1::/48 (RFC 8215).
    LocalTranslation,
    /// Where a cloud hands credentials to its machines.
    Metadata,
    /// An address of this host's own interfaces.
    Own,
    /// An address that the policy denies, whatever leads to it.
    Denied,
}

impl AddressClass {
    /// The class of an address, `None` for a public one. [`Self::Own`] depends on the host and [`Self::Denied`] on the
    /// policy; neither is given here.
    pub fn of(ip: IpAddr) -> Option<Self> {
        parts(ip.to_canonical()).find_map(class_of_part)
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::Shared => "a carrier-grade NAT address",
            Self::LinkLocal => "a link-local address",
            Self::SiteLocal => "a site-local address",
            Self::Protocol => "an address reserved for protocols",
            Self::Documentation => "a documentation address",
            Self::Benchmarking => "a benchmarking address",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
            Self::Discard => "a discard-only address",
            Self::SegmentRouting => "a segment routing address",
            Self::LocalTranslation => "a local-use translation address",
            Self::Metadata => "a cloud metadata address",
            Self::Own => "an address of this host",
            Self::Denied => "an address that the policy denies",
        })
    }
}

/// Addresses that a look-up gave *and* the address rules accepted. Dialling takes nothing else, so nobody resolves twice.
/// Only [`super::Policy::check_addresses`] makes one; it is never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedAddrs(Vec<IpAddr>);

impl CheckedAddrs {
    /// The addresses, in the order they are to be tried. IPv4 inside `::ffff:0:0/96` has become IPv4.
    pub fn as_slice(&self) -> &[IpAddr] {
        &self.0
    }
}

/// What a policy carves out of the blocked ranges.
#[derive(Debug, Default)]
pub(super) struct AddressRules {
    /// `block_private_ips = false`: everything but metadata.
    open_private: bool,
    /// Entries that lie wholly inside one blocked range.
    narrow: Vec<IpNet>,
    /// Entries of one address, which alone open a metadata address or an own one.
    singles: Vec<IpAddr>,
    /// Addresses that allow rules open, with the ports of each rule. They beat all that is below.
    opened: HashMap<IpAddr, Vec<Ports>>,
    /// `deny_cidrs`.
    denied: Vec<IpNet>,
}

impl AddressRules {
    pub(super) fn new(egress: &EgressPolicy, open_private: bool) -> Self {
        let nets = || egress.cidrs().iter().map(|cidr| cidr.net());
        Self {
            open_private,
            narrow: nets().filter(lies_in_blocked_range).collect(),
            singles: nets().filter(is_single).map(|net| net.addr()).collect(),
            opened: HashMap::new(),
            denied: Vec::new(),
        }
    }

    /// The same, but for an address that a rule opens on these ports.
    pub(super) fn open(&mut self, address: IpAddr, ports: Ports) {
        self.opened.entry(address).or_default().push(ports);
    }

    /// The same, but for addresses that are denied.
    pub(super) fn deny(&mut self, nets: impl IntoIterator<Item = IpNet>) {
        self.denied.extend(nets);
    }

    pub(super) fn denied(&self) -> &[IpNet] {
        &self.denied
    }

    pub(super) fn open_private(&self) -> bool {
        self.open_private
    }

    /// All answers, or the first that is refused: one blocked address refuses the answer whole.
    pub(super) fn check(
        &self,
        authority: &Authority,
        answers: &[IpAddr],
        own: &[IpAddr],
    ) -> Result<CheckedAddrs, Denial> {
        if answers.is_empty() {
            return Err(Denial::NoAddress { authority: authority.clone() });
        }
        let addresses: Vec<IpAddr> = answers.iter().map(IpAddr::to_canonical).collect();
        for &address in &addresses {
            if let Some(class) = self.refusal(address, authority.port, own) {
                return Err(Denial::AddressBlocked { authority: authority.clone(), address, class });
            }
        }
        Ok(CheckedAddrs(addresses))
    }

    /// What these open that others do not, each with whether that is certain.
    pub(super) fn beyond(&self, others: &Self) -> Vec<(bool, String)> {
        let mut beyond = self.opened_beyond(others);
        let denied = IpNet::aggregate(&self.denied);
        for net in others.denied.iter().filter(|net| !denied.iter().any(|deny| deny.contains(*net))) {
            beyond.push((true, format!("{net} is not denied to names that lead there")));
        }
        let singles = self.singles.iter().filter(|ip| !others.singles.contains(ip));
        for ip in singles.clone().filter(|ip| METADATA.contains(ip)) {
            beyond.push((true, format!("{ip} is open, a cloud metadata address")));
        }
        match (self.open_private, others.open_private) {
            (_, true) => {}
            (true, false) => {
                beyond.push((
                    true,
                    "private, loopback and this host's own addresses are open to permitted names".to_owned(),
                ));
            }
            (false, false) => {
                let opened = IpNet::aggregate(&others.narrow);
                for net in self.narrow.iter().filter(|net| !opened.iter().any(|open| open.contains(*net))) {
                    beyond.push((true, format!("{net} is open, which is blocked otherwise")));
                }
                let own = singles.filter(|ip| !METADATA.contains(ip));
                beyond.extend(
                    own.map(|ip| (false, format!("{ip} is open even if it is one of this host's own addresses"))),
                );
            }
        }
        beyond
    }

    /// What rules open. Where others do not block the address, it may still be one of the host's own.
    fn opened_beyond(&self, others: &Self) -> Vec<(bool, String)> {
        let mut beyond = Vec::new();
        for (ip, ports) in self.opened.iter().flat_map(|(ip, rules)| rules.iter().map(move |ports| (ip, ports))) {
            let theirs = others.opened.get(ip).is_some_and(|rules| rules.iter().any(|other| other.covers(ports)));
            if theirs {
                continue;
            }
            let list = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
            let on = ports.listed().map_or_else(|| "every port".to_owned(), |ports| format!("port {}", list(ports)));
            let port = ports.listed().and_then(|ports| ports.first().copied()).unwrap_or(DEFAULT_PORT);
            beyond.push(match others.refusal(*ip, port, &[]) {
                Some(class) => (true, format!("{ip} is open on {on}, {class}")),
                None => (false, format!("{ip} is open on {on} even if it is one of this host's own addresses")),
            });
        }
        beyond.sort();
        beyond
    }

    /// An own address outside loopback is a range of its own: `10.0.0.0/8` opens the neighbours, not the host itself.
    fn refusal(&self, address: IpAddr, port: u16, own: &[IpAddr]) -> Option<AddressClass> {
        let opened =
            |ip: &IpAddr| self.opened.get(ip).is_some_and(|rules| rules.iter().any(|ports| ports.contains(port)));
        if opened(&address) {
            return None;
        }
        if parts(address).any(|part| !opened(&part) && self.denied.iter().any(|net| net.contains(&part))) {
            return Some(AddressClass::Denied);
        }
        if self.singles.contains(&address) {
            return None;
        }
        for part in parts(address).filter(|part| !self.singles.contains(part) && !opened(part)) {
            let class = class_of_part(part);
            match class {
                Some(AddressClass::Metadata) => return class,
                Some(_) if !self.open_private && !self.narrow.iter().any(|net| net.contains(&part)) => return class,
                Some(_) | None => {}
            }
            let is_own = own.iter().any(|ip| ip.to_canonical() == part) && class != Some(AddressClass::Loopback);
            if is_own && !self.open_private {
                return Some(AddressClass::Own);
            }
        }
        None
    }
}

/// What an entry of `allow_cidrs` leaves closed although it covers it, as text for a warning.
pub(super) fn left_closed(net: &IpNet) -> Option<&'static str> {
    if is_single(net) {
        return None;
    }
    if !lies_in_blocked_range(net) && ranges().any(|range| net.contains(&range)) {
        return Some(
            "is wider than a blocked range, so it opens public addresses only; \
             an entry that lies wholly inside one blocked range opens the addresses of that range",
        );
    }
    METADATA
        .iter()
        .any(|ip| net.contains(ip))
        .then_some("covers a cloud metadata address, which stays blocked; only an entry of that one address opens it")
}

fn is_single(net: &IpNet) -> bool {
    net.prefix_len() == net.max_prefix_len()
}

fn lies_in_blocked_range(net: &IpNet) -> bool {
    ranges().any(|range| range.contains(net))
        && !GLOBAL_PROTOCOL_PARTS.iter().any(|part| IpNet::V6(*part).contains(net))
}

fn ranges() -> impl Iterator<Item = IpNet> {
    let v4 = BLOCKED_V4.iter().map(|(net, _)| IpNet::V4(*net));
    v4.chain(BLOCKED_V6.iter().map(|(net, _)| IpNet::V6(*net)))
}

/// The address itself and every IPv4 address inside it; each of them must be open. `::ffff:a.b.c.d` has no part but the
/// IPv4 address.
fn parts(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let embedded = match address {
        IpAddr::V4(_) => [None; 3],
        IpAddr::V6(v6) => embedded_v4(v6),
    };
    std::iter::once(address).chain(embedded.into_iter().flatten().map(IpAddr::V4))
}

/// IPv4-compatible (RFC 4291), IPv4-translated (RFC 2765), NAT64 (RFC 6052), 6to4 (RFC 3056), the server and the client
/// of Teredo (RFC 4380), and ISATAP (RFC 5214) under any prefix.
fn embedded_v4(v6: Ipv6Addr) -> [Option<Ipv4Addr>; 3] {
    let s = v6.segments();
    let join = |high: u16, low: u16| Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    let isatap = if s[4] & 0xfcff == 0 && s[5] == 0x5efe { join(s[6], s[7]) } else { None };
    match s {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None; 3],
        [0, 0, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            [join(high, low), None, None]
        }
        [0x2002, high, low, ..] => [join(high, low), isatap, None],
        [0x2001, 0, high, low, _, _, client_high, client_low] => {
            [join(high, low), join(!client_high, !client_low), isatap]
        }
        [..] => [isatap, None, None],
    }
}

fn class_of_part(part: IpAddr) -> Option<AddressClass> {
    if METADATA.contains(&part) {
        return Some(AddressClass::Metadata);
    }
    match part {
        IpAddr::V4(v4) => BLOCKED_V4.iter().find(|(net, _)| net.contains(&v4)).map(|(_, class)| *class),
        IpAddr::V6(v6) if GLOBAL_PROTOCOL_PARTS.iter().any(|net| net.contains(&v6)) => None,
        IpAddr::V6(v6) => BLOCKED_V6.iter().find(|(net, _)| net.contains(&v6)).map(|(_, class)| *class),
    }
}

const fn v4(a: u8, b: u8, c: u8, len: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), len)
}

const fn v6(a: u16, b: u16, c: u16, d: u16, len: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, d), len)
}

const fn ip4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

/// AWS, Google, DigitalOcean and most others; AWS ECS and EKS; Alibaba; Azure; Oracle; AWS and EKS and Google on IPv6.
const METADATA: [IpAddr; 9] = [
    ip4(169, 254, 169, 254),
    ip4(169, 254, 170, 2),
    ip4(169, 254, 170, 23),
    ip4(100, 100, 100, 200),
    ip4(168, 63, 129, 16),
    ip4(192, 0, 0, 192),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

const BLOCKED_V4: [(Ipv4Net, AddressClass); 14] = [
    (v4(0, 0, 0, 8), AddressClass::Unspecified),
    (v4(10, 0, 0, 8), AddressClass::Private),
    (v4(100, 64, 0, 10), AddressClass::Shared),
    (v4(127, 0, 0, 8), AddressClass::Loopback),
    (v4(169, 254, 0, 16), AddressClass::LinkLocal),
    (v4(172, 16, 0, 12), AddressClass::Private),
    (v4(192, 0, 0, 24), AddressClass::Protocol),
    (v4(192, 0, 2, 24), AddressClass::Documentation),
    (v4(192, 168, 0, 16), AddressClass::Private),
    (v4(198, 18, 0, 15), AddressClass::Benchmarking),
    (v4(198, 51, 100, 24), AddressClass::Documentation),
    (v4(203, 0, 113, 24), AddressClass::Documentation),
    (v4(224, 0, 0, 4), AddressClass::Multicast),
    (v4(240, 0, 0, 4), AddressClass::Reserved),
];

const BLOCKED_V6: [(Ipv6Net, AddressClass); 12] = [
    (v6(0, 0, 0, 0, 128), AddressClass::Unspecified),
    (v6(0, 0, 0, 1, 128), AddressClass::Loopback),
    (v6(0x64, 0xff9b, 1, 0, 48), AddressClass::LocalTranslation),
    (v6(0x100, 0, 0, 0, 64), AddressClass::Discard),
    (v6(0x2001, 0, 0, 0, 23), AddressClass::Protocol),
    (v6(0x2001, 0xdb8, 0, 0, 32), AddressClass::Documentation),
    (v6(0x3fff, 0, 0, 0, 20), AddressClass::Documentation),
    (v6(0x5f00, 0, 0, 0, 16), AddressClass::SegmentRouting),
    (v6(0xfc00, 0, 0, 0, 7), AddressClass::Private),
    (v6(0xfe80, 0, 0, 0, 10), AddressClass::LinkLocal),
    (v6(0xfec0, 0, 0, 0, 10), AddressClass::SiteLocal),
    (v6(0xff00, 0, 0, 0, 8), AddressClass::Multicast),
];

/// The parts of 2001::/23 that the IANA registry calls globally reachable (PCP, TURN and DNS-SD SRP anycast, AMT, AS112,
/// ORCHIDv2, drone remote ids), and Teredo, which is judged by the IPv4 addresses in it.
const GLOBAL_PROTOCOL_PARTS: [Ipv6Net; 8] = [
    v6(0x2001, 0, 0, 0, 32),
    v6(0x2001, 1, 0, 1, 128),
    v6(0x2001, 1, 0, 2, 128),
    v6(0x2001, 1, 0, 3, 128),
    v6(0x2001, 3, 0, 0, 32),
    v6(0x2001, 4, 0x112, 0, 48),
    v6(0x2001, 0x20, 0, 0, 28),
    v6(0x2001, 0x30, 0, 0, 28),
];

#[cfg(test)]
mod tests;
