//! `policy check` and `policy explain`: the functions that enforce, asked by hand.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::policy::{
    Action, Compiled, Denial, EgressMode, Grant, HeaderBinding, NamedText, Permit, Place, Policy, PolicyOptions,
    RuleState, load,
};
use crate::types::{Authority, Destination, Host, RequestFacts, Scheme};

use super::policy_options::{PolicyArgs, read_policy_file};

/// Exit code: the files are good, or the request is permitted.
const GOOD: u8 = 0;
/// Exit code: the request is denied.
const DENIED: u8 = 1;
/// Exit code: mistakes, or input that cannot be used.
const UNUSABLE: u8 = 2;

/// The subcommands of `policy`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum PolicyCommand {
    /// Check policy files, each on its own, and show every mistake at once
    ///
    /// Warnings name what is permitted and probably not meant, and rules that change nothing. Exit code 0: good (warnings
    /// too); 2: mistakes.
    Check {
        /// The files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Say whether a request would be permitted, by which entry or rule, and with which credentials
    ///
    /// Of the rules for its host, those that do not decide are shown too, with why. Nothing is resolved or dialled, and no
    /// secret is read. Exit code 0: permitted; 1: denied; 2: unusable input.
    Explain(Box<ExplainArgs>),
}

/// The arguments of `policy explain`.
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    policy: PolicyArgs,

    /// The method, such as GET
    method: String,

    /// The URL, such as https://api.example.com/v1/models; tcp://HOST:PORT asks for a plain connection
    url: String,
}

/// Runs one of them; what was asked for goes to `out`, warnings and mistakes to `err`. Returns the exit code.
pub fn run(command: &PolicyCommand, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let code = match command {
        PolicyCommand::Check { files } => check(files, out, err),
        PolicyCommand::Explain(args) => explain(args, out, err),
    };
    code.unwrap_or(UNUSABLE)
}

fn check(files: &[PathBuf], out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let mut code = GOOD;
    for path in files {
        let Some(compiled) = compile(std::slice::from_ref(path), &PolicyOptions::default(), err)? else {
            code = UNUSABLE;
            continue;
        };
        match compiled.warnings.len() {
            0 => writeln!(out, "{}: ok", path.display())?,
            1 => writeln!(out, "{}: ok, 1 warning", path.display())?,
            n => writeln!(out, "{}: ok, {n} warnings", path.display())?,
        }
    }
    Ok(code)
}

fn explain(args: &ExplainArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let (files, options) = args.policy.clone().into_parts();
    let Some(Compiled { policy, .. }) = compile(&files, &options, err)? else { return Ok(UNUSABLE) };
    if http::Method::from_bytes(args.method.as_bytes()).is_err() {
        writeln!(err, "error: {:?} is not a method\n  hint: write one such as GET or POST", args.method)?;
        return Ok(UNUSABLE);
    }
    let (destination, path) = match parse_url(&args.url) {
        Ok(parsed) => parsed,
        Err(what) => {
            writeln!(err, "error: {:?} is not a usable URL: {what}", args.url)?;
            return Ok(UNUSABLE);
        }
    };
    let facts = RequestFacts { destination: &destination, method: &args.method, path: &path };
    let asked = format!("{} {}", args.method, args.url.escape_debug());
    match decide(&policy, &facts) {
        Ok(permit) => {
            writeln!(out, "permitted: {asked}")?;
            show_permit(&policy, &facts, &permit, out)?;
            Ok(GOOD)
        }
        Err(denial) => {
            writeln!(out, "denied: {asked}")?;
            show_denial(&policy, &facts, &denial, out)?;
            Ok(DENIED)
        }
    }
}

/// The files and options as a policy; `None` when that cannot be, with every reason in `err`.
fn compile(paths: &[PathBuf], options: &PolicyOptions, err: &mut dyn Write) -> io::Result<Option<Compiled>> {
    let mut files = Vec::<NamedText>::new();
    for path in paths {
        match read_policy_file(Path::new(path)) {
            Ok(file) => files.push(file),
            Err(error) => writeln!(err, "error: {error:#}")?,
        }
    }
    if files.len() < paths.len() {
        return Ok(None);
    }
    match load(&files, options) {
        Ok(compiled) => {
            for warning in &compiled.warnings {
                writeln!(err, "{warning}")?;
            }
            Ok(Some(compiled))
        }
        Err(mistakes) => {
            writeln!(err, "{mistakes}")?;
            Ok(None)
        }
    }
}

/// The decision of a request, and of its address where it is a literal one.
fn decide(policy: &Policy, facts: &RequestFacts<'_>) -> Result<Permit, Denial> {
    let permit = policy.request(facts)?;
    match &facts.destination.authority.host {
        Host::Ip(ip) => {
            policy.check_addresses(&facts.destination.authority, facts.destination.scheme, &[*ip], &[]).map(|_| permit)
        }
        Host::Name(_) => Ok(permit),
    }
}

fn show_permit(policy: &Policy, facts: &RequestFacts<'_>, permit: &Permit, out: &mut dyn Write) -> io::Result<()> {
    match &permit.grant {
        Grant::NetworkAll => writeln!(out, "decided by: network mode all")?,
        Grant::Host { entry } => writeln!(out, "decided by: network host {entry}")?,
        Grant::Rule { place } => writeln!(out, "decided by: the allow rule at {place}")?,
        Grant::Egress { entry } => writeln!(out, "decided by: egress {entry}")?,
    }
    let decided = match &permit.grant {
        Grant::Rule { place } => Some(place),
        Grant::NetworkAll | Grant::Host { .. } | Grant::Egress { .. } => None,
    };
    show_rules(policy, facts, decided, out)?;
    for &index in &permit.bindings {
        let binding: &HeaderBinding = &policy.bindings()[index];
        let (prefix, suffix) = (binding.prefix().escape_debug(), binding.suffix().escape_debug());
        let (header, secret, path) = (binding.header(), binding.secret_name(), binding.path_prefix());
        writeln!(out, "binding: {header}: {prefix}{{{secret}}}{suffix} (secret {secret}, paths {path}…)")?;
    }
    match &facts.destination.authority.host {
        Host::Name(name) => writeln!(
            out,
            "note: nothing was resolved; every address of {name} is checked when it is looked up, before it is dialled"
        ),
        Host::Ip(_) => {
            writeln!(out, "note: whether the address is one of this host's own is checked when it is dialled")
        }
    }
}

fn show_denial(policy: &Policy, facts: &RequestFacts<'_>, denial: &Denial, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "code: {}", denial.code())?;
    writeln!(out, "reason: {denial}")?;
    let decided = if let Denial::RuleDenied { rule, .. } = denial { Some(rule) } else { None };
    if let Some(rule) = decided {
        writeln!(out, "decided by: the deny rule at {rule}")?;
    }
    show_rules(policy, facts, decided, out)?;
    if let Some(cure) = denial.cure() {
        writeln!(out, "to allow it: {cure}")?;
    }
    match (denial, policy.egress().mode()) {
        (
            Denial::NotListed { authority: Authority { host: Host::Name(_), .. }, .. }
            | Denial::MethodNotPermitted { .. }
            | Denial::PathNotPermitted { .. }
            | Denial::HttpsOnly { .. }
            | Denial::SchemeNotPermitted { .. },
            EgressMode::AllowAll | EgressMode::Custom,
        ) => writeln!(out, "note: a client that dials an address by number is judged by the egress policy as well"),
        (
            Denial::NotListed { .. }
            | Denial::RuleDenied { .. }
            | Denial::MethodNotPermitted { .. }
            | Denial::PathNotPermitted { .. }
            | Denial::LocalName { .. }
            | Denial::HttpsOnly { .. }
            | Denial::SchemeNotPermitted { .. }
            | Denial::AddressBlocked { .. }
            | Denial::NoAddress { .. }
            | Denial::AmbiguousPath { .. }
            | Denial::BindingConflict { .. },
            EgressMode::BlockAll | EgressMode::AllowAll | EgressMode::Custom,
        ) => Ok(()),
    }
}

/// The rules that did not decide, and why. Rules for other hosts are only counted.
fn show_rules(
    policy: &Policy,
    facts: &RequestFacts<'_>,
    decided: Option<&Place>,
    out: &mut dyn Write,
) -> io::Result<()> {
    const MOST: usize = 20;
    let about = policy.rules_about(facts);
    let others = about.iter().filter(|(rule, _)| Some(rule.place()) != decided);
    for (rule, state) in others.clone().take(MOST) {
        let action = match rule.action() {
            Action::Allow => "allow",
            Action::Deny => "deny",
        };
        let why = match state {
            RuleState::Applies => "applies as well",
            RuleState::OtherScheme => "is for another scheme",
            RuleState::OtherPort => "is for other ports",
            RuleState::OtherPath => "is for other paths",
            RuleState::AmbiguousPath => "looks at the path, which is ambiguous",
            RuleState::OtherMethod => "is for other methods",
        };
        writeln!(out, "not by: the {action} rule for {} at {}, which {why}", rule.host(), rule.place())?;
    }
    match others.count().saturating_sub(MOST) {
        0 => {}
        more => writeln!(out, "not by: {more} more rules for this host")?,
    }
    match policy.rules().as_slice().len() - about.len() {
        0 => Ok(()),
        1 => writeln!(out, "not by: 1 rule for another host"),
        n => writeln!(out, "not by: {n} rules for other hosts"),
    }
}

/// Where the URL leads, and its path as it is written, without query and fragment.
fn parse_url(url: &str) -> Result<(Destination, String), String> {
    let (scheme, rest) = url.split_once("://").ok_or("it has no scheme; write https://HOST/PATH")?;
    let (scheme, default_port) = match scheme.to_ascii_lowercase().as_str() {
        "https" => (Scheme::Https, Some(443)),
        "http" => (Scheme::Http, Some(80)),
        "tcp" => (Scheme::Tcp, None),
        _ => return Err(format!("the scheme {scheme:?} is not https, http or tcp")),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    if host.contains('@') {
        return Err("it holds a user name; leave that out".to_owned());
    }
    let authority = match default_port {
        Some(port) => Authority::parse(host, port),
        None if Authority::parse(host, 1) != Authority::parse(host, 2) => {
            return Err("a tcp URL needs a port; write tcp://HOST:PORT".to_owned());
        }
        None => Authority::parse(host, 1),
    };
    let authority = authority.map_err(|error| error.to_string())?;
    let path = &target[..target.find(['?', '#']).unwrap_or(target.len())];
    let path = if path.is_empty() { "/" } else { path };
    Ok((Destination { authority, scheme, dialled: None }, path.to_owned()))
}

#[cfg(test)]
mod tests;
