//! Clients at fault: what no proxy may pass on, and what it must bear.

use std::collections::BTreeSet;

use crate::cases;
use crate::internet::internet;
use crate::sandbox::Run;

cases![
    malformed_heads_are_refused_and_recorded,
    echoing_methods_are_refused,
    oversized_heads_are_refused,
    http2_is_held_to_its_rules,
];

fn malformed_heads_are_refused_and_recorded() {
    let script = r#"
HOST = "malformed.allowed.test"
BEHIND = f"GET /behind HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
HEADS = {
    "length and chunked": "POST / HTTP/1.1|Host: @|Content-Length: 5|Transfer-Encoding: chunked",
    "chunked and length": "POST / HTTP/1.1|Host: @|Transfer-Encoding: chunked|Content-Length: 5",
    "two lengths": "POST / HTTP/1.1|Host: @|Content-Length: 5|Content-Length: 6",
    "the same twice": "POST / HTTP/1.1|Host: @|Content-Length: 5|Content-Length: 5",
    "a list": "POST / HTTP/1.1|Host: @|Content-Length: 5, 5",
    "plus": "POST / HTTP/1.1|Host: @|Content-Length: +5",
    "minus": "POST / HTTP/1.1|Host: @|Content-Length: -1",
    "hex": "POST / HTTP/1.1|Host: @|Content-Length: 0x5",
    "huge": "POST / HTTP/1.1|Host: @|Content-Length: 18446744073709551616",
    "empty": "POST / HTTP/1.1|Host: @|Content-Length:",
    "xchunked": "POST / HTTP/1.1|Host: @|Transfer-Encoding: xchunked",
    "chunked, identity": "POST / HTTP/1.1|Host: @|Transfer-Encoding: chunked, identity",
    "identity, chunked": "POST / HTTP/1.1|Host: @|Transfer-Encoding: identity, chunked",
    "gzip, chunked": "POST / HTTP/1.1|Host: @|Transfer-Encoding: gzip, chunked",
    "chunked twice": "POST / HTTP/1.1|Host: @|Transfer-Encoding: chunked|Transfer-Encoding: chunked",
    "vertical tab": "POST / HTTP/1.1|Host: @|Transfer-Encoding: \x0bchunked",
    "chunked in 1.0": "POST / HTTP/1.0|Host: @|Transfer-Encoding: chunked",
    "space before colon": "POST / HTTP/1.1|Host: @|Transfer-Encoding : chunked",
    "two hosts": "GET / HTTP/1.1|Host: @|Host: evil.test",
    "the same host twice": "GET / HTTP/1.1|Host: @|Host: @",
    "no host": "GET / HTTP/1.1|X: 1",
    "a host that is none": "GET / HTTP/1.1|Host: a b",
    "folded": "GET / HTTP/1.1|Host: @|X: a| b",
    "folded at first": "GET / HTTP/1.1| Host: evil.test|Host: @",
    "bare CR": "GET / HTTP/1.1|Host: @|X: a\rb",
    "bare LF": "GET / HTTP/1.1|Host: @\nX: b",
    "NUL": "GET / HTTP/1.1|Host: @|X: a\0b",
    "no colon": "GET / HTTP/1.1|Host: @|X",
    "no name": "GET / HTTP/1.1|Host: @|: x",
    "a name that is none": "GET / HTTP/1.1|Host: @|X(Y): x",
    "three words too many": "GET / / / HTTP/1.1|Host: @",
    "no version": "GET /|Host: @",
    "another version": "GET / HTTP/3.0|Host: @",
    "a space in the target": "GET /a b HTTP/1.1|Host: @",
    "CONNECT": "CONNECT @:443 HTTP/1.1|Host: @:443",
    "TRACE": "TRACE / HTTP/1.1|Host: @",
    "the guard's own word": "X-MALFORMED /x HTTP/1.1|Host: @",
}
for what, text in HEADS.items():
    for via in tcp, connect:
        def ask():
            head = text.replace("@", HOST).replace("|", "\r\n")
            stream = tls(HOST, via=via)
            ends = what not in ("no host", "a host that is none", "TRACE", "the guard's own word")
            stream.sendall(head.encode("latin-1") + b"\r\n\r\n" + (BEHIND if ends else b""))
            answer = Answer(stream)
            check(f"{what} by {via.__name__}", (answer.status, answer.code), (400, "malformed_request"))
            if ends:
                check(f"{what}: then the end", read_to_end(stream), b"")
        attempt(what, ask)
def at_the_proxy():
    for what in "two hosts", "bare CR", "chunked and length", "folded":
        stream = tcp(*PROXY)
        text = HEADS[what].replace("/ ", f"https://{HOST}/ ", 1).replace("@", HOST).replace("|", "\r\n")
        stream.sendall(text.encode("latin-1") + b"\r\n\r\n")
        answer = Answer(stream)
        check(f"{what} at the proxy", (answer.status, answer.code, read_to_end(stream)), (400, "malformed_request", b""))
attempt("at the proxy", at_the_proxy)
def bad_chunks():
    for chunk in b"5\nhello", b"0x5\r\nhello", b"+5\r\nhello", b"2;a\nb\r\nxx", b"fffffffffffffffff\r\n", b"5 x\r\nhello", b"\r\n":
        stream = tls(HOST)
        stream.sendall(f"POST /chunks HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        stream.sendall(chunk + b"\r\n0\r\n\r\n" + BEHIND)
        got = read_to_end(stream)
        check(f"chunk {chunk}", got, lambda got: b" 200 " not in got)
attempt("bad chunks", bad_chunks)
"#;
    let output = Run::new().allow("malformed.allowed.test").wire(script).run();
    output.expect_code(0);
    let seen = internet().web.requests("malformed.allowed.test");
    assert!(seen.iter().all(|seen| seen.target == "/chunks"), "{seen:#?}");
    let rows = output.audit.iter().filter(|row| row["code"] == "malformed_request").count();
    assert!(rows >= 74, "a row for each malformed head, not {rows}");
    let reasons: BTreeSet<&str> = output.audit.iter().filter_map(|row| row["reason"].as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("content length with transfer encoding")), "{reasons:#?}");
}

/// TRACE and the TRACK of some servers send a request back as it arrived: with the secret in it.
fn echoing_methods_are_refused() {
    let script = r#"
HOSTS = "echoing.h1.test", "echoing.allowed.test"
for host in HOSTS:
    for method in "TRACE", "trace", "Trace", "TRACK", "track", "tRaCk":
        def captured():
            for via in tcp, connect:
                answer = request(tls(host, via=via), [f"{method} /echo HTTP/1.1", f"Host: {host}"])
                check(f"{method} by {via.__name__}", (answer.status, answer.code), (400, "malformed_request"))
                check("the reason", answer.body, lambda body: b"would show what the proxy adds" in body)
        def proxied():
            answer = request(tcp(*PROXY), [f"{method} https://{host}/echo HTTP/1.1", f"Host: {host}"])
            check(f"{method} at the proxy", (answer.status, answer.code), (400, "malformed_request"))
        def over_h2():
            h2 = H2(tls(host, ("h2",)))
            answer = h2.answer(h2.send(host, "/echo", method))
            check(f"{method} over h2", answer["status"], 400)
            check("other streams go on", h2.answer(h2.send(host, "/status/200", "HEAD"))["status"], 200)
        for part in captured, proxied, over_h2:
            attempt(f"{method} {part.__name__} to {host}", part)
"#;
    let run = Run::new().allow("echoing.h1.test").bind("echoing.h1.test X-Api-Key: {KEY}");
    let run = run.allow("echoing.allowed.test").bind("echoing.allowed.test X-Api-Key: {KEY}");
    run.secret_env("KEY", "canary-of-echoing").wire(script).run().expect_code(0);
    for host in ["echoing.h1.test", "echoing.allowed.test"] {
        let seen = internet().web.requests(host);
        assert!(seen.len() == 6 && seen.iter().all(|seen| seen.method == "HEAD"), "{seen:#?}");
    }
}

fn oversized_heads_are_refused() {
    let script = r#"
HOST, TOO_LARGE = "large.allowed.test", (400, "malformed_request")
def large(what, head, wanted):
    for via in tcp, connect:
        stream = tls(HOST, via=via)
        stream.sendall(head)
        answer = Answer(stream)
        check(f"{what} by {via.__name__}", (answer.status, answer.code), wanted)
        if answer.status != 200:
            check(f"{what}: then the end", read_to_end(stream), b"")
line = f"GET / HTTP/1.1\r\nHost: {HOST}\r\n".encode()
attempt("60 KB", lambda: large("60 KB", line + b"Cookie: " + b"x" * 60000 + b"\r\n\r\n", (200, None)))
attempt("1 MB", lambda: large("1 MB", line + b"X: " + b"x" * 1000000 + b"\r\n\r\n", TOO_LARGE))
attempt("5000", lambda: large("5000", line + b"X: 1\r\n" * 5000 + b"\r\n", TOO_LARGE))
attempt("target", lambda: large("a target of 100 KB", b"GET /" + b"x" * 100000 + line[5:] + b"\r\n", TOO_LARGE))
def refused(fields):
    h2 = H2(tls(HOST, ("h2",)))
    try:
        answer = h2.answer(h2.send(HOST, fields=fields))
    except OSError:
        # The connection may be ended while the head is still being written.
        return True
    return answer["status"] in (400, 431) or answer["reset"] is not None or h2.gone
def h2():
    check("300 KB over h2", refused([(f"x-{i}", "x" * 20000) for i in range(15)]), True)
    check("5000 over h2", refused([(f"x-{i}", "1") for i in range(5000)]), True)
    h2 = H2(tls(HOST, ("h2",)))
    check("40 KB over h2", h2.answer(h2.send(HOST, fields=[("cookie", "x" * 40000)]))["status"], 200)
attempt("h2", h2)
"#;
    Run::new().allow("large.allowed.test").wire(script).run().expect_code(0);
    assert_eq!(internet().web.requests("large.allowed.test").len(), 3);
}

fn http2_is_held_to_its_rules() {
    let script = r#"
NAMES = "rules.allowed.test", "rules.h1.test"
def fine(answer, h2):
    return answer["status"] in (400, 403, 421) or answer["reset"] is not None or h2.gone
for host in NAMES:
    base = [(":method", "GET"), (":scheme", "https"), (":authority", host), (":path", "/bad")]
    def changed(**pseudo):
        return [(name, pseudo.get(name[1:], value)) for name, value in base]
    TABLE = {
        "another authority": (changed(authority="evil.test"), []),
        "another port": (changed(authority=f"{host}:8443"), []),
        "host differs": (base, [("host", "evil.test")]),
        "no authority at all": ([base[0], base[1], base[3]], []),
        "two authorities": (base + [(":authority", "evil.test")], []),
        "another scheme": (changed(scheme="http"), []),
        "connection": (base, [("connection", "x")]),
        "keep-alive": (base, [("keep-alive", "x")]),
        "transfer-encoding": (base, [("transfer-encoding", "chunked")]),
        "upgrade": (base, [("upgrade", "websocket")]),
        "te": (base, [("te", "gzip")]),
        "upper case": (base, [("X-Upper", "1")]),
        "CRLF in a value": (base, [("x", "a\r\nX-Evil: 1")]),
        "LF in a value": (base, [("x", "a\nb")]),
        "NUL in a value": (base, [("x", "a\0b")]),
        "colon in a name": (base, [("x:y", "1")]),
        "space in a name": (base, [("x y", "1")]),
        "an empty name": (base, [("", "1")]),
        "CRLF in the path": (changed(path="/a HTTP/1.1\r\nX-Evil: 1\r\n\r\n"), []),
        "space in the path": (changed(path="/a b"), []),
        "no path": (changed(path=""), []),
        "no method": (base[1:], []),
        "CRLF in the method": (changed(method="GET /x HTTP/1.1\r\nA:"), []),
        "an unknown pseudo field": (base + [(":protocol2", "x")], []),
        "a pseudo field behind": (base[:3], [("x", "1"), base[3]]),
        "response pseudo field": (base + [(":status", "200")], []),
        "an absolute path": (changed(path="https://evil.test/x"), []),
    }
    for what, (pseudo, fields) in TABLE.items():
        def ask():
            h2 = H2(tls(host, ("h2",)), strict=False)
            answer = h2.answer(h2.send(host, pseudo=pseudo, fields=fields))
            check(f"{what} to {host}: {answer}", fine(answer, h2), True)
        attempt(f"{what} to {host}", ask)
    def length():
        h2 = H2(tls(host, ("h2",)), strict=False)
        for length, body in ("3", b"hello"), ("9", b"hello"):
            stream = h2.send(host, "/length", "POST", [("content-length", length)], body)
            check(f"content-length {length}", fine(h2.answer(stream), h2), True)
            if h2.gone:
                h2 = H2(tls(host, ("h2",)), strict=False)
    attempt("length", length)
    def others():
        h2 = H2(tls(host, ("h2",)), strict=False)
        bad = h2.send(host, pseudo=changed(authority="evil.test"))
        good = h2.send(host, "/good")
        check("the misdirected one", h2.answer(bad)["status"], 421)
        check("other streams go on", h2.answer(good)["status"], 200)
    attempt("others", others)
"#;
    let output = Run::new().allow("rules.allowed.test").allow("rules.h1.test").wire(script).run();
    output.expect_code(0);
    for name in ["rules.allowed.test", "rules.h1.test", "evil.test"] {
        for seen in internet().web.requests(name) {
            assert!(["/good", "/length"].contains(&seen.target.as_str()), "{seen:#?}");
            assert!(seen.count("evil") == 0 && seen.count("Evil") == 0, "{seen:#?}");
        }
    }
}
