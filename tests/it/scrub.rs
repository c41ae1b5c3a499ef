//! What a host with a binding answers does not show its secret to the sandbox, in whatever form (BL-074, BL-094).

use serde_json::Value;

use crate::cases;
use crate::internet::internet;
use crate::internet::rawtls::{RawTls, Step};
use crate::sandbox::{Run, refuses};

cases![
    nothing_comes_back_in_any_coding_at_any_cut,
    events_arrive_before_the_next_is_sent,
    heads_without_bodies_are_masked,
    what_cannot_be_searched_is_refused,
    what_breaks_late_breaks_off,
    requests_ask_for_nothing_that_cannot_be_searched,
    a_websocket_shows_nothing_and_never_waits,
    an_extension_of_websocket_is_refused,
    grpc_messages_are_masked_and_keep_their_lengths,
    a_renewed_value_is_masked_in_what_is_under_way,
    borders_of_the_sandboxs_choice_cut_no_value,
    hosts_without_a_binding_are_left_alone,
    a_binding_may_be_excepted,
    bindings_of_one_secret_agree,
];

/// With what base64, paths and forms write in their own way.
const KEY: &str = "sk+cAnArY/4f9QzT27+x";

/// The host's run, and what every script needs: the key, to compare with, which a sandbox has not got.
fn script(run: Run, host: &str, code: &str) -> crate::sandbox::Output {
    let run = run.allow(host).secret_env("KEY", KEY).bind(&format!("{host} X-Key: {{KEY}}"));
    let common = format!("HOST, KEY = {host:?}, {KEY:?}\n{COMMON}");
    let output = run.wire(&(common + code)).run();
    output.expect_code(0);
    output
}

const COMMON: &str = r#"
import base64
user = base64.b64encode(b"user:" + KEY.encode()).decode()
core = user[7:8 * (5 + len(KEY)) // 6]
percent = KEY.replace("+", "%2B").replace("/", "%2F")
hexed = KEY.encode().hex()
def masked(text):
    for form in KEY, core, percent, hexed:
        text = text.replace(form, "*" * len(form))
    return text
def shows(text):
    text = text if isinstance(text, str) else text.decode("latin-1")
    return [form for form in (KEY, core, percent, hexed, percent.lower()) if form in text]
TEXT = masked(f"raw {KEY} twice {KEY}{KEY}\nbasic {user}\npercent {percent}\nhex {hexed}\nends with {KEY[:6]}").encode()
def fields_shown(fields):
    return sorted((name, value) for name, value in fields if name in ("x-key-is", "set-cookie", "location", "www-authenticate"))
FIELDS = sorted([("x-key-is", masked(f"<{KEY}>")), ("set-cookie", masked(f"session={KEY}; Path=/")),
    ("location", masked(f"https://elsewhere.test/?key={percent}")), ("www-authenticate", masked(f"Basic {user}"))])
"#;

/// HTTP/1.1 and HTTP/2 on both sides, each coding, two of them, and frames of 1 byte and more.
fn nothing_comes_back_in_any_coding_at_any_cut() {
    let code = r#"
CODINGS = "", "gzip", "deflate", "br", "zstd", "gzip,br", "zstd,gzip"
def judged(what, fields, body, trailers, coding):
    got = dict(fields)
    check(f"{what}: body", body, TEXT)
    check(f"{what}: fields", fields_shown(fields), FIELDS)
    check(f"{what}: nowhere", shows(repr((fields, trailers)) + body.decode("latin-1")), [])
    check(f"{what}: no name", [name for name in got if "canary" in name], [])
    check(f"{what}: trailers", dict(trailers).get("x-trailer"), masked(f"t {KEY}"))
    check(f"{what}: about the coding", [got.get(name) for name in ("content-encoding", "repr-digest", "accept-ranges", "etag")],
        [None, None, None, 'W/"mirror"' if coding else '"mirror"'])
def over_h1():
    stream = tls(HOST)
    for coding in CODINGS:
        for cut in 1, 2, 5, 7, 11, 1000:
            answer = request(stream, [f"GET /mirror?coding={coding}&cut={cut} HTTP/1.1", f"Host: {HOST}", "TE: trailers"])
            judged(f"h1 {coding} {cut}", answer.fields, answer.body, answer.trailers, coding)
def over_h2():
    h2 = H2(tls(HOST, ("h2",)))
    for coding in CODINGS:
        for cut in 1, 3, 10, 1000:
            got = h2.answer(h2.send(HOST, f"/mirror?coding={coding}&cut={cut}", fields=[("te", "trailers")]))
            judged(f"h2 {coding} {cut}", got["fields"], got["body"], got["trailers"], coding)
attempt("h1", over_h1)
attempt("h2", over_h2)
"#;
    for host in ["codings.scrub.allowed.test", "codings.scrub.h1.test"] {
        script(Run::new(), host, code);
        let seen = internet().web.requests(host);
        assert!(seen.len() == 70 && seen.iter().all(|request| request.header("x-key") == [KEY]), "{}", seen.len());
    }
}

/// Each event is waited for before the next is sent, so that one that was held back would stop the test.
fn events_arrive_before_the_next_is_sent() {
    let code = r#"
EVENTS = ["data: hello\n\n", "data: {KEY}\n\n", "data: a {KEYS} s\n\n", "data: \u00e4 {KEY}{KEY}\n\n", "data: bye\n\n"]
EVENTS = [event.replace("{KEYS}", KEY[:5]) for event in EVENTS]
def send(text, number):
    with tls(HOST) as stream:
        check("sent", request(stream, [f"POST /send?id={number} HTTP/1.1", f"Host: {HOST}", f"Content-Length: {len(text)}"], text).status, 204)
def over_h1(coding):
    stream, number = tls(HOST), f"{HOST}-h1-{coding}"
    stream.sendall(f"GET /mirror-events?id={number}&coding={coding} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
    check("200", read_head(stream).split(b" ")[1], b"200")
    for event in EVENTS:
        send(event.encode(), number)
        wanted, got = masked(event.replace("{KEY}", KEY)).encode(), b""
        while len(got) < len(wanted):
            got += read_exactly(stream, chunk_size(stream))
            read_exactly(stream, 2)
        check(f"h1 {coding} {event}", got, wanted)
    send(b"", number)
    check(f"h1 {coding}: the end", read_exactly(stream, 5), b"0\r\n\r\n")
def over_h2(coding):
    h2, number = H2(tls(HOST, ("h2",))), f"{HOST}-h2-{coding}"
    at = h2.send(HOST, f"/mirror-events?id={number}&coding={coding}")
    while h2.answers[at]["status"] is None:
        h2.step()
    so_far = b""
    for event in EVENTS:
        send(event.encode(), number)
        so_far += masked(event.replace("{KEY}", KEY)).encode()
        check(f"h2 {coding} {event}", h2.until(at, so_far), so_far)
    send(b"", number)
    check(f"h2 {coding}: the end", h2.answer(at)["body"], so_far)
for coding in "", "gzip", "deflate", "br", "zstd":
    attempt(f"h1 {coding}", lambda: over_h1(coding))
    attempt(f"h2 {coding}", lambda: over_h2(coding))
"#;
    for host in ["events.scrub.allowed.test", "events.scrub.h1.test"] {
        script(Run::new(), host, code);
    }
}

/// HEAD, 204, 304, redirects and error pages.
fn heads_without_bodies_are_masked() {
    let code = r#"
stream, h2 = tls(HOST), H2(tls(HOST, ("h2",)))
for method, status in ("HEAD", 200), ("GET", 204), ("GET", 304), ("GET", 302), ("GET", 401), ("GET", 500), ("HEAD", 404):
    for coding in "", "gzip":
        what = f"{method} {status} {coding}"
        answer = request(stream, [f"{method} /mirror?status={status}&coding={coding} HTTP/1.1", f"Host: {HOST}"])
        check(what, (answer.status, fields_shown(answer.fields), shows(repr(answer.fields))), (status, FIELDS, []))
        check(f"{what}: what is said of the coding", answer.field("content-encoding"), None)
        body = b"" if method == "HEAD" or status in (204, 304) else TEXT
        check(f"{what}: body", answer.body, body)
        got = h2.answer(h2.send(HOST, f"/mirror?status={status}&coding={coding}", method))
        check(f"{what} h2", (got["status"], fields_shown(got["fields"]), got["body"]), (status, FIELDS, body))
# A HEAD says what a GET would deliver: the length, where that is known.
answer = request(stream, ["HEAD /mirror?coding=compress HTTP/1.1", f"Host: {HOST}"])
check("an unknown coding of no body", (answer.status, shows(repr(answer.fields))), (200, []))
"#;
    script(Run::new(), "heads.scrub.allowed.test", code);
}

fn what_cannot_be_searched_is_refused() {
    let code = r#"
stream, h2 = tls(HOST), H2(tls(HOST, ("h2",)))
for query in "coding=compress", "coding=gzip,br,zstd", "coding=gzip,x", "status=206", "type=application/grpc&message=gzip":
    answer = request(stream, [f"GET /mirror?{query} HTTP/1.1", f"Host: {HOST}"])
    check(query, (answer.status, answer.code, shows(repr(answer.fields) + answer.body.decode())), (502, "unscrubbable_answer", []))
    check(f"{query}: what", b"cannot be searched" in answer.body, True)
    stream = stream if answer.field("connection") != "close" else tls(HOST)
    got = h2.answer(h2.send(HOST, f"/mirror?{query}"))
    check(f"{query} h2", (got["status"], dict(got["fields"]).get("x-sandbox-proxy-denial")), (502, "unscrubbable_answer"))
check("and others go on", request(stream, ["GET /mirror HTTP/1.1", f"Host: {HOST}"]).body, TEXT)
"#;
    let output = script(Run::new(), "refused.scrub.allowed.test", code);
    let refused =
        output.audit.iter().filter(|row| row["code"] == "unscrubbable_answer" && row["status"] == 502).count();
    assert_eq!(refused, 10, "{:#?}", output.audit);
    assert!(!Value::from(output.audit).to_string().contains("cAnArY"));
}

fn what_breaks_late_breaks_off() {
    let code = r#"
for coding in "gzip", "deflate", "br", "zstd":
    stream = tls(HOST)
    stream.sendall(f"GET /mirror?coding={coding}&broken=yes HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
    got = read_to_end(stream)
    check(f"{coding}: no end", got.endswith(b"0\r\n\r\n") or b"t ****" in got, False)
    check(f"{coding}: nothing shown", shows(got), [])
    h2 = H2(tls(HOST, ("h2",)))
    answer = h2.answer(h2.send(HOST, f"/mirror?coding={coding}&broken=yes"))
    check(f"{coding} h2", (answer["reset"] is not None, shows(answer["body"])), (True, []))
"#;
    script(Run::new(), "broken.scrub.allowed.test", code);
}

fn requests_ask_for_nothing_that_cannot_be_searched() {
    let host = "asks.scrub.allowed.test";
    let code = r#"
fields = ["Range: bytes=0-5", 'If-Range: "x"', "A-IM: vcdiff", "grpc-accept-encoding: gzip", "Accept-Encoding: compress, gzip;q=0.5, br",
    "Accept-Encoding: dcb, *;q=0.1"]
answer = request(tls(HOST), ["GET /echo?1 HTTP/1.1", f"Host: {HOST}", *fields])
check("200", answer.status, 200)
h2 = H2(tls(HOST, ("h2",)))
check("h2", h2.answer(h2.send(HOST, "/echo?2", fields=[("range", "bytes=0-5"), ("accept-encoding", "compress")]))["status"], 200)
check("h2", h2.answer(h2.send(HOST, "/echo?3"))["status"], 200)
"#;
    script(Run::new(), host, code);
    let seen = internet().web.requests(host);
    let gone = ["range", "if-range", "a-im", "grpc-accept-encoding"];
    assert!(seen.iter().all(|request| gone.iter().all(|name| request.header(name).is_empty())), "{seen:#?}");
    let offers: Vec<_> = seen.iter().map(|request| request.header("accept-encoding").concat()).collect();
    assert_eq!(offers, ["gzip;q=0.5, br", "identity", ""]);
}

const WEBSOCKET: &str = r#"
def opened(*fields):
    stream = tls(HOST)
    answer = request(stream, [f"GET {PATH} HTTP/1.1", f"Host: {HOST}", "Connection: Upgrade", "Upgrade: websocket",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *fields])
    return stream, answer
def frame(first, payload):
    head = bytes([first, 128 | len(payload)]) if len(payload) < 126 else bytes([first, 254]) + len(payload).to_bytes(2, "big")
    return head + bytes(4) + payload
def read_frame(stream):
    first, length = read_exactly(stream, 2)
    length = int.from_bytes(read_exactly(stream, 2), "big") if length == 126 else length
    return first, read_exactly(stream, length)
"#;

/// The sandbox knows the key here, as no sandbox does, and has it echoed.
fn a_websocket_shows_nothing_and_never_waits() {
    let code = r#"
PATH = "/ws"
stream, answer = opened("Sec-WebSocket-Extensions: permessage-deflate")
check("101", (answer.status, answer.field("sec-websocket-accept"), answer.field("sec-websocket-extensions")), (101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", None))
# Each is waited for, and ends in what may begin the key.
for text in "hello", KEY, f"a {KEY} b {percent} {user}", KEY[:7], KEY[7:], "-" * 200 + KEY + KEY[:3], "":
    for opcode in 0x81, 0x82:
        stream.sendall(frame(opcode, text.encode()))
        check(text, read_frame(stream), (opcode, masked(text).encode()))
# One message in three frames with a ping between them.
parts = [(0x01, KEY[:4]), (0x89, KEY), (0x00, KEY[4:9]), (0x80, KEY[9:] + "!")]
for opcode, text in parts:
    stream.sendall(frame(opcode, text.encode()))
check("in frames", [read_frame(stream) for _ in parts], [(0x01, b"*" * 4), (0x89, b"*" * len(KEY)), (0x00, b"*" * 5), (0x80, b"*" * (len(KEY) - 9) + b"!")])
stream.sendall(frame(0x88, b"\x03\xe8" + KEY.encode()))
check("close", read_frame(stream), (0x88, b"\x03\xe8" + b"*" * len(KEY)))
check("the end", read_to_end(stream), b"")
"#;
    let host = "ws.scrub.allowed.test";
    script(Run::new(), host, &format!("{WEBSOCKET}{code}"));
    let seen = internet().web.requests(host);
    assert!(seen.iter().all(|request| request.header("sec-websocket-extensions").is_empty()), "{seen:#?}");
}

/// An upstream that compresses messages unasked, one that masks them, and one that sends what is no frame.
fn an_extension_of_websocket_is_refused() {
    let code = r#"
PATH = "/"
stream, answer = opened()
check("an extension", (answer.status, answer.code), (502, "unscrubbable_answer"))
"#;
    let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    let upstream = |host: &str, address: &str, more: &str, frames: &[u8]| {
        internet().dns.set(host, &[address]);
        let answer = [head.as_bytes(), more.as_bytes(), b"\r\n", frames].concat();
        RawTls::start(&format!("{address}:443"), vec![Step::ReadHead, Step::Send(answer), Step::Drain])
    };
    let extension = "Sec-WebSocket-Extensions: permessage-deflate\r\n";
    let _compressing = upstream("extension.scrub.allowed.test", "11.22.44.181", extension, b"");
    script(Run::new(), "extension.scrub.allowed.test", &format!("{WEBSOCKET}{code}"));
    let code = r#"
PATH = "/"
stream, answer = opened()
check("101, and nothing of what follows", (answer.status, read_to_end(stream)), (101, b""))
"#;
    for (host, address, frames) in [
        ("bits.scrub.allowed.test", "11.22.44.182", &[0xc1, 1, 0x4a][..]),
        ("masking.scrub.allowed.test", "11.22.44.183", &[0x81, 0x81, 0, 0, 0, 0, 0x4a]),
    ] {
        let _upstream = upstream(host, address, "", frames);
        script(Run::new(), host, &format!("{WEBSOCKET}{code}"));
    }
}

fn grpc_messages_are_masked_and_keep_their_lengths() {
    let code = r#"
def message(text):
    return b"\0" + len(text).to_bytes(4, "big") + text.encode()
WANTED = message(masked(f"\n\x0e{KEY} and {KEY[:4]}")) + message(masked(KEY))
for cut in 1, 4, 1000:
    h2 = H2(tls(HOST, ("h2",)))
    got = h2.answer(h2.send(HOST, f"/mirror?type=application/grpc&cut={cut}", "POST", [("te", "trailers"), ("content-type", "application/grpc")], b""))
    check(f"cut {cut}", got["body"], WANTED)
    check("trailers", dict(got["trailers"]), {"grpc-status": "0", "x-trailer": masked(f"t {KEY}")})
"#;
    script(Run::new(), "grpc.scrub.allowed.test", code);
}

/// An answer that began before a renewal does not show the value that came with it, nor the one before it.
fn a_renewed_value_is_masked_in_what_is_under_way() {
    let host = "renewed.scrub.allowed.test";
    let code = r#"
HOST = "renewed.scrub.allowed.test"
ONE, TWO = (f"canary-of-renewal-{number}" for number in (1, 2))
stream = tls(HOST)
stream.sendall(f"GET /mirror-events?id={HOST} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
read_head(stream)
def shown(text):
    with tls(HOST) as other:
        head = [f"POST /send?id={HOST} HTTP/1.1", f"Host: {HOST}", f"Content-Length: {len(text)}"]
        check("sent", request(other, head, text.encode()).status, 204)
    got = read_exactly(stream, chunk_size(stream))
    read_exactly(stream, 2)
    return got.decode()
stars = "*" * len(ONE)
check("before", shown(f"{ONE} {TWO}\n"), f"{stars} {TWO}\n")
check("refused", request(tls(HOST), ["GET /status/401 HTTP/1.1", f"Host: {HOST}"]).status, 401)
for _ in range(500):
    if shown(f"{TWO}\n") == f"{stars}\n":
        break
check("after", shown(f"{ONE} {TWO}\n"), f"{stars} {stars}\n")
"#;
    let run = Run::new().allow(host).bind(&format!("{host} X-Key: {{KEY}}"));
    let issuer = run.outside().join("issuer");
    std::fs::create_dir_all(&issuer).unwrap();
    let asked = issuer.join("asked").display().to_string();
    let print = format!("echo x >> {asked}; printf canary-of-renewal-%s $(wc -l < {asked})");
    let run = run.arg("--secret").arg(&format!("KEY=command:sh -c '{print}'"));
    run.wire(code).run().expect_code(0);
}

/// A host that answers with the type and the beginning that it is asked for would else have a message end in the middle of a value.
fn borders_of_the_sandboxs_choice_cut_no_value() {
    let code = r#"
stream = tls(HOST)
for kind in "application/grpc", "application/grpc-web+proto", "application/connect+json":
    for length in range(60):
        before = bytes([0, 0, 0, 0, length])
        path = f"/mirror?type={kind}&before={before.hex()}&cut=7"
        answer = request(stream, [f"GET {path} HTTP/1.1", f"Host: {HOST}"])
        check(f"{kind} {length}", answer.body, before + TEXT)
"#;
    script(Run::new(), "borders.scrub.allowed.test", code);
}

/// Byte for byte: its codings, parts and extensions are its own affair.
fn hosts_without_a_binding_are_left_alone() {
    let host = "alone.scrub.allowed.test";
    let code = r#"
import gzip
HOST = "alone.scrub.allowed.test"
fields = ["Range: bytes=0-5", 'If-Range: "x"', "Accept-Encoding: compress, *;q=0.1", "grpc-accept-encoding: gzip", f"X-Key: {KEY}"]
answer = request(tls(HOST), ["GET /mirror?coding=gzip&cut=9&status=206 HTTP/1.1", f"Host: {HOST}", *fields])
check("its head", (answer.status, answer.field("content-encoding"), answer.field("etag"), answer.field("accept-ranges"), answer.field("x-key-is")),
    (206, "gzip", '"mirror"', "bytes", f"<{KEY}>"))
check("its body", gzip.decompress(answer.body).startswith(f"raw {KEY} twice".encode()), True)
"#;
    script(Run::new().allow(host), "bound.scrub.allowed.test", code);
    let seen = internet().web.requests(host);
    let sent =
        ["range", "if-range", "accept-encoding", "grpc-accept-encoding"].map(|name| seen[0].header(name).concat());
    assert_eq!(sent, ["bytes=0-5", "\"x\"", "compress, *;q=0.1", "gzip"]);
}

const EXCEPTED: &str = r#"
[[header_bindings]]
host = "HOST"
header = "X-Key"
secret_name = "KEY"
scrub = false
"#;

fn a_binding_may_be_excepted() {
    let host = "excepted.scrub.allowed.test";
    let policy = EXCEPTED.replace("HOST", host) + "[secrets.KEY]\nenv = \"KEY\"\n";
    let code = format!(
        "answer = request(tls({host:?}), ['GET /mirror?coding=gzip HTTP/1.1', 'Host: {host}', 'Range: bytes=0-5'])\n\
         check('shown', (answer.field('x-key-is'), answer.field('content-encoding')), ('<{KEY}>', 'gzip'))"
    );
    let run = Run::new().allow(host).env("KEY", KEY).file("p.toml", &policy).arg("--policy").arg("p.toml");
    let output = run.wire(&code).run();
    output.expect_code(0);
    output.expect_stderr("responses of excepted.scrub.allowed.test are not searched for the secret KEY");
    assert_eq!(internet().web.requests(host)[0].header("range"), ["bytes=0-5"]);
}

fn bindings_of_one_secret_agree() {
    let policy = EXCEPTED.replace("HOST", "agree.test") + "[secrets.KEY]\nenv = \"KEY\"\n";
    let run = Run::new().env("KEY", KEY).file("p.toml", &policy).arg("--policy").arg("p.toml");
    refuses(run.bind("agree.test Authorization: {KEY}"), &["write scrub = false in both or in neither"]);
}
