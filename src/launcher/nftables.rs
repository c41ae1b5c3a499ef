//! The two rule sets that send every TCP port to one listener, as nf_tables netlink messages.
//!
//! Both spare loopback destinations, so that the command's own servers stay its own, and port 53, which wildcard
//! listeners answer: a rule would break `nameserver 127.0.0.53`, and through TPROXY a UDP answer would leave from the
//! wrong port. UDP needs no rule: the kernel itself refuses a port nobody listens on, with an ICMP error.

use nix::errno::Errno;
use nix::sys::socket::SockProtocol;

use super::netlink::{APPEND, Attributes, Batch, CREATE};

/// Sends captured connections to the transparent listener on `port`, before routing (TPROXY).
pub(super) fn install_tproxy(table: &str, port: u16, ipv6: bool) -> Result<(), (&'static str, Errno)> {
    // NF_INET_PRE_ROUTING, priority "mangle", as the kernel's TPROXY documentation has it.
    let chain = Chain { table, kind: "filter", hook: 0, priority: -150 };
    install(&chain, ipv6, |family| {
        let protocol = match family {
            Family::Ipv4 => 2,
            Family::Ipv6 => 10,
        };
        // NFTA_TPROXY_FAMILY, NFTA_TPROXY_REG_PORT
        let tproxy = Attributes::default().number(1, protocol).number(3, REGISTER);
        vec![load_port(port), expression("tproxy", tproxy), accept()]
    })
}

/// Rewrites the destination of captured connections to the listener on `port` (REDIRECT).
pub(super) fn install_redirect(table: &str, port: u16, ipv6: bool) -> Result<(), (&'static str, Errno)> {
    // NF_INET_LOCAL_OUT, priority "dstnat".
    let chain = Chain { table, kind: "nat", hook: 3, priority: -100 };
    install(&chain, ipv6, |_| {
        // NFTA_REDIR_REG_PROTO_MIN, and NF_NAT_RANGE_PROTO_SPECIFIED in NFTA_REDIR_FLAGS
        vec![load_port(port), expression("redir", Attributes::default().number(1, REGISTER).number(3, 2))]
    })
}

/// The table of a sandbox.
pub(super) const TABLE: &str = "sandbox_proxy";

const CHAIN: &str = "capture";
const NFPROTO_INET: u8 = 1;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NEW_TABLE: u16 = 0x0a00;
const NEW_CHAIN: u16 = 0x0a03;
const NEW_RULE: u16 = 0x0a06;
/// `NFT_REG_1`.
const REGISTER: u32 = 1;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;

struct Chain<'a> {
    table: &'a str,
    kind: &'static str,
    hook: u32,
    priority: i32,
}

#[derive(Clone, Copy)]
enum Family {
    Ipv4,
    Ipv6,
}

/// One transaction: all of it stands, or nothing.
fn install(
    chain: &Chain<'_>,
    ipv6: bool,
    action: impl Fn(Family) -> Vec<Attributes>,
) -> Result<(), (&'static str, Errno)> {
    let mut batch = Batch::default();
    // nfgenmsg: family, version, and the subsystem (10, nf_tables) in network order.
    let border = [0, 0, 0, 10];
    batch.border(BATCH_BEGIN, Attributes::after(&border));
    batch.request(NEW_TABLE, CREATE, header().text(1, chain.table), "nf_tables table");
    let hook = Attributes::default().number(1, chain.hook).with(2, &chain.priority.to_be_bytes());
    let body = header().text(1, chain.table).text(3, CHAIN).nest(4, hook).text(7, chain.kind);
    batch.request(NEW_CHAIN, CREATE, body, "nf_tables chain");
    let families = if ipv6 { &[Family::Ipv4, Family::Ipv6][..] } else { &[Family::Ipv4] };
    for family in families {
        let expressions = captured(*family).into_iter().chain(action(*family));
        let list = expressions.fold(Attributes::default(), |list, item| list.nest(1, item));
        batch.request(NEW_RULE, APPEND, header().text(1, chain.table).text(2, CHAIN).nest(4, list), "nf_tables rule");
    }
    batch.border(BATCH_END, Attributes::after(&border));
    batch.run(SockProtocol::NetlinkNetFilter)
}

fn header() -> Attributes {
    Attributes::after(&[NFPROTO_INET, 0, 0, 0])
}

/// Matches TCP of one family to any port but 53 and any destination but loopback.
fn captured(family: Family) -> Vec<Attributes> {
    const META_L4PROTO: u32 = 16;
    const META_NFPROTO: u32 = 15;
    const NETWORK_HEADER: u32 = 1;
    const TRANSPORT_HEADER: u32 = 2;
    let (number, offset, loopback) = match family {
        // 127/8 is told by its first byte.
        Family::Ipv4 => (2, 16, vec![127]),
        Family::Ipv6 => (10, 24, std::net::Ipv6Addr::LOCALHOST.octets().to_vec()),
    };
    let meta = |key| expression("meta", Attributes::default().number(1, REGISTER).number(2, key));
    let payload = |base, offset, length: usize| {
        let length = u32::try_from(length).expect("an address is short");
        let place = Attributes::default().number(1, REGISTER).number(2, base).number(3, offset);
        expression("payload", place.number(4, length))
    };
    vec![
        meta(META_NFPROTO),
        compare(EQUAL, &[number]),
        meta(META_L4PROTO),
        compare(EQUAL, &[6]),
        payload(NETWORK_HEADER, offset, loopback.len()),
        compare(NOT_EQUAL, &loopback),
        payload(TRANSPORT_HEADER, 2, 2),
        compare(NOT_EQUAL, &53_u16.to_be_bytes()),
    ]
}

fn compare(operator: u32, value: &[u8]) -> Attributes {
    let data = Attributes::default().with(1, value);
    expression("cmp", Attributes::default().number(1, REGISTER).number(2, operator).nest(3, data))
}

fn load_port(port: u16) -> Attributes {
    let data = Attributes::default().with(1, &port.to_be_bytes());
    expression("immediate", Attributes::default().number(1, REGISTER).nest(2, data))
}

fn accept() -> Attributes {
    // NFT_REG_VERDICT, NF_ACCEPT
    let verdict = Attributes::default().nest(2, Attributes::default().number(1, 1));
    expression("immediate", Attributes::default().number(1, 0).nest(2, verdict))
}

fn expression(name: &str, data: Attributes) -> Attributes {
    Attributes::default().text(1, name).nest(2, data)
}
