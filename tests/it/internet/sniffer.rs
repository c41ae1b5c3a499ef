//! Sees every packet that arrives from the host: whatever its protocol, nothing leaves unseen.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};

use crate::rig;

/// Nobody's address: a packet to it marks a moment.
const MARK: IpAddr = IpAddr::V4(Ipv4Addr::new(11, 22, 44, 250));

/// Where the packets went.
#[derive(Default)]
pub struct Sniffer {
    destinations: Mutex<Vec<(IpAddr, u8)>>,
    heard: Condvar,
    /// How many marks were asked for, and the latest that was heard.
    marks: AtomicU64,
    marked: AtomicU64,
}

impl Sniffer {
    /// Starts to listen; it hears all when this returns.
    pub fn start() -> Arc<Self> {
        let sniffer = Arc::new(Self::default());
        let task = sniffer.clone();
        let (ready, started) = std::sync::mpsc::channel();
        rig::in_internet(move || {
            let every_protocol = SockProtocol::EthAll;
            let packets = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, every_protocol)
                .expect("a packet socket in the internet");
            ready.send(()).unwrap();
            let mut frame = [0; 65_536];
            while let Ok(length) = recv(packets.as_raw_fd(), &mut frame, MsgFlags::empty()) {
                let Some(packet) = destination(&frame[..length]) else { continue };
                let mut seen = task.destinations.lock().unwrap();
                match mark(&frame[..length]).filter(|_| packet.0 == MARK) {
                    Some(number) => drop(task.marked.fetch_max(number, Ordering::Relaxed)),
                    None => seen.push(packet),
                }
                task.heard.notify_all();
            }
        });
        started.recv().unwrap();
        sniffer
    }

    /// The IP protocol numbers of the packets that have gone to an address until now: packets are heard in their order, so a
    /// marked one is awaited first.
    pub fn protocols_to(&self, address: &str) -> Vec<u8> {
        let address: IpAddr = address.parse().unwrap();
        self.await_mark();
        let seen = self.destinations.lock().unwrap();
        seen.iter().filter(|(to, _)| *to == address).map(|(_, protocol)| *protocol).collect()
    }
}

impl Sniffer {
    /// Each mark has a number of its own: one that was sent twice, and comes late, must not count for the next.
    fn await_mark(&self) {
        let number = self.marks.fetch_add(1, Ordering::Relaxed) + 1;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut seen = self.destinations.lock().unwrap();
        while self.marked.load(Ordering::Relaxed) < number {
            assert!(Instant::now() < deadline, "the sniffer hears nothing");
            // An error tells of an earlier mark that nobody took.
            let _ = socket.send_to(&number.to_be_bytes(), (MARK, 9));
            seen = self.heard.wait_timeout(seen, Duration::from_millis(100)).unwrap().0;
        }
    }
}

/// The number in a UDP datagram over IPv4.
fn mark(frame: &[u8]) -> Option<u64> {
    frame.get(42..50)?.try_into().ok().map(u64::from_be_bytes)
}

/// Destination and protocol of an Ethernet frame that carries IP.
fn destination(frame: &[u8]) -> Option<(IpAddr, u8)> {
    match frame.get(12..14)? {
        [0x08, 0x00] => {
            let octets: [u8; 4] = frame.get(30..34)?.try_into().ok()?;
            Some((IpAddr::V4(Ipv4Addr::from(octets)), *frame.get(23)?))
        }
        [0x86, 0xdd] => {
            let octets: [u8; 16] = frame.get(38..54)?.try_into().ok()?;
            Some((IpAddr::V6(Ipv6Addr::from(octets)), *frame.get(20)?))
        }
        _ => None,
    }
}
