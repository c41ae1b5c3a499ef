//! The secret reaches the upstream once per request, and nothing inside ever holds it.

use std::fs;
use std::io::IoSliceMut;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::cases;
use crate::internet::websocket::base64;
use crate::internet::{https::Recorded, internet};
use crate::sandbox::{Output, Run, code, need};
use crate::terminal::Terminal;

cases![
    reaches_the_upstream_once,
    once_per_request_of_a_connection,
    replaces_the_clients_own_header,
    stays_away_from_other_hosts,
    stays_away_from_other_paths,
    stays_away_from_an_unverified_upstream,
    stays_away_after_a_redirect,
    from_a_file,
    from_a_command,
    dump_of_everything_inside,
    dump_of_pid_1_from_outside,
    not_in_the_audit,
    credential_stores_are_empty_inside,
    gh_has_no_token,
    agent_sockets_are_gone,
    policy_and_audit_are_out_of_reach,
];

/// A value that occurs nowhere else.
fn canary(case: &str) -> String {
    format!("canary+{case}/7f3Kq9")
}

/// Every form in which a leak would carry it.
fn forms(secret: &str) -> Vec<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent = secret.replace('+', "%2B").replace('/', "%2F");
    // At each alignment within a longer text, without the digits that its neighbours decide.
    let shifted = (0..3).map(|shift| {
        let encoded = base64(format!("{}{secret}", "_".repeat(shift)).as_bytes());
        encoded[4..encoded.len() - 4].to_owned()
    });
    [secret.to_owned(), hex, percent].into_iter().chain(shifted).collect()
}

/// Panics where a secret stands in some bytes, in any of its forms.
#[track_caller]
pub fn assert_absent(secret: &str, place: &str, bytes: &[u8]) {
    for form in forms(secret) {
        let finder = memchr::memmem::find(bytes, form.as_bytes());
        assert!(finder.is_none(), "{place} holds {form:?} at {finder:?} of {} bytes", bytes.len());
    }
}

/// With `KEY` bound as a bearer token to a host of the case's own.
fn bound(case: &str) -> (String, Run) {
    let host = format!("{case}.allowed.test");
    let run = Run::new().allow(&host).secret_env("KEY", &canary(case));
    let run = run.bind(&format!("{host} Authorization: Bearer {{KEY}}"));
    (host, run)
}

/// The requests that the host got, each of which must carry the secret exactly once, in that header.
#[track_caller]
fn authorized(case: &str, host: &str, expected: usize) -> Vec<Recorded> {
    let requests = internet().web.requests(host);
    assert_eq!(requests.len(), expected);
    for request in &requests {
        assert_eq!(request.header("authorization"), [format!("Bearer {}", canary(case))], "{request:?}");
        assert_eq!(request.count(&canary(case)), 1, "{request:?}");
    }
    requests
}

fn reaches_the_upstream_once() {
    need("curl", "curl");
    let (host, run) = bound("once");
    run.script(&format!("curl -sSf https://{host}/status/200")).run().expect_code(0).expect_stdout("status 200");
    authorized("once", &host, 1);
}

fn once_per_request_of_a_connection() {
    for version in ["--http1.1", "--http2"] {
        let case = format!("many{}", version.len());
        let (host, run) = bound(&case);
        let url = format!("https://{host}/status/200");
        run.script(&format!("curl -sSf {version} {url} {url} {url}")).run().expect_code(0);
        authorized(&case, &host, 3);
    }
}

fn replaces_the_clients_own_header() {
    let (host, run) = bound("replaces");
    let header = "-H 'authorization: Basic bWluZQ==' -H 'AUTHORIZATION: mine too'";
    run.script(&format!("curl -sSf --http1.1 {header} https://{host}/status/200")).run().expect_code(0);
    authorized("replaces", &host, 1);
}

fn stays_away_from_other_hosts() {
    let (host, run) = bound("others");
    let other = format!("sub.{host}");
    let script = format!("curl -sSf -H 'Host: {other}' https://{other}/echo; curl -sS https://{other}:443/echo");
    let output = run.allow(&other).script(&script).run();
    output.expect_code(0);
    assert!(internet().web.requests_with(&canary("others")).is_empty());
    assert_eq!(internet().web.requests(&other).len(), 2);
}

fn stays_away_from_other_paths() {
    let host = "paths.allowed.test";
    let run = Run::new().allow(host).secret_env("KEY", &canary("paths"));
    let run = run.bind(&format!("{host}/v1/ Authorization: Bearer {{KEY}}"));
    let paths = ["/v2/status", "/v1", "/V1/x", "/v1/../v2/x", "/v1/%2e%2e/v2/x", "/v1%2fx", "//v1/x"];
    let urls: Vec<String> = paths.iter().map(|path| format!("'https://{host}{path}'")).collect();
    run.script(&format!("curl -sS --path-as-is {}", urls.join(" "))).run().expect_code(0);
    assert!(internet().web.requests_with(&canary("paths")).is_empty());
}

fn stays_away_from_an_unverified_upstream() {
    use crate::internet::pki::{EXPIRED, SELF_SIGNED, UNKNOWN_ROOT, WRONG_NAME};
    for host in [EXPIRED, SELF_SIGNED, UNKNOWN_ROOT, WRONG_NAME] {
        let run = Run::new().allow(host).secret_env("KEY", &canary("unverified"));
        let run = run.bind(&format!("{host} Authorization: Bearer {{KEY}}"));
        let output = run.script(&format!("curl -sS -i https://{host}/echo")).run();
        output.expect_code(0).expect_stdout("502").expect_stdout("x-sandbox-proxy-denial");
        assert!(internet().web.requests(host).is_empty(), "{host} got the request");
    }
}

fn stays_away_after_a_redirect() {
    let (host, run) = bound("redirect");
    let target = "target.allowed.test";
    let run = run.allow(target).script(&format!("curl -sSfL 'https://{host}/redirect?to=https://{target}/echo'"));
    run.run().expect_code(0);
    authorized("redirect", &host, 1);
    assert_eq!(internet().web.requests(target).iter().map(|seen| seen.count(&canary("redirect"))).sum::<usize>(), 0);
}

/// A run whose secret lies in a file of a directory that only the user may read.
fn with_file(case: &str) -> (String, String, Run) {
    let host = format!("{case}.allowed.test");
    let run = Run::new().allow(&host).bind(&format!("{host} X-Api-Key: {{KEY}}"));
    let directory = run.outside().join("secrets");
    fs::create_dir(&directory).unwrap();
    let path = directory.join("key");
    write_private(&path, &canary(case));
    let path = path.display().to_string();
    let run = run.arg("--secret").arg(&format!("KEY=file:{path}"));
    (host, path, run)
}

fn write_private(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn from_a_file() {
    let (host, path, run) = with_file("file");
    let script =
        format!("curl -sSf https://{host}/status/200; cat {path}; ls -la $(dirname {path}); cp {path} here; cat here");
    let output = run.script(&script).run();
    output.expect_stdout("status 200");
    assert_eq!(internet().web.requests(&host)[0].header("x-api-key"), [canary("file")]);
    absent_in_output("file", &output);
}

fn from_a_command() {
    let host = "command.allowed.test";
    let run = Run::new().allow(host).bind(&format!("{host} X-Api-Key: {{KEY}}"));
    let run = run.arg("--secret").arg(&format!("KEY=command:printf %s {}", canary("command")));
    run.script(&format!("curl -sSf https://{host}/status/200")).run().expect_code(0);
    assert_eq!(internet().web.requests(host)[0].header("x-api-key"), [canary("command")]);
}

#[track_caller]
fn absent_in_output(case: &str, output: &Output) {
    assert_absent(&canary(case), "standard output", output.stdout.as_bytes());
    assert_absent(&canary(case), "standard error", output.stderr.as_bytes());
}

/// Writes all that can be read inside into `dump`: the environment, /proc, the working directory, its own memory.
const DUMP: &str = r#"
import os, subprocess, sys, urllib.request
dump = open('dump', 'wb')
reply = urllib.request.urlopen(sys.argv[1])
dump.write(str(reply.headers).encode() + reply.read())
dump.write(repr(os.environ).encode())
def add(path):
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        for _ in range(64):
            part = os.read(file, 1 << 16)
            if not part:
                break
            dump.write(part)
    except OSError:
        pass
    os.close(file)
for root, directories, files in os.walk('/proc'):
    if root == '/proc':
        files = [name for name in files if name not in ('kcore', 'kmsg')]
    for name in files:
        add(os.path.join(root, name))
for root, _, files in os.walk('.'):
    for name in files:
        if name != 'dump':
            add(os.path.join(root, name))
with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as memory:
    for line in maps:
        start, end = (int(part, 16) for part in line.split()[0].split('-'))
        try:
            memory.seek(start)
            dump.write(memory.read(min(end - start, 1 << 26)))
        except (OSError, ValueError, OverflowError):
            pass
dump.close()
print('dumped', os.path.getsize('dump'))
"#;

fn dump_of_everything_inside() {
    let (host, run) = bound("dump");
    let work = run.work();
    let run = run.env("UNRELATED_TOKEN", &canary("dump"));
    let output = run.command(&["/usr/bin/python3", "-c", DUMP, &format!("https://{host}/status/200")]).run();
    output.expect_code(0).expect_stdout("dumped");
    authorized("dump", &host, 1);
    let dump = fs::read(work.join("dump")).unwrap();
    assert!(dump.len() > 1_000_000, "a dump of {} bytes is none", dump.len());
    assert!(memchr::memmem::find(&dump, b"status 200").is_some(), "the dump does not hold the response");
    assert_absent(&canary("dump"), "the dump", &dump);
    absent_in_output("dump", &output);
}

fn dump_of_pid_1_from_outside() {
    let (host, run) = bound("pid1");
    let run = run.script(&format!("curl -sSf https://{host}/status/200 && echo ready && read word"));
    let mut terminal = Terminal::start(&run.to_command());
    terminal.expect("ready");
    let launcher = terminal.pid();
    let children = fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children")).unwrap();
    let inner: Vec<&str> = children.split_whitespace().collect();
    assert!(!inner.is_empty(), "the launcher has no child");
    for pid in inner {
        let memory = memory_of(pid);
        assert!(memory.len() > 100_000, "a dump of {} bytes is none", memory.len());
        assert_absent(&canary("pid1"), "pid 1", &memory);
    }
    terminal.send("\n");
    assert_eq!(code(terminal.wait()), 0);
    authorized("pid1", &host, 1);
}

/// Everything mapped and readable in a process, its environment with it. By system call: the files under /proc of a
/// process that is not dumpable belong to a root whom an ordinary user's namespace does not know.
fn memory_of(pid: &str) -> Vec<u8> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("we may look into the sandbox");
    let pid = Pid::from_raw(pid.parse().unwrap());
    let mut all = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" r")) {
        let (start, end) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
        let [base, end] = [start, end].map(|address| usize::from_str_radix(address, 16).unwrap_or_default());
        let mut part = vec![0; end.saturating_sub(base).min(1 << 28)];
        let remote = [RemoteIoVec { base, len: part.len() }];
        let read = process_vm_readv(pid, &mut [IoSliceMut::new(&mut part)], &remote).unwrap_or_default();
        all.extend(&part[..read]);
    }
    all
}

fn not_in_the_audit() {
    let (host, run) = bound("audit");
    let output = run.script(&format!("curl -sSf 'https://{host}/status/200?token=in-the-query'")).run();
    output.expect_code(0);
    let rows = serde_json::to_string(&output.audit).unwrap();
    assert_absent(&canary("audit"), "the audit", rows.as_bytes());
    assert!(rows.contains(&host) && rows.contains("KEY") && !rows.contains("in-the-query"), "{rows}");
}

/// Where clients keep what they would log in with.
const STORES: &[&str] = &[
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".config/gcloud/credentials.db",
    ".azure/msal_token_cache.json",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".kube/config",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".config/pip/pip.conf",
    ".cargo/credentials.toml",
    ".gnupg/private-keys-v1.d/key",
    ".git-credentials",
    ".mozilla/firefox/p/logins.json",
    ".config/google-chrome/Default/Login Data",
    ".local/share/keyrings/login.keyring",
];

/// A home in which every credential store holds the canary.
fn with_stores(case: &str) -> Run {
    let run = Run::new();
    STORES.iter().for_each(|store| write_private(&run.home().join(store), &format!("token: {}\n", canary(case))));
    run
}

fn credential_stores_are_empty_inside() {
    let run = with_stores("stores");
    let home = run.home();
    let files: Vec<String> = STORES.iter().map(|store| format!("'{}'", home.join(store).display())).collect();
    let script = format!("cat {}; grep -r token '{}'; ls -laR '{}'", files.join(" "), home.display(), home.display());
    absent_in_output("stores", &run.script(&script).run());
    assert!(STORES.iter().all(|store| home.join(store).is_file()), "the stores outside are as they were");
}

fn gh_has_no_token() {
    need("gh", "gh");
    let run = Run::new();
    let hosts = format!("github.com:\n    oauth_token: {}\n    user: someone\n", canary("gh"));
    write_private(&run.home().join(".config/gh/hosts.yml"), &hosts);
    let output = run.env("GH_TOKEN", &canary("gh")).command(&["gh", "auth", "token"]).run();
    assert_ne!(output.code, 0, "{output:#?}");
    absent_in_output("gh", &output);
}

fn agent_sockets_are_gone() {
    let run = Run::new();
    let path = run.outside().join("agent");
    let agent = UnixListener::bind(&path).unwrap();
    let path = path.display().to_string();
    let attempt = "import os, socket, sys
print([name for name in os.environ if name in ('SSH_AUTH_SOCK', 'DBUS_SESSION_BUS_ADDRESS', 'GPG_AGENT_INFO')])
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
    print('connected')
except OSError as error:
    print('refused:', error)";
    let run = run.env("SSH_AUTH_SOCK", &path).env("DBUS_SESSION_BUS_ADDRESS", &format!("unix:path={path}"));
    let output = run.command(&["/usr/bin/python3", "-c", attempt, &path]).run();
    output.expect_code(0).expect_stdout("[]\n").expect_stdout("refused:");
    agent.set_nonblocking(true).unwrap();
    assert!(agent.accept().is_err(), "somebody connected to the agent");
}

/// What the child does to the paths of policy and audit changes nothing: they are used by descriptor.
fn policy_and_audit_are_out_of_reach() {
    let run = Run::new();
    let (audit, directory) = (run.audit_file().display().to_string(), run.outside().display().to_string());
    let policy = run.outside().join("policy.toml");
    fs::write(&policy, "[network]\nmode = \"allow\"\nhosts = [\"steered.allowed.test\"]\n").unwrap();
    let policy = policy.display().to_string();
    let script = format!(
        "echo '[network]\nmode = \"all\"' > {policy}
        rm -f {policy}; true > {audit}; mv {directory} {directory}-away; mkdir -p {directory}; ln {audit} link
        curl -sS https://steered.blocked.test/ ; curl -sSf https://steered.allowed.test/status/200; cat {audit}"
    );
    let run = run.arg("--policy").arg(&policy).script(&script);
    let output = run.run();
    let refused_to_start = output.code == 125 && output.stderr.contains("writable");
    assert!(refused_to_start || output.stdout.contains("status 200"), "{output:#?}");
    assert!(!output.stdout.contains("\"verdict\""), "the child read the audit\n{output:#?}");
    assert!(internet().web.requests("steered.blocked.test").is_empty());
    assert_eq!(internet().dns.queries("steered.blocked.test"), 0);
}
