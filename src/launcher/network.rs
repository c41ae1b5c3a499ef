//! The network of a sandbox: `lo`, a route that makes every address local, listeners, and the rules that lead to them.
//!
//! A namespace that holds only `lo` is the boundary; what is here decides what is convenient, never what can leak.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

use nix::sys::socket::{SockProtocol, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use super::control::{CaptureMode, DESCRIPTOR_LIMIT, Failure, Layer, ListenerCounts};
use super::netlink::{Attributes, Batch, CREATE};
use super::nftables;

/// The sandbox's own IPv4 address, and its nameserver's.
pub const OWN_IPV4: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);

/// The sandbox's own IPv6 address.
pub const OWN_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd64, 0, 0, 0, 0, 0, 0, 1);

/// The port of the explicit HTTP proxy, on 127.0.0.1 and ::1 inside.
pub const EXPLICIT_PORT: u16 = 3128;

/// The port of the listener that captured connections are led to. Above the ephemeral range, and no service's own. A
/// connection that the command makes to this port itself shows one of the sandbox's own addresses as its local one.
pub const CAPTURE_PORT: u16 = 64_613;

/// Connections waiting to be accepted, per listener; the kernel's `somaxconn` bounds it.
const BACKLOG: i32 = 4096;

/// The listeners, in the order in which they are sent.
#[derive(Debug)]
pub(super) struct Sockets {
    ipv6: bool,
    mode: CaptureMode,
    tcp: Vec<Socket>,
    dns_tcp: Vec<Socket>,
    dns_udp: Vec<Socket>,
    explicit: Vec<Socket>,
}

impl Sockets {
    /// Where no rule leads to one listener, listens on each of the policy's ports.
    pub(super) fn listen_on(&mut self, ports: &[u16]) -> Result<(), Failure> {
        match self.mode {
            CaptureMode::Tproxy | CaptureMode::Redirect => return Ok(()),
            CaptureMode::Ports => {}
        }
        for port in ports.iter().filter(|port| ![0, 53, EXPLICIT_PORT].contains(port)) {
            self.tcp.extend(open_all(*port, Kind::Stream, self.ipv6)?);
        }
        if self.descriptors().len() <= DESCRIPTOR_LIMIT {
            return Ok(());
        }
        let text = "the policy names too many ports for a kernel without nf_tables; name fewer, or load nf_tables";
        Err(Failure::text(Layer::Listeners, text))
    }

    pub(super) fn counts(&self) -> ListenerCounts {
        ListenerCounts {
            mode: self.mode,
            tcp: self.tcp.len(),
            dns_tcp: self.dns_tcp.len(),
            dns_udp: self.dns_udp.len(),
            explicit: self.explicit.len(),
        }
    }

    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        let groups = [&self.tcp, &self.dns_tcp, &self.dns_udp, &self.explicit];
        groups.into_iter().flatten().map(AsRawFd::as_raw_fd).collect()
    }
}

/// Sets the network up and opens every listener that needs no policy: all of them, but where nf_tables is missing.
pub(super) fn set_up() -> Result<Sockets, Failure> {
    let ipv6 = enable_ipv6();
    bring_up(ipv6)?;
    // So that the command may use ports below 1024 of its own loopback, as a server in a container does.
    write_setting("net/ipv4/ip_unprivileged_port_start", "0")?;
    // With every address local the kernel itself would answer a ping of any; that is no leak, but it misleads.
    write_setting("net/ipv4/icmp_echo_ignore_all", "1")?;
    let ipv6_echo = "net/ipv6/icmp/echo_ignore_all";
    if Path::new("/proc/sys").join(ipv6_echo).exists() {
        write_setting(ipv6_echo, "1")?;
    }
    let dns_udp = wildcards(53, ipv6).map(|address| open(address, Kind::Datagram)).collect::<Result<_, _>>()?;
    let dns_tcp = wildcards(53, ipv6).map(|address| open(address, Kind::Stream)).collect::<Result<_, _>>()?;
    let explicit = both(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, EXPLICIT_PORT, ipv6);
    let explicit = explicit.map(|address| open(address, Kind::Stream)).collect::<Result<_, _>>()?;
    let (mode, tcp) = capture(ipv6);
    Ok(Sockets { ipv6, mode, tcp, dns_tcp, dns_udp, explicit })
}

/// Captures in the best way that this kernel has. Each rule set is one transaction, so a refused one leaves nothing.
fn capture(ipv6: bool) -> (CaptureMode, Vec<Socket>) {
    if let Ok(tcp) = open_all(CAPTURE_PORT, Kind::Transparent, ipv6)
        && nftables::install_tproxy(nftables::TABLE, CAPTURE_PORT, ipv6).is_ok()
    {
        return (CaptureMode::Tproxy, tcp);
    }
    if let Ok(tcp) = open_all(CAPTURE_PORT, Kind::Stream, ipv6)
        && nftables::install_redirect(nftables::TABLE, CAPTURE_PORT, ipv6).is_ok()
    {
        return (CaptureMode::Redirect, tcp);
    }
    (CaptureMode::Ports, Vec::new())
}

fn open_all(port: u16, kind: Kind, ipv6: bool) -> Result<Vec<Socket>, Failure> {
    wildcards(port, ipv6).map(|address| open(address, kind)).collect()
}

fn wildcards(port: u16, ipv6: bool) -> impl Iterator<Item = SocketAddr> {
    both(Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED, port, ipv6)
}

fn both(ipv4: Ipv4Addr, second: Ipv6Addr, port: u16, ipv6: bool) -> impl Iterator<Item = SocketAddr> {
    let second = ipv6.then(|| SocketAddr::from((second, port)));
    std::iter::once(SocketAddr::from((ipv4, port))).chain(second)
}

/// Whether this namespace has IPv6. Switched on where it is merely off; without it clients use IPv4 at once.
pub(super) fn enable_ipv6() -> bool {
    let setting = "net/ipv6/conf/lo/disable_ipv6";
    match std::fs::read_to_string(Path::new("/proc/sys").join(setting)) {
        Ok(value) if value.trim() == "0" => true,
        Ok(_) => write_setting(setting, "0").is_ok(),
        Err(_) => false,
    }
}

/// Brings `lo` up and makes every address local to it.
///
/// The routes name their source: without it the source of a connection would be its own destination, and a connection to
/// an unused port in the ephemeral range could meet itself.
fn bring_up(ipv6: bool) -> Result<(), Failure> {
    const LO: u32 = 1;
    const UP: u32 = 1;
    const NEW_LINK: u16 = 16;
    const NEW_ADDRESS: u16 = 20;
    const NEW_ROUTE: u16 = 24;
    const SCOPE_HOST: u8 = 254;
    const NO_DUPLICATE_CHECK: u8 = 2;
    const TABLE_LOCAL: u8 = 255;
    const PROTOCOL_BOOT: u8 = 3;
    const TYPE_LOCAL: u8 = 2;
    let mut batch = Batch::default();
    let link = [&[0; 4][..], &LO.to_ne_bytes(), &UP.to_ne_bytes(), &UP.to_ne_bytes()].concat();
    batch.request(NEW_LINK, 0, Attributes::after(&link), "bringing lo up");
    let mut address = |family: u8, octets: &[u8], what: (&'static str, &'static str)| {
        let bits = if octets.len() == 4 { 32 } else { 128 };
        let fixed = [&[family, bits, NO_DUPLICATE_CHECK, SCOPE_HOST][..], &LO.to_ne_bytes()].concat();
        // IFA_LOCAL, IFA_ADDRESS
        batch.request(NEW_ADDRESS, CREATE, Attributes::after(&fixed).with(2, octets).with(1, octets), what.0);
        let fixed = [family, 0, 0, 0, TABLE_LOCAL, PROTOCOL_BOOT, SCOPE_HOST, TYPE_LOCAL, 0, 0, 0, 0];
        // RTA_OIF, RTA_PREFSRC
        let route = Attributes::after(&fixed).with(4, &LO.to_ne_bytes()).with(7, octets);
        batch.request(NEW_ROUTE, CREATE, route, what.1);
    };
    address(2, &OWN_IPV4.octets(), ("adding 100.64.0.1 to lo", "adding the local default route"));
    if ipv6 {
        address(10, &OWN_IPV6.octets(), ("adding fd64::1 to lo", "adding the IPv6 local default route"));
    }
    batch.run(SockProtocol::NetlinkRoute).map_err(|(what, errno)| Failure::new(Layer::Loopback, what, errno))
}

fn write_setting(name: &str, value: &str) -> Result<(), Failure> {
    let path = Path::new("/proc/sys").join(name);
    std::fs::write(&path, value)
        .map_err(|error| Failure::io(Layer::Loopback, format!("writing {}", path.display()), &error))
}

#[derive(Clone, Copy)]
enum Kind {
    Stream,
    Transparent,
    Datagram,
}

/// Opens a listener. Never with SO_REUSEPORT: without it nothing inside can shadow a wildcard listener.
fn open(address: SocketAddr, kind: Kind) -> Result<Socket, Failure> {
    try_open(address, kind)
        .map_err(|error| Failure::io(Layer::Listeners, format!("listening on {address} inside"), &error))
}

fn try_open(address: SocketAddr, kind: Kind) -> std::io::Result<Socket> {
    let (r#type, protocol) = match kind {
        Kind::Stream | Kind::Transparent => (Type::STREAM, Protocol::TCP),
        Kind::Datagram => (Type::DGRAM, Protocol::UDP),
    };
    let socket = Socket::new(Domain::for_address(address), r#type, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    match kind {
        Kind::Stream => {}
        Kind::Transparent if address.is_ipv4() => socket.set_ip_transparent_v4(true)?,
        Kind::Transparent => socket.set_ip_transparent_v6(true)?,
        Kind::Datagram if address.is_ipv4() => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
        Kind::Datagram => {
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
            // An answer must leave from the address that was asked, which lo does not hold.
            socket.set_freebind_v6(true)?;
        }
    }
    socket.bind(&address.into())?;
    match kind {
        Kind::Stream | Kind::Transparent => socket.listen(BACKLOG)?,
        Kind::Datagram => {}
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn a_listener_refuses_a_second_one_beside_it() {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let first = open(loopback, Kind::Stream).unwrap();
        let taken = first.local_addr().unwrap().as_socket().unwrap();
        assert_eq!(open(taken, Kind::Stream).unwrap_err().errno, Errno::EADDRINUSE as i32);
    }
}
