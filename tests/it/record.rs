//! The record: complete, out of the command's reach, in a file that the person named, and in nobody else's words.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::cases;
use crate::internet::internet;
use crate::rig;
use crate::sandbox::{Run, code, refuses};

cases![
    an_audit_in_the_working_directory_is_hidden_and_complete,
    an_audit_that_cannot_be_written_stops_everything,
    an_audit_of_two_names_is_refused,
    moving_the_directory_of_the_audit,
    audit_file_as_standard_output,
    an_audit_behind_a_link_is_refused,
    an_audit_below_a_link_is_refused,
    an_audit_below_a_link_of_ones_own_is_kept,
    the_summary_repeats_no_words_of_a_client,
    rows_are_cut_and_steer_no_terminal,
];

/// With the tests' root and name server, and this as the audit file.
fn recorded_in(audit: &str) -> Run {
    let root = internet().pki.root_file().display().to_string();
    Run::bare().arg("--upstream-ca").arg(&root).arg("--nameserver").arg(rig::DNS).arg("--audit").arg(audit)
}

fn an_audit_in_the_working_directory_is_hidden_and_complete() {
    let run = recorded_in("audit.jsonl");
    let path = run.work().join("audit.jsonl");
    let script = "exec 2>&1; curl -sSf https://hidden.allowed.test/status/200
        cat audit.jsonl; echo FORGED >> audit.jsonl; echo FORGED > audit.jsonl; rm -f audit.jsonl; mv audit.jsonl other; ln audit.jsonl link
        curl -sS https://hidden.evil.test/; cat audit.jsonl link other; true";
    let output = run.allow("hidden.allowed.test").script(script).run();
    output.expect_code(0).expect_stdout("status 200");
    assert!(!output.stdout.contains("\"verdict\""), "{output:#?}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("FORGED"), "{text}");
    let rows: Vec<serde_json::Value> = text.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

/// A device that takes nothing is noticed before the command starts.
fn an_audit_that_cannot_be_written_stops_everything() {
    let run = Run::bare().arg("--audit").arg("/dev/full").allow("full.allowed.test");
    refuses(run, &["--audit", "/dev/full", "No space left"]);
}

fn an_audit_of_two_names_is_refused() {
    let run = Run::bare();
    let path = run.outside().join("audit.jsonl");
    fs::write(&path, "").unwrap();
    fs::hard_link(&path, run.work().join("link")).unwrap();
    refuses(run.arg("--audit").arg(&path.display().to_string()), &["--audit", "2 names", "copy it"]);
    for (path, says) in [("/nowhere/audit", "/nowhere/audit"), (".", "cannot open")] {
        refuses(Run::bare().arg("--audit").arg(path), &["--audit", says]);
    }
}

fn moving_the_directory_of_the_audit() {
    let run = Run::bare().file("logs/deep/place", "");
    let audit = run.work().join("logs/deep/audit.jsonl").display().to_string();
    let script =
        "mv logs other || mv logs/deep other || mv logs/deep/audit.jsonl other || echo held; echo x > logs/deep/own";
    run.arg("--audit").arg(&audit).script(script).run().expect_code(0).expect_stdout("held");
    assert!(Path::new(&audit).is_file());
}

fn audit_file_as_standard_output() {
    let run = Run::new().script("echo forged");
    let output = run.to_command().stdout(File::create(run.audit_file()).unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(code(output.status), 125, "{said}");
    assert!(said.contains("standard output"), "{said}");
    assert!(!fs::read_to_string(run.audit_file()).unwrap().contains("forged"));
}

/// An earlier run may have made the link, to have rows written into a file of its choice.
fn an_audit_behind_a_link_is_refused() {
    let run = Run::bare();
    let target = run.outside().join("target");
    fs::write(&target, "precious").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o644)).unwrap();
    symlink(&target, run.work().join("audit.jsonl")).unwrap();
    refuses(run.arg("--audit").arg("audit.jsonl"), &["--audit", "audit.jsonl"]);
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    let run = Run::bare();
    let absent = run.outside().join("absent");
    symlink(&absent, run.work().join("audit.jsonl")).unwrap();
    refuses(run.arg("--audit").arg("audit.jsonl"), &["--audit", "audit.jsonl"]);
    assert!(!absent.exists(), "a file was made behind the link");
}

/// By whatever name the working directory is given, and below /tmp too, where any run may write.
fn an_audit_below_a_link_is_refused() {
    let (plain, dotted, alias) = (Run::bare(), Run::bare(), Run::bare());
    fs::create_dir(dotted.work().join("sub")).unwrap();
    symlink(alias.work(), alias.outside().join("alias")).unwrap();
    let by_alias = alias.outside().join("alias/logs/audit.jsonl").display().to_string();
    for (run, path) in [(plain, "logs/audit.jsonl"), (dotted, "sub/../logs/audit.jsonl"), (alias, by_alias.as_str())] {
        let target = run.outside().join("target");
        fs::create_dir(&target).unwrap();
        symlink(&target, run.work().join("logs")).unwrap();
        refuses(run.arg("--audit").arg(path), &["--audit", "logs is a link", "name the file itself"]);
        assert!(!target.join("audit.jsonl").exists(), "{path}: a file was made behind the link");
    }
    let run = Run::bare();
    let link = PathBuf::from(format!("/tmp/sandbox-proxy-it-link-{}", std::process::id()));
    symlink(run.outside(), &link).unwrap();
    let (path, behind) = (link.join("audit.jsonl").display().to_string(), run.audit_file());
    refuses(run.arg("--audit").arg(&path), &["--audit", "is a link", "name the file itself"]);
    fs::remove_file(&link).unwrap();
    assert!(!behind.exists(), "a file was made behind the link");
}

/// A link that the command cannot make is the person's own.
fn an_audit_below_a_link_of_ones_own_is_kept() {
    let run = Run::bare();
    let logs = run.outside().join("logs");
    fs::create_dir(&logs).unwrap();
    symlink(&logs, run.outside().join("mine")).unwrap();
    let path = run.outside().join("mine/audit.jsonl").display().to_string();
    run.arg("--audit").arg(&path).script("curl -sS https://own.evil.test/").run();
    assert_eq!(fs::read_to_string(logs.join("audit.jsonl")).unwrap().lines().count(), 1);
}

/// A person reads the summary as the launcher's own words: a client must not get a line of its own into it.
fn the_summary_repeats_no_words_of_a_client() {
    let script = r#"
HOST = "words.allowed.test"
WORDS = "/curl-evil.test-to-fix-this", "/host-twice/curl-evil.test", "/?curl-evil.test", "/%63url-evil.test"
for words in WORDS:
    for via in tcp, connect:
        answer = request(tls(HOST, via=via), [f"X-MALFORMED {words} HTTP/1.1", f"Host: {HOST}"])
        check(f"{words} by {via.__name__}", (answer.status, answer.code), (400, "malformed_request"))
        check("the answer", answer.body, lambda body: b"malformed: its head" in body)
    for target in f"https://{HOST}{words}", words:
        answer = request(tcp(*PROXY), [f"X-MALFORMED {target} HTTP/1.1", f"Host: {HOST}"])
        check(f"{target} at the proxy", (answer.status, answer.code), (400, "malformed_request"))
"#;
    let output = Run::new().allow("words.allowed.test").wire(script).run();
    output.expect_code(0).expect_stderr("the request is malformed: its head");
    assert!(!output.stderr.contains("evil"), "{output:#?}");
    let reasons: Vec<&str> = output.audit.iter().filter_map(|row| row["reason"].as_str()).collect();
    assert!(reasons.len() == 16 && reasons.iter().all(|reason| !reason.contains("evil")), "{reasons:#?}");
    assert!(internet().web.requests("words.allowed.test").is_empty());
}

/// U+009B and U+009D steer a terminal as ESC does; a path may hold them raw.
fn rows_are_cut_and_steer_no_terminal() {
    let script = r#"
HOST, EURO = "rows.allowed.test", "\u20ac".encode().decode("latin-1")
STEER = "\x9b31m\x9d0;title\x9c".encode().decode("latin-1")
LONG = ["/long/" + "a" * 5000, "/wide/" + EURO * 1000, "/wides/" + EURO * 1000, "/wider/x" + EURO * 1000]
for path in *LONG, "/steer/" + STEER, "/query?secret=" + "b" * 3000:
    for via in tcp, connect:
        stream = tls(HOST, via=via)
        answer = request(stream, [f"GET {path} HTTP/1.1", f"Host: {HOST}"])
        check(f"{path[:8]} by {via.__name__}", answer.status, 200)
    h2 = H2(tls(HOST, ("h2",)))
    check(f"{path[:8]} over h2", h2.answer(h2.send(HOST, path.encode("latin-1")))["status"], 200)
"#;
    let output = Run::new().allow("rows.allowed.test").wire(script).run();
    output.expect_code(0);
    let paths: Vec<&str> = output.audit.iter().map(|row| row["path"].as_str().unwrap_or("none")).collect();
    assert_eq!(paths.len(), 18, "{paths:#?}");
    for (start, most) in
        [("/long/a", 2048), ("/wide/\u{20ac}", 2046), ("/wides/\u{20ac}", 2047), ("/wider/x\u{20ac}", 2048)]
    {
        let cut: Vec<usize> = paths.iter().filter(|path| path.starts_with(start)).map(|path| path.len()).collect();
        assert_eq!(cut, [most; 3], "{start}");
    }
    let steering = paths.iter().filter(|path| **path == "/steer/\u{fffd}31m\u{fffd}0;title\u{fffd}").count();
    assert_eq!((steering, paths.iter().filter(|path| **path == "/query").count()), (3, 3), "{paths:#?}");
    let targets = internet().web.requests("rows.allowed.test").into_iter().map(|seen| seen.target.len());
    assert_eq!(targets.filter(|length| *length > 2900).count(), 15, "what went on was not cut");
}
