//! What lies inside something else: CONNECT, upgrades, absolute targets, requests behind requests.

use crate::cases;
use crate::internet::internet;
use crate::internet::rawtls::{RawTls, Step};
use crate::sandbox::Run;

cases![
    websockets_pass_unaltered,
    a_change_of_protocol_needs_both_sides,
    a_granted_connect_is_answered_to_the_byte,
    what_a_connect_asks_for_is_one_thing,
    what_is_inside_a_connect_is_judged,
    a_proxy_connection_may_change_its_authority,
    an_absolute_target_agrees_with_its_connection,
    a_target_at_the_proxy_names_its_scheme,
    pipelined_requests_are_judged_one_by_one,
    the_body_of_a_refused_request_is_no_request,
];

fn websockets_pass_unaltered() {
    internet().dns.set("greets.test", &["11.22.44.111"]);
    let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    let greeting = format!("{switching}Sec-WebSocket-Accept: unlikely\r\n\r\n");
    let greeting = [greeting.as_bytes(), b"\x81\x05hello"].concat();
    let greets = RawTls::start("11.22.44.111:443", vec![Step::ReadHead, Step::Send(greeting), Step::Drain]);
    let script = r#"
import os
def shake(host, *more):
    stream = tls(host)
    head = ["GET /ws HTTP/1.1", f"Host: {host}", "Connection: keep-alive, Upgrade", "Upgrade: websocket",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *more]
    return stream, request(stream, head)
def echo():
    stream, answer = shake("both.allowed.test", "Sec-WebSocket-Protocol: chat.v2, chat.v1")
    check("switched", (answer.status, answer.field("upgrade").lower()), (101, "websocket"))
    check("accepted", answer.field("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    check("subprotocol", answer.field("sec-websocket-protocol"), "chat.v2, chat.v1")
    for payload in b"hi", os.urandom(70000), os.urandom(262144):
        length = bytes([128 | len(payload)]) if len(payload) < 126 else b"\xff" + len(payload).to_bytes(8, "big")
        stream.sendall(b"\x82" + length + bytes(4) + payload)
        size = read_exactly(stream, 2)[1]
        size = int.from_bytes(read_exactly(stream, 8), "big") if size == 127 else size
        check(f"a frame of {len(payload)}", read_exactly(stream, size) == payload, True)
    stream.sendall(b"\x88\x80\0\0\0\0")
    check("both sides close", read_to_end(stream), b"\x88\0")
def greeted():
    stream, answer = shake("greets.test")
    check("an accept is not mended", answer.field("sec-websocket-accept"), "unlikely")
    check("a frame with the 101", read_exactly(stream, 7), b"\x81\5hello")
    stream.sendall(b"GET / is no request here\r\n\r\n")
attempt("echo", echo)
attempt("greeted", greeted)
"#;
    let run = Run::new().allow("both.allowed.test").allow("greets.test").bind("greets.test Authorization: Bearer {WS}");
    run.secret_env("WS", "canary-ws").wire(script).run().expect_code(0);
    let seen = String::from_utf8_lossy(&greets.seen()[0]).into_owned();
    assert!(seen.contains("Bearer canary-ws") && seen.ends_with("GET / is no request here\r\n\r\n"), "{seen}");
}

fn a_change_of_protocol_needs_both_sides() {
    let answer = |text: &str| vec![Step::ReadHead, Step::Send(text.replace('\n', "\r\n").into()), Step::Drain];
    let table = [
        ("200.up.test", "11.22.44.112", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"),
        ("426.up.test", "11.22.44.113", "HTTP/1.1 426 Upgrade Required\nUpgrade: websocket\nContent-Length: 0\n\n"),
        ("101.up.test", "11.22.44.114", "HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: foo\n\n"),
    ];
    let mut run = Run::new();
    let upstreams = table.map(|(name, address, text)| {
        internet().dns.set(name, &[address]);
        RawTls::start(&format!("{address}:443"), answer(text))
    });
    for (name, ..) in table {
        run = run.allow(name);
    }
    let script = r#"
def first_of_two(host, *fields):
    stream = tls(host)
    head = ["GET /first HTTP/1.1", f"Host: {host}", *fields]
    behind = b"DELETE /second HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n"
    return stream, request(stream, head, behind)
def behind_200():
    for protocol in "websocket", "foo":
        stream, answer = first_of_two("200.up.test", "Connection: Upgrade", f"Upgrade: {protocol}")
        check("no change", answer.status, 200)
        answer = Answer(stream)
        check("what follows is judged", (answer.status, answer.code), (421, "misdirected"))
def behind_426():
    stream, answer = first_of_two("426.up.test", "Connection: Upgrade", "Upgrade: websocket")
    check("refused upgrade", (answer.status, answer.field("upgrade")), (426, None))
    check("what follows is judged", Answer(stream).status, 421)
def unasked():
    for fields in (), ("Connection: Upgrade", "Upgrade: foo"), ("Connection: Upgrade", "Upgrade: websocket"):
        stream, answer = first_of_two("101.up.test", *fields)
        check(f"101 after {fields}", (answer.status, answer.code), (502, "upstream_bad_answer"))
for part in behind_200, behind_426, unasked:
    attempt(part.__name__, part)
"#;
    run.wire(script).run().expect_code(0);
    for upstream in upstreams {
        let seen = upstream.seen().concat();
        let seen = String::from_utf8_lossy(&seen);
        assert!(!seen.contains("second") && !seen.contains("foo"), "{seen}");
    }
}

fn a_granted_connect_is_answered_to_the_byte() {
    let script = r#"
def early(host):
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context().wrap_bio(into, out, server_hostname=host)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        return session, into, out.read()
def granted():
    session, into, hello = early("both.allowed.test")
    raw = tcp(*PROXY)
    raw.sendall(b"CONNECT both.allowed.test:443 HTTP/1.1\r\nHost: both.allowed.test:443\r\n\r\n" + hello)
    head = read_head(raw).split(b"\r\n")
    check("status line", head[0], b"HTTP/1.1 200 Connection established")
    names = {line.split(b":")[0].lower() for line in head[1:-2]}
    check("no framing, nothing else", names - {b"date"}, set())
    check("TLS goes on with the early bytes", raw.recv(3)[:2], b"\x16\x03")
def denied():
    session, into, hello = early("evil.test")
    raw = tcp(*PROXY)
    raw.sendall(b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n" + hello)
    answer = Answer(raw)
    check("denied", (answer.status, answer.code, answer.field("connection")), (403, "host_not_listed", "close"))
    check("the reason", answer.reason, lambda reason: reason.startswith("host_not_listed: ") and "evil.test" in reason)
    check("nothing behind it", read_to_end(raw), b"")
def http10():
    raw = tcp(*PROXY)
    raw.sendall(b"CONNECT both.allowed.test:443 HTTP/1.0\r\n\r\n")
    check("an old client", read_head(raw), lambda head: head.split(b" ")[1] == b"200" and b"ength" not in head)
def odd():
    for target in "both.allowed.test", "both.allowed.test:", ":443", "both.allowed.test:0", "both.allowed.test:99999", \
            "a@both.allowed.test:443", "both.allowed.test:443/x", "/":
        raw = tcp(*PROXY)
        raw.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: both.allowed.test\r\n\r\n".encode())
        check(f"CONNECT {target}", Answer(raw).status, lambda status: status in (400, 403))
for part in granted, denied, http10, odd:
    attempt(part.__name__, part)
"#;
    let output = Run::new().allow("both.allowed.test").wire(script).run();
    output.expect_code(0);
    let denied = output.audit.iter().find(|row| row["authority"] == "evil.test").unwrap();
    assert!(denied["method"] == "CONNECT" && denied["status"] == 403 && denied["capture"] == "connect", "{denied}");
}

/// A client that checks Host, and a proxy that dials the target, must not be told two things.
fn what_a_connect_asks_for_is_one_thing() {
    let script = r#"
target = "one.connect.allowed.test:443"
def ask(*hosts):
    raw = tcp(*PROXY)
    raw.sendall("\r\n".join([f"CONNECT {target} HTTP/1.1", *[f"Host: {host}" for host in hosts]]).encode() + b"\r\n\r\n")
    head = read_head(raw)
    code = [line.split(b": ")[1].decode() for line in head.split(b"\r\n") if line.startswith(b"x-sandbox-proxy-denial")]
    return int(head.split()[1]), *code, read_to_end(raw) if code else b""
for host in "one.connect.allowed.test", target, "ONE.connect.allowed.test:443", "one.connect.allowed.test.:443":
    check(f"Host: {host}", ask(host)[0], 200)
for host in "two.connect.allowed.test:443", "two.connect.allowed.test", "blocked.test:443", "11.22.33.9:443", "",\
        "one.connect.allowed.test:8443", "one.connect.allowed.test:80", "a b", "one.connect.allowed.test:443/x":
    got = ask(host)
    check(f"Host: {host}", got[:2], (421, "misdirected"))
    check(f"Host: {host} and its answer", got[2], lambda body: b"this connection is for one.connect.allowed.test" in body)
check("two of them", ask(target, "two.connect.allowed.test:443")[:2], (400, "malformed_request"))
"#;
    let run = Run::new().allow("one.connect.allowed.test").allow("two.connect.allowed.test");
    let output = run.wire(script).run();
    output.expect_code(0);
    let rows = output.audit.iter().filter(|row| row["code"] == "misdirected" && row["method"] == "CONNECT").count();
    assert_eq!(rows, 9, "{:#?}", output.audit);
    for name in ["one.connect.allowed.test", "two.connect.allowed.test", "blocked.test"] {
        assert_eq!(internet().web.connections(name), 0, "{name} was dialled");
    }
}

fn what_is_inside_a_connect_is_judged() {
    let script = r#"
def plain():
    for via in connect, tcp:
        raw = via("both.allowed.test")
        answer = request(raw, ["GET /plain HTTP/1.1", "Host: both.allowed.test:443"])
        check("plain HTTP on 443", (answer.status, answer.code), (403, "https_only"))
        answer = request(raw, ["GET /plain HTTP/1.1", "Host: both.allowed.test"])
        check("whose Host means 80", (answer.status, answer.code), (421, "misdirected"))
    raw = tcp(*PROXY)
    raw.sendall(b"CONNECT both.allowed.test:80 HTTP/1.1\r\nHost: both.allowed.test:80\r\n\r\n")
    check("another port is another destination", Answer(raw).status, 403)
def ssh():
    for via in connect, tcp:
        raw = via("both.allowed.test")
        raw.sendall(b"\0SSH-2.0-x\r\n")
        check("no TLS, no HTTP", read_to_end(raw), b"")
def ssh_like_http():
    for via in connect, tcp:
        raw = via("both.allowed.test")
        raw.sendall(b"SSH-2.0-x\r\n")
        raw.shutdown(socket.SHUT_WR)
        check("an SSH greeting", read_to_end(raw), lambda got: got == b"" or got.startswith(b"HTTP/1.1 400"))
def silent():
    for via in connect, tcp:
        raw = via("both.allowed.test")
        raw.shutdown(socket.SHUT_WR)
        check("nothing", read_to_end(raw), b"")
def nested():
    for target in "both.allowed.test:443", "evil.test:443":
        answer = request(tls("both.allowed.test", via=connect), [f"CONNECT {target} HTTP/1.1", f"Host: {target}"])
        check("CONNECT inside", (answer.status, answer.code), (400, "malformed_request"))
        raw = connect("both.allowed.test")
        answer = request(raw, [f"CONNECT {target} HTTP/1.1", f"Host: {target}"])
        check("CONNECT inside, in clear", answer.status, lambda status: status in (400, 403))
    h2 = H2(tls("both.allowed.test", ("h2",), connect), strict=False)
    stream = h2.send("", pseudo=[(":method", "CONNECT"), (":authority", "both.allowed.test:443")], end=False)
    answer = h2.answer(stream)
    check("CONNECT in h2", answer["status"] == 400 or answer["reset"] is not None, True)
for part in plain, ssh, ssh_like_http, silent, nested:
    attempt(part.__name__, part)
"#;
    let output = Run::new().allow("both.allowed.test").wire(script).run();
    output.expect_code(0);
    assert!(output.audit.iter().all(|row| row["verdict"] == "deny"), "{:#?}", output.audit);
    let not_http = output.audit.iter().filter(|row| row["scheme"] == "tcp").count();
    assert!(not_http >= 2, "a row for each stream that is neither TLS nor HTTP: {:#?}", output.audit);
}

fn a_proxy_connection_may_change_its_authority() {
    let script = r#"
raw = tcp(*PROXY)
def ask(target):
    host = target.split("/")[2]
    return request(raw, [f"GET {target} HTTP/1.1", f"Host: {host}"])
answer = ask("https://first.change.allowed.test/one")
check("the first", (answer.status, b'"************"' in answer.body), (200, True))
answer = ask("https://blocked.test/two")
check("another host", (answer.status, answer.code), (403, "host_not_listed"))
answer = ask("https://second.change.allowed.test/three")
check("a second credential", (answer.status, b'"*************"' in answer.body), (200, True))
answer = ask("http://first.change.allowed.test/four")
check("in clear", (answer.status, answer.code), (403, "https_only"))
answer = request(raw, ["GET https://first.change.allowed.test/five HTTP/1.1", "Host: second.change.allowed.test"])
check("Host disagrees", (answer.status, answer.code), (421, "misdirected"))
answer = request(raw, ["CONNECT blocked.test:443 HTTP/1.1", "Host: blocked.test:443"])
check("then CONNECT", (answer.status, answer.code), (403, "host_not_listed"))
"#;
    let output = Run::new()
        .bind("first.change.allowed.test X-Key: {FIRST}")
        .bind("second.change.allowed.test X-Key: {SECOND}")
        .allow("first.change.allowed.test")
        .allow("second.change.allowed.test")
        .secret_env("FIRST", "canary-first")
        .secret_env("SECOND", "canary-second")
        .wire(script)
        .run();
    output.expect_code(0);
    for (name, key) in [("first", "canary-first"), ("second", "canary-second")] {
        let seen = internet().web.requests(&format!("{name}.change.allowed.test"));
        assert!(seen.iter().all(|seen| seen.header("x-key") == [key] && seen.count("canary-") == 1), "{seen:#?}");
    }
    let targets = |name: &str| internet().web.requests(name).iter().map(|seen| seen.target.clone()).collect::<Vec<_>>();
    assert_eq!(targets("first.change.allowed.test"), ["/one"]);
    assert_eq!(targets("second.change.allowed.test"), ["/three"]);
    assert!(targets("blocked.test").is_empty());
}

fn an_absolute_target_agrees_with_its_connection() {
    let script = r#"
host = "both.allowed.test"
for via in tcp, connect:
    for target, header, wanted in (
        (f"https://{host}/right", host, 200), (f"https://{host}:443/right", f"{host}:443", 200),
        (f"https://evil.test/x", host, 421), (f"https://{host}/x", "evil.test", 421), (f"http://{host}/x", host, 421),
        (f"http://evil.test/x", "evil.test", 421), (f"https://{host}:8443/x", host, 421), ("/x", f"{host}:8443", 421),
        ("/x", "evil.test", 421), ("/x", "", 400), ("*", host, 400), (f"ftp://{host}/x", host, 421),
    ):
        def ask():
            with tls(host, via=via) as stream:
                answer = request(stream, [f"GET {target} HTTP/1.1", f"Host: {header}"])
                check(f"{via.__name__} {target} with Host {header}", answer.status, wanted)
        attempt(f"{target} {header}", ask)
"#;
    Run::new().allow("both.allowed.test").wire(script).run().expect_code(0);
    assert!(internet().web.requests("evil.test").is_empty());
}

fn a_target_at_the_proxy_names_its_scheme() {
    let script = r#"
host = "scheme.allowed.test"
def ask(target, *more):
    answer = request(tcp(*PROXY), [f"GET {target} HTTP/1.1", f"Host: {host}", *more])
    check(f"GET {target}", (answer.status, answer.code), (400, "malformed_request"))
    return answer.body
PROXY_ONLY, NO_SCHEME = b"this is a proxy: it takes CONNECT, or a request target with a scheme and a host", b"no scheme"
for target in "/x", "/", "//scheme.allowed.test/x", "*", "/https://scheme.allowed.test/":
    check(f"the reason of {target}", ask(target), lambda body: PROXY_ONLY in body)
check("the reason without a scheme", ask("scheme.allowed.test:443"), lambda body: NO_SCHEME in body)
check("another scheme", ask(f"ftp://{host}/x"), lambda body: b"neither http nor https" in body)
for target in "scheme.allowed.test/x", "scheme.allowed.test:443/x", "https:scheme.allowed.test/x", "https:///x", "://x/":
    check(f"a reason for {target}", ask(target), lambda body: b"malformed" in body)
body = ask("/x", "Accept: application/json")
check("in JSON", body, lambda body: body.startswith(b"{") and PROXY_ONLY in body)
"#;
    let output = Run::new().allow("scheme.allowed.test").wire(script).run();
    output.expect_code(0);
    assert_eq!(output.audit.len(), 13, "{:#?}", output.audit);
    assert_eq!(internet().web.connections("scheme.allowed.test"), 0);
}

fn pipelined_requests_are_judged_one_by_one() {
    let script = r#"
host, other = "pipe.allowed.test", "evil.test"
stream = tls(host)
lines = [("GET", "/1", host, b""), ("POST", "/2", host, b"hello"), ("GET", "/3", other, b""), ("GET", "/4", host, b"")]
def text(method, path, name, body):
    return f"{method} {path} HTTP/1.1\r\nHost: {name}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
stream.sendall(b"".join(text(*line) for line in lines[:2]) + b"GET /3 HTTP/1.1\r\nHost: evil.test\r\n\r\n"
    + b"GET /4 HTTP/1.1\r\nHost: pipe.allowed.test\r\n\r\n")
check("answers in their order", [Answer(stream).status for _ in lines], [200, 200, 421, 200])
raw = tcp(*PROXY)
raw.sendall(b"".join(f"GET https://{name}/{i} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()
    for i, name in enumerate([host, other, host])))
check("at the proxy", [Answer(raw).status for _ in range(3)], [200, 403, 200])
"#;
    Run::new().allow("pipe.allowed.test").wire(script).run().expect_code(0);
    let seen = internet().web.requests("pipe.allowed.test");
    assert_eq!(seen.iter().map(|seen| seen.target.as_str()).collect::<Vec<_>>(), ["/1", "/2", "/4", "/0", "/2"]);
    assert!(internet().web.requests("evil.test").is_empty());
}

fn the_body_of_a_refused_request_is_no_request() {
    let script = r#"
host = "unread.allowed.test"
inner = f"GET /smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
def refused(stream, target, name, *more, body=inner):
    stream.sendall(f"POST {target} HTTP/1.1\r\nHost: {name}\r\n".encode() + b"".join(
        line.encode() + b"\r\n" for line in more) + b"\r\n" + body)
    answer = Answer(stream)
    check("refused", answer.status, lambda status: status in (403, 421))
    check("the connection ends", (answer.field("connection"), read_to_end(stream)), ("close", b""))
chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner)
for how in "captured", "proxied":
    make = (lambda: tls(host)) if how == "captured" else (lambda: tcp(*PROXY))
    target = "/x" if how == "captured" else "https://evil.test/x"
    attempt(how, lambda: refused(make(), target, "evil.test", f"Content-Length: {len(inner)}"))
    attempt(how, lambda: refused(make(), target, "evil.test", "Transfer-Encoding: chunked", body=chunked))
    attempt(how, lambda: refused(make(), target, "evil.test", "Content-Length: 100000000"))
"#;
    Run::new().allow("unread.allowed.test").wire(script).run().expect_code(0);
    assert!(internet().web.requests("unread.allowed.test").is_empty());
}
