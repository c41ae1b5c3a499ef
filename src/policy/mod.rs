//! What a sandbox may reach: [`document`] → [`compile`] → decide. No clock, no DNS, no disk: the same question always has
//! the same answer, so `policy explain` runs the very functions that enforce.

pub mod address;
pub mod binding;
pub mod compile;
mod document;
pub mod egress;
pub mod mistake;
pub mod network;
pub mod options;
#[cfg(test)]
mod oracle;
mod path;
mod upstream;
pub mod verdict;

pub use address::{AddressClass, CheckedAddrs};
pub use binding::{BindingError, HeaderBinding};
pub use compile::{Compiled, NamedText, SecretSource, SecretSpec, load};
pub use egress::{Cidr, CidrError, EgressError, EgressMode, EgressPolicy};
pub use mistake::{Mistake, Mistakes, Warning};
pub use network::{EntryError, Network, NetworkError, NetworkMode};
pub use options::PolicyOptions;
pub use upstream::{UpstreamProxy, UpstreamProxyError};
pub use verdict::{Denial, Grant, Permit};

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use crate::types::{Authority, Destination, Host, HostName, RequestFacts, Scheme};

use address::AddressRules;

/// A compiled policy. The default one permits nothing.
#[derive(Debug, Default)]
pub struct Policy {
    network: Network,
    egress: EgressPolicy,
    addresses: AddressRules,
    bindings: Vec<HeaderBinding>,
    bound: HashMap<Authority, Bound>,
}

/// The bindings of one authority.
#[derive(Debug, Default)]
struct Bound {
    indexes: Vec<usize>,
    looks_at_path: bool,
}

impl Policy {
    /// A policy of these parts. `open_private` is `block_private_ips = false`.
    pub(crate) fn new(
        network: Network,
        egress: EgressPolicy,
        open_private: bool,
        bindings: Vec<HeaderBinding>,
    ) -> Self {
        let addresses = AddressRules::new(&egress, open_private);
        let mut bound = HashMap::<Authority, Bound>::new();
        for (index, binding) in bindings.iter().enumerate() {
            let of_host = bound.entry(binding.host().clone()).or_default();
            of_host.indexes.push(index);
            of_host.looks_at_path |= binding.looks_at_path();
        }
        Self { network, egress, addresses, bindings, bound }
    }

    /// Whether a connection to this destination may exist at all. Asked before anything is resolved or dialled.
    ///
    /// Names for the machine itself are refused, then Network is asked for the name, then EgressPolicy for the address
    /// that the client dialled (of a literal address: that one). Whether an address is blocked is
    /// [`Self::check_addresses`]' answer, whatever permitted the destination.
    ///
    /// # Errors
    /// The [`Denial`] that decided.
    pub fn destination(&self, destination: &Destination) -> Result<Grant, Denial> {
        let authority = &destination.authority;
        if network::is_local(&authority.host) {
            return Err(Denial::LocalName { authority: authority.clone() });
        }
        let granted = self.network.grant(authority, destination.scheme).or_else(|denial| {
            let dialled = destination.dialled.or(match authority.host {
                Host::Ip(ip) => Some(ip),
                Host::Name(_) => None,
            });
            match dialled.and_then(|ip| self.egress.entry_for(ip)) {
                Some(entry) => Ok(Grant::Egress { entry: entry.to_owned() }),
                None => Err(denial),
            }
        })?;
        match destination.scheme {
            Scheme::Https => Ok(granted),
            Scheme::Http | Scheme::Tcp => {
                Err(Denial::HttpsOnly { authority: authority.clone(), scheme: destination.scheme })
            }
        }
    }

    /// Whether this one request may pass, and which bindings it gets. Asked for every request, the first one included.
    /// A binding never widens what may be reached.
    ///
    /// # Errors
    /// The [`Denial`] that decided.
    pub fn request(&self, facts: &RequestFacts<'_>) -> Result<Permit, Denial> {
        let grant = self.destination(facts.destination)?;
        let bindings = match facts.destination.scheme {
            Scheme::Https => self.bindings_for(&facts.destination.authority, facts.path)?,
            Scheme::Http | Scheme::Tcp => Vec::new(),
        };
        Ok(Permit { grant, bindings })
    }

    /// Whether a look-up of this name may leave the machine: some port of it could be permitted. EgressPolicy judges
    /// addresses and causes none.
    pub fn may_resolve(&self, name: &HostName) -> bool {
        self.network.names(name) && !network::is_local(&Host::Name(name.clone()))
    }

    /// The answers of a look-up (or the one literal address), all of them checked. `own` holds the addresses of this
    /// host's own interfaces; the proxy's own listeners are the caller's to refuse.
    ///
    /// # Errors
    /// [`Denial::AddressBlocked`] when any of them is blocked: a mixed answer is refused whole. [`Denial::NoAddress`]
    /// when there is none.
    pub fn check_addresses(
        &self,
        authority: &Authority,
        answers: &[IpAddr],
        own: &[IpAddr],
    ) -> Result<CheckedAddrs, Denial> {
        self.addresses.check(authority, answers, own)
    }

    /// Every binding, in the order that [`Permit::bindings`] counts them.
    pub fn bindings(&self) -> &[HeaderBinding] {
        &self.bindings
    }

    /// Whether any binding is for this authority, so that its connections are to be looked into.
    pub fn is_bound(&self, authority: &Authority) -> bool {
        self.bound.contains_key(authority)
    }

    /// The name layer.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The mode of the name layer.
    pub fn network_mode(&self) -> NetworkMode {
        self.network.mode()
    }

    /// The address layer.
    pub fn egress(&self) -> &EgressPolicy {
        &self.egress
    }

    /// Every port that the policy names, 80 and 443 always, sorted: where each port needs a listener of its own.
    pub fn ports(&self) -> Vec<u16> {
        let named = self.network.entries().into_iter().map(|entry| entry.port);
        let bound = self.bindings.iter().map(|binding| binding.host().port);
        named.chain(bound).chain([80, 443]).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn bindings_for(&self, authority: &Authority, path: &str) -> Result<Vec<usize>, Denial> {
        let Some(bound) = self.bound.get(authority) else { return Ok(Vec::new()) };
        let path = if bound.looks_at_path {
            path::canonical(path).map_err(|what| Denial::AmbiguousPath { authority: authority.clone(), what })?
        } else {
            Cow::Borrowed(if path.is_empty() { "/" } else { path })
        };
        let mut matching = Vec::<usize>::new();
        for &index in &bound.indexes {
            let binding = &self.bindings[index];
            if !path.starts_with(binding.path_prefix()) {
                continue;
            }
            if matching.iter().any(|&earlier| self.bindings[earlier].covers_header(binding.header())) {
                let header = binding.header().to_string();
                return Err(Denial::BindingConflict { authority: authority.clone(), header });
            }
            matching.push(index);
        }
        Ok(matching)
    }
}

#[cfg(test)]
mod tests;
