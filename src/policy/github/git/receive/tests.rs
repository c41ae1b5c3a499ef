use super::*;

const ZERO: &str = "0000000000000000000000000000000000000000";
const ONE: &str = "277a6e84bdfd2216925656dd738d1ea2169d7534";
const TWO: &str = "5773739cd0441a154138e7a991151ef83c3f5b04";

/// As git 2.47.3 sent them.
const RECORDED: [(&str, &[u8]); 11] = [
    ("atomic", include_bytes!("../recorded/atomic")),
    ("create", include_bytes!("../recorded/create")),
    ("delete", include_bytes!("../recorded/delete")),
    ("force", include_bytes!("../recorded/force")),
    ("options", include_bytes!("../recorded/options")),
    ("probe", include_bytes!("../recorded/probe")),
    ("sha256", include_bytes!("../recorded/sha256")),
    ("shallow", include_bytes!("../recorded/shallow")),
    ("tag", include_bytes!("../recorded/tag")),
    ("two", include_bytes!("../recorded/two")),
    ("update", include_bytes!("../recorded/update")),
];

fn recorded(name: &str) -> &'static [u8] {
    RECORDED.iter().find(|(own, _)| *own == name).unwrap().1
}

/// Fed in chunks, as a body comes; what follows the front is checked, too.
fn read(body: &[u8], chunk: usize) -> Result<Commands, OutOfScope> {
    let mut request = ReceiveRequest::new();
    let mut rest: Option<(Commands, Rest)> = None;
    for part in body.chunks(chunk) {
        match &mut rest {
            Some((_, rest)) => rest.feed(part)?,
            None => {
                if let Some(commands) = request.feed(part)? {
                    let mut after = Rest::after(&commands);
                    after.feed(&request.fed()[commands.consumed..])?;
                    rest = Some((commands, after));
                }
            }
        }
    }
    let (commands, rest) = rest.ok_or_else(|| malformed("cut off"))?;
    rest.end()?;
    assert!(body.starts_with(request.fed()));
    Ok(commands)
}

fn body(lines: &[&str], rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        match *line {
            "" => pkt::flush(&mut out),
            line => pkt::line(&mut out, &[line.as_bytes()]),
        }
    }
    out.extend_from_slice(rest);
    out
}

fn refused(lines: &[&str], rest: &[u8]) -> String {
    let why = read(&body(lines, rest), 7).expect_err(&format!("{lines:?}"));
    assert_eq!(why.code, Code::Malformed);
    why.message
}

fn shape(commands: &Commands) -> Vec<(String, Change)> {
    let named = |change: RefChange| {
        let RefTarget::Named(name) = change.target else { panic!("{change:?}") };
        (name, change.change)
    };
    commands.changes().into_iter().map(named).collect()
}

#[test]
fn rows_18_to_23_what_git_sends_is_read() {
    let branch = |name: &str| format!("refs/heads/{name}");
    let moved = Change::Update(Forced::Unknown);
    let rows = [
        ("probe", vec![], false),
        ("create", vec![(branch("agent/x"), Change::Create)], true),
        ("update", vec![(branch("agent/x"), moved)], true),
        ("force", vec![(branch("agent/x"), moved)], true),
        ("tag", vec![("refs/tags/v1".into(), Change::Create)], true),
        ("atomic", vec![(branch("agent/y"), Change::Create), (branch("main"), Change::Create)], true),
        ("options", vec![(branch("agent/z"), Change::Create)], true),
        ("delete", vec![(branch("agent/z"), Change::Delete)], false),
        ("two", vec![(branch("agent/y"), Change::Delete), (branch("agent/q"), Change::Create)], true),
        ("shallow", vec![(branch("agent/s"), Change::Create)], true),
        ("sha256", vec![(branch("main"), Change::Create)], true),
    ];
    for (name, changes, has_pack) in rows {
        let commands = read(recorded(name), 4096).unwrap();
        assert_eq!((shape(&commands), commands.has_pack), (changes, has_pack), "{name}");
        let rest = &recorded(name)[commands.consumed..];
        assert_eq!(rest.starts_with(b"PACK"), has_pack, "{name}");
        assert_eq!(rest.is_empty(), !has_pack, "{name}");
        if name != "probe" {
            assert!(commands.capabilities.report, "{name}");
            assert_eq!(commands.capabilities.side_band, SideBand::Large, "{name}");
            assert_eq!(commands.capabilities.atomic, name == "atomic");
            assert_eq!(commands.capabilities.push_options, name == "options");
            assert_eq!(commands.capabilities.format.digits(), if name == "sha256" { 64 } else { 40 });
        }
    }
}

#[test]
fn chunks_may_end_anywhere() {
    for (name, body) in RECORDED {
        let whole = read(body, body.len()).unwrap();
        for chunk in 1..body.len() {
            assert_eq!(read(body, chunk).as_ref(), Ok(&whole), "{name} {chunk}");
        }
    }
}

#[test]
fn row_25_and_27_what_cannot_be_checked_is_refused() {
    let create = |name: &str| format!("{ZERO} {ONE} {name}");
    let a = create("refs/heads/a");
    let caps = |list: &str| format!("{a}\0{list}");
    let rows: [(&[&str], &str); 20] = [
        (&[&a, &a, ""], "names a ref twice"),
        (&[&format!("{} {ONE} refs/heads/a", &ZERO[1..]), ""], "40 hexadecimal digits"),
        (&[&format!("{ZERO}{ZERO} {ONE} refs/heads/a"), ""], "40 hexadecimal digits"),
        (&[&format!("{ZERO} {} refs/heads/a", ONE.to_uppercase()), ""], "lower case"),
        (&[&format!("{a}\0object-format=sha256"), ""], "64 hexadecimal digits"),
        (&[&caps("object-format=sha1 object-format=sha256"), ""], "object-format"),
        (&[&caps("object-format=md5"), ""], "object-format"),
        (&[&caps("push-cert=1"), ""], "push-cert"),
        (&["push-cert\0 report-status", "certificate version 0.1", ""], "push-cert"),
        (&[&format!("{ZERO} {ZERO} refs/heads/a"), ""], "not there"),
        (&[&create("refs/heads/a..b"), ""], "no name of a ref"),
        (&[&create("refs/heads/a "), ""], "no name of a ref"),
        (&[&create("refs/heads/-a"), ""], "no name of a ref"),
        (&[&create(""), ""], "no name of a ref"),
        (&[&format!("{ZERO} {ONE}"), ""], "two object ids"),
        (&[&a, &format!("{}\0atomic", create("refs/heads/b")), ""], "not the first"),
        (&[&a, &format!("shallow {ONE}"), ""], "shallow line follows"),
        (&["shallow abc", &a, ""], "no object id"),
        (&[&caps("push-options"), ""], "cut off"),
        (&[&a], "cut off"),
    ];
    for (lines, reason) in rows {
        let message = refused(lines, b"");
        assert!(message.contains(reason), "{lines:?}: {message}");
    }
    assert!(refused(&[&a], b"0001").contains("length 1"));
    assert!(refused(&[&a], b"0004").contains("length 4"));
    assert!(refused(&[], b"zzzz").contains("hexadecimal"));
}

#[test]
fn nothing_hides_behind_the_commands() {
    let create = format!("{ZERO} {ONE} refs/heads/a");
    let delete = format!("{ONE} {ZERO} refs/heads/a");
    let second = body(&[&create, ""], b"PACK");
    assert!(refused(&[&create, ""], &second).contains("no pack"));
    assert!(refused(&[&create, ""], b"PAC").contains("no pack"));
    assert!(refused(&[&create, ""], b"").contains("no pack"));
    assert!(refused(&[&delete, ""], b"PACK").contains("need no pack"));
    assert!(refused(&[""], &second).contains("need no pack"));
    let options = format!("{create}\0push-options");
    assert!(refused(&[&options, "", &create, ""], b"0000PACK").contains("no pack"));
}

#[test]
fn line_feeds_and_idle_moves_are_read() {
    let line = format!("{ONE} {ONE} refs/heads/a\0report-status side-band\n");
    let commands = read(&body(&[&line, ""], b"PACK..."), 3).unwrap();
    assert_eq!(shape(&commands), [("refs/heads/a".to_owned(), Change::Update(Forced::No))]);
    assert_eq!(commands.capabilities.side_band, SideBand::Small);
    let idle = read(&body(&[&format!("shallow {TWO}\n"), ""], b""), 3).unwrap();
    assert!(idle.commands.is_empty() && !idle.has_pack);
}

#[test]
fn everything_is_bounded() {
    let many: Vec<_> = (0..=COMMANDS_MAX).map(|at| format!("{ONE} {ZERO} refs/heads/{at}")).collect();
    let mut lines: Vec<&str> = many.iter().map(String::as_str).collect();
    lines.push("");
    assert!(read(&body(&lines[1..], b""), 1 << 16).is_ok());
    assert!(read(&body(&lines, b""), 1 << 16).unwrap_err().message.contains("10000"));
    let shallow = format!("shallow {ONE}");
    let lines = vec![shallow.as_str(); FRONT_MAX / 52 + 1];
    assert!(read(&body(&lines, b"0000"), 1 << 16).unwrap_err().message.contains("1 MiB"));
    let first = format!("{ONE} {ZERO} refs/heads/a\0push-options");
    let with = |options: &[&str]| read(&body(&[&[&first, ""], options, &[""]].concat(), b""), 1 << 16);
    assert!(with(&["x"; OPTIONS_MAX]).is_ok());
    assert!(with(&["x"; OPTIONS_MAX + 1]).is_err());
    assert!(with(&["x".repeat(OPTION_MAX + 1).as_str()]).is_err());
}

#[test]
fn damaged_bodies_never_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let source = RECORDED[random() as usize % RECORDED.len()].1;
        let mut bytes = source.to_vec();
        for _ in 0..1 + random() % 4 {
            let at = random() as usize % bytes.len();
            bytes[at] = random() as u8;
        }
        if let Ok(commands) = read(&bytes, 1 + random() as usize % 64) {
            assert!(commands.commands.iter().all(|command| check_name(&command.name).is_ok()));
        }
    }
}
