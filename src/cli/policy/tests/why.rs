//! `policy explain`: bindings, connections, look-ups, and all of it as JSON.

use serde_json::{Value, json};

use super::*;

const BOUND: &str = r#"
[network]
mode = "allow"
hosts = ["api.example.com", "api.example.com:8443"]
[[header_bindings]]
host = "api.example.com"
header = "Authorization"
secret_name = "KEY"
prefix = "Bearer "
path_prefix = "/v1/"
[[header_bindings]]
host = "api.example.com"
header = "X-Key"
secret_name = "KEY"
path_prefix = "/v2/"
[[header_bindings]]
host = "api.example.com:8443"
header = "X-Key"
secret_name = "KEY"
[secrets.KEY]
env = "KEY"
"#;

#[test]
fn explain_shows_why_a_binding_is_not_used() {
    let file = Scratch::new("bound", BOUND);
    let ask = |subject: &[&str]| {
        let o = policy(&[&["explain", "--policy", file.path()], subject].concat());
        let lines = o.out.lines().filter(|line| line.starts_with("binding: ") || line.starts_with("not used: "));
        lines
            .map(|line| {
                line.replace("x-key: {KEY} (secret KEY, paths", "X (")
                    .replace("authorization: Bearer {KEY} (secret KEY, paths", "A (")
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ask(&["GET", "https://api.example.com/v1/x"]),
        [
            "binding: A ( /v1/…)",
            "not used: X ( /v2/…), which is for paths /v2/…",
            "not used: X ( /…), which is for port 8443"
        ]
    );
    let why = |subject: &[&str]| {
        ask(subject)
            .iter()
            .map(|line| line.split_once(", which ").map_or("used", |(_, why)| why).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(why(&["GET", "https://api.example.com:8443/"]), ["used", "is for port 443", "is for port 443"]);
    assert_eq!(
        why(&["GET", "https://api.example.com/v1/../x"]),
        ["looks at the path, which is ambiguous", "looks at the path, which is ambiguous", "is for port 8443"]
    );
    assert_eq!(why(&["GET", "http://api.example.com/v1/"]), ["is for https"; 3]);
    assert_eq!(why(&["tcp://api.example.com:443"]), ["is for https"; 3]);
    assert_eq!(why(&["dns:api.example.com"]).len(), 0);
    let denied = Scratch::new("unbound", &BOUND.replace("[\"api.example.com\", ", "["));
    let o = policy(&["explain", "--policy", denied.path(), "GET", "https://api.example.com/v1/x"]);
    assert!(o.out.contains("paths /v1/…), which would be used if the request were permitted\n"), "{}", o.out);
}

#[test]
fn explain_tells_a_connection_and_a_look_up() {
    let file = Scratch::new("names", RULES);
    let ask = |subject: &str| {
        let o = policy(&["explain", "--policy", file.path(), subject]);
        (o.code, o.out.replace(file.path(), "p"))
    };
    let (code, out) = ask("dns:API.example.com");
    assert_eq!(
        (code, out.as_str()),
        (
            0,
            "permitted: dns:api.example.com\n\
             decided by: the allow rule at p:2:1\n\
             not by: the allow rule for api.example.com at p:15:1, which permits it as well\n\
             not by: the deny rule for *.example.com at p:9:1, which looks at requests\n\
             not by: 1 rule for another host\n\
             note: every address of api.example.com is checked before it is used\n"
        )
    );
    let (code, out) = ask("dns:x.example.com");
    assert_eq!(code, 1);
    assert!(out.contains("code: host_not_listed\n") && out.contains("to allow it: --allow x.example.com\n"), "{out}");
    assert!(
        out.contains("note: nothing is looked up; the sandbox gets an address that leads to this refusal\n"),
        "{out}"
    );
    let (code, out) = ask("dns:x.localhost");
    assert!(code == 1 && out.contains("code: local_name\n") && out.contains("its own loopback"), "{out}");
    let (code, out) = ask("tcp://nowhere.test:22");
    assert_eq!(code, 1);
    assert!(out.starts_with("denied: tcp://nowhere.test:22\ncode: host_not_listed\n"), "{out}");
}

/// What is relayed is said to be, and what has to be looked into is not relayed.
#[test]
fn explain_tells_what_passes_unread() {
    let rule = |rest: &str| format!("[[network.rules]]\nhost = \"db.test\"\naction = \"allow\"\n{rest}\n");
    let tcp = rule("scheme = \"tcp\"\nports = [5432]");
    let ask = |text: &str, subject: &[&str]| {
        let file = Scratch::new("unread", text);
        let o = policy(&[&["explain", "--policy", file.path()], subject].concat());
        (o.code, o.out.contains("note: the connection is passed on unread"), o.out.replace(file.path(), "p"))
    };
    let (code, unread, out) = ask(&tcp, &["tcp://db.test:5432"]);
    assert!(code == 0 && unread && out.contains("decided by: the allow rule at p:1:1\n"), "{out}");
    // TLS to the same port is not looked into, either.
    let (code, unread, out) = ask(&tcp, &["GET", "https://db.test:5432/x"]);
    assert!(code == 0 && unread, "{out}");
    let (code, _, out) = ask(&tcp, &["tcp://db.test:5433"]);
    assert!(code == 1 && out.contains("code: host_not_listed\n") && out.contains("is for other ports"), "{out}");
    // A rule that looks at requests takes that away.
    let both = tcp + &rule("ports = [5432]\nmethods = [\"GET\"]");
    let (code, _, out) = ask(&both, &["tcp://db.test:5432"]);
    assert!(code == 1 && out.contains("may be reached over https, not over tcp\n"), "{out}");
    let (code, unread, out) = ask(&both, &["GET", "https://db.test:5432/x"]);
    assert!(code == 0 && !unread && out.contains("decided by: the allow rule at p:6:1\n"), "{out}");
    let (code, _, out) = ask(&both, &["POST", "https://db.test:5432/x"]);
    assert!(code == 1 && out.contains("code: method_not_permitted\n"), "{out}");
}

/// Everything that the text says is in the object, and nothing else is printed.
#[test]
fn explain_as_json() {
    let text = BOUND.replace("hosts = [", "hosts = [\"other.test\", ") + RULES;
    let file = Scratch::new("json", &text);
    let ask = |options: &[&str], subject: &[&str]| -> (u8, Value) {
        let o = policy(&[&["explain", "--json", "--policy", file.path()], options, subject].concat());
        assert_eq!(o.out.matches('\n').count(), 1, "{}", o.out);
        (o.code, serde_json::from_str(&o.out.replace(file.path(), "p")).unwrap())
    };
    let (code, got) = ask(
        &["--upstream-proxy", "http://proxy.test:3128", "--upstream-proxy-auth", "KEY"],
        &["GET", "https://api.example.com/v1/x?y"],
    );
    let place = |line: u32, column: u32| json!({"file": "p", "line": line, "column": column});
    let credential = |header: &str, path: &str, prefix: &str, place: &Value| {
        json!({"kind": "header_binding", "header": header, "secret": "KEY", "prefix": prefix, "suffix": "", "path_prefix": path, "place": place,
        "source": "the variable KEY, used as long as the command runs", "only_for_placeholder": false, "scrub": true})
    };
    let because = |mut credential: Value, why: &str| {
        credential["why"] = why.into();
        credential
    };
    assert_eq!(code, 0);
    assert_eq!(
        got,
        json!({
            "asked": "GET https://api.example.com/v1/x",
            "verdict": "permit",
            "decided_by": {"kind": "network_host", "entry": "api.example.com", "place": place(4, 24)},
            "other_rules": [
                {"action": "allow", "host": "api.example.com", "place": place(23, 1), "why": "applies as well"},
                {"action": "allow", "host": "api.example.com", "place": place(36, 1), "why": "is for other ports"},
                {"action": "deny", "host": "*.example.com", "place": place(30, 1), "why": "is for other paths"},
            ],
            "more_rules": 0,
            "rules_for_other_hosts": 1,
            "bindings": [credential("authorization", "/v1/", "Bearer ", &place(5, 1))],
            "other_bindings": [
                because(credential("x-key", "/v2/", "", &place(11, 1)), "is for paths /v2/…"),
                because(credential("x-key", "/", "", &place(16, 1)), "is for port 8443"),
            ],
            "upstream_proxy": {"address": "proxy.test:3128", "secret": "KEY"},
            "notes": ["nothing was resolved; every address of api.example.com is checked when it is looked up, before it is dialled"],
        })
    );
    let (code, got) = ask(&[], &["GET", "https://api.example.com/admin"]);
    assert_eq!(code, 1);
    assert_eq!(got["verdict"], "deny");
    assert_eq!(got["code"], "rule_denied");
    assert_eq!(got["decided_by"], json!({"kind": "deny_rule", "place": place(30, 1)}));
    assert_eq!(got["cure"], "take out or narrow the deny rule at p:30:1");
    assert!(got["reason"].as_str().unwrap().ends_with(": no administration"), "{got}");
    let (code, got) = ask(&["--allow", "b.test"], &["dns:b.test"]);
    assert_eq!((code, &got["asked"]), (0, &"dns:b.test".into()));
    assert_eq!(got["decided_by"]["place"], json!({"option": "--allow", "value": "b.test"}));
    // What cannot be explained is no object.
    let o = policy(&["explain", "--json", "GET", "a.test"]);
    assert!(o.code == 2 && o.out.is_empty() && o.err.contains("no scheme"), "{}", o.err);
}
