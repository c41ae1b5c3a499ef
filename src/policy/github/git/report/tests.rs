use super::super::receive::{Capabilities, Command, ObjectFormat};
use super::*;

fn commands(names: &[&str], report: bool, side_band: SideBand) -> Commands {
    let command = |name: &&str| Command { old: "0".repeat(40), new: "1".repeat(40), name: (*name).to_owned() };
    let capabilities = Capabilities { format: ObjectFormat::Sha1, report, side_band, ..Capabilities::default() };
    Commands { commands: names.iter().map(command).collect(), capabilities, consumed: 0, has_pack: true }
}

fn no(message: &str) -> Option<OutOfScope> {
    Some(OutOfScope::new(Code::PushRule, message))
}

#[test]
fn row_23_every_ref_has_its_line() {
    let commands = commands(&["refs/heads/agent/x", "refs/heads/main"], true, SideBand::None);
    let refusal = refuse(&commands, &[None, no("blocked by policy: branch not allowed: refs/heads/main")], "ignored");
    assert_eq!((refusal.status, refusal.content_type), (200, "application/x-git-receive-pack-result"));
    assert_eq!(refusal.reason, "push_rule");
    let expected = "000eunpack ok\n\
        0049ng refs/heads/agent/x not sent: another ref of this push was refused\n\
        004eng refs/heads/main blocked by policy: branch not allowed: refs/heads/main\n\
        0000";
    assert_eq!(String::from_utf8(refusal.body).unwrap(), expected);
}

#[test]
fn a_side_band_wraps_the_report() {
    let refusal = refuse(&commands(&["refs/heads/m"], true, SideBand::Large), &[no("no")], "one\ntwo\x1b[31m");
    let expected = b"0012\x02one\ntwo [31m\n002e\x01000eunpack ok\n0017ng refs/heads/m no\n00000000";
    assert_eq!(String::from_utf8_lossy(&refusal.body), String::from_utf8_lossy(expected));
}

#[test]
fn a_small_side_band_has_small_lines() {
    let names: Vec<_> = (0..100).map(|at| format!("refs/heads/{at}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for (side_band, most) in [(SideBand::Small, 1000), (SideBand::Large, 65520)] {
        let body = refuse(&commands(&names, true, side_band), &[no("no")], &"n".repeat(3000)).body;
        let (mut at, mut report, mut longest) = (0, Vec::new(), 0);
        while let Some((pkt::Frame::Line(line), length)) = pkt::first(&body[at..]).unwrap() {
            assert!(length <= most);
            longest = longest.max(length);
            at += length;
            if line[0] == 1 {
                report.extend_from_slice(&line[1..]);
            }
        }
        assert_eq!(at + 4, body.len(), "a flush ends it");
        assert_eq!(longest == most, side_band == SideBand::Small);
        let inner = refuse(&commands(&names, true, SideBand::None), &[no("no")], "").body;
        assert_eq!(report, inner);
    }
}

#[test]
fn reasons_are_one_short_line() {
    let long = format!("a\nb{}", "é".repeat(200));
    let body = refuse(&commands(&["refs/heads/m"], true, SideBand::None), &[no(&long)], "").body;
    let text = String::from_utf8(body).unwrap();
    let line = text.lines().nth(1).unwrap();
    let reason = line.split_once("refs/heads/m ").unwrap().1;
    assert!(reason.starts_with("a bé") && reason.len() <= REASON_MAX && reason.len() > REASON_MAX - 2);
}

#[test]
fn who_reads_no_report_gets_text() {
    let refusal = refuse(&commands(&["refs/heads/a", "refs/heads/b"], false, SideBand::Large), &[no("no")], "x");
    assert_eq!((refusal.status, refusal.content_type), (403, "text/plain; charset=utf-8"));
    let text = "refs/heads/a: no\nrefs/heads/b: not sent: another ref of this push was refused\n";
    assert_eq!(String::from_utf8(refusal.body).unwrap(), text);
}
