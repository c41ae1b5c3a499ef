//! The answer to a push that is refused, in the form that makes git print the reason of every ref (gitprotocol-pack, "Report
//! Status"). The body of the request is to be read to its end before: git takes an early answer for a broken connection.

use super::super::denial::{Code, OutOfScope};
use super::super::forms::{self, Refusal, TEXT};
use super::pkt;
use super::receive::{Commands, SideBand};

/// The longest reason of a ref, in bytes.
const REASON_MAX: usize = 200;

/// The most bytes of text beside the reasons.
const NOTE_MAX: usize = 4000;

/// What is said of refs that were not refused themselves.
const NOT_SENT: &str = "not sent: another ref of this push was refused";

/// Which part of a wrapped answer a line belongs to.
const REPORT: &[u8] = &[1];
const TEXT_BAND: &[u8] = &[2];

/// The answer to a push of which some commands are refused: none was sent. `refused` has one entry a command, in their order,
/// `None` for those that are not refused themselves. `note` is shown as `remote: …`, a line each.
///
/// A client that reads no reports gets a 403 of text.
pub fn refuse(commands: &Commands, refused: &[Option<OutOfScope>], note: &str) -> Refusal {
    let reason = refused.iter().flatten().next().map_or(Code::PushRule, |why| why.code).as_str();
    let why = |at: usize| refused.get(at).and_then(Option::as_ref).map_or(NOT_SENT, |why| &why.message);
    if !commands.capabilities.report {
        let mut body = String::new();
        for (at, command) in commands.commands.iter().enumerate() {
            body.push_str(&format!("{}: {}\n", command.name, reason_of(why(at))));
        }
        return Refusal { status: 403, content_type: TEXT, reason, body: body.into_bytes() };
    }
    let mut report = Vec::new();
    pkt::line(&mut report, &[b"unpack ok\n"]);
    for (at, command) in commands.commands.iter().enumerate() {
        pkt::line(&mut report, &[b"ng ", command.name.as_bytes(), b" ", reason_of(why(at)).as_bytes(), b"\n"]);
    }
    pkt::flush(&mut report);
    let body = match commands.capabilities.side_band {
        SideBand::None => report,
        SideBand::Small => wrapped(&report, note, 1000),
        SideBand::Large => wrapped(&report, note, pkt::LINE_MAX),
    };
    Refusal { status: 200, content_type: "application/x-git-receive-pack-result", reason, body }
}

fn wrapped(report: &[u8], note: &str, line_max: usize) -> Vec<u8> {
    let length = line_max - pkt::HEAD - REPORT.len();
    let mut out = Vec::new();
    let mut text = String::new();
    for line in note.lines() {
        text.push_str(cut(&forms::one_line(line), NOTE_MAX.saturating_sub(text.len())));
        text.push('\n');
    }
    for part in text.as_bytes().chunks(length) {
        pkt::line(&mut out, &[TEXT_BAND, part]);
    }
    for part in report.chunks(length) {
        pkt::line(&mut out, &[REPORT, part]);
    }
    pkt::flush(&mut out);
    out
}

fn reason_of(text: &str) -> String {
    cut(&forms::one_line(text), REASON_MAX).to_owned()
}

/// The beginning of a text, of at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests;
