//! The product against a little internet of its own: real clients, real kernels, no network of this machine.
//!
//! The process enters its namespaces before any thread exists (`rig.rs`), starts the servers (`internet/`), and runs
//! the cases, each of which starts `sandbox-proxy run` in the host namespace (`sandbox.rs`). An ordinary user runs
//! them as that user; root runs them as real root, so that both paths of the launcher are shown.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "these rules are for the product; tests dial what they like")]

mod address;
mod authority;
mod bindings;
mod bounds;
mod canary;
mod carveouts;
mod certificates;
mod cli;
mod clients;
mod dialects;
mod dns;
mod escape;
mod failclosed;
mod faults;
mod files;
mod files_names;
mod files_read;
mod github;
mod github_apps;
mod github_clients;
mod github_scope;
mod github_server;
mod github_tokens;
mod hello;
mod hidden;
mod http2;
mod internet;
mod isolation;
mod issuers;
mod kernels;
mod learn;
mod opening;
mod placeholders;
mod placements;
mod plain_http;
mod policy_tools;
mod port;
mod process;
mod protocol;
mod protocol_client;
mod protocol_tls;
mod protocol_tunnel;
mod protocol_upstream;
mod record;
mod reload;
mod renewal;
mod rig;
mod rules;
mod rules_hosts;
mod sandbox;
mod scrub;
mod secret;
mod selftest;
mod setup;
mod signatures;
mod smuggling;
mod steering;
mod surroundings;
mod table;
mod tcp;
mod terminal;
mod upstream_proxy;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};

/// A named case: it panics when what it shows does not hold.
pub type Case = (&'static str, fn());

/// The table of a group: each function is one test of its own name.
#[macro_export]
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        pub const CASES: &[$crate::Case] = &[$((stringify!($case), $case)),*];
    };
}

const GROUPS: &[(&str, &[Case])] = &[
    ("selftest", selftest::CASES),
    ("clients", clients::CASES),
    ("github_server", github_server::CASES),
    ("github", github::CASES),
    ("github_apps", github_apps::CASES),
    ("github_clients", github_clients::CASES),
    ("github_scope", github_scope::CASES),
    ("authority", authority::CASES),
    ("bindings", bindings::CASES),
    ("renewal", renewal::CASES),
    ("placeholders", placeholders::CASES),
    ("placements", placements::CASES),
    ("certificates", certificates::CASES),
    ("rules", rules::CASES),
    ("rules_hosts", rules_hosts::CASES),
    ("reload", reload::CASES),
    ("learn", learn::CASES),
    ("tcp", tcp::CASES),
    ("plain_http", plain_http::CASES),
    ("port", port::CASES),
    ("setup", setup::CASES),
    ("dialects", dialects::CASES),
    ("address", address::CASES),
    ("carveouts", carveouts::CASES),
    ("dns", dns::CASES),
    ("steering", steering::CASES),
    ("opening", opening::CASES),
    ("record", record::CASES),
    ("cli", cli::CASES),
    ("policy_tools", policy_tools::CASES),
    ("secret", secret::CASES),
    ("canary", canary::CASES),
    ("issuers", issuers::CASES),
    ("github_tokens", github_tokens::CASES),
    ("scrub", scrub::CASES),
    ("escape", escape::CASES),
    ("surroundings", surroundings::CASES),
    ("kernels", kernels::CASES),
    ("failclosed", failclosed::CASES),
    ("faults", faults::CASES),
    ("files", files::CASES),
    ("files_names", files_names::CASES),
    ("files_read", files_read::CASES),
    ("hidden", hidden::CASES),
    ("isolation", isolation::CASES),
    ("process", process::CASES),
    ("protocol", protocol::CASES),
    ("protocol_client", protocol_client::CASES),
    ("protocol_tls", protocol_tls::CASES),
    ("protocol_tunnel", protocol_tunnel::CASES),
    ("protocol_upstream", protocol_upstream::CASES),
    ("upstream_proxy", upstream_proxy::CASES),
    ("signatures", signatures::CASES),
    ("smuggling", smuggling::CASES),
    ("http2", http2::CASES),
    ("hello", hello::CASES),
    ("bounds", bounds::CASES),
];

/// Two cases at a time: the machines this runs on have two processors.
const PARALLEL: usize = 2;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(PARALLEL);
    let selected = selected(&arguments);
    if arguments.list || selected.is_empty() {
        return libtest_mimic::run(&arguments, trials(selected, &Arc::default())).exit_code();
    }
    rig::enter();
    internet::start();
    let clock = Arc::new(Clock { left: AtomicUsize::new(selected.len()), spent: Mutex::default() });
    let conclusion = libtest_mimic::run(&arguments, trials(selected, &clock));
    rig::remove_files();
    conclusion.exit_code()
}

/// The cases that the arguments ask for, as (group, case).
fn selected(arguments: &Arguments) -> Vec<(&'static str, Case)> {
    let all = GROUPS.iter().flat_map(|(group, cases)| cases.iter().map(move |case| (*group, *case)));
    all.filter(|(group, (name, _))| !arguments.is_filtered_out(&Trial::test(format!("{group}::{name}"), || Ok(()))))
        .collect()
}

fn trials(selected: Vec<(&'static str, Case)>, clock: &Arc<Clock>) -> Vec<Trial> {
    let trial = |(group, (name, case)): (&'static str, Case)| {
        let clock = clock.clone();
        Trial::test(format!("{group}::{name}"), move || {
            let _running = clock.start(group);
            case();
            Ok(())
        })
    };
    selected.into_iter().map(trial).collect()
}

/// How long each group took; printed when its last case ends, so that the result stays the last line.
#[derive(Default)]
struct Clock {
    left: AtomicUsize,
    spent: Mutex<BTreeMap<&'static str, Duration>>,
}

struct Running<'a> {
    clock: &'a Clock,
    group: &'static str,
    since: Instant,
}

impl Clock {
    fn start(&self, group: &'static str) -> Running<'_> {
        Running { clock: self, group, since: Instant::now() }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut spent = self.clock.spent.lock().unwrap();
        *spent.entry(self.group).or_default() += self.since.elapsed();
        if self.clock.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let minutes = spent.iter().map(|(group, time)| format!("{group} {:.2}", time.as_secs_f64() / 60.0));
            eprintln!("minutes: {}", minutes.collect::<Vec<_>>().join(", "));
        }
    }
}
