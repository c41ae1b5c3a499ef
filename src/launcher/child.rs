//! The command itself: the last steps before it, and the search for it.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigprocmask};

use super::control::{Failure, Layer};
use super::plan::Plan;
use super::seccomp::Filters;
use super::{confine, namespace};

/// What the launcher changed for itself and the command must find as it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inherited {
    pub(super) mask: SigSet,
    pub(super) child_signal_ignored: bool,
}

/// Becomes the command. Returns only with the reason why not.
pub(super) fn run(plan: &Plan, inherited: &Inherited, filters: &Filters) -> Failure {
    match prepare(plan, inherited, filters) {
        Ok(()) => {}
        Err(failure) => return failure,
    }
    match exec(&plan.command, &plan.environment) {
        Err(errno) => Failure::new(Layer::Command, plan.command[0].to_string_lossy(), errno),
    }
}

fn prepare(plan: &Plan, inherited: &Inherited, filters: &Filters) -> Result<(), Failure> {
    let failed = |what: &'static str| move |errno| Failure::new(Layer::Start, what, errno);
    namespace::close_range(3, i32::MAX, true).map_err(failed("closing descriptors"))?;
    // Rust ignores SIGPIPE at start, and an ignored signal stays ignored across exec.
    set_handler(Signal::SIGPIPE, SigHandler::SigDfl).map_err(failed("restoring SIGPIPE"))?;
    if inherited.child_signal_ignored {
        set_handler(Signal::SIGCHLD, SigHandler::SigIgn).map_err(failed("restoring SIGCHLD"))?;
    }
    confine::limit_command(plan, filters)?;
    prctl::set_dumpable(true).map_err(failed("becoming dumpable"))?;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&inherited.mask), None).map_err(failed("restoring the signal mask"))
}

/// Sets what a signal does; answers with what it did.
pub(super) fn set_handler(signal: Signal, handler: SigHandler) -> Result<SigHandler, Errno> {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    namespace::set_handler(signal, &action).map(|before| before.handler())
}

/// Finds and starts a program as a shell would: a name with a slash is a path, others are looked up in PATH; a script
/// without `#!` is one for `sh`.
fn exec(command: &[OsString], environment: &[(OsString, OsString)]) -> Result<Infallible, Errno> {
    let arguments = strings(command.iter().cloned())?;
    let environment_strings = strings(environment.iter().map(|(name, value)| {
        let mut entry = name.clone();
        entry.push("=");
        entry.push(value);
        entry
    }))?;
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    /// What a directory of PATH may answer without ending the search.
    const ABSENT: [Errno; 5] = [Errno::ENOENT, Errno::ENOTDIR, Errno::ESTALE, Errno::ENODEV, Errno::ETIMEDOUT];
    let mut answer = Errno::ENOENT;
    for candidate in candidates(&command[0], path) {
        let program = CString::new(candidate.into_vec()).map_err(|_| Errno::EINVAL)?;
        let Err(errno) = nix::unistd::execve(&program, &arguments, &environment_strings);
        if errno == Errno::ENOEXEC {
            return shell(program, &arguments, &environment_strings);
        }
        // Looked for further on, but remembered: found and not executable is not "not found".
        if errno == Errno::EACCES {
            answer = errno;
        } else if !ABSENT.contains(&errno) {
            return Err(errno);
        }
    }
    Err(answer)
}

/// The paths to try, in order. Without PATH the one that POSIX names.
fn candidates(name: &OsStr, path: Option<&OsStr>) -> Vec<OsString> {
    if name.as_bytes().contains(&b'/') || name.is_empty() {
        return vec![name.to_owned()];
    }
    let path = path.unwrap_or(OsStr::new("/bin:/usr/bin"));
    let directories = path.as_bytes().split(|byte| *byte == b':');
    let full = |directory: &[u8]| {
        let directory = if directory.is_empty() { &b"."[..] } else { directory };
        OsString::from_vec([directory, b"/", name.as_bytes()].concat())
    };
    directories.map(full).collect()
}

fn shell(script: CString, arguments: &[CString], environment: &[CString]) -> Result<Infallible, Errno> {
    let mut all = vec![c"sh".to_owned(), script];
    all.extend(arguments.iter().skip(1).cloned());
    nix::unistd::execve(c"/bin/sh", &all, environment)
}

fn strings(texts: impl Iterator<Item = OsString>) -> Result<Vec<CString>, Errno> {
    texts.map(|text| CString::new(text.into_vec()).map_err(|_| Errno::EINVAL)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_in_path_and_a_path_is_not() {
        assert_eq!(candidates("ls".as_ref(), Some("/a::/b".as_ref())), ["/a/ls", "./ls", "/b/ls"]);
        assert_eq!(candidates("./ls".as_ref(), Some("/a".as_ref())), ["./ls"]);
        assert_eq!(candidates("ls".as_ref(), None), ["/bin/ls", "/usr/bin/ls"]);
    }
}
