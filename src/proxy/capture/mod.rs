//! How traffic enters.

pub mod datagram;
pub mod dns;
pub mod explicit;
pub mod guard;
pub mod names;
pub mod port;
pub mod socks5;
pub mod transparent;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;

use crate::types::{Destination, Host};

/// How long a listener rests when the system has no descriptor or memory for another connection.
const REST: Duration = Duration::from_millis(50);

/// A connection's place among the connections that are served at a time. It is freed when the last part of the connection
/// ends, a tunnel that grew out of it included.
#[derive(Clone, Debug)]
pub struct Slot(pub Arc<OwnedSemaphorePermit>);

/// How a connection entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Caught on its way to an address.
    Transparent,
    /// CONNECT to the explicit proxy.
    Connect,
    /// An absolute request target at the explicit proxy.
    Absolute,
    /// SOCKS5 at the explicit proxy.
    Socks5,
}

impl Capture {
    /// As audit rows spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transparent => "transparent",
            Self::Connect => "connect",
            Self::Absolute => "absolute",
            Self::Socks5 => "socks5",
        }
    }

    /// Whether the client named an address only because it had resolved a name before, so that a TLS handshake may say
    /// which. A client of the HTTP proxy says in CONNECT what it wants.
    pub fn by_address(self, destination: &Destination) -> bool {
        matches!(self, Self::Transparent | Self::Socks5)
            && destination.dialled.is_some()
            && matches!(destination.authority.host, Host::Ip(_))
    }
}

/// The next connection. An error that concerns one connection alone is passed over; one of the system's gets a rest.
///
/// # Errors
/// The listener no longer listens, and never will: whoever connects is refused.
async fn accept_one(listener: &TcpListener) -> io::Result<TcpStream> {
    loop {
        match listener.accept().await {
            Ok((io, _)) => return Ok(io),
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => {}
            Err(error) if is_for_good(&error) => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(REST).await;
            }
        }
    }
}

/// accept(2): the descriptor is none, is no socket, or does not listen.
fn is_for_good(error: &io::Error) -> bool {
    error
        .raw_os_error()
        .is_some_and(|code| [libc::EBADF, libc::EINVAL, libc::ENOTSOCK, libc::EOPNOTSUPP].contains(&code))
}
