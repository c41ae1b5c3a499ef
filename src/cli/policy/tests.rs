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
        o.out,
        "permitted: POST https://API.example.com/v1/models?x=1#y\n\
         decided by: network host api.example.com\n\
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
        ("GET", "tcp://a b:1", "' ' is not allowed"),
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
    assert!(place("Arguments:") < place("<METHOD>  ") && place("<METHOD>  ") < place("Policy:"), "{help}");
    assert!(place("Policy:") < place("--allow-cidr"), "{help}");
}
