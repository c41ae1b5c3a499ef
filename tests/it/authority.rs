//! What was authorised is what is asked for: CONNECT target, SNI, `Host`, `:authority` and absolute targets agree, or the
//! request goes nowhere.

use std::collections::BTreeSet;

use serde_json::json;

use crate::cases;
use crate::internet::internet;
use crate::internet::rawtls::{RawTls, Step};
use crate::internet::recorder::Recorder;
use crate::rig;
use crate::sandbox::Run;
use crate::table::{all_are, program, rows};

cases![
    every_combination_of_names,
    absolute_targets_in_a_connection,
    absolute_targets_at_the_proxy,
    targets_go_on_in_origin_form,
    ports_and_spellings_of_host,
    streams_are_judged_one_by_one,
    leaves_have_one_name,
    handshakes_without_a_usable_name,
    an_address_permitted_by_number_has_no_names,
];

/// The three names of the combinations: two allowed ones and a blocked one, all at one address (BL-001, BL-068).
const NAMES: [(&str, &str); 3] =
    [("one", "one.front.allowed.test"), ("two", "two.front.allowed.test"), ("bad", "front.evil.test")];

/// Every way in, every dialled name, every SNI, every Host; as the first request of a connection and as a later one.
const COMBINATIONS: &str = r#"
names = {"one": "one.front.allowed.test", "two": "two.front.allowed.test", "bad": "front.evil.test"}
def opened(way, dialled, sni, alpn):
    sock = connect(names[dialled]) if way == "connect" else socket.create_connection((names[dialled], 443))
    return sock if isinstance(sock, list) else tls(sock, names.get(sni), alpn)
told = []
for way in ["connect", "transparent"]:
    for dialled in names:
        for sni in [*names, "none"]:
            good = names[dialled if sni == "none" else sni]
            for host in names:
                case = f"{way} {dialled} {sni} {host}"
                sock = opened(way, dialled, sni, "http/1.1")
                if isinstance(sock, list):
                    told += [[f"{case} http1 first", sock[0]]]
                    continue
                for turn, asked in [("first", names[host]), ("between", good), ("later", names[host])]:
                    tag = f"X-Case: {case} http1 {turn}"
                    got = ask(sock, "GET /echo HTTP/1.1", f"Host: {asked}", tag)
                    told += [] if turn == "between" else [[f"{case} http1 {turn}", got[0]]]
                sock.close()
                sock = opened(way, dialled, sni, "h2")
                requests = [h2_get(asked, "/echo", ("x-case", f"{case} h2 {turn}"))
                            for turn, asked in [("first", names[host]), ("between", good), ("later", names[host])]]
                first, _, later = h2(sock, requests)
                told += [[f"{case} h2 first", first], [f"{case} h2 later", later]]
tell(told)
"#;

fn every_combination_of_names() {
    for (_, name) in NAMES {
        internet().dns.set(name, &[rig::WEB]);
    }
    let (told, _) = program(Run::new().allow(NAMES[0].1).allow(NAMES[1].1), COMBINATIONS);
    assert!(rows(&told).len() > 240, "{}", rows(&told).len());
    all_are(&told, |case| expected_status(case).into());
    // Nothing arrived but what was answered with 200, under its own name.
    let permitted = rows(&told).into_iter().filter(|(_, got)| *got == 200).map(|(case, _)| case);
    let permitted: BTreeSet<String> = permitted.collect();
    let mut seen = 0;
    for request in internet().web.requests_with(" http1 ").into_iter().chain(internet().web.requests_with(" h2 ")) {
        let [case] = request.header("x-case")[..] else { continue };
        assert!(permitted.contains(case) || case.ends_with("between"), "{request:?}");
        assert_eq!(request.sni.as_deref(), request.host.split(':').next(), "{request:?}");
        assert_ne!(request.host, NAMES[2].1, "{request:?}");
        seen += usize::from(!case.ends_with("between"));
    }
    assert_eq!(seen, permitted.len());
    assert_eq!(internet().dns.queries(NAMES[2].1), 0);
}

fn expected_status(case: &str) -> u16 {
    let [way, dialled, sni, host, ..] = case.split(' ').collect::<Vec<_>>()[..] else { panic!("{case}") };
    match (way, dialled, sni) {
        ("connect", "bad", _) => 403,
        ("connect", _, "none") | ("transparent", "bad", "none") => same(host, dialled),
        ("connect", ..) | ("transparent", "bad", _) if sni != dialled => 421,
        // The client dialled an address; without a name in the handshake it asks for that address.
        ("transparent", _, "none") => 421,
        _ => same(host, sni),
    }
}

fn same(host: &str, authorized: &str) -> u16 {
    match (host == authorized, host) {
        (false, _) => 421,
        (true, "bad") => 403,
        (true, _) => 200,
    }
}

/// BL-014: the authority of an absolute target counts as much as Host.
fn absolute_targets_in_a_connection() {
    let code = r#"
good, other, bad = "abs.allowed.test", "absother.allowed.test", "abs.evil.test"
told = []
for way in ["connect", "transparent"]:
    for url in [f"https://{good}/echo", f"https://{good}:443/echo", f"https://{other}/echo", f"https://{bad}/echo",
                f"http://{good}/echo", f"http://{bad}/echo", f"https://{good}:8443/echo", f"https://{good}@{bad}/echo"]:
        for host in [good, other, bad]:
            for dialled in [good, bad]:
                sock = connect(dialled) if way == "connect" else socket.create_connection((dialled, 443))
                if not isinstance(sock, list):
                    sock = tls(sock, dialled)
                    sock = ask(sock, f"GET {url} HTTP/1.1", f"Host: {host}", "X-Case: absolute-in-tls")
                told += [[f"{way} {dialled} {url} {host}", sock[0]]]
tell(told)
"#;
    let (told, _) = program(Run::new().allow("abs.allowed.test").allow("absother.allowed.test"), code);
    all_are(&told, |case| {
        let [way, dialled, url, host] = case.split(' ').collect::<Vec<_>>()[..] else { panic!("{case}") };
        let agree =
            url.starts_with(&format!("https://{dialled}/")) || url.starts_with(&format!("https://{dialled}:443"));
        let status = match (way, dialled, agree && host == dialled) {
            ("connect", "abs.evil.test", _) => 403,
            (_, _, false) if url.contains('@') => 400,
            (_, _, false) => 421,
            (_, "abs.evil.test", true) => 403,
            (_, _, true) => 200,
        };
        status.into()
    });
    let seen = internet().web.requests_with("absolute-in-tls");
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|request| request.host == "abs.allowed.test" && request.target == "/echo"), "{seen:#?}");
}

fn absolute_targets_at_the_proxy() {
    let recorder = Recorder::tcp("11.22.44.160:80", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    internet().dns.set("plain.allowed.test", &["11.22.44.160"]);
    let code = r#"
good, bad = "proxied.allowed.test", "proxied.evil.test"
told = [[f"{url} {host}", through_proxy(url, host, "X-Case: absolute-at-proxy")[:2]] for url, host in [
    (f"https://{good}/echo", good), (f"https://{good}/echo", bad), (f"https://{bad}/echo", good),
    (f"https://{bad}/echo", bad), (f"http://{good}/echo", good), ("http://plain.allowed.test/", "plain.allowed.test"),
    ("http://plain.allowed.test/", good), (f"ftp://{good}/", good), ("/echo", good), (f"https://{good}:8443/", f"{good}:8443")]]
tell(told)
"#;
    let (told, _) = program(Run::new().allow("proxied.allowed.test").allow("plain.allowed.test"), code);
    let got: Vec<String> = rows(&told).into_iter().map(|(_, got)| format!("{} {}", got[0], got[1])).collect();
    let expected = [
        "200 null",
        "421 \"misdirected\"",
        "421 \"misdirected\"",
        "403 \"host_not_listed\"",
        "403 \"https_only\"",
        "403 \"https_only\"",
        "421 \"misdirected\"",
        "400 \"malformed_request\"",
        "400 \"malformed_request\"",
        "403 \"host_not_listed\"",
    ];
    assert_eq!(got, expected, "{told:#?}");
    assert_eq!(internet().web.requests_with("absolute-at-proxy").len(), 1);
    recorder.assert_nothing();
}

/// Whatever the client's own form was: many servers refuse an absolute target.
fn targets_go_on_in_origin_form() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec();
    let upstream = RawTls::start("11.22.44.168:443", vec![Step::ReadHead, Step::Send(answer), Step::Close]);
    internet().dns.set("origin.allowed.test", &["11.22.44.168"]);
    let code = r#"
host = "origin.allowed.test"
told = [["absolute", through_proxy(f"https://{host}/x?y", host)[0]]]
told += [["absolute in tls", ask(tls(connect(host), host), f"GET https://{host}/x?y HTTP/1.1", f"Host: {host}")[0]]]
told += [["origin", ask(tls(connect(host), host), "GET /x?y HTTP/1.1", f"Host: {host}")[0]]]
told += [["h2", h2(tls(connect(host), host, "h2"), [h2_get(host, "/x?y")])[0]]]
tell(told)
"#;
    all_are(&program(Run::new().allow("origin.allowed.test"), code).0, |_| 200.into());
    let seen = upstream.seen();
    assert_eq!(seen.len(), 4);
    for bytes in seen {
        let head = String::from_utf8_lossy(&bytes).into_owned();
        let hosts: Vec<&str> = head.lines().filter(|line| line.to_lowercase().starts_with("host:")).collect();
        assert!(head.starts_with("GET /x?y HTTP/1.1\r\n") && hosts.len() == 1, "{head}");
    }
}

fn ports_and_spellings_of_host() {
    let code = r#"
told = []
for host in ["spelled.allowed.test", "spelled.allowed.test:443", "SPELLED.Allowed.TEST", "spelled.allowed.test.",
             "spelled.allowed.test:8443", "spelled.allowed.test:80", "xspelled.allowed.test", "spelled.allowed.testx",
             "spelled.allowed.test.evil.test", "11.22.33.9", "[::ffff:11.22.33.9]", "spelled_allowed.test",
             "spelled.allowed.test:0443", "spelled.allowed.test:", "spelled.allowed.test:x", "", "a b", "*",
             "spelled.allowed.test@evil.test", "spelled.allowed.test/", "spelled.allowed.test#", "spelled.allowed.test,evil.test"]:
    sock = tls(connect("spelled.allowed.test"), "spelled.allowed.test")
    told += [[host, ask(sock, "GET /echo HTTP/1.1", f"Host: {host}")[0]]]
for name, lines in [("none", []), ("two", ["Host: spelled.allowed.test"] * 2),
                    ("other first", ["Host: evil.test", "Host: spelled.allowed.test"]),
                    ("folded", ["Host: spelled.allowed.test", " evil.test"]), ("space", ["Host : spelled.allowed.test"])]:
    sock = tls(connect("spelled.allowed.test"), "spelled.allowed.test")
    told += [[name, ask(sock, "GET /echo HTTP/1.1", *lines)[0]]]
tell(told)
"#;
    let (told, _) = program(Run::new().allow("spelled.allowed.test"), code);
    all_are(&told, |host| match host {
        "spelled.allowed.test"
        | "spelled.allowed.test:443"
        | "SPELLED.Allowed.TEST"
        | "spelled.allowed.test."
        | "spelled.allowed.test:0443" => 200.into(),
        "none" | "two" | "other first" | "folded" | "space" | "" | "a b" | "*" => 400.into(),
        host if host.contains(['@', '/', '#', ',']) || host.ends_with([':', 'x']) && host.contains(':') => 400.into(),
        _ => 421.into(),
    });
    let seen = internet().web.requests("spelled.allowed.test");
    assert_eq!(seen.len(), 5);
    assert!(seen.iter().all(|request| request.host == "spelled.allowed.test"), "{seen:#?}");
}

/// BL-040, BL-118: on one HTTP/2 connection each stream is judged, and a wrong one harms no other.
fn streams_are_judged_one_by_one() {
    let code = r#"
good, bad, other = "streams.allowed.test", "streams.evil.test", "streams.other.allowed.test"
plain = h2_get(good)
without = [field for field in plain if field[0] != ":authority"]
requests = {"good": plain, "bad": h2_get(bad), "other": h2_get(other), "host too": [*plain, ("host", good)],
    "host differs": [*plain, ("host", bad)], "authority differs": [*h2_get(bad), ("host", good)],
    "host alone": [*without, ("host", good)], "bad host alone": [*without, ("host", bad)], "neither": without,
    "port": h2_get(good + ":8443"), "http": [(n, "http" if n == ":scheme" else v) for n, v in plain],
    "two hosts": [*plain, ("host", good), ("host", bad)], "last": plain}
sock = tls(connect(good), good, "h2")
told = [list(row) for row in zip(requests, h2(sock, list(requests.values())))]
twice = h2(tls(connect(good), good, "h2"), [[*plain[:3], (":authority", bad), plain[3]]])
tell([*told, ["two authorities", twice[0]]])
"#;
    let run = Run::new().allow("streams.allowed.test").allow("streams.other.allowed.test");
    let (told, _) = program(run, code);
    let got: Vec<String> = rows(&told).into_iter().map(|(case, got)| format!("{case}: {got}")).collect();
    for case in ["good: 200", "host too: 200", "host alone: 200", "last: 200", "bad: 421", "other: 421", "port: 421"] {
        assert!(got.iter().any(|row| row == case), "{case}: {got:#?}");
    }
    for case in
        ["host differs", "authority differs", "bad host alone", "neither", "http", "two hosts", "two authorities"]
    {
        let refused = ["421", "400", "\"reset\"", "\"closed\""].map(|end| format!("{case}: {end}"));
        assert!(got.iter().any(|row| refused.contains(row)), "{case}: {got:#?}");
    }
    assert_eq!(internet().web.requests("streams.allowed.test").len(), 4);
    assert!(internet().web.requests("streams.evil.test").is_empty());
    assert!(internet().web.requests("streams.other.allowed.test").is_empty());
}

fn leaves_have_one_name() {
    let code = r#"
told = []
for name in ["leaf.allowed.test", "leaf.evil.test"]:
    sock = tls(socket.create_connection((name, 443)), name, verify=True)
    told += [[name, sock.getpeercert()["subjectAltName"]]]
told += [["11.22.33.9", tls(socket.create_connection(("11.22.33.9", 443)), None, verify=True).getpeercert()["subjectAltName"]]]
tell(told)
"#;
    let (told, _) = program(Run::new().allow("leaf.allowed.test"), code);
    all_are(&told, |name| json!([[if name.starts_with('1') { "IP Address" } else { "DNS" }, name]]));
}

/// BL-070: what the handshake does not say, no rule for names permits; and what it says badly ends it.
fn handshakes_without_a_usable_name() {
    let code = r#"
def hello(name):
    """A ClientHello whose list of names holds these bytes, padded to the length it was made for."""
    incoming, outgoing, size = ssl.MemoryBIO(), ssl.MemoryBIO(), 40
    context = ssl.create_default_context()
    made = context.wrap_bio(incoming, outgoing, server_hostname="x" * size)
    try:
        made.do_handshake()
    except ssl.SSLWantReadError:
        pass
    was = struct.pack("!HHHBH", 0, size + 5, size + 3, 0, size) + b"x" * size
    now = struct.pack("!HHHBH", 0, len(name) + 5, len(name) + 3, 0, len(name)) + name
    now += struct.pack("!HH", 0xFDE8, size - len(name) - 4) + bytes(size - len(name) - 4)
    whole = outgoing.read()
    assert whole.count(was) == 1 and len(was) == len(now)
    return whole.replace(was, now)
told = []
for way in ["connect", "transparent"]:
    for name in [b"", b"sni.allowed.test\0", b"sni.allowed.test\0.evil.test", b"a b", b"*.allowed.test", b"..", b"\xff\xfe",
                 b"sni.allowed.test/", b"-", b"11.22.33.9", b"sni.allowed.test"]:
        sock = connect("sni.allowed.test") if way == "connect" else socket.create_connection(("11.22.33.9", 443))
        sock.sendall(hello(name))
        try:
            first = sock.recv(1)
        except OSError:
            first = b""
        told += [[f"{way} {name!r}", "handshake" if first == b"\x16" else "closed"]]
for host in ["11.22.33.9", "sni.allowed.test", "sni.evil.test", "[::ffff:11.22.33.9]"]:
    sock = tls(socket.create_connection(("11.22.33.9", 443)), None)
    told += [[f"no name, {host}", ask(sock, "GET /echo HTTP/1.1", f"Host: {host}")[0]]]
tell(told)
"#;
    let run = Run::new().allow("sni.allowed.test").secret_env("KEY", "canary-of-sni");
    let (told, _) = program(run.bind("sni.allowed.test Authorization: Bearer {KEY}"), code);
    all_are(&told, |case| match case {
        "no name, 11.22.33.9" | "no name, [::ffff:11.22.33.9]" => 403.into(),
        case if case.starts_with("no name") => 421.into(),
        // An address in place of a name counts as no name (RFC 6066 section 3 forbids it).
        case if case.ends_with("b'sni.allowed.test'") || case.ends_with("b'11.22.33.9'") => "handshake".into(),
        _ => "closed".into(),
    });
    assert!(internet().web.requests("sni.allowed.test").is_empty());
}

/// An address of `--allow-cidr` is dialled as it is: the names that are asked for there open no other, nor get a secret of
/// a host that is not permitted there.
fn an_address_permitted_by_number_has_no_names() {
    internet().dns.set("number.evil.test", &["11.22.44.161"]);
    let elsewhere = Recorder::tcp("11.22.44.161:443", b"");
    let code = r#"
told = []
for sni, host in [("number.evil.test", "number.evil.test"), ("number.evil.test", "number.allowed.test"),
                  ("number.allowed.test", "number.allowed.test"), (None, "number.evil.test")]:
    sock = tls(socket.create_connection(("11.22.33.10", 443)), sni)
    told += [[f"{sni} {host}", ask(sock, "GET /echo HTTP/1.1", f"Host: {host}")[0]]]
sock = connect("number.evil.test")
told += [["connect", sock[0] if isinstance(sock, list) else "open"]]
tell(told)
"#;
    let run = Run::new().arg("--allow-cidr").arg("11.22.33.10").allow("number.allowed.test");
    let run = run.secret_env("KEY", "canary-of-number").bind("number.allowed.test Authorization: {KEY}");
    let (told, _) = program(run, code);
    all_are(&told, |case| match case {
        // Nothing is for this name, so that what is inside passes unread to the permitted address.
        "number.evil.test number.evil.test" | "number.evil.test number.allowed.test" => 200.into(),
        "number.allowed.test number.allowed.test" => 200.into(),
        "connect" => 403.into(),
        _ => 421.into(),
    });
    // The listed name was looked up and asked for at its own address; the other one where the client dialled.
    let address =
        |name| internet().web.requests(name).iter().map(|seen| seen.local.ip().to_string()).collect::<Vec<_>>();
    assert_eq!(address("number.allowed.test"), [rig::OTHER, rig::WEB]);
    assert!(address("number.evil.test").iter().all(|at| at == rig::OTHER));
    assert_eq!(internet().dns.queries("number.evil.test"), 0);
    let with_secret = internet().web.requests_with("canary-of-number");
    assert_eq!(with_secret.iter().map(|seen| seen.local.ip().to_string()).collect::<Vec<_>>(), [rig::WEB]);
    elsewhere.assert_nothing();
}
