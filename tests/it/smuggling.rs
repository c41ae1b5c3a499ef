//! Two readings of one connection: what a client frames so that the proxy and an upstream could part it differently. The
//! upstream keeps the very bytes, and gets nothing, or whole and well-formed requests.

use crate::cases;
use crate::internet::internet;
use crate::internet::rawtls::{RawTls, Step};
use crate::sandbox::Run;

cases![
    heads_that_can_be_read_in_two_ways_go_nowhere,
    lawful_framing_arrives_in_its_plainest_form,
    bad_chunks_never_make_a_whole_request,
    framing_in_other_spellings_is_refused,
    trailers_frame_and_route_nothing,
];

/// An HTTP/1 upstream that answers each whole request on a connection of its own.
fn upstream(name: &str, address: &str) -> RawTls {
    internet().dns.set(name, &[address]);
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".to_vec();
    RawTls::start(&format!("{address}:443"), vec![Step::ReadRequest, Step::Send(answer), Step::Close])
}

/// BL-059, BL-088, BL-089: beside those of `protocol_client`, which asks for the answer and its row.
fn heads_that_can_be_read_in_two_ways_go_nowhere() {
    let upstream = upstream("two-ways.test", "11.22.44.238");
    let script = r#"
HOST = "two-ways.test"
BEHIND = f"GET /behind HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
POST = "POST /bad HTTP/1.1|Host: @|"
HEADS = [POST + line for line in (
    "Content-Length: 5|Content-Length: 0", "Content-Length: 0|Content-Length: 5", "Content-Length: 5,5", "Content-Length: 5 5",
    "Content-Length: 5;x", "Content-Length: 5\x00", "Content-Length: \x0b5", "Content-Length: \x0c5", "Content-Length: 5\x0b",
    "Content-Length: 5.0", "Content-Length: 1e1", "Content-Length: \xb2", "Content-Length: -0", "Content-Length: '5'",
    "Content-Length: 5|content-length: 5", "Content-Length\x00: 5", "Content-Length\x0b: 5", "Content-Length\t: 5", "\x00Content-Length: 5",
    "Content-Length: 5|Transfer-Encoding: identity", "Content-Length: 5|Transfer-Encoding:", "Transfer-Encoding:", "Transfer-Encoding: ,",
    "Transfer-Encoding: identity", "Transfer-Encoding: chunked,", "Transfer-Encoding: ,chunked", "Transfer-Encoding: chunked;q=1",
    "Transfer-Encoding: \"chunked\"", "Transfer-Encoding: chunked\x00", "Transfer-Encoding: \x0cchunked", "Transfer-Encoding: chunked\x0b",
    "Transfer-Encoding: chunked chunked", "Transfer-Encoding: chunked|transfer-encoding: identity", "Transfer-Encoding:\xa0chunked",
    "Transfer-Encoding: identity|Transfer-Encoding: chunked", "Transfer-Encoding: chunKed\xff", "Transfer-Encoding\t: chunked",
    "Transfer-Encoding: gzip|Content-Length: 5", "Transfer-Encoding: chunked| ,identity", "X: 1|\tTransfer-Encoding: chunked",
    "X: 1\rTransfer-Encoding: chunked", "X: 1\nTransfer-Encoding: chunked", "X: 1\n\r\nGET /in HTTP/1.1", "X\r: 1",
)] + [
    " GET /bad HTTP/1.1|Host: @", "GET\t/bad HTTP/1.1|Host: @", "GET /bad\tHTTP/1.1|Host: @", "GET /bad HTTP/1.1 |Host: @",
    "GET /bad HTTP/1.1\x0b|Host: @", "GET /bad HTTP/0.9|Host: @", "GET /bad HTTP/2.0|Host: @", "GET /bad HTTP/1.2|Host: @",
    "GET /bad HTTP/01.1|Host: @", "GET /bad\x00 HTTP/1.1|Host: @", "GET /bad\x7f HTTP/1.1|Host: @", "GET /b\xe4d HTTP/1.1\r|Host: @",
    "GET bad HTTP/1.1|Host: @", "GET @ HTTP/1.1|Host: @", "GET @:443 HTTP/1.1|Host: @", "GET \\bad HTTP/1.1|Host: @", "GET /bad#part HTTP/1.1|Host: @", "GET /bad#\x00\x04 HTTP/1.1|Host: @", "GET /bad HTTP/1.1|Host: @ evil.test",
    "GET /bad HTTP/1.1|Host: @|hOST: evil.test", "GET /bad HTTP/1.1|Host: @\x00.evil.test", "GET /bad HTTP/1.1|Host: @,evil.test",
    "GET /bad HTTP/1.1|Host : @", "GET /bad HTTP/1.1|Host:@|Host:", "GET /bad HTTP/1.1\n|Host: @", "\n|GET /bad HTTP/1.1|Host: @",
    "PRI * HTTP/2.0|", "GET  /bad HTTP/1.1|Host: @", "GET /bad  HTTP/1.1|Host: @", "G\x00T /bad HTTP/1.1|Host: @",
    "GET /bad HTTP/1.1GET /in HTTP/1.1|Host: @", "GET /bad HTTP/1.1|Host: @|: smuggled", "GET /bad HTTP/1.1|Host: @|Näme: 1",
]
def refused(via, text):
    stream = via()
    try:
        stream.sendall(text.encode("latin-1") + b"\r\n\r\n" + b"0\r\n\r\n" + BEHIND)
    except OSError:
        pass
    got = read_to_end(stream)
    # Where the host alone is wrong, what follows is read as a request, which it is not.
    statuses = [line.split()[1] for line in got.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    check(f"{via.__name__} {text!r}", statuses, lambda got: got in ([], [b"400"], [b"421"], [b"400", b"400"], [b"421", b"400"]))
def captured():
    return tls(HOST)
def tunnelled():
    return tls(HOST, via=connect)
def proxied():
    return tcp(*PROXY)
for head in HEADS:
    text = head.replace("@", HOST).replace("|", "\r\n")
    attempt(f"captured {text!r}", lambda: refused(captured, text))
    attempt(f"tunnelled {text!r}", lambda: refused(tunnelled, text))
    text = head.replace(" /bad", f" https://@/bad").replace("@", HOST).replace("|", "\r\n")
    attempt(f"proxied {text!r}", lambda: refused(proxied, text))
# What is behind CONNECT is nobody's until it is granted.
for target in f"{HOST}:443\0.evil.test", f"{HOST}\0:443", f"{HOST}:443\r", f"{HOST}:443 \r\nX: 1", f"{HOST}:4 43", f"{HOST}%00.evil.test:443", \
        f"{HOST}:443#", f"//{HOST}:443", f"https://{HOST}:443/", f"[{HOST}]:443", f"{HOST}:+443", f"{HOST}:443:443", "*", \
        f"{HOST}:443 HTTP/1.1\r\nContent-Length: 5\r\nX: 1", f"{HOST}:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX: 1":
    attempt(f"CONNECT {target!r}", lambda: refused(proxied, f"CONNECT {target} HTTP/1.1\r\nHost: {HOST}:443"))
"#;
    Run::new().allow("two-ways.test").wire(script).run().expect_code(0);
    assert_eq!(upstream.seen(), Vec::<Vec<u8>>::new(), "the upstream was connected to");
}

/// BL-086, BL-143: chunks are parted anew, extensions dropped, bodies kept with methods that seldom have one, and the next
/// request of the connection is the next one.
fn lawful_framing_arrives_in_its_plainest_form() {
    let upstream = upstream("lawful.test", "11.22.44.239");
    let script = r#"
HOST = "lawful.test"
CHUNKED = "Transfer-Encoding: chunked"
ROWS = [
    ("length", "POST", ["Content-Length: 5"], b"hello"), ("tab", "POST", ["Content-Length:\t5 \t"], b"hello"),
    ("zeros", "POST", ["Content-Length: 0005"], b"hello"), ("capitals", "POST", ["TRANSFER-ENCODING: CHUNKED "], b"5\r\nhello\r\n0\r\n\r\n"),
    ("extension", "POST", [CHUNKED], b"5;a=b;c=\"d e\"\r\nhello\r\n0;last\r\n\r\n"), ("leading", "POST", [CHUNKED], b"0000000005\r\nhello\r\n000\r\n\r\n"),
    ("quoted", "POST", [CHUNKED], b"5;a=\"\\\"\"\r\nhello\r\n0\r\n\r\n"), ("pieces", "POST", [CHUNKED], b"1\r\nh\r\n4\r\nello\r\n0\r\n\r\n"),
    ("trailer", "POST", [CHUNKED, "Trailer: x-late"], b"5\r\nhello\r\n0\r\nX-Late: 1\r\n\r\n"), ("like-a-request", "POST", ["Content-Length: 24"], b"GET /in HTTP/1.1\r\nX: 1\r\n"),
    ("like-a-chunk", "POST", ["Content-Length: 5"], b"0\r\n\r\n"), ("get", "GET", ["Content-Length: 5"], b"hello"), ("get-chunked", "GET", [CHUNKED], b"5\r\nhello\r\n0\r\n\r\n"),
    ("head", "HEAD", [CHUNKED], b"5\r\nhello\r\n0\r\n\r\n"), ("delete", "DELETE", ["Content-Length: 5"], b"hello"), ("options", "OPTIONS", ["Content-Length: 5"], b"hello"),
    ("nothing", "POST", ["Content-Length: 0"], b""), ("no-chunk", "POST", [CHUNKED], b"0\r\n\r\n"), ("override", "GET", ["X-HTTP-Method-Override: DELETE"], b""),
    ("obs-text", "GET", ["X: \xe4\xff"], b""), ("empty-value", "GET", ["X:"], b""), ("named", "POST", ["Content-Length: 5", "Connection: content-length, host, transfer-encoding"], b"hello"),
]
for name, method, fields, body in ROWS:
    for via in tcp, connect:
        def ask():
            stream = tls(HOST, via=via)
            head = [f"{method} /{name} HTTP/1.1", f"Host: {HOST}", *fields]
            next = f"GET /next HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
            check(name, request(stream, head, b"\r\n".join([body + next]), method).status, 200)
            check(f"behind {name}", Answer(stream).status, 200)
        attempt(name, ask)
def old():
    stream = tls(HOST)
    check("1.0", request(stream, ["POST /old HTTP/1.0", f"Host: {HOST}", "Content-Length: 5"], b"hello").status, 200)
attempt("old", old)
def empty_lines():
    stream = tls(HOST)
    check("empty lines", request(stream, ["", "", "GET /empty-lines HTTP/1.1", f"Host: {HOST}"], method="GET").status, 200)
attempt("empty lines", empty_lines)
for name, _, _, _ in ROWS:
    print(name)
"#;
    let output = Run::new().allow("lawful.test").wire(script).run();
    output.expect_code(0);
    let seen = upstream.well_formed();
    let rows: Vec<&str> = output.stdout.lines().collect();
    let wanted: usize = 4 * rows.len() + 2;
    assert_eq!(seen.len(), wanted, "{seen:#?}");
    for request in &seen {
        let name = request.target.trim_start_matches('/');
        let body: &[u8] = match name {
            "next" | "nothing" | "no-chunk" | "override" | "obs-text" | "empty-value" | "empty-lines" => b"",
            "like-a-request" => b"GET /in HTTP/1.1\r\nX: 1\r\n",
            "like-a-chunk" => b"0\r\n\r\n",
            _ => b"hello",
        };
        assert_eq!(request.body, body, "{request:#?}");
        assert_eq!(request.field("host"), ["lawful.test"]);
        assert!(rows.contains(&name) || ["next", "old", "empty-lines"].contains(&name), "{request:#?}");
    }
}

/// BL-086: the head may have gone on by then, but no whole request, and nothing behind it.
fn bad_chunks_never_make_a_whole_request() {
    let upstream = upstream("chunks.test", "11.22.44.240");
    let script = r#"
HOST = "chunks.test"
BEHIND = f"GET /behind HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
BAD = [b"2;\nxx\r\nab\r\n0\r\n\r\n", b"5\nhello\n0\n\n", b"5;a=\"\n\"\r\nhello\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n",
    b"-5\r\nhello\r\n0\r\n\r\n", b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n", b"10000000000000005\r\nhello\r\n0\r\n\r\n", b"5 x\r\nhello\r\n0\r\n\r\n",
    b" 5\r\nhello\r\n0\r\n\r\n", b"5\r\nhello0\r\n\r\n", b"5\r\nhelloXX0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"5\r\nhell\r\n0\r\n\r\n", b"4\r\nhello\r\n0\r\n\r\n",
    b"\r\n5\r\nhello\r\n0\r\n\r\n", b"5\r\r\nhello\r\n0\r\n\r\n", b"5\0\r\nhello\r\n0\r\n\r\n", b"g\r\nhello\r\n0\r\n\r\n", b"5,5\r\nhello\r\n0\r\n\r\n",
    b"5;" + b"x" * 1048576 + b"\r\nhello\r\n0\r\n\r\n", b"5;a\rb\r\nhello\r\n0\r\n\r\n", b"5;a\0\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhello\r\n0\r\nX: 1\nGET /in HTTP/1.1\r\n\r\n", b"5\r\nhello\r\n0\r\nX: 1\r\n folded\r\n\r\n", b"5\r\nhello\r\n0\r\nX : 1\r\n\r\n",
    b"5\r\nhello\r\n0\r\nno colon\r\n\r\n", b"5\r\nhello\r\n0\r\nX: a\0b\r\n\r\n", b"5\r\nhello\r\n0\r\nX: a\rb\r\n\r\n", b"5\r\nhello\r\n0\r\n: x\r\n\r\n",
    b"5\r\nhello\r\n0\r\n" + b"X: 1\r\n" * 100000 + b"\r\n", b"5\r\nhello\r\n0\r\nX: " + b"x" * 1048576 + b"\r\n\r\n", b"5\r\nhello\r\n0\r\n\n"]
for chunk in BAD:
    for via in tcp, connect:
        def ask():
            stream = tls(HOST, via=via)
            try:
                stream.sendall(f"POST /chunks HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunk + BEHIND)
            except OSError:
                pass
            got = read_to_end(stream)
            check(f"chunk {chunk[:60]}", got, lambda got: b" 200 " not in got)
        attempt(f"chunk {chunk[:60]}", ask)
"#;
    Run::new().allow("chunks.test").wire(script).run().expect_code(0);
    assert_eq!(upstream.well_formed(), []);
}

/// BL-088: a server of the CGI kind reads the underscore as a hyphen.
fn framing_in_other_spellings_is_refused() {
    let upstream = upstream("spellings.test", "11.22.44.241");
    let script = r#"
HOST = "spellings.test"
FIELDS = ("Transfer_Encoding", "chunked"), ("Content_Length", "5"), ("TRANSFER_encoding", "chunked"), ("content_length", "0")
for name, value in FIELDS:
    for fields in [], ["Content-Length: 5"], ["Transfer-Encoding: chunked"]:
        def over_h1():
            body = b"5\r\nhello\r\n0\r\n\r\n" if "Tr" in "".join(fields) else b"hello" if fields else b""
            answer = request(tls(HOST), ["POST /x HTTP/1.1", f"Host: {HOST}", f"{name}: {value}", *fields], body)
            check(f"{name} beside {fields}", (answer.status, answer.code), (400, "malformed_request"))
        attempt(name, over_h1)
    def over_h2():
        h2 = H2(tls(HOST, ("h2",)))
        answer = h2.answer(h2.send(HOST, "/x", "POST", [(name.lower(), value)], b"hello"))
        check(f"h2 {name}", (answer["status"], dict(answer["fields"]).get("x-sandbox-proxy-denial")), (400, "malformed_request"))
    attempt(f"h2 {name}", over_h2)
"#;
    Run::new().allow("spellings.test").wire(script).run().expect_code(0);
    assert_eq!(upstream.seen(), Vec::<Vec<u8>>::new());
}

/// RFC 9110 section 6.5.1: a server that merged such trailers into the head would be asked for something else.
fn trailers_frame_and_route_nothing() {
    let upstream = upstream("trailers.test", "11.22.44.242");
    let script = r#"
import json
FORBIDDEN = [("Host", "evil.test"), ("Content-Length", "50"), ("Transfer-Encoding", "chunked"), ("Connection", "close"), ("Upgrade", "h2c"),
    ("Te", "trailers"), ("Proxy-Authorization", "Basic eA=="), ("Transfer_Encoding", "chunked"), ("Content_Length", "50")]
def arrived(what, status, body):
    check(what, status, 200)
    if host.endswith(".allowed.test"):
        check(f"{what}: the trailers", json.loads(body)["trailers"], [["x-fine", "1"]])
for host in "trailers.test", "trailers.allowed.test":
    def over_h1():
        head = ["POST /echo HTTP/1.1", f"Host: {host}", "Transfer-Encoding: chunked", "Trailer: x-fine, " + ", ".join(name for name, _ in FORBIDDEN)]
        trailers = b"".join(f"{name}: {value}\r\n".encode() for name, value in FORBIDDEN + [("X-Fine", "1")])
        answer = request(tls(host), head, b"5\r\nhello\r\n0\r\n" + trailers + b"\r\n")
        arrived(f"h1 to {host}", answer.status, answer.body)
    def over_h2():
        # Those of one connection alone are malformed in HTTP/2.
        for name, value in [pair for pair in FORBIDDEN if pair[0] not in ("Transfer-Encoding", "Connection", "Upgrade")]:
            h2 = H2(tls(host, ("h2",)), strict=False)
            stream = h2.send(host, "/echo", "POST", body=b"hello", end=False, fields=[("trailer", f"x-fine, {name}")])
            h2.h2.send_headers(stream, [(name.lower(), value), ("x-fine", "1")], end_stream=True)
            h2.flush()
            answer = h2.answer(stream)
            if answer["reset"] is None and not h2.gone:
                arrived(f"h2 {name} to {host}", answer["status"], answer["body"])
    attempt(f"h1 to {host}", over_h1)
    attempt(f"h2 to {host}", over_h2)
"#;
    Run::new().allow("trailers.test").allow("trailers.allowed.test").wire(script).run().expect_code(0);
    let trailers: Vec<_> = upstream.well_formed().into_iter().flat_map(|request| request.trailers).collect();
    assert!(!trailers.is_empty() && trailers.iter().all(|(name, _)| name == "x-fine"), "{trailers:#?}");
}
