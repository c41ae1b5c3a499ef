//! Credentials in other places than a header of their own: each goes to what it is bound to, in place of whatever the client
//! sent there, and neither the record nor a refusal shows it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::cases;
use crate::internet::internet;
use crate::sandbox::{Output, Run};
use crate::table::{all_are, program};

cases![
    a_query_parameter,
    basic_with_a_plain_user,
    basic_with_a_secret_user,
    a_cookie,
    a_segment_of_the_path,
    a_segment_is_judged_as_the_client_sent_it,
    a_value_that_its_place_cannot_carry,
    what_explain_says,
];

/// A run with one binding of a kind for HOST, permitted by name, and the secret KEY.
fn bound(host: &str, kind: &str, lines: &str, value: &str) -> Run {
    let run = Run::new();
    let policy = format!(
        "[network]\nmode = \"allow\"\nhosts = [\"{host}\"]\n[[header_bindings]]\nkind = \"{kind}\"\nhost = \"{host}\"\n\
         secret_name = \"KEY\"\n{lines}\n[secrets.KEY]\nenv = \"KEY\"\nplaceholders = [\"TOKEN\"]\n[secrets.USER_KEY]\nenv = \"USER_KEY\"\n"
    );
    let path = run.outside().join("p.toml");
    std::fs::write(&path, policy).unwrap();
    run.arg("--policy").arg(&path.display().to_string()).env("KEY", value).env("USER_KEY", "canary-of-user")
}

/// Each of the paths over both protocols, with these header lines; answers with its status or its refusal.
fn asking(host: &str, paths: &str, lines: &str) -> String {
    format!(
        r#"
host, paths, lines, token = "{host}", {paths}, {lines}, os.environ["TOKEN"]
told = []
for path in [path.replace("TOKEN", token) for path in paths]:
    got = ask(tls(connect(host), host), f"GET {{path}} HTTP/1.1", f"Host: {{host}}", *[f"{{n}}: {{v}}" for n, v in lines])
    told += [[path, got[0] if got[0] == 200 else got[:2]]]
    told += [[path, h2(tls(connect(host), host, "h2"), [h2_get(host, path, *lines)])[0]]]
tell(told)
"#
    )
}

/// Nothing of the credential is in the rows.
#[track_caller]
fn not_recorded(output: &Output, names: &[&str]) {
    let rows = serde_json::to_string(&output.audit).unwrap();
    assert!(!rows.contains("canary") && !output.stderr.contains("canary"), "{output:#?}");
    let with = |row: &&serde_json::Value| row["bindings"] == serde_json::json!(names);
    assert!(output.audit.iter().any(|row| with(&row)), "{rows}");
}

fn a_query_parameter() {
    let host = "query.place.allowed.test";
    let paths = r#"["/echo", "/echo?a=%41&b=+&&c", "/echo?api_key=mine", "/echo?x=1&%61pi_key=mine&y=2", "/echo?API_KEY[]=mine;z"]"#;
    let run = bound(host, "query_parameter", "parameter = \"api_key\"", "canary/of query");
    let (told, output) = program(run, &asking(host, paths, "[]"));
    all_are(&told, |_| 200.into());
    let seen: Vec<String> = internet().web.requests(host).into_iter().map(|seen| seen.target).collect();
    let ours = "api_key=canary%2Fof%20query";
    let want = ["?", "?a=%41&b=+&&c&", "?", "?x=1&y=2&", "?z&"].map(|before| format!("/echo{before}{ours}"));
    assert_eq!(seen, want.iter().flat_map(|target| [target.clone(), target.clone()]).collect::<Vec<_>>());
    not_recorded(&output, &["KEY"]);
    let recorded: Vec<_> = output.audit.iter().filter_map(|row| row["path"].as_str()).collect();
    assert_eq!(recorded, ["/echo"; 10]);
}

fn basic(host: &str, user: &str, pair: &str, names: &[&str]) {
    let lines = r#"[("authorization", "Basic bWluZTptaW5l"), ("authorization", "Bearer mine"), ("x-other", "stays")]"#;
    let (told, output) = program(bound(host, "basic", user, "canary:of basic"), &asking(host, r#"["/echo"]"#, lines));
    all_are(&told, |_| 200.into());
    let seen = internet().web.requests(host);
    for request in &seen {
        assert_eq!(request.header("authorization"), [format!("Basic {}", BASE64_STANDARD.encode(pair))]);
        assert_eq!(request.header("x-other"), ["stays"]);
    }
    assert_eq!(seen.len(), 2);
    not_recorded(&output, names);
}

fn basic_with_a_plain_user() {
    basic("basic.place.allowed.test", "user = \"me\"", "me:canary:of basic", &["KEY"]);
}

fn basic_with_a_secret_user() {
    let user = "user_secret = \"USER_KEY\"";
    basic("pair.place.allowed.test", user, "canary-of-user:canary:of basic", &["KEY", "USER_KEY"]);
}

fn a_cookie() {
    let host = "cookie.place.allowed.test";
    let lines =
        r#"[("cookie", "a=1; session=mine; b=\"2, 3\""), ("cookie", "SESSION=mine"), ("cookie", "c=4 session=mine")]"#;
    let run = bound(host, "cookie", "cookie = \"session\"", "canary-of-cookie");
    let (told, output) = program(run, &asking(host, r#"["/echo"]"#, lines));
    all_are(&told, |_| 200.into());
    let seen = internet().web.requests(host);
    for request in &seen {
        assert_eq!(request.header("cookie"), ["session=canary-of-cookie; a=1; b=\"2, 3\"; c=4"]);
    }
    assert_eq!(seen.len(), 2);
    not_recorded(&output, &["KEY"]);
}

/// The placeholder that the environment holds is swapped where it is all of a segment, and nowhere else.
fn a_segment_of_the_path() {
    let host = "segment.place.allowed.test";
    let paths = r#"["/botTOKEN/send?q=1", "/a/botTOKEN", "/bot/send", "/echo?botTOKEN", "/TOKEN", "/xbotTOKEN"]"#;
    let (told, output) =
        program(bound(host, "path_segment", "prefix = \"bot\"", "7:canary/../of"), &asking(host, paths, "[]"));
    all_are(&told, |_| 200.into());
    let seen: Vec<String> = internet().web.requests(host).into_iter().map(|seen| seen.target).collect();
    assert_eq!(seen.len(), 12);
    assert!(seen.iter().take(2).all(|target| target == "/bot7%3Acanary%2F..%2Fof/send?q=1"), "{seen:?}");
    assert!(seen.iter().skip(2).take(2).all(|target| target == "/a/bot7%3Acanary%2F..%2Fof"), "{seen:?}");
    assert!(!seen[4..].concat().contains("canary"), "{seen:?}");
    not_recorded(&output, &["KEY"]);
    let recorded: Vec<_> = output.audit.iter().filter_map(|row| row["path"].as_str()).collect();
    assert!(recorded.iter().any(|path| path.starts_with("/bot") && path.ends_with("/send")), "{recorded:?}");
}

/// A rule sees what the client asked for: it neither knows nor tells the value.
fn a_segment_is_judged_as_the_client_sent_it() {
    let host = "judged.place.allowed.test";
    let rule = format!(
        "[[network.rules]]\nhost = \"{host}\"\nscheme = \"https\"\naction = \"deny\"\npaths = [\"/canary-of-judged/**\"]"
    );
    let run = bound(host, "path_segment", &rule, "canary-of-judged");
    let paths = r#"["/TOKEN/send", "/canary-of-judged/send"]"#;
    let (told, output) = program(run, &asking(host, paths, "[]"));
    let got: Vec<_> = crate::table::rows(&told).into_iter().map(|(_, got)| got).collect();
    let denied = serde_json::json!([403, "rule_denied"]);
    assert_eq!(got, [200.into(), 200.into(), denied, 403.into()]);
    let seen = internet().web.requests(host);
    assert_eq!(seen.iter().map(|seen| seen.target.as_str()).collect::<Vec<_>>(), ["/canary-of-judged/send"; 2]);
    assert!(!output.audit.iter().any(|row| row["event"] == "permit" && row.to_string().contains("canary")));
}

fn a_value_that_its_place_cannot_carry() {
    for (host, kind, line, value) in [
        ("cookie.bad.allowed.test", "cookie", "cookie = \"session\"", "canary; of=cookie"),
        ("segment.bad.allowed.test", "path_segment", "", ".."),
    ] {
        let asked = asking(host, r#"["/TOKEN?session"]"#, r#"[("cookie", "session=mine")]"#);
        let (told, output) = program(bound(host, kind, line, value), &asked);
        let got = crate::table::rows(&told);
        assert_eq!(got[0].1, serde_json::json!([502, "credential_unavailable"]), "{told}");
        assert_eq!(got[1].1, 502, "{told}");
        assert!(internet().web.requests(host).is_empty());
        not_recorded(&output, &["KEY"]);
    }
}

fn what_explain_says() {
    let policy = "[network]\nmode = \"allow\"\nhosts = [\"a.test\"]\n\
        [[header_bindings]]\nkind = \"query_parameter\"\nhost = \"a.test\"\nparameter = \"api_key\"\nsecret_name = \"KEY\"\n\
        [[header_bindings]]\nkind = \"basic\"\nhost = \"a.test\"\nuser_secret = \"NAME\"\nsecret_name = \"KEY\"\npath_prefix = \"/v1/\"\n\
        [secrets.KEY]\nenv = \"KEY\"\n[secrets.NAME]\nenv = \"NAME\"\n";
    let run = Run::bare().file("p.toml", policy);
    let file = run.work().join("p.toml").display().to_string();
    let (code, out, err) = crate::cli::cli(&["policy", "explain", "--policy", &file, "GET", "https://a.test/v1/x"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for line in [
        "binding: ?api_key={KEY} (secret KEY, paths /…)\n",
        "binding: authorization: Basic {NAME}:{KEY} (secret NAME, secret KEY, paths /v1/…)\n",
    ] {
        assert!(out.contains(line), "{out}");
    }
}
