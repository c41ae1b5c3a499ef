//! Which addresses may be dialled.

use std::fmt;
use std::net::IpAddr;

/// The kind of a blocked address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressClass {
    /// 127/8 and ::1.
    Loopback,
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address",
        })
    }
}

/// Addresses that a look-up gave *and* the address rules accepted. Dialling takes nothing else, so nobody resolves twice.
/// Only [`super::Policy::check_addresses`] makes one; it is never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedAddrs(Vec<IpAddr>);

impl CheckedAddrs {
    /// The addresses, in the order they are to be tried.
    pub fn as_slice(&self) -> &[IpAddr] {
        &self.0
    }
}
