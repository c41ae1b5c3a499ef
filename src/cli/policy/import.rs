//! `policy import`: another system's policy as a policy file of our own.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::policy::{Dialect, NamedText, Place, PolicyOptions, dialect_of, load, toml};

use super::super::policy_options::read_policy_file;
use super::{GOOD, UNUSABLE, compile, with_settings};

/// The arguments of `policy import`.
#[derive(Clone, Debug, clap::Args)]
pub struct ImportArgs {
    /// Whose policy it is
    kind: Kind,

    /// A GitLab agent-config.yml, or srt settings
    file: PathBuf,

    /// Merge it with these settings of a GitLab administrator
    #[arg(long, value_name = "FILE")]
    gitlab_settings: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    Gitlab,
    Srt,
}

pub(super) fn run(args: &ImportArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let file = match read_policy_file(&args.file) {
        Ok(file) => file,
        Err(error) => {
            writeln!(err, "error: {error:#}")?;
            return Ok(UNUSABLE);
        }
    };
    let (wanted, called) = match args.kind {
        Kind::Gitlab => (Dialect::Gitlab, "a GitLab agent-config.yml"),
        Kind::Srt => (Dialect::Srt, "srt settings"),
    };
    // What is neither is told by its mistakes.
    if dialect_of(&file).is_some_and(|dialect| dialect != wanted) {
        writeln!(err, "error: {} is not {called}", args.file.display())?;
        return Ok(UNUSABLE);
    }
    let Some(options) = with_settings(PolicyOptions::default(), args.gitlab_settings.as_deref(), err)? else {
        return Ok(UNUSABLE);
    };
    let Some(compiled) = compile(&[file], &options, err)? else { return Ok(UNUSABLE) };
    let printed = toml(&compiled, true);
    if !says_the_same(&printed, &args.file, err)? {
        return Ok(UNUSABLE);
    }
    out.write_all(printed.as_bytes())?;
    Ok(GOOD)
}

/// Whether a policy file of our own may say what is printed. What it may not is told by the place that it comes from.
fn says_the_same(printed: &str, from: &Path, err: &mut dyn Write) -> io::Result<bool> {
    let text = NamedText { name: "printed".to_owned(), text: printed.to_owned() };
    let Err(mistakes) = load(&[text], &PolicyOptions::default()) else { return Ok(true) };
    for mistake in mistakes.as_slice() {
        let origin = match &mistake.place {
            Place::File { line, .. } => origin(printed, *line),
            Place::Option { .. } => None,
        };
        let origin = origin.map_or_else(|| from.display().to_string(), str::to_owned);
        writeln!(err, "{origin}: a policy file of our own cannot say this: {}", mistake.what)?;
    }
    writeln!(err, "  hint: {} is a policy as it is: give it by --policy", from.display())?;
    Ok(false)
}

/// The comment above a line: where the rule on that line comes from.
fn origin(printed: &str, line: usize) -> Option<&str> {
    printed.lines().take(line).filter_map(|line| line.strip_prefix("# ")).last()
}
