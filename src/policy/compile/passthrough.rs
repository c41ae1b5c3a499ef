//! `tls.passthrough` → the hosts whose TLS is passed on unread.

use std::net::IpAddr;

use crate::types::Scheme;

use super::super::mistake::{At, Collector, Warning};
use super::super::pattern::HostPattern;
use super::super::rule::{Action, Ports, Rule, Schemes};
use super::super::rules::RuleSet;
use super::super::{Binding, Policy};
use super::parse_all;

/// The entries as rules, so that they are found as rules are, with those that another system's list has become. What needs a look inside for one of their hosts is a mistake.
pub(super) fn passthrough(
    raw: &[At<String>],
    ready: Vec<Rule>,
    rules: &RuleSet,
    bindings: &[At<Binding>],
    mistakes: &mut Collector,
) -> RuleSet {
    let entries = parse_all(raw, mistakes, |text| {
        let (host, port) = split_port(text);
        HostPattern::parse(host).map(|host| (host, port))
    });
    let entry = |at: At<(HostPattern, Option<u16>)>| {
        let (host, port) = at.value;
        let ports = port.map_or(Ports::All, |port| Ports::Of(vec![port]));
        let schemes = Schemes::Only(Scheme::Https);
        let (action, place) = (Action::Allow, at.place);
        Rule { place, action, host, schemes, ports, methods: None, paths: None, reason: None, opens_address: false }
    };
    let set = RuleSet::new(entries.into_iter().map(entry).chain(ready).collect());
    const HINT: &str = "take the host out of `tls.passthrough`, whose connections nobody looks into";
    for binding in bindings {
        if let Some(entry) = set.opening(binding.value.host(), Scheme::Https) {
            let host = binding.value.host();
            mistakes.add(entry.place(), format!("there is a binding for {host} at {}", binding.place), HINT);
        }
    }
    for entry in set.as_slice() {
        for rule in rules.as_slice().iter().filter(|rule| rule.looks_into(entry)) {
            let what = format!("the rule at {} looks at requests to {}", rule.place(), rule.host());
            mistakes.add(entry.place(), what, HINT);
        }
    }
    set
}

/// What is passed on unread is said, and what is listed in vain.
pub(super) fn warn(policy: &Policy, warnings: &mut Vec<Warning>) {
    for entry in policy.passthrough.as_slice() {
        let host = entry.host();
        let what = format!("what is inside TLS to {host} is not seen: neither its Host nor its requests are judged");
        warnings.push(Warning { place: entry.place().clone(), what });
    }
}

/// A port behind the last colon, where what is before it is no address without brackets.
fn split_port(text: &str) -> (&str, Option<u16>) {
    if text.parse::<IpAddr>().is_ok() {
        return (text, None);
    }
    let port = |(host, digits): (_, &str)| {
        let port = digits.parse().ok().filter(|port| *port != 0 && digits.bytes().all(|b| b.is_ascii_digit()))?;
        Some((host, Some(port)))
    };
    // A port that is none stays with the host, whose parser names it.
    text.rsplit_once(':').and_then(port).unwrap_or((text, None))
}
