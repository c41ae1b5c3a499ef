use std::path::PathBuf;

use clap::Parser;
use serde_json::{Value, json};

use super::*;
use crate::policy::{Denial, Entry, Grant, Permit, Question};
use crate::types::{Destination, Host, Scheme};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: PolicyCommand,
}

struct Output {
    code: u8,
    out: String,
    err: String,
}

fn policy(args: &[&str]) -> Output {
    let cli = Cli::try_parse_from(std::iter::once(&"policy").chain(args)).unwrap_or_else(|e| panic!("{e}"));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run(&cli.command, &mut out, &mut err);
    Output { code, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
}

/// A file of its own for one test, removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sandbox-proxy-policy-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn check_says_ok_or_every_mistake() {
    let good = Scratch::new("good", "[network]\nmode = \"allow\"\nhosts = [\"a.test\"]\n");
    let warned = Scratch::new("warned", "[secrets.K]\nenv = \"K\"\n");
    let bad = Scratch::new("bad", "[network]\nmode = \"allow\"\nhosts = [\"*.a.test\", \"b.test/\"]\n");

    let o = policy(&["check", good.path(), warned.path()]);
    assert_eq!(o.code, 0);
    assert_eq!(o.out, format!("{}: ok\n{}: ok, 1 warning\n", good.path(), warned.path()));
    assert_eq!(o.err, format!("{}:1:10: warning: nothing uses the secret K\n", warned.path()));

    let o = policy(&["check", bad.path(), good.path()]);
    assert_eq!((o.code, o.out), (2, format!("{}: ok\n", good.path())));
    assert!(o.err.contains(&format!("{}:3:10: \"*.a.test\": wildcards", bad.path())), "{}", o.err);
    assert!(o.err.contains(&format!("{}:3:22: \"b.test/\": an entry has no path\n  hint: ", bad.path())), "{}", o.err);
}

const CASES: &str = r#"
[network]
mode = "allow"
hosts = ["a.test", "10.0.0.1"]

[[network.rules]]
host = "b.test"
action = "allow"
methods = ["GET"]
"#;

fn case(request: &str, rest: &str) -> String {
    format!("[[cases]]\nrequest = \"{request}\"\n{rest}\n")
}

#[test]
fn check_asks_the_cases() {
    let good = [
        ("GET https://a.test/x", "expect = \"permit\""),
        ("GET https://b.test/", "expect = \"permit\""),
        ("POST https://b.test/", "expect = \"deny\"\ncode = \"method_not_permitted\""),
        ("tcp://a.test:22", "expect = \"deny\""),
        ("dns:b.test", "expect = \"permit\""),
        ("dns:c.test", "expect = \"deny\"\ncode = \"host_not_listed\""),
        ("GET https://10.0.0.1/", "expect = \"deny\"\ncode = \"address_blocked\""),
    ];
    let text = CASES.to_owned() + &good.map(|(request, rest)| case(request, rest)).concat();
    let file = Scratch::new("cases", &text);
    let o = policy(&["check", file.path()]);
    assert_eq!((o.code, o.out), (0, format!("{}: ok, 7 cases, 1 warning\n", file.path())), "{}", o.err);

    let bad = [
        ("GET https://c.test/x", "expect = \"permit\""),
        ("GET https://a.test/", "expect = \"deny\""),
        ("POST https://b.test/", "expect = \"deny\"\ncode = \"rule_denied\""),
        ("dns:a.test", "expect = \"deny\""),
    ];
    let text = CASES.to_owned() + &bad.map(|(request, rest)| case(request, rest)).concat();
    let file = Scratch::new("failing", &text);
    let o = policy(&["check", file.path()]);
    assert_eq!((o.code, o.out.as_str()), (2, ""));
    let said = o.err.replace(file.path(), "p");
    let (_, failures) = said.split_once("opens it\n").unwrap();
    assert_eq!(
        failures,
        "p:10:1: GET https://c.test/x is denied (host_not_listed), and this case expects it to be permitted\n  \
           hint: c.test is not in this sandbox's policy\n\
         p:13:1: GET https://a.test/ is permitted, and this case expects it to be denied\n  \
           hint: it is permitted by network host a.test\n\
         p:16:1: POST https://b.test/ is denied as method_not_permitted, and this case expects rule_denied\n  \
           hint: b.test may be reached, but not with POST for this path\n\
         p:20:1: dns:a.test is permitted, and this case expects it to be denied\n  \
           hint: it is permitted by network host a.test\n"
    );
    // What a request would be told does not depend on them.
    assert_eq!(policy(&["explain", "--policy", file.path(), "GET", "https://a.test/"]).code, 0);
}

#[test]
fn check_names_a_file_it_cannot_read() {
    let o = policy(&["check", "/nowhere/p.toml"]);
    assert_eq!((o.code, o.out.as_str()), (2, ""));
    assert!(o.err.starts_with("error: cannot read the policy file /nowhere/p.toml: "), "{}", o.err);
}

#[test]
fn a_file_that_is_too_long_or_no_text_is_refused() {
    let long = Scratch::new("long", &"#".repeat((1 << 20) + 1));
    let binary = Scratch::new("binary", "");
    std::fs::write(&binary.0, b"# \xff").unwrap();
    let o = policy(&["check", long.path(), binary.path()]);
    assert_eq!(o.code, 2);
    assert_eq!(
        o.err,
        format!(
            "error: the policy file {} is longer than 1 MiB\nerror: the policy file {} is not UTF-8 (byte 2)\n",
            long.path(),
            binary.path()
        )
    );
}

#[test]
fn explain_shows_the_entry_and_the_bindings() {
    let file = Scratch::new("explain", "[network]\nmode = \"allow\"\nhosts = [\"api.example.com\"]\n");
    let o = policy(&[
        "explain",
        "--policy",
        file.path(),
        "--bind",
        "api.example.com/v1/ Authorization: Bearer {KEY}",
        "--secret",
        "KEY=env:NOT_SET_ANYWHERE",
        "POST",
        "https://API.example.com/v1/models?x=1#y",
    ]);
    assert_eq!((o.code, o.err.as_str()), (0, ""));
    assert_eq!(
        o.out.replace(file.path(), "p"),
        "permitted: POST https://api.example.com/v1/models\n\
         decided by: network host api.example.com at p:3:10\n\
         binding: authorization: Bearer {KEY} (secret KEY, paths /v1/…)\n\
         note: nothing was resolved; every address of api.example.com is checked when it is looked up, before it is dialled\n"
    );
}

#[test]
fn explain_shows_the_denial_and_its_cure() {
    let o = policy(&["explain", "GET", "https://a.test:8443/"]);
    assert_eq!(o.code, 1);
    assert_eq!(
        o.out,
        "denied: GET https://a.test:8443/\n\
         code: host_not_listed\n\
         reason: a.test:8443 is not in this sandbox's policy\n\
         to allow it: --allow a.test:8443\n"
    );
}

/// The cure of a denial, given as option, permits the request.
#[test]
fn a_cure_cures() {
    for (options, url) in [
        (&[] as &[&str], "https://a.test/"),
        (&[], "https://a.test:8443/"),
        (&[], "https://10.0.0.1:8443/"),
        (&[], "https://10.0.0.1:5432/"),
        (&["--network", "all"], "https://169.254.169.254/"),
        (&["--network", "all"], "https://[64:ff9b::10.0.0.1]/"),
        (&["--network", "all"], "https://[fe80::1]/"),
    ] {
        let ask = |more: &[&str]| policy(&[&["explain"], options, more, &["GET", url]].concat());
        let denied = ask(&[]);
        assert_eq!(denied.code, 1, "{url}");
        let cure = denied.out.lines().find_map(|line| line.strip_prefix("to allow it: ")).unwrap();
        let cured = ask(&cure.split(' ').collect::<Vec<_>>());
        assert_eq!(cured.code, 0, "{url} {cure}: {}", cured.out);
    }
}

const RULES: &str = r#"
[[network.rules]]
host = "api.example.com"
action = "allow"
methods = ["GET"]
paths = ["/v1/**"]
reason = "read-only API"

[[network.rules]]
host = "*.example.com"
action = "deny"
paths = ["/admin/**"]
reason = "no administration"

[[network.rules]]
host = "api.example.com"
action = "allow"
ports = [8443]

[[network.rules]]
host = "other.example.net"
action = "allow"
"#;

#[test]
fn explain_shows_the_rule_that_decided_and_why_the_others_did_not() {
    let file = Scratch::new("rules", RULES);
    let p = file.path();
    let ask = |method, url| {
        let o = policy(&["explain", "--policy", p, method, url]);
        assert_eq!(o.err, "");
        (o.code, o.out.lines().skip(1).map(|line| line.replace(p, "p") + "\n").collect::<String>())
    };
    let others = "not by: the deny rule for *.example.com at p:9:1, which is for other paths\n\
                  not by: 1 rule for another host\n";
    let (code, out) = ask("GET", "https://api.example.com/v1/x");
    assert_eq!(code, 0);
    assert!(
        out.starts_with(&format!(
            "decided by: the allow rule at p:2:1\n\
             not by: the allow rule for api.example.com at p:15:1, which is for other ports\n{others}"
        )),
        "{out}"
    );
    assert_eq!(
        ask("PUT", "https://api.example.com/v1/x"),
        (
            1,
            format!(
                "code: method_not_permitted\n\
                 reason: api.example.com may be reached, but not with PUT for this path: read-only API\n\
                 not by: the allow rule for api.example.com at p:2:1, which is for other methods\n\
                 not by: the allow rule for api.example.com at p:15:1, which is for other ports\n{others}\
                 to allow it: PUT in the methods of the rule at p:2:1, or a rule of its own\n"
            )
        )
    );
    assert_eq!(
        ask("GET", "https://api.example.com:8443/admin/x"),
        (
            1,
            "code: rule_denied\n\
             reason: a rule of this sandbox's policy denies this request to api.example.com:8443: no administration\n\
             decided by: the deny rule at p:9:1\n\
             not by: the allow rule for api.example.com at p:2:1, which is for other ports\n\
             not by: the allow rule for api.example.com at p:15:1, which applies as well\n\
             not by: 1 rule for another host\n\
             to allow it: take out or narrow the deny rule at p:9:1\n"
                .to_owned()
        )
    );
    let (code, out) = ask("GET", "https://api.example.com/v1/../x");
    assert_eq!(code, 1);
    assert!(out.starts_with("code: ambiguous_path\nreason: the path is ambiguous: a dot segment\n"), "{out}");
    assert!(out.contains("at p:2:1, which looks at the path, which is ambiguous\n"), "{out}");
    let (code, out) = ask("GET", "http://api.example.com/v1/x");
    assert_eq!(code, 1);
    assert!(out.contains("code: https_only") && out.contains("at p:2:1, which is for another scheme\n"), "{out}");
    assert!(out.ends_with("not by: 1 rule for another host\n"), "no cure that would not help: {out}");
}

/// Rules that a policy has for one host may be many; they are not all shown.
#[test]
fn explain_shows_a_bounded_number_of_rules() {
    let rule =
        |at: usize| format!("[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nports = [{}]\n", 1000 + at);
    let file = Scratch::new("many", &(0..30).map(rule).collect::<String>());
    let o = policy(&["explain", "--policy", file.path(), "GET", "https://a.test/"]);
    assert_eq!(o.out.matches("which is for other ports").count(), 20);
    assert!(o.out.contains("not by: 10 more rules for this host\n"), "{}", o.out);
}

/// Where a file fixes the mode, `--allow` would contradict it, so a rule is named; written into the file, it permits.
#[test]
fn the_cure_beside_a_fixed_mode_is_a_rule() {
    let none = "[network]\nmode = \"none\"\n";
    let file = Scratch::new("fixed", none);
    let o = policy(&["explain", "--policy", file.path(), "GET", "https://a.test:8443/"]);
    let cure = "[[network.rules]] with host = \"a.test\", ports = [8443], action = \"allow\"";
    assert!(o.out.contains(&format!("to allow it: {cure}\n")), "{}", o.out);
    let written = cure.replace(" with ", "\n").replace(", ", "\n");
    let cured = Scratch::new("cured", &format!("{none}{written}\n"));
    assert_eq!(policy(&["explain", "--policy", cured.path(), "GET", "https://a.test:8443/"]).code, 0);
}

/// What is explained is what is enforced: the verdict, its code, the rule that decided, and the bindings.
#[test]
fn explain_and_enforcement_agree() {
    let file = Scratch::new("random", "");
    let (mut written, mut permitted, mut by_rule) = (String::new(), 0, 0);
    crate::policy::oracle::samples(150, 20, |text, enforced, facts| {
        if written != text {
            std::fs::write(&file.0, text).unwrap();
            text.clone_into(&mut written);
        }
        let Destination { authority, scheme, .. } = facts.destination;
        let url = format!("{scheme}://{}:{}{}", authority.host, authority.port, facts.path);
        let tcp = *scheme == Scheme::Tcp;
        let subject = if tcp { vec![url.trim_end_matches(facts.path)] } else { vec![facts.method, &url] };
        let o = policy(&[&["explain", "--policy", file.path()], &subject[..]].concat());
        let says = |line: String| assert!(o.out.contains(&(line.clone() + "\n")), "{line}\n{}\n{text}", o.out);
        let permit = |grant| Permit { grant, bindings: Vec::new() };
        let passed = match enforced.entry(facts.destination) {
            Ok(Entry::Relay(grant)) => Some(grant),
            Ok(Entry::Look { other }) if tcp => other,
            Ok(Entry::Look { .. }) | Err(_) if tcp => None,
            Ok(Entry::Look { .. }) | Err(_) => enforced.passes_unread(facts.destination),
        };
        let answer = match passed {
            Some(grant) => Ok(permit(grant)),
            None if tcp => match enforced.destination(facts.destination) {
                // What has to be looked into passes only as what can be read.
                Ok(_) => {
                    assert_eq!(o.code, 1, "{}\n{text}", o.out);
                    return;
                }
                Err(denial) => Err(denial),
            },
            None => enforced.request(facts),
        };
        match answer {
            Ok(permit) => {
                permitted += 1;
                assert_eq!(o.code, 0, "{}\n{text}", o.out);
                let bound = o.out.lines().filter(|line| line.starts_with("binding: ")).count();
                assert_eq!(bound, permit.bindings.len(), "{}\n{text}", o.out);
                if let Grant::Rule { place } = permit.grant {
                    by_rule += 1;
                    says(format!(
                        "decided by: the allow rule at {}",
                        place.to_string().replace("random.toml", file.path())
                    ));
                }
            }
            Err(denial) => {
                assert_eq!(o.code, 1, "{}\n{text}", o.out);
                says(format!("code: {}", denial.code()));
                if let Denial::RuleDenied { rule, .. } = denial {
                    by_rule += 1;
                    says(format!(
                        "decided by: the deny rule at {}",
                        rule.to_string().replace("random.toml", file.path())
                    ));
                }
            }
        }
    });
    assert!(permitted > 500 && by_rule > 100, "{permitted} {by_rule}");
}

/// A name is explained as looked up exactly where the sandbox's DNS would ask for it.
#[test]
fn explain_and_the_resolver_agree() {
    let (mut looked_up, mut closed) = (0, 0);
    crate::policy::oracle::samples(400, 10, |text, enforced, facts| {
        let Host::Name(name) = &facts.destination.authority.host else { return };
        let answer = Question::LookUp(name.clone()).ask(enforced);
        assert_eq!(answer.is_ok(), enforced.may_resolve(name), "{name}: {answer:?}\n{text}");
        match answer {
            Ok(permit) if permit.grant == Grant::NetworkAll => {
                assert_eq!(enforced.network_mode(), crate::policy::NetworkMode::All, "{name}\n{text}");
            }
            Ok(_) => looked_up += 1,
            Err(Denial::RuleDenied { .. }) => closed += 1,
            Err(_) => {}
        }
    });
    assert!(looked_up > 500 && closed > 50, "{looked_up} {closed}");
}

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
             note: every address of api.example.com is checked before the sandbox gets it\n"
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
    let credential = |header: &str, path: &str, prefix: &str, place: &Value| json!({"header": header, "secret": "KEY", "prefix": prefix, "suffix": "", "path_prefix": path, "place": place});
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

/// A row as `run --audit` writes it, with these fields changed.
fn row(fields: &Value) -> String {
    let mut row = json!({
        "time": "2026-01-01T00:00:00Z", "sandbox": "s", "capture": "transparent", "scheme": "https", "protocol": "h2",
        "method": "GET", "authority": "a.test", "path": "/", "verdict": "permit", "rule": "network host a.test",
        "upstream": "11.22.33.9:443", "status": 200, "bytes_up": 0, "bytes_down": 0, "total_ms": 1.0,
    });
    for (key, value) in fields.as_object().unwrap() {
        row[key] = value.clone();
    }
    format!("{row}\n")
}

#[test]
fn replay_says_what_changes() {
    let denied = json!({"authority": "b.test", "verdict": "deny", "code": "host_not_listed", "rule": null});
    let long = json!({"path": format!("/{}", "x".repeat(2047)), "authority": "r.test", "rule": "rule p:1:1"});
    let rows = [
        row(&json!({})),
        row(&json!({"method": "POST", "path": "/\u{1b}[2J"})),
        row(&json!({"method": "POST", "path": "/\u{1b}[2J"})),
        row(&denied),
        row(&json!({"authority": "c.test", "verdict": "deny", "code": "host_not_listed"})),
        row(&json!({"verdict": "deny", "code": "misdirected"})),
        row(&long),
    ];
    let audit = Scratch::new("audit", &rows.concat());
    let text = "[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nmethods = [\"GET\"]\nreason = \"read-only\"\n\
                [[network.rules]]\nhost = \"r.test\"\naction = \"allow\"\npaths = [\"/v1\"]\n";
    let file = Scratch::new("replayed", text);
    let o = policy(&["replay", "--policy", file.path(), "--allow", "b.test", audit.path()]);
    assert_eq!((o.code, o.err.as_str()), (1, ""));
    assert_eq!(
        o.out.replace(file.path(), "p"),
        "now denied: POST https://a.test:443/\\u{1b}[2J: method_not_permitted: a.test may be reached, but not with POST for \
         this path: read-only (the rule at p:1:1) (2 rows)\n\
         now permitted: GET https://b.test:443/: by network host b.test, by --allow \"b.test\"\n\
         not known: GET https://r.test:443/…: its path is too long to have been recorded whole\n\
         7 rows: 2 now denied, 1 now permitted, 1 permitted and 1 denied as before, 1 not known, 1 that no policy decides\n"
    );
    let same = Scratch::new("same", &[row(&json!({})), row(&denied)].concat());
    let o = policy(&["replay", "--policy", file.path(), same.path()]);
    let counts = "2 rows: 0 now denied, 0 now permitted, 1 permitted and 1 denied as before, 0 not known, 0 that no policy decides\n";
    assert_eq!((o.code, o.out.as_str()), (0, counts));
}

#[test]
fn replay_names_a_line_that_is_no_row() {
    let good = row(&json!({}));
    for bad in ["no row\n", "{}\n", &good[..good.len() / 2], "\n"] {
        let audit = Scratch::new("bad-audit", &format!("{good}{good}{bad}"));
        let o = policy(&["replay", "--network", "all", audit.path()]);
        assert_eq!((o.code, o.out.as_str()), (2, ""), "{bad:?}");
        assert!(o.err.starts_with(&format!("error: {}:3: no row of an audit: ", audit.path())), "{}", o.err);
    }
    let o = policy(&["replay", "--network", "all", "/nowhere/audit.jsonl"]);
    assert!(o.code == 2 && o.err.starts_with("error: cannot read /nowhere/audit.jsonl: "), "{}", o.err);
}

/// However many rows there are, no more changes than that are remembered.
#[test]
fn replay_remembers_a_bounded_number_of_changes() {
    let rows: String = (0..10_050).map(|at| row(&json!({"path": format!("/{at}")}))).collect();
    let audit = Scratch::new("many-rows", &rows);
    let o = policy(&["replay", audit.path()]);
    assert_eq!((o.code, o.out.matches("now denied: ").count()), (1, 10_000));
    assert!(o.out.contains("and 50 rows of further requests, beyond 10000\n10050 rows: 10050 now denied, "));
}

#[test]
fn diff_says_what_is_more() {
    let a = Scratch::new("diff-a", "[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nmethods = [\"GET\"]\n");
    let b = Scratch::new("diff-b", "[network]\nmode = \"allow\"\nhosts = [\"a.test\"]\n");
    let ask = |arguments: &[&str]| {
        let o = policy(&[&["diff"], arguments].concat());
        (o.code, o.out.replace(a.path(), "a").replace(b.path(), "b"))
    };
    let more = "b permits more than a:\n  https://a.test/** with any method is permitted, such as POST https://a.test/ (b:3:10)\n";
    assert_eq!(ask(&[a.path(), b.path()]), (1, more.to_owned()));
    assert_eq!(ask(&[b.path(), a.path()]), (0, "a permits nothing that b does not\n".to_owned()));
    assert_eq!(ask(&["--both", b.path(), a.path()]), (1, format!("a permits nothing that b does not\n{more}")));
    assert_eq!(ask(&[b.path(), "/nowhere"]), (2, String::new()));
}

#[test]
fn presets_are_listed_printed_and_used() {
    let o = policy(&["presets"]);
    assert_eq!((o.code, o.err.as_str(), o.out.lines().count()), (0, "", PRESETS.len()));
    assert!(o.out.starts_with("github       Clone, fetch and push over https at GitHub, "), "{}", o.out);
    let o = policy(&["presets", "github"]);
    assert_eq!((o.code, o.err.as_str(), o.out.as_str()), (0, "", include_str!("../../../policies/github.toml")));
    let file = Scratch::new("preset", &o.out);
    assert_eq!(policy(&["check", file.path()]).out, format!("{}: ok, 10 cases\n", file.path()));
    let ask = |presets: &[&str], subject: &[&str]| policy(&[&["explain"], presets, subject].concat());
    let clone = ["GET", "https://github.com/a/b.git/info/refs"];
    assert_eq!(ask(&[], &clone).code, 1);
    let o = ask(&["--preset", "github"], &clone);
    assert!(o.code == 0 && o.out.contains("decided by: the allow rule at preset github:3:1\n"), "{}", o.out);
    // Several, with deny over allow.
    let both = ["--preset", "recommended", "--preset", "telemetry", "--network", "all"];
    assert_eq!(ask(&both, &["GET", "https://www.gitlab.com/"]).code, 0);
    let o = ask(&both, &["GET", "https://api.segment.io/"]);
    assert!(o.code == 1 && o.out.contains("decided by: the deny rule at preset telemetry:"), "{}", o.out);
    let unknown =
        Cli::try_parse_from(["policy", "explain", "--preset", "githb", "dns:a.test"]).err().unwrap().to_string();
    assert!(unknown.contains("'githb'") && unknown.contains("'github'"), "{unknown}");
}

#[test]
fn explain_checks_a_literal_address() {
    let o = policy(&["explain", "--network", "all", "GET", "https://2130706433/"]);
    assert_eq!(o.code, 1);
    assert!(o.out.contains("code: address_blocked\nreason: 127.0.0.1 is at a loopback address"), "{}", o.out);
    assert_eq!(policy(&["explain", "--network", "all", "GET", "https://1.1.1.1/"]).code, 0);
}

#[test]
fn explain_refuses_what_it_cannot_use() {
    for (method, url, what) in [
        ("GET", "a.test", "it has no scheme"),
        ("GET", "ftp://a.test/", "the scheme \"ftp\""),
        ("GET", "https:///x", "the host is empty"),
        ("GET", "https://u:p@a.test/", "it holds a user name"),
        ("GET", "https://a.test:0/", "the port is not a number"),
        ("GET", "tcp://a.test", "a tcp URL needs a port"),
        ("GET", "tcp://a.test:1", "tcp://HOST:PORT has no method"),
        ("GET", "dns:a.test", "dns:NAME has no method"),
        ("G T", "https://a.test/", "\"G T\" is not a method"),
    ] {
        let o = policy(&["explain", method, url]);
        assert_eq!((o.code, o.out.as_str()), (2, ""), "{method} {url}");
        assert!(o.err.contains(what), "{url}: {}", o.err);
    }
    let o = policy(&["explain", "--allow", "*.a.test", "GET", "https://a.test/"]);
    assert_eq!(o.code, 2);
    assert!(o.err.starts_with("--allow \"*.a.test\": wildcards are not accepted here\n  hint: "), "{}", o.err);
}

#[test]
fn clap_knows_the_modes_of_network() {
    assert!(Cli::try_parse_from(["policy", "explain", "--network", "allow", "GET", "https://a.test"]).is_err());
    assert!(Cli::try_parse_from(["policy", "check"]).is_err());
}

/// The heading of the shared options must not swallow what a command adds to them.
#[test]
fn help_keeps_the_policy_options_together() {
    let help = Cli::try_parse_from(["policy", "explain", "-h"]).err().map(|e| e.to_string()).unwrap_or_default();
    let place = |text| help.find(text).unwrap_or_else(|| panic!("{text} is not in {help}"));
    assert!(place("Arguments:") < place("[METHOD]  ") && place("[METHOD]  ") < place("Policy:"), "{help}");
    assert!(place("Policy:") < place("--allow-cidr"), "{help}");
}
