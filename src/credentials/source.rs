//! Reading a secret from where the user keeps it. No error holds a value, or any part of one.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use zeroize::Zeroizing;

use crate::policy::CommandSource;
use crate::types::{Secret, SecretError};

use super::command;
use super::issue::{AnswerError, IssueError, Issued, Issuer, Issuing, Reading};

/// The most that a file or command may give, in bytes: the longest value and a final CRLF.
pub(super) const MAX_RAW: usize = Secret::MAX_LEN + 2;

/// Where a secret's value is.
#[derive(Debug)]
pub enum Source {
    /// In an environment variable of the proxy's own process.
    Env(String),
    /// In a file, opened and checked by [`check_secret_file`] before anything untrusted ran; the path is for messages.
    File {
        /// The path, links resolved.
        path: PathBuf,
        /// The open file.
        file: File,
    },
    /// On the standard output of a command.
    Command(CommandSource),
}

/// What reading a secret depends on besides the source.
#[derive(Clone)]
pub struct SourceContext {
    /// The environment.
    pub read_env: fn(&str) -> Option<OsString>,
    /// Who has to own a secret file, unless root does.
    pub uid: u32,
    /// The time, for values that expire.
    pub now: Clock,
}

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Why a secret cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is no such variable.
    #[error("the environment variable {0} is not set")]
    EnvMissing(String),
    /// The file cannot be opened or read.
    #[error("cannot read {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A directory, FIFO, device or socket.
    #[error("{} is not a regular file", .0.display())]
    FileKind(PathBuf),
    /// Others than the owner may read or write it.
    #[error("{} can be used by others than its owner (mode {mode:04o}); run: chmod 600 {0}", path.display())]
    FileMode {
        /// The file.
        path: PathBuf,
        /// The permission bits.
        mode: u32,
    },
    /// It belongs to somebody else.
    #[error("{} belongs to user {owner}, not to you or root", path.display())]
    FileOwner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// It can be reached by another name, which nothing hides from the sandbox.
    #[error("{} has {links} hard links; a secret file has one, so that it can be hidden from the sandbox", path.display())]
    FileLinks {
        /// The file.
        path: PathBuf,
        /// How many names it has.
        links: u64,
    },
    /// No program is named.
    #[error("the command is empty; it needs a program and its arguments")]
    CommandEmpty,
    /// The program cannot be started or waited for.
    #[error("cannot run {program}: {error}")]
    CommandStart {
        /// The program, without its arguments.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// It ended with a failure. What it wrote to stderr has been seen by the user already.
    #[error("{program} failed ({status})")]
    CommandStatus {
        /// The program.
        program: String,
        /// Exit status or signal.
        status: std::process::ExitStatus,
    },
    /// It took too long and was killed with everything it started in its process group.
    #[error("{program} gave no answer within {seconds} s and was killed")]
    CommandTimeout {
        /// The program.
        program: String,
        /// The bound.
        seconds: u64,
    },
    /// What it printed gives no value.
    #[error("the output of {program} {error}")]
    CommandAnswer {
        /// The program.
        program: String,
        /// Why.
        error: AnswerError,
    },
    /// More than [`Secret::MAX_LEN`] bytes.
    #[error("{0} gives more than 65536 bytes")]
    TooLong(String),
    /// The bytes cannot be a secret.
    #[error(transparent)]
    Value(#[from] SecretError),
}

/// Reads the value of the secret `name`. A command's standard error goes to the user's terminal, and
/// it prints the value or, where the output begins with `{`, the JSON object `{"value": …, "expires_at": …}`. Blocks until
/// it is done.
///
/// Every buffer that held the value is wiped, but for what the environment itself and the JSON reader's own buffer (used
/// for values with escapes) keep.
///
/// # Errors
/// [`SourceError`] says what is wrong and never what the value is.
pub fn read_secret(name: &str, source: &Source, context: &SourceContext) -> Result<Issued, SourceError> {
    let raw = match source {
        Source::Env(variable) => {
            let value = (context.read_env)(variable).ok_or_else(|| SourceError::EnvMissing(variable.clone()))?;
            Zeroizing::new(value.into_vec())
        }
        Source::File { path, file } => read_file(path, file, context.uid)?,
        Source::Command(command) => return from_command(name, command, context),
    };
    Ok(Issued { secret: Secret::new(name, raw)?, expires_at: None })
}

/// Reads a source anew each time, on a thread for blocking work.
pub struct SourceIssuer {
    name: String,
    source: Arc<Source>,
    context: SourceContext,
}

impl SourceIssuer {
    /// An issuer of the secret `name`.
    pub fn new(name: impl Into<String>, source: Arc<Source>, context: SourceContext) -> Self {
        Self { name: name.into(), source, context }
    }
}

impl Issuer for SourceIssuer {
    fn issue(&self) -> Issuing<'_> {
        let (name, source, context) = (self.name.clone(), Arc::clone(&self.source), self.context.clone());
        Box::pin(async move {
            let reading = tokio::task::spawn_blocking(move || read_secret(&name, &source, &context));
            Ok(reading.await.map_err(|_| IssueError::Ending)??)
        })
    }
}

/// Checks an open file that is to hold a secret. `path` is where it is, for messages; `uid` is who has to own it, unless root
/// does.
///
/// # Errors
/// [`SourceError`] when it is not a regular file with one name that only its owner may use, or is too long.
pub fn check_secret_file(path: &Path, file: &File, uid: u32) -> Result<(), SourceError> {
    check_file(path, file, uid).map(drop)
}

/// The length, if the file may hold a secret.
fn check_file(path: &Path, file: &File, uid: u32) -> Result<usize, SourceError> {
    let metadata = file.metadata().map_err(|error| SourceError::File { path: path.to_owned(), error })?;
    let path = || path.to_owned();
    if !metadata.is_file() {
        return Err(SourceError::FileKind(path()));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(SourceError::FileMode { path: path(), mode: metadata.mode() & 0o7777 });
    }
    if metadata.uid() != uid && metadata.uid() != 0 {
        return Err(SourceError::FileOwner { path: path(), owner: metadata.uid() });
    }
    if metadata.nlink() != 1 {
        return Err(SourceError::FileLinks { path: path(), links: metadata.nlink() });
    }
    match usize::try_from(metadata.len()) {
        Ok(length) if length <= MAX_RAW => Ok(length),
        Ok(_) | Err(_) => Err(SourceError::TooLong(path().display().to_string())),
    }
}

/// Checked again, since a name may have been added after it was opened.
fn read_file(path: &Path, file: &File, uid: u32) -> Result<Zeroizing<Vec<u8>>, SourceError> {
    let length = check_file(path, file, uid)?;
    let mut raw = Zeroizing::new(vec![0; length]);
    file.read_exact_at(&mut raw, 0).map_err(|error| SourceError::File { path: path.to_owned(), error })?;
    Ok(raw)
}

fn from_command(name: &str, source: &CommandSource, context: &SourceContext) -> Result<Issued, SourceError> {
    let CommandSource { argv, timeout, ttl } = source;
    let raw = command::output(argv, *timeout)?;
    let reading = Reading { name, now: (context.now)(), ttl: *ttl };
    if raw.trim_ascii_start().first() != Some(&b'{') {
        return Ok(Issued { secret: Secret::new(name, raw)?, expires_at: reading.ends() });
    }
    let program = || argv.first().cloned().unwrap_or_default();
    reading.json(&raw).map_err(|error| SourceError::CommandAnswer { program: program(), error })
}

#[cfg(test)]
mod tests;
