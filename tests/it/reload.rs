//! The policy changes while the command runs: by an edit in place, by SIGHUP, and never by what the sandbox could have done.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use serde_json::json;

use crate::cases;
use crate::internet::internet;
use crate::internet::recorder::Recorder;
use crate::sandbox::{Run, Running};

cases![
    a_host_is_added_and_taken_away,
    what_is_under_way_ends_with_its_permission,
    an_upload_ends_when_its_address_is_denied,
    a_broken_file_leaves_the_policy_as_it_was,
    a_hangup_has_the_files_read_at_once,
    without_a_file_a_hangup_is_the_commands,
    what_the_sandbox_could_have_put_there_is_not_followed,
    bindings_and_secrets_stay_as_they_were,
    a_file_of_two_names_is_not_read_again,
    what_cannot_be_made_read_only_is_not_read_again,
];

fn allow(hosts: &[&str]) -> String {
    format!("[network]\nmode = \"allow\"\nhosts = {}\n", json!(hosts))
}

/// A run by a policy file beside its working directory.
fn with_policy(text: &str) -> (Run, PathBuf) {
    let run = Run::new();
    let path = run.outside().join("policy.toml");
    fs::write(&path, text).unwrap();
    (run.arg("--policy").arg(&path.display().to_string()), path)
}

/// A shell loop that goes on until a host is reached; the run's own time limit ends it when it never is.
fn until_reached(host: &str) -> String {
    format!("until curl -sSf https://{host}/status/200 2>/dev/null; do sleep 0.05; done; echo reached;")
}

fn hangup(running: &Running) {
    kill(running.pid(), Signal::SIGHUP).unwrap();
}

fn a_host_is_added_and_taken_away() {
    let (first, second) = ("first.reload.allowed.test", "second.reload.allowed.test");
    let (run, path) = with_policy(&allow(&[first]));
    let script = format!(
        "curl -sSf https://{first}/status/200 && echo ready; {}
         until curl -sS https://{first}/ 2>&1 | grep -q host_not_listed; do sleep 0.05; done; echo gone",
        until_reached(second)
    );
    let running = run.script(&script).start();
    running.wait_for("ready");
    fs::write(&path, allow(&[second])).unwrap();
    let output = running.wait();
    output.expect_code(0).expect_stdout("reached").expect_stdout("gone");
    output.expect_stderr("the policy has changed");
    assert!(!internet().web.requests(second).is_empty());
}

/// A relay, a stream, a request that nobody answers and a WebSocket, each on a connection that is idle; those that the new
/// policy permits go on.
fn what_is_under_way_ends_with_its_permission() {
    let rule = |host: &str, scheme: &str, port: u16| {
        format!("[[network.rules]]\nhost = \"{host}\"\naction = \"allow\"\nscheme = \"{scheme}\"\nports = [{port}]\n")
    };
    for (name, address) in [("gone", "11.22.44.191"), ("kept", "11.22.44.192")] {
        internet().dns.set(&format!("{name}.reload.test"), &[address]);
    }
    let _servers = ["11.22.44.191", "11.22.44.192"].map(|address| {
        (
            Recorder::tcp(&format!("{address}:7000"), b"pong"),
            Recorder::tcp(&format!("{address}:80"), b"HTTP/1.1 200 OK\r\n\r\nbegun"),
        )
    });
    let of = |name: &str| {
        let host = format!("{name}.reload.test");
        rule(&host, "tcp", 7000) + &rule(&host, "http", 80)
    };
    let looked = |paths: &str| {
        format!("[[network.rules]]\nhost = \"looked.reload.allowed.test\"\naction = \"allow\"\npaths = {paths}\n")
    };
    let (run, path) = with_policy(&(of("gone") + &of("kept") + &looked("[\"/sse\", \"/echo\"]")));
    let code = r#"
import ssl, sys, time
def relay(host):
    sock = socket.create_connection((host, 7000))
    sock.sendall(b"ping")
    assert sock.recv(4) == b"pong"
    return sock
def stream(host):
    sock = socket.create_connection((host, 80))
    sock.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    got = b""
    while b"begun" not in got:
        got += sock.recv(100)
    return sock
gone = [relay("gone.reload.test"), stream("gone.reload.test")]
kept = [relay("kept.reload.test"), stream("kept.reload.test")]
print("ready", flush=True)
def ended(sock):
    try:
        return sock.recv(100) == b""
    except ConnectionResetError:
        return True
print("gone", [ended(sock) for sock in gone])
for sock in kept:
    sock.setblocking(False)
def open_still(sock):
    try:
        return sock.recv(100)
    except BlockingIOError:
        return True
print("kept", [open_still(sock) for sock in kept])
kept[0].setblocking(True)
kept[0].sendall(b"more")
"#;
    let running = run.python(&format!("{}{code}", include_str!("inside.py"))).start();
    running.wait_for("ready");
    fs::write(&path, of("kept") + &looked("[\"/echo\"]")).unwrap();
    let output = running.wait();
    output.expect_code(0).expect_stdout("gone [True, True]").expect_stdout("kept [True, True]");
}

/// Nothing has been answered yet, so that only the connection tells where it goes.
fn an_upload_ends_when_its_address_is_denied() {
    internet().dns.set("upload.reload.test", &["11.22.44.193"]);
    let recorder = Recorder::tcp("11.22.44.193:80", b"");
    let rule = "[[network.rules]]\nhost = \"upload.reload.test\"\naction = \"allow\"\nscheme = \"http\"\n";
    let (run, path) = with_policy(rule);
    let code = r#"
sock = socket.create_connection(("upload.reload.test", 80))
sock.sendall(b"POST / HTTP/1.1\r\nHost: upload.reload.test\r\nContent-Length: 1000\r\n\r\nbegun")
print("ready", flush=True)
try:
    print("ended", sock.recv(100) == b"")
except ConnectionResetError:
    print("ended", True)
"#;
    let running = run.python(&format!("{}{code}", include_str!("inside.py"))).start();
    running.wait_for("ready");
    while !recorder.seen().concat().ends_with(b"begun") {
        std::thread::yield_now();
    }
    fs::write(&path, format!("{rule}[egress]\ndeny_cidrs = [\"11.22.44.193\"]\n")).unwrap();
    running.wait().expect_code(0).expect_stdout("ended True");
}

fn a_broken_file_leaves_the_policy_as_it_was() {
    let (host, more) = ("broken.reload.allowed.test", "more.reload.allowed.test");
    let (run, path) = with_policy(&allow(&[host]));
    let script = format!(
        "echo ready; read line; curl -sSf https://{host}/status/200 && echo still; echo asked; \
         {} echo mended",
        until_reached(more)
    );
    let running = run.script(&script).stdin("go\n").start();
    running.wait_for("asked");
    fs::write(&path, "[network]\nmode = \"al\"\n").unwrap();
    hangup(&running);
    fs::write(&path, allow(&[host, more])).unwrap();
    let output = running.wait();
    output.expect_code(0).expect_stdout("still").expect_stdout("mended");
}

/// No change, a change, and a mistake, each asked for and each answered.
fn a_hangup_has_the_files_read_at_once() {
    let host = "hangup.reload.allowed.test";
    let (run, path) = with_policy(&allow(&["other.reload.allowed.test"]));
    let marks: Vec<PathBuf> = (0..3).map(|at| run.work().join(format!("go{at}"))).collect();
    let wait = |at: usize| format!("echo at{at}; until [ -e go{at} ]; do sleep 0.02; done;");
    let script = format!(
        "{}{}{}{} curl -sSf https://{host}/status/200 && echo still",
        wait(0),
        wait(1),
        until_reached(host),
        wait(2)
    );
    let running = run.script(&script).start();
    running.wait_for("at0");
    hangup(&running);
    fs::write(&marks[0], "").unwrap();
    running.wait_for("at1");
    fs::write(&path, allow(&[host])).unwrap();
    hangup(&running);
    fs::write(&marks[1], "").unwrap();
    running.wait_for("at2");
    fs::write(&path, "nonsense").unwrap();
    hangup(&running);
    fs::write(&marks[2], "").unwrap();
    let output = running.wait();
    output.expect_code(0).expect_stdout("still").expect_stderr("the policy has changed");
    output.expect_stderr("the policy stays as it was: ").expect_stderr("policy.toml:1:");
}

fn without_a_file_a_hangup_is_the_commands() {
    let run = Run::new().allow("nothing.reload.allowed.test");
    let running = run.script("trap 'echo hung up; exit 3' HUP; echo ready; while :; do sleep 0.02; done").start();
    running.wait_for("ready");
    hangup(&running);
    running.wait().expect_code(3).expect_stdout("hung up");
}

/// The policy lies in the working directory. Inside it is neither written, nor replaced, nor renamed; when somebody outside
/// puts another file in its place, that one is not protected, and so not followed.
fn what_the_sandbox_could_have_put_there_is_not_followed() {
    let host = "planted.reload.allowed.test";
    let run = Run::new();
    let path = run.work().join("policy.toml");
    fs::write(&path, allow(&["other.reload.allowed.test"])).unwrap();
    let wide = allow(&[host]);
    let script = format!(
        "exec 2>&1
         cat > wide <<'END'\n{wide}END
         for attempt in 'cp wide policy.toml' 'mv -f wide policy.toml' 'rm -f policy.toml' 'ln -f wide policy.toml' \
             'mv policy.toml moved' 'truncate -s 0 policy.toml' 'chmod 666 policy.toml' 'ln policy.toml again' 'mv ../work ../elsewhere'; do
             $attempt >/dev/null && echo \"DONE $attempt\"
         done
         echo ready; until [ -e replaced ]; do sleep 0.02; done
         cp wide policy.toml && echo written; kill -0 $$
         touch last; until [ -e go ]; do sleep 0.02; done; curl -sS https://{host}/status/200"
    );
    let go = run.work().join("go");
    let (replaced, last) = (run.work().join("replaced"), run.work().join("last"));
    let running = run.arg("--policy").arg(&path.display().to_string()).script(&script).start();
    running.wait_for("ready");
    let beside = path.with_extension("new");
    fs::write(&beside, allow(&["other.reload.allowed.test", "third.reload.allowed.test"])).unwrap();
    fs::rename(&beside, &path).unwrap();
    fs::write(&replaced, "").unwrap();
    while !last.exists() {
        std::thread::yield_now();
    }
    hangup(&running);
    fs::write(&go, "").unwrap();
    let output = running.wait();
    output.expect_stdout("written").expect_stdout("host_not_listed");
    output.expect_stderr("was moved or replaced, so that the sandbox could have written what is there now");
    assert!(!output.stdout.contains("DONE"), "{}", output.stdout);
    assert!(internet().web.requests(host).is_empty());
}

fn bindings_and_secrets_stay_as_they_were() {
    let (host, other) = ("bound.reload.allowed.test", "rebound.reload.allowed.test");
    let policy = |bound: &str| {
        allow(&[host, other])
            + &format!(
                "[[header_bindings]]\nhost = \"{bound}\"\nheader = \"X-Key\"\nsecret_name = \"K\"\n[secrets.K]\nenv = \"K\"\n"
            )
    };
    let (run, path) = with_policy(&policy(host));
    let go = run.work().join("go");
    let script = format!(
        "echo ready; until [ -e go ]; do sleep 0.02; done; curl -sSf https://{host}/status/200 https://{other}/status/200"
    );
    let running = run.env("K", "canary-of-reload").script(&script).start();
    running.wait_for("ready");
    fs::write(&path, policy(other)).unwrap();
    hangup(&running);
    fs::write(&go, "").unwrap();
    let output = running.wait();
    output.expect_code(0).expect_stderr("bindings are read at the start only");
    let with_secret = internet().web.requests_with("canary-of-reload");
    assert_eq!(with_secret.iter().map(|seen| seen.host.as_str()).collect::<Vec<_>>(), [host]);
}

fn a_file_of_two_names_is_not_read_again() {
    let (run, path) = with_policy(&allow(&["two.reload.allowed.test"]));
    fs::hard_link(&path, path.with_extension("other")).unwrap();
    run.script("true")
        .run()
        .expect_code(0)
        .expect_stderr("is not read again while the command runs: it has other names");
}

/// mount_setattr(2) as on a kernel that does not have it. Root's own limits need it, so that root does not start.
fn what_cannot_be_made_read_only_is_not_read_again() {
    let (run, _) = with_policy(&allow(&["old.reload.allowed.test"]));
    let without = ["/usr/bin/python3", "-c", include_str!("inside/without.py"), "442"];
    let output = run.behind(&without).script("true").run();
    if nix::unistd::Uid::effective().is_root() {
        output.expect_code(125);
    } else {
        output.expect_code(0).expect_stderr("is not read again while the command runs: this kernel cannot");
    }
}
