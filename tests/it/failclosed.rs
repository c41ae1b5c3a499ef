//! What cannot be kept does not start (exit 125, the reason, the cure), and what ends leaves nothing open.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};

use crate::cases;
use crate::escape::nothing_went_to;
use crate::internet::recorder::Recorder;
use crate::rig;
use crate::sandbox::{Run, code, need, refuses};
use crate::terminal::Terminal;

cases![
    no_command,
    unknown_option,
    unknown_host_form,
    wildcard_host,
    contradiction,
    unknown_binding,
    binding_without_secret,
    secret_missing,
    secret_empty,
    secret_file_absent,
    secret_file_readable_by_others,
    secret_command_fails,
    policy_absent,
    policy_not_toml,
    policy_unknown_key,
    policy_unknown_word,
    policy_all_mistakes_at_once,
    audit_not_writable,
    upstream_ca_absent,
    upstream_ca_without_certificate,
    user_namespaces_off,
    killed_launcher_leaves_nothing,
    closed_listeners_refuse_and_are_told,
];

/// With a policy file of this text.
#[track_caller]
fn refuses_policy(text: &str, says: &[&str]) {
    let run = Run::new();
    let path = run.outside().join("policy.toml");
    fs::write(&path, text).unwrap();
    refuses(run.arg("--policy").arg(&path.display().to_string()), says);
}

fn no_command() {
    Run::new().command(&[]).run().expect_code(125).expect_stderr("COMMAND");
}

fn unknown_option() {
    refuses(Run::new().arg("--alow").arg("allowed.test"), &["--alow"]);
}

fn unknown_host_form() {
    for host in
        ["", "a b", "http://allowed.test/", "allowed.test:0", "allowed.test:99999", "al..lowed.test", "a%2eb.test"]
    {
        refuses(Run::new().allow(host), &["--allow"]);
    }
}

fn wildcard_host() {
    refuses(Run::new().allow("*.allowed.test"), &["*.allowed.test"]);
}

fn contradiction() {
    refuses(Run::new().arg("--network").arg("all").allow("allowed.test"), &["--allow", "--network"]);
}

fn unknown_binding() {
    let run = Run::new().allow("allowed.test").secret_env("KEY", "value");
    refuses(run.bind("allowed.test Content-Length: {KEY}"), &["Content-Length", "cannot be bound"]);
}

fn binding_without_secret() {
    refuses(Run::new().allow("allowed.test").bind("allowed.test Authorization: Bearer {KEY}"), &["KEY", "--secret"]);
}

fn secret_missing() {
    refuses(bound().arg("--secret").arg("KEY=env:NOT_SET"), &["KEY", "NOT_SET"]);
}

fn secret_empty() {
    refuses(bound().secret_env("KEY", ""), &["KEY"]);
}

fn secret_file_absent() {
    refuses(bound().arg("--secret").arg("KEY=file:/nowhere/key"), &["KEY", "/nowhere/key"]);
}

fn secret_file_readable_by_others() {
    let run = bound();
    let directory = run.outside().join("secrets");
    fs::create_dir(&directory).unwrap();
    let path = directory.join("key");
    fs::write(&path, "canary-file").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    refuses(run.arg("--secret").arg(&format!("KEY=file:{}", path.display())), &["KEY", "chmod"]);
}

fn secret_command_fails() {
    refuses(bound().arg("--secret").arg("KEY=command:false"), &["KEY", "false"]);
}

/// With a binding that wants `KEY`.
fn bound() -> Run {
    Run::new().allow("allowed.test").bind("allowed.test Authorization: Bearer {KEY}")
}

fn policy_absent() {
    refuses(Run::new().arg("--policy").arg("/nowhere/policy.toml"), &["/nowhere/policy.toml"]);
}

fn policy_not_toml() {
    refuses_policy("[network\n", &["policy.toml", "1"]);
}

fn policy_unknown_key() {
    refuses_policy("[network]\nmode = \"none\"\nhots = []\n", &["policy.toml", "3", "hots"]);
}

fn policy_unknown_word() {
    refuses_policy("[network]\nmode = \"some\"\n", &["policy.toml", "2", "some", "none", "all", "allow"]);
}

fn policy_all_mistakes_at_once() {
    refuses_policy("[network]\nmode = \"some\"\nhots = []\n\n[egres]\n", &["some", "hots", "egres"]);
}

fn audit_not_writable() {
    refuses(Run::bare().arg("--audit").arg("/nowhere/audit.jsonl"), &["/nowhere/audit.jsonl"]);
}

fn upstream_ca_absent() {
    refuses(Run::bare().arg("--upstream-ca").arg("/nowhere/root.pem"), &["/nowhere/root.pem"]);
}

fn upstream_ca_without_certificate() {
    let run = Run::bare();
    let path = run.outside().join("empty.pem");
    fs::write(&path, "no certificate here\n").unwrap();
    refuses(run.arg("--upstream-ca").arg(&path.display().to_string()), &["empty.pem"]);
}

fn user_namespaces_off() {
    need("unshare", "util-linux");
    let run = Run::new().script("touch ran");
    let shell = "unshare --user --map-current-user --keep-caps sh -c 'echo 0 > /proc/sys/user/max_user_namespaces &&
        exec setpriv --ambient-caps=-all --inh-caps=-all \"$@\"' sh ";
    let output = run.to_shell(&["sh", "-c"], shell).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(code(output.status), 125, "{said}");
    assert!(said.contains("user.max_user_namespaces"), "{said}");
    assert!(!run.work().join("ran").exists());
}

fn killed_launcher_leaves_nothing() {
    let script = "setsid sh -c 'trap \"\" HUP TERM; exec sleep 31337' & sleep 31338 & echo ready; wait";
    let mut terminal = Terminal::start(&Run::new().script(script).to_command());
    terminal.expect("ready");
    let launcher = terminal.pid();
    let network = inner_network(launcher.as_raw()).expect("the sandbox has a network namespace");
    kill(launcher, Signal::SIGKILL).unwrap();
    let killed = Instant::now();
    assert_eq!(code(terminal.wait()), 137);
    while members(&network) > 0 {
        assert!(killed.elapsed() < Duration::from_secs(1), "{} processes are left", members(&network));
        std::thread::yield_now();
    }
}

/// The network namespace of the launcher's child.
fn inner_network(launcher: i32) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children")).ok()?;
    children.split_whitespace().find_map(network)
}

/// How many processes live in a network namespace.
fn members(wanted: &str) -> usize {
    let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|pid| network(pid).as_deref() == Some(wanted)).count()
}

fn network(pid: &str) -> Option<String> {
    Some(fs::read_link(format!("/proc/{pid}/ns/net")).ok()?.display().to_string())
}

/// From outside, where only the owner of the launcher's user namespace can: the sandbox has no way to do it.
fn closed_listeners_refuse_and_are_told() {
    let recorder = Recorder::tcp("11.22.44.60:443", b"reached");
    let script = r#"
import errno
PLACES = ("11.22.44.60", 443), ("2a11:22:44::60", 443), ("11.22.44.60", 53), PROXY, ("::1", 3128)
def outcome(place):
    try:
        tcp(*place).close()
        return "open"
    except OSError as error:
        return errno.errorcode[error.errno]
check("at first", {place: outcome(place) for place in PLACES}, {place: "open" for place in PLACES})
print("ready", flush=True)
open("go").readline()
check("then", {place: outcome(place) for place in PLACES}, {place: "ECONNREFUSED" for place in PLACES})
"#;
    let run = Run::new().allow("allowed.test").wire(script);
    let go = run.work().join("go");
    nix::unistd::mkfifo(&go, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Open at both ends, so that nobody here waits for a command that has failed.
    let mut gate = File::options().read(true).write(true).open(go).unwrap();
    let running = run.start();
    running.wait_for("ready");
    let mut closing = Command::new("/usr/bin/python3");
    closing.args(["-c", include_str!("inside/close_listeners.py"), &running.pid().to_string()]).stdout(Stdio::piped());
    let closed = rig::spawn_with_capabilities(&mut closing).unwrap().wait_with_output().unwrap();
    // Captured, DNS and explicit, each for IPv4 and IPv6.
    assert_eq!(String::from_utf8_lossy(&closed.stdout), "6\n");
    gate.write_all(b"on\n").unwrap();
    let output = running.wait();
    assert!(!output.stdout.contains("WRONG"), "{output:#?}");
    output.expect_code(125).expect_stderr("a listener in the sandbox has failed").expect_stderr("refused since");
    recorder.assert_nothing();
    nothing_went_to("11.22.44.60");
    nothing_went_to("2a11:22:44::60");
}
