//! The tools around policies, as a person uses them: what they say of a policy is what the proxy does under it.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::cases;
use crate::internet::internet;
use crate::internet::recorder::Recorder;
use crate::sandbox::{PATH, Run, program as binary};
use crate::table::{list, program, rows};

cases![
    explain_as_json_agrees_with_the_proxy,
    look_ups_are_explained_as_they_are_answered,
    cases_are_asked_by_check_and_read_by_run,
    presets_permit_what_they_say,
    a_preset_permits_the_index_that_is_configured,
    settings_that_a_preset_read_cannot_be_changed,
    a_run_is_replayed,
    whatever_a_connection_was_it_is_replayed_as_it_was,
    policies_are_compared,
];

/// The program with these arguments in an environment of its own, and no sandbox.
fn cli(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(binary()).args(arguments).env_clear().env("PATH", PATH).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn policy(run: &Run, name: &str, text: &str) -> String {
    let path = run.outside().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

const RULES: &str = r#"
[[network.rules]]
host = "tools.allowed.test"
action = "allow"
methods = ["GET"]
paths = ["/v1/**"]

[[network.rules]]
host = "*.tools.allowed.test"
action = "deny"
reason = "not below"

[[header_bindings]]
host = "tools.allowed.test"
header = "X-Key"
secret_name = "KEY"
path_prefix = "/v1/bound"

[secrets.KEY]
env = "KEY"
"#;

/// Verdict, code and bindings of the object are what the proxy answers and records.
fn explain_as_json_agrees_with_the_proxy() {
    let urls = [
        "https://tools.allowed.test/v1/x",
        "https://tools.allowed.test/v1/bound",
        "https://tools.allowed.test/v1/../x",
        "https://tools.allowed.test/v2",
        "https://tools.allowed.test:8443/v1/x",
        "https://x.tools.allowed.test/v1/x",
        "http://tools.allowed.test/v1/x",
        "https://other.allowed.test/",
    ];
    let run = Run::new().env("KEY", "canary-of-tools");
    let path = policy(&run, "policy.toml", RULES);
    let code = "tell([[url, through_proxy(url, url.split('/')[2])] for url in URLS])".replace("URLS", &list(urls));
    let (told, output) = program(run.arg("--policy").arg(&path), &code);
    for (index, (url, got)) in rows(&told).into_iter().enumerate() {
        let (code, out, err) = cli(&["policy", "explain", "--json", "--policy", &path, "GET", &url]);
        let object: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{url}: {e}\n{out}{err}"));
        assert_eq!(object["code"], got[1], "{url}: {got}\n{out}");
        let permitted = got[1].is_null();
        assert_eq!((object["verdict"] == "permit", code), (permitted, i32::from(!permitted)), "{url}: {got}\n{out}");
        let secrets = object["bindings"].as_array().unwrap().iter().map(|binding| binding["secret"].clone());
        let used = output.audit[index]["bindings"].as_array().cloned().unwrap_or_default();
        assert_eq!(secrets.collect::<Vec<_>>(), used, "{url}: {}\n{out}", output.audit[index]);
        if let Some(rule) = output.audit[index]["rule"].as_str().and_then(|rule| rule.strip_prefix("rule ")) {
            let place = &object["decided_by"]["place"];
            let place = format!("{}:{}:{}", place["file"].as_str().unwrap(), place["line"], place["column"]);
            assert_eq!(place, rule, "{url}\n{out}");
        }
    }
    assert_eq!(internet().web.requests_with("canary-of-tools").len(), 1);
}

/// A name that is not looked up gets an address of the proxy's own.
fn look_ups_are_explained_as_they_are_answered() {
    let run = Run::new().env("KEY", "x");
    let path = policy(&run, "policy.toml", RULES);
    let names = ["tools.allowed.test", "x.tools.allowed.test", "other.allowed.test"];
    let code = "tell([[name, socket.gethostbyname(name)] for name in NAMES])".replace("NAMES", &list(names));
    let (told, _) = program(run.arg("--policy").arg(&path), &code);
    for (name, address) in rows(&told) {
        let (code, out, err) = cli(&["policy", "explain", "--policy", &path, &format!("dns:{name}")]);
        let looked_up = !address.as_str().unwrap().starts_with("198.18.");
        assert_eq!(code, i32::from(!looked_up), "{name}: {address}\n{out}{err}");
    }
}

fn cases_are_asked_by_check_and_read_by_run() {
    let case = |expect: &str| format!("[[cases]]\nrequest = \"GET https://a.test/\"\nexpect = \"{expect}\"\n");
    let run = Run::bare();
    let good = policy(&run, "good.toml", &case("deny"));
    let failing = policy(&run, "failing.toml", &case("permit"));
    let bad = policy(&run, "bad.toml", &case("maybe"));
    assert_eq!(cli(&["policy", "check", &good]), (0, format!("{good}: ok, 1 case\n"), String::new()));
    let (code, out, err) = cli(&["policy", "check", &failing, &good]);
    assert_eq!((code, out), (2, format!("{good}: ok, 1 case\n")));
    assert!(err.starts_with(&format!("{failing}:1:1: GET https://a.test/ is denied (host_not_listed)")), "{err}");
    // A run is no test of the policy, but it reads all of it.
    Run::bare().arg("--policy").arg(&failing).script("true").run().expect_code(0);
    let output = run.arg("--policy").arg(&bad).script("true").run();
    output.expect_code(125);
    assert!(output.stderr.contains("bad.toml:3:10: \"maybe\" is not a value of `expect`"), "{output:#?}");
}

fn presets_permit_what_they_say() {
    let (code, listed, err) = cli(&["policy", "presets"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let run = Run::bare();
    for line in listed.lines() {
        let (name, about) = line.split_once("  ").unwrap();
        let (code, text, err) = cli(&["policy", "presets", name]);
        assert_eq!((code, text.lines().next()), (0, Some(format!("# {}", about.trim()).as_str())), "{err}");
        let file = policy(&run, "preset.toml", &text);
        let (code, out, err) = cli(&["policy", "check", &file]);
        assert!(code == 0 && out.contains(": ok, ") && err.is_empty(), "{name}: {out}{err}");
    }
    let urls = ["https://github.com/a/b/issues", "https://api.segment.io/v1/t", "https://example.com/"];
    let code = "tell([[url, through_proxy(url, url.split('/')[2])] for url in URLS])".replace("URLS", &list(urls));
    let presets = ["--preset", "github", "--preset", "telemetry"].into_iter().fold(Run::new(), Run::arg);
    let (told, output) = program(presets, &code);
    let denials: Vec<Value> = rows(&told).into_iter().map(|(_, got)| got[1].clone()).collect();
    assert_eq!(denials, ["path_not_permitted", "rule_denied", "host_not_listed"], "{output:#?}");
    let output = Run::bare().arg("--preset").arg("githb").script("true").run();
    output.expect_code(125);
    assert!(output.stderr.contains("'githb'") && output.stderr.contains("github"), "{output:#?}");
}

fn in_home(run: Run, name: &str, text: &str) -> Run {
    let path = run.home().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    run
}

/// The index of pip's settings, of which no credential is shown, and nothing of the working directory's.
fn a_preset_permits_the_index_that_is_configured() {
    let settings = "[global]\nindex-url = https://user:canary@index.allowed.test/simple\n";
    let run = in_home(Run::new(), ".config/pip/pip.conf", settings);
    let run = run.file(".npmrc", "registry=https://npm.allowed.test/\n");
    let run = run.file("pip.conf", "[global]\nindex-url = https://cwd.allowed.test/\n");
    let home = run.home().display().to_string();
    let script = "curl -sS https://index.allowed.test/status/200
        for asked in '-X PUT https://index.allowed.test/' https://npm.allowed.test/ https://cwd.allowed.test/; do
            curl -sS $asked | grep -o 'request ([a-z_]*)'
        done";
    let output = run.arg("--preset").arg("python").arg("--preset").arg("node").script(script).run();
    output.expect_code(0).expect_stdout("status 200");
    let codes: Vec<&str> =
        output.stdout.split("request (").skip(1).map(|text| text.split(')').next().unwrap()).collect();
    assert_eq!(codes, ["method_not_permitted", "host_not_listed", "host_not_listed"], "{output:#?}");
    let said = &output.stderr;
    let settings = format!("preset python permits index.allowed.test (index-url in {home}/.config/pip/pip.conf)");
    assert!(said.contains(&settings) && !said.contains("canary"), "{output:#?}");
    let none = "preset node permits no package index, since npm is configured with none; --allow HOST permits one";
    assert!(said.contains(none), "{output:#?}");
}

/// What is read of them decides the next run, so they are read-only in this one.
fn settings_that_a_preset_read_cannot_be_changed() {
    let registry = "registry=https://index.allowed.test/\n";
    let run = in_home(Run::new(), ".npmrc", registry);
    let path = run.home().join(".npmrc");
    let script = "(echo registry=https://evil.test/ > ~/.npmrc) || echo held; mv ~/.npmrc ~/x || echo held
        rm -f ~/.npmrc || echo held; mv ~ ~/../other || echo held; true";
    let output = run.arg("--preset").arg("node").script(script).run();
    output.expect_code(0);
    assert_eq!(output.stdout.matches("held").count(), 4, "{output:#?}");
    assert_eq!(fs::read_to_string(path).unwrap(), registry);
}

/// Under its own policy nothing of a run changes; under another, what the proxy would then do.
fn a_run_is_replayed() {
    let run = Run::new().env("KEY", "x");
    let own = policy(&run, "own.toml", RULES);
    let other = policy(
        &run,
        "other.toml",
        "[[network.rules]]\nhost = \"tools.allowed.test\"\naction = \"allow\"\npaths = [\"/v1/a\", \"/v2\"]\n",
    );
    let audit = run.audit_file().display().to_string();
    let script = "for path in v1/a v1/a v1/b v2 v3; do curl -sS -o /dev/null https://tools.allowed.test/$path; done; \
         curl -sS -o /dev/null https://other.allowed.test/ || true";
    run.arg("--policy").arg(&own).script(script).run().expect_code(0);
    let (code, out, err) = cli(&["policy", "replay", "--policy", &own, &audit]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.starts_with("6 rows: 0 now denied, 0 now permitted, 3 permitted and 3 denied as before"), "{out}");
    let (code, out, err) = cli(&["policy", "replay", "--policy", &other, &audit]);
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(out.contains("now denied: GET https://tools.allowed.test:443/v1/b: path_not_permitted: "), "{out}");
    assert!(
        out.contains(&format!(
            "now permitted: GET https://tools.allowed.test:443/v2: by the allow rule at {other}:1:1\n"
        )),
        "{out}"
    );
    assert!(out.ends_with("6 rows: 1 now denied, 1 now permitted, 2 permitted and 2 denied as before, 0 not known, 0 that no policy decides\n"), "{out}");
    fs::write(&audit, fs::read_to_string(&audit).unwrap() + "{\"verdict\":\n").unwrap();
    let (code, _, err) = cli(&["policy", "replay", "--policy", &own, &audit]);
    assert!(code == 2 && err.contains(&format!("{audit}:7: no row of an audit")), "{err}");
}

const EVERY_KIND: &str = r#"
[network]
mode = "allow"
hosts = ["listed-replay.allowed.test", "blocked-replay.allowed.test", "silent.replay.test"]
[[network.rules]]
host = "rules-replay.allowed.test"
action = "allow"
methods = ["GET"]
paths = ["/v1/**"]
[[network.rules]]
host = "*.below-replay.allowed.test"
action = "deny"
[[network.rules]]
host = "plain.replay.test"
action = "allow"
scheme = "http"
[[network.rules]]
host = "raw.replay.test"
action = "allow"
scheme = "tcp"
ports = [7007]
[egress]
mode = "custom"
allow_cidrs = ["11.22.33.10"]
"#;

/// Every way in and every kind of answer: a policy decides of each row what it decided of the connection.
fn whatever_a_connection_was_it_is_replayed_as_it_was() {
    for name in ["plain.replay.test", "raw.replay.test", "silent.replay.test"] {
        internet().dns.set(name, &["11.22.44.111"]);
    }
    internet().dns.set("blocked-replay.allowed.test", &["10.1.2.3"]);
    let _plain = Recorder::tcp("11.22.44.111:80", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _raw = Recorder::tcp("11.22.44.111:7007", b"raw");
    let code = r#"
def https(host, path="/", sock=None):
    return ask(tls(sock or socket.create_connection((host, 443)), host), f"GET {path} HTTP/1.1", f"Host: {host}")[1]
def raw(host, port):
    with socket.create_connection((host, port)) as sock:
        sock.sendall(b"hello")
        return sock.recv(16).decode()
def attempt(work):
    try:
        return work()
    except OSError as error:
        return str(error)
listed, rules, below = "listed-replay.allowed.test", "rules-replay.allowed.test", "x.below-replay.allowed.test"
tell([[name, attempt(work)] for name, work in {
    "captured": lambda: https(listed),
    "connect": lambda: https(listed, sock=connect(listed)),
    "absolute": lambda: through_proxy(f"https://{listed}/x", listed)[1],
    "options": lambda: ask(tls(connect(listed), listed), "OPTIONS * HTTP/1.1", f"Host: {listed}")[1],
    "long": lambda: https(listed, "/" + "x" * 4000),
    "rule": lambda: https(rules, "/v1/a"),
    "path": lambda: https(rules, "/v2"),
    "dots": lambda: https(rules, "/v1/../v2"),
    "deny": lambda: https(below),
    "deny connect": lambda: connect(below)[1],
    "unlisted": lambda: https("unlisted-replay.allowed.test"),
    "unlisted http": lambda: through_proxy("http://unlisted-replay.allowed.test/", "unlisted-replay.allowed.test")[1],
    "listed http": lambda: through_proxy(f"http://{listed}/", listed)[1],
    "blocked": lambda: https("blocked-replay.allowed.test"),
    "silent": lambda: https("silent.replay.test"),
    "misdirected": lambda: ask(tls(connect(listed), listed), "GET / HTTP/1.1", "Host: other.test")[1],
    "plain": lambda: through_proxy("http://plain.replay.test/", "plain.replay.test")[1],
    "plain https": lambda: https("plain.replay.test"),
    "raw": lambda: raw("raw.replay.test", 7007),
    "raw port": lambda: raw("raw.replay.test", 7008),
    "raw listed": lambda: raw(listed, 443),
    "by number": lambda: https("by-number.evil.test", sock=socket.create_connection(("11.22.33.10", 443))),
    "other number": lambda: https("by-number.allowed.test", sock=socket.create_connection(("11.22.33.9", 443))),
    "metadata": lambda: through_proxy("https://169.254.169.254/", "169.254.169.254")[1],
    "loopback": lambda: through_proxy("https://127.0.0.1/", "127.0.0.1")[1],
    "local": lambda: through_proxy("https://x.localhost/", "x.localhost")[1],
}.items()])
"#;
    let run = Run::new();
    let path = policy(&run, "policy.toml", EVERY_KIND);
    let audit = run.audit_file().display().to_string();
    let (told, output) = program(run.arg("--policy").arg(&path), code);
    assert!(output.audit.len() >= 24, "{told:#}\n{:#?}", output.audit);
    let (code, out, _) = cli(&["policy", "replay", "--policy", &path, &audit]);
    assert_eq!(code, 0, "{out}\n{told:#}");
    assert!(out.contains(" 0 now denied, 0 now permitted, "), "{out}");
    let verdicts = |verdict| output.audit.iter().filter(|row| row["verdict"] == verdict).count();
    assert!(verdicts("permit") >= 8 && verdicts("deny") >= 12, "{:#?}\n{told:#}", output.audit);
    assert!(
        out.contains("1 not known, 1 that no policy decides\n"),
        "the blocked name, and what was misdirected: {out}\n{told:#}"
    );
}

fn policies_are_compared() {
    let run = Run::bare();
    let narrow = policy(&run, "narrow.toml", RULES);
    let wide = policy(
        &run,
        "wide.toml",
        &RULES.replace("paths = [\"/v1/**\"]\n", "").replace("action = \"deny\"", "action = \"allow\""),
    );
    let (code, out, err) = cli(&["policy", "diff", &narrow, &wide]);
    assert_eq!(code, 1, "{out}{err}");
    for line in [
        format!("{wide} permits more than {narrow}:"),
        format!(
            "  https://tools.allowed.test/** with GET is permitted, such as GET https://tools.allowed.test/ ({wide}:2:1)"
        ),
        format!(
            "  https://*.tools.allowed.test/** with any method is permitted, such as GET https://policy-diff.tools.allowed.test/ ({wide}:7:1)"
        ),
    ] {
        assert!(out.contains(&(line.clone() + "\n")), "{line}\n{out}");
    }
    let (code, out, _) = cli(&["policy", "diff", &narrow, &narrow]);
    assert_eq!((code, out), (0, format!("{narrow} permits nothing that {narrow} does not\n")));
    let (code, _, err) = cli(&["policy", "diff", &narrow, "/nowhere/policy.toml"]);
    assert!(code == 2 && err.contains("/nowhere/policy.toml"), "{err}");
}
