//! The decision: may this be reached, and what is put into it.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::types::{Authority, Destination, Host, HostName, RequestFacts, Scheme};

use super::address::{AddressRules, CheckedAddrs};
use super::binding::Binding;
use super::egress::EgressPolicy;
use super::github::GitHubBinding;
use super::network::{self, Network, NetworkMode};
use super::path;
use super::pattern::HostPattern;
use super::rule::{Action, Asked, Miss, Rule, RuleState, Schemes};
use super::rules::RuleSet;
use super::verdict::{self, Denial, Grant, Permit};

/// A compiled policy. The default one permits nothing.
#[derive(Debug, Default)]
pub struct Policy {
    pub(super) network: Network,
    /// The mode was written down, so that an option cannot set another.
    pub(super) mode_is_fixed: bool,
    pub(super) rules: RuleSet,
    /// Hosts whose TLS is passed on unread, as allow rules.
    pub(super) passthrough: RuleSet,
    /// Everything is permitted, and looked into as far as that can be.
    pub(super) learning: bool,
    pub(super) egress: EgressPolicy,
    pub(super) addresses: AddressRules,
    pub(super) bindings: Vec<Binding>,
    bound: HashMap<Authority, Bound>,
    pub(super) githubs: Vec<GitHubBinding>,
}

/// The bindings of one authority.
#[derive(Debug, Default)]
struct Bound {
    indexes: Vec<usize>,
    looks_at_path: bool,
}

impl Policy {
    /// A policy of these parts. `open_private` is `block_private_ips = false`.
    pub(crate) fn new(network: Network, egress: EgressPolicy, open_private: bool, bindings: Vec<Binding>) -> Self {
        let addresses = AddressRules::new(&egress, open_private);
        let mut bound = HashMap::<Authority, Bound>::new();
        for (index, binding) in bindings.iter().enumerate() {
            let of_host = bound.entry(binding.host().clone()).or_default();
            of_host.indexes.push(index);
            of_host.looks_at_path |= binding.looks_at_path();
        }
        Self {
            network,
            mode_is_fixed: false,
            rules: RuleSet::default(),
            passthrough: RuleSet::default(),
            learning: false,
            egress,
            addresses,
            bindings,
            bound,
            githubs: Vec::new(),
        }
    }

    /// The same with GitHub bindings, whose credentials are among the bindings.
    pub(crate) fn with_githubs(self, githubs: Vec<GitHubBinding>) -> Self {
        Self { githubs, ..self }
    }

    /// The same with rules, and with hosts whose TLS is passed on unread.
    pub(crate) fn with_rules(mut self, rules: RuleSet, passthrough: RuleSet) -> Self {
        for rule in rules.as_slice().iter().filter(|rule| rule.opens_address) {
            if let HostPattern::Exact(Host::Ip(ip)) = rule.host {
                self.addresses.open(ip, rule.ports.clone());
            }
        }
        Self { rules, passthrough, ..self }
    }

    /// The same, permitting every name that no rule denies, and looking into all that it can: for `run --learn`.
    pub fn learning(self) -> Self {
        Self { network: Network::all(), learning: true, ..self }
    }

    /// Whether what is used is to be learned.
    pub fn is_learning(&self) -> bool {
        self.learning
    }

    /// The same, with addresses that nothing may lead to, unless a rule opens one of them.
    pub(crate) fn with_denied(mut self, denied: impl IntoIterator<Item = IpNet>) -> Self {
        self.addresses.deny(denied);
        self
    }

    /// The same, with its network mode written down: what would permit more has to be written there.
    pub(crate) fn with_mode_fixed(self, mode_is_fixed: bool) -> Self {
        Self { mode_is_fixed, ..self }
    }

    /// Whether a connection to this destination may exist at all. Asked before anything is resolved or dialled.
    ///
    /// Names for the machine itself are refused, then deny rules are asked that close the destination whatever is asked of
    /// it, then Network, then allow rules, of which any that permits some request permits the connection, then EgressPolicy
    /// for the address that the client dialled (of a literal address: that one). Whether an address is blocked is
    /// [`Self::check_addresses`]' answer, whatever permitted the destination.
    ///
    /// # Errors
    /// The [`Denial`] that decided.
    pub fn destination(&self, destination: &Destination) -> Result<Grant, Denial> {
        self.refuse_closed(destination)?;
        self.grant(destination, || self.rules.opening(&destination.authority, destination.scheme))
    }

    /// Whether this one request may pass, and which bindings it gets. Asked for every request, the first one included. Here
    /// every rule looks at the method and the path as well. A binding never widens what may be reached.
    ///
    /// # Errors
    /// The [`Denial`] that decided.
    pub fn request(&self, facts: &RequestFacts<'_>) -> Result<Permit, Denial> {
        let Destination { authority, scheme, .. } = facts.destination;
        let grant = self.destination(facts.destination)?;
        if *scheme == Scheme::Tcp || self.rules.as_slice().is_empty() {
            return Ok(Permit { grant, bindings: self.bindings_for(facts)? });
        }
        let path = self.path_for_rules(facts)?;
        let segments = path.as_deref().and_then(path::segments);
        let asked =
            Asked { scheme: *scheme, port: authority.port, method: facts.method, segments: segments.as_deref() };
        for host in hosts_of(facts.destination) {
            if let Some(rule) = self.rules.applying(Action::Deny, &host, &asked) {
                return Err(denied_by(rule, Authority::new(host.into_owned(), authority.port)));
            }
        }
        let by_rule = || self.rules.applying(Action::Allow, &authority.host, &asked);
        let grant = self.grant(facts.destination, by_rule).map_err(|denial| self.nearest_miss(denial, &asked))?;
        Ok(Permit { grant, bindings: self.bindings_for(facts)? })
    }

    /// Every rule that is for the host of a request, in the order in which they are asked, and how it stands to the request.
    pub fn rules_about<'a>(&'a self, facts: &RequestFacts<'_>) -> Vec<(&'a Rule, RuleState)> {
        let Destination { authority, scheme, .. } = facts.destination;
        let path = path::decoded(facts.path);
        let segments = path.as_deref().ok().and_then(path::segments);
        let asked =
            Asked { scheme: *scheme, port: authority.port, method: facts.method, segments: segments.as_deref() };
        let state = |rule: &Rule| match (scheme, rule.miss(&asked)) {
            (_, None) => RuleState::Applies,
            (_, Some(Miss::Scheme)) => RuleState::OtherScheme,
            (_, Some(Miss::Port)) => RuleState::OtherPort,
            (Scheme::Tcp, Some(Miss::Method | Miss::Path)) => RuleState::OtherScheme,
            (Scheme::Https | Scheme::Http, Some(Miss::Method)) => RuleState::OtherMethod,
            (Scheme::Https | Scheme::Http, Some(Miss::Path)) if path.is_err() => RuleState::AmbiguousPath,
            (Scheme::Https | Scheme::Http, Some(Miss::Path)) => RuleState::OtherPath,
        };
        self.rules.of_host(&authority.host).map(|rule| (rule, state(rule))).collect()
    }

    /// Whether a look-up of this name may leave the machine: some port of it could be permitted. EgressPolicy judges
    /// addresses and causes none.
    pub fn may_resolve(&self, name: &HostName) -> bool {
        let host = Host::Name(name.clone());
        if network::is_local(&host) || self.rules.close_all(&host, Schemes::Any) {
            return false;
        }
        let closed = |port| self.rules.closing(&host, port, Scheme::Https).is_some();
        let is_github =
            || !closed(network::DEFAULT_PORT) && self.githubs.iter().any(|github| github.covers_host(&host));
        self.network.names(&host, closed) || self.rules.open_any(&host, Schemes::Any) || is_github()
    }

    /// The answers of a look-up (or the one literal address), all of them checked. `own` holds the addresses of this
    /// host's own interfaces; the proxy's own listeners are the caller's to refuse.
    ///
    /// # Errors
    /// [`Denial::AddressBlocked`] when any of them is blocked, [`Denial::RuleDenied`] when a deny rule closes any of them: a
    /// mixed answer is refused whole. [`Denial::NoAddress`] when there is none.
    pub fn check_addresses(
        &self,
        authority: &Authority,
        scheme: Scheme,
        answers: &[IpAddr],
        own: &[IpAddr],
    ) -> Result<CheckedAddrs, Denial> {
        let closing = |ip: &IpAddr| self.rules.closing(&Host::from_ip(*ip), authority.port, scheme);
        match answers.iter().find_map(closing) {
            Some(rule) => Err(denied_by(rule, authority.clone())),
            None => self.addresses.check(authority, answers, own),
        }
    }

    /// The rules.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Every binding, in the order that [`Permit::bindings`] counts them.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// The GitHub bindings, each for another host.
    pub fn githubs(&self) -> &[GitHubBinding] {
        &self.githubs
    }

    /// The GitHub binding that every request to a destination is to be judged by, whatever permits it, with its index.
    pub fn github(&self, destination: &Destination) -> Option<(usize, &GitHubBinding)> {
        let covers = |(_, github): &(usize, &GitHubBinding)| github.covers(&destination.authority);
        self.githubs.iter().enumerate().find(covers).filter(|_| destination.scheme == Scheme::Https)
    }

    /// Whether any binding is for this authority, so that its connections are to be looked into.
    pub fn is_bound(&self, authority: &Authority) -> bool {
        self.bound.contains_key(authority) || self.githubs.iter().any(|github| github.covers(authority))
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
        named.chain(bound).chain(self.rules.ports()).chain([80, 443]).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn refuse_closed(&self, destination: &Destination) -> Result<(), Denial> {
        let Destination { authority, scheme, .. } = destination;
        if network::is_local(&authority.host) {
            return Err(Denial::LocalName { authority: authority.clone() });
        }
        for host in hosts_of(destination) {
            if let Some(rule) = self.rules.closing(&host, authority.port, *scheme) {
                return Err(denied_by(rule, Authority::new(host.into_owned(), authority.port)));
            }
        }
        Ok(())
    }

    /// What permits a destination that no rule closes. `by_rule` is asked where Network does not permit it.
    fn grant<'a>(
        &'a self,
        destination: &Destination,
        by_rule: impl FnOnce() -> Option<&'a Rule>,
    ) -> Result<Grant, Denial> {
        let denial = match self.network.grant(&destination.authority, destination.scheme) {
            Ok(grant) => return Ok(grant),
            Err(denial) => denial,
        };
        if let Some(rule) = by_rule() {
            return Ok(Grant::Rule { place: rule.place.clone() });
        }
        if let Some((_, github)) = self.github(destination) {
            return Ok(Grant::GitHub { place: github.place().clone() });
        }
        let address = destination.dialled.or(match destination.authority.host {
            Host::Ip(ip) => Some(ip),
            Host::Name(_) => None,
        });
        match address.and_then(|ip| self.egress.entry_for(ip)) {
            Some(entry) => Ok(Grant::Egress { entry: entry.to_owned() }),
            None => Err(self.in_another_way(destination, denial)),
        }
    }

    /// A host that may be reached by another scheme is not unlisted. Where http would go to https, the rules for that count.
    fn in_another_way(&self, destination: &Destination, denial: Denial) -> Denial {
        let Destination { authority, scheme, .. } = destination;
        let on_https_port = (*scheme == Scheme::Http && authority.port == 80).then_some(network::DEFAULT_PORT);
        for (host, port) in hosts_of(destination).zip(std::iter::repeat(on_https_port)) {
            if let Some(rule) = port.and_then(|port| self.rules.closing(&host, port, Scheme::Https)) {
                return denied_by(rule, Authority::new(host.into_owned(), authority.port));
            }
        }
        let closed = |scheme| self.rules.closing(&authority.host, authority.port, scheme).is_some();
        let opens = |scheme: &Scheme| !closed(*scheme) && self.rules.opening(authority, *scheme).is_some();
        let by_https = || {
            let is_github = self.githubs.iter().any(|github| github.covers_host(&authority.host));
            is_github || self.rules.open_any(&authority.host, Schemes::Only(Scheme::Https))
        };
        let https = || on_https_port.filter(|_| by_https());
        let permitted = if opens(scheme) {
            Some(*scheme)
        } else if let Denial::HttpsOnly { .. } = denial {
            return denial;
        } else {
            https().map(|_| Scheme::Https)
        };
        let (authority, scheme) = (authority.clone(), *scheme);
        match permitted.or_else(|| Schemes::Any.each().find(opens)) {
            Some(permitted) if permitted != scheme && permitted == Scheme::Https => {
                Denial::HttpsOnly { authority, scheme }
            }
            Some(permitted) if permitted != scheme => Denial::SchemeNotPermitted { authority, scheme, permitted },
            Some(_) | None => Denial::NotListed { authority, mode_is_fixed: self.mode_is_fixed },
        }
    }

    /// The path as rules compare it, where one of them does.
    fn path_for_rules<'a>(&self, facts: &RequestFacts<'a>) -> Result<Option<Cow<'a, str>>, Denial> {
        let authority = &facts.destination.authority;
        let looks = |host: Cow<'_, Host>| {
            let asked = |rule: &Rule| rule.action == Action::Deny || *host == authority.host;
            self.rules.look_at_path(&host, facts.destination, asked)
        };
        if !hosts_of(facts.destination).any(looks) {
            return Ok(None);
        }
        let path = path::decoded(facts.path);
        path.map(Some).map_err(|what| Denial::AmbiguousPath { authority: authority.clone(), what })
    }

    /// A host that allow rules are for is not unlisted: it is the path or the method that none of them takes.
    fn nearest_miss(&self, denial: Denial, asked: &Asked<'_>) -> Denial {
        let Denial::NotListed { authority, mode_is_fixed } = denial else { return denial };
        let Some((rule, miss)) = self.rules.nearest(&authority.host, asked) else {
            return Denial::NotListed { authority, mode_is_fixed };
        };
        let (place, reason) = (rule.place.clone(), rule.reason.clone());
        match miss {
            Miss::Scheme | Miss::Port => Denial::NotListed { authority, mode_is_fixed },
            Miss::Path => Denial::PathNotPermitted { authority, rule: place, reason },
            Miss::Method => {
                let method = verdict::common_method(asked.method);
                Denial::MethodNotPermitted { authority, method, rule: place, reason }
            }
        }
    }

    /// Bindings are for https alone: nothing else is verified.
    fn bindings_for(&self, facts: &RequestFacts<'_>) -> Result<Vec<usize>, Denial> {
        let RequestFacts { destination: Destination { authority, scheme, .. }, path, .. } = *facts;
        let bound = self.bound.get(authority).filter(|_| *scheme == Scheme::Https);
        let Some(bound) = bound else { return Ok(Vec::new()) };
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
            // Of those of a GitHub binding its own check leaves one.
            let meets = |earlier: &Binding| !earlier.is_for_github() && earlier.shares_place(binding);
            if matching.iter().any(|&earlier| meets(&self.bindings[earlier])) {
                let place = binding.placement().to_string();
                return Err(Denial::BindingConflict { authority: authority.clone(), place });
            }
            matching.push(index);
        }
        Ok(matching)
    }
}

/// What deny rules are asked about: the host that was asked for, and the address that the client dialled for it.
pub(super) fn hosts_of(destination: &Destination) -> impl Iterator<Item = Cow<'_, Host>> {
    let dialled = destination.dialled.map(Host::from_ip).filter(|host| *host != destination.authority.host);
    std::iter::once(Cow::Borrowed(&destination.authority.host)).chain(dialled.map(Cow::Owned))
}

fn denied_by(rule: &Rule, authority: Authority) -> Denial {
    let (place, reason) = (rule.place.clone(), rule.reason.clone());
    Denial::RuleDenied { authority, rule: place, whole: rule.is_whole(), reason }
}

#[cfg(test)]
mod tests;
