//! Files and options → one [`Policy`], or every mistake at once.

use std::net::IpAddr;
use std::sync::Arc;

use crate::types::{Authority, Host, Scheme};

use super::address::{self, AddressClass};
use super::case::Case;
use super::dialect;
use super::document::{Document, EGRESS_MODES, NETWORK_MODES};
use super::egress::{Cidr, EgressPolicy};
use super::files::FilePolicy;
use super::mistake::{At, Collector, Mistakes, Place, Warning, quoted};
use super::network::{Network, parse_entry};
use super::options::{self, PolicyOptions};
use super::rule::Rule;
use super::rules::RuleSet;
use super::source::SecretSpec;
use super::upstream::{self, UpstreamProxy};
use super::written::Written;
use super::{Denial, Policy, shadow};

mod bindings;
mod cases;
mod files;
mod github;
mod mistral;
mod passthrough;
mod rules;
mod secrets;

/// A policy file's name, which messages show and from whose directory its secret files are counted, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedText {
    /// The path as it was given.
    pub name: String,
    /// All of it.
    pub text: String,
}

/// A policy and what must be got for it.
#[derive(Debug)]
pub struct Compiled {
    /// What decides.
    pub policy: Policy,
    /// What the command may do with files and with the host's sockets.
    pub files: FilePolicy,
    /// What upstreams are dialled through.
    pub upstream_proxy: Option<UpstreamProxy>,
    /// Every secret that was declared, by name; those that nothing uses too.
    pub secrets: Vec<SecretSpec>,
    /// The rules of its workspace hold, too.
    pub workspace_rules: bool,
    /// Which variables of the sandbox hold placeholders, each of which secret.
    pub placeholders: Vec<PlaceholderSpec>,
    /// What is permitted and probably not meant.
    pub warnings: Vec<Warning>,
    /// Where its parts were written.
    pub written: Written,
    /// What its files say of themselves, for `policy check`.
    pub cases: Vec<Case>,
}

/// A variable of the sandbox that is to hold a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceholderSpec {
    /// The name of the secret it stands for.
    pub secret: String,
    /// The variable.
    pub variable: String,
}

/// Compiles policy files and the options that add to them. Lists are joined and repeats are harmless; what contradicts
/// itself is a mistake, wherever it was written.
///
/// # Errors
/// All [`Mistakes`], each with its place and what would be right.
pub fn load(files: &[NamedText], options: &PolicyOptions) -> Result<Compiled, Mistakes> {
    let mut mistakes = Collector::default();
    let names: Vec<Arc<str>> = files.iter().map(|file| file.name.as_str().into()).collect();
    let mut document = dialect::read(files, &names, options.gitlab.as_ref(), &mut mistakes);
    document.append(options::document(options, &mut mistakes));

    let hosts = parse_all(&document.hosts, &mut mistakes, parse_entry);
    let network = network(&document, &hosts, &mut mistakes);
    let mut rules = rules::rules(&document.rules, &mut mistakes);
    rules.append(&mut document.ready_rules);
    let rules = RuleSet::new(rules);
    let cidrs = parse_all(&document.cidrs, &mut mistakes, Cidr::parse);
    let egress = egress(&document, &cidrs, &mut mistakes);
    let denied = parse_all(&document.denied_cidrs, &mut mistakes, Cidr::parse);
    let open_private = agreed(&document.block_private, "block_private_ips", &mut mistakes).is_some_and(|block| !*block);
    let upstream_proxy = upstream_proxy(&document, &mut mistakes);
    let mistral_apis = mistral::bindings(&mut document, &mut mistakes);
    let githubs = github::githubs(&mut document, &mut mistakes);
    let placeholders = mistral::placeholders(&document, &mistral_apis, &mut mistakes);
    let secrets = secrets::secrets(std::mem::take(&mut document.secrets), &document.secret_names, &mut mistakes);
    secrets::check_proxy_auth(&secrets, &document.proxy_auths, &mut mistakes);
    if options.is_service {
        secrets::check_service(&secrets, &document.proxies, &mut mistakes);
    } else {
        let cure = "take it out; a policy is never followed in part";
        let alone = |what: &str| format!("{what} is for sandboxes of the service alone");
        document.of_service.iter().for_each(|at| mistakes.add(&at.place, alone(&at.value), cure));
    }
    let mut ready = mistral_apis;
    ready.extend(githubs.iter().flat_map(github::bindings));
    let bindings = bindings::bindings(&document.bindings, ready, &document.secret_names, &mut mistakes);
    bindings::placeholders_are_there(&bindings, &placeholders, &mut mistakes);

    let ready = std::mem::take(&mut document.ready_passthrough);
    let passthrough = passthrough::passthrough(&document.passthrough, ready, &rules, &bindings, &mut mistakes);

    let policy = Policy::new(network, egress, open_private, bindings.iter().map(|b| b.value.clone()).collect());
    let policy = policy
        .with_rules(rules, passthrough)
        .with_githubs(githubs.iter().map(|github| github.value.clone()).collect())
        .with_denied(denied.iter().map(|cidr| cidr.value.net()))
        .with_mode_fixed(document.network_modes.iter().any(|mode| mode.value == "none"));
    let written = Written::default().modes(&document.network_modes, &document.egress_modes);
    let written = written.entries(&hosts, &cidrs).bindings(&bindings);
    let cases = cases::cases(&document.cases, &mut mistakes);
    let mut warnings = document.warnings;
    let files = files::files(&document.files, &mut mistakes, &mut warnings);
    rules::warn_of_methods(&document.rules, &mut warnings);
    shadow::warn(&policy, &hosts, &mut warnings);
    warn_of_cidrs(&cidrs, &mut warnings);
    warn_of_hosts(&policy, &hosts, &mut warnings);
    bindings::warn(&policy, &bindings, &mut warnings);
    github::warn(&githubs, &mut warnings);
    passthrough::warn(&policy, &mut warnings);
    warn_of_look_ups(&document.resolves, &mut warnings);
    secrets::warn_of_refresh_tokens(&secrets, &mut warnings);
    secrets::warn_of_secrets(&secrets, &bindings, upstream_proxy.as_ref(), &mut warnings);
    let unwritten = |place: &Place| matches!(place, Place::File { name, .. } if document.not_warned_of.contains(name));
    warnings.retain(|warning| !unwritten(&warning.place));
    let secrets = secrets.into_values().map(|secret| secret.value).collect();
    let workspace_rules = document.workspace_rules;
    mistakes.finish(
        &names,
        Compiled { policy, files, upstream_proxy, secrets, workspace_rules, placeholders, warnings, written, cases },
    )
}

fn network(document: &Document, hosts: &[At<Authority>], mistakes: &mut Collector) -> Network {
    match agreed_mode(&document.network_modes, "network mode", &NETWORK_MODES, mistakes) {
        None => Network::none(),
        Some(mode) if mode.value == "all" => Network::all(),
        Some(mode) if mode.value == "allow" => {
            if !document.hosts_given {
                let hint = "add hosts = [\"api.example.com\"] or --allow HOST; mode = \"none\" permits no host";
                mistakes.add(&mode.place, "mode \"allow\" needs at least one host", hint);
            }
            Network::of_entries(hosts.iter().map(|entry| entry.value.clone()))
        }
        Some(_) => Network::none(),
    }
}

fn egress(document: &Document, cidrs: &[At<Cidr>], mistakes: &mut Collector) -> EgressPolicy {
    match agreed_mode(&document.egress_modes, "egress mode", &EGRESS_MODES, mistakes) {
        None => EgressPolicy::block_all(),
        Some(mode) if mode.value == "allow_all" => EgressPolicy::allow_all(),
        Some(mode) if mode.value == "custom" => {
            if !document.cidrs_given {
                let hint = "add allow_cidrs = [\"192.0.2.0/24\"] or --allow-cidr CIDR; mode = \"block_all\" permits no address";
                mistakes.add(&mode.place, "mode \"custom\" needs at least one CIDR", hint);
            }
            EgressPolicy::of_cidrs(cidrs.iter().map(|cidr| cidr.value.clone()).collect())
        }
        Some(_) => EgressPolicy::block_all(),
    }
}

fn upstream_proxy(document: &Document, mistakes: &mut Collector) -> Option<UpstreamProxy> {
    let auth = agreed(&document.proxy_auths, "the proxy's auth", mistakes).cloned();
    if let Some(name) = document.proxy_auths.iter().find(|name| !document.secret_names.contains(&name.value)) {
        mistakes.add(&name.place, undeclared(&name.value), declare(&name.value));
    }
    let resolve = agreed(&document.resolves, "upstream.resolve", mistakes);
    let looks_up = resolve.is_some_and(|resolve| resolve == "upstream");
    let Some(first) = document.proxies.first() else {
        if let Some(auth) = document.proxy_auths.first().or(document.resolves.first()) {
            mistakes.add(
                &auth.place,
                "there is no upstream proxy",
                "name one with `upstream.proxy` or --upstream-proxy",
            );
        }
        return None;
    };
    agreed(&document.proxies, "upstream proxy", mistakes)?;
    match upstream::parse(&first.value) {
        Ok(authority) => Some(UpstreamProxy { authority, auth, looks_up }),
        Err(error) => {
            let what = format!("{} is no upstream proxy: {error}", quoted(&first.value));
            mistakes.add(&first.place, what, "write http://HOST:PORT, such as http://proxy.example.com:3128");
            None
        }
    }
}

fn undeclared(secret: &str) -> String {
    format!("the secret {} is not declared", quoted(secret))
}

fn declare(secret: &str) -> String {
    format!("add [secrets.{secret}] to the file, or --secret {secret}=env:{secret}")
}

/// The one mode that everybody asks for. A word that is no mode was reported where it was read.
fn agreed_mode<'a>(
    modes: &'a [At<String>],
    what: &str,
    known: &[&str],
    mistakes: &mut Collector,
) -> Option<&'a At<String>> {
    let readable = modes.iter().all(|mode| known.contains(&mode.value.as_str()));
    let agreed = if readable { agreed(modes, what, mistakes) } else { None };
    modes.iter().find(|mode| Some(&mode.value) == agreed)
}

/// The first value, when no later one differs.
fn agreed<'a, T: PartialEq + std::fmt::Display>(
    values: &'a [At<T>],
    what: &str,
    mistakes: &mut Collector,
) -> Option<&'a T> {
    let first = values.first()?;
    if let Some(other) = values.iter().find(|other| other.value != first.value) {
        let text = format!("{what} {} contradicts {what} {} at {}", other.value, first.value, first.place);
        mistakes.add(&other.place, text, "keep one of them: files and options add to each other, and none overrides");
        return None;
    }
    Some(&first.value)
}

fn parse_all<T, E: std::fmt::Display>(
    texts: &[At<String>],
    mistakes: &mut Collector,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Vec<At<T>> {
    let mut parsed = Vec::new();
    for text in texts {
        match parse(&text.value) {
            Ok(value) => parsed.push(At { value, place: text.place.clone() }),
            Err(error) => mistakes.add_error(text, &error),
        }
    }
    parsed
}

fn warn_of_cidrs(cidrs: &[At<Cidr>], warnings: &mut Vec<Warning>) {
    for cidr in cidrs {
        if let Some(what) = address::left_closed(&cidr.value.net()) {
            let what = format!("{} {what}", cidr.value.as_str());
            warnings.push(Warning { place: cidr.place.clone(), what });
        }
    }
}

fn warn_of_hosts(policy: &Policy, hosts: &[At<Authority>], warnings: &mut Vec<Warning>) {
    let by_rule = |rule: &Rule| Some(At { value: shadow::literal(rule)?, place: rule.place().clone() });
    let literals = policy.rules().as_slice().iter().filter_map(by_rule);
    for host in hosts.iter().cloned().chain(literals) {
        let Host::Ip(ip) = host.value.host else { continue };
        if let Some(class) = refused_class(policy, &host.value, ip) {
            let what = format!("{ip} is {class}, so listing it is not enough: --allow-cidr {ip} opens it");
            warnings.push(Warning { place: host.place, what });
        }
    }
}

fn refused_class(policy: &Policy, entry: &Authority, ip: IpAddr) -> Option<AddressClass> {
    let checked = policy.check_addresses(entry, Scheme::Https, &[ip], &[]);
    if let Err(Denial::AddressBlocked { class, .. }) = checked { Some(class) } else { None }
}

fn warn_of_look_ups(resolves: &[At<String>], warnings: &mut Vec<Warning>) {
    for resolve in resolves.iter().filter(|resolve| resolve.value == "upstream") {
        let what = "the upstream proxy looks names up, so no rule about addresses holds for them: a permitted name may lead to a \
                    private or a denied address"
            .to_owned();
        warnings.push(Warning { place: resolve.place.clone(), what });
    }
}

#[cfg(test)]
mod tests;
