//! `sandbox-proxy run`: a command whose only way out is the proxy.
//!
//! The order is the argument. Files are opened first and used by descriptor; then the namespaces are made, while this
//! process has one thread and has read no secret; only then are secrets read and threads started.

mod credentials;
mod files;
mod github;
mod inside;
mod opened;
mod reload;

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::app::{self, Ended, Entrances, Parts, Running, Served};
use crate::audit::{Sink, Summary};
use crate::credentials::end_commands;
use crate::launcher::{self, CaptureMode, Identity, LaunchError, Listeners, Newborn, Placeholders};
use crate::proxy::capture::transparent::Entrance;
use crate::proxy::relay;
use crate::sandboxes::Sandbox;
use crate::tls::{LeafConfigs, LeafLimits, SandboxCa};
use crate::types::SandboxId;

use super::exit;
use super::policy_options::PolicyArgs;
use credentials::Outward;
use inside::{Inside, Own};
use opened::Opened;
use reload::{Fixed, Reload};

/// The most connections at a time, where the descriptor limit allows them.
const CONNECTIONS: usize = 8192;
/// Descriptors that are not connections'.
const OTHER_DESCRIPTORS: usize = 128 + 2 * relay::PIPES;

/// What `run` is asked to do.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    policy: PolicyArgs,

    /// Pass this variable into the sandbox as it is; most others are left out
    #[arg(long, value_name = "NAME", help_heading = "Sandbox")]
    keep_env: Vec<String>,

    /// Give the sandbox a /tmp of its own; as root it always has one
    #[arg(long, help_heading = "Sandbox")]
    private_tmp: bool,

    /// Append one JSON line for every request and every refusal to this file
    #[arg(long, value_name = "FILE", help_heading = "Proxy")]
    audit: Option<PathBuf>,

    /// Permit every public host, and write to this file the smallest policy that covers what was used
    ///
    /// Deny rules hold, private addresses stay blocked, and credentials are put in. The file must be new or empty. Read it before
    /// you use it: it permits what the command did.
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    learn: Option<PathBuf>,

    /// Trust the authorities in this PEM file for upstreams too; certificates are always verified
    #[arg(long, value_name = "FILE", help_heading = "Proxy")]
    upstream_ca: Vec<PathBuf>,

    /// Ask this nameserver instead of the host's; the port is 53 unless it is given
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = nameserver, help_heading = "Proxy")]
    nameserver: Vec<SocketAddr>,

    /// Print neither warnings nor, at the end, what was refused
    #[arg(long, short)]
    quiet: bool,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn nameserver(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<SocketAddr>().or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53)));
    address.map_err(|_| "not an address; write 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53".to_owned())
}

/// Runs the command and returns its exit code, or 125 for a failure of the launcher's own.
pub fn run(args: &RunArgs) -> u8 {
    match try_run(args) {
        Ok(code) => code,
        Err(error) => {
            say(&format!("{error:#}"));
            error.downcast_ref::<LaunchError>().map_or(exit::LAUNCHER, LaunchError::exit_code)
        }
    }
}

fn try_run(args: &RunArgs) -> Result<u8> {
    let identity = launcher::invoking_user()?;
    // By sudo this is still root, who can open what the invoking user cannot.
    let opened = Opened::open(args, &identity)?;
    if let Some(path) = &args.learn {
        say(&format!("every public host is permitted; what is used goes to {}", path.display()));
    }
    if opened.compiled.upstream_proxy.is_none() && !args.quiet {
        mention_host_proxy();
    }
    identity.assume()?;
    launcher::check_standard_streams()?;
    let newborn = launcher::clone_sandbox()?;
    // From here on there is a child; an error on the way drops `newborn`, which ends it.
    let learned = opened.learned.as_ref().map(|(_, file)| file.try_clone()).transpose()?;
    let (running, reload, _placeholders) = start(args, opened, &identity, &newborn)?;
    // Before anything inside could move a file.
    let watcher = reload.map(Reload::start).transpose()?;
    newborn.release()?;
    let hangup = watcher.as_ref().map(|watcher| || watcher.hangup());
    let ended = newborn.supervise(None, hangup.as_ref().map(|hangup| hangup as &dyn Fn()));
    if let Some(watcher) = watcher {
        watcher.end();
    }
    conclude(args, running, learned, ended.code())
}

/// Whom the host's programs go through is no part of the policy, and a variable can be set by anybody.
fn mention_host_proxy() {
    const VARIABLES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let set = |name: &&&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if let Some(name) = VARIABLES.iter().find(set) {
        say(&format!("{name} is not followed; --upstream-proxy http://HOST:PORT goes through a proxy"));
    }
}

/// Makes the sandbox's authority and everything that pid 1 needs, has it set up, reads the secrets, and starts the proxy.
/// The start is what a person waits for: pid 1 makes its mounts while this process does all that the plan does not need.
fn start(
    args: &RunArgs,
    opened: Opened,
    identity: &Identity,
    newborn: &Newborn,
) -> Result<(Running, Option<Reload>, Placeholders)> {
    let max_connections = connections(newborn.descriptor_limit, args.quiet)?;
    let threads = std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 4).clamp(1, 4));
    let id = SandboxId::from_bits(random_bits()?);
    let ca = Arc::new(SandboxCa::generate(&id)?);
    let github = github::placeholders(&opened.compiled.policy)?;
    let outward = || Outward::new(&opened, &args.nameserver, &github);
    // What stands in for a secret has its form, so those are read before the plan.
    let early = if opened.compiled.placeholders.is_empty() { None } else { Some(outward()?) };
    let stand_ins = early.as_ref().map_or(&github[..], |outward| outward.injector.placeholders());
    let own = Own { id: &id, ca: &ca, placeholders: stand_ins, github: &github };
    let Inside { plan, placeholders } = inside::plan(args, identity, &opened, &own)?;
    let entrances = entrances(newborn.configure(&plan)?);
    let Outward { upstream_tls, upstream_proxy, injector, records } = early.map_or_else(outward, Ok)?;
    let leaves = LeafConfigs::new(ca, LeafLimits::default())?;
    let fixed = Fixed::of(&opened.compiled);
    let sandbox = Arc::new(Sandbox::new(id, leaves, opened.compiled.policy, injector, records));
    let reload = Reload::new(opened.origin, fixed, Arc::clone(&sandbox), args.quiet);
    let audit = opened.audit.map(|audit| Box::new(audit.file) as Box<dyn Sink>);
    let nameservers = args.nameserver.clone();
    let parts = Parts { upstream_tls, upstream_proxy, audit, max_connections, threads, nameservers };
    Ok((app::start(parts, Served::One(sandbox, entrances))?, reload, placeholders))
}

fn entrances(listeners: Listeners) -> Entrances {
    let captured = match listeners.mode {
        CaptureMode::Tproxy | CaptureMode::Ports => Entrance::LocalAddress,
        CaptureMode::Redirect => Entrance::OriginalDestination,
    };
    let captured = listeners.tcp.into_iter().map(|listener| (listener, captured));
    let explicit = listeners.explicit.into_iter().map(|listener| (listener, Entrance::Explicit));
    Entrances { tcp: captured.chain(explicit).collect(), dns_tcp: listeners.dns_tcp, dns_udp: listeners.dns_udp }
}

/// How many connections a limit on descriptors leaves room for, two each.
fn connections(descriptors: u64, quiet: bool) -> Result<usize> {
    let room = usize::try_from(descriptors).unwrap_or(usize::MAX).saturating_sub(OTHER_DESCRIPTORS) / 2;
    ensure!(room >= 16, "the hard limit on open files is {descriptors}, which is too low; raise it with ulimit -Hn");
    if room < CONNECTIONS && !quiet {
        say(&format!(
            "the hard limit on open files is {descriptors}, so at most {room} connections are served at a time"
        ));
    }
    Ok(room.min(CONNECTIONS))
}

fn random_bits() -> Result<u64> {
    let mut bytes = [0; 8];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| anyhow!("the system gives no random bytes"))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Ends the proxy, says once what was refused and what would allow it, and writes down what was learned.
fn conclude(args: &RunArgs, running: Running, learned: Option<File>, code: u8) -> Result<u8> {
    let Ended { summary, lost } = running.finish();
    end_commands();
    if !args.quiet {
        report(&summary, &mut std::io::stderr().lock());
    }
    if let (Some(mut file), Some(learned), Some(path)) = (learned, &summary.learned, &args.learn) {
        let written = file.write_all(learned.to_toml().as_bytes());
        written.with_context(|| format!("--learn: cannot write {}", path.display()))?;
        if !args.quiet {
            say(&format!("{} permits the {} hosts that were used", path.display(), learned.hosts()));
        }
    }
    if let Some(lost) = lost {
        bail!("{lost}; connections were refused since");
    }
    match summary.error {
        Some(error) => {
            Err(anyhow!(error).context("--audit: rows could not be written, and requests were refused since"))
        }
        None => Ok(code),
    }
}

fn report(summary: &Summary, err: &mut dyn Write) {
    if summary.refused.is_empty() {
        return;
    }
    let mut text = String::from("sandbox-proxy: refused while the command ran:\n");
    for (refused, times) in &summary.refused {
        let times = if *times == 1 { String::new() } else { format!(" ({times} times)") };
        text += &format!("  {}{times}\n", printable(&refused.reason));
        if let Some(cure) = &refused.cure {
            text += &format!("    to allow it: {cure}\n");
        }
    }
    if summary.more > 0 {
        text += &format!("  and {} others\n", summary.more);
    }
    // Where stderr is closed nobody reads it.
    let _ = err.write_all(text.as_bytes());
}

/// Text that holds what the sandbox wrote, fit for a terminal.
fn printable(text: &str) -> String {
    let show = |c: char| if c.is_control() || ('\u{200b}'..='\u{206f}').contains(&c) { '\u{fffd}' } else { c };
    text.chars().map(show).collect()
}

fn say(text: &str) {
    // Where stderr is closed nobody reads it; the exit code says the rest.
    let _ = writeln!(std::io::stderr().lock(), "sandbox-proxy: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Refused;

    /// What a client or an upstream wrote must not steer the terminal, nor begin a line of its own.
    #[test]
    fn the_summary_steers_no_terminal() {
        let reason = "a\u{1b}[31m\u{9b}31m\u{9d}0;t\u{9c}\u{7f}\r\nsandbox-proxy: b\u{202e}\u{2066}\u{200b}".to_owned();
        let refused = vec![(Refused { reason, cure: Some("--allow a.test".into()) }, 2)];
        let mut shown = Vec::new();
        report(&Summary { refused, more: 3, ..Summary::default() }, &mut shown);
        let shown = String::from_utf8(shown).unwrap();
        let wanted = "sandbox-proxy: refused while the command ran:\n  \
             a?[31m?31m?0;t????sandbox-proxy: b??? (2 times)\n    to allow it: --allow a.test\n  and 3 others\n";
        assert_eq!(shown.replace('\u{fffd}', "?"), wanted);
    }
}
