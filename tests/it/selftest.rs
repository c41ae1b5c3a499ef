//! The rig itself: without the product, what the other cases look for would be seen.

use std::net::{TcpStream, UdpSocket};
use std::process::Command;

use crate::cases;
use crate::internet::dns::Answer;
use crate::internet::internet;
use crate::internet::rawtls::{RawTls, Step};
use crate::internet::recorder::Recorder;
use crate::rig;
use crate::sandbox::{PATH, need};

cases![
    curl_outside_reaches_the_internet,
    faulty_certificates_are_faulty,
    the_recorder_sees_tcp_and_udp,
    the_sniffer_sees_every_protocol,
    scripted_bytes_arrive_as_written,
    a_script_may_break_off,
    streams_are_released_by_the_test,
    an_upgrade_echoes,
    answers_alternate,
    a_name_may_fail_or_be_silent,
];

fn curl_outside_reaches_the_internet() {
    for (version, shown) in [("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2.0")] {
        let host = "selftest.allowed.test";
        let (code, text) = curl(host, rig::WEB, "/echo", &[version, "-d", "hello", "-H", "x-two: a", "-H", "x-two: b"]);
        assert_eq!(code, 0, "{text}");
        let seen = internet().web.requests(host).pop().unwrap();
        assert_eq!(format!("{:?}", seen.version), shown);
        assert_eq!(seen.header("x-two"), ["a", "b"]);
        assert_eq!((seen.body.as_slice(), seen.sni.as_deref()), (&b"hello"[..], Some(host)));
    }
    let sum = curl("selftest.allowed.test", rig::WEB, "/bytes/1000000", &["-o", "/dev/null", "-w", "%{size_download}"]);
    assert_eq!(sum, (0, "1000000".to_owned()));
}

fn faulty_certificates_are_faulty() {
    use crate::internet::pki::{EXPIRED, SELF_SIGNED, UNKNOWN_ROOT, WRONG_NAME};
    for host in [EXPIRED, SELF_SIGNED, UNKNOWN_ROOT, WRONG_NAME] {
        let (code, text) = curl(host, rig::WEB, "/echo", &[]);
        assert_eq!(code, 60, "{host}: {text}");
        assert!(internet().web.requests(host).is_empty());
    }
}

fn the_recorder_sees_tcp_and_udp() {
    let tcp = Recorder::tcp("11.22.44.201:4321", b"pong");
    let mut stream = TcpStream::connect("11.22.44.201:4321").unwrap();
    std::io::Write::write_all(&mut stream, b"ping").unwrap();
    let mut reply = [0; 4];
    std::io::Read::read_exact(&mut stream, &mut reply).unwrap();
    assert_eq!((&reply, tcp.seen()), (b"pong", vec![b"ping".to_vec()]));
    let udp = Recorder::udp("11.22.44.201:4321");
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.send_to(b"datagram", "11.22.44.201:4321").unwrap();
    socket.recv(&mut [0; 16]).unwrap();
    assert_eq!(udp.seen(), [b"datagram"]);
}

fn the_sniffer_sees_every_protocol() {
    let socket = UdpSocket::bind("[::]:0").unwrap();
    Recorder::udp("[2a11:22:44::62]:99");
    socket.send_to(b"six", "[2a11:22:44::62]:99").unwrap();
    socket.recv(&mut [0; 16]).unwrap();
    assert_eq!(internet().sniffer.protocols_to("2a11:22:44::62"), [17]);
    Recorder::tcp("11.22.44.202:99", b"");
    TcpStream::connect("11.22.44.202:99").unwrap();
    assert!(internet().sniffer.protocols_to("11.22.44.202").contains(&6));
}

fn scripted_bytes_arrive_as_written() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc".to_vec();
    let upstream = RawTls::start("11.22.44.203:443", vec![Step::ReadHead, Step::Send(answer), Step::Close]);
    let (code, text) = curl("raw.allowed.test", "11.22.44.203", "/x", &[]);
    assert_eq!((code, text.as_str()), (0, "abc"));
    assert_eq!(upstream.requests("GET"), 1);
    assert!(upstream.seen()[0].starts_with(b"GET /x HTTP/1.1\r\nHost: raw.allowed.test\r\n"));
}

fn a_script_may_break_off() {
    let part = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".to_vec();
    // curl's own codes: 18 a partial body, 56 a failure in receiving.
    for (host, end, codes) in [("11.22.44.206", Step::Fin, [18, 56]), ("11.22.44.207", Step::Reset, [56, 56])] {
        let script = vec![Step::Read(16), Step::ReadHead, Step::Send(part.clone()), end];
        RawTls::start(&format!("{host}:443"), script);
        let (code, text) = curl("raw.allowed.test", host, "/x", &[]);
        assert!(codes.contains(&code), "{host}: {code} {text}");
    }
    let upstream = RawTls::start("11.22.44.208:443", vec![Step::ReadHead, Step::Send(part), Step::Drain]);
    let (code, _) = curl("raw.allowed.test", "11.22.44.208", "/x", &["--max-time", "1"]);
    assert_eq!((code, upstream.requests("GET")), (28, 1));
}

fn streams_are_released_by_the_test() {
    for path in ["/sse", "/slow"] {
        let id = format!("selftest{}", &path[1..]);
        let events = internet().web.events(&id);
        events.send("data: 1\n\n".into()).unwrap();
        drop(events);
        let (code, text) = curl("selftest.allowed.test", rig::WEB, &format!("{path}?id={id}"), &[]);
        assert_eq!((code, text.as_str()), (0, "data: 1\n\n"));
    }
    let sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let (_, text) = curl("selftest.allowed.test", rig::WEB, "/sink", &["-d", "hello", "-H", "x-canary: sink-of-self"]);
    assert!(text.contains(sum) && text.contains("\"length\":5"), "{text}");
    let seen = internet().web.requests_with("sink-of-self");
    assert_eq!((seen.len(), seen[0].count("sink-of-self"), seen[0].local.port()), (1, 1, 443));
}

fn an_upgrade_echoes() {
    let handshake =
        ["--http1.1", "-N", "--max-time", "1", "-i", "-H", "Connection: Upgrade", "-H", "Upgrade: websocket"];
    let key = ["-H", "Sec-WebSocket-Version: 13", "-H", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="];
    let (_, text) = curl("selftest.allowed.test", rig::WEB, "/ws", &[&handshake[..], &key[..]].concat());
    // The example of RFC 6455, section 1.3.
    assert!(text.to_ascii_lowercase().contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{text}");
}

fn answers_alternate() {
    let lists = ["11.22.44.204", "11.22.44.205"].map(|address| vec![address.parse().unwrap()]);
    internet().dns.answer("twice.test", Answer::Alternating(lists.to_vec()));
    let query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05twice\x04test\x00\x00\x01\x00\x01";
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let ask = || {
        socket.send_to(query, (rig::DNS, 53)).unwrap();
        let mut reply = [0; 512];
        let length = socket.recv(&mut reply).unwrap();
        reply[length - 1]
    };
    assert_eq!([ask(), ask(), ask()], [204, 205, 204]);
    assert_eq!(internet().dns.queries("twice.test"), 3);
}

fn a_name_may_fail_or_be_silent() {
    internet().dns.answer("fails.test", Answer::Failure);
    internet().dns.answer("silent.test", Answer::Silence);
    internet().dns.answer("absent.test", Answer::NoSuchName);
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let mut codes = Vec::new();
    // The silent one first: its answer would be the first to come.
    for name in [&b"\x06silent"[..], b"\x05fails", b"\x06absent"] {
        let head = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00";
        socket.send_to(&[head, name, b"\x04test\x00\x00\x1c\x00\x01"].concat(), (rig::DNS, 53)).unwrap();
    }
    for _ in 0..2 {
        let mut reply = [0; 512];
        socket.recv(&mut reply).unwrap();
        codes.push(reply[3] & 0x0f);
    }
    assert_eq!(codes, [2, 3]);
    assert_eq!(internet().dns.queries_containing("silent.test"), ["silent.test"]);
}

/// curl in the host namespace, without the product: exit code and all output.
fn curl(host: &str, address: &str, path: &str, options: &[&str]) -> (i32, String) {
    need("curl", "curl");
    let output = Command::new("curl")
        .args(["-sS", "--cacert"])
        .arg(internet().pki.root_file())
        .args(["--resolve", &format!("{host}:443:{address}"), &format!("https://{host}{path}")])
        .args(options)
        .env_clear()
        .env("PATH", PATH)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8_lossy(&text).into_owned())
}
