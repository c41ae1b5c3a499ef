//! Rules over the wire: each request is judged on its own, whatever the connection and the version of HTTP, and a refused
//! one never leaves the machine.

use serde_json::json;

use crate::cases;
use crate::internet::internet;
use crate::sandbox::Run;
use crate::table::{all_are, program, rows};

cases![
    each_request_is_judged_on_its_own,
    pipelined_requests_are_judged_on_their_own,
    a_refusal_says_why_and_what_would_permit_it,
    ambiguous_paths_are_refused_where_a_rule_looks,
    a_secret_goes_to_permitted_requests_alone,
    what_is_not_honoured_stops_the_start,
    check_and_explain_tell_the_rules,
];

/// The rules as a policy file beside the working directory, which the sandbox does not read.
pub fn with_rules(rules: &str) -> Run {
    let run = Run::new();
    let path = run.outside().join("policy.toml");
    std::fs::write(&path, rules).unwrap();
    run.arg("--policy").arg(&path.display().to_string())
}

/// What a host was asked for, each as method and path.
pub fn targets(host: &str) -> Vec<String> {
    internet().web.requests(host).into_iter().map(|seen| format!("{} {}", seen.method, seen.target)).collect()
}

/// The ways to a host, each as the socket that TLS is to be spoken over.
pub const WAYS: &str = r#"
WAYS = {"connect": connect, "transparent": lambda host, port=443: socket.create_connection((host, port))}
def fields(host, method, path):
    return [(":method", method), (":scheme", "https"), (":authority", host), (":path", path)]
"#;

/// First and later requests of one connection, through CONNECT and transparently, over HTTP/1.1 and HTTP/2.
fn each_request_is_judged_on_its_own() {
    let rules = r#"
[[network.rules]]
host = "judged.allowed.test"
action = "allow"
methods = ["GET", "HEAD"]
paths = ["/v1/**", "/health"]

[[network.rules]]
host = "judged.allowed.test"
action = "deny"
paths = ["/v1/secret/**"]
reason = "not the secrets"
"#;
    let code = r#"
host = "judged.allowed.test"
asked = [("GET", "/v1/a"), ("POST", "/v1/a"), ("GET", "/health"), ("GET", "/other"), ("GET", "/v1/secret/x"), ("get", "/v1/a"),
    ("DELETE", "/v1/secret"), ("GET", "/v1x"), ("GET", "/v1/b?x=/other")]
told = []
for way, reach in WAYS.items():
    sock = tls(reach(host), host)
    for index, (method, path) in enumerate(asked):
        got = ask(sock, f"{method} {path} HTTP/1.1", f"Host: {host}")
        told += [[f"{method} {path}", [got[0], got[1]]]]
    for method, path in asked:
        got = ask(tls(reach(host), host), f"{method} {path} HTTP/1.1", f"Host: {host}")
        told += [[f"{method} {path}", [got[0], got[1]]]]
    statuses = h2(tls(reach(host), host, "h2"), [fields(host, method, path) for method, path in asked])
    told += [[f"h2 {method} {path}", status] for (method, path), status in zip(asked, statuses)]
    told += [[f"h2 {method} {path}", h2(tls(reach(host), host, "h2"), [fields(host, method, path)])[0]] for method, path in asked]
tell(told)
"#;
    let (told, output) = program(with_rules(rules), &format!("{WAYS}{code}"));
    let wanted = |case: &str| match case {
        "GET /v1/a" | "GET /health" | "GET /v1/b?x=/other" => (200, None),
        "POST /v1/a" | "get /v1/a" => (403, Some("method_not_permitted")),
        "GET /v1/secret/x" | "DELETE /v1/secret" => (403, Some("rule_denied")),
        _ => (403, Some("path_not_permitted")),
    };
    all_are(&told, |case| match case.strip_prefix("h2 ") {
        Some(case) => json!(wanted(case).0),
        None => json!([wanted(case).0, wanted(case).1]),
    });
    assert_eq!(rows(&told).len(), 72);
    let seen = targets("judged.allowed.test");
    assert_eq!(seen.len(), 24, "{seen:#?}");
    let permitted = ["GET /v1/a", "GET /health", "GET /v1/b?x=/other"];
    assert!(seen.iter().all(|target| permitted.contains(&target.as_str())), "{seen:#?}");
    let verdicts = |code: &str| output.audit.iter().filter(|row| row["code"] == code).count();
    assert_eq!(verdicts("method_not_permitted") + verdicts("path_not_permitted") + verdicts("rule_denied"), 48);
    let by_rule = |row: &&serde_json::Value| row["rule"].as_str().is_some_and(|rule| rule.ends_with("policy.toml:2:1"));
    assert_eq!(output.audit.iter().filter(by_rule).count(), 24, "{:#?}", output.audit);
}

/// What stands behind a refused request is judged as well, and a refused one between two permitted ones is answered in its
/// turn.
fn pipelined_requests_are_judged_on_their_own() {
    let rules = r#"
[[network.rules]]
host = "pipelined.allowed.test"
action = "allow"
methods = ["GET"]
paths = ["/ok/**"]
"#;
    let code = r#"
class Kept:
    """A stream that outlives the response read from it, and what came with it."""
    def __init__(self, stream):
        self.stream = stream
    def makefile(self, mode):
        return self
    def close(self):
        pass
    def __getattr__(self, name):
        return getattr(self.stream, name)

host = "pipelined.allowed.test"
told = []
for way, reach in WAYS.items():
    sock = tls(reach(host), host)
    lines = [f"{line} HTTP/1.1\r\nHost: {host}\r\n\r\n" for line in ("GET /ok/1", "GET /no/2", "PUT /ok/3", "GET /ok/4")]
    sock.sendall("".join(lines).encode())
    reader = Kept(sock.makefile("rb"))
    told += [[str(number + 1), answer(reader)[:2]] for number in range(4)]
tell(told)
"#;
    let (told, _) = program(with_rules(rules), &format!("{WAYS}{code}"));
    all_are(&told, |number| match number {
        "1" | "4" => json!([200, null]),
        "2" => json!([403, "path_not_permitted"]),
        _ => json!([403, "method_not_permitted"]),
    });
    assert_eq!(targets("pipelined.allowed.test"), ["GET /ok/1", "GET /ok/4"].repeat(2));
}

/// The sandbox reads the rule's reason and never where it stands; the person reads both, and what to change.
fn a_refusal_says_why_and_what_would_permit_it() {
    let rules = r#"
[[network.rules]]
host = "told.allowed.test"
action = "allow"
methods = ["GET"]
reason = "this API is for reading"

[[network.rules]]
host = "*.denied.test"
action = "deny"
reason = "denied by the security team"
"#;
    let code = r#"
told = []
host = "told.allowed.test"
told += [["method", ask(tls(connect(host), host), "PUT /x HTTP/1.1", f"Host: {host}")[2]]]
told += [["json", ask(tls(connect(host), host), "PUT /x HTTP/1.1", f"Host: {host}", "Accept: application/json")[2]]]
told += [["connect", connect("x.denied.test")[2]]]
sock = tls(socket.create_connection(("x.denied.test", 443)), "x.denied.test", verify=True)
told += [["denied", ask(sock, "GET / HTTP/1.1", "Host: x.denied.test")[2]]]
tell(told)
"#;
    let (told, output) = program(with_rules(rules), code);
    for (case, text) in rows(&told) {
        let text = text.as_str().unwrap();
        let (reason, code) = match case.as_str() {
            "method" | "json" => ("this API is for reading", "method_not_permitted"),
            _ => ("denied by the security team", "rule_denied"),
        };
        assert!(text.contains(reason) && text.contains(code), "{case}: {text}");
        assert!(!text.contains("policy.toml") && !text.contains("--allow"), "{case}: {text}");
        assert_eq!(
            text.contains("PUT in the methods of the rule for told.allowed.test"),
            code != "rule_denied",
            "{text}"
        );
        assert!(case != "connect" || text.starts_with("HTTP/1.1 403 rule_denied: "), "{text}");
    }
    for said in [
        "told.allowed.test may be reached, but not with PUT for this path: this API is for reading (",
        "to allow it: PUT in the methods of the rule at ",
        "policy denies x.denied.test: denied by the security team (",
        "to allow it: take out or narrow the deny rule at ",
        "policy.toml:2:1",
        "policy.toml:8:1",
    ] {
        output.expect_stderr(said);
    }
    assert!(!output.stderr.contains("--allow"), "an option that would not help or would widen: {}", output.stderr);
}

fn ambiguous_paths_are_refused_where_a_rule_looks() {
    let rules = r#"
[network]
mode = "allow"
hosts = ["dots.allowed.test"]

[[network.rules]]
host = "dots.allowed.test"
action = "deny"
paths = ["/admin/**"]
"#;
    let code = r#"
host = "dots.allowed.test"
paths = ["/x/../admin", "/%61dmin/../admin", "/x/%2e%2e/admin", "/x%2f..%2fadmin", "//admin", "/x//admin", "/admin//", "/;/admin", "/x\\..\\admin",
    "/%2561dmin", "/admin%00", "/.%2e/admin", "/%EF%BC%8E%EF%BC%8E/admin", "/ADMIN/x", "/admin", "/admin/", "/%61dmin/x", "/%61%64min", "/fine"]
told = []
for path in paths:
    told += [[path, ask(tls(connect(host), host), f"GET {path} HTTP/1.1", f"Host: {host}")[0]]]
    told += [[path, h2(tls(connect(host), host, "h2"), [h2_get(host, path)])[0]]]
tell(told)
"#;
    let (told, _) = program(with_rules(rules), code);
    for (path, status) in rows(&told) {
        let want: &[serde_json::Value] = match path.as_str() {
            "/fine" | "/ADMIN/x" => &[json!(200)],
            "/admin" | "/admin/" | "/%61dmin/x" | "/%61%64min" => &[json!(403)],
            // What http itself refuses to read is as good an answer as any.
            _ => &[json!(400), json!("reset")],
        };
        assert!(want.contains(&status), "{path}: {status}");
    }
    let seen = targets("dots.allowed.test");
    assert_eq!(seen, ["GET /ADMIN/x", "GET /ADMIN/x", "GET /fine", "GET /fine"]);
}

fn a_secret_goes_to_permitted_requests_alone() {
    let rules = r#"
[[network.rules]]
host = "bound.rules.test"
action = "allow"
methods = ["GET"]
paths = ["/v1/**"]

[[network.rules]]
host = "closed.rules.test"
action = "deny"

[[header_bindings]]
host = "bound.rules.test"
header = "Authorization"
secret_name = "KEY"

[[header_bindings]]
host = "closed.rules.test"
header = "Authorization"
secret_name = "KEY"

[secrets.KEY]
env = "RULES_KEY"
"#;
    let code = r#"
told = []
for host in ["bound.rules.test", "closed.rules.test"]:
    for alpn in ["http/1.1", "h2"]:
        for method, path in [("GET", "/v1/x"), ("POST", "/v1/x"), ("GET", "/v2"), ("GET", "/v1/../v2")]:
            sock = tls(socket.create_connection((host, 443)), host, alpn)
            got = h2(sock, [fields(host, method, path)])[0] if alpn == "h2" else ask(sock, f"{method} {path} HTTP/1.1", f"Host: {host}")[0]
            told += [[f"{host} {method} {path}", got]]
tell(told)
"#;
    internet().dns.set("bound.rules.test", &[crate::rig::WEB]);
    let run = with_rules(rules).env("RULES_KEY", "canary-of-rules");
    let (told, output) = program(run, &format!("{WAYS}{code}"));
    all_are(&told, |case| match case {
        "bound.rules.test GET /v1/x" => json!(200),
        "bound.rules.test GET /v1/../v2" => json!(400),
        _ => json!(403),
    });
    output.expect_stderr("closes closed.rules.test, so this binding is not used");
    let seen = internet().web.requests_with("canary-of-rules");
    assert_eq!(seen.len(), 2, "{seen:#?}");
    assert!(seen.iter().all(|request| request.host == "bound.rules.test" && request.target == "/v1/x"), "{seen:#?}");
    assert_eq!(targets("bound.rules.test").len(), 2);
}

/// Nothing of a policy is followed in part.
fn what_is_not_honoured_stops_the_start() {
    for (rule, says) in [
        ("host = \"a.test\"\naction = \"allow\"\nscheme = \"tcp\"", "an allow rule for this scheme needs `ports`"),
        (
            "host = \"a.test\"\naction = \"deny\"\nscheme = \"tcp\"\npaths = [\"/\"]",
            "tcp has neither methods nor paths",
        ),
        ("host = \"*.com\"\naction = \"deny\"", "policy.toml:2:8: \"*.com\""),
        ("host = \"a.test\"", "the rule has no `action`"),
    ] {
        let run = with_rules(&format!("[[network.rules]]\n{rule}\n")).script("echo started");
        crate::sandbox::refuses(run, &[says]);
    }
}

fn check_and_explain_tell_the_rules() {
    let run = Run::bare();
    let path = run.outside().join("p.toml");
    let rules = "[[network.rules]]\nhost = \"a.test\"\naction = \"deny\"\n\n[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\n";
    std::fs::write(&path, rules).unwrap();
    let tool = |words: &[&str]| {
        let output = std::process::Command::new(crate::sandbox::program()).args(words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let name = path.display().to_string();
    let (code, out, err) = tool(&["policy", "check", &name]);
    assert_eq!((code, out), (Some(0), format!("{name}: ok, 1 warning\n")));
    assert_eq!(err, format!("{name}:5:1: warning: this rule permits nothing: the deny rule at {name}:1:1 covers it\n"));
    let (code, out, _) = tool(&["policy", "explain", "--policy", &name, "--allow", "a.test", "GET", "https://a.test/"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("code: rule_denied\n") && out.contains(&format!("deny rule at {name}:1:1\n")), "{out}");
}
