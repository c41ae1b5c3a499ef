//! Where the parts of a policy were written that a decision names without their place.

use std::collections::HashMap;

use crate::types::Authority;

use super::mistake::{At, Place};
use super::verdict::Grant;
use super::{Binding, Cidr};

/// The places of a policy's parts; of what was written more than once, the first.
#[derive(Debug, Default)]
pub struct Written {
    network_mode: Option<Place>,
    hosts: HashMap<Authority, Place>,
    egress_mode: Option<Place>,
    cidrs: HashMap<String, Place>,
    bindings: Vec<Place>,
}

impl Written {
    pub(super) fn modes(mut self, network: &[At<String>], egress: &[At<String>]) -> Self {
        self.network_mode = network.first().map(|mode| mode.place.clone());
        self.egress_mode = egress.first().map(|mode| mode.place.clone());
        self
    }

    pub(super) fn entries(mut self, hosts: &[At<Authority>], cidrs: &[At<Cidr>]) -> Self {
        for host in hosts {
            self.hosts.entry(host.value.clone()).or_insert_with(|| host.place.clone());
        }
        for cidr in cidrs {
            self.cidrs.entry(cidr.value.as_str().to_owned()).or_insert_with(|| cidr.place.clone());
        }
        self
    }

    pub(super) fn bindings(mut self, bindings: &[At<Binding>]) -> Self {
        self.bindings = bindings.iter().map(|binding| binding.place.clone()).collect();
        self
    }

    /// Where what permitted something was written.
    pub fn grant<'a>(&'a self, grant: &'a Grant) -> Option<&'a Place> {
        match grant {
            Grant::NetworkAll => self.network_mode.as_ref(),
            Grant::Host { entry } => self.hosts.get(entry),
            Grant::Rule { place } | Grant::GitHub { place } => Some(place),
            Grant::Egress { entry } => self.cidrs.get(entry).or(self.egress_mode.as_ref()),
        }
    }

    /// Where an entry of `network.hosts` was written.
    pub fn host(&self, entry: &Authority) -> Option<&Place> {
        self.hosts.get(entry)
    }

    /// Where a binding was written, by its index.
    pub fn binding(&self, index: usize) -> Option<&Place> {
        self.bindings.get(index)
    }
}
