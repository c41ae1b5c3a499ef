//! The command line: what it takes, what it refuses and how, and that what it says of a policy is what the proxy does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::cases;
use crate::internet::internet;
use crate::sandbox::{PATH, Run, program as binary};
use crate::table::{list, program, rows};

cases![
    every_documented_option_exists,
    unusable_arguments_have_their_exit_codes,
    unusable_values_are_named_with_their_place,
    a_command_that_cannot_be_run,
    the_summary_is_printed_once,
    a_summary_cannot_write_to_the_terminal,
    quiet_is_quiet,
    warnings_come_before_the_command,
    policy_check_says_all,
    explain_agrees_with_the_proxy,
    explain_refuses_what_it_cannot_use,
    completions_are_made,
];

/// The program with these arguments, and no sandbox.
pub fn cli(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(binary()).args(arguments).env_clear().env("PATH", PATH).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// What an option does is for its own test; here, that help names it, and that the manual names no other.
fn every_documented_option_exists() {
    let (code, help, _) = cli(&["run", "--help"]);
    assert_eq!(code, 0);
    for option in [
        "--policy <FILE>",
        "--preset <NAME>",
        "--allow <HOST[:PORT]>",
        "--network <MODE>",
        "--allow-cidr <CIDR>",
        "--allow-private-ips",
        "--bind <'HOST[:PORT][/PATH] HEADER: PREFIX{SECRET}SUFFIX'>",
        "--secret <NAME=SOURCE>",
        "--keep-env <NAME>",
        "--audit <FILE>",
        "--upstream-ca <FILE>",
        "--nameserver <ADDR[:PORT]>",
        "--quiet",
        "--log <FILTER>",
    ] {
        assert!(help.contains(option), "{option}\n{help}");
    }
    let all = [
        "run",
        "policy check",
        "policy explain",
        "policy diff",
        "policy replay",
        "policy presets",
        "doctor",
        "completions",
        "",
    ]
    .map(|command| {
        let words: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let (code, help, stderr) = cli(&words);
        assert_eq!(code, 0, "{command}: {stderr}");
        help
    });
    let all = all.concat();
    let manual = include_str!("../../README.md");
    let words = manual.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    // Options of cargo, of tools and of what runs inside.
    let others = ["--release", "--unshare-all", "--locked", "--path", "--"];
    for option in words.filter(|word| word.starts_with("--") && !others.contains(word)) {
        let known = all.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(|word| word == option);
        assert!(known, "the README names {option}, which no command has");
    }
}

fn unusable_arguments_have_their_exit_codes() {
    for (arguments, code, says) in [
        (&["run", "--alow", "a.test", "--", "true"][..], 125, "--allow"),
        (&["run"], 125, "COMMAND"),
        (&["run", "true"], 125, "true"),
        (&["run", "--quiet", "--quiet", "--", "true"], 125, "--quiet"),
        (&["run", "--network", "some", "--", "true"], 125, "none, all"),
        (&["run", "--log", "no=such=filter", "--", "true"], 125, "--log"),
        (&["--log", "no=such=filter", "run", "--", "true"], 125, "--log"),
        (&["--log", "no=such=filter", "policy", "check", "/dev/null"], 2, "--log"),
        (&[], 2, "Usage"),
        (&["runs"], 2, "run"),
        (&["policy"], 2, "check"),
        (&["policy", "chek", "x"], 2, "check"),
        (&["policy", "check"], 2, "FILE"),
        (&["policy", "check", "--all", "x"], 2, "--all"),
        (&["policy", "explain", "GET"], 2, "URL"),
        (&["policy", "explain", "--preset", "githb", "dns:a.test"], 2, "github"),
        (&["policy", "presets", "githb"], 2, "github"),
        (&["policy", "diff", "/dev/null"], 2, "<B>"),
        (&["policy", "replay"], 2, "AUDIT"),
        (&["policy", "explain", "--alow", "run", "GET", "https://a.test/"], 2, "--allow"),
        (&["doctor", "--verbose"], 2, "--verbose"),
        (&["completions", "tcsh"], 2, "bash"),
        (&["serve"], 2, "serve"),
    ] {
        let (got, stdout, stderr) = cli(arguments);
        assert_eq!(got, code, "{arguments:?}\n{stdout}{stderr}");
        assert!(stderr.contains(says) && stdout.is_empty(), "{arguments:?} should say {says}\n{stdout}{stderr}");
    }
    let (code, stdout, _) = cli(&["--version"]);
    assert_eq!((code, stdout.trim()), (0, concat!("sandbox-proxy ", env!("CARGO_PKG_VERSION"))));
}

fn unusable_values_are_named_with_their_place() {
    let mut wrong = Vec::new();
    for (option, value, says) in [
        ("--allow", "https://a.test", "no scheme"),
        ("--allow", "a.test/x", "path"),
        ("--allow", "a.test:70000", "port"),
        ("--allow", "user@a.test", "'@'"),
        ("--allow", "1.2.3.4.5", "IPv4"),
        ("--allow", "*", "wildcard"),
        ("--allow", "localhost", "machine"),
        ("--allow-cidr", "10.0.0.0/33", "prefix length"),
        ("--allow-cidr", "a.test", "no IP address"),
        ("--bind", "a.test", "HEADER"),
        ("--bind", "a.test X-Key: no secret", "exactly one {SECRET}"),
        ("--bind", "a.test X-Key: {A}{B}", "exactly one {SECRET}"),
        ("--bind", "https://a.test/ X-Key: {A}", "scheme"),
        ("--bind", "a.test/../x X-Key: {A}", "dot segment"),
        ("--bind", "a.test X Key: {A}", "header"),
        ("--bind", "a.test Host: {A}", "cannot be bound"),
        ("--secret", "KEY", "name and a source"),
        ("--secret", "K Y=env:X", "letters, digits"),
        ("--secret", "KEY=command:cat 'x", "quot"),
        ("--secret", "KEY=file:~/x", "not expanded"),
        ("--nameserver", "a.test", "not an address"),
        ("--nameserver", "1.2.3.4:x", "not an address"),
        ("--keep-env", "A=b", "the name alone"),
        ("--keep-env", "", "the name alone"),
        ("--upstream-ca", "/dev/zero", "is not a file"),
        ("--audit", "/", "cannot open"),
    ] {
        let run = Run::bare();
        let marker = run.work().join("ran");
        let output = run.arg(option).arg(value).script("touch ran").run();
        let named = output.stderr.contains(option) && output.stderr.to_lowercase().contains(&says.to_lowercase());
        if output.code != 125 || !named || marker.exists() {
            wrong.push(format!("{option} {value} should say {says}: {} {}", output.code, output.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn a_command_that_cannot_be_run() {
    let run = Run::new().file("plain", "text").file("directory/x", "").file("bad", "#!/nowhere/interpreter\n");
    let work = run.work();
    fs::set_permissions(work.join("bad"), fs::Permissions::from_mode(0o755)).unwrap();
    drop(run);
    for (command, code, says) in [
        ("no-such-program", 127, "no-such-program"),
        ("./absent", 127, "./absent"),
        ("/nowhere/program", 127, "/nowhere/program"),
        ("./plain", 126, "./plain"),
        ("./directory", 126, "./directory"),
        ("./bad", 127, "./bad"),
        ("", 127, ""),
    ] {
        let path =
            |name: &str| name.strip_prefix("./").map_or(name.to_owned(), |name| work.join(name).display().to_string());
        let output = Run::new().command(&[&path(command)]).run();
        assert_eq!(output.code, code, "{command:?}\n{output:#?}");
        output.expect_stderr(says.trim_start_matches("./")).expect_stderr("sandbox-proxy: ");
    }
    Run::new().command(&["sh", "-c", "exit 42"]).run().expect_code(42);
    Run::new().command(&["sh", "-c", "exit 125"]).run().expect_code(125);
    Run::new().command(&["sh", "-c", "kill -TERM $$"]).run().expect_code(143);
}

fn the_summary_is_printed_once() {
    let script = "curl -s https://one.summary.evil.test/; curl -s https://one.summary.evil.test/ https://two.summary.evil.test:8443/ \
        http://listed.allowed.test/ https://10.1.2.4/; true";
    let output = Run::new().allow("listed.allowed.test").script(script).run();
    output.expect_code(0);
    let (before, after) =
        output.stderr.split_once("sandbox-proxy: refused while the command ran:\n").expect("a summary");
    assert!(!before.contains("refused") && !after.contains("refused while"), "{output:#?}");
    let lines: Vec<&str> = after.lines().map(str::trim).collect();
    for expected in [
        "one.summary.evil.test is not in this sandbox's policy (2 times)",
        "to allow it: --allow one.summary.evil.test",
        "two.summary.evil.test:8443 is not in this sandbox's policy",
        "to allow it: --allow two.summary.evil.test:8443",
        "to allow it: --allow-cidr 10.1.2.4",
    ] {
        assert_eq!(lines.iter().filter(|line| **line == expected).count(), 1, "{expected}\n{output:#?}");
    }
    assert!(
        lines.iter().any(|line| line.starts_with("listed.allowed.test:80 may be reached over https only")),
        "{output:#?}"
    );
    // What it says would allow it does.
    let output = Run::new()
        .allow("one.summary.allowed.test")
        .script("curl -sSf https://one.summary.allowed.test/status/200")
        .run();
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:#?}");
}

/// What the sandbox asked for is shown to a person, so nothing in it may steer the terminal.
fn a_summary_cannot_write_to_the_terminal() {
    let code = r#"
for host in ["evil.test\x1b[2J", "evil\u202e.test", "x.evil.test"]:
    with proxy() as sock:
        ask(sock, f"GET https://x.evil.test/\x1b]0;title\x07 HTTP/1.1", f"Host: {host}")
        ask(sock, f"GET https://x.evil.test/ HTTP/1.1", f"Host: {host}")
for index in range(300):
    through_proxy(f"https://n{index}.many.evil.test/", f"n{index}.many.evil.test")
tell(0)
"#;
    let (_, output) = program(Run::new(), code);
    assert!(!output.stderr.chars().any(|c| c != '\n' && c.is_control() || c == '\u{202e}'), "{output:#?}");
    assert!(output.stderr.lines().count() < 300, "the summary has a bound\n{output:#?}");
    output.expect_stderr(" others");
}

fn quiet_is_quiet() {
    let run = || {
        let run = Run::new().arg("--allow-cidr").arg("0.0.0.0/0").secret_env("UNUSED", "value");
        run.script("curl -s https://quiet.evil.test/; true")
    };
    let loud = run().run();
    loud.expect_code(0).expect_stderr("warning: ").expect_stderr("quiet.evil.test is not in this sandbox's policy");
    let output = run().arg("--quiet").run();
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:#?}");
    let run = Run::new().arg("--quiet").arg("--secret").arg("KEY").script("true");
    run.run().expect_code(125).expect_stderr("--secret");
}

fn warnings_come_before_the_command() {
    let run = Run::new().allow("10.1.2.4").arg("--allow-cidr").arg("0.0.0.0/0").secret_env("UNUSED", "value");
    let run = run.secret_env("KEY", "value").bind("unlisted.test X-Key: {KEY}");
    let output = run.script("echo the command >&2").run();
    let (warnings, _) = output.stderr.split_once("the command\n").expect("the command ran");
    for text in [
        "10.1.2.4 is a private address",
        "0.0.0.0/0 is wider",
        "nothing uses the secret UNUSED",
        "does not permit unlisted.test",
    ] {
        assert!(warnings.contains(text), "{text}\n{output:#?}");
    }
    assert!(warnings.lines().filter(|line| !line.starts_with(' ')).all(|line| line.contains("warning")), "{warnings}");
}

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn policy_check_says_all() {
    let run = Run::bare();
    let good = write(run.outside(), "good.toml", "[network]\nmode = \"allow\"\nhosts = [\"a.test\"]\n");
    let warned = write(run.outside(), "warned.toml", "[egress]\nmode = \"custom\"\nallow_cidrs = [\"0.0.0.0/0\"]\n");
    let bad =
        write(run.outside(), "bad.toml", "[network]\nmode = \"some\"\nhots = []\n\n[egress]\nmode = \"custom\"\n");
    assert_eq!(cli(&["policy", "check", &good]), (0, format!("{good}: ok\n"), String::new()));
    let (code, out, err) = cli(&["policy", "check", &warned]);
    assert_eq!((code, out), (0, format!("{warned}: ok, 1 warning\n")));
    assert!(err.contains("warned.toml:3"), "{err}");
    let (code, out, err) = cli(&["policy", "check", &bad, &good, "/nowhere/policy.toml"]);
    assert_eq!((code, out), (2, format!("{good}: ok\n")));
    for text in ["bad.toml:2", "some", "bad.toml:3", "hots", "hosts", "bad.toml:6", "/nowhere/policy.toml"] {
        assert!(err.contains(text), "{text}\n{err}");
    }
    // `run` says the same of it.
    let output = run.arg("--policy").arg(&bad).script("true").run();
    output.expect_code(125);
    let mistakes = err.lines().filter(|line| line.contains("bad.toml")).collect::<Vec<_>>();
    assert!(mistakes.len() >= 3 && mistakes.iter().all(|line| output.stderr.contains(line.trim())), "{output:#?}");
}

const POLICY: &str = r#"
[network]
mode = "allow"
hosts = ["ok.explain.allowed.test", "eight.explain.allowed.test:8443", "bound.explain.allowed.test", "10.1.2.10", "11.22.33.9"]
[egress]
mode = "custom"
allow_cidrs = ["10.1.2.10/32", "11.22.44.0/24", "168.63.129.0/24"]
[[header_bindings]]
kind = "header_binding"
host = "bound.explain.allowed.test"
header = "X-Key"
secret_name = "KEY"
path_prefix = "/v1/"
[secrets.KEY]
env = "KEY"
"#;

/// One table, asked of `policy explain` and of the proxy: verdict, code and bindings are the same.
fn explain_agrees_with_the_proxy() {
    let urls = [
        "https://ok.explain.allowed.test/echo",
        "https://OK.Explain.Allowed.Test./echo",
        "https://ok.explain.allowed.test:443/x?y",
        "https://ok.explain.allowed.test/../x",
        "https://ok.explain.allowed.test:8443/",
        "http://ok.explain.allowed.test/",
        "http://ok.explain.allowed.test:443/",
        "http://ok.explain.allowed.test:8080/",
        "https://sub.ok.explain.allowed.test/",
        "https://eight.explain.allowed.test:8443/",
        "https://eight.explain.allowed.test/",
        "http://eight.explain.allowed.test/",
        "https://bound.explain.allowed.test/v1/x",
        "https://bound.explain.allowed.test/v1",
        "https://bound.explain.allowed.test/%76%31/x",
        "https://bound.explain.allowed.test/v1/../x",
        "https://bound.explain.allowed.test/v1/%2e%2e/x",
        "https://bound.explain.allowed.test/v2",
        "http://bound.explain.allowed.test/v1/x",
        "https://explain.evil.test/",
        "http://explain.evil.test/",
        "https://localhost/",
        "http://x.localhost/",
        "https://10.1.2.10/",
        "https://10.1.2.12/",
        "https://0x0a01020a/",
        "https://[::ffff:10.1.2.10]/",
        "https://11.22.44.180/",
        "https://11.22.44.180:8443/",
        "https://11.22.45.1/",
        "https://168.63.129.16/",
        "https://168.63.129.17/",
        "https://169.254.169.254/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://11.22.33.9/",
    ];
    let run = Run::new().env("KEY", "canary-of-explain");
    let path = write(run.outside(), "policy.toml", POLICY);
    let code = r#"
def host(url):
    return url.split("/")[2]
tell([[url, through_proxy(url, host(url))] for url in URLS])
"#;
    let (told, output) = program(run.arg("--policy").arg(&path), &code.replace("URLS", &list(urls)));
    for (index, (url, got)) in rows(&told).into_iter().enumerate() {
        let (code, out, err) = cli(&["policy", "explain", "--policy", &path, "GET", &url]);
        let explained = out.lines().find_map(|line| line.strip_prefix("code: "));
        // What the policy permits may still fail upstream.
        let refused = got[1].as_str().filter(|code| !code.starts_with("upstream_"));
        assert_eq!((explained, code), (refused, i32::from(refused.is_some())), "{url}: {got}\n{out}{err}");
        let cure = out.lines().any(|line| line.starts_with("to allow it: "));
        let shown = refused.is_some() && got[2].as_str().unwrap().contains("to allow it");
        assert_eq!(cure, shown, "{url}: {got}\n{out}");
        let bound = out.contains("binding: x-key: {KEY}");
        let used = output.audit[index]["bindings"].as_array().is_some_and(|used| *used == [Value::from("KEY")]);
        assert_eq!(bound, used, "{url}: {}\n{out}", output.audit[index]);
    }
    assert_eq!(internet().web.requests_with("canary-of-explain").len(), 2);
}

fn explain_refuses_what_it_cannot_use() {
    for (arguments, says) in [
        (["GET", "a.test"], "no scheme"),
        (["GET", "ftp://a.test/"], "ftp"),
        (["GET", "https://user@a.test/"], "user name"),
        (["GET", "https:///x"], "empty"),
        (["GET", "tcp://a.test"], "needs a port"),
        (["GET", "https://a.test:0/"], "port"),
        (["G T", "https://a.test/"], "method"),
        (["GET", "https://a_\u{1b}[2Jb.test/"], "not allowed"),
    ] {
        let (code, out, err) = cli(&[&["policy", "explain"][..], &arguments].concat());
        assert!(code == 2 && out.is_empty() && err.contains(says), "{arguments:?} should say {says}\n{out}{err}");
        assert!(!err.contains('\u{1b}'), "{err:?}");
    }
    let (code, _, err) = cli(&["policy", "explain", "--allow", "*", "GET", "https://a.test/"]);
    assert!(code == 2 && err.contains("--allow"), "{err}");
}

fn completions_are_made() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, err) = cli(&["completions", shell]);
        assert!(code == 0 && out.contains("allow-cidr") && err.is_empty(), "{shell}: {err}");
    }
}
