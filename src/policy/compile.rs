//! Files and options → one [`Policy`], or every mistake at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::types::{Authority, Host, Scheme};

use super::address::{self, AddressClass};
use super::binding::{HeaderBinding, parse_secret_name};
use super::case::Case;
use super::dialect;
use super::document::{Document, EGRESS_MODES, NETWORK_MODES, RawSecret};
use super::egress::{Cidr, EgressPolicy};
use super::files::FilePolicy;
use super::mistake::{At, Collector, Mistakes, Place, Warning, quoted};
use super::network::{Network, parse_entry};
use super::options::{self, PolicyOptions};
use super::rule::Rule;
use super::rules::RuleSet;
use super::upstream::{self, UpstreamProxy};
use super::written::Written;
use super::{Denial, Policy, shadow};

mod bindings;
mod cases;
mod files;
mod mistral;
mod passthrough;
mod rules;

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
    /// Which variables of the sandbox hold placeholders, each of which secret.
    pub placeholders: Vec<PlaceholderSpec>,
    /// What is permitted and probably not meant.
    pub warnings: Vec<Warning>,
    /// Where its parts were written.
    pub written: Written,
    /// What its files say of themselves, for `policy check`.
    pub cases: Vec<Case>,
}

/// Where a secret's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSpec {
    /// Its name.
    pub name: String,
    /// Its source.
    pub source: SecretSource,
}

/// A variable of the sandbox that is to hold a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceholderSpec {
    /// The name of the secret it stands for.
    pub secret: String,
    /// The variable.
    pub variable: String,
}

/// A source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the launcher's environment.
    Env(String),
    /// A file. One that a policy file names is counted from the directory of that file.
    File(PathBuf),
    /// The output of a program with its arguments, run without a shell; never empty.
    Command(Vec<String>),
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
    let placeholders = mistral::placeholders(&document, &mistral_apis, &mut mistakes);
    let bindings = bindings::bindings(&document.bindings, mistral_apis, &document.secret_names, &mut mistakes);
    let secrets = secrets(document.secrets, &mut mistakes);

    let ready = std::mem::take(&mut document.ready_passthrough);
    let passthrough = passthrough::passthrough(&document.passthrough, ready, &rules, &bindings, &mut mistakes);

    let policy = Policy::new(network, egress, open_private, bindings.iter().map(|b| b.value.clone()).collect());
    let policy = policy
        .with_rules(rules, passthrough)
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
    passthrough::warn(&policy, &mut warnings);
    warn_of_look_ups(&document.resolves, &mut warnings);
    warn_of_secrets(&secrets, &bindings, upstream_proxy.as_ref(), &mut warnings);
    let unwritten = |place: &Place| matches!(place, Place::File { name, .. } if document.not_warned_of.contains(name));
    warnings.retain(|warning| !unwritten(&warning.place));
    let secrets = secrets.into_values().map(|secret| secret.value).collect();
    mistakes.finish(&names, Compiled { policy, files, upstream_proxy, secrets, placeholders, warnings, written, cases })
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

type Secrets = BTreeMap<String, At<SecretSpec>>;

fn secrets(raw: Vec<RawSecret>, mistakes: &mut Collector) -> Secrets {
    let mut secrets = Secrets::new();
    for RawSecret { name, source, place } in raw {
        if let Err(error) = parse_secret_name(&name.value) {
            mistakes.add(&name.place, format!("{} is no name of a secret", quoted(&name.value)), error.to_string());
        }
        if let Some((what, hint)) = bad_source(&source) {
            mistakes.add(&place, what, hint);
        }
        match secrets.get(&name.value) {
            Some(earlier) if earlier.value.source != source => {
                let what = format!("the secret {} has another source at {}", quoted(&name.value), earlier.place);
                mistakes.add(&place, what, "keep one of them");
            }
            Some(_) => {}
            None => {
                let spec = SecretSpec { name: name.value.clone(), source };
                secrets.insert(name.value, At { value: spec, place });
            }
        }
    }
    secrets
}

fn bad_source(source: &SecretSource) -> Option<(String, &'static str)> {
    match source {
        SecretSource::Env(name) if name.is_empty() || name.contains(['=', '\0']) => {
            Some((format!("{} is no name of an environment variable", quoted(name)), "name the variable alone"))
        }
        SecretSource::File(path) if path.as_os_str().is_empty() => {
            Some(("the path of the secret's file is empty".to_owned(), "write the path of the file"))
        }
        SecretSource::File(path) if path.components().any(|part| part.as_os_str() == "~") => {
            Some((format!("`~` is not expanded in {}", quoted(&path.to_string_lossy())), "write the whole path"))
        }
        SecretSource::Command(words) if words.first().is_none_or(String::is_empty) => {
            Some(("the secret's command names no program".to_owned(), "write a program and its arguments"))
        }
        SecretSource::Env(_) | SecretSource::File(_) | SecretSource::Command(_) => None,
    }
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

fn warn_of_secrets(
    secrets: &Secrets,
    bindings: &[At<HeaderBinding>],
    proxy: Option<&UpstreamProxy>,
    warnings: &mut Vec<Warning>,
) {
    let bound = bindings.iter().map(|binding| binding.value.secret_name());
    let used: BTreeSet<&str> = bound.chain(proxy.and_then(|proxy| proxy.auth.as_deref())).collect();
    for (name, secret) in secrets.iter().filter(|(name, _)| !used.contains(name.as_str())) {
        let what = format!("nothing uses the secret {name}");
        warnings.push(Warning { place: secret.place.clone(), what });
    }
}

#[cfg(test)]
mod tests;
