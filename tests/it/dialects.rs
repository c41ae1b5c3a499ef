//! Policies of other systems, given to the real program as they are: srt's settings and GitLab's agent-config.yml.

use std::fs;

use serde_json::json;

use crate::cases;
use crate::internet::internet;
use crate::internet::rawtls::{RawTls, Step};
use crate::rules::targets;
use crate::sandbox::{Output, Run, refuses};
use crate::table::{all_are, list, program};

cases![
    srt_settings_are_a_policy,
    srt_addresses_are_checked,
    srt_denies_everything,
    srt_limits_files,
    agent_config_is_a_policy,
    administrators_settings_are_merged,
    what_is_not_honoured_of_srt_stops_the_start,
];

/// srt settings in a file beside the working directory, with these members of `network`.
fn srt(network: &str) -> Run {
    let run = Run::new();
    let path = run.outside().join("srt-settings.json");
    let text = format!(
        r#"{{"network": {{{network}}},
             "filesystem": {{"disabled": true, "denyRead": [], "allowWrite": [], "denyWrite": []}}}}"#
    );
    fs::write(&path, text).unwrap();
    run.arg("--policy").arg(&path.display().to_string())
}

/// Asks hosts with curl, each on its own line: the status and the host.
fn curl(run: Run, hosts: &[&str]) -> (Vec<String>, Output) {
    let asked: Vec<String> = hosts
        .iter()
        .map(|host| format!("curl -sS -o /dev/null -w '%{{http_code}} {host}\\n' https://{host}/x"))
        .collect();
    let output = run.script(&asked.join("; ")).run();
    (output.stdout.lines().map(str::to_owned).collect(), output)
}

fn srt_settings_are_a_policy() {
    let run = srt(r#""allowedDomains": ["one.srt.allowed.test:443", "*.below.srt.allowed.test"],
        "deniedDomains": ["bad.below.srt.allowed.test"],
        "deniedDomainReasons": {"bad.below.srt.allowed.test": "not that one"}, "strictAllowlist": true"#);
    let hosts = [
        "one.srt.allowed.test",
        "x.below.srt.allowed.test",
        "below.srt.allowed.test",
        "bad.below.srt.allowed.test",
        "other.srt.allowed.test",
    ];
    let (told, output) = curl(run, &hosts);
    let status = |host: &&str| if host.starts_with("one.") || host.starts_with("x.") { 200 } else { 403 };
    assert_eq!(told, hosts.iter().map(|host| format!("{} {host}", status(host))).collect::<Vec<_>>(), "{output:#?}");
    output
        .expect_stderr("denies bad.below.srt.allowed.test: not that one")
        .expect_stderr("--allow other.srt.allowed.test");
    assert_eq!(hosts.map(|host| targets(host).len()), [1, 1, 0, 0, 0]);
    let asked = |host: &str| internet().dns.queries(host) > 0;
    assert_eq!(hosts.map(asked), [true, true, false, false, false]);
}

/// Names that lead to a denied address, to a private one, and to one that an entry opens on one port.
fn srt_addresses_are_checked() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec();
    let upstream = |at| RawTls::start(at, vec![Step::ReadHead, Step::Send(answer.clone()), Step::Close]);
    let (denied, opened) = (upstream("11.22.44.190:443"), upstream("10.1.2.130:8443"));
    let elsewhere = upstream("10.1.2.130:443");
    internet().dns.set("denied.srt.test", &["11.22.44.190"]);
    internet().dns.set("private.srt.test", &["10.1.2.130"]);
    let run = srt(r#""allowedDomains": ["*.srt.test", "10.1.2.130:8443"], "deniedDomains": [],
        "deniedResolvedAddresses": ["11.22.44.184/29"]"#);
    let code = r#"
told = []
for host, port in [("denied.srt.test", 443), ("private.srt.test", 443), ("private.srt.test", 8443), ("10.1.2.130", 443), ("10.1.2.130", 8443)]:
    for way, reach in [("connect", connect), ("transparent", lambda host, port: socket.create_connection((host, port)))]:
        got = reach(host, port)
        authority = host if port == 443 else f"{host}:{port}"
        got = got if isinstance(got, list) else ask(tls(got, host), "GET / HTTP/1.1", f"Host: {authority}")
        told += [[f"{host}:{port}", got[:2]]]
tell(told)
"#;
    let (told, output) = program(run, code);
    all_are(&told, |case| match case {
        "private.srt.test:8443" => json!([200, null]),
        // It was reached, and its certificate does not name its address.
        "10.1.2.130:8443" => json!([502, "upstream_unverified"]),
        "10.1.2.130:443" => json!([403, "host_not_listed"]),
        _ => json!([403, "address_blocked"]),
    });
    output.expect_stderr("to allow it: take 11.22.44.190 out of the addresses that the policy denies");
    output.expect_stderr("10.1.2.130 is a private address, which this entry opens");
    assert_eq!((denied.requests("GET"), opened.requests("GET"), elsewhere.requests("GET")), (0, 2, 0));
}

fn srt_denies_everything() {
    let run = srt(r#""allowedDomains": ["all.srt.allowed.test"], "deniedDomains": ["*"]"#);
    let (told, output) = curl(run, &["all.srt.allowed.test", "b.srt.allowed.test"]);
    assert_eq!(told, ["403 all.srt.allowed.test", "403 b.srt.allowed.test"], "{output:#?}");
    output.expect_stderr("this rule permits nothing: the deny rule at ");
    assert!(targets("all.srt.allowed.test").is_empty() && internet().dns.queries("all.srt.allowed.test") == 0);
}

fn srt_limits_files() {
    let run = Run::new().file("kept", "as it was");
    let path = run.outside().join("srt-settings.json");
    let settings = r#"{"network": {"allowedDomains": [], "deniedDomains": []},
        "filesystem": {"denyRead": ["~/hidden"], "allowWrite": ["."], "denyWrite": ["kept"]}}"#;
    fs::write(&path, settings).unwrap();
    let (work, home) = (run.work(), run.home());
    fs::create_dir(home.join("hidden")).unwrap();
    fs::write(home.join("hidden/text"), "canary-of-files").unwrap();
    let run = run.arg("--policy").arg(&path.display().to_string());
    let output =
        run.script("echo x >new; echo x >kept; echo x >\"$HOME\"/other; cat \"$HOME\"/hidden/text; echo done").run();
    assert_eq!(output.stdout, "done\n", "{output:#?}");
    assert!(work.join("new").exists() && !home.join("other").exists(), "{output:#?}");
    assert_eq!(fs::read_to_string(work.join("kept")).unwrap(), "as it was");
}

/// Where it lies in a project, which is where the command works: it cannot write its next policy.
fn agent_config_is_a_policy() {
    let config = "
image: ruby:3.3
network_policy:
  allowed_domains:
    - one.agent.allowed.test
    - '*.below.agent.allowed.test'
  denied_domains: [bad.below.agent.allowed.test]
";
    let name = ".gitlab/duo/agent-config.yml";
    let run = Run::new().file(name, config).arg("--policy").arg(name);
    let path = run.work().join(name);
    let hosts = [
        "one.agent.allowed.test",
        "x.below.agent.allowed.test",
        "bad.below.agent.allowed.test",
        "other.agent.allowed.test",
    ];
    let asked = hosts.map(|host| format!("curl -sS -o /dev/null -w '%{{http_code}}\\n' https://{host}/x"));
    let script = format!("{}; echo x >>{name}; mv {name} x; rm -f {name}; echo done", asked.join("; "));
    let output = run.script(&script).run();
    assert_eq!(output.stdout, "200\n200\n403\n403\ndone\n", "{output:#?}");
    assert_eq!(hosts.map(|host| targets(host).len()), [1, 1, 0, 0]);
    assert_eq!(fs::read_to_string(path).unwrap(), config);
}

/// Strict: the project adds nothing and may take away; the lists beside the settings count, and stay as they are.
fn administrators_settings_are_merged() {
    let project = "network_policy:\n  allowed_domains: [project.merged.allowed.test]\n  denied_domains: [taken.merged.allowed.test]\n";
    let settings = "always_allowed: [always.merged.allowed.test]\n\
                    allowed_domains: [admin.merged.allowed.test, taken.merged.allowed.test]\n\
                    include_recommended_allowed: true\nrecommended_directory: lists\n";
    let run = Run::new()
        .file("agent-config.yml", project)
        .file("conf/admin.yml", settings)
        .file("conf/lists/own.txt", "# ours\nlisted.merged.allowed.test\n")
        .arg("--policy")
        .arg("agent-config.yml")
        .arg("--gitlab-settings")
        .arg("conf/admin.yml");
    let work = run.work();
    let hosts = ["always", "admin", "listed", "project", "taken"].map(|name| format!("{name}.merged.allowed.test"));
    let code = format!(
        "import os\ntold = []\nfor host in {}:\n    got = connect(host)\n    \
         got = got if isinstance(got, list) else ask(tls(got, host), 'GET / HTTP/1.1', f'Host: {{host}}')\n    told += [[host, got[0]]]\n\
         for path in ['conf/admin.yml', 'conf/lists/own.txt', 'conf/lists/more.txt']:\n    try:\n        open(path, 'a').write('x')\n        \
         told += [[path, 'written']]\n    except OSError as error:\n        told += [[path, error.strerror]]\n\
         try:\n    os.rename('conf', 'moved')\n    told += [['conf', 'moved']]\nexcept OSError:\n    told += [['conf', 'kept']]\ntell(told)\n",
        list(&hosts)
    );
    let (told, output) = program(run, &code);
    all_are(&told, |case| match case {
        "conf" => json!("kept"),
        path if path.starts_with("conf/") => json!("Read-only file system"),
        host if host.starts_with("project.") || host.starts_with("taken.") => json!(403),
        _ => json!(200),
    });
    output.expect_stderr("its `allowed_domains` count for nothing");
    assert!(!work.join("conf/lists/more.txt").exists());
    let run = Run::new().file("admin.yml", "recommended_directory: .\n").arg("--gitlab-settings").arg("admin.yml");
    refuses(run, &["the command could write a list there, as it works there"]);
}

fn what_is_not_honoured_of_srt_stops_the_start() {
    for (member, says) in [
        (r#""mitmProxy": {"socketPath": "/x", "domains": ["a.test"]}"#, "`network.mitmProxy` cannot be honoured"),
        (r#""allowedDomain": ["a.test"]"#, "unknown key \"network.allowedDomain\""),
        (r#""parentProxy": {"http": "https://proxy.test:1"}"#, "is no upstream proxy"),
    ] {
        let run = srt(&format!("\"allowedDomains\": [], \"deniedDomains\": [], {member}"));
        refuses(run, &["srt-settings.json:1:", says]);
    }
    let broken = Run::new().file("srt.json", "{\"network\": }").arg("--policy").arg("srt.json");
    refuses(broken, &["srt.json:1:13: not valid JSON"]);
}
