//! `policy check` and `policy explain`: the functions that enforce, asked by hand.

mod diff;
mod explain;
mod import;
mod replay;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::launcher::Links;
use crate::policy::{Compiled, Grant, NamedText, PRESETS, Place, PolicyOptions, load};

use super::gitlab;
use super::policy_options::{PolicyArgs, read_policy_file};
use super::presets::{self, Presets};

pub use diff::DiffArgs;
pub use explain::ExplainArgs;
pub use import::ImportArgs;
pub use replay::ReplayArgs;

/// Exit code: the files are good, or the request is permitted.
const GOOD: u8 = 0;
/// Exit code: the request is denied.
const DENIED: u8 = 1;
/// Exit code: mistakes, or input that cannot be used.
const UNUSABLE: u8 = 2;

/// The subcommands of `policy`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum PolicyCommand {
    /// Check policy files, each on its own, and show every mistake at once
    ///
    /// Warnings name what is permitted and probably not meant, and rules that change nothing. The cases that a file ends
    /// with are asked of that file alone. Exit code 0: good (warnings too); 2: mistakes, or cases that fail.
    Check {
        /// Check each merged with these settings of a GitLab administrator; without a file, the settings alone
        #[arg(long, value_name = "FILE")]
        gitlab_settings: Option<PathBuf>,

        /// The files: TOML, a GitLab agent-config.yml, or srt settings
        #[arg(required_unless_present = "gitlab_settings", value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Say whether a request would be permitted, by which entry or rule, and with which credentials
    ///
    /// The same of a plain connection (tcp://HOST:PORT) and of a look-up (dns:NAME). Of the rules and bindings for its host,
    /// those that do not apply are shown too, with why. Nothing is resolved or dialled, and no secret is read. Exit code 0: permitted; 1: denied; 2: unusable input.
    Explain(Box<ExplainArgs>),
    /// Say what a policy would change of what `run --audit` has recorded
    ///
    /// Each different request that would now be denied or permitted is shown with what decides, and how many rows it has. No
    /// name is looked up: an address counts where the record has it. One row is in memory at a time, beside 10,000 changes;
    /// rows of further ones are counted. Exit code 0: nothing changes; 1: something does; 2: unusable input, such as a line
    /// that is no row.
    Replay(Box<ReplayArgs>),
    /// Say what one policy file permits that another does not
    ///
    /// Hosts, ports, methods, paths, denials, addresses, bindings, TLS that passes unread, files and sockets are compared part
    /// by part. A line names a request that shows it, where there is one; "perhaps" is what no part of A covers alone, and
    /// several may together. Exit code 0: B permits nothing more; 1: it does, or may; 2: unusable files. With --both, what A
    /// permits more counts as well.
    Diff(DiffArgs),
    /// Print a GitLab agent-config.yml or srt settings as a policy file of our own
    ///
    /// It says the same, with a comment on where each rule comes from. Exit code 0: good; 2: mistakes, or what such a file
    /// cannot say.
    Import(ImportArgs),
    /// List the policies that come with the program, or print one
    ///
    /// What is printed is what `--preset NAME` adds on this machine, with the package indexes that were found. Exit code 0:
    /// good; 2: settings of a package tool that cannot be read.
    Presets {
        /// The one to print
        #[arg(value_parser = presets::names(), hide_possible_values = true)]
        name: Option<String>,
    },
}

/// Runs one of them; what was asked for goes to `out`, warnings and mistakes to `err`. Returns the exit code.
pub fn run(command: &PolicyCommand, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let code = match command {
        PolicyCommand::Check { gitlab_settings, files } => check(files, gitlab_settings.as_deref(), out, err),
        PolicyCommand::Explain(args) => explain::run(args, out, err),
        PolicyCommand::Replay(args) => replay::run(args, out, err),
        PolicyCommand::Diff(args) => diff::run(args, out, err),
        PolicyCommand::Import(args) => import::run(args, out, err),
        PolicyCommand::Presets { name: None } => list_presets(out),
        PolicyCommand::Presets { name: Some(name) } => print_preset(name, out, err),
    };
    code.unwrap_or(UNUSABLE)
}

fn check(files: &[PathBuf], settings: Option<&Path>, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let mut code = GOOD;
    let Some(options) = with_settings(PolicyOptions::default(), settings, err)? else { return Ok(UNUSABLE) };
    // The settings alone are a policy, too.
    let alone = settings.filter(|_| files.is_empty()).map(|path| (path, &[][..]));
    for (path, files) in files.iter().map(|path| (path.as_path(), std::slice::from_ref(path))).chain(alone) {
        let file = read_files(files, err)?;
        let compiled = file.map(|file| compile(&file, &options, err)).transpose()?.flatten();
        let Some(compiled) = compiled else {
            code = UNUSABLE;
            continue;
        };
        let failures: Vec<_> = compiled.cases.iter().filter_map(|case| case.check(&compiled.policy).err()).collect();
        for failure in &failures {
            writeln!(err, "{failure}")?;
        }
        if failures.is_empty() {
            let counts = counted(compiled.cases.len(), "case") + &counted(compiled.warnings.len(), "warning");
            writeln!(out, "{}: ok{counts}", path.display())?;
        } else {
            code = UNUSABLE;
        }
    }
    Ok(code)
}

/// Nothing where there is none.
fn counted(count: usize, what: &str) -> String {
    match count {
        0 => String::new(),
        1 => format!(", 1 {what}"),
        n => format!(", {n} {what}s"),
    }
}

fn list_presets(out: &mut dyn Write) -> io::Result<u8> {
    let longest = presets::names().iter().map(|name| name.len()).max().unwrap_or_default();
    PRESETS.iter().try_for_each(|preset| writeln!(out, "{:longest$}  {}", preset.name(), preset.about()))?;
    Ok(GOOD)
}

fn print_preset(name: &str, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let Some(presets) = read_presets(&[name.to_owned()], err)? else { return Ok(UNUSABLE) };
    presets.texts.iter().try_for_each(|file| out.write_all(file.text.as_bytes()))?;
    Ok(GOOD)
}

/// What the policy options of a command say, as a policy.
fn compile_args(args: &PolicyArgs, err: &mut dyn Write) -> io::Result<Option<Compiled>> {
    let (paths, options) = args.clone().into_parts();
    let Some(options) = with_settings(options, args.gitlab_settings.as_deref(), err)? else { return Ok(None) };
    let (files, presets) = (read_files(&paths, err)?, read_presets(&args.preset, err)?);
    let (Some(mut files), Some(mut presets)) = (files, presets) else { return Ok(None) };
    files.append(&mut presets.texts);
    compile(&files, &options, err)
}

fn read_presets(names: &[String], err: &mut dyn Write) -> io::Result<Option<Presets>> {
    if names.is_empty() {
        return Ok(Some(Presets::default()));
    }
    let home = crate::launcher::invoking_user().map(|user| user.home).map_err(anyhow::Error::from);
    match home.and_then(|home| Presets::read(names, &home, Links::All)) {
        Ok(presets) => {
            presets.notes.iter().try_for_each(|note| writeln!(err, "{note}"))?;
            Ok(Some(presets))
        }
        Err(error) => {
            writeln!(err, "error: {error:#}")?;
            Ok(None)
        }
    }
}

/// The options with the settings of a GitLab administrator; `None` when these cannot be read, with the reason in `err`.
fn with_settings(
    mut options: PolicyOptions,
    settings: Option<&Path>,
    err: &mut dyn Write,
) -> io::Result<Option<PolicyOptions>> {
    match settings.map(|path| gitlab::read(path, |path| Ok(File::open(path)?))).transpose() {
        Ok(read) => options.gitlab = read,
        Err(error) => {
            writeln!(err, "error: {error:#}")?;
            return Ok(None);
        }
    }
    Ok(Some(options))
}

/// The files; `None` when one cannot be read, with every reason in `err`.
fn read_files(paths: &[PathBuf], err: &mut dyn Write) -> io::Result<Option<Vec<NamedText>>> {
    let mut files = Vec::new();
    for path in paths {
        match read_policy_file(path) {
            Ok(file) => files.push(file),
            Err(error) => writeln!(err, "error: {error:#}")?,
        }
    }
    Ok((files.len() == paths.len()).then_some(files))
}

/// The files and options as a policy; `None` when that cannot be, with every reason in `err`.
fn compile(files: &[NamedText], options: &PolicyOptions, err: &mut dyn Write) -> io::Result<Option<Compiled>> {
    match load(files, options) {
        Ok(compiled) => {
            for warning in &compiled.warnings {
                writeln!(err, "{warning}")?;
            }
            Ok(Some(compiled))
        }
        Err(mistakes) => {
            writeln!(err, "{mistakes}")?;
            Ok(None)
        }
    }
}

/// What permits, with its place.
fn grant_text(compiled: &Compiled, grant: &Grant) -> String {
    let what = match grant {
        Grant::NetworkAll => "network mode all".to_owned(),
        Grant::Host { entry } => format!("network host {entry}"),
        Grant::Rule { .. } => "the allow rule".to_owned(),
        Grant::Egress { entry } => format!("egress {entry}"),
        Grant::GitHub { .. } => "the github binding".to_owned(),
    };
    at_place(what, compiled.written.grant(grant))
}

fn at_place(what: String, place: Option<&Place>) -> String {
    match place {
        Some(place @ Place::File { .. }) => format!("{what} at {place}"),
        Some(place @ Place::Option { .. }) => format!("{what}, by {place}"),
        None => what,
    }
}

/// A typed error, worded `what; what would be right`, for a person.
fn error(error: &dyn Display, err: &mut dyn Write) -> io::Result<()> {
    let text = error.to_string();
    match text.rsplit_once("; ") {
        Some((what, hint)) => writeln!(err, "error: {what}\n  hint: {hint}"),
        None => writeln!(err, "error: {text}"),
    }
}

#[cfg(test)]
mod tests;
