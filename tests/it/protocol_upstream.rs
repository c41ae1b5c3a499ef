//! Upstreams at fault: what they close, cut, garble or forge, and what a client gets to see of it.

use crate::cases;
use crate::internet::internet;
use crate::internet::pki::{EXPIRED, SELF_SIGNED, UNKNOWN_ROOT, WRONG_NAME};
use crate::internet::rawtls::{RawTls, Step};
use crate::internet::recorder::Recorder;
use crate::rig::fresh_address;
use crate::sandbox::Run;

cases![
    a_stale_connection_costs_no_get_and_repeats_no_post,
    faulty_answers_are_no_answers,
    odd_answers_are_read_as_the_standard_says,
    an_unverified_upstream_gets_nothing,
    an_upstream_that_cannot_be_reached_is_named,
];

/// An upstream of a name of its own that follows a script.
fn upstream(name: &str, address: &str, script: Vec<Step>) -> RawTls {
    internet().dns.set(name, &[address]);
    RawTls::start(&format!("{address}:443"), script)
}

fn text(text: &str) -> Step {
    Step::Send(text.replace('\n', "\r\n").into_bytes())
}

fn allow_all(names: impl Iterator<Item = String>) -> Run {
    names.fold(Run::new(), |run, name| run.allow(&name))
}

fn a_stale_connection_costs_no_get_and_repeats_no_post() {
    let answer = || text("HTTP/1.1 200 OK\nContent-Length: 2\n\nok");
    let first = [Step::ReadHead, answer()];
    let ends: [(&str, &[Step]); 6] = [
        ("fin", &[Step::Fin]),
        ("close", &[Step::Close]),
        ("reset", &[Step::Read(1), Step::Reset]),
        ("fin-on-request", &[Step::ReadHead, Step::Fin]),
        ("reset-on-request", &[Step::ReadHead, Step::Reset]),
        ("reset-while-writing", &[Step::Read(1), Step::Reset]),
    ];
    let upstreams: Vec<(String, RawTls)> = ends
        .into_iter()
        .map(|(end, steps)| {
            let name = format!("{end}.stale.test");
            let started = upstream(&name, &fresh_address(), [&first[..], steps].concat());
            (name, started)
        })
        .collect();
    let script = r#"
import sys
def gets(host):
    stream = tls(host)
    for at in range(6):
        answer = request(stream, [f"GET /{at} HTTP/1.1", f"Host: {host}"])
        check(f"GET {at} of {host}", (answer.status, answer.body), (200, b"ok"))
def post(host):
    stream = tls(host)
    check("first", request(stream, ["GET /first HTTP/1.1", f"Host: {host}"]).status, 200)
    answer = request(stream, ["POST /once HTTP/1.1", f"Host: {host}", "Content-Length: 5"], b"hello")
    check(f"POST to {host}", answer.status, lambda status: status in (200, 502))
    stream = tls(host)
    stream.sendall(f"POST /stream HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n".encode())
    stream.sendall(b"0\r\n\r\n")
    check(f"a streamed POST to {host}", Answer(stream).status, lambda status: status in (200, 502))
for name in sys.argv[1:]:
    attempt(name, lambda: gets(name))
    attempt(name, lambda: post(name))
"#;
    let run = allow_all(upstreams.iter().map(|(name, _)| name.clone())).wire(script);
    upstreams.iter().fold(run, |run, (name, _)| run.word(name)).run().expect_code(0);
    for (name, upstream) in &upstreams {
        let bytes = upstream.seen();
        let count = |part: &str| bytes.iter().filter(|seen| String::from_utf8_lossy(seen).contains(part)).count();
        assert!(count("POST /once") <= 1 && count("POST /stream") <= 1, "{name} got a POST twice");
    }
}

fn faulty_answers_are_no_answers() {
    let large = format!("HTTP/1.1 200 OK\nX-Large: {}\nContent-Length: 2\n\nok", "x".repeat(1_000_000));
    let many = format!("HTTP/1.1 200 OK\n{}Content-Length: 2\n\nok", "X-Many: 1\n".repeat(5000));
    let table: Vec<(&str, String)> = vec![
        ("garbage", "\u{1}\u{2}\u{3} not HTTP at all\n\n".into()),
        ("icy", "ICY 200 OK\nContent-Length: 2\n\nok".into()),
        ("status-99", "HTTP/1.1 099 Low\nContent-Length: 2\n\nok".into()),
        ("two-lengths", "HTTP/1.1 200 OK\nContent-Length: 2\nContent-Length: 3\n\nok".into()),
        ("plus-length", "HTTP/1.1 200 OK\nContent-Length: +2\n\nok".into()),
        ("list-length", "HTTP/1.1 200 OK\nContent-Length: 2, 3\n\nok".into()),
        ("hex-length", "HTTP/1.1 200 OK\nContent-Length: 0x2\n\nok".into()),
        ("folded", "HTTP/1.1 200 OK\nX: a\n b\nContent-Length: 2\n\nok".into()),
        ("space-before-colon", "HTTP/1.1 200 OK\nX : a\nContent-Length : 2\n\nok".into()),
        ("nul", "HTTP/1.1 200 OK\nX: a\0b\nContent-Length: 2\n\nok".into()),
        ("no-colon", "HTTP/1.1 200 OK\nnothing\nContent-Length: 2\n\nok".into()),
        ("large", large),
        ("many", many),
        ("closed", String::new()),
        ("cut-head", "HTTP/1.1 200 OK\nContent-Le".into()),
    ];
    let upstreams: Vec<String> = table
        .iter()
        .map(|(fault, answer)| {
            let name = format!("{fault}.faulty.test");
            upstream(&name, &fresh_address(), vec![Step::ReadHead, text(answer), Step::Close]);
            name
        })
        .collect();
    let script = r#"
import sys
for name in sys.argv[1:]:
    def ask():
        with tls(name) as stream:
            answer = request(stream, ["GET / HTTP/1.1", f"Host: {name}"])
            check(name, (answer.status, answer.code), (502, "upstream_bad_answer"))
        h2 = H2(tls(name, ("h2",)))
        answer = h2.answer(h2.send(name, "/"))
        check(f"h2 {name}", answer["status"], 502)
    attempt(name, ask)
"#;
    let run = allow_all(upstreams.iter().cloned()).wire(script);
    upstreams.iter().fold(run, |run, name| run.word(name)).run().expect_code(0);
}

fn odd_answers_are_read_as_the_standard_says() {
    let head = "HTTP/1.1 200 OK\n";
    let table: Vec<(&str, String, Step)> = vec![
        (
            "chunked-and-length",
            format!("{head}Transfer-Encoding: chunked\nContent-Length: 9\n\n2\nok\n0\n\n"),
            Step::Drain,
        ),
        ("length-then-fin", format!("{head}Content-Length: 2\n\nok"), Step::Fin),
        ("close-delimited", format!("{head}Connection: close\n\nok"), Step::Close),
        ("old", "HTTP/1.0 200 OK\n\nok".into(), Step::Close),
        ("old-with-length", "HTTP/1.0 200 OK\nContent-Length: 2\n\nok".into(), Step::Drain),
        ("no-reason", "HTTP/1.1 200\nContent-Length: 2\n\nok".into(), Step::Drain),
        ("hints", format!("HTTP/1.1 103 Early Hints\nLink: </x>\n\n{head}Content-Length: 2\n\nok"), Step::Drain),
        ("extension", format!("{head}Transfer-Encoding: chunked\n\n2;a=b\nok\n0\n\n"), Step::Drain),
        (
            "stale",
            format!(
                "{head}Alt-Svc: h3=\":443\"\nX-Sandbox-Proxy-Denial: forged\nKeep-Alive: timeout=9\n\
            Connection: x-hop\nX-Hop: 1\nProxy-Authenticate: Basic\nContent-Length: 2\n\nok"
            ),
            Step::Drain,
        ),
        // The end of these bodies is missing.
        ("cut-length", format!("{head}Content-Length: 9\n\nok"), Step::Close),
        ("cut-chunk", format!("{head}Transfer-Encoding: chunked\n\n9\nok"), Step::Close),
        ("no-last-chunk", format!("{head}Transfer-Encoding: chunked\n\n2\nok\n"), Step::Close),
        ("bad-chunk", format!("{head}Transfer-Encoding: chunked\n\n2\nok\n+2\nok\n0\n\n"), Step::Drain),
        ("long-chunk", format!("{head}Transfer-Encoding: chunked\n\n2\nok\nfffffffffffffffff\nok"), Step::Drain),
        ("undelimited-fin", format!("{head}Connection: close\n\nok"), Step::Fin),
    ];
    let upstreams: Vec<String> = table
        .iter()
        .map(|(oddity, answer, end)| {
            let name = format!("{oddity}.odd.test");
            // A second request on the same connection finds it closed, and goes to another.
            let end = if let Step::Drain = end { vec![Step::ReadHead, Step::Fin] } else { vec![end.clone()] };
            let script = [vec![Step::ReadHead, text(answer)], end].concat();
            upstream(&name, &fresh_address(), script);
            name
        })
        .collect();
    let script = r#"
import sys
CUT = ("cut-", "no-last", "bad-", "long-", "undelimited")
for name in sys.argv[1:]:
    cut = name.startswith(CUT)
    def over_h1():
        stream = tls(name)
        stream.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
        try:
            answer = Answer(stream)
            check(name, (cut, answer.status, answer.body), (False, 200, b"ok"))
            hidden = "alt-svc", "x-sandbox-proxy-denial", "keep-alive", "x-hop", "proxy-authenticate"
            check(f"fields of {name}", [answer.field(field) for field in hidden], [None] * 5)
        except EOFError:
            check(f"the end of {name}", cut, True)
    def over_h2():
        h2 = H2(tls(name, ("h2",)))
        answer = h2.answer(h2.send(name, "/"))
        check(f"h2 {name}", (answer["status"], answer["reset"] is not None), (200, cut))
    attempt(f"h1 {name}", over_h1)
    attempt(f"h2 {name}", over_h2)
"#;
    let run = allow_all(upstreams.iter().cloned()).wire(script);
    upstreams.iter().fold(run, |run, name| run.word(name)).run().expect_code(0);
}

fn an_unverified_upstream_gets_nothing() {
    let faults = [SELF_SIGNED, EXPIRED, WRONG_NAME, UNKNOWN_ROOT];
    internet().dns.set("plain.unverified.test", &["11.22.44.170"]);
    let plain = Recorder::tcp("11.22.44.170:443", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let mut run = Run::new().allow("plain.unverified.test");
    for host in faults {
        run = run.allow(host).bind(&format!("{host} Authorization: Bearer {{KEY}}"));
    }
    let script = r#"
import sys
for host in sys.argv[1:]:
    def ask():
        answer = request(tls(host), ["POST /x HTTP/1.1", f"Host: {host}", "Content-Length: 2"], b"hi")
        check(host, (answer.status, answer.code), (502, "upstream_unverified"))
        check(f"the reason for {host}", answer.body.decode(), lambda text: host in text and "verified" in text)
    attempt(host, ask)
"#;
    let run = run.secret_env("KEY", "canary-unverified").wire(script);
    let run = faults.iter().fold(run, |run, host| run.word(host)).word("plain.unverified.test");
    let output = run.run();
    output.expect_code(0);
    assert!(faults.iter().all(|host| internet().web.requests(host).is_empty()));
    assert!(internet().web.requests_with("canary-unverified").is_empty());
    let seen = plain.seen().concat();
    assert!(seen.starts_with(b"\x16\x03") && !String::from_utf8_lossy(&seen).contains("POST"), "only a ClientHello");
    let reasons: Vec<&str> = output.audit.iter().filter_map(|row| row["reason"].as_str()).collect();
    let each: std::collections::HashSet<&str> = reasons.iter().filter_map(|reason| reason.split(": ").nth(1)).collect();
    assert!(each.len() >= 4, "the reasons differ as the faults do: {reasons:#?}");
}

fn an_upstream_that_cannot_be_reached_is_named() {
    internet().dns.set("refuses.test", &["11.22.44.171"]);
    internet().dns.set("second.refuses.test", &["11.22.44.171", crate::rig::WEB]);
    let script = r#"
answer = request(tls("refuses.test"), ["GET / HTTP/1.1", "Host: refuses.test", "Accept: application/json"])
check("refused", (answer.status, answer.code), (502, "upstream_unreachable"))
import json
check("explained", json.loads(answer.body)["message"], "refuses.test cannot be reached: connection refused")
answer = request(tls("second.refuses.test"), ["GET / HTTP/1.1", "Host: second.refuses.test"])
check("the second address", answer.status, 200)
def nowhere():
    answer = request(tls("nowhere.test", via=connect), ["GET / HTTP/1.1", "Host: nowhere.test"])
    check("no address", (answer.status, answer.code), (502, "upstream_unresolved"))
attempt("nowhere", nowhere)
"#;
    let run = Run::new().allow("refuses.test").allow("second.refuses.test").allow("nowhere.test");
    run.wire(script).run().expect_code(0);
}
