//! `run --learn`: what a run used becomes a policy under which the same run passes.

use std::fs;

use serde_json::json;

use crate::cases;
use crate::internet::internet;
use crate::internet::recorder::Recorder;
use crate::rig::fresh_address;
use crate::sandbox::{Run, program, refuses};

cases![
    a_run_passes_by_what_it_taught,
    real_clients_pass_by_what_they_taught,
    learning_keeps_what_protects,
    the_learned_file_is_out_of_the_commands_reach,
    a_file_that_cannot_be_meant_is_refused,
];

/// The same run twice: once to learn, once by what was learned.
fn twice(dress: impl Fn(Run) -> Run) -> (String, [crate::sandbox::Output; 2]) {
    let first = dress(Run::new());
    let learned = first.outside().join("learned.toml");
    let first = first.arg("--learn").arg(&learned.display().to_string()).run();
    let text = fs::read_to_string(&learned).unwrap();
    let checked = std::process::Command::new(program()).args(["policy", "check"]).arg(&learned).output().unwrap();
    assert!(checked.status.success(), "{checked:?}\n{text}");
    let second = dress(Run::new()).arg("--policy").arg(&learned.display().to_string()).run();
    (text, [first, second])
}

/// TLS over both versions of HTTP, by name and by CONNECT, plain http, a database's bytes, and a secret.
fn a_run_passes_by_what_it_taught() {
    let (database, plain) = (fresh_address(), fresh_address());
    internet().dns.set("db.learn.test", &[&database]);
    internet().dns.set("plain.learn.test", &[&plain]);
    let _database = Recorder::tcp(&format!("{database}:5432"), b"\x00pong");
    let _plain =
        Recorder::tcp(&format!("{plain}:80"), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    let code = r#"
def fields(host, method, path):
    return [(":method", method), (":scheme", "https"), (":authority", host), (":path", path)]
told = []
host = "api.learn.allowed.test"
for path in ["/v1/models/a", "/v1/models/b?x=1", "/health"]:
    told += [ask(tls(socket.create_connection((host, 443)), host), f"GET {path} HTTP/1.1", f"Host: {host}")[0]]
told += h2(tls(connect(host), host, "h2"), [fields(host, "POST", "/v1/chat")])
wide = "wide.learn.allowed.test"
for path in ["/1", "/2", "/3", "/4", "/5", "/@a%2fb"]:
    told += [ask(tls(connect(wide), wide), f"GET {path} HTTP/1.1", f"Host: {wide}")[0]]
told += [through_proxy("http://plain.learn.test/x/y", "plain.learn.test")[2]]
sock = socket.create_connection(("db.learn.test", 5432))
sock.sendall(b"\x00ping")
told += [sock.recv(5).hex()]
tell(told)
"#;
    let code = format!("{}{code}", include_str!("inside.py"));
    let (text, outputs) =
        twice(|run| run.secret_env("KEY", "canary-learn").bind("api.learn.allowed.test X-Key: {KEY}").python(&code));
    for output in &outputs {
        output.expect_code(0);
        assert_eq!(output.stdout, outputs[0].stdout, "{output:#?}");
        assert!(output.audit.iter().all(|row| row["verdict"] == "permit"), "{:#?}", output.audit);
    }
    let told: serde_json::Value = serde_json::from_str(&outputs[0].stdout).unwrap();
    assert_eq!(told.as_array().unwrap()[..4], [json!(200), json!(200), json!(200), json!(200)]);
    assert_eq!(told.as_array().unwrap()[10..], [json!("ok"), json!("00706f6e67")]);
    assert_eq!(internet().web.requests_with("canary-learn").len(), 8);
    outputs[0].expect_stderr("every public host is permitted").expect_stderr("permits the 4 hosts that were used");
    let rules: Vec<&str> = text.split("\n\n").skip(1).map(str::trim).collect();
    assert_eq!(
        rules,
        [
            "[[network.rules]]\nhost = \"api.learn.allowed.test\"\naction = \"allow\"\nmethods = [\"GET\", \"POST\"]\npaths = [\"/health\", \"/v1/**\"]",
            "[[network.rules]]\nhost = \"db.learn.test\"\naction = \"allow\"\nscheme = \"tcp\"\nports = [5432]",
            "[[network.rules]]\nhost = \"plain.learn.test\"\naction = \"allow\"\nscheme = \"http\"\nmethods = [\"GET\"]\npaths = [\"/x/**\"]",
            "[[network.rules]]\nhost = \"wide.learn.allowed.test\"\naction = \"allow\"\nmethods = [\"GET\"]",
        ]
    );
}

/// git and pip, as they are.
fn real_clients_pass_by_what_they_taught() {
    let script = "git clone -q https://git.test/project.git && cat project/README && \
        curl -sSf https://curl.learn.allowed.test/status/200";
    let (text, outputs) = twice(|run| run.script(script));
    for output in &outputs {
        output.expect_code(0);
    }
    assert!(text.contains("\"POST\"") && text.contains("/project.git/**"), "{text}");
}

/// Deny rules, private addresses, and names for the machine itself; none of it is learned.
fn learning_keeps_what_protects() {
    internet().dns.set("inner.learn.test", &["10.1.2.3"]);
    let run = Run::new();
    let (policy, learned) = (run.outside().join("policy.toml"), run.outside().join("learned.toml"));
    fs::write(&policy, "[[network.rules]]\nhost = \"denied.learn.allowed.test\"\naction = \"deny\"\n").unwrap();
    let script = "exec 2>&1; for host in denied.learn.allowed.test inner.learn.test 169.254.169.254 127.0.0.2; do
            curl -sS -k --max-time 5 https://$host/; done
        curl -sSf https://good.learn.allowed.test/status/200; true";
    let run = run.arg("--policy").arg(&policy.display().to_string()).arg("--learn").arg(&learned.display().to_string());
    let output = run.script(script).run();
    output.expect_code(0).expect_stdout("rule_denied").expect_stdout("address_blocked");
    assert!(internet().web.requests("denied.learn.allowed.test").is_empty());
    let text = fs::read_to_string(learned).unwrap();
    assert_eq!(text.matches("[[network.rules]]").count(), 1, "{text}");
    assert!(text.contains("good.learn.allowed.test"), "{text}");
}

/// It steers a later run, so it is neither read nor written inside, wherever it lies.
fn the_learned_file_is_out_of_the_commands_reach() {
    let run = Run::new();
    let learned = run.work().join("learned.toml");
    let script = "exec 2>&1; echo '[network]' > learned.toml; echo evil >> learned.toml; mv -f learned.toml gone; rm -f learned.toml; cat learned.toml
        curl -sSf https://reach.learn.allowed.test/status/200; true";
    let output = run.arg("--learn").arg(&learned.display().to_string()).script(script).run();
    output.expect_code(0);
    let text = fs::read_to_string(&learned).unwrap();
    assert!(
        text.contains("reach.learn.allowed.test") && !text.contains("evil") && text.starts_with("# Learned"),
        "{text}"
    );
}

fn a_file_that_cannot_be_meant_is_refused() {
    let full = Run::new();
    let path = full.outside().join("full.toml");
    fs::write(&path, "[network]\nmode = \"none\"\n").unwrap();
    refuses(full.arg("--learn").arg(&path.display().to_string()), &["--learn", "full.toml", "not empty"]);
    assert_eq!(fs::read_to_string(path).unwrap(), "[network]\nmode = \"none\"\n");
    refuses(Run::new().arg("--learn").arg("/dev/null"), &["--learn", "no regular file"]);
    refuses(Run::new().arg("--learn").arg("/nowhere/learned.toml"), &["--learn", "/nowhere/learned.toml"]);
}
