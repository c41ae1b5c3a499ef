//! What a sandbox may reach: [`document`] → [`compile`] → decide. No clock, no DNS, no disk: the same question always has
//! the same answer, so `policy explain` runs the very functions that enforce.

pub mod address;
pub mod binding;
pub mod verdict;

pub use address::CheckedAddrs;
pub use binding::HeaderBinding;
pub use verdict::{Denial, Grant, Permit};

use std::net::IpAddr;

use crate::types::{Authority, Destination, HostName, RequestFacts};

/// A compiled policy.
#[derive(Debug, Default)]
pub struct Policy {
    bindings: Vec<HeaderBinding>,
}

impl Policy {
    /// Whether a connection to this destination may exist at all. Asked before anything is resolved or dialled.
    ///
    /// # Errors
    /// The [`Denial`] that decided.
    pub fn destination(&self, destination: &Destination) -> Result<Grant, Denial> {
        Err(Denial::NotListed { authority: destination.authority.clone() })
    }

    /// Whether this one request may pass, and which bindings it gets. Asked for every request, the first one included.
    ///
    /// # Errors
    /// The [`Denial`] that decided.
    pub fn request(&self, facts: &RequestFacts<'_>) -> Result<Permit, Denial> {
        self.destination(facts.destination).map(|grant| Permit { grant, bindings: Vec::new() })
    }

    /// Whether a look-up of this name may leave the machine: some port of it could be permitted.
    pub fn may_resolve(&self, _name: &HostName) -> bool {
        false
    }

    /// The answers of a look-up (or the one literal address), all of them checked.
    ///
    /// # Errors
    /// [`Denial::AddressBlocked`] when any of them is blocked: a mixed answer is refused whole.
    pub fn check_addresses(
        &self,
        authority: &Authority,
        answers: &[IpAddr],
        own: &[IpAddr],
    ) -> Result<CheckedAddrs, Denial> {
        let _ = (answers, own);
        Err(Denial::NotListed { authority: authority.clone() })
    }

    /// Every binding, in the order that [`Permit::bindings`] counts them.
    pub fn bindings(&self) -> &[HeaderBinding] {
        &self.bindings
    }
}
