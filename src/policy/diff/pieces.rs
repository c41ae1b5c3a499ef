//! Rules in their smallest pieces, and questions that show one.

use crate::types::{Authority, Destination, Host, HostName, Scheme};

use super::super::glob::PathGlob;
use super::super::pattern::HostPattern;
use super::super::question::Question;
use super::super::rule::{Ports, Rule, Schemes};

/// Into how many pieces a rule is taken apart at most; a larger one is compared whole.
const PIECES: usize = 4096;
/// A label that hardly any policy names.
const LABEL: &str = "policy-diff";
/// Methods that are tried where a rule is for all of them. Nobody names the last one.
const METHODS: [&str; 3] = ["GET", "POST", "DIFF"];
/// Ports that are tried where a rule is for all of them, after the usual ones.
const PORTS: [u16; 4] = [443, 80, 8443, 49_321];

/// Rules of one scheme, port, method and path each, that together are this one. What is asked for by tcp has neither method
/// nor path, so there is no such piece.
pub(super) fn pieces(rule: &Rule) -> Vec<Rule> {
    let ports = rule.ports.listed().map_or(1, <[u16]>::len);
    let count = |list: Option<usize>| list.unwrap_or(1);
    let (methods, paths) = (rule.methods.as_ref().map(Vec::len), rule.paths.as_ref().map(Vec::len));
    if 3 * ports * count(methods) * count(paths) > PIECES {
        return vec![rule.clone()];
    }
    let mut pieces = Vec::new();
    for scheme in rule.schemes.each().filter(|scheme| rule.is_whole() || *scheme != Scheme::Tcp) {
        for ports in each(rule.ports.listed()) {
            for methods in each(rule.methods.as_deref()) {
                for paths in each(rule.paths.as_deref()) {
                    pieces.push(Rule {
                        schemes: Schemes::Only(scheme),
                        ports: ports.clone().map_or(Ports::All, Ports::Of),
                        methods: methods.clone(),
                        paths,
                        ..rule.clone()
                    });
                }
            }
        }
    }
    pieces
}

/// Each as a list of its own; none is everything and stays that.
fn each<T: Clone>(list: Option<&[T]>) -> Vec<Option<Vec<T>>> {
    list.map_or_else(|| vec![None], |list| list.iter().map(|one| Some(vec![one.clone()])).collect())
}

/// Whether some request could be one of both. `by_address`: any name may lead to what the second is for.
pub(super) fn meet(one: &Rule, two: &Rule, by_address: bool) -> bool {
    let same_method = |one: &String, two: &String| one.eq_ignore_ascii_case(two);
    (by_address || hosts_meet(&one.host, &two.host))
        && one.schemes.each().any(|scheme| two.schemes.contains(scheme))
        && lists_meet(one.ports.listed(), two.ports.listed(), u16::eq)
        && lists_meet(one.methods.as_deref(), two.methods.as_deref(), same_method)
        && lists_meet(one.paths.as_deref(), two.paths.as_deref(), PathGlob::may_meet)
}

fn hosts_meet(one: &HostPattern, two: &HostPattern) -> bool {
    one.covers(two) || two.covers(one)
}

fn lists_meet<T>(one: Option<&[T]>, two: Option<&[T]>, meet: impl Fn(&T, &T) -> bool) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => one.iter().any(|one| two.iter().any(|two| meet(one, two))),
        (None, _) | (_, None) => true,
    }
}

/// Whether `by` is for every host and port that `rule` is for.
pub(super) fn seen_alike(by: &Rule, rule: &Rule) -> bool {
    by.host.covers(&rule.host) && by.ports.covers(&rule.ports)
}

/// What a piece is for, in words.
pub(super) fn describe(piece: &Rule) -> String {
    let list = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let schemes: Vec<_> = piece.schemes.each().map(Scheme::as_str).collect();
    let at = match piece.ports.listed() {
        None => ":*".to_owned(),
        Some([443]) if piece.schemes == Schemes::Only(Scheme::Https) => String::new(),
        Some([80]) if piece.schemes == Schemes::Only(Scheme::Http) => String::new(),
        Some(ports) => format!(":{}", list(ports)),
    };
    let destination = format!("{}://{}{at}", schemes.join("|"), piece.host);
    if piece.schemes == Schemes::Only(Scheme::Tcp) {
        return destination;
    }
    let paths = piece.paths.as_ref().map(|paths| paths.iter().map(PathGlob::as_str).collect::<Vec<_>>().join(","));
    let methods = piece.methods.as_ref().map_or_else(|| "any method".to_owned(), |methods| methods.join(","));
    format!("{destination}{} with {methods}", paths.as_deref().unwrap_or("/**"))
}

/// Questions that are for a piece.
pub(super) fn tries(piece: &Rule) -> Vec<Question> {
    let paths = piece.paths.as_ref().map_or_else(
        || vec!["/".to_owned(), format!("/{LABEL}")],
        |globs| globs.iter().flat_map(|glob| [glob.example("", LABEL), glob.example(LABEL, LABEL)]).collect(),
    );
    let methods = piece.methods.clone().unwrap_or_else(|| METHODS.map(str::to_owned).to_vec());
    questions(piece, &methods, &paths)
}

/// Requests for what a rule is for, whose paths can be read in two ways.
pub(super) fn ambiguous(rule: &Rule) -> Vec<Question> {
    questions(rule, &METHODS.map(str::to_owned), &["/policy-diff/../x", "//policy-diff"].map(str::to_owned))
}

/// Connections to what a rule is for, and requests that nobody looks at in them.
pub(super) fn unread(rule: &Rule) -> Vec<Question> {
    let any = Rule { schemes: Schemes::Any, ..rule.clone() };
    questions(&any, &METHODS.map(str::to_owned), &["/policy-diff".to_owned()])
}

fn questions(rule: &Rule, methods: &[String], paths: &[String]) -> Vec<Question> {
    let mut questions = Vec::new();
    let ports = rule.ports.listed().unwrap_or(&PORTS);
    let ways = ports.iter().flat_map(|port| rule.schemes.each().map(move |scheme| (*port, scheme)));
    for (port, scheme) in ways {
        for host in hosts(&rule.host) {
            let dialled = match host {
                Host::Ip(ip) => Some(ip),
                Host::Name(_) => None,
            };
            let destination = Destination { authority: Authority::new(host, port), scheme, dialled };
            if scheme == Scheme::Tcp {
                questions.push(Question::Connection(destination));
                continue;
            }
            let requests = methods.iter().flat_map(|method| paths.iter().map(move |path| (method, path)));
            questions.extend(requests.map(|(method, path)| Question::Request {
                destination: destination.clone(),
                method: method.clone(),
                path: path.clone(),
                query: None,
            }));
        }
    }
    questions
}

fn hosts(pattern: &HostPattern) -> Vec<Host> {
    match pattern {
        HostPattern::Exact(host) => vec![host.clone()],
        HostPattern::Below(name) => {
            let below = [format!("{LABEL}.{name}"), format!("{LABEL}.{LABEL}.{name}")];
            below.iter().filter_map(|name| HostName::parse(name).ok()).map(Host::Name).collect()
        }
        HostPattern::Every => HostName::parse(LABEL).ok().map(Host::Name).into_iter().collect(),
    }
}
