//! Credentials that are asked for: of a command, a service, a token endpoint, a vault. What goes wrong stops the start, by its name.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::cases;
use crate::internet::internet;
use crate::internet::issuer::Issuer;
use crate::internet::recorder::Recorder;
use crate::sandbox::{Run, need, refuses};

cases![
    a_commands_answer_is_used,
    a_command_that_fails_stops_the_start,
    a_service_is_asked_outside_the_policy,
    a_service_that_redirects_is_not_followed,
    a_service_must_be_verified,
    a_service_that_goes_on_and_on_is_cut_off,
    a_service_of_this_host_may_be_plain,
    what_nothing_uses_is_not_read,
    oauth2_goes_on_with_the_new_refresh_token,
    a_new_refresh_token_that_cannot_be_written_is_warned_of,
    oauth2_that_is_refused_says_why,
    a_vault_is_read,
    a_vault_that_refuses_stops_the_start,
];

/// A run with a policy file outside of what the sandbox sees: `host` is permitted, and gets the secret `KEY`.
pub fn run(host: &str, secrets: &str) -> Run {
    let run = Run::new();
    let policy = run.outside().join("policy.toml");
    let text = format!(
        "[network]\nmode = \"allow\"\nhosts = [\"{host}\"]\n[[header_bindings]]\nhost = \"{host}\"\nheader = \"X-Key\"\n\
         secret_name = \"KEY\"\n{secrets}"
    );
    fs::write(&policy, text).unwrap();
    run.arg("--policy").arg(&policy.display().to_string())
}

/// Runs it: the value is what the host gets, and stands nowhere in the output or the audit.
#[track_caller]
pub fn gives(run: Run, host: &str, value: &str) {
    need("curl", "curl");
    let output = run.script(&format!("curl -sSf https://{host}/status/200; env")).run();
    output.expect_code(0);
    let requests = internet().web.requests(host);
    assert_eq!(requests.len(), 1, "{output:#?}");
    assert_eq!(requests[0].header("x-key"), [value]);
    let seen = format!("{output:?}");
    assert!(!seen.contains(value) && !seen.contains("canary"), "{output:#?}");
}

fn a_commands_answer_is_used() {
    let host = "command.issuers.allowed.test";
    let json = "'printf %s {\\\"value\\\":\\\"canary-command\\\",\\\"expires_at\\\":4000000000}'";
    let secrets = format!("[secrets.KEY]\ncommand = [\"sh\", \"-c\", {json}]\ntimeout_seconds = 5\nttl_seconds = 60\n");
    // 2096 is too far ahead, whatever the time to live says.
    let said =
        "secret KEY: the output of sh says that its value expires at 2096-10-02T07:06:40Z, more than 10 years ahead";
    refuses(run(host, &secrets), &[said]);
    gives(run(host, &secrets.replace(",\\\"expires_at\\\":4000000000", "")), host, "canary-command");
}

fn a_command_that_fails_stops_the_start() {
    let secrets = "[secrets.KEY]\ncommand = [\"sh\", \"-c\", \"echo canary; exec sleep 100\"]\ntimeout_seconds = 1\n";
    refuses(run("slow.issuers.allowed.test", secrets), &["secret KEY: sh gave no answer within 1 s and was killed"]);
}

/// The issuer is no part of what the sandbox may reach.
fn a_service_is_asked_outside_the_policy() {
    let host = "served.issuers.allowed.test";
    internet().dns.set("served.issuer.test", &["11.22.44.186"]);
    let issuer = Issuer::start("11.22.44.186:8443", |_, _| (200, r#"{"value":"canary-served"}"#.to_owned()));
    let secrets = "[secrets.KEY]\nhttp = \"https://served.issuer.test:8443/v1/key?for=me\"\nmethod = \"POST\"\nbearer = \"TOKEN\"\n\
                   [secrets.TOKEN]\nenv = \"TOKEN\"\n";
    let run = run(host, secrets).env("TOKEN", "canary-token");
    let probe = "curl -sS -o /dev/null -w '%{http_code}\\n' https://served.issuer.test:8443/";
    let output = run.script(&format!("curl -sSf https://{host}/status/200; {probe}; env")).run();
    output.expect_code(0).expect_stdout("403");
    assert!(!format!("{output:?}").contains("canary"), "{output:#?}");
    assert_eq!(internet().web.requests(host)[0].header("x-key"), ["canary-served"]);
    let asked = issuer.asked();
    assert_eq!(asked.len(), 1, "{asked:#?}");
    assert_eq!(asked[0].line, "POST /v1/key?for=me");
    let headers = ["accept: application/json", "authorization: Bearer canary-token", "content-length: 0"];
    assert_eq!(asked[0].headers, [&headers[..], &["host: served.issuer.test:8443"]].concat());
}

fn a_service_that_redirects_is_not_followed() {
    internet().dns.set("moved.issuer.test", &["11.22.44.187"]);
    let target = Recorder::tcp("11.22.44.187:8443", b"");
    let issuer = Issuer::start("11.22.44.187:443", |_, _| (307, "https://moved.issuer.test:8443/".to_owned()));
    let secrets = "[secrets.KEY]\nhttp = \"https://moved.issuer.test/\"\n";
    let said = "secret KEY: moved.issuer.test answered with status 307, and redirects are not followed";
    refuses(run("moved.issuers.allowed.test", secrets), &[said]);
    assert_eq!(issuer.asked().len(), 1);
    target.assert_nothing();
}

fn a_service_must_be_verified() {
    use crate::internet::pki::{EXPIRED, UNKNOWN_ROOT};
    for host in [EXPIRED, UNKNOWN_ROOT] {
        let secrets = format!("[secrets.KEY]\nhttp = \"https://{host}/k\"\nbearer = \"T\"\n[secrets.T]\nenv = \"T\"\n");
        let run = run("verified.issuers.allowed.test", &secrets).env("T", "canary-verified");
        refuses(run, &[&format!("secret KEY: {host} could not be verified: ")]);
    }
    assert!(internet().web.requests_with("canary-verified").is_empty());
}

fn a_service_that_goes_on_and_on_is_cut_off() {
    let secrets = "[secrets.KEY]\nhttp = \"https://long.issuers.allowed.test/zeros/100000000000\"\n";
    let said = "secret KEY: long.issuers.allowed.test gave an answer of more than 131072 bytes";
    refuses(run("long.issuers.allowed.test", secrets), &[said]);
}

fn a_service_of_this_host_may_be_plain() {
    let host = "plain.issuers.allowed.test";
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{\"value\":\"canary-plain\"}").unwrap();
    });
    let secrets = format!("[secrets.KEY]\nhttp = \"http://127.0.0.1:{port}/k\"\n");
    // The way out of the network is not the way to this host.
    let run = run(host, &secrets);
    gives(run, host, "canary-plain");
    server.join().unwrap();
}

fn what_nothing_uses_is_not_read() {
    let host = "unused.issuers.allowed.test";
    let marker = Run::bare().outside().join("marker");
    let secrets = format!(
        "[secrets.KEY]\nenv = \"KEY\"\n[secrets.UNUSED]\ncommand = [\"touch\", \"{0}\"]\n\
         [secrets.ASKED]\nhttp = \"https://unused.issuers.allowed.test/asked\"\nbearer = \"UNUSED\"\n",
        marker.display()
    );
    gives(run(host, &secrets).env("KEY", "canary-unused"), host, "canary-unused");
    assert!(!marker.exists());
}

/// A file of the user's own, in a directory of its own outside of what the sandbox sees.
pub fn private_file(run: &Run, text: &str) -> PathBuf {
    let path = run.outside().join("private").join("token");
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A token endpoint that takes the newest refresh token alone, and gives a new one each time.
fn token_endpoint(name: &str, address: &str) -> Issuer {
    internet().dns.set(name, &[address]);
    Issuer::start(&format!("{address}:443"), |number, asked| {
        let newest = format!("refresh_token=canary-refresh-{number}&");
        if !asked.body.contains(&newest) {
            return (400, r#"{"error":"invalid_grant"}"#.to_owned());
        }
        let token = format!(
            r#"{{"access_token":"canary-access-{number}","token_type":"bearer","expires_in":3600,"refresh_token":"canary-refresh-{}"}}"#,
            number + 1
        );
        (200, token)
    })
}

const OAUTH2: &str = "[secrets.KEY]\noauth2 = { token_url = \"https://NAME/token\", grant = \"refresh_token\", client_id = \"client\", \
                      client_secret = \"S\", auth = \"post\", refresh_token = \"R\", scope = \"read\" }\n[secrets.S]\nenv = \"S\"\n";

/// Three runs, each with what the one before has left in the file; from inside the file is not to be found, nor what was left
/// beside it.
fn oauth2_goes_on_with_the_new_refresh_token() {
    need("curl", "curl");
    let endpoint = token_endpoint("rotating.issuer.test", "11.22.44.188");
    let secrets = format!("{}[secrets.R]\nfile = \"private/token\"\n", OAUTH2.replace("NAME", "rotating.issuer.test"));
    let mut left = "canary-refresh-0\n".to_owned();
    for number in 0..3 {
        let host = format!("rotating{number}.issuers.allowed.test");
        let run = run(&host, &secrets).env("S", "canary-client");
        let file = private_file(&run, &left);
        let script = format!(
            "curl -sSf https://{host}/status/200; ls -la {0}; cat {0}/* {0}/.*; env",
            file.parent().unwrap().display()
        );
        let output = run.script(&format!("{script}; true")).run();
        output.expect_code(0).expect_stdout("status 200");
        assert!(!format!("{output:?}").contains("canary"), "{output:#?}");
        assert_eq!(internet().web.requests(&host)[0].header("x-key"), [format!("canary-access-{number}")]);
        left = fs::read_to_string(&file).unwrap();
        assert_eq!(left, format!("canary-refresh-{}\n", number + 1));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    }
    let body = "grant_type=refresh_token&refresh_token=canary-refresh-0&scope=read&client_id=client&client_secret=canary-client";
    assert_eq!((endpoint.asked()[0].line.as_str(), endpoint.asked()[0].body.as_str()), ("POST /token", body));
    assert_eq!(endpoint.asked().len(), 3);
}

fn a_new_refresh_token_that_cannot_be_written_is_warned_of() {
    token_endpoint("memory.issuer.test", "11.22.44.189");
    let host = "memory.issuers.allowed.test";
    let secrets = format!("{}[secrets.R]\nenv = \"R\"\n", OAUTH2.replace("NAME", "memory.issuer.test"));
    let run = run(host, &secrets).env("S", "canary-client").env("R", "canary-refresh-0");
    let output = run.script(&format!("curl -sSf https://{host}/status/200")).run();
    output
        .expect_code(0)
        .expect_stderr("cannot be written back to the variable R: it is kept in memory and lost at the end");
}

fn oauth2_that_is_refused_says_why() {
    let endpoint = token_endpoint("refused.issuer.test", "11.22.44.172");
    let secrets = format!("{}[secrets.R]\nfile = \"private/token\"\n", OAUTH2.replace("NAME", "refused.issuer.test"));
    let run = run("refused.issuers.allowed.test", &secrets).env("S", "canary-client");
    let file = private_file(&run, "canary-stale");
    let said = "secret KEY: refused.issuer.test refused with invalid_grant: the refresh token has ended";
    refuses(run, &[said]);
    assert_eq!(endpoint.asked().len(), 1);
    assert_eq!(fs::read_to_string(file).unwrap(), "canary-stale");
}

const VAULT: &str = "[secrets.KEY]\nvault = { address = \"https://NAME:8200\", path = \"secret/data/app\", field = \"key\", token = \"T\", \
                     namespace = \"team\" }\n[secrets.T]\nenv = \"T\"\n";

fn a_vault_is_read() {
    internet().dns.set("vault.issuer.test", &["11.22.44.173"]);
    let answer =
        r#"{"lease_duration":0,"data":{"data":{"key":"canary-vault"},"metadata":{"destroyed":false,"version":2}}}"#;
    let vault = Issuer::start("11.22.44.173:8200", move |_, _| (200, answer.to_owned()));
    let host = "vault.issuers.allowed.test";
    gives(run(host, &VAULT.replace("NAME", "vault.issuer.test")).env("T", "canary-token"), host, "canary-vault");
    let asked = &vault.asked()[0];
    assert_eq!(asked.line, "GET /v1/secret/data/app");
    for header in ["x-vault-token: canary-token", "x-vault-namespace: team", "x-vault-request: true"] {
        assert!(asked.headers.iter().any(|had| had == header), "{asked:#?}");
    }
}

fn a_vault_that_refuses_stops_the_start() {
    internet().dns.set("closed.issuer.test", &["11.22.44.174"]);
    Issuer::start("11.22.44.174:8200", |_, _| (403, r#"{"errors":["permission denied"]}"#.to_owned()));
    let run = run("closed.issuers.allowed.test", &VAULT.replace("NAME", "closed.issuer.test")).env("T", "canary-token");
    refuses(
        run,
        &["secret KEY: closed.issuer.test:8200 answered with status 403: the token has ended, or its policies"],
    );
}
