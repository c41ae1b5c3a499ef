//! How traffic enters.

pub mod datagram;
pub mod dns;
pub mod explicit;
pub mod guard;
pub mod names;
pub mod transparent;

use crate::types::{Destination, Host};

/// How a connection entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Caught on its way to an address.
    Transparent,
    /// CONNECT to the explicit proxy.
    Connect,
    /// An absolute request target at the explicit proxy.
    Absolute,
}

impl Capture {
    /// As audit rows spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transparent => "transparent",
            Self::Connect => "connect",
            Self::Absolute => "absolute",
        }
    }

    /// Whether the client named an address only because it had resolved a name before, so that a TLS handshake may say
    /// which. A client of the explicit proxy says in CONNECT what it wants.
    pub fn by_address(self, destination: &Destination) -> bool {
        self == Self::Transparent && destination.dialled.is_some() && matches!(destination.authority.host, Host::Ip(_))
    }
}
