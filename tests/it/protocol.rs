//! HTTP between a client inside and an upstream outside, in each version on each side.
//!
//! `*.h1.test` speaks HTTP/1.1 only, `*.allowed.test` prefers HTTP/2; the scripts speak either, through the captured
//! port 443 and through CONNECT.

use crate::cases;
use crate::internet::internet;
use crate::internet::rawtls::{RawTls, Step};
use crate::sandbox::Run;

cases![
    every_version_reaches_every_version,
    trailers_and_grpc_statuses_pass,
    events_and_chunks_pass_one_by_one,
    a_body_waits_for_continue,
    an_early_answer_reaches_a_client_that_still_uploads,
    a_half_closed_client_gets_its_answer,
    headers_of_one_hop_stay_on_it,
    connections_to_the_upstream_are_shared,
];

const BOTH: [&str; 2] = ["both.h1.test", "both.allowed.test"];

fn every_version_reaches_every_version() {
    let script = r#"
import json
for host, upstream in ("both.h1.test", "HTTP/1.1"), ("both.allowed.test", "HTTP/2.0"):
    for via in tcp, connect:
        def over_h1():
            with tls(host, via=via) as stream:
                head = ["POST /echo?q=1 HTTP/1.1", f"Host: {host}", "X-Two: a", "X-Two: b", "Content-Length: 5"]
                answer = request(stream, head, b"hello")
                seen = json.loads(answer.body)
                check(f"h1 to {host}", (answer.status, seen["version"], seen["length"]), (200, upstream, 5))
                check(f"h1 to {host}: host and target", (seen["host"], seen["target"]), (host, "/echo?q=1"))
                check("repeated fields", [v for k, v in seen["headers"] if k == "x-two"], ["a", "b"])
                seen = json.loads(request(stream, ["OPTIONS * HTTP/1.1", f"Host: {host}"]).body)
                check("the server as a whole", (seen["method"], seen["target"]), ("OPTIONS", "*"))
                answer = request(stream, ["HEAD /bytes/1000 HTTP/1.1", f"Host: {host}"])
                check("HEAD", (answer.status, answer.body), (200, b""))
                for code in 204, 304:
                    answer = request(stream, [f"GET /status/{code} HTTP/1.1", f"Host: {host}"])
                    check(f"{code}", (answer.status, answer.field("transfer-encoding"), answer.body), (code, None, b""))
                answer = request(stream, ["GET /bytes/1000000 HTTP/1.1", f"Host: {host}"])
                check("a body after those without", len(answer.body), 1000000)
                chunks = b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Late: 1\r\n\r\n"
                head = ["PUT /echo HTTP/1.1", f"Host: {host}", "Transfer-Encoding: chunked", "Trailer: X-Late"]
                seen = json.loads(request(stream, head, chunks).body)
                check("chunks", (seen["length"], seen["trailers"]), (5, [["x-late", "1"]]))
        def over_h2():
            with tls(host, ("h2",), via) as stream:
                check("h2 is agreed", stream.selected_alpn_protocol(), "h2")
                h2 = H2(stream)
                ids = [h2.send(host, f"/echo/{i}", "POST", [("cookie", "a=1"), ("cookie", "b=2")], b"x" * i)
                       for i in range(20)]
                for i, id in enumerate(ids):
                    seen = json.loads(h2.answer(id)["body"])
                    check("h2", (seen["version"], seen["length"], seen["target"]), (upstream, i, f"/echo/{i}"))
                    check("crumbs", [v for k, v in seen["headers"] if k == "cookie"], ["a=1; b=2"])
                answer = h2.answer(h2.send(host, "/bytes/1000", "HEAD"))
                check(f"h2 HEAD {answer}", (answer["status"], answer["body"]), (200, b""))
                for code in 204, 304:
                    answer = h2.answer(h2.send(host, f"/status/{code}"))
                    check(f"h2 {code}", (answer["status"], answer["body"]), (code, b""))
                answer = h2.answer(h2.send(host, "/bytes/3000000"))
                check("past the window", len(answer["body"]), 3000000)
                answer = h2.answer(h2.send(host, "/sink", "POST", body=b"y" * 3000000))
                check("upload past the window", json.loads(answer["body"])["length"], 3000000)
                seen = json.loads(h2.answer(h2.send(host, "/echo", pseudo=[
                    (":method", "GET"), (":scheme", "https"), (":path", "/echo")], fields=[("host", host)]))["body"])
                check("host without :authority", seen["host"], host)
        attempt(f"h1 to {host} by {via.__name__}", over_h1)
        attempt(f"h2 to {host} by {via.__name__}", over_h2)
"#;
    let output = both().wire(script).run();
    output.expect_code(0);
    let rows = output.audit.iter().filter(|row| row["authority"] == "both.h1.test" && row["status"] == 200);
    assert_eq!(rows.filter(|row| row["verdict"] == "permit" && row["path"] == "/sink").count(), 2, "{output:#?}");
    let upload = output.audit.iter().find(|row| row["path"] == "/sink").unwrap();
    assert_eq!(upload["bytes_up"], 3_000_000);
    let download = output.audit.iter().find(|row| row["path"] == "/bytes/3000000").unwrap();
    assert_eq!(download["bytes_down"], 3_000_000);
}

fn trailers_and_grpc_statuses_pass() {
    let script = r#"
import json
for host in "both.h1.test", "both.allowed.test":
    def trailers():
        stream = tls(host)
        answer = request(stream, ["GET /trailers HTTP/1.1", f"Host: {host}", "TE: trailers"])
        check("h1 trailers", (answer.body, answer.trailers), (b"with trailers\n", [("x-checksum", "abc123")]))
        h2 = H2(tls(host, ("h2",)))
        answer = h2.answer(h2.send(host, "/trailers", fields=[("te", "trailers")]))
        check("h2 trailers", (answer["body"], answer["trailers"]), (b"with trailers\n", [("x-checksum", "abc123")]))
    attempt(f"trailers of {host}", trailers)
host = "both.allowed.test"
def grpc():
    h2 = H2(tls(host, ("h2",)))
    fields = [("te", "trailers"), ("content-type", "application/grpc")]
    answer = h2.answer(h2.send(host, "/grpc/0", "POST", fields, b"\0\0\0\0\0"))
    check("a call", (answer["body"], answer["trailers"]), (b"\0\0\0\0\2hi", [("grpc-status", "0")]))
    answer = h2.answer(h2.send(host, "/grpc/5", "POST", fields, b"\0\0\0\0\0"))
    check("trailers only", (dict(answer["fields"]).get("grpc-status"), answer["body"]), ("5", b""))
    seen = json.loads(h2.answer(h2.send(host, "/echo", "POST", fields, b""))["body"])
    check("te", [v for k, v in seen["headers"] if k == "te"], ["trailers"])
    bidi = h2.send(host, "/chat", "POST", fields, end=False)
    for piece in b"one", b"two", b"three":
        h2.data(bidi, piece)
        check("a piece comes back before the next goes", h2.until(bidi, piece), lambda body: body.endswith(piece))
    h2.h2.end_stream(bidi); h2.flush()
    check("the whole talk", h2.answer(bidi)["body"], b"onetwothree")
attempt("grpc", grpc)
"#;
    both().wire(script).run().expect_code(0);
}

fn events_and_chunks_pass_one_by_one() {
    let script = r#"
for host in "both.h1.test", "both.allowed.test":
    def release(id, text):
        with tls(host) as other:
            answer = request(other, [f"POST /send?id={id} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(text)}"], text)
            check("an event is released", answer.status, 204)
    def over_h1():
        stream, id = tls(host), f"h1-{host}"
        stream.sendall(f"GET /sse?id={id} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        check("the head comes before any event", read_head(stream), lambda head: b"text/event-stream" in head)
        for text in b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n":
            release(id, text)
            check("an event", read_exactly(stream, chunk_size(stream)), text)
            read_exactly(stream, 2)
        release(id, b"")
        check("the end", chunk_size(stream), 0)
    def over_h2():
        h2, id = H2(tls(host, ("h2",))), f"h2-{host}"
        stream = h2.send(host, f"/sse?id={id}")
        while h2.answers[stream]["status"] is None:
            h2.step()
        for text in b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n":
            release(id, text)
            check("an event", h2.until(stream, text), lambda body: body.endswith(text))
        release(id, b"")
        check("all events", len(h2.answer(stream)["body"]), 27)
    def upload():
        stream = tls(host)
        stream.sendall(f"POST /chat HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        read_head(stream)
        for piece in b"one", b"two", b"three":
            stream.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            check("a piece comes back", read_exactly(stream, chunk_size(stream)), piece)
            read_exactly(stream, 2)
        stream.sendall(b"0\r\n\r\n")
        check("the end", chunk_size(stream), 0)
    for part in over_h1, over_h2, upload:
        attempt(f"{part.__name__} from {host}", part)
"#;
    both().wire(script).run().expect_code(0);
}

fn a_body_waits_for_continue() {
    let answer = |status: &str| format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok").into_bytes();
    internet().dns.set("agrees.test", &["11.22.44.101"]);
    internet().dns.set("declines.test", &["11.22.44.102"]);
    let proceed = Step::Send(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec());
    let agrees = vec![Step::ReadHead, proceed, Step::Read(5), Step::Send(answer("200 OK")), Step::Drain];
    let agrees = RawTls::start("11.22.44.101:443", agrees);
    let declines = vec![Step::ReadHead, Step::Send(answer("417 Expectation Failed")), Step::Drain];
    let declines = RawTls::start("11.22.44.102:443", declines);
    let script = r#"
def ask(host):
    stream = tls(host)
    stream.sendall(f"POST /up HTTP/1.1\r\nHost: {host}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n".encode())
    return stream, Answer(stream)
for host in "agrees.test", "both.allowed.test", "both.h1.test":
    def agreed():
        stream, first = ask(host)
        check(f"{host} wants the body", first.status, 100)
        stream.sendall(b"hello")
        check(f"{host} has it", Answer(stream).status, 200)
    attempt(host, agreed)
def declined():
    stream, first = ask("declines.test")
    check("a final status instead", (first.status, first.body), (417, b"ok"))
attempt("declined", declined)
"#;
    both().allow("agrees.test").allow("declines.test").wire(script).run().expect_code(0);
    assert!(agrees.seen()[0].ends_with(b"\r\n\r\nhello"));
    assert!(declines.seen()[0].ends_with(b"\r\n\r\n"), "a body went to an upstream that declined it");
}

fn an_early_answer_reaches_a_client_that_still_uploads() {
    internet().dns.set("early.test", &["11.22.44.103"]);
    let large = b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbig\n".to_vec();
    RawTls::start("11.22.44.103:443", vec![Step::ReadHead, Step::Read(1000), Step::Send(large), Step::Drain]);
    let script = r#"
for host, path, wanted in ("both.h1.test", "/early", 401), ("both.allowed.test", "/early", 401), ("early.test", "/", 413):
    def over_h1():
        stream = tls(host)
        stream.sendall(f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 10000000\r\n\r\n".encode())
        stream.sendall(b"x" * 2000)
        check(f"h1 to {host}", Answer(stream).status, wanted)
    def over_h2():
        for length in 2000, 4000000:
            h2 = H2(tls(host, ("h2",)))
            stream = h2.send(host, path, "POST", end=False)
            try:
                h2.data(stream, b"x" * length)
            except h2_errors:
                pass
            while h2.answers[stream]["status"] is None and stream not in h2.ended:
                h2.step()
            check(f"h2 to {host} after {length}", h2.answers[stream]["status"], wanted)
            if path != "/":
                check("other streams go on", h2.answer(h2.send(host, "/echo"))["status"], 200)
    def curl():
        import subprocess
        line = ["curl", "-sS", "--http1.1", "-o", "/dev/null", "-w", "%{http_code}", "-T", "-", f"https://{host}{path}"]
        got = subprocess.run(line, input=b"z" * 4000000, capture_output=True)
        check(f"curl to {host}", (got.stdout, got.stderr), lambda got: got[0] == str(wanted).encode())
    for part in over_h1, over_h2, curl:
        attempt(f"{part.__name__} to {host}", part)
"#;
    both().allow("early.test").wire(script).run().expect_code(0);
}

fn a_half_closed_client_gets_its_answer() {
    let script = r#"
for host in "both.h1.test", "both.allowed.test":
    for via in tcp, connect:
        for word in True, False:
            def half():
                raw, into, out = via(host), ssl.MemoryBIO(), ssl.MemoryBIO()
                session = context().wrap_bio(into, out, server_hostname=host)
                def pump(work):
                    while True:
                        try:
                            done = work()
                            raw.sendall(out.read())
                            return done
                        except ssl.SSLWantReadError:
                            raw.sendall(out.read())
                            into.write(raw.recv(65536))
                pump(session.do_handshake)
                session.write(f"GET /bytes/1000000 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                if word:
                    try:
                        session.unwrap()
                    except ssl.SSLWantReadError:
                        pass
                raw.sendall(out.read())
                raw.shutdown(socket.SHUT_WR)
                got = b""
                while piece := raw.recv(65536):
                    got += piece
                # Behind close_notify Python reads no more, so the sealed bytes are counted.
                check(f"{host} after {'close_notify' if word else 'FIN'}", len(got), lambda n: n > 1000000)
            attempt(f"{host} by {via.__name__}, close_notify {word}", half)
"#;
    both().wire(script).run().expect_code(0);
}

fn headers_of_one_hop_stay_on_it() {
    let script = r#"
import json
for host in "both.h1.test", "both.allowed.test":
    fields = ["Proxy-Authorization: Basic cHJveHk6", "Proxy-Connection: keep-alive", "Keep-Alive: timeout=5",
        "TE: gzip", "X-Internal: s", "Upgrade: h2c", "Connection: x-internal, host, content-length, upgrade"]
    head = ["POST /echo HTTP/1.1", f"Host: {host}", "Content-Length: 2", *fields]
    seen = json.loads(request(tls(host), head, b"hi").body)
    names = {name for name, _ in seen["headers"]} - {"host", "content-length", "date"}
    check(f"what {host} got", (names, seen["host"], seen["length"]), (set(), host, 2))
"#;
    both().wire(script).run().expect_code(0);
}

fn connections_to_the_upstream_are_shared() {
    let hosts = ["shared.h1.test", "shared.allowed.test"];
    let script = r#"
for host in "shared.h1.test", "shared.allowed.test":
    def client():
        with tls(host) as stream:
            for _ in range(10):
                check(host, request(stream, ["GET /status/200 HTTP/1.1", f"Host: {host}"]).status, 200)
    together(*[(host, client)] * 8)
    h2 = H2(tls(host, ("h2",)))
    for id in [h2.send(host, "/status/200") for _ in range(50)]:
        check(f"h2 {host}", h2.answer(id)["status"], 200)
"#;
    Run::new().allow(hosts[0]).allow(hosts[1]).wire(script).run().expect_code(0);
    let web = &internet().web;
    assert_eq!(hosts.map(|host| web.requests(host).len()), [130, 130]);
    assert_eq!(web.connections(hosts[1]), 1, "HTTP/2 requests share one connection");
    assert!(web.connections(hosts[0]) <= 50, "{} connections", web.connections(hosts[0]));
}

fn both() -> Run {
    Run::new().allow(BOTH[0]).allow(BOTH[1])
}
