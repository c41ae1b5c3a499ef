//! `[[network.rules]]` → [`Rule`]s.

use std::fmt::Display;

use crate::types::{Host, Scheme};

use super::super::document::{RawPorts, RawRule};
use super::super::glob::PathGlob;
use super::super::mistake::{At, Collector, Warning};
use super::super::network::DEFAULT_PORT;
use super::super::pattern::HostPattern;
use super::super::rule::{Action, Ports, Rule, Schemes, check_method, check_reason};

/// Every rule that is whole; what is wrong with the others goes to `mistakes`.
pub(super) fn rules(raw: &[RawRule], mistakes: &mut Collector) -> Vec<Rule> {
    raw.iter().filter_map(|raw| rule(raw, mistakes)).collect()
}

/// Allow rules compare methods as they are written, so one in small letters is probably not meant so.
pub(super) fn warn_of_methods(raw: &[RawRule], warnings: &mut Vec<Warning>) {
    let allow = raw.iter().filter(|raw| raw.action.as_ref().is_some_and(|action| action.value == "allow"));
    for method in allow.filter_map(|raw| raw.methods.as_ref()).flatten() {
        let upper = method.value.to_ascii_uppercase();
        if upper != method.value {
            let what = format!("methods are compared letter by letter, and clients send {upper}, not {}", method.value);
            warnings.push(Warning { place: method.place.clone(), what });
        }
    }
}

fn rule(raw: &RawRule, mistakes: &mut Collector) -> Option<Rule> {
    let host = raw.host.as_ref().and_then(|host| parsed(host, mistakes, HostPattern::parse));
    let methods = raw.methods.as_ref().map(|methods| {
        methods
            .iter()
            .filter_map(|at| parsed(at, mistakes, |text| check_method(text).map(|()| text.to_owned())))
            .collect()
    });
    let paths = raw
        .paths
        .as_ref()
        .map(|paths| paths.iter().filter_map(|at| parsed(at, mistakes, PathGlob::parse)).collect::<Vec<_>>());
    let reason =
        raw.reason.as_ref().and_then(|at| parsed(at, mistakes, |text| check_reason(text).map(|()| text.into())));
    let action = match raw.action.as_ref()?.value.as_str() {
        "allow" => Action::Allow,
        "deny" => Action::Deny,
        // Reported where it was read.
        _ => return None,
    };
    let schemes = match (raw.scheme.as_ref().map(|at| at.value.as_str()), action) {
        (Some("https"), _) | (None, Action::Allow) => Schemes::Only(Scheme::Https),
        (Some("http"), _) => Schemes::Only(Scheme::Http),
        (Some("tcp"), _) => Schemes::Only(Scheme::Tcp),
        (Some("any"), _) | (None, Action::Deny) => Schemes::Any,
        // Reported where it was read.
        (Some(_), _) => return None,
    };
    refuse_unseen(raw, action, schemes, mistakes);
    let ports = match (&raw.ports, action, schemes) {
        (Some(RawPorts::Of(ports)), _, _) => Ports::Of(ports.clone()),
        (Some(RawPorts::All), _, _) | (None, Action::Deny, _) => Ports::All,
        (None, Action::Allow, Schemes::Only(Scheme::Https)) => Ports::Of(vec![DEFAULT_PORT]),
        (None, Action::Allow, Schemes::Only(Scheme::Http)) => Ports::Of(vec![80]),
        (None, Action::Allow, Schemes::Only(Scheme::Tcp) | Schemes::Any) => {
            let hint = "add ports, such as ports = [5432], or ports = \"all\"";
            mistakes.add(&raw.place, "an allow rule for this scheme needs `ports`", hint);
            return None;
        }
    };
    let paths = paths.filter(|paths| !paths.iter().any(PathGlob::is_every));
    let opens_address = opens_address(raw, action, host.as_ref(), mistakes);
    Some(Rule { place: raw.place.clone(), action, host: host?, schemes, ports, methods, paths, reason, opens_address })
}

/// Only a literal address can be opened by a rule: what a name leads to is not known before it is looked up.
fn opens_address(raw: &RawRule, action: Action, host: Option<&HostPattern>, mistakes: &mut Collector) -> bool {
    let Some(flag) = raw.opens_address.as_ref().filter(|flag| flag.value) else { return false };
    match (action, host) {
        (Action::Allow, Some(HostPattern::Exact(Host::Ip(_))) | None) => {}
        (Action::Allow, Some(HostPattern::Exact(Host::Name(_)) | HostPattern::Below(_) | HostPattern::Every)) => {
            let hint = "take it out, and permit the addresses of a name by `egress.allow_cidrs` or --allow-cidr";
            mistakes.add(&flag.place, "`opens_address` is for a rule whose host is an address", hint);
        }
        (Action::Deny, _) => {
            mistakes.add(&flag.place, "a deny rule opens nothing", "take `opens_address` out");
        }
    }
    true
}

/// Methods and paths are those of requests, which are not seen in tcp. A deny rule for any scheme has them all the same: it
/// denies such requests, and keeps the host from being relayed unseen.
fn refuse_unseen(raw: &RawRule, action: Action, schemes: Schemes, mistakes: &mut Collector) {
    let unseen = match (action, schemes) {
        (_, Schemes::Only(Scheme::Tcp)) | (Action::Allow, Schemes::Any) => raw.methods.is_some() || raw.paths.is_some(),
        (Action::Deny, Schemes::Any) | (_, Schemes::Only(Scheme::Https | Scheme::Http)) => false,
    };
    if unseen {
        let hint = "take them out, or write scheme = \"https\" or scheme = \"http\"";
        mistakes.add(&raw.place, "tcp has neither methods nor paths", hint);
    }
}

fn parsed<T, E: Display>(
    at: &At<String>,
    mistakes: &mut Collector,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Option<T> {
    match parse(&at.value) {
        Ok(value) => Some(value),
        Err(error) => {
            mistakes.add_error(at, &error);
            None
        }
    }
}
