//! Tries each layer of a sandbox for real, for `doctor`: the functions that make a sandbox, in one that runs nothing.

use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use super::child::Inherited;
use super::control::{Control, Failure, Layer, Order};
use super::diagnose::{Host, LaunchError, explain};
use super::network::CAPTURE_PORT;
use super::plan::{FilePlan, HostSockets, Plan};
use super::seccomp::Filters;
use super::{confine, make, mounts, namespace, network, nftables};

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// User, network, mount, process, IPC, UTS and cgroup namespaces.
    Namespaces,
    /// A fresh /proc.
    Proc,
    /// `lo` with its addresses and routes.
    Network,
    /// IPv6 in the sandbox.
    Ipv6,
    /// Capture of every port by TPROXY.
    Tproxy,
    /// Capture of every port by REDIRECT.
    Redirect,
    /// DNS, explicit and capture listeners.
    Listeners,
    /// Private directories, files of ours, masks.
    Mounts,
    /// Files of ours by overlay.
    Overlay,
    /// Capabilities, securebits, no_new_privs.
    Privileges,
    /// Landlock.
    Landlock,
    /// What a policy's limits on files take.
    Files,
    /// The system call filters.
    Seccomp,
}

/// How a part fares on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It works; what is worth knowing about it.
    Works(String),
    /// It does not, and a sandbox does without: what that means.
    Lesser(String),
    /// It does not, and no sandbox starts.
    Missing(LaunchError),
}

/// One line of a child's report.
#[derive(Debug, Serialize, Deserialize)]
enum Tried {
    Works(String),
    Lesser(String),
    Missing(Failure),
}

/// Tries everything. Call it once, before any thread exists; afterwards this process is as after
/// [`super::clone_sandbox`].
pub fn layers() -> Vec<(Part, Health)> {
    let host = Host::read();
    let made = make(body).and_then(|newborn| {
        let heard = newborn.control.receive::<Vec<(Part, Tried)>>();
        heard.map_err(|errno| Failure::new(Layer::Control, "hearing pid 1", errno))
    });
    match made {
        Ok(Some((findings, _))) => {
            let first = (Part::Namespaces, Health::Works(String::new()));
            std::iter::once(first)
                .chain(findings.into_iter().map(|(part, tried)| (part, tried.health(&host))))
                .collect()
        }
        Ok(None) => {
            let failure = Failure::text(Layer::Control, "it ended without a word");
            vec![(Part::Namespaces, Health::Missing(explain(failure, &host)))]
        }
        Err(failure) => vec![(Part::Namespaces, Health::Missing(explain(failure, &host)))],
    }
}

impl Tried {
    fn health(self, host: &Host) -> Health {
        match self {
            Self::Works(note) => Health::Works(note),
            Self::Lesser(note) => Health::Lesser(note),
            Self::Missing(failure) => Health::Missing(explain(failure, host)),
        }
    }

    fn required(result: Result<(), Failure>) -> Self {
        result.map_or_else(Self::Missing, |()| Self::Works(String::new()))
    }
}

fn body(control: &Control, _: &Inherited) -> ! {
    if let Ok(Some((Order::Mapped, _))) = control.receive::<Order>() {
        // If the launcher is gone there is nobody to tell.
        let _ = control.send(&try_all(), &[]);
    }
    namespace::exit_now(0)
}

/// In the order of a real start, since each step takes from the next what it no longer needs.
fn try_all() -> Vec<(Part, Tried)> {
    let mut findings = vec![(Part::Proc, Tried::required(mounts::fresh_proc()))];
    try_network(&mut findings);
    findings.push((Part::Mounts, Tried::required(try_mounts())));
    findings.push((Part::Overlay, overlay()));
    findings.push((Part::Privileges, Tried::required(confine::drop_privileges())));
    findings.push((Part::Landlock, landlock()));
    findings.push((Part::Files, files()));
    findings.push((Part::Seccomp, Tried::required(try_filters())));
    findings
}

fn try_mounts() -> Result<(), Failure> {
    let nothing_placed =
        std::fs::File::open("/dev/null").map_err(|error| Failure::io(Layer::Mounts, "opening /dev/null", &error))?;
    let plan = nothing();
    std::env::set_current_dir(&plan.directory).map_err(|error| Failure::io(Layer::Mounts, "entering /tmp", &error))?;
    mounts::set_up(&plan, &nothing_placed).map(drop)
}

fn try_network(findings: &mut Vec<(Part, Tried)>) {
    let ipv6 = network::enable_ipv6();
    let note = "off on this machine; clients use IPv4";
    let ipv6_note = if ipv6 { Tried::Works(String::new()) } else { Tried::Lesser(note.into()) };
    // In tables of their own, so that the real one can be made beside them.
    let tproxy = nftables::install_tproxy("probe_tproxy", CAPTURE_PORT, ipv6);
    let redirect = nftables::install_redirect("probe_redirect", CAPTURE_PORT, ipv6);
    let capture = |result: Result<(), (&'static str, nix::errno::Errno)>, without: &str| match result {
        Ok(()) => Tried::Works(String::new()),
        Err((what, errno)) => Tried::Lesser(format!("{what}: {}; {without}", errno.desc().to_lowercase())),
    };
    let redirect = capture(redirect, "without it and TPROXY only the policy's ports are captured");
    let tproxy = capture(tproxy, "REDIRECT serves, more slowly with very many connections");
    match network::set_up() {
        Ok(_) => findings
            .extend([(Part::Network, Tried::Works(String::new())), (Part::Listeners, Tried::Works(String::new()))]),
        Err(failure) if failure.layer == Layer::Listeners => {
            findings.extend([(Part::Network, Tried::Works(String::new())), (Part::Listeners, Tried::Missing(failure))]);
        }
        Err(failure) => findings.push((Part::Network, Tried::Missing(failure))),
    }
    findings.extend([(Part::Ipv6, ipv6_note), (Part::Tproxy, tproxy), (Part::Redirect, redirect)]);
}

fn try_filters() -> Result<(), Failure> {
    Filters::for_user(geteuid().is_root())?.install()
}

/// A plan without a command. Real root's limits are tried as well; they need a directory that may be writable.
fn nothing() -> Plan {
    Plan {
        command: Vec::new(),
        directory: "/tmp".into(),
        environment: Vec::new(),
        host_name: "doctor".to_owned(),
        ports: Vec::new(),
        placed: Vec::new(),
        masks: Vec::new(),
        pins: Vec::new(),
        unchanged: Vec::new(),
        runtime_directory: None,
        kept: Vec::new(),
        private_tmp: false,
        real_root: geteuid().is_root(),
        files: None,
        sockets: HostSockets::Masked,
    }
}

fn overlay() -> Tried {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_overlay = |line: &str| line.contains(" /etc ") && line.contains(" - overlay ");
    if table.lines().any(is_overlay) {
        return Tried::Works(String::new());
    }
    Tried::Lesser("refused, so each entry of /etc is bound instead, which starts a little later".into())
}

fn landlock() -> Tried {
    let root = geteuid().is_root();
    match confine::landlock_version() {
        version if root && version < confine::LANDLOCK_FOR_WRITES => Tried::Missing(confine::landlock_is_missing()),
        0 => Tried::Lesser("missing; the namespaces hold alone".into()),
        version => match confine::limit_files(&nothing()) {
            Ok(()) => Tried::Works(format!("interface {version}")),
            Err(failure) => Tried::Missing(failure),
        },
    }
}

/// Limits this process to no file at all, and tries: the null device has to stay open, a new file must not.
fn files() -> Tried {
    const WITHOUT: &str = "a policy with [files] does not start here";
    let plan = Plan { real_root: false, files: Some(FilePlan::default()), ..nothing() };
    if let Err(failure) = confine::limit_files(&plan) {
        return Tried::Lesser(format!("{}; {WITHOUT}", failure.detail));
    }
    let open = |path: &str| std::fs::File::options().write(true).create(true).truncate(false).open(path);
    match (open("/dev/null"), open("/var/tmp/sandbox-proxy-doctor")) {
        (Ok(_), Err(_)) => Tried::Works("limits on what is written and seen, where a policy has [files]".into()),
        (Err(error), _) => Tried::Lesser(format!("/dev/null cannot be written any more: {error}; {WITHOUT}")),
        (_, Ok(_)) => Tried::Lesser(format!("Landlock does not keep what it promises; {WITHOUT}")),
    }
}
