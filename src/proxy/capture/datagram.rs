//! Datagrams whose answers leave from the address that they were sent to.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Where a datagram came from, and which of this side's addresses it was sent to.
#[derive(Clone, Copy, Debug)]
pub struct From {
    peer: SocketAddr,
    local: Local,
}

#[derive(Clone, Copy, Debug)]
enum Local {
    V4(libc::in_pktinfo),
    V6(libc::in6_pktinfo),
}

/// Receives one datagram. The socket has `IP_PKTINFO` or `IPV6_RECVPKTINFO` set.
///
/// # Errors
/// The system's, or one that names what the datagram lacks.
pub async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, From)> {
    socket.async_io(Interest::READABLE, || receive_now(socket, buffer)).await
}

/// Answers one datagram.
///
/// # Errors
/// The system's.
pub async fn send(socket: &UdpSocket, answer: &[u8], to: &From) -> io::Result<()> {
    socket.async_io(Interest::WRITABLE, || send_now(socket, answer, to)).await
}

fn receive_now(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, From)> {
    let mut parts = [IoSliceMut::new(buffer)];
    let mut space = nix::cmsg_space!(libc::in6_pktinfo, libc::in_pktinfo);
    let received =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_DONTWAIT)?;
    let local = received.cmsgs()?.find_map(|message| {
        if let ControlMessageOwned::Ipv4PacketInfo(info) = message {
            Some(Local::V4(info))
        } else if let ControlMessageOwned::Ipv6PacketInfo(info) = message {
            Some(Local::V6(info))
        } else {
            None
        }
    });
    let peer = received.address.and_then(|address| {
        let v4 = address.as_sockaddr_in().map(|a| SocketAddr::from((a.ip(), a.port())));
        v4.or_else(|| address.as_sockaddr_in6().map(|a| SocketAddr::from((a.ip(), a.port()))))
    });
    match (peer, local) {
        (Some(peer), Some(local)) => Ok((received.bytes, From { peer, local })),
        (_, _) => Err(io::Error::other("a datagram without its addresses")),
    }
}

fn send_now(socket: &UdpSocket, answer: &[u8], to: &From) -> io::Result<()> {
    let parts = [IoSlice::new(answer)];
    let fd = socket.as_raw_fd();
    let sent = match (to.local, to.peer) {
        (Local::V4(mut info), SocketAddr::V4(peer)) => {
            info.ipi_spec_dst = info.ipi_addr;
            info.ipi_ifindex = 0;
            let control = [ControlMessage::Ipv4PacketInfo(&info)];
            sendmsg(fd, &parts, &control, MsgFlags::MSG_DONTWAIT, Some(&SockaddrIn::from(peer)))
        }
        (Local::V6(mut info), SocketAddr::V6(peer)) => {
            info.ipi6_ifindex = 0;
            let control = [ControlMessage::Ipv6PacketInfo(&info)];
            sendmsg(fd, &parts, &control, MsgFlags::MSG_DONTWAIT, Some(&SockaddrIn6::from(peer)))
        }
        (Local::V4(_) | Local::V6(_), SocketAddr::V4(_) | SocketAddr::V6(_)) => {
            return Err(io::Error::other("a datagram of two address families"));
        }
    };
    sent.map(|_| ()).map_err(io::Error::from)
}
