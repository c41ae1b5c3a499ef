//! Everything that grows has a bound: memory, connections, names, slow clients.
//!
//! The figures are what the launcher's resident memory may grow by, in MB.

use crate::cases;
use crate::internet::internet;
use crate::internet::rawtls::{RawTls, Step};
use crate::sandbox::Run;

cases![
    a_large_download_takes_no_memory,
    a_large_upload_takes_no_memory,
    two_thousand_connections_are_served,
    ten_thousand_names_are_not_kept,
    slow_clients_hold_up_nobody,
    dials_to_one_destination_are_bounded,
];

/// What a stream of any length may cost.
const STREAM_MB: u64 = 64;
/// What 2,000 connections may cost, each with its TLS session and HTTP buffers on both sides.
const CONNECTIONS_MB: u64 = 256;
/// What 10,000 names may cost: the leaf cache at its bound.
const NAMES_MB: u64 = 64;

/// Runs a script that prints READY, asks `/slow?id=…` of gate.allowed.test for each step, and DONE at last with another.
fn growth(name: &str, run: Run, script: &str) -> u64 {
    let gates = ["ready", "done"].map(|step| (step, internet().web.events(&format!("{name}-{step}"))));
    let head = format!(
        r#"
import time
def gate(step):
    print(step.upper(), flush=True)
    request(tls("gate.allowed.test"), ["GET /slow?id={name}-" + step + " HTTP/1.1", "Host: gate.allowed.test"])
gate("ready")
"#
    );
    let running = run.allow("gate.allowed.test").wire(&format!("{head}{script}\ngate('done')")).start();
    let [before, after] = gates.map(|(step, gate)| {
        running.wait_for(&step.to_uppercase());
        let (now, most) = running.memory();
        gate.send("on".into()).unwrap();
        if step == "ready" { now } else { most }
    });
    running.wait().expect_code(0);
    after - before
}

fn a_large_download_takes_no_memory() {
    let script = r#"
import subprocess
line = ["curl", "-sS", "--http1.1", "-o", "/dev/null", "-w", "%{size_download}"]
got = subprocess.run([*line, "https://large.allowed.test/zeros/2147483648"], capture_output=True)
check("2 GB", (got.stdout, got.stderr), (b"2147483648", b""))
"#;
    let grown = growth("download", Run::new().allow("large.allowed.test"), script);
    assert!(grown < STREAM_MB, "grown by {grown} MB");
}

fn a_large_upload_takes_no_memory() {
    let script = r#"
import subprocess
line = "head -c 2147483648 /dev/zero | curl -sS --http2 -T - https://large.h1.test/drain"
got = subprocess.run(["sh", "-c", line], capture_output=True)
check("2 GB", (got.stdout, got.stderr), lambda got: b'"length":2147483648' in got[0])
"#;
    let grown = growth("upload", Run::new().allow("large.h1.test"), script);
    assert!(grown < STREAM_MB, "grown by {grown} MB");
}

fn two_thousand_connections_are_served() {
    let script = r#"
import resource
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
HOST, made = "many.allowed.test", context()
streams = [made.wrap_socket(tcp(HOST), server_hostname=HOST) for _ in range(2000)]
check("all open", len(streams), 2000)
other = request(tls(HOST), ["GET /status/200 HTTP/1.1", f"Host: {HOST}"])
check("another client goes on", other.status, 200)
for stream in streams:
    stream.sendall(f"GET /status/200 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
check("each is answered", {Answer(stream).status for stream in streams}, {200})
"#;
    let grown = growth("many", Run::new().allow("many.allowed.test"), script);
    assert_eq!(internet().web.requests("many.allowed.test").len(), 2001);
    assert!(grown < CONNECTIONS_MB, "grown by {grown} MB");
}

fn ten_thousand_names_are_not_kept() {
    let script = r#"
into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
session = context().wrap_bio(into, out, server_hostname="n00000.names.test")
try:
    session.do_handshake()
except ssl.SSLWantReadError:
    hello = out.read()
bad = 0
for at in range(10000):
    raw = tcp("gate.allowed.test")
    raw.sendall(hello.replace(b"n00000.names.test", b"n%05d.names.test" % at))
    bad += raw.recv(3)[:1] != b"\x16"
    raw.close()
check("names without a ServerHello", bad, 0)
answer = request(tls("gate.allowed.test"), ["GET /status/200 HTTP/1.1", "Host: gate.allowed.test"])
check("the next client", answer.status, 200)
"#;
    let grown = growth("names", Run::new(), script);
    assert!(internet().dns.queries_containing("names.test").is_empty(), "a name in a ClientHello is not looked up");
    assert!(grown < NAMES_MB, "grown by {grown} MB");
}

fn slow_clients_hold_up_nobody() {
    let script = r#"
HOST, slow = "slow.allowed.test", []
for at in range(200):
    slow.append(tls(HOST) if at % 2 else tcp(HOST))
    slow[-1].send(b"G" if at % 2 else b"\x16")
for at in range(50):
    raw = tcp(*PROXY)
    raw.send(b"CONNECT")
    slow.append(raw)
for at in range(20):
    slow.append(H2(tls(HOST, ("h2",))))
def others():
    for _ in range(20):
        began = time.monotonic()
        check("others", request(tls(HOST), ["GET /status/200 HTTP/1.1", f"Host: {HOST}"]).status, 200)
        check("at once", time.monotonic() - began, lambda seconds: seconds < 5)
def handshakes_end():
    # Those that never said hello are closed after ten seconds, one that was silent from the start too.
    check("closed", [read_to_end(stream) for stream in slow[0:200:40]], lambda ends: len(ends) == 5)
    check("silent", read_to_end(silent), b"")
silent = connect(HOST)
together(("others", others), ("handshakes", handshakes_end))
stalled = H2(tls(HOST, ("h2",)))
for _ in range(20):
    stalled.send(HOST, "/zeros/100000000")
answer = request(tls("gate.allowed.test"), ["GET /status/200 HTTP/1.1", "Host: gate.allowed.test"])
check("beside a reader that never reads", answer.status, 200)
"#;
    let grown = growth("slow", Run::new().allow("slow.allowed.test"), script);
    assert!(grown < STREAM_MB, "grown by {grown} MB");
}

/// 64 dials at a time to one destination for each worker, of which `run` has one for four processors.
fn dials_to_one_destination_are_bounded() {
    let workers = std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 4).clamp(1, 4));
    let (bound, asked) = (64 * workers, 96 * workers);
    internet().dns.set("held.test", &["11.22.44.119"]);
    let answer = Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".to_vec());
    let upstream = RawTls::start("11.22.44.119:443", vec![Step::ReadHead, answer, Step::Close]);
    let gates = ["hold", "more", "go"].map(|step| internet().web.events(&format!("dials-{step}")));
    let script = r#"
import sys
made = context()
def opened(host):
    return made.wrap_socket(tcp(host), server_hostname=host)
def gate(step):
    print(step, flush=True)
    answer = request(opened("gate.allowed.test"), [f"GET /slow?id=dials-{step} HTTP/1.1", "Host: gate.allowed.test"])
    check(f"{step}: other destinations go on", answer.status, 200)
# So that all workers know that it speaks HTTP/1 and that each request needs a connection of its own.
for _ in range(8):
    check("at first", request(opened("held.test"), ["GET / HTTP/1.1", "Host: held.test"]).status, 200)
gate("hold")
streams = [opened("held.test") for _ in range(int(sys.argv[1]))]
for stream in streams:
    stream.sendall(b"GET / HTTP/1.1\r\nHost: held.test\r\n\r\n")
gate("more")
for _ in range(20):
    answer = request(opened("gate.allowed.test"), ["GET /status/200 HTTP/1.1", "Host: gate.allowed.test"])
    check("other destinations go on", answer.status, 200)
gate("go")
check("all are served at last", [Answer(stream).status for stream in streams], [200] * len(streams))
"#;
    let run = Run::new().allow("held.test").allow("gate.allowed.test").wire(script).word(&asked.to_string()).start();
    run.wait_for("hold");
    upstream.hold();
    gates[0].send("on".into()).unwrap();
    run.wait_for("more");
    upstream.waiting(bound);
    gates[1].send("on".into()).unwrap();
    run.wait_for("go");
    assert_eq!(upstream.waiting(bound), bound);
    upstream.release();
    gates[2].send("on".into()).unwrap();
    run.wait().expect_code(0);
    assert_eq!(upstream.requests("GET"), 8 + asked);
}
