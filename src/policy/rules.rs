//! All rules of a policy, found by host: what a look-up costs depends on how long the name is, and on how many rules are
//! for that very host, never on how many there are.

use std::collections::HashMap;

use crate::types::{Authority, Destination, Host, Scheme};

use super::pattern::HostPattern;
use super::rule::{Action, Asked, Miss, Rule, Schemes};

/// The rules, with an index by host.
#[derive(Debug, Default)]
pub struct RuleSet {
    rules: Vec<Rule>,
    exact: HashMap<Host, Vec<usize>>,
    below: HashMap<Box<str>, Vec<usize>>,
    every: Vec<usize>,
    denying: bool,
    relaying: bool,
}

impl RuleSet {
    /// Rules in the order in which they were written.
    pub(super) fn new(rules: Vec<Rule>) -> Self {
        let mut set = Self::default();
        for (index, rule) in rules.iter().enumerate() {
            let indexes = match &rule.host {
                HostPattern::Exact(host) => set.exact.entry(host.clone()).or_default(),
                HostPattern::Below(name) => set.below.entry(name.as_str().into()).or_default(),
                HostPattern::Every => &mut set.every,
            };
            indexes.push(index);
        }
        set.denying = rules.iter().any(|rule| rule.action == Action::Deny);
        set.relaying = rules.iter().any(|rule| rule.opens(Scheme::Tcp));
        set.rules = rules;
        set
    }

    /// Every rule, as they were written.
    pub fn as_slice(&self) -> &[Rule] {
        &self.rules
    }

    /// The rules that are for this host, whatever the port and the request: the exact ones first, then from the longest
    /// pattern to the shortest, then those for every host, and among those of one host as they were written.
    pub fn of_host<'a, 'h>(&'a self, host: &'h Host) -> impl Iterator<Item = &'a Rule> + use<'a, 'h> {
        let exact = self.exact.get(host).into_iter();
        let name = match host {
            Host::Name(name) if !self.below.is_empty() => name.as_str(),
            Host::Name(_) | Host::Ip(_) => "",
        };
        let suffixes = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        let below = suffixes.filter_map(|suffix| self.below.get(suffix));
        exact.chain(below).chain(std::iter::once(&self.every)).flatten().map(|&index| &self.rules[index])
    }

    /// The rule that closes a destination whatever is asked of it, if one does.
    pub(super) fn closing<'a>(&'a self, host: &Host, port: u16, scheme: Scheme) -> Option<&'a Rule> {
        self.of_host(host).find(|rule| rule.closes(scheme) && rule.ports.contains(port))
    }

    /// A rule that permits something of a destination, if one does.
    pub(super) fn opening<'a>(&'a self, authority: &Authority, scheme: Scheme) -> Option<&'a Rule> {
        self.of_host(&authority.host).find(|rule| rule.opens(scheme) && rule.ports.contains(authority.port))
    }

    /// Whether a rule that `asked` is true for, of those for a host, a port and a scheme, looks at paths.
    pub(super) fn look_at_path(&self, host: &Host, to: &Destination, asked: impl Fn(&Rule) -> bool) -> bool {
        let about = |rule: &&Rule| rule.ports.contains(to.authority.port) && rule.schemes.contains(to.scheme);
        self.of_host(host).filter(about).any(|rule| rule.paths.is_some() && asked(rule))
    }

    /// Whether a rule for a host and a port looks at requests, so that they have to be seen.
    pub(super) fn look_inside(&self, host: &Host, port: u16) -> bool {
        self.of_host(host).any(|rule| !rule.is_whole() && rule.ports.contains(port))
    }

    /// Whether a rule denies something of a host, or looks at requests to it.
    pub(super) fn say_anything_of(&self, host: &Host) -> bool {
        self.of_host(host).any(|rule| rule.action == Action::Deny || !rule.is_whole())
    }

    /// Whether any rule permits tcp.
    pub(super) fn relay_any(&self) -> bool {
        self.relaying
    }

    /// Whether any rule denies anything.
    pub(super) fn deny_any(&self) -> bool {
        self.denying
    }

    /// The first rule of this action that applies to a request.
    pub(super) fn applying<'a>(&'a self, action: Action, host: &Host, asked: &Asked<'_>) -> Option<&'a Rule> {
        self.of_host(host).find(|rule| rule.action == action && rule.miss(asked).is_none())
    }

    /// Of the allow rules for a destination that do not apply to a request, the one that comes nearest: one that takes its
    /// path, else the first.
    pub(super) fn nearest<'a>(&'a self, host: &Host, asked: &Asked<'_>) -> Option<(&'a Rule, Miss)> {
        let missed = self.of_host(host).filter(|rule| rule.action == Action::Allow);
        let mut missed = missed.filter_map(|rule| rule.miss(asked).map(|miss| (rule, miss)));
        let mut first = None;
        let by_method = missed.find(|(rule, miss)| {
            if *miss == Miss::Path {
                first.get_or_insert((*rule, *miss));
            }
            *miss == Miss::Method
        });
        by_method.or(first)
    }

    /// Whether rules close every port of a name, for each of these schemes.
    pub(super) fn close_all(&self, host: &Host, schemes: Schemes) -> bool {
        let closed = |scheme| self.of_host(host).any(|rule| rule.closes(scheme) && rule.ports.listed().is_none());
        schemes.each().all(closed)
    }

    /// Whether an allow rule permits something of this host that no rule closes, by one of these schemes.
    pub(super) fn open_any(&self, host: &Host, schemes: Schemes) -> bool {
        schemes.each().any(|scheme| {
            let open = |rule: &Rule| match rule.ports.listed() {
                Some(ports) => ports.iter().any(|port| self.closing(host, *port, scheme).is_none()),
                None => !self.close_all(host, Schemes::Only(scheme)),
            };
            self.of_host(host).filter(|rule| rule.opens(scheme)).any(open)
        })
    }

    /// Every port that an allow rule names.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> {
        let allow = self.rules.iter().filter(|rule| rule.action == Action::Allow);
        allow.flat_map(|rule| rule.ports.listed().unwrap_or_default().iter().copied())
    }

    /// The rules for a host of `pattern`'s that could cover a rule of that pattern, at most `most` of each host.
    pub(super) fn over<'a>(&'a self, pattern: &'a HostPattern, most: usize) -> impl Iterator<Item = (usize, &'a Rule)> {
        let (exact, name) = match pattern {
            HostPattern::Exact(host @ Host::Name(name)) => (self.exact.get(host), name.as_str()),
            HostPattern::Exact(host @ Host::Ip(_)) => (self.exact.get(host), ""),
            HostPattern::Below(name) => (self.below.get(name.as_str()), name.as_str()),
            HostPattern::Every => (None, ""),
        };
        let suffixes = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        let below = suffixes.filter_map(|suffix| self.below.get(suffix));
        let few = move |indexes: &'a Vec<usize>| indexes.iter().take(most);
        exact
            .into_iter()
            .chain(below)
            .chain(std::iter::once(&self.every))
            .flat_map(few)
            .map(|&index| (index, &self.rules[index]))
    }
}

#[cfg(test)]
mod tests;
