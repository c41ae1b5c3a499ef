//! Credentials that end before the run does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::cases;
use crate::internet::https::Recorded;
use crate::internet::internet;
use crate::sandbox::Run;
use crate::table::program;

cases![
    a_run_outlives_three_lives_of_its_credential_under_load,
    an_outage_fails_its_own_binding_alone_and_mends_itself,
    a_refusal_of_the_upstream_asks_once,
    the_issuer_is_out_of_reach,
    a_command_that_hangs_ends_with_the_run,
];

/// A command outside that gives `canary-NAME-1`, `-2` and so on, each living for so many seconds, and keeps count. While
/// there is a file `down` beside it, it fails.
struct Issuer {
    directory: PathBuf,
    script: PathBuf,
}

impl Issuer {
    fn new(run: &Run, name: &str, seconds: Option<&str>) -> Self {
        let directory = run.outside().join("issuer");
        fs::create_dir_all(&directory).unwrap();
        let script = directory.join("issue");
        let value = format!("canary-{name}-$(wc -l < \"$here/asked\")");
        let answer = match seconds {
            Some(seconds) => {
                let end = format!("$(date -d '+{seconds} seconds' +%s.%N)");
                format!(r#"printf '{{"value":"%s","expires_at":%s}}' "{value}" "{end}""#)
            }
            None => format!(r#"printf %s "{value}""#),
        };
        let text = format!(
            "#!/bin/sh\nhere=$(dirname \"$0\")\necho x >> \"$here/asked\"\n[ ! -e \"$here/down\" ] || exit 3\n{answer}\n"
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, PermissionsExt::from_mode(0o700)).unwrap();
        Self { directory, script }
    }

    /// The option by which a run takes the secret KEY from it.
    fn option(&self) -> String {
        format!("KEY=command:{}", self.script.display())
    }

    fn asked(&self) -> usize {
        asked(&self.directory)
    }
}

fn asked(directory: &Path) -> usize {
    fs::read_to_string(directory.join("asked")).unwrap_or_default().lines().count()
}

/// The values that were used, each once, in the order of their first use.
fn values(requests: &[Recorded]) -> Vec<String> {
    let mut values = Vec::<String>::new();
    for request in requests {
        let [value] = request.header("x-api-key")[..] else { panic!("{request:?}") };
        if !values.iter().any(|known| known == value) {
            values.push(value.to_owned());
        }
    }
    values
}

/// Issue 4, point 1: 50 clients over four lives, and each life costs one renewal.
fn a_run_outlives_three_lives_of_its_credential_under_load() {
    let code = r#"
import threading, time
host, wrong, done = "lives.allowed.test", [], 0
end = time.monotonic() + 6.5
def client():
    global done
    sock = tls(socket.create_connection((host, 443)), host)
    while time.monotonic() < end:
        got = ask(sock, "GET /status/204 HTTP/1.1", f"Host: {host}")
        done += 1
        if got[0] != 204:
            wrong.append(got)
            return
clients = [threading.Thread(target=client) for _ in range(50)]
[client.start() for client in clients]
[client.join() for client in clients]
tell([done, wrong])
"#;
    let run = Run::new().allow("lives.allowed.test").bind("lives.allowed.test X-Api-Key: {KEY}");
    let issuer = Issuer::new(&run, "life", Some("2"));
    let run = run.arg("--secret").arg(&issuer.option());
    let (told, _) = program(run, code);
    let (done, wrong) = (told[0].as_u64().unwrap(), told[1].as_array().unwrap());
    assert!(wrong.is_empty() && done > 200, "{done} requests, of which failed {wrong:?}");
    let used = values(&internet().web.requests("lives.allowed.test"));
    // Renewed after 1.5 s at the latest, so at least for the fourth time in 6.5 s.
    assert!((5..=6).contains(&used.len()), "{used:?}");
    assert!(issuer.asked() - used.len() <= 1, "{} issued, {used:?} used", issuer.asked());
}

/// While the old value lives nobody notices; then this binding's requests fail, others go on, and it mends itself.
fn an_outage_fails_its_own_binding_alone_and_mends_itself() {
    let code = r#"
bad, good, told, last = "outage.allowed.test", "beside.allowed.test", [], None
socks = [tls(socket.create_connection((host, 443)), host) for host in (bad, good)]
for _ in range(1000000):
    got = ask(socks[0], "GET /status/204 HTTP/1.1", f"Host: {bad}")
    beside = ask(socks[1], "GET /status/204 HTTP/1.1", f"Host: {good}")
    if beside[0] != 204:
        told += [["beside", beside]]
        break
    if got[:2] != last:
        last = got[:2]
        told += [[got[0], got[1], got[2]]]
        print("now", got[0], file=sys.stderr, flush=True)
        print("now", got[0], flush=True)
        if len(told) == 3:
            break
print(json.dumps(told))
"#;
    let run = Run::new().allow("outage.allowed.test").allow("beside.allowed.test");
    let run = run.bind("outage.allowed.test X-Api-Key: {KEY}").bind("beside.allowed.test X-Api-Key: {OTHER}");
    let issuer = Issuer::new(&run, "outage", Some("3"));
    let run = run.arg("--secret").arg(&issuer.option()).secret_env("OTHER", "canary-beside");
    let running = run.python(&format!("{}{code}", include_str!("inside.py"))).start();
    running.wait_for("now 204");
    fs::write(issuer.directory.join("down"), "").unwrap();
    running.wait_for("now 502");
    // Asked several times while the old value lived, and nobody noticed.
    let before = issuer.asked();
    assert!(before >= 3, "{before}");
    fs::remove_file(issuer.directory.join("down")).unwrap();
    let output = running.wait();
    output.expect_code(0);
    let told: serde_json::Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    let statuses: Vec<_> = told.as_array().unwrap().iter().map(|row| row[0].clone()).collect();
    assert_eq!(statuses, [204, 502, 204], "{told}");
    assert_eq!(told[1][1], "credential_unavailable");
    assert!(told[1][2].as_str().unwrap().contains("the secret KEY"), "{told}");
    let denied = output.audit.iter().find(|row| row["code"] == "credential_unavailable").unwrap();
    assert!(denied["reason"].as_str().unwrap().contains("failed (exit status: 3)"), "{denied}");
}

/// Fifty refusals are one reason to ask again, and not the new value's either.
fn a_refusal_of_the_upstream_asks_once() {
    let code = r#"
host, told = "refusing.allowed.test", []
sock = tls(socket.create_connection((host, 443)), host)
for _ in range(400):
    told += [ask(sock, "GET /status/401 HTTP/1.1", f"Host: {host}")[0]]
tell(told)
"#;
    let run = Run::new().allow("refusing.allowed.test").bind("refusing.allowed.test X-Api-Key: {KEY}");
    let issuer = Issuer::new(&run, "refused", None);
    let run = run.arg("--secret").arg(&issuer.option());
    let (told, _) = program(run, code);
    assert!(told.as_array().unwrap().iter().all(|status| *status == 401), "{told}");
    assert_eq!(issuer.asked(), 2);
    assert_eq!(values(&internet().web.requests("refusing.allowed.test")), ["canary-refused-1", "canary-refused-2"]);
}

/// Inside, the command is an empty file: it can be neither read nor run.
fn the_issuer_is_out_of_reach() {
    let run = Run::new().allow("reach.allowed.test").bind("reach.allowed.test X-Api-Key: {KEY}");
    let issuer = Issuer::new(&run, "reach", Some("60"));
    let path = issuer.script.display().to_string();
    let output =
        run.arg("--secret").arg(&issuer.option()).script(&format!("wc -c < {path}; {path}; sh {path}; echo end")).run();
    output.expect_code(0);
    assert_eq!(output.stdout, "0\nend\n");
    assert_eq!(issuer.asked(), 1);
}

/// Its renewal has begun and hangs when the run ends, which neither waits for it nor leaves it behind.
fn a_command_that_hangs_ends_with_the_run() {
    let run = Run::new().allow("hangs.allowed.test").bind("hangs.allowed.test X-Api-Key: {KEY}");
    let issuer = Issuer::new(&run, "hangs", Some("1"));
    let hanging = "#!/bin/sh\nhere=$(dirname \"$0\")\necho $$ > \"$here/pid\"\nexec sleep 1000\n";
    let running =
        run.arg("--secret").arg(&issuer.option()).script("echo ready; exec timeout 2 tail -f /dev/null").start();
    running.wait_for("ready");
    fs::write(&issuer.script, hanging).unwrap();
    let output = running.wait();
    assert_eq!(output.code, 124, "{output:#?}");
    let pid = fs::read_to_string(issuer.directory.join("pid")).expect("the renewal began");
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "it was left behind");
}
