//! Rules that change nothing, and what is permitted in vain: found one against one, so that what only several rules together
//! hide is not found.

use crate::types::{Authority, Host, Scheme};

use super::Policy;
use super::egress::{EgressMode, EgressPolicy};
use super::mistake::{At, Warning};
use super::network::{DEFAULT_PORT, Network, NetworkMode};
use super::pattern::HostPattern;
use super::rule::{Action, Rule, Schemes};
use super::rules::RuleSet;

/// With how many rules of one host a rule is compared, so that a long list for one host is still checked at once.
const COMPARED: usize = 500;

/// One warning for every rule that changes nothing or less than it says, and for every host that is listed and closed.
pub(super) fn warn(policy: &Policy, hosts: &[At<Authority>], warnings: &mut Vec<Warning>) {
    let rules = policy.rules();
    for (index, rule) in rules.as_slice().iter().enumerate() {
        let why = hidden(rules, index, rule).or_else(|| permitted_anyway(policy.network(), rule));
        let why = why.or_else(|| passed_by(policy.egress(), rule));
        warnings.extend(why.map(|what| Warning { place: rule.place.clone(), what }));
    }
    for host in hosts {
        if let Some(rule) = rules.closing(&host.value.host, host.value.port, Scheme::Https) {
            let what = format!("{} is listed in vain: the deny rule at {} closes it", host.value, rule.place);
            warnings.push(Warning { place: host.place.clone(), what });
        }
    }
}

/// What one other rule makes of this one.
fn hidden(rules: &RuleSet, index: usize, rule: &Rule) -> Option<String> {
    let covering = || rules.over(&rule.host, COMPARED).filter(|(other, by)| *other != index && by.covers(rule));
    if rule.action == Action::Allow
        && let Some((_, by)) = covering().find(|(_, by)| by.action == Action::Deny)
    {
        return Some(format!("this rule permits nothing: the deny rule at {} covers it", by.place));
    }
    for (other, by) in covering().filter(|(_, by)| by.action == rule.action) {
        if !rule.covers(by) {
            match rule.action {
                Action::Allow => return Some(format!("the rule at {} permits all of it already", by.place)),
                // Its own reason is shown instead of the wider one's.
                Action::Deny if rule.reason.is_some() && rule.reason != by.reason => {}
                Action::Deny => return Some(format!("the rule at {} denies all of it already", by.place)),
            }
        } else if other < index {
            return Some(format!("this rule says what the one at {} says", by.place));
        }
    }
    None
}

/// Whether `network.mode` or `network.hosts` permits all of an allow rule.
fn permitted_anyway(network: &Network, rule: &Rule) -> Option<String> {
    let Action::Allow = rule.action else { return None };
    if network.mode() == NetworkMode::All {
        return Some("this rule changes nothing: network mode all permits every host whole".to_owned());
    }
    let HostPattern::Exact(host) = &rule.host else { return None };
    if rule.schemes != Schemes::Only(Scheme::Https) {
        return None;
    }
    let listed = |port: &u16| network.grant(&Authority::new(host.clone(), *port), Scheme::Https).is_ok();
    // Never all there are.
    let ports = rule.ports.listed()?;
    let hint = if rule.is_whole() { "" } else { "; take the host out of `hosts` to have the rule decide" };
    ports.iter().all(listed).then(|| format!("this rule changes nothing: `network.hosts` permits {host} whole{hint}"))
}

/// A client that resolves a name and dials what it gets has dialled an address, so this is not far-fetched.
fn passed_by(egress: &EgressPolicy, rule: &Rule) -> Option<String> {
    let addresses = match egress.mode() {
        EgressMode::AllowAll => "every address",
        EgressMode::Custom => "addresses",
        EgressMode::BlockAll => return None,
    };
    let held = rule.action == Action::Deny || rule.is_whole();
    let what =
        "so a client that dials one for this host is not held to the methods and paths of this rule; a deny rule holds";
    (!held).then(|| format!("egress permits {addresses}, {what}"))
}

/// Whether a rule permits a connection to a literal address, for the warning that listing it is not enough.
pub(super) fn literal(rule: &Rule) -> Option<Authority> {
    match (&rule.host, rule.action) {
        (HostPattern::Exact(host @ Host::Ip(_)), Action::Allow) => {
            let port = rule.ports.listed().map_or(Some(DEFAULT_PORT), |ports| ports.first().copied())?;
            Some(Authority::new(host.clone(), port))
        }
        (HostPattern::Exact(Host::Name(_) | Host::Ip(_)) | HostPattern::Below(_) | HostPattern::Every, _) => None,
    }
}
