//! Upstreams behind another proxy: a real one that asks for a password, and ones at fault.

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command};

use crate::cases;
use crate::internet::internet;
use crate::internet::recorder::Recorder;
use crate::rig;
use crate::sandbox::{Run, refuses};

cases![
    a_real_proxy_is_asked_for_checked_addresses,
    a_proxy_that_looks_names_up_is_asked_for_names,
    a_proxy_at_fault_is_named,
    a_proxy_that_nobody_runs_is_named,
    credentials_that_are_none_stop_the_start,
    the_hosts_own_proxy_is_mentioned_and_not_used,
];

/// Ends with the case.
struct Tinyproxy(Child);

impl Drop for Tinyproxy {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Starts the real thing in the internet; it listens when this returns.
fn tinyproxy(run: &Run, address: &str, login: &str) -> Tinyproxy {
    let (configuration, log) = (run.outside().join("tinyproxy.conf"), run.outside().join("tinyproxy.log"));
    let text = format!(
        "Port 8888\nListen {address}\nTimeout 60\nMaxClients 20\nLogLevel Connect\nConnectPort 443\n\
         LogFile \"{}\"\nBasicAuth {login}\n",
        log.display()
    );
    fs::write(&configuration, text).unwrap();
    let listens = format!("{address}:8888");
    let started = rig::in_internet(move || {
        let proxy = Command::new("tinyproxy").arg("-d").arg("-c").arg(configuration).spawn().unwrap();
        while TcpStream::connect(&listens).is_err() {
            std::thread::yield_now();
        }
        Tinyproxy(proxy)
    });
    started.join().unwrap()
}

fn a_real_proxy_is_asked_for_checked_addresses() {
    internet().dns.set("corporate.proxied.test", &["11.22.44.70"]);
    internet().dns.set("inner.proxied.test", &["10.1.2.3"]);
    let run = Run::new().arg("--upstream-proxy").arg("http://corporate.proxied.test:8888");
    let run = run.arg("--upstream-proxy-auth").arg("LOGIN").secret_env("LOGIN", "user:canary-login");
    let _proxy = tinyproxy(&run, "11.22.44.70", "user canary-login");
    let log = run.outside().join("tinyproxy.log");
    let run = run
        .allow("behind.proxied.allowed.test")
        .allow("inner.proxied.test")
        .bind("behind.proxied.allowed.test X-Key: {KEY}");
    let script = "exec 2>&1; for turn in 1 2; do curl -sS https://behind.proxied.allowed.test/echo; done
        curl -sS https://inner.proxied.test/; curl -sS https://elsewhere.proxied.test/
        cat /proc/*/environ /proc/*/cmdline; true";
    let output = run.secret_env("KEY", "canary-key").script(script).run();
    output.expect_code(0).expect_stdout("address_blocked").expect_stdout("host_not_listed");
    assert!(!output.stdout.contains("canary-login"), "{output:#?}");
    let requests = internet().web.requests("behind.proxied.allowed.test");
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|seen| seen.header("x-key") == ["canary-key"]), "{requests:?}");
    assert!(requests.iter().all(|seen| seen.header("proxy-authorization").is_empty()), "{requests:?}");
    let log = fs::read_to_string(log).unwrap();
    let asked: Vec<&str> = log.lines().filter(|line| line.contains(" Request ")).collect();
    assert!(!asked.is_empty() && asked.iter().all(|line| line.contains(&format!("CONNECT {}:443", rig::WEB))), "{log}");
}

/// As its operator has written: no name is looked up here, denied ones are not asked for, and addresses are checked.
fn a_proxy_that_looks_names_up_is_asked_for_names() {
    let recorder = Recorder::tcp("11.22.44.79:3128", b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    let run = Run::new();
    let path = run.outside().join("policy.toml");
    let policy = "[network]\nmode = \"allow\"\nhosts = [\"named.proxied.test\", \"10.1.2.3\"]\n\
                  [upstream]\nproxy = \"http://11.22.44.79:3128\"\nresolve = \"upstream\"\n";
    fs::write(&path, policy).unwrap();
    let script = "exec 2>&1; curl -sS https://named.proxied.test/; curl -sS https://other.proxied.test/
        curl -sS https://10.1.2.3/; curl -sS -p -x 127.0.0.1:3128 https://named.proxied.test/; true";
    let output = run.arg("--policy").arg(&path.display().to_string()).script(script).run();
    output.expect_code(0).expect_stdout("refused with 403").expect_stdout("host_not_listed");
    output.expect_stdout("address_blocked").expect_stderr("no rule about addresses holds for them");
    let wanted = b"CONNECT named.proxied.test:443 HTTP/1.1\r\nhost: named.proxied.test:443\r\n\r\n".to_vec();
    assert_eq!(recorder.seen(), [wanted.clone(), wanted]);
    assert_eq!(internet().dns.queries("named.proxied.test"), 0);
}

/// What a client gets to see, and that nothing but one well-formed CONNECT went out.
fn at_fault(address: &str, reply: &'static [u8], says: &str) {
    let recorder = Recorder::tcp(&format!("{address}:3128"), reply);
    let run = Run::new().arg("--upstream-proxy").arg(&format!("http://{address}:3128")).allow("faulty.allowed.test");
    let output = run.script("curl -sS https://faulty.allowed.test/ 2>&1").run();
    output.expect_code(0).expect_stdout("upstream_unreachable").expect_stdout(says);
    assert!(!output.stdout.contains(address), "it tells where the proxy is\n{output:#?}");
    let seen = recorder.seen();
    let wanted = format!("CONNECT {0}:443 HTTP/1.1\r\nhost: {0}:443\r\n\r\n", rig::WEB);
    assert_eq!(seen, [wanted.into_bytes()], "{output:#?}");
    assert!(internet().web.requests("faulty.allowed.test").is_empty());
}

fn a_proxy_at_fault_is_named() {
    let faults: [(&str, &[u8], &str); 5] = [
        (
            "11.22.44.71",
            b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n",
            "wants credentials",
        ),
        ("11.22.44.72", b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "refused with 403"),
        ("11.22.44.73", b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
        ("11.22.44.74", b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "spoke out of turn"),
        (
            "11.22.44.75",
            b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n",
            "refused with 302",
        ),
    ];
    for (address, reply, says) in faults {
        at_fault(address, reply, says);
    }
}

fn a_proxy_that_nobody_runs_is_named() {
    for (proxy, says) in [("11.22.44.76:3128", "cannot be reached"), ("nowhere.proxied.test:1", "has no address")] {
        let run = Run::new().arg("--upstream-proxy").arg(&format!("http://{proxy}")).allow("faulty.allowed.test");
        let output = run.script("curl -sS https://faulty.allowed.test/ 2>&1").run();
        output.expect_code(0).expect_stdout("upstream_unreachable").expect_stdout(says);
    }
}

fn credentials_that_are_none_stop_the_start() {
    let proxied =
        || Run::new().arg("--upstream-proxy").arg("http://11.22.44.77:3128").arg("--upstream-proxy-auth").arg("LOGIN");
    refuses(proxied(), &["LOGIN", "not declared"]);
    refuses(proxied().secret_env("LOGIN", "canary-alone"), &["LOGIN", "no colon"]);
    let run = Run::new().arg("--upstream-proxy").arg("http://user:password@11.22.44.77:3128");
    refuses(run, &["--upstream-proxy", "user and password", "secret"]);
    refuses(Run::new().arg("--upstream-proxy-auth").arg("LOGIN").secret_env("LOGIN", "a:b"), &["no upstream proxy"]);
}

fn the_hosts_own_proxy_is_mentioned_and_not_used() {
    let recorder = Recorder::tcp("11.22.44.78:3128", b"HTTP/1.1 200 OK\r\n\r\n");
    let run = Run::new().env("https_proxy", "http://11.22.44.78:3128").allow("direct.allowed.test");
    let output = run.script("curl -sSf https://direct.allowed.test/status/200").run();
    output.expect_code(0).expect_stderr("https_proxy is not followed").expect_stderr("--upstream-proxy");
    recorder.assert_nothing();
}
