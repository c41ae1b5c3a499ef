//! `policy replay`: a record of `run --audit`, asked of another policy.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::PathBuf;
use std::sync::Arc;

use crate::audit::{RecordedRow, Rows};
use crate::policy::{Compiled, Denial, Fate, Permit, Recorded};

use super::super::policy_options::PolicyArgs;
use super::{DENIED, GOOD, UNUSABLE, compile_args, grant_text};

/// Different changes that are remembered and shown; rows of further ones are counted only.
const CHANGES_MAX: usize = 10_000;

/// The arguments of `policy replay`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    policy: PolicyArgs,

    /// The file that `run --audit` wrote
    #[arg(value_name = "AUDIT")]
    audit: PathBuf,
}

/// What rows come to.
#[derive(Default)]
struct Counts {
    rows: u64,
    still_permitted: u64,
    still_denied: u64,
    now_permitted: u64,
    now_denied: u64,
    unknown: u64,
    undecided: u64,
}

/// What changes, by request, in the order of its first row.
#[derive(Default)]
struct Changes {
    counts: Counts,
    at: HashMap<Arc<str>, usize>,
    lines: Vec<(Arc<str>, u64)>,
    more: u64,
}

pub(super) fn run(args: &ReplayArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let Some(compiled) = compile_args(&args.policy, err)? else { return Ok(UNUSABLE) };
    let name = args.audit.display();
    let file = match File::open(&args.audit) {
        Ok(file) => file,
        Err(error) => {
            writeln!(err, "error: cannot read {name}: {error}")?;
            return Ok(UNUSABLE);
        }
    };
    let mut changes = Changes::default();
    for (index, row) in Rows::new(BufReader::new(file)).enumerate() {
        match row {
            Ok(row) => changes.note(&compiled, &row),
            Err(wrong) => {
                writeln!(err, "error: {name}:{}: no row of an audit: {wrong}", index + 1)?;
                return Ok(UNUSABLE);
            }
        }
    }
    changes.show(out)?;
    let changed = changes.counts.now_permitted + changes.counts.now_denied;
    Ok(if changed == 0 { GOOD } else { DENIED })
}

impl Changes {
    fn note(&mut self, compiled: &Compiled, row: &RecordedRow) {
        self.counts.rows += 1;
        let recorded = match row {
            RecordedRow::Decided(recorded) => recorded,
            RecordedRow::Undecided => return self.counts.undecided += 1,
        };
        let line = match recorded.under(&compiled.policy) {
            Fate::StillPermitted => return self.counts.still_permitted += 1,
            Fate::StillDenied => return self.counts.still_denied += 1,
            Fate::NowPermitted(permit) => {
                self.counts.now_permitted += 1;
                now_permitted(compiled, recorded, &permit)
            }
            Fate::NowDenied(denial) => {
                self.counts.now_denied += 1;
                now_denied(recorded, &denial)
            }
            Fate::Unknown(why) => {
                self.counts.unknown += 1;
                format!("not known: {}: {why}", asked(recorded))
            }
        };
        match self.at.get(line.as_str()) {
            Some(&at) => self.lines[at].1 += 1,
            None if self.lines.len() < CHANGES_MAX => {
                let line: Arc<str> = line.into();
                self.at.insert(Arc::clone(&line), self.lines.len());
                self.lines.push((line, 1));
            }
            None => self.more += 1,
        }
    }

    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        for (line, times) in &self.lines {
            match times {
                1 => writeln!(out, "{line}")?,
                times => writeln!(out, "{line} ({times} rows)")?,
            }
        }
        if self.more > 0 {
            writeln!(out, "and {} rows of further requests, beyond {CHANGES_MAX}", self.more)?;
        }
        let Counts { rows, still_permitted, still_denied, now_permitted, now_denied, unknown, undecided } = self.counts;
        writeln!(
            out,
            "{rows} rows: {now_denied} now denied, {now_permitted} now permitted, {still_permitted} permitted and \
             {still_denied} denied as before, {unknown} not known, {undecided} that no policy decides"
        )
    }
}

fn now_permitted(compiled: &Compiled, recorded: &Recorded, permit: &Permit) -> String {
    format!("now permitted: {}: by {}", asked(recorded), grant_text(compiled, &permit.grant))
}

fn now_denied(recorded: &Recorded, denial: &Denial) -> String {
    let place = denial.rule().map_or_else(String::new, |rule| format!(" (the rule at {rule})"));
    format!("now denied: {}: {}: {denial}{place}", asked(recorded), denial.code())
}

/// Method, scheme, authority and path, as far as they were recorded, fit for a terminal.
fn asked(recorded: &Recorded) -> String {
    let Recorded { destination, method, path, .. } = recorded;
    let port = destination.authority.port;
    let method = method.as_ref().map_or_else(String::new, |method| format!("{} ", method.escape_debug()));
    let path = path.as_deref().unwrap_or(if recorded.path_is_cut { "/…" } else { "" }).escape_debug();
    format!("{method}{}://{}:{port}{path}", destination.scheme, destination.authority.host)
}
