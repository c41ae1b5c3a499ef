//! Starts a command in a network namespace that holds only `lo`, with the proxy's listeners in it.
//!
//! The calls, all on the main thread, in this order:
//!
//! 1. [`invoking_user`], and when the files that steer the run are open [`Identity::assume`]; then [`check_standard_streams`];
//! 2. [`clone_sandbox`], before any thread exists and before any secret is read: pid 1 has a copy of this memory;
//! 3. [`Newborn::configure`] with a [`Plan`]; the answer is the [`Listeners`] to accept on;
//! 4. [`Newborn::release`] when the proxy accepts;
//! 5. [`Newborn::supervise`] until the command ends.
//!
//! Dropping a [`Newborn`] kills everything in the sandbox. There is nothing to clean up on the host: no link, rule or mount is
//! made there, and no file but the [`Placeholders`] of a policy that denies names, which go with the value.

mod checks;
mod child;
mod confine;
mod control;
mod diagnose;
mod files;
mod hiding;
mod homes;
mod identity;
mod limits;
mod masks;
mod mountinfo;
mod mounts;
mod namespace;
mod netlink;
mod network;
mod nftables;
mod open;
mod overrides;
mod pid1;
mod pins;
mod plan;
mod private;
pub mod probe;
mod root;
mod seccomp;
mod streams;
mod supervise;
mod terminals;

use std::fmt::Display;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::{Pid, getegid, geteuid};

pub use checks::{Bounds, CheckError, guard_audit, guard_secret, opened_as, working_directory};
pub use control::{CaptureMode, Layer};
pub use diagnose::LaunchError;
pub use files::{Around, FileRules, FilesError, Placeholders, sockets_shown};
pub use homes::all_homes;
pub use identity::{Identity, invoking_user};
pub use masks::{MaskError, StorePaths, credential_paths, host_sockets, stray_sockets};
pub use mountinfo::everywhere;
pub use namespace::variable_names;
pub use network::{CAPTURE_PORT, EXPLICIT_PORT, OWN_IPV4, OWN_IPV6};
pub use open::{Links, OpenError, OpenedFile, Purpose, open_file};
pub use pins::{can_keep_unchanged, links, pins};
pub use plan::{EnvironmentError, FilePlan, HostSockets, PRIVATE_DIRECTORY, Placed, Plan, environment};
pub use private::private_directories;
pub use streams::check_standard_streams;
use supervise::End;
pub use supervise::ExitStatus;

use child::Inherited;
use control::{Control, Failure, ListenerCounts, Order, Report, write_plan};
use diagnose::{Host, explain};

/// The listeners of a sandbox, opened inside and not blocking. Accepting on them needs no right in the sandbox.
#[derive(Debug)]
pub struct Listeners {
    /// How a captured connection shows its destination.
    pub mode: CaptureMode,
    /// Captured connections.
    pub tcp: Vec<TcpListener>,
    /// DNS over TCP, on every address.
    pub dns_tcp: Vec<TcpListener>,
    /// DNS over UDP, on every address. A datagram's own destination comes as `IP_PKTINFO` or `IPV6_PKTINFO`; answers
    /// must leave from it.
    pub dns_udp: Vec<UdpSocket>,
    /// The explicit proxy's, on loopback.
    pub explicit: Vec<TcpListener>,
}

/// A sandbox with a pid 1 and nothing else in it yet. Dropping it kills it.
#[derive(Debug)]
pub struct Newborn {
    pid1: Pid,
    control: Control,
    /// Pid 1 has said that it is the last process and goes, too.
    has_ended: bool,
    /// How many descriptors this process may have open now: its hard limit.
    pub descriptor_limit: u64,
}

/// Makes the namespaces and their pid 1, and writes the identity maps. From here on all signals are blocked in this
/// process (the main thread takes them in [`Newborn::supervise`]), its memory is closed to others of the same user, and
/// its soft bound on descriptors is the hard one. The calling thread must live as long as the sandbox: pid 1 is tied to it.
///
/// # Errors
///
/// The layer, the cause and the cure.
pub fn clone_sandbox() -> Result<Newborn, LaunchError> {
    make(pid1::main).map_err(|failure| explain(failure, &Host::read()))
}

/// `body` is what pid 1 does with its end of the conversation.
fn make(body: fn(&Control, &Inherited) -> !) -> Result<Newborn, Failure> {
    let failed = |what: &'static str| move |errno| Failure::new(Layer::Namespaces, what, errno);
    let (ours, theirs) = Control::pair().map_err(failed("making a socket pair"))?;
    let mut mask = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut mask)).map_err(failed("blocking signals"))?;
    // An ignored SIGCHLD, which a parent may leave behind, would take the exit codes away.
    let before = child::set_handler(Signal::SIGCHLD, SigHandler::SigDfl).map_err(failed("watching for the end"))?;
    let inherited = Inherited { mask, child_signal_ignored: matches!(before, SigHandler::SigIgn) };
    let Some(pid1) =
        namespace::clone_into_namespaces().map_err(failed("creating user, mount, process and other namespaces"))?
    else {
        drop(ours);
        born(&theirs, &inherited, body)
    };
    let newborn =
        Newborn { pid1, control: ours, has_ended: false, descriptor_limit: confine::raise_descriptor_limit() };
    drop(theirs);
    newborn.write_maps()?;
    newborn.order(&Order::Mapped, &[])?;
    let failed = |what: &'static str| move |errno| Failure::new(Layer::Privileges, what, errno);
    prctl::set_dumpable(false).map_err(failed("hiding the launcher's memory"))?;
    confine::no_core_dumps().map_err(failed("forbidding core dumps"))?;
    Ok(newborn)
}

/// Pid 1, before all else: until here it has the launcher's network.
fn born(control: &Control, inherited: &Inherited, body: fn(&Control, &Inherited) -> !) -> ! {
    match namespace::enter_empty_network() {
        Ok(()) => body(control, inherited),
        Err(errno) => {
            let failure = Failure::new(Layer::Namespaces, "creating a network namespace", errno);
            // If the launcher is gone there is nobody to tell.
            let _ = control.send(&Report::Failed(failure), &[]);
            namespace::exit_now(1)
        }
    }
}

impl Newborn {
    /// Sends the plan and takes the listeners in; pid 1 goes on with the mounts. Call it when the plan is final: once.
    ///
    /// # Errors
    ///
    /// The layer, the cause and the cure.
    pub fn configure(&self, plan: &Plan) -> Result<Listeners, LaunchError> {
        self.set_up(plan).map_err(|failure| explain(failure, &Host::read()))
    }

    /// Waits for the mounts and starts the command; returns when it has become its program. Standard input and output are
    /// the command's alone from here on: this process would keep a pipe open that the command has closed.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Command`] when the program is missing or cannot be run; else the layer that failed.
    pub fn release(&self) -> Result<(), LaunchError> {
        let start = || {
            match self.report()? {
                (Report::Ready, _) => self.order(&Order::Release, &[])?,
                (other, _) => return Err(unexpected(&other)),
            }
            match self.report()? {
                (Report::Started, _) => let_go_of_pipes(),
                other => Err(unexpected(&other.0)),
            }
        };
        start().map_err(|failure| explain(failure, &Host::read()))
    }

    /// Passes signals to the command and stops with it, until it ends or `timeout` is over. A SIGHUP that somebody sends is
    /// for `hangup`, where there is one; that of a terminal which is gone never is. Nothing of the sandbox runs on
    /// when this returns. Its pid 1 may still be taking the mounts down, which takes the kernel a few milliseconds.
    pub fn supervise(mut self, timeout: Option<Duration>, hangup: Option<&dyn Fn()>) -> ExitStatus {
        match supervise::until_end(&self.control, timeout, hangup) {
            End::Told(status) => {
                self.has_ended = true;
                status
            }
            End::Untold(status) => status,
        }
    }

    fn set_up(&self, plan: &Plan) -> Result<Listeners, Failure> {
        let (memory, length) =
            write_plan(plan).map_err(|error| Failure::io(Layer::Control, "writing the plan", &error))?;
        self.order(&Order::Configure(length), &[memory.as_raw_fd()])?;
        match self.report()? {
            (Report::Listening(counts), descriptors) => sort(counts, descriptors),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Maps the one user and group to themselves. `setgroups` must be given up first, else the kernel refuses.
    fn write_maps(&self) -> Result<(), Failure> {
        let (uid, gid) = (geteuid(), getegid());
        self.write("setgroups", &"deny")?;
        self.write("uid_map", &format_args!("{uid} {uid} 1"))?;
        self.write("gid_map", &format_args!("{gid} {gid} 1"))
    }

    fn write(&self, file: &str, content: &dyn Display) -> Result<(), Failure> {
        let path = format!("/proc/{}/{file}", self.pid1);
        std::fs::write(Path::new(&path), content.to_string()).map_err(|error| {
            self.last_word().unwrap_or(Failure::io(Layer::IdentityMap, format!("writing {file}"), &error))
        })
    }

    /// Why pid 1 has ended, where it has: then what is done to it fails for that reason.
    fn last_word(&self) -> Option<Failure> {
        let mut waiting = [PollFd::new(self.control.descriptor().as_fd(), PollFlags::POLLIN)];
        let told = poll(&mut waiting, PollTimeout::ZERO).is_ok_and(|ready| ready > 0);
        told.then(|| self.report().err()).flatten()
    }

    fn order(&self, order: &Order, descriptors: &[i32]) -> Result<(), Failure> {
        match self.control.send(order, descriptors) {
            Ok(()) => Ok(()),
            // It is gone, but it may have said why.
            Err(Errno::EPIPE | Errno::ECONNRESET) => {
                let (other, _) = self.report()?;
                Err(unexpected(&other))
            }
            Err(errno) => Err(Failure::new(Layer::Control, "telling pid 1", errno)),
        }
    }

    fn report(&self) -> Result<(Report, Vec<OwnedFd>), Failure> {
        match self.control.receive() {
            Ok(Some((Report::Failed(failure), _))) => Err(failure),
            Ok(Some(report)) => Ok(report),
            Ok(None) => Err(Failure::text(Layer::Control, "it ended without a word")),
            Err(errno) => Err(Failure::new(Layer::Control, "hearing pid 1", errno)),
        }
    }
}

impl Drop for Newborn {
    fn drop(&mut self) {
        if !self.has_ended {
            supervise::kill(self.pid1);
        }
    }
}

fn unexpected(report: &Report) -> Failure {
    Failure::text(Layer::Control, format!("it said {report:?} out of turn"))
}

/// Gives the descriptors their kinds, in the order in which they were sent.
fn sort(counts: ListenerCounts, descriptors: Vec<OwnedFd>) -> Result<Listeners, Failure> {
    let ListenerCounts { mode, tcp, dns_tcp, dns_udp, explicit } = counts;
    if descriptors.len() != tcp + dns_tcp + dns_udp + explicit {
        return Err(Failure::text(Layer::Control, "some listeners did not arrive; raise `ulimit -n`"));
    }
    let mut rest = descriptors.into_iter();
    Ok(Listeners {
        mode,
        tcp: rest.by_ref().take(tcp).map(TcpListener::from).collect(),
        dns_tcp: rest.by_ref().take(dns_tcp).map(TcpListener::from).collect(),
        dns_udp: rest.by_ref().take(dns_udp).map(UdpSocket::from).collect(),
        explicit: rest.map(TcpListener::from).collect(),
    })
}

fn let_go_of_pipes() -> Result<(), Failure> {
    let let_go = || -> std::io::Result<()> {
        let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
        nix::unistd::dup2_stdin(&null)?;
        Ok(nix::unistd::dup2_stdout(&null)?)
    };
    let_go().map_err(|error| Failure::io(Layer::Start, "letting go of the command's pipes", &error))
}
