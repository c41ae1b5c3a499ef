//! The first process of a sandbox. It sets everything up, starts the command, reaps, passes signals on, and takes the
//! sandbox with it when it goes: with its launcher, or with the command.

use std::io::{PipeReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, geteuid};

use super::child::{self, Inherited};
use super::control::{Control, Failure, Layer, Order, Report, read_plan};
use super::plan::Plan;
use super::seccomp::Filters;
use super::{confine, mounts, namespace, network};

/// Runs pid 1, from birth to end.
pub(super) fn main(control: &Control, inherited: &Inherited) -> ! {
    namespace::wipe_environment();
    let code = match live(control, inherited) {
        Ok(()) => 0,
        Err(failure) => {
            // If the launcher is gone there is nobody to tell.
            let _ = control.send(&Report::Failed(failure), &[]);
            1
        }
    };
    namespace::exit_now(code)
}

/// `Ok` is the end of the conversation or of the command.
fn live(control: &Control, inherited: &Inherited) -> Result<(), Failure> {
    close_inherited(control)?;
    let Some((Order::Mapped, _)) = next(control)? else { return Ok(()) };
    tie_to_launcher()?;
    // Before the plan comes: this takes a while, and the launcher is making the plan meanwhile.
    mounts::fresh_proc()?;
    let mut sockets = network::set_up()?;
    let filters = Filters::for_user(geteuid().is_root())?;
    let Some((Order::Configure(length), memory)) = next(control)? else { return Ok(()) };
    let memory = memory.into_iter().next().ok_or_else(|| Failure::text(Layer::Control, "the plan did not arrive"))?;
    let (plan, contents) =
        read_plan(memory, length).map_err(|error| Failure::io(Layer::Control, "reading the plan", &error))?;
    sockets.listen_on(&plan.ports)?;
    tell(control, &Report::Listening(sockets.counts()), &sockets.descriptors())?;
    // Closed here: when the proxy is gone, a connection must be refused, not wait in a queue that nobody serves.
    drop(sockets);
    let _kept = mounts::set_up(&plan, &contents)?;
    tell(control, &Report::Ready, &[])?;
    let Some((Order::Release, _)) = next(control)? else { return Ok(()) };
    confine::drop_privileges()?;
    let command = start(&plan, inherited, &filters)?;
    tell(control, &Report::Started, &[])?;
    let _ = let_go_of_terminal();
    watch(control, command)
}

fn next(control: &Control) -> Result<Option<(Order, Vec<std::os::fd::OwnedFd>)>, Failure> {
    control.receive().map_err(|errno| Failure::new(Layer::Control, "hearing the launcher", errno))
}

fn tell(control: &Control, report: &Report, descriptors: &[i32]) -> Result<(), Failure> {
    control.send(report, descriptors).map_err(|errno| Failure::new(Layer::Control, "telling the launcher", errno))
}

/// Everything but the terminal and the control socket: what the launcher has open is none of the sandbox's business.
fn close_inherited(control: &Control) -> Result<(), Failure> {
    let kept = control.descriptor().as_raw_fd();
    let below = if kept > 3 { namespace::close_range(3, kept - 1, false) } else { Ok(()) };
    below
        .and_then(|()| namespace::close_range(kept + 1, i32::MAX, false))
        .map_err(|errno| Failure::new(Layer::Privileges, "closing descriptors", errno))
}

/// Dies with the launcher, and shows its memory to nobody. Only now: while the maps are written, /proc must show this
/// process as the user's own.
fn tie_to_launcher() -> Result<(), Failure> {
    let failed = |what: &'static str| move |errno| Failure::new(Layer::Privileges, what, errno);
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(failed("tying pid 1 to its launcher"))?;
    prctl::set_dumpable(false).map_err(failed("hiding the memory of pid 1"))?;
    confine::no_core_dumps().map_err(failed("forbidding core dumps"))?;
    prctl::set_name(c"sandbox-init").map_err(failed("naming pid 1"))
}

/// Starts the command and waits until it has, or has not, become its program.
fn start(plan: &Plan, inherited: &Inherited, filters: &Filters) -> Result<Pid, Failure> {
    let failed = |error: std::io::Error| Failure::io(Layer::Start, "forking", &error);
    let (outcome, mut report) = std::io::pipe().map_err(failed)?;
    let Some(child) = namespace::fork().map_err(|errno| failed(errno.into()))? else {
        let failure = child::run(plan, inherited, filters);
        let _ = serde_json::to_vec(&failure).map(|bytes| report.write_all(&bytes));
        namespace::exit_now(127)
    };
    drop(report);
    read_failure(outcome).map_or(Ok(child), Err)
}

/// Nothing when the pipe was closed by exec.
fn read_failure(mut outcome: PipeReader) -> Option<Failure> {
    let mut bytes = Vec::new();
    let read = outcome.read_to_end(&mut bytes);
    if matches!(read, Ok(0)) {
        return None;
    }
    let unread = || Failure::text(Layer::Start, "the command's process ended before it became its program");
    Some(serde_json::from_slice(&bytes).unwrap_or_else(|_| unread()))
}

/// Pid 1 must not hold the other end of anybody's pipe.
fn let_go_of_terminal() -> std::io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    Ok(nix::unistd::dup2_stderr(&null)?)
}

/// Reaps and obeys until the command or the launcher ends.
fn watch(control: &Control, command: Pid) -> Result<(), Failure> {
    let failed = |errno| Failure::new(Layer::Control, "waiting", errno);
    let signals =
        SignalFd::with_flags(&SigSet::all(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).map_err(failed)?;
    loop {
        if let Some(end) = reap(control, command)? {
            end_all();
            return tell(control, &end, &[]);
        }
        let mut waiting = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(control.descriptor().as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut waiting, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let ordered = waiting[1].any() == Some(true);
        while let Ok(Some(_)) = signals.read_signal() {}
        if ordered {
            match next(control)? {
                Some((Order::Signal(signal), _)) => {
                    // The command may just have ended; then there is nobody to tell.
                    let _ = namespace::kill(command, signal);
                }
                Some((Order::Mapped | Order::Configure(_) | Order::Release, _)) | None => return Ok(()),
            }
        }
    }
}

/// Ends what the command has left running, so that nothing of the sandbox acts any more when its end is told.
fn end_all() {
    const EVERY_OTHER: Pid = Pid::from_raw(-1);
    // Whoever is left becomes a child of pid 1 when its parent goes.
    let _ = namespace::kill(EVERY_OTHER, libc::SIGKILL);
    while !matches!(namespace::reap(None, 0), Err(Errno::ECHILD)) {}
}

/// Takes every child that has ended; answers with the command's end. Its stops are told on the way, for job control.
fn reap(control: &Control, command: Pid) -> Result<Option<Report>, Failure> {
    loop {
        match namespace::reap(None, libc::WNOHANG | libc::WUNTRACED) {
            Ok(Some((child, status))) if child == command => {
                if libc::WIFEXITED(status) {
                    let code = u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX);
                    return Ok(Some(Report::Exited(code)));
                }
                if libc::WIFSIGNALED(status) {
                    return Ok(Some(Report::Killed(libc::WTERMSIG(status))));
                }
                tell(control, &Report::Stopped(libc::WSTOPSIG(status)), &[])?;
            }
            Ok(Some(_)) | Err(Errno::EINTR) => {}
            Ok(None) | Err(_) => return Ok(None),
        }
    }
}
