//! `[[network.rules]]` → [`Rule`]s.

use std::fmt::Display;

use super::super::document::RawRule;
use super::super::glob::PathGlob;
use super::super::mistake::{At, Collector, Warning};
use super::super::network::DEFAULT_PORT;
use super::super::pattern::HostPattern;
use super::super::rule::{Action, Ports, Rule, check_method, check_reason};

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
    let ports = match (&raw.ports, action) {
        (Some(ports), _) => Ports::Of(ports.clone()),
        (None, Action::Allow) => Ports::Of(vec![DEFAULT_PORT]),
        (None, Action::Deny) => Ports::All,
    };
    let paths = paths.filter(|paths| !paths.iter().any(PathGlob::is_every));
    Some(Rule { place: raw.place.clone(), action, host: host?, ports, methods, paths, reason })
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
