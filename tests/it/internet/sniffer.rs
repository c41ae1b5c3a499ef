//! Sees every packet that arrives from the host: whatever its protocol, nothing leaves unseen.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};

use crate::rig;

/// Where the packets went.
#[derive(Default)]
pub struct Sniffer {
    destinations: Mutex<Vec<(IpAddr, u8)>>,
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
                if let Some(packet) = destination(&frame[..length]) {
                    task.destinations.lock().unwrap().push(packet);
                }
            }
        });
        started.recv().unwrap();
        sniffer
    }

    /// The IP protocol numbers of the packets that went to an address.
    pub fn protocols_to(&self, address: &str) -> Vec<u8> {
        let address: IpAddr = address.parse().unwrap();
        let seen = self.destinations.lock().unwrap();
        seen.iter().filter(|(to, _)| *to == address).map(|(_, protocol)| *protocol).collect()
    }
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
