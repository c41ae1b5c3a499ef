//! The program's own log, for the person who runs it. It is off unless asked for; values of secrets never get here, since
//! their type has no text.

use std::io::Write;

use tracing_subscriber::EnvFilter;

/// Logs to stderr what `filter` says, in the syntax of `RUST_LOG` (`debug`, `sandbox_proxy::proxy=trace`). Nothing in it
/// weakens a check.
///
/// # Errors
/// The filter cannot be read.
pub fn init(filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|e| e.to_string())?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init().map_err(|e| e.to_string())
}

/// Tells the person who started the program of a loss, also where nothing is logged.
pub fn tell(text: &str) {
    tracing::error!("{text}");
    // Where stderr is closed nobody reads it.
    let _ = writeln!(std::io::stderr().lock(), "sandbox-proxy: {text}");
}
