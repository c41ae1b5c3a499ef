//! `policy diff`: what one policy file permits that another does not.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::policy::{Compiled, More, PolicyOptions, more};

use super::{DENIED, GOOD, UNUSABLE, compile, read_files};

/// The arguments of `policy diff`.
#[derive(Clone, Debug, clap::Args)]
pub struct DiffArgs {
    /// Say the reverse, too: what A permits that B does not
    #[arg(long)]
    both: bool,

    /// The policy file to compare with, such as the one in use
    #[arg(value_name = "A")]
    before: PathBuf,

    /// The policy file that may permit more
    #[arg(value_name = "B")]
    after: PathBuf,
}

pub(super) fn run(args: &DiffArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let mut load = |path: &PathBuf| {
        let file = read_files(std::slice::from_ref(path), err)?;
        io::Result::Ok(file.map(|file| compile(&file, &PolicyOptions::default(), err)).transpose()?.flatten())
    };
    let (Some(before), Some(after)) = (load(&args.before)?, load(&args.after)?) else { return Ok(UNUSABLE) };
    let (a, b) = (args.before.display().to_string(), args.after.display().to_string());
    let mut found = show(&b, &a, &more_of(&after, &before), out)?;
    if args.both {
        found += show(&a, &b, &more_of(&before, &after), out)?;
    }
    Ok(if found == 0 { GOOD } else { DENIED })
}

fn more_of(this: &Compiled, other: &Compiled) -> Vec<More> {
    let mut found = more(this, other);
    // What is certain first.
    found.sort_by_key(|more| !more.certain);
    found
}

fn show(this: &str, other: &str, found: &[More], out: &mut dyn Write) -> io::Result<usize> {
    let certain = found.iter().any(|more| more.certain);
    match (found.is_empty(), certain) {
        (true, _) => writeln!(out, "{this} permits nothing that {other} does not")?,
        (false, true) => writeln!(out, "{this} permits more than {other}:")?,
        (false, false) => writeln!(out, "{this} may permit more than {other}:")?,
    }
    for More { certain, what, place, example } in found {
        let maybe = if *certain { "" } else { "perhaps: " };
        let example = example.as_ref().map_or_else(String::new, |example| format!(", such as {example}"));
        let place = place.as_ref().map_or_else(String::new, |place| format!(" ({place})"));
        writeln!(out, "  {maybe}{what}{example}{place}")?;
    }
    Ok(found.len())
}
