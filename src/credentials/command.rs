//! The standard output of a command, bounded in time and length.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use zeroize::Zeroizing;

use super::source::{MAX_RAW, SourceError};

/// How often it is looked whether the command has ended while something it started holds its output open, in ms.
const LOOK: u16 = 20;

/// The program is ending, and nobody waits for a command any more.
static ENDING: AtomicBool = AtomicBool::new(false);
/// Commands that run.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Ends every command that still runs, with all it started; none is begun any more. For the end of the program: returns when they
/// are gone, within a second.
pub fn end_commands() {
    ENDING.store(true, Ordering::SeqCst);
    let until = Instant::now() + Duration::from_secs(1);
    while RUNNING.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(LOOK.into()) / 4);
    }
}

/// What the command prints, at most [`MAX_RAW`] bytes. It runs in a process group of its own, so that it can be ended with
/// all it started, with nothing on its standard input and the caller's standard error.
///
/// # Errors
/// [`SourceError`]; what the command printed is in none of them.
pub(super) fn output(argv: &[String], timeout: Duration) -> Result<Zeroizing<Vec<u8>>, SourceError> {
    let (program, arguments) = argv.split_first().ok_or(SourceError::CommandEmpty)?;
    let broken = |error| SourceError::CommandStart { program: program.clone(), error };
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let mut running = Running::start(program, arguments, timeout).map_err(|error| match missing(&error) {
        true => SourceError::CommandMissing(program.clone()),
        false => broken(error),
    })?;
    let mut buffer = Zeroizing::new(vec![0; MAX_RAW + 1]);
    let length = match running.read(&mut buffer).map_err(broken)? {
        Some(length) if length > MAX_RAW => return Err(SourceError::TooLong(program.clone())),
        Some(length) => length,
        None => return Err(timed_out(program, timeout)),
    };
    match running.wait().map_err(broken)? {
        // Copied, so that the value does not keep 64 KiB for its whole life.
        Some(status) if status.success() => Ok(Zeroizing::new(buffer[..length].to_vec())),
        Some(status) => Err(SourceError::CommandStatus { program: program.clone(), status }),
        None => Err(timed_out(program, timeout)),
    }
}

fn timed_out(program: &str, timeout: Duration) -> SourceError {
    SourceError::CommandTimeout { program: program.to_owned(), seconds: timeout.as_secs() }
}

/// A command that is killed, with its process group, unless it was waited for.
struct Running {
    child: Child,
    stdout: ChildStdout,
    status: Option<ExitStatus>,
    deadline: Instant,
}

impl Running {
    fn start(program: &str, arguments: &[String], timeout: Duration) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        RUNNING.fetch_add(1, Ordering::SeqCst);
        let stdout = child.stdout.take().expect("standard output was asked for as a pipe");
        Ok(Self { child, stdout, status: None, deadline: Instant::now() + timeout })
    }

    /// Fills the buffer until it is full or the output ends, which is also when the command has ended and nothing is left to
    /// read: a helper that it leaves behind may hold the pipe for ever. `None` at the deadline.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut length = 0;
        while length < buffer.len() {
            if self.is_over() {
                return Ok(None);
            }
            let ended = self.ended()?;
            if !self.readable()? {
                if ended {
                    break;
                }
                continue;
            }
            match self.stdout.read(&mut buffer[length..])? {
                0 => break,
                read => length += read,
            }
        }
        Ok(Some(length))
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline || ENDING.load(Ordering::SeqCst)
    }

    fn readable(&self) -> io::Result<bool> {
        let mut wanted = [PollFd::new(self.stdout.as_fd(), PollFlags::POLLIN)];
        match poll(&mut wanted, PollTimeout::from(LOOK)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn ended(&mut self) -> io::Result<bool> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status.is_some())
    }

    /// How it ended; `None` at the deadline.
    fn wait(&mut self) -> io::Result<Option<ExitStatus>> {
        while !self.ended()? && !self.is_over() {
            // It has closed its output, so it is about to end; there is no portable call that waits with a deadline.
            thread::sleep(Duration::from_millis(1));
        }
        Ok(self.status)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.status.is_none() {
            let group = i32::try_from(self.child.id()).map(Pid::from_raw);
            // Both can only fail when it is gone already.
            let _ = group.map(|group| killpg(group, Signal::SIGKILL));
            let _ = self.child.wait();
        }
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}
