//! Connections that were caught on their way to an address.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

use crate::policy::Denial;
use crate::policy::address::AddressClass;
use crate::types::{Authority, Destination, Host, Scheme};

use super::explicit::{self, Whose};
use super::names::Synthetic;
use super::{Capture, Slot, accept_one};
use crate::proxy::refusal::Refusal;
use crate::proxy::{Connection, intercept};

/// What a listener is for, and how the original destination of its connections is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// TPROXY, or a listener for a port of its own: the accepted socket's own address is the destination.
    LocalAddress,
    /// nf_tables REDIRECT: the destination is in the connection-tracking entry.
    OriginalDestination,
    /// The explicit proxy.
    Explicit,
}

/// A connection on its way to a worker, with its slot.
pub struct Arrival {
    /// The socket.
    pub io: std::net::TcpStream,
    /// Which way it came.
    pub entrance: Entrance,
    /// Its place among the connections.
    pub slot: Slot,
}

/// Accepts until the workers have ended. A slot is taken before a connection is, so at the bound further ones wait in the
/// listener's backlog.
///
/// # Errors
/// The listener has failed for good.
pub async fn accept(
    listener: TcpListener,
    entrance: Entrance,
    slots: Arc<Semaphore>,
    workers: Arc<[mpsc::Sender<Arrival>]>,
) -> io::Result<()> {
    let mut turn = 0usize;
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        let Ok(io) = accept_one(&listener).await?.into_std() else { continue };
        let slot = Slot(Arc::new(slot));
        turn = (turn + 1) % workers.len();
        if workers[turn].send(Arrival { io, entrance, slot }).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Serves what a thread is handed, until there is no more.
pub async fn serve(whose: Whose, names: Arc<Synthetic>, mut arrivals: mpsc::Receiver<Arrival>) {
    while let Some(arrival) = arrivals.recv().await {
        let (whose, names) = (whose.clone(), Arc::clone(&names));
        tokio::spawn(async move {
            let io = TcpStream::from_std(arrival.io).and_then(|io| io.set_nodelay(true).map(|()| io));
            match io {
                Ok(io) => enter(whose, &names, io, arrival.entrance, arrival.slot).await,
                Err(error) => tracing::debug!(%error, "a connection ended before it was served"),
            }
        });
    }
}

async fn enter(whose: Whose, names: &Synthetic, io: TcpStream, entrance: Entrance, slot: Slot) {
    let original = match entrance {
        Entrance::Explicit => return explicit::serve(whose, io, slot).await,
        Entrance::LocalAddress => io.local_addr(),
        Entrance::OriginalDestination => redirected(&io),
    };
    let original = match original {
        Ok(original) => SocketAddr::new(original.ip().to_canonical(), original.port()),
        // Without its destination a connection cannot be judged.
        Err(error) => return tracing::debug!(%error, "a connection without a destination is closed"),
    };
    let Whose::One(worker) = whose else {
        return tracing::error!("what was caught on its way can be one sandbox's only: closed");
    };
    let connection = Connection::new(worker, slot, Capture::Transparent, destination(names, original));
    if is_own(original.ip()) {
        return refuse_own(&connection, original.ip()).await;
    }
    intercept::serve(connection, Bytes::new(), io).await;
}

/// A name's own address stands for the name; any other address is what the client asked for.
fn destination(names: &Synthetic, original: SocketAddr) -> Destination {
    let (host, dialled) = match names.name(original.ip()) {
        Some(name) => (Host::Name(name), None),
        None => (Host::from_ip(original.ip()), Some(original.ip())),
    };
    Destination { authority: Authority::new(host, original.port()), scheme: Scheme::Https, dialled }
}

fn redirected(io: &TcpStream) -> io::Result<SocketAddr> {
    let socket = SockRef::from(io);
    let original = match io.local_addr()?.ip().to_canonical() {
        IpAddr::V4(_) => socket.original_dst_v4(),
        IpAddr::V6(_) => socket.original_dst_v6(),
    };
    original?.as_socket().ok_or_else(|| io::Error::other("the original destination is no internet address"))
}

/// Addresses of the sandbox's own, which are never caught, only dialled at the listener itself.
fn is_own(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_unspecified() || v4.octets() == [100, 64, 0, 1],
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unspecified() || v6.segments() == [0xfd64, 0, 0, 0, 0, 0, 0, 1],
    }
}

async fn refuse_own(connection: &Connection, address: IpAddr) {
    let authority = connection.destination.authority.clone();
    let refusal = Refusal::from(Denial::AddressBlocked { authority, address, class: AddressClass::Loopback });
    let mut event = connection.event();
    event.deny(refusal.code(), refusal.for_operator(), None);
    // Where no row can be had, nothing went on either.
    drop(connection.worker.audit.open(event).await);
}
