use std::path::PathBuf;

use clap::Parser;

use super::*;

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

mod agree;
mod explain;
mod records;
mod why;

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
            "error: cannot read the policy file {}: longer than 1 MiB\nerror: the policy file {} is not UTF-8 (byte 2)\n",
            long.path(),
            binary.path()
        )
    );
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

const SRT: &str = r#"{"network": {"allowedDomains": ["a.test:443", "*.b.test"], "deniedDomains": ["x.b.test"],
    "deniedDomainReasons": {"x.b.test": "not that one"}, "allowPty": 1},
    "filesystem": {"disabled": true, "denyRead": [], "allowWrite": [], "denyWrite": []}}"#;

#[test]
fn files_of_other_systems_are_checked_and_explained() {
    let srt = SRT.replace(", \"allowPty\": 1", "");
    let srt = Scratch::new("srt", &srt);
    let o = policy(&["check", srt.path()]);
    assert_eq!((o.code, o.out, o.err.as_str()), (0, format!("{}: ok\n", srt.path()), ""));
    let bad = Scratch::new("srt-bad", SRT);
    let o = policy(&["check", bad.path()]);
    let told = format!("{}:2:58: unknown key \"network.allowPty\"\n  hint: known here: ", bad.path());
    assert!(o.code == 2 && o.err.starts_with(&told), "{}", o.err);
    let o = policy(&["explain", "--policy", srt.path(), "GET", "https://y.b.test:8443/"]);
    assert!(o.code == 0 && o.out.contains(&format!("allow rule at {}:1:47", srt.path())), "{}", o.out);
    let o = policy(&["explain", "--policy", srt.path(), "GET", "https://x.b.test/"]);
    assert!(o.code == 1 && o.out.contains("not that one"), "{}", o.out);
}

#[test]
fn settings_are_merged_by_check_and_explain() {
    let project = Scratch::new("project", "network_policy:\n  allowed_domains: [p.test]\n");
    let settings = Scratch::new("settings", "allowed_domains: [a.test]\nallow_project_extension: true\n");
    let with = ["--gitlab-settings", settings.path()];
    let o = policy(&["check", with[0], with[1], project.path()]);
    assert_eq!((o.code, o.out), (0, format!("{}: ok\n", project.path())), "{}", o.err);
    let o = policy(&["check", with[0], with[1]]);
    assert_eq!((o.code, o.out), (0, format!("{}: ok\n", settings.path())), "{}", o.err);
    for (host, code) in [("p.test", 0), ("a.test", 0), ("b.test", 1)] {
        let url = format!("https://{host}/");
        assert_eq!(
            policy(&["explain", "--policy", project.path(), with[0], with[1], "GET", &url]).code,
            code,
            "{host}"
        );
    }
    let o = policy(&["check", settings.path()]);
    assert!(o.code == 2 && o.err.contains("give it by --gitlab-settings FILE"), "{}", o.err);
    let o = policy(&["check", "--gitlab-settings", "/nowhere/s.yml", project.path()]);
    assert!(o.code == 2 && o.err.starts_with("error: cannot read the policy file /nowhere/s.yml"), "{}", o.err);
    let nowhere = Scratch::new("nowhere", "recommended_directory: /nowhere/lists\n");
    let o = policy(&["check", "--gitlab-settings", nowhere.path()]);
    assert!(o.code == 2 && o.err.contains("cannot read the directory /nowhere/lists"), "{}", o.err);
}

#[test]
fn what_is_imported_is_a_policy_file_that_says_the_same() {
    let srt = Scratch::new("import", &SRT.replace(", \"allowPty\": 1", ""));
    let o = policy(&["import", "srt", srt.path()]);
    assert_eq!((o.code, o.err.as_str()), (0, ""));
    assert!(o.out.starts_with(&format!("# {}:1:33\n[[network.rules]]\nhost = \"a.test\"\n", srt.path())), "{}", o.out);
    let own = Scratch::new("imported", &o.out);
    for (url, code) in
        [("https://a.test/", 0), ("https://a.test:8443/", 1), ("http://y.b.test/", 0), ("https://x.b.test/", 1)]
    {
        for file in [&srt, &own] {
            assert_eq!(policy(&["explain", "--policy", file.path(), "GET", url]).code, code, "{url}");
        }
    }
    let project = Scratch::new("import-project", "network_policy:\n  allowed_domains: [p.test]\n");
    let settings = Scratch::new("import-settings", "always_allowed: [g.test]\n");
    let o = policy(&["import", "gitlab", project.path(), "--gitlab-settings", settings.path()]);
    assert!(o.code == 0 && o.out.contains("g.test") && !o.out.contains("p.test"), "{}", o.out);
}

#[test]
fn what_cannot_be_imported_is_told_by_its_place() {
    let every = r#"{"network": {"allowedDomains": ["a.test", "*.co.uk"], "deniedDomains": ["*:22"]},
        "filesystem": {"disabled": true, "denyRead": [], "allowWrite": [], "denyWrite": []}}"#;
    let every = Scratch::new("every", every);
    let o = policy(&["import", "srt", every.path()]);
    assert_eq!((o.code, o.out.as_str()), (2, ""));
    let path = every.path();
    assert!(o.err.ends_with(&format!(
        "{path}:1:43: a policy file of our own cannot say this: \"*.co.uk\": anybody can register a name below co.uk\n\
         {path}:1:73: a policy file of our own cannot say this: \"*\": a bare `*` is every host\n  \
         hint: {path} is a policy as it is: give it by --policy\n"
    )), "{}", o.err);
    let o = policy(&["import", "gitlab", path]);
    assert_eq!((o.code, o.err), (2, format!("error: {path} is not a GitLab agent-config.yml\n")));
    let own = Scratch::new("own", "[network]\nmode = \"all\"\n");
    let o = policy(&["import", "srt", own.path()]);
    assert_eq!((o.code, o.err), (2, format!("error: {} is not srt settings\n", own.path())));
    assert_eq!(policy(&["import", "srt", "/nowhere/srt.json"]).code, 2);
}
