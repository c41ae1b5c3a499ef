//! Lists of hosts → rules: an allow entry permits every scheme, and an entry without a port is for every port.

use std::sync::Arc;

use crate::types::{Host, Scheme};

use super::super::address::AddressClass;
use super::super::mistake::At;
use super::super::pattern::HostPattern;
use super::super::rule::{Action, Ports, Rule, Schemes};
use super::entry::{Entry, Wildcards, open_suffix};
use super::tree::Reader;

/// What the entries of a list have in common.
#[derive(Debug)]
pub(super) struct List {
    kind: Kind,
    wildcards: Wildcards,
    /// Whether a literal address is meant, blocked or not.
    trusted: bool,
    /// One rule is made for each.
    schemes: &'static [Schemes],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Allowed,
    Denied,
    Passed,
}

impl List {
    /// Hosts that are permitted.
    pub(super) const ALLOWED: Self =
        Self { kind: Kind::Allowed, wildcards: Wildcards::Below, trusted: false, schemes: &[Schemes::Any] };
    /// The same, where a literal address opens that address.
    pub(super) const TRUSTED: Self = Self { trusted: true, ..Self::ALLOWED };
    /// The same, over what can be looked into alone.
    pub(super) const TRUSTED_AND_SEEN: Self =
        Self { schemes: &[Schemes::Only(Scheme::Https), Schemes::Only(Scheme::Http)], ..Self::TRUSTED };
    /// Hosts that are denied.
    pub(super) const DENIED: Self = Self { kind: Kind::Denied, ..Self::ALLOWED };
    /// Hosts whose TLS is passed on unread.
    pub(super) const PASSED: Self =
        Self { kind: Kind::Passed, schemes: &[Schemes::Only(Scheme::Https)], ..Self::ALLOWED };
    /// Hosts that are denied, where `*` is every host.
    pub(super) const DENIED_WITH_EVERY: Self = Self { wildcards: Wildcards::Every, ..Self::DENIED };
}

/// The rules of an entry: none for one that says nothing about hosts that there are.
pub(super) fn rules(entry: &At<String>, list: &List, reason: Option<Arc<str>>, reader: &mut Reader<'_>) -> Vec<Rule> {
    let (pattern, port, literal) = match Entry::parse(&entry.value, list.wildcards) {
        Ok(Entry::Hosts { pattern, port, literal }) => (pattern, port, literal),
        Ok(Entry::Nobody) => {
            reader.warn(&entry.place, format!("no host is called {:?}, so this entry does nothing", entry.value));
            return Vec::new();
        }
        Ok(Entry::Local) => {
            // A name for the machine itself is denied always.
            if list.kind == Kind::Allowed {
                let what = "a name for the machine itself is never resolved, so this entry permits nothing: inside it is the \
                            sandbox's own loopback, which can always be used";
                reader.warn(&entry.place, what);
            }
            return Vec::new();
        }
        Err(error) => {
            reader.mistakes.add_error(entry, &error);
            return Vec::new();
        }
    };
    let opens_address = list.trusted && literal;
    warn(entry, list, &pattern, opens_address, reader);
    let action = match list.kind {
        Kind::Allowed | Kind::Passed => Action::Allow,
        Kind::Denied => Action::Deny,
    };
    let rule = |schemes: &Schemes| Rule {
        place: entry.place.clone(),
        action,
        host: pattern.clone(),
        ports: port.map_or(Ports::All, |port| Ports::Of(vec![port])),
        schemes: *schemes,
        methods: None,
        paths: None,
        reason: reason.clone(),
        opens_address,
    };
    list.schemes.iter().map(rule).collect()
}

fn warn(entry: &At<String>, list: &List, pattern: &HostPattern, opens_address: bool, reader: &mut Reader<'_>) {
    if list.kind != Kind::Allowed {
        return;
    }
    if let Some(suffix) = open_suffix(pattern) {
        let what = format!("anybody can register a name below {suffix}, so this entry permits hosts of everybody's");
        reader.warn(&entry.place, what);
    }
    if let (HostPattern::Exact(Host::Ip(ip)), true) = (pattern, opens_address)
        && let Some(class) = AddressClass::of(*ip)
    {
        reader.warn(&entry.place, format!("{ip} is {class}, which this entry opens"));
    }
}
