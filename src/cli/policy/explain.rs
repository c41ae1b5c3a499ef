//! `policy explain`: an explanation as text or as JSON.

use std::io::{self, Write};

use crate::policy::{Credential, Decider, DeciderKind, Explanation, OnGitHub, OtherRule, Question, Verdict};

use super::super::policy_options::PolicyArgs;
use super::{DENIED, GOOD, UNUSABLE, at_place, compile_args, error};

/// The arguments of `policy explain`.
#[derive(Clone, Debug, clap::Args)]
#[command(allow_missing_positional = true)]
pub struct ExplainArgs {
    #[command(flatten)]
    policy: PolicyArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// The method of a request, such as GET; a connection and a look-up have none
    method: Option<String>,

    /// The URL, such as https://api.example.com/v1/models; tcp://HOST:PORT is a plain connection, dns:NAME a look-up
    url: String,
}

pub(super) fn run(args: &ExplainArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let Some(compiled) = compile_args(&args.policy, err)? else { return Ok(UNUSABLE) };
    let question = match Question::of(args.method.as_deref(), &args.url) {
        Ok(question) => question,
        Err(wrong) => {
            error(&wrong, err)?;
            return Ok(UNUSABLE);
        }
    };
    let explanation = Explanation::of(&compiled, &question);
    if args.json {
        serde_json::to_writer(&mut *out, &explanation)?;
        writeln!(out)?;
    } else {
        show(&explanation, out)?;
    }
    Ok(match explanation.verdict {
        Verdict::Permit => GOOD,
        Verdict::Deny => DENIED,
    })
}

fn show(explanation: &Explanation, out: &mut dyn Write) -> io::Result<()> {
    let verdict = match explanation.verdict {
        Verdict::Permit => "permitted",
        Verdict::Deny => "denied",
    };
    writeln!(out, "{verdict}: {}", explanation.asked)?;
    for (name, value) in [("code", explanation.code), ("reason", explanation.reason.as_deref())] {
        value.map_or(Ok(()), |value| writeln!(out, "{name}: {value}"))?;
    }
    if let Some(decider) = &explanation.decided_by {
        writeln!(out, "decided by: {}", decided_by(decider))?;
    }
    show_rules(explanation, out)?;
    if let Some(OnGitHub { repository, row, also }) = &explanation.github {
        let repository = repository.as_ref().map_or_else(String::new, |name| format!(" in {name}"));
        writeln!(out, "on GitHub: {row}{repository}")?;
        if !also.is_empty() {
            writeln!(out, "judged besides: {also}")?;
        }
    }
    for binding in &explanation.bindings {
        writeln!(out, "binding: {}", credential(binding))?;
        writeln!(out, "secret: {}", secret(binding))?;
    }
    for other in &explanation.other_bindings {
        writeln!(out, "not used: {}, which {}", credential(&other.credential), other.why)?;
    }
    if let Some(proxy) = &explanation.upstream_proxy {
        let login = proxy.secret.as_ref().map_or_else(String::new, |secret| format!(" (login: secret {secret})"));
        writeln!(out, "through: the upstream proxy {}{login}", proxy.address)?;
    }
    if let Some(cure) = &explanation.cure {
        writeln!(out, "to allow it: {cure}")?;
    }
    explanation.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

fn decided_by(decider: &Decider) -> String {
    let entry = decider.entry.as_deref().unwrap_or_default();
    let what = match decider.kind {
        DeciderKind::NetworkAll => "network mode all".to_owned(),
        DeciderKind::NetworkHost => format!("network host {entry}"),
        DeciderKind::Egress => format!("egress {entry}"),
        DeciderKind::GitHub => "the github binding".to_owned(),
        DeciderKind::AllowRule => "the allow rule".to_owned(),
        DeciderKind::DenyRule => "the deny rule".to_owned(),
    };
    at_place(what, decider.place.as_ref())
}

/// The rules that did not decide, and why. Rules for other hosts are only counted.
fn show_rules(explanation: &Explanation, out: &mut dyn Write) -> io::Result<()> {
    for OtherRule { action, host, place, why } in &explanation.other_rules {
        writeln!(out, "not by: the {action} rule for {host} at {place}, which {why}")?;
    }
    match explanation.more_rules {
        0 => {}
        1 => writeln!(out, "not by: 1 more rule for this host")?,
        more => writeln!(out, "not by: {more} more rules for this host")?,
    }
    match explanation.rules_for_other_hosts {
        0 => Ok(()),
        1 => writeln!(out, "not by: 1 rule for another host"),
        n => writeln!(out, "not by: {n} rules for other hosts"),
    }
}

fn credential(credential: &Credential) -> String {
    let Credential { shown, secret, path_prefix, .. } = credential;
    let Credential { user_secret, certificate, access_key_id, session_token, .. } = credential;
    let others = [user_secret, certificate, access_key_id, session_token].into_iter().flatten();
    let other: String = others.map(|other| format!("secret {other}, ")).collect();
    format!("{shown} ({other}secret {secret}, paths {path_prefix}…)")
}

/// Where it comes from, and what is particular about it.
fn secret(credential: &Credential) -> String {
    let Credential { secret, source, .. } = credential;
    let only = if credential.only_for_placeholder { "; only in place of its placeholder" } else { "" };
    let shown = if credential.scrub { "" } else { "; answers can show it" };
    format!("{secret} from {source}{only}{shown}")
}
