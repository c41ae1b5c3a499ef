//! HTTP/2 of clients that break its rules, frame by frame (RFC 9113, RFC 7541; the checks of h2spec and more): the stream or
//! the connection ends as the standard says, others go on, and the upstream gets nothing of it.
//!
//! The upstream speaks HTTP/1.1 and keeps the very bytes, so a field or a body that broke out of its place would be seen.

use crate::cases;
use crate::internet::internet;
use crate::internet::rawtls::{RawTls, Step};
use crate::internet::strict::Strict;
use crate::sandbox::{Run, need};

cases![
    frames_out_of_place_end_the_connection,
    malformed_requests_end_their_stream,
    header_blocks_that_cannot_be_read_end_the_connection,
    bodies_are_held_to_their_windows_and_lengths,
    floods_end_the_connection_and_harm_no_other,
    what_is_odd_and_lawful_passes,
    h2load_and_curl_pass,
];

/// An HTTP/1 upstream that answers each whole request, a connection for each, but `/wait` never.
fn upstream(name: &str, address: &str) -> RawTls {
    internet().dns.set(name, &[address]);
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".to_vec();
    RawTls::start(&format!("{address}:443"), vec![Step::ReadRequest, Step::Send(answer), Step::Close])
}

/// Runs a script with `inside/frames.py` and shows that nothing arrived but `/good`, and how often.
fn shown(host: &str, address: &str, script: &str) -> usize {
    let upstream = upstream(host, address);
    let script = format!("from frames import *\nHOST = {host:?}\n{script}");
    let output = Run::new().allow(host).file("frames.py", include_str!("inside/frames.py")).wire(&script).run();
    output.expect_code(0);
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
    let seen = upstream.well_formed();
    let good = |seen: &Strict| seen.target == "/good" && seen.field("host") == [host] && seen.trailers.is_empty();
    assert!(seen.iter().all(good), "{seen:#?}");
    seen.len()
}

/// Sections 3.4 to 6.10.
fn frames_out_of_place_end_the_connection() {
    let script = r#"
OPEN = headers(1, fields_of(HOST, "/wait", "POST"), END_HEADERS)
DONE = headers(1, fields_of(HOST, "/good"))
window = lambda by: struct.pack("!I", by)
setting = lambda kind, value: struct.pack("!HI", kind, value)
ROWS = {
    "DATA on stream 0": ([frame(DATA, 0, 0, b"x")], "PROTOCOL_ERROR"),
    "HEADERS on stream 0": ([headers(0, fields_of(HOST))], "PROTOCOL_ERROR"),
    "PRIORITY on stream 0": ([frame(PRIORITY, 0, 0, bytes(5))], "PROTOCOL_ERROR"),
    "RST_STREAM on stream 0": ([frame(RST_STREAM, 0, 0, bytes(4))], "PROTOCOL_ERROR"),
    "CONTINUATION on stream 0": ([frame(CONTINUATION, END_HEADERS, 0, b"")], "PROTOCOL_ERROR"),
    "SETTINGS on a stream": ([frame(SETTINGS, 0, 1)], "PROTOCOL_ERROR"),
    "PING on a stream": ([frame(PING, 0, 1, bytes(8))], "PROTOCOL_ERROR"),
    "GOAWAY on a stream": ([frame(GOAWAY, 0, 1, bytes(8))], "PROTOCOL_ERROR"),
    "PUSH_PROMISE of a client": ([OPEN, frame(PUSH_PROMISE, END_HEADERS, 1, window(2) + block(fields_of(HOST)))], "PROTOCOL_ERROR"),
    "an even stream": ([headers(2, fields_of(HOST))], "PROTOCOL_ERROR"),
    "a lower stream": ([headers(5, fields_of(HOST, "/good")), headers(3, fields_of(HOST))], "PROTOCOL_ERROR"),
    "DATA on an idle stream": ([frame(DATA, END_STREAM, 1, b"x")], "PROTOCOL_ERROR"),
    "RST_STREAM on an idle stream": ([frame(RST_STREAM, 0, 1, window(8))], "PROTOCOL_ERROR"),
    "WINDOW_UPDATE on an idle stream": ([frame(WINDOW_UPDATE, 0, 1, window(1))], "PROTOCOL_ERROR"),
    "CONTINUATION without HEADERS": ([frame(CONTINUATION, END_HEADERS, 1, block(fields_of(HOST)))], "PROTOCOL_ERROR"),
    "CONTINUATION behind the end": ([OPEN, frame(CONTINUATION, END_HEADERS, 1, block([("x", "1")]))], "PROTOCOL_ERROR"),
    "a frame between": ([headers(1, fields_of(HOST), END_STREAM), frame(PING, 0, 0, bytes(8))], "PROTOCOL_ERROR"),
    "an unknown frame between": ([headers(1, fields_of(HOST), END_STREAM), frame(99, 0, 1, b"x")], "PROTOCOL_ERROR"),
    "another stream between": ([headers(1, fields_of(HOST), END_STREAM), headers(3, fields_of(HOST))], "PROTOCOL_ERROR"),
    "another stream's CONTINUATION": ([headers(1, fields_of(HOST), END_STREAM), frame(CONTINUATION, END_HEADERS, 3, b"")], "PROTOCOL_ERROR"),
    "DATA too large": ([OPEN, frame(DATA, 0, 1, bytes(16385))], "FRAME_SIZE_ERROR"),
    "HEADERS too large": ([headers(1, fields_of(HOST, "/bad", "GET", ("x", "x" * 16400)))], "FRAME_SIZE_ERROR"),
    "a length of 16 MB": ([frame(DATA, 0, 1, b"", 0xFFFFFF)], "FRAME_SIZE_ERROR"),
    "PRIORITY of 4": ([frame(PRIORITY, 0, 1, bytes(4))], "FRAME_SIZE_ERROR"),
    "RST_STREAM of 3": ([OPEN, frame(RST_STREAM, 0, 1, bytes(3))], "FRAME_SIZE_ERROR"),
    "SETTINGS of 5": ([frame(SETTINGS, 0, 0, bytes(5))], "FRAME_SIZE_ERROR"),
    "an acknowledgement with settings": ([frame(SETTINGS, ACK, 0, setting(3, 1))], "FRAME_SIZE_ERROR"),
    "PING of 7": ([frame(PING, 0, 0, bytes(7))], "FRAME_SIZE_ERROR"),
    "GOAWAY of 7": ([frame(GOAWAY, 0, 0, bytes(7))], "FRAME_SIZE_ERROR"),
    "WINDOW_UPDATE of 3": ([frame(WINDOW_UPDATE, 0, 0, bytes(3))], "FRAME_SIZE_ERROR"),
    "ENABLE_PUSH of 2": ([frame(SETTINGS, 0, 0, setting(2, 2))], "PROTOCOL_ERROR"),
    # The standard wants FLOW_CONTROL_ERROR here; the h2 crate says PROTOCOL_ERROR.
    "INITIAL_WINDOW_SIZE of 2 GB": ([frame(SETTINGS, 0, 0, setting(4, 1 << 31))], "PROTOCOL_ERROR"),
    "MAX_FRAME_SIZE of 16383": ([frame(SETTINGS, 0, 0, setting(5, 16383))], "PROTOCOL_ERROR"),
    "MAX_FRAME_SIZE of 16 MB": ([frame(SETTINGS, 0, 0, setting(5, 1 << 24))], "PROTOCOL_ERROR"),
    "a window of 0 more": ([frame(WINDOW_UPDATE, 0, 0, window(0))], "PROTOCOL_ERROR"),
    "a window too large": ([frame(WINDOW_UPDATE, 0, 0, window(0x7FFFFFFF))] * 2, "FLOW_CONTROL_ERROR"),
    "padding longer than DATA": ([OPEN, frame(DATA, PADDED, 1, b"\5abcd")], "PROTOCOL_ERROR"),
    "padding without its length": ([OPEN, frame(DATA, PADDED, 1, b"")], "FRAME_SIZE_ERROR"),
    "padding longer than HEADERS": ([frame(HEADERS, PADDED | END_HEADERS | END_STREAM, 1, b"\xff" + block(fields_of(HOST)))], "PROTOCOL_ERROR"),
    "a priority cut off": ([frame(HEADERS, PRIORITIZED | END_HEADERS | END_STREAM, 1, b"\0\0")], "FRAME_SIZE_ERROR"),
    "HEADERS behind the end": ([DONE, headers(1, fields_of(HOST))], "STREAM_CLOSED"),
    "DATA behind the end": ([DONE, frame(DATA, 0, 1, b"x")], "STREAM_CLOSED"),
}
# What concerns one stream may end that alone.
ONE_STREAM = {"a window of 0 more for it": ([OPEN, frame(WINDOW_UPDATE, 0, 1, window(0))], "PROTOCOL_ERROR"),
    "its window too large": ([OPEN, *[frame(WINDOW_UPDATE, 0, 1, window(0x7FFFFFFF))] * 2], "FLOW_CONTROL_ERROR"),
    "it depends on itself": ([frame(HEADERS, PRIORITIZED | END_HEADERS | END_STREAM, 1, window(1) + b"\0" + block(fields_of(HOST)))], "PROTOCOL_ERROR")}
witness, at = Raw(HOST), 1
def shown(what, frames, code, streams):
    raw = Raw(HOST)
    raw.send(*frames)
    got = raw.outcome(99)
    allowed = [f"connection {code}"] + (["connection PROTOCOL_ERROR"] if code in ("FRAME_SIZE_ERROR", "STREAM_CLOSED") else [])
    check(what, got, lambda got: got in allowed or got == "connection end" and list(raw.resets.values()) == [code])
    check(f"{what}: the connection ends", raw.ended(), True)
for what, (frames, code) in ROWS.items():
    attempt(what, lambda: shown(what, frames, code, ()))
    if not at % 16 - 1:
        attempt("another", lambda: check("another connection goes on", witness.good(at), "status 200"))
    at += 2
for what, (frames, code) in ONE_STREAM.items():
    def one():
        raw = Raw(HOST)
        raw.send(*frames)
        check(what, raw.outcome(1), lambda got: got in (f"reset {code}", f"connection {code}"))
        if raw.gone is None:
            check(f"behind {what}", raw.good(3), "status 200")
    attempt(what, one)
for what, preface in {"no preface": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(24), "another preface": PREFACE[:-2] + b"XX" + frame(SETTINGS),
        "garbage": bytes(200), "half a preface": PREFACE[:10] + bytes(100)}.items():
    def prefaced():
        raw = Raw(HOST, preface)
        raw.stream.settimeout(15)
        check(what, raw.outcome(1), lambda got: got in ("connection end", "connection PROTOCOL_ERROR"))
    attempt(what, prefaced)
"#;
    assert!(shown("frames.test", "11.22.44.248", script) > 2);
}

/// Sections 8.1 to 8.3, and the ways in which a request could break out of its place on the way to HTTP/1 (BL-085).
fn malformed_requests_end_their_stream() {
    let script = r#"
base = fields_of(HOST)
def without(name):
    return [field for field in base if field[0] != name]
def changed(name, value):
    return [(key, value if key == name else old) for key, old in base]
BREAK = "\r\nX: 1\r\n\r\nGET /in HTTP/1.1\r\nHost: " + HOST
ROWS = {
    "no method": without(":method"), "no scheme": without(":scheme"), "no path": without(":path"), "an empty path": changed(":path", ""),
    "no pseudo field": [("x", "1")], "no field": [], "an unknown pseudo field": base + [(":extra", "1")], "a pseudo field of a response": base + [(":status", "200")],
    ":protocol unasked": base + [(":protocol", "websocket")], "an empty pseudo name": base + [(":", "1")],
    **{f"{name} twice": base[:at + 1] + base[at:] for at, (name, _) in enumerate(base)},
    **{f"{name} behind a field": without(name) + [("x", "1")] + [field for field in base if field[0] == name] for name, _ in base},
    **{f"{name} with a break": changed(name, value + BREAK) for name, value in base},
    **{f"{name} with LF": changed(name, value + "\nX: 1") for name, value in base},
    **{f"{name} with NUL": changed(name, value + "\0") for name, value in base},
    **{f"{name} with a space": changed(name, value + " HTTP/1.1") for name, value in base},
    **{f"{name} begins with a space": changed(name, " " + value) for name, value in base},
    "a path without a slash": changed(":path", "bad"), "an absolute path": changed(":path", f"https://{HOST}/bad"), "an authority in the path": changed(":path", "//evil.test@"[2:]),
    "userinfo": changed(":authority", f"me@{HOST}"), "a fragment": changed(":authority", f"{HOST}#x"), "a port of 0": changed(":authority", f"{HOST}:0"),
    "another authority": changed(":authority", "evil.test"), "an empty authority": changed(":authority", ""), "another host": base + [("host", "evil.test")],
    "two hosts": base + [("host", HOST), ("host", HOST)], "http": changed(":scheme", "http"), "ftp": changed(":scheme", "ftp"), "no text": changed(":path", "/\xff\xfe"),
    "CONNECT with a path": changed(":method", "CONNECT"), "CONNECT": [(":method", "CONNECT"), (":authority", f"{HOST}:443")], "an upper-case method token": changed(":method", "G(T"),
    **{f"the field {name}": base + [(name, value)] for name, value in [("connection", "close"), ("keep-alive", "timeout=5"), ("proxy-connection", "close"),
        ("transfer-encoding", "chunked"), ("upgrade", "websocket"), ("te", "gzip"), ("te", "trailers, gzip"), ("transfer-encoding", "identity"),
        ("content-length", "x"), ("content-length", "-1"), ("content-length", "+1"), ("content-length", "1, 1"), ("content-length", "99999999999999999999")]},
    **{f"the name {name!r}": base + [(name, "1")] for name in ["X-Upper", "x y", "x:y", "", "x\0", "x\r\ny", "x\n", "\xe4", "x\t", "(x)", "host ", " x"]},
    **{f"the value {value!r}": base + [("x", value)] for value in ["a\r\nX: 1", "a\nb", "a\rb", "a\0b", BREAK, "\x7f", "\x01"]},
    "two lengths": base + [("content-length", "0"), ("content-length", "1")],
}
raw, stream, witness, turn = Raw(HOST), 1, Raw(HOST), 1
REFUSED = "reset PROTOCOL_ERROR", "status 400", "status 421", "connection PROTOCOL_ERROR"
for what, fields in ROWS.items():
    def ask():
        raw.send(headers(stream, fields))
        check(what, raw.outcome(stream), lambda got: got in REFUSED)
        if raw.gone is None:
            check(f"behind {what}", raw.good(stream + 2), "status 200")
    attempt(what, ask)
    stream += 4
    if raw.gone is not None:
        raw, stream = Raw(HOST), 1
check("another connection", witness.good(1), "status 200")
for what, late in {"an upper-case name": [("X-Upper", "1")], "a break": [("x", BREAK)],
        "a connection's own": [("connection", "close")], "an encoding": [("transfer-encoding", "chunked")]}.items():
    def trailers():
        raw = Raw(HOST)
        raw.send(headers(1, fields_of(HOST, "/bad", "POST"), END_HEADERS), frame(DATA, 0, 1, b"hello"), headers(1, late))
        check(f"{what} in trailers", raw.outcome(1), lambda got: got in REFUSED or got == "status 502")
        if raw.gone is None:
            check(f"behind {what} in trailers", raw.good(3), "status 200")
    attempt(f"{what} in trailers", trailers)
# The h2 crate drops pseudo fields there, where the standard wants an error: they reach nobody.
for late in [(":path", "/bad")], [(":status", "200")], [(":authority", "evil.test"), ("x-fine", "1")]:
    def dropped():
        raw = Raw(HOST)
        raw.send(headers(1, fields_of(HOST, "/good", "POST"), END_HEADERS), frame(DATA, 0, 1, b"hello"), headers(1, late))
        check(f"{late} in trailers", raw.outcome(1), lambda got: got in REFUSED or got == "status 200")
    attempt(f"{late} in trailers", dropped)
def no_end():
    raw = Raw(HOST)
    raw.send(headers(1, fields_of(HOST, "/bad", "POST"), END_HEADERS), headers(1, [("x", "1")], END_HEADERS))
    check("trailers without an end", raw.outcome(1), lambda got: got in REFUSED)
attempt("trailers without an end", no_end)
"#;
    assert!(shown("requests.test", "11.22.44.249", script) > 50);
}

/// RFC 7541, and section 4.3.
fn header_blocks_that_cannot_be_read_end_the_connection() {
    let script = r#"
start = block(fields_of(HOST))
ROWS = {
    "the index 0": start + b"\x80", "an index beyond the tables": start + b"\xff\x80\x01", "a name's index beyond the tables": start + b"\x7f\x80\x01\x01x",
    "an integer without an end": start + b"\xff" + b"\xff" * 20, "an integer of 64 bits": start + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    "a string cut off": start + b"\0\5x", "a value missing": start + b"\0\1x", "a length alone": start + b"\0\x7f",
    "a Huffman code too long": start + b"\0\1x\x81\xff\xff", "Huffman padding of zeros": start + b"\0\1x\x81\x00", "the end of a Huffman string in it": start + b"\0\1x\x84\xff\xff\xff\xff",
    "a table larger than allowed": b"\x3f\xe1\xff\x03" + start, "a change of the table behind a field": start + b"\x20",
    "half a block": start[:-3],
}
for what, fields in ROWS.items():
    def ask():
        raw = Raw(HOST)
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, fields))
        check(what, raw.outcome(1), lambda got: got in ("connection COMPRESSION_ERROR", "connection PROTOCOL_ERROR"))
        check(f"{what}: the connection ends", raw.ended(), True)
    attempt(what, ask)
check("another one", Raw(HOST).good(1), "status 200")
"#;
    assert_eq!(shown("blocks.test", "11.22.44.250", script), 1);
}

/// Sections 5.2, 6.9 and 8.1.1.
fn bodies_are_held_to_their_windows_and_lengths() {
    let script = r#"
def post(raw, stream, *more):
    raw.send(headers(stream, fields_of(HOST, "/bad", "POST", *more), END_HEADERS))
def beyond():
    # With Expect, nobody reads the body before the upstream asks for it, so no window is given anew.
    raw = Raw(HOST)
    while not raw.settled:
        assert raw.step()
    post(raw, 1, ("expect", "100-continue"))
    raw.send(*[frame(DATA, 0, 1, bytes(16384)) for _ in range(1 << 6)])
    check("a window of 1 MB", raw.good(3), "status 200")
    raw.send(frame(DATA, 0, 1, bytes(1)))
    check("a byte beyond it", raw.outcome(1), lambda got: got in ("reset FLOW_CONTROL_ERROR", "connection FLOW_CONTROL_ERROR", "connection end"))
attempt("beyond", beyond)
def negative():
    raw = Raw(HOST)
    post(raw, 1)
    raw.send(frame(WINDOW_UPDATE, 0, 1, struct.pack("!I", 0x7FFFFFFF - 65535)), frame(SETTINGS, 0, 0, struct.pack("!HI", 4, 65536)))
    check("a window that a setting makes too large", raw.outcome(1), lambda got: "FLOW_CONTROL_ERROR" in got)
attempt("negative", negative)
for what, length, pieces in [("less than its length", "9", [b"hello"]), ("more than its length", "3", [b"hello"]), ("more in the second piece", "7", [b"hello", b"hello"]),
        ("nothing of its length", "5", [b""])]:
    for trailers in False, True:
        def ask():
            raw = Raw(HOST)
            post(raw, 1, ("content-length", length))
            raw.send(*[frame(DATA, 0, 1, piece) for piece in pieces[:-1]])
            raw.send(frame(DATA, 0 if trailers else END_STREAM, 1, pieces[-1]), headers(1, [("x", "1")]) if trailers else b"")
            check(f"{what}, trailers {trailers}", raw.outcome(1), lambda got: got in ("reset PROTOCOL_ERROR", "status 400", "status 502"))
            check(f"behind {what}", raw.good(3), "status 200")
        attempt(what, ask)
# A request that was whole may have been answered by the time that there is more; what is more reaches nobody.
for what, length, pieces in ("behind a length of 0", "0", [b"x"]), ("behind its length", "5", [b"hello", b"more"]):
    def more():
        raw = Raw(HOST)
        raw.send(headers(1, fields_of(HOST, "/good", "POST", ("content-length", length)), END_HEADERS))
        raw.send(*[frame(DATA, 0, 1, piece) for piece in pieces])
        check(what, raw.outcome(1), lambda got: got in ("reset PROTOCOL_ERROR", "status 400", "status 502", "status 200"))
        check(f"other streams {what}", raw.good(3), "status 200")
    attempt(what, more)
def no_body():
    raw = Raw(HOST)
    raw.send(headers(1, fields_of(HOST, "/bad", "POST", ("content-length", "5"))))
    check("a length and no body", raw.outcome(1), lambda got: got in ("reset PROTOCOL_ERROR", "status 400", "status 502"))
    check("behind it", raw.good(3), "status 200")
attempt("no body", no_body)
"#;
    assert!(shown("bodies.test", "11.22.44.251", script) >= 8);
}

/// Rapid reset (CVE-2023-44487), CONTINUATION without an end (VU#421644), and their kind.
fn floods_end_the_connection_and_harm_no_other() {
    let script = r#"
import time
witness = Raw(HOST)
check("before", witness.good(1), "status 200")
def flood(what, make, wanted, times):
    raw = Raw(HOST)
    try:
        for at in range(times):
            raw.stream.sendall(make(at))
    except OSError:
        pass  # The proxy has had enough.
    check(what, raw.outcome(1 << 30), lambda got: got in [f"connection {code}" for code in wanted.split()])
    began = time.monotonic()
    check(f"another connection after {what}", Raw(HOST).good(1), "status 200")
    check(f"at once after {what}", time.monotonic() - began, lambda seconds: seconds < 5)
reset = lambda at: headers(2 * at + 1, fields_of(HOST, "/bad", "POST"), END_HEADERS) + frame(RST_STREAM, 0, 2 * at + 1, struct.pack("!I", 8))
attempt("reset", lambda: flood("rapid resets", reset, "ENHANCE_YOUR_CALM end", 20000))
first = headers(1, fields_of(HOST), END_STREAM)
attempt("continuations", lambda: flood("continuations without an end",
    lambda at: frame(CONTINUATION, 0, 1, block([("x" + str(at), "y" * 1000)])) if at else first, "ENHANCE_YOUR_CALM COMPRESSION_ERROR PROTOCOL_ERROR end", 20000))
attempt("empty continuations", lambda: flood("empty continuations",
    lambda at: frame(CONTINUATION, 0, 1) if at else first, "ENHANCE_YOUR_CALM PROTOCOL_ERROR end", 200000))
def bomb():
    raw = Raw(HOST)
    # One field of 4 KB in the table, and 12,000 times its index.
    raw.send(frame(HEADERS, END_STREAM, 1, block(fields_of(HOST)) + b"\x40" + integer(1, 7) + b"x" + integer(3900, 7) + b"y" * 3900),
             frame(CONTINUATION, END_HEADERS, 1, b"\xbe" * 12000))
    check("a bomb of indexes", raw.outcome(1), lambda got: got in ("status 431", "status 400", "reset PROTOCOL_ERROR") or got == "connection end" or got[11:] in CODES)
attempt("bomb", bomb)
def streams():
    raw = Raw(HOST)
    raw.send(*[headers(2 * at + 1, fields_of(HOST, "/bad", "POST", ("expect", "100-continue")), END_HEADERS) for at in range(300)])
    raw.outcome(599)
    refused = [code for code in raw.resets.values()]
    check("streams over the bound", (raw.gone, refused), lambda got: got[0] in CODES or "REFUSED_STREAM" in got[1])
attempt("streams", streams)
for what, payload in ("PING", frame(PING, 0, 0, bytes(8))), ("SETTINGS", frame(SETTINGS)), ("PRIORITY", frame(PRIORITY, 0, 1, bytes(4) + b"\1")), ("empty DATA", frame(DATA, 0, 1)):
    def many():
        raw = Raw(HOST)
        if what == "empty DATA":
            raw.send(headers(1, fields_of(HOST, "/bad", "POST"), END_HEADERS))
        for _ in range(100):
            raw.send(payload * 200)
        check(f"beside {what}", Raw(HOST).good(1), "status 200")
    attempt(what, many)
check("the first of all", witness.good(3), "status 200")
"#;
    assert!(shown("floods.test", "11.22.44.252", script) >= 9);
}

/// What a check too strict would refuse.
fn what_is_odd_and_lawful_passes() {
    let script = r#"
good = fields_of(HOST, "/good")
ROWS = {
    "an unknown frame": frame(99, 255, 0, b"x" * 100) + frame(99, 0, 1, b"x") + headers(1, good), "reserved bits": frame(PING, 255 & ~ACK, 0, bytes(8)) + headers(1, good),
    "an unknown setting": frame(SETTINGS, 0, 0, struct.pack("!HI", 0x0A0A, 7)) + headers(1, good), "padding": frame(HEADERS, PADDED | END_HEADERS | END_STREAM, 1, b"\x09" + block(good) + bytes(9)),
    "a priority": frame(HEADERS, PRIORITIZED | END_HEADERS | END_STREAM, 1, bytes(4) + b"\xff" + block(good)), "PRIORITY before": frame(PRIORITY, 0, 1, bytes(4) + b"\1") + headers(1, good),
    "a block in pieces": headers(1, good[:2], END_STREAM) + frame(CONTINUATION, 0, 1, block(good[2:3])) + frame(CONTINUATION, END_HEADERS, 1, block(good[3:])),
    "a field in pieces": frame(HEADERS, END_STREAM, 1, block(good)[:9]) + frame(CONTINUATION, END_HEADERS, 1, block(good)[9:]),
    "empty DATA": headers(1, fields_of(HOST, "/good", "POST"), END_HEADERS) + frame(DATA, 0, 1) * 10 + frame(DATA, END_STREAM, 1, b"x"),
    "padded DATA": headers(1, fields_of(HOST, "/good", "POST"), END_HEADERS) + frame(DATA, PADDED | END_STREAM, 1, b"\5x" + bytes(5)),
    "a table of its own size": frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x20" + block(good)), "te: trailers": headers(1, good + [("te", "trailers")]),
    "a later stream": headers(1, good[:3] + [(":path", "/good")]), "a window as large as it may be": frame(WINDOW_UPDATE, 0, 0, struct.pack("!I", 0x7FFFFFFF - 65535)) + headers(1, good),
    "an acknowledgement unasked": frame(PING, ACK, 0, bytes(8)) + headers(1, good), "the host too": headers(1, good + [("host", HOST)]),
}
for what, frames in ROWS.items():
    def ask():
        raw = Raw(HOST)
        raw.send(frames)
        check(what, raw.outcome(1), "status 200")
    attempt(what, ask)
def answers():
    raw = Raw(HOST)
    raw.send(frame(PING, 0, 0, b"12345678"), frame(SETTINGS, 0, 0, struct.pack("!HI", 4, 100)))
    while not raw.pongs or raw.acks < 2:
        assert raw.step()
    check("PING", raw.pongs, [b"12345678"])
    check("with a small window", raw.good(1), "status 200")
attempt("answers", answers)
"#;
    assert_eq!(shown("lawful2.test", "11.22.44.253", script), 17);
}

/// Whole clients: nghttp2's load generator and curl's HTTP/2, both through the captured port and the explicit proxy.
fn h2load_and_curl_pass() {
    need("h2load", "nghttp2-client");
    let script = r#"
import re, subprocess
HOST = "load.allowed.test"
def run(*line):
    return subprocess.run(line, capture_output=True, text=True).stdout
for host in HOST, "load.h1.test":
    for clients, streams in (1, 1), (4, 32), (10, 100):
        told = run("h2load", "-n", "2000", "-c", str(clients), "-m", str(streams), f"https://{host}/bytes/1000")
        found = re.search(r"requests: 2000 total, 2000 started, 2000 done, (\d+) succeeded, (\d+) failed", told)
        check(f"h2load to {host} with {clients} clients of {streams}", found and found.groups(), ("2000", "0"))
        check("over h2", "Application protocol: h2" in told, True)
    told = run("h2load", "-n", "200", "-c", "4", "-m", "16", "-d", "body", f"https://{host}/sink")
    check(f"h2load uploads to {host}", "200 succeeded, 0 failed" in told, True)
    for proxy in [], ["--proxy", "http://127.0.0.1:3128"]:
        form = "%{http_version} %{http_code} %{size_download}\n"
        told = run("curl", "-sS", "--http2", *proxy, "-o", "/dev/null", "-w", form, f"https://{host}/bytes/3000000")
        check(f"curl from {host} {proxy}", told, "2 200 3000000\n")
        told = run("curl", "-sS", "--http2", *proxy, "-o", "/dev/null", "-w", "%{http_version} %{http_code}\n", "-T", "body", f"https://{host}/sink")
        check(f"curl to {host} {proxy}", told, "2 200\n")
        many = [word for at in range(50) for word in ("-o", "/dev/null", f"https://{host}/bytes/{at}")]
        told = run("curl", "-sS", "--http2", "--parallel", *proxy, "-w", "%{http_version} %{http_code}\n", *many)
        check(f"curl, fifty at a time from {host} {proxy}", told, "2 200\n" * 50)
"#;
    let run = Run::new().allow("load.allowed.test").allow("load.h1.test").file("body", &"x".repeat(100_000));
    run.wire(script).run().expect_code(0);
}
