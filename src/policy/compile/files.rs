//! What the policy says about files.

use super::super::document::RawFiles;
use super::super::files::{FileLimits, FilePath, FilePolicy, UnixSockets};
use super::super::mistake::{At, Collector, Warning};
use super::agreed;

/// The policy about files; what is permitted and probably not meant goes to `warnings`.
pub(super) fn files(raw: &RawFiles, mistakes: &mut Collector, warnings: &mut Vec<Warning>) -> FilePolicy {
    let disabled = agreed(&raw.disabled, "files.disabled", mistakes).is_some_and(|disabled| *disabled);
    let allow_git_config = agreed(&raw.allow_git_config, "files.allow_git_config", mistakes).copied();
    let unix_sockets = unix_sockets(&raw.unix_sockets, warnings);
    if disabled {
        refuse_limits(raw, mistakes);
        return FilePolicy { limits: None, unix_sockets };
    }
    let Some(given) = raw.given.first() else { return FilePolicy { limits: None, unix_sockets } };
    if raw.allow_write.is_empty() {
        let what = "nothing names what may be written, so no file may be: allow_write = [\".\"] opens the working directory, \
                    disabled = true ends every limit";
        warnings.push(Warning { place: given.place.clone(), what: what.to_owned() });
    }
    warn_of_useless(raw, warnings);
    let paths = |list: &[At<FilePath>]| list.iter().map(|path| path.value.clone()).collect();
    let limits = FileLimits {
        allow_write: paths(&raw.allow_write),
        deny_write: paths(&raw.deny_write),
        deny_read: paths(&raw.deny_read),
        allow_read: paths(&raw.allow_read),
        allow_git_config: allow_git_config.unwrap_or(false),
    };
    FilePolicy { limits: Some(limits), unix_sockets }
}

/// A limit that is switched off would be read as one that holds.
fn refuse_limits(raw: &RawFiles, mistakes: &mut Collector) {
    for (name, list) in [
        ("allow_write", &raw.allow_write),
        ("deny_write", &raw.deny_write),
        ("deny_read", &raw.deny_read),
        ("allow_read", &raw.allow_read),
    ] {
        if let Some(first) = list.first() {
            let what = format!("`files.{name}` has no effect beside disabled = true");
            mistakes.add(&first.place, what, "take one of them out");
        }
    }
}

fn unix_sockets(raw: &[At<UnixSockets>], warnings: &mut Vec<Warning>) -> UnixSockets {
    let mut listed = Vec::new();
    for sockets in raw {
        match &sockets.value {
            UnixSockets::Masked => {}
            UnixSockets::Listed(paths) => {
                for path in paths {
                    warnings.push(warning(sockets, &format!("the socket {path} is shown to the command")));
                }
                listed.extend(paths.iter().cloned());
            }
            UnixSockets::All => {
                warnings.push(warning(sockets, "every socket of the host is shown to the command"));
                return UnixSockets::All;
            }
        }
    }
    if listed.is_empty() { UnixSockets::Masked } else { UnixSockets::Listed(listed) }
}

fn warning(sockets: &At<UnixSockets>, shown: &str) -> Warning {
    let what = format!(
        "{shown}: what its program does for whoever connects (run containers, sign, reach the network) it does for the \
         command, past this policy"
    );
    Warning { place: sockets.place.clone(), what }
}

fn warn_of_useless(raw: &RawFiles, warnings: &mut Vec<Warning>) {
    if let Some(first) = raw.allow_read.first().filter(|_| raw.deny_read.is_empty()) {
        let what = "allow_read changes nothing without deny_read: everything but credential stores is shown".to_owned();
        warnings.push(Warning { place: first.place.clone(), what });
    }
    for both in raw.allow_write.iter().filter(|path| raw.deny_write.iter().any(|deny| deny.value == path.value)) {
        let what = format!("{} is in deny_write too, which beats allow_write: it may not be written", both.value);
        warnings.push(Warning { place: both.place.clone(), what });
    }
}
