//! The launcher's main thread while the command runs: signals in, the exit code out.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::Pid;

use super::control::{Control, Order, Report};
use super::{child, namespace};

/// How long a command may go on after the SIGTERM at its timeout.
const GRACE: Duration = Duration::from_secs(5);

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// The command ended with this code.
    Exited(u8),
    /// The command was ended by this signal.
    Signalled(i32),
    /// The time was up; the command was ended.
    TimedOut,
}

impl ExitStatus {
    /// The code as a shell shows it: 128 and the signal's number; 124 for a timeout, as timeout(1) has it.
    pub fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Signalled(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
            Self::TimedOut => 124,
        }
    }
}

/// Whether pid 1 told the end itself. Before it does, it ends every other process of the sandbox.
pub(super) enum End {
    /// It did.
    Told(ExitStatus),
    /// It did not, and may be running.
    Untold(ExitStatus),
}

/// Passes signals on and stops with the command until it ends.
pub(super) fn until_end(control: &Control, timeout: Option<Duration>, hangup: Option<&dyn Fn()>) -> End {
    let mut deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut timed_out = false;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    // Without it only signals are lost: the end of the command still comes by the control socket.
    let signals = SignalFd::with_flags(&SigSet::all(), flags).ok();
    loop {
        wait(control, signals.as_ref(), deadline);
        while let Some(signal) = signals.as_ref().and_then(|signals| signals.read_signal().ok().flatten()) {
            if !is_for_command(&signal) {
                continue;
            }
            if let Some(hangup) = hangup.filter(|_| signal.ssi_signo == libc::SIGHUP.cast_unsigned()) {
                hangup();
            } else {
                let _ = control.send(&Order::Signal(signal.ssi_signo.cast_signed()), &[]);
            }
        }
        if readable(control) {
            match control.receive() {
                Ok(Some((Report::Exited(_) | Report::Killed(_), _))) if timed_out => {
                    return End::Told(ExitStatus::TimedOut);
                }
                Ok(Some((Report::Exited(code), _))) => return End::Told(ExitStatus::Exited(code)),
                Ok(Some((Report::Killed(signal), _))) => return End::Told(ExitStatus::Signalled(signal)),
                Ok(Some((Report::Stopped(signal), _))) => stop_too(signal),
                Ok(Some((Report::Listening(_) | Report::Ready | Report::Started, _))) => {}
                // Pid 1 was killed, and everything with it.
                Ok(Some((Report::Failed(_), _)) | None) | Err(_) => return End::Untold(ended_without_word(timed_out)),
            }
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            if timed_out {
                return End::Untold(ExitStatus::TimedOut);
            }
            timed_out = true;
            deadline = Some(Instant::now() + GRACE);
            let _ = control.send(&Order::Signal(libc::SIGTERM), &[]);
            let _ = control.send(&Order::Signal(libc::SIGCONT), &[]);
        }
    }
}

fn ended_without_word(timed_out: bool) -> ExitStatus {
    if timed_out { ExitStatus::TimedOut } else { ExitStatus::Signalled(libc::SIGKILL) }
}

fn wait(control: &Control, signals: Option<&SignalFd>, deadline: Option<Instant>) {
    let mut waiting = vec![PollFd::new(control.descriptor().as_fd(), PollFlags::POLLIN)];
    waiting.extend(signals.map(|signals| PollFd::new(signals.as_fd(), PollFlags::POLLIN)));
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
    let timeout = left.map_or(PollTimeout::NONE, |left| PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
    // An interrupted or failed wait is tried again by the caller's loop.
    let _ = poll(&mut waiting, timeout);
}

fn readable(control: &Control) -> bool {
    let mut waiting = [PollFd::new(control.descriptor().as_fd(), PollFlags::POLLIN)];
    matches!(poll(&mut waiting, PollTimeout::ZERO), Ok(1..))
}

/// A signal of the terminal went to the whole process group, the command included; what this process caused itself is
/// its own. Only what somebody sent to the launcher is passed on.
fn is_for_command(signal: &siginfo) -> bool {
    const KERNEL: i32 = 0x80;
    let own = signal.ssi_pid == std::process::id();
    let child_ended = signal.ssi_signo == libc::SIGCHLD.cast_unsigned();
    signal.ssi_code != KERNEL && !own && !child_ended
}

/// Stops by the signal that stopped the command, so that the shell sees its job stop. The signal that continues this
/// process is passed on like any other.
fn stop_too(signal: i32) {
    let Ok(signal) = Signal::try_from(signal) else { return };
    let only = SigSet::from(signal);
    if signal == Signal::SIGSTOP {
        let _ = nix::sys::signal::kill(Pid::this(), signal);
        return;
    }
    let _ = child::set_handler(signal, SigHandler::SigDfl);
    let _ = nix::sys::signal::kill(Pid::this(), signal);
    let _ = only.thread_unblock();
    let _ = only.thread_block();
}

/// Kills a sandbox and waits until its pid 1, and with it every process in it, is gone.
pub(super) fn kill(pid1: Pid) {
    let _ = namespace::kill(pid1, libc::SIGKILL);
    while matches!(namespace::reap(Some(pid1), 0), Err(Errno::EINTR)) {}
}
