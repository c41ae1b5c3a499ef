//! TLS of clients, in whatever pieces, versions and names it comes; and what a refusal says.

use std::collections::BTreeSet;

use crate::cases;
use crate::internet::internet;
use crate::sandbox::Run;

cases![
    clienthellos_in_any_pieces_are_read,
    odd_names_harm_nobody,
    alpn_and_versions_of_tls_are_agreed_on,
    a_resumed_session_names_its_host_anew,
    a_refusal_says_this_and_no_more,
];

fn clienthellos_in_any_pieces_are_read() {
    let script = r#"
HOST = "pieces.allowed.test"
def shake(raw, cut):
    """A handshake whose first flight goes out as `cut` makes it; then one request."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    session, first = context().wrap_bio(into, out, server_hostname=HOST), True
    def pump(work):
        nonlocal first
        while True:
            try:
                return work()
            except ssl.SSLWantReadError:
                flight = out.read()
                [raw.sendall(piece) for piece in (cut(flight) if first else [flight])]
                first = False
                into.write(raw.recv(65536))
    pump(session.do_handshake)
    session.write(f"GET /pieces HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
    raw.sendall(out.read())
    return pump(lambda: session.read(12))
def records(flight, *sizes):
    """The same handshake message in records of these sizes and one for the rest."""
    head, body = flight[:3], flight[5:]
    pieces = []
    for size in sizes:
        pieces.append(body[:size])
        body = body[size:]
    return [b"".join(head + len(piece).to_bytes(2, "big") + piece for piece in pieces + [body])]
CUTS = {
    "bytes": lambda flight: [flight[at:at + 1] for at in range(len(flight))],
    "halves": lambda flight: [flight[:len(flight) // 2], flight[len(flight) // 2:]],
    "two records": lambda flight: records(flight, flight[5:].index(HOST.encode()) + 4),
    "records of one byte": lambda flight: records(flight, *[1] * 20),
}
for via in tcp, connect:
    for what, cut in CUTS.items():
        attempt(what, lambda: check(f"{what} by {via.__name__}", shake(via(HOST), cut), b"HTTP/1.1 200"))
    for what, hello in {
        "garbage": b"\x16\x03\x01\xff\xff" + b"\xaa" * 600, "an alert": b"\x15\x03\x01\0\2\1\0", "SSL 2": b"\x80\x2e\1\0\2",
        "no hello": b"\x16\x03\x01\0\4\2\0\0\0", "a long one": b"\x16\x03\x01\x40\0\1\xff\xff\xff" + b"\0" * 70000,
        "cut": b"\x16\x03\x01\2\0\1\0\1\xfc\x03\x03",
    }.items():
        def ends():
            raw = via(HOST)
            raw.sendall(hello)
            try:
                raw.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            check(f"{what} by {via.__name__}", read_to_end(raw), lambda got: got == b"" or got[0] == 0x15)
        attempt(what, ends)
"#;
    let output = Run::new().allow("pieces.allowed.test").wire(script).run();
    output.expect_code(0);
    assert_eq!(internet().web.requests("pieces.allowed.test").len(), 8);
    assert!(output.audit.iter().filter(|row| row["verdict"] == "deny").count() >= 12, "{:#?}", output.audit);
}

fn odd_names_harm_nobody() {
    let long = format!("{}.{}.bucket.allowed.test", "a".repeat(40), "b".repeat(30));
    let script = r#"
LONG = "a" * 40 + "." + "b" * 30 + ".bucket.allowed.test"
def hello(name):
    """A ClientHello whose SNI has exactly these bytes."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    stand_in = "x" * 40 + ".test"
    session = context().wrap_bio(into, out, server_hostname=stand_in)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    flight, stand_in = bytearray(out.read()), stand_in.encode()
    at, more = flight.index(stand_in), len(name) - len(stand_in)
    flight[at:at + len(stand_in)] = name
    lengths = [(3, 2), (6, 3), (at - 2, 2), (at - 5, 2), (at - 7, 2)]
    # The whole of the extensions: behind version, random, session id, cipher suites and compression.
    place = 9 + 2 + 32
    place += 1 + flight[place]
    place += 2 + int.from_bytes(flight[place:place + 2], "big")
    place += 1 + flight[place]
    for start, size in lengths + [(place, 2)]:
        value = int.from_bytes(flight[start:start + size], "big") + more
        flight[start:start + size] = value.to_bytes(size, "big")
    return bytes(flight)
ODD = [b"x" * 300, b"y" * 64 + b".test", b"a..b", b"-a.test", b"*.test", b"xn--\xff", b"\xff\xfe\xfd", b"a.test\0", b"a\0.test",
    b"[::1]", b"...", b".", b"", b"11.22.33.9", b"a b.test", b"a/b.test", b"a\r\nb.test", b"\xe2\x80\xae.test",
    b'a","verdict":"permit"}\n.test', b"localhost", b"evil.test:443", b"." * 255]
for via in tcp, connect:
    for name in ODD:
        def odd():
            raw = via("good.allowed.test")
            raw.sendall(hello(name))
            raw.shutdown(socket.SHUT_WR)
            check(f"SNI {name[:40]}", read_to_end(raw), lambda got: got == b"" or got[0] in (0x15, 0x16))
        attempt(f"SNI {name[:40]}", odd)
    answer = request(tls("good.allowed.test", via=via), ["GET /good HTTP/1.1", "Host: good.allowed.test"])
    check("the next one", answer.status, 200)
    answer = request(tls(LONG, via=via), ["GET /long HTTP/1.1", f"Host: {LONG}"])
    check("a name of more than 64 characters", answer.status, 200)
    answer = request(tls("under_score.allowed.test", via=via), ["GET / HTTP/1.1", "Host: under_score.allowed.test"])
    check("an underscore", answer.status, 200)
    answer = request(context().wrap_socket(via("good.allowed.test"), server_hostname="blocked.test"),
                     ["GET / HTTP/1.1", "Host: blocked.test"])
    check("another SNI", (answer.status, answer.code), (421, "misdirected") if via is connect else (403, "host_not_listed"))
"#;
    let run = Run::new().allow("good.allowed.test").allow(&long).allow("under_score.allowed.test");
    let output = run.wire(script).run();
    output.expect_code(0);
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
    assert_eq!(internet().web.requests("good.allowed.test").len(), 2);
    assert_eq!(internet().web.requests(&long).len(), 2);
}

fn alpn_and_versions_of_tls_are_agreed_on() {
    let script = r#"
HOST = "agree.allowed.test"
def get(made):
    stream = made.wrap_socket(tcp(HOST), server_hostname=HOST)
    if stream.selected_alpn_protocol() == "h2":
        h2 = H2(stream)
        return "h2", stream.version(), h2.answer(h2.send(HOST))["status"]
    return stream.selected_alpn_protocol(), stream.version(), request(stream, ["GET / HTTP/1.1", f"Host: {HOST}"]).status
check("no ALPN", get(context(())), (None, "TLSv1.3", 200))
check("h2 first", get(context(("h2", "http/1.1"))), ("h2", "TLSv1.3", 200))
check("http/1.1 first", get(context(("http/1.1", "h2"))), lambda got: got[0] in ("h2", "http/1.1") and got[2] == 200)
check("an unknown one too", get(context(("grpc-exp", "h2"))), ("h2", "TLSv1.3", 200))
old = context()
old.maximum_version = ssl.TLSVersion.TLSv1_2
check("TLS 1.2", get(old), ("http/1.1", "TLSv1.2", 200))
for protocols in ("http/1.0",), ("acme-tls/1",):
    try:
        check(f"only {protocols}", get(context(protocols)), lambda got: got[0] is None and got[2] == 200)
    except (ssl.SSLError, ConnectionError):
        pass
ancient = context()
ancient.minimum_version, ancient.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
ancient.set_ciphers("ALL:@SECLEVEL=0")
try:
    get(ancient)
    check("TLS 1.1", "taken", "refused")
except (ssl.SSLError, ConnectionError):
    pass
bare = context()
bare.check_hostname = False
stream = bare.wrap_socket(tcp(HOST))
check("no SNI, an address that only a name permits", request(stream, ["GET / HTTP/1.1", f"Host: {HOST}"]).status,
      lambda status: status in (403, 421))
stream = bare.wrap_socket(connect(HOST))
check("no SNI behind CONNECT", request(stream, ["GET / HTTP/1.1", f"Host: {HOST}"]).status, 200)
"#;
    Run::new().allow("agree.allowed.test").wire(script).run().expect_code(0);
}

fn a_resumed_session_names_its_host_anew() {
    let script = r#"
made = context()
def get(name, host, session=None):
    stream = made.wrap_socket(tcp("resume.allowed.test"), server_hostname=name, session=session)
    answer = request(stream, ["GET /resume HTTP/1.1", f"Host: {host}"])
    return stream, answer
stream, answer = get("resume.allowed.test", "resume.allowed.test")
check("the first", answer.status, 200)
ticket = stream.session
for name in "blocked.test", "second.resume.allowed.test":
    stream, answer = get(name, name, ticket)
    check(f"resumed for {name}", answer.status, lambda status: status == (403 if name == "blocked.test" else 200))
    check("its certificate is its own", dict(stream.getpeercert())["subjectAltName"], (("DNS", name),))
    stream, answer = get(name, "resume.allowed.test", ticket)
    check(f"resumed for {name}, Host of the first", (answer.status, answer.code), (421, "misdirected"))
import subprocess
again = subprocess.run(["sh", "-c", """
    printf 'GET / HTTP/1.1\\r\\nHost: resume.allowed.test\\r\\nConnection: close\\r\\n\\r\\n' |
        timeout 20 openssl s_client -connect resume.allowed.test:443 -sess_out s -quiet -ign_eof >/dev/null 2>&1
    printf 'POST /early HTTP/1.1\\r\\nHost: resume.allowed.test\\r\\n\\r\\n' >early
    timeout 20 openssl s_client -connect resume.allowed.test:443 -sess_in s -early_data early </dev/null 2>&1"""],
    capture_output=True, text=True).stdout
check("it was tried", again, lambda text: "esum" in text or "Verif" in text or "New, " in text)
check("no early data", again, lambda text: "Early data was accepted" not in text)
"#;
    let run = Run::new().allow("resume.allowed.test").allow("second.resume.allowed.test");
    run.wire(script).run().expect_code(0);
    let seen = internet().web.requests("resume.allowed.test");
    assert!(seen.iter().all(|seen| seen.method == "GET"), "{seen:#?}");
    assert!(internet().web.requests("blocked.test").iter().all(|seen| seen.target != "/resume"));
}

fn a_refusal_says_this_and_no_more() {
    let script = r#"
import json
PLAIN = ["cache-control", "content-length", "content-type", "date", "x-sandbox-proxy-denial"]
def fields(answer):
    return sorted(name for name, _ in answer.fields)
stream = tls("refused.blocked.test")
answer = request(stream, ["GET /x?key=hidden HTTP/1.1", "Host: refused.blocked.test"])
check("text", (answer.status, answer.code, fields(answer)), (403, "host_not_listed", PLAIN))
check("its body", answer.body.decode(), """Sandbox Proxy refused this request (host_not_listed)
refused.blocked.test is not in this sandbox's policy
asked for: GET https://refused.blocked.test/x
to allow it, the person who runs the sandbox adds: --allow refused.blocked.test
""")
answer = request(stream, ["GET /x HTTP/1.1", "Host: refused.blocked.test", "Accept: text/html, application/json;q=0.5"])
body = json.loads(answer.body)
check("JSON", (answer.field("content-type"), sorted(body), body["error"], body["cure"]),
      ("application/json", ["asked", "cure", "error", "message"], "host_not_listed", "--allow refused.blocked.test"))
check("JSON's fields", fields(answer), PLAIN)
answer = request(stream, ["HEAD /x HTTP/1.1", "Host: refused.blocked.test"])
check("HEAD", (answer.status, answer.code, fields(answer)), (403, "host_not_listed", PLAIN))
answer = request(stream, ["POST /x HTTP/1.1", "Host: refused.blocked.test", "Content-Length: 2"], b"hi")
check("with a body", (answer.status, fields(answer)), (403, sorted(PLAIN + ["connection"])))
h2 = H2(tls("refused.blocked.test", ("h2",)))
answer = h2.answer(h2.send("refused.blocked.test"))
check("h2", sorted(name for name, _ in answer["fields"]), sorted([":status"] + PLAIN))
answer = h2.answer(h2.send("refused.blocked.test", "/", "HEAD"))
check("h2 HEAD", (answer["status"], answer["body"], answer["reset"]), (403, b"", None))
answer = h2.answer(h2.send("refused.blocked.test", "/svc/Call", "POST",
    [("content-type", "application/grpc"), ("te", "trailers")], b"\0\0\0\0\0"))
got = dict(answer["fields"])
check("gRPC", (got[":status"], got["grpc-status"], got["content-type"]), ("200", "7", "application/grpc"))
check("gRPC's message", got["grpc-message"], lambda text: "refused.blocked.test" in text)
check("gRPC, trailers only", (answer["body"], answer["trailers"]), (b"", []))
raw = tcp(*PROXY)
answer = request(raw, ["CONNECT refused.blocked.test:443 HTTP/1.1", "Host: refused.blocked.test:443"])
check("CONNECT", (answer.version, answer.status, answer.reason), ("HTTP/1.1", 403,
    "host_not_listed: refused.blocked.test is not in this sandbox's policy"))
check("CONNECT's fields", fields(answer), sorted(PLAIN + ["connection"]))
"#;
    let output = Run::new().allow("other.allowed.test").wire(script).run();
    output.expect_code(0);
    let text = format!("{}{:?}", output.stdout, output.audit);
    assert!(!text.contains("hidden"), "a query went to the audit: {text}");
    let keys: BTreeSet<&str> = output.audit[0].as_object().unwrap().keys().map(String::as_str).collect();
    let golden = "authority bytes_down bytes_up capture code head_ms method path protocol reason sandbox scheme status time \
        total_ms verdict";
    assert_eq!(keys, golden.split(' ').collect());
}
