//! The command line: one file per command.

pub mod doctor;
pub mod gitlab;
mod indexes;
pub mod policy;
pub mod policy_options;
mod presets;
pub mod run;

use std::ffi::OsString;
use std::io::Write;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

/// Exit codes of every command; what a sandboxed command itself returns is passed on.
pub mod exit {
    /// All is well.
    pub const OK: u8 = 0;
    /// Unusable arguments, of every command but `run`.
    pub const USAGE: u8 = 2;
    /// `run` itself failed, unusable arguments included: the command did not start, or its rows could not be written.
    pub const LAUNCHER: u8 = 125;
}

/// An egress proxy for code you do not trust: it reaches exactly what its policy names, and uses credentials that it can
/// never read.
#[derive(Debug, Parser)]
#[command(name = "sandbox-proxy", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    /// Log to stderr what goes on inside the proxy, e.g. `debug`; no secret's value is ever in it.
    #[arg(long, global = true, value_name = "FILTER", hide_short_help = true)]
    log: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command in a namespace whose only way out is the proxy.
    Run(Box<run::RunArgs>),
    /// Check a policy, or ask what it says to a request.
    Policy {
        #[command(subcommand)]
        command: policy::PolicyCommand,
    },
    /// Test for real whether this machine can run sandboxes, layer by layer.
    Doctor,
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Runs the program with its arguments, the first being its own name, and returns the exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &args, &mut out, &mut err),
    };
    if let Some(Err(error)) = cli.log.as_deref().map(crate::telemetry::init) {
        // Where stderr cannot be written to, the exit code says it.
        let _ = writeln!(err, "sandbox-proxy: --log: {error}");
        return if matches!(cli.command, Command::Run(_)) { exit::LAUNCHER } else { exit::USAGE };
    }
    drop((out, err));
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Policy { command } => policy::run(&command, &mut std::io::stdout(), &mut std::io::stderr()),
        Command::Doctor => doctor::run(&mut std::io::stdout()),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "sandbox-proxy", &mut std::io::stdout());
            exit::OK
        }
    }
}

/// `--help` and `--version` are answers, not errors. `run` fails with 125 even here, so that its caller can tell its
/// failure from the command's.
fn usage(error: &clap::Error, args: &[OsString], out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let text = error.render();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A reader that has closed the pipe has seen enough.
        let _ = write!(out, "{text}");
        return exit::OK;
    }
    let _ = write!(err, "{text}");
    if is_run(args) { exit::LAUNCHER } else { exit::USAGE }
}

/// Whether the first word that is neither an option nor the value of one is `run`.
fn is_run(args: &[OsString]) -> bool {
    let mut words = args.iter().skip(1);
    while let Some(word) = words.next() {
        if word == "--log" {
            words.next();
        } else if !word.as_encoded_bytes().starts_with(b"-") {
            return word == "run";
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_known_by_its_place() {
        let is_run = |line: &str| super::is_run(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(
            is_run("sandbox-proxy run --alow") && is_run("sandbox-proxy --log x run") && is_run("sandbox-proxy -x run")
        );
        assert!(!is_run("sandbox-proxy policy check run") && !is_run("sandbox-proxy --log run policy"));
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
