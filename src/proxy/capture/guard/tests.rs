use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What hyper would get to read, the input coming in pieces of `step` bytes.
fn through(input: &[u8], step: usize) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(step);
        let input = input.to_vec();
        let writer = tokio::spawn(async move {
            // The guard stops reading behind a fault, so the rest may not be taken.
            let _ = client.write_all(&input).await;
        });
        let mut out = Vec::new();
        Guard::new(server, RawSwitch::default()).read_to_end(&mut out).await.unwrap();
        writer.abort();
        String::from_utf8_lossy(&out).into_owned()
    })
}

fn passes(input: &str) {
    for step in [1, 2, 7, 4096] {
        assert_eq!(through(input.as_bytes(), step), input, "in steps of {step}");
    }
}

fn faults(input: &str, fault: &str) {
    for step in [1, 3, 4096] {
        let got = through(input.as_bytes(), step);
        let at = got.find(FAULT).unwrap_or_else(|| panic!("no fault in steps of {step}: {got:?}"));
        assert!(got[at..].starts_with(&format!("{FAULT} /{fault} HTTP/1.1\r\n")), "{got:?}");
        assert!(!got.contains("smuggled"), "{got:?}");
    }
}

macro_rules! heads {
    ($($name:ident: $input:expr => $fault:expr;)*) => { $(
        #[test]
        fn $name() {
            faults(concat!("GET / HTTP/1.1\r\n", $input, "\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"), $fault);
        }
    )* };
}

heads! {
    length_then_chunked: "Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked" => "content-length-with-transfer-encoding";
    chunked_then_length: "Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5" => "content-length-with-transfer-encoding";
    two_lengths: "Host: a\r\nContent-Length: 5\r\nContent-Length: 5" => "content-length-twice";
    length_list: "Host: a\r\nContent-Length: 5, 5" => "content-length";
    length_plus: "Host: a\r\nContent-Length: +5" => "content-length";
    length_minus: "Host: a\r\nContent-Length: -1" => "content-length";
    length_hex: "Host: a\r\nContent-Length: 0x5" => "content-length";
    length_huge: "Host: a\r\nContent-Length: 18446744073709551616" => "content-length";
    length_empty: "Host: a\r\nContent-Length:" => "content-length";
    xchunked: "Host: a\r\nTransfer-Encoding: xchunked" => "transfer-encoding";
    chunked_identity: "Host: a\r\nTransfer-Encoding: chunked, identity" => "transfer-encoding";
    gzip_chunked: "Host: a\r\nTransfer-Encoding: gzip, chunked" => "transfer-encoding";
    chunked_twice: "Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked" => "transfer-encoding";
    chunked_vertical_tab: "Host: a\r\nTransfer-Encoding: \x0bchunked" => "control-character-in-header";
    nul: "Host: a\r\nX: a\0b" => "control-character-in-header";
    name_no_token: "Host: a\r\nX(Y): b" => "header-name";
    encoding_space: "Host: a\r\nTransfer-Encoding : chunked" => "space-before-colon";
    two_hosts: "Host: a\r\nHost: b" => "host-twice";
    folded: "Host: a\r\nX: a\r\n b" => "folded-header";
    folded_first: " Host: evil\r\nHost: a" => "folded-header";
    bare_cr: "Host: a\r\nX: a\rb" => "bare-line-break";
    bare_cr_at_the_end: "Host: a\r" => "bare-line-break";
    form_feed: "Host: a\r\nContent-Length: \x0c5" => "control-character-in-header";
    bare_lf: "Host: a\nX: b" => "bare-line-break";
    no_colon: "Host: a\r\nX" => "header-without-colon";
    no_name: "Host: a\r\n: x" => "header-without-name";
}

#[test]
fn request_lines_have_three_words() {
    for (line, fault) in [
        ("GET / / HTTP/1.1", "request-line"),
        ("GET /", "request-line"),
        ("GET  / HTTP/1.1", "request-line"),
        ("G(T / HTTP/1.1", "method"),
        (" / HTTP/1.1", "method"),
        ("GET /<a> HTTP/1.1", "target"),
        ("GET  HTTP/1.1", "target"),
        ("GET /a#b HTTP/1.1", "target"),
        ("GET /a#\0\x04 HTTP/1.1", "target"),
        ("GET / HTTP/3.0", "version"),
        ("GET / HTTP/1.10", "version"),
        ("GET / http/1.1", "version"),
    ] {
        assert_eq!(head(format!("{line}\r\nHost: a\r\n\r\n").as_bytes()), Err(fault), "{line}");
    }
    for line in ["GET /a?b={c}|d HTTP/1.1", "GET http://a/ HTTP/1.0", "CONNECT a:1 HTTP/1.1", "OPTIONS * HTTP/1.1"] {
        assert!(head(format!("{line}\r\nHost: a\r\n\r\n").as_bytes()).is_ok(), "{line}");
    }
    assert_eq!(head(b"CONNECT a:1 HTTP/1.1\r\nContent-Length: 5\r\n\r\n"), Err("content-length"));
    assert_eq!(head(b"CONNECT a:1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), Err("transfer-encoding"));
    assert!(head(b"CONNECT a:1 HTTP/1.1\r\nContent-Length: 0\r\n\r\n").is_ok());
    assert_eq!(head(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), Err("transfer-encoding"));
}

#[test]
fn good_heads_and_bodies_pass_as_they_are() {
    passes("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    passes("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n\r\n\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    passes(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n2;x\r\n\n\n\r\n0\r\nT: 1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    passes("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let long = "x".repeat(100_000);
    passes(&format!(
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{long}GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    ));
}

#[test]
fn a_fault_in_the_second_head_leaves_the_first_request_whole() {
    let first = "GET /first HTTP/1.1\r\nHost: a\r\n\r\n";
    let got = through(format!("{first}GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").as_bytes(), 4096);
    assert!(got.starts_with(&format!("{first}{FAULT} /host-twice")), "{got:?}");
}

#[test]
fn a_bad_chunk_ends_the_stream() {
    for chunk in [
        "5\nhello",
        "0x5\r\nhello",
        "+5\r\nhello",
        "2;a\nb\r\nxx",
        "2;a\0\r\nxx",
        "2;a\rb\r\nxx",
        "fffffffffffffffff\r\n",
    ] {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(through(format!("{head}{chunk}\r\n0\r\n\r\n").as_bytes(), 4096), head, "{chunk:?}");
    }
}

#[test]
fn a_bad_trailer_ends_the_stream() {
    for line in ["X", "X : 1", " folded", "\tfolded", ": 1", "X\0: 1", "X: a\0b", "X: a\rb", "X: a\nY: b", "X(Y): 1"] {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nT: 1\r\n";
        assert_eq!(through(format!("{head}{line}\r\n\r\n").as_bytes(), 4096), head, "{line:?}");
    }
}

#[test]
fn heads_have_bounds() {
    faults(&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(HEAD_MAX)), "head-too-large");
    faults(&format!("GET / HTTP/1.1\r\n{}\r\n", "X: 1\r\n".repeat(HEADERS_MAX + 1)), "too-many-headers");
}

#[test]
fn what_follows_connect_waits_for_the_answer() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(4096);
        let head = b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n";
        client.write_all(head).await.unwrap();
        client.write_all(b"\x16\x03\x01\n\n").await.unwrap();
        drop(client);
        let raw = RawSwitch::default();
        let mut guard = Guard::new(server, raw.clone());
        let mut got = vec![0; head.len()];
        guard.read_exact(&mut got).await.unwrap();
        assert_eq!(got, head);
        raw.set();
        let mut rest = Vec::new();
        guard.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"\x16\x03\x01\n\n");
    });
}
