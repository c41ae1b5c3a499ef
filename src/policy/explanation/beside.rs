//! What is said beside the decision.

use crate::types::{Destination, Host, HostName, Scheme};

use super::super::binding::Binding;
use super::super::compile::Compiled;
use super::super::egress::EgressMode;
use super::super::question::Question;
use super::super::verdict::Denial;
use super::super::{Policy, path};
use super::{Answer, OtherBinding, credential};

/// The bindings for the host that are not used. A look-up uses none, so nothing is said of them.
pub(super) fn other_bindings(compiled: &Compiled, question: &Question, answer: &Answer) -> Vec<OtherBinding> {
    let (destination, path) = match question {
        Question::Request { destination, path, .. } => (destination, Some(path.as_str())),
        Question::Connection(destination) => (destination, None),
        Question::LookUp(_) => return Vec::new(),
    };
    let used = |index: &usize| answer.as_ref().is_ok_and(|permit| permit.bindings.contains(index));
    let bindings = compiled.policy.bindings().iter().enumerate();
    let others = bindings.filter(|(index, binding)| binding.host().host == destination.authority.host && !used(index));
    let others = others.map(|(index, binding)| OtherBinding {
        credential: credential(compiled, index),
        why: why_not_bound(binding, destination, path, answer),
    });
    others.collect()
}

fn why_not_bound(binding: &Binding, to: &Destination, path: Option<&str>, answer: &Answer) -> String {
    let Some(path) = path.filter(|_| to.scheme == Scheme::Https) else {
        return "is for https".to_owned();
    };
    if binding.host().port != to.authority.port {
        return format!("is for port {}", binding.host().port);
    }
    match path::canonical(path) {
        Err(_) if binding.looks_at_path() => return "looks at the path, which is ambiguous".to_owned(),
        Ok(path) if !path.starts_with(binding.path_prefix()) => {
            return format!("is for paths {}…", binding.path_prefix());
        }
        Ok(_) | Err(_) => {}
    }
    match answer {
        Ok(_) if binding.is_for_github() => "is for other requests to this host".to_owned(),
        Err(Denial::BindingConflict { .. }) => "would set its place beside another one".to_owned(),
        Ok(_) | Err(_) => "would be used if the request were permitted".to_owned(),
    }
}

pub(super) fn notes(policy: &Policy, question: &Question, answer: &Answer) -> Vec<String> {
    let host = match question {
        Question::LookUp(name) => return vec![note_of_look_up(name, answer)],
        Question::Request { destination, .. } | Question::Connection(destination) => &destination.authority.host,
    };
    let unread = answer.is_ok() && question.passes_unread(policy);
    let note = match (answer, host) {
        (Ok(_), Host::Name(name)) => Some(format!(
            "nothing was resolved; every address of {name} is checked when it is looked up, before it is dialled"
        )),
        (Ok(_), Host::Ip(_)) => {
            Some("whether the address is one of this host's own is checked when it is dialled".to_owned())
        }
        (Err(denial), host) if policy.egress().mode() != EgressMode::BlockAll && by_address(denial, host) => {
            Some("a client that dials an address by number is judged by the egress policy as well".to_owned())
        }
        (Err(_), Host::Name(_) | Host::Ip(_)) => None,
    };
    let unread = unread.then(|| {
        "the connection is passed on unread: neither methods nor paths are looked at, and no credential is put in"
            .to_owned()
    });
    unread.into_iter().chain(note).collect()
}

/// Whether the egress policy could permit what is denied of a name or an address, where a client dials a number for it.
fn by_address(denial: &Denial, host: &Host) -> bool {
    match denial {
        Denial::NotListed { .. } => matches!(host, Host::Name(_)),
        Denial::MethodNotPermitted { .. }
        | Denial::PathNotPermitted { .. }
        | Denial::HttpsOnly { .. }
        | Denial::SchemeNotPermitted { .. } => true,
        Denial::RuleDenied { .. }
        | Denial::LocalName { .. }
        | Denial::AddressBlocked { .. }
        | Denial::NoAddress { .. }
        | Denial::AmbiguousPath { .. }
        | Denial::OutOfScope { .. }
        | Denial::BindingConflict { .. } => false,
    }
}

fn note_of_look_up(name: &HostName, answer: &Answer) -> String {
    let loopback = name.as_str() == "localhost" || name.as_str().ends_with(".localhost");
    match answer {
        Ok(_) => format!("every address of {name} is checked before it is used"),
        Err(_) if loopback => "the sandbox gets its own loopback address, and nothing is looked up".to_owned(),
        Err(_) => "nothing is looked up; the sandbox gets an address that leads to this refusal".to_owned(),
    }
}
