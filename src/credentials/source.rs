//! Reading a secret from where the user keeps it. No error holds a value, or any part of one.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use zeroize::Zeroizing;

use crate::policy::CommandSource;
use crate::types::{Secret, SecretError};

use super::command;
use super::file::SecretFile;
use super::issue::{AnswerError, IssueError, Issued, Issuer, Issuing, Reading};

/// The most that a file or command may give, in bytes: the longest value and a final CRLF.
pub(super) const MAX_RAW: usize = Secret::MAX_LEN + 2;

/// Where a secret's value is.
#[derive(Debug)]
pub enum Source {
    /// In an environment variable of the proxy's own process.
    Env(String),
    /// In a file.
    File(SecretFile),
    /// On the standard output of a command.
    Command(CommandSource),
}

impl Source {
    /// Whether what would be opened now is what was.
    ///
    /// # Errors
    /// [`SourceError::FileReplaced`].
    pub(super) fn check_in_place(&self) -> Result<(), SourceError> {
        match self {
            Self::File(file) => file.check_in_place(),
            Self::Env(_) | Self::Command(_) => Ok(()),
        }
    }

    /// Has a new value take the place of the old one.
    ///
    /// # Errors
    /// Why it is not there, for a person.
    pub(super) fn replace(&self, value: &[u8]) -> Result<(), String> {
        match self {
            Self::File(file) => file.replace(value).map_err(|error| error.to_string()),
            Self::Env(_) | Self::Command(_) => Err("its source takes none".to_owned()),
        }
    }
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
    /// Something else stands at its path by now.
    #[error("{} was replaced since it was opened; start again", .0.display())]
    FileReplaced(PathBuf),
    /// No program is named.
    #[error("the command is empty; it needs a program and its arguments")]
    CommandEmpty,
    /// There is no such program.
    #[error(
        "cannot run {0}: there is no such program, or not the one that its first line names; install it, or name another"
    )]
    CommandMissing(String),
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
        Source::File(file) => file.read(context.uid)?,
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
