use super::*;
use crate::types::Secret;
use zeroize::Zeroizing;

fn values() -> Arc<Watch> {
    let secret = Secret::new("K", Zeroizing::new(b"Canary/17".to_vec())).unwrap();
    Arc::new(Watch::fixed(Scrubber::new([&secret])))
}

fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
}

fn shown(fields: &HeaderMap) -> Vec<String> {
    let mut shown: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    shown.sort();
    shown
}

macro_rules! requests {
    ($($test:ident: $name:literal, $sent:expr => $left:expr;)*) => { $(
        #[test]
        fn $test() {
            let mut fields = map(&[("accept", "*/*"), ($name, $sent)]);
            prepare_request(&mut fields);
            assert_eq!(fields.get($name).map(|value| value.to_str().unwrap()), $left);
            assert_eq!(fields["accept"], "*/*");
        }
    )* };
}

requests! {
    codings_that_can_be_undone_stay: "accept-encoding", "gzip, deflate, br;q=0.5, zstd" => Some("gzip, deflate, br;q=0.5, zstd");
    others_go: "accept-encoding", "compress, GZIP;q=1.0,dcb , *;q=0.1, identity;q=0" => Some("GZIP;q=1.0, identity;q=0");
    identity_is_what_is_left: "accept-encoding", "dcz, *" => Some("identity");
    an_empty_list_is_identity: "accept-encoding", "" => Some("identity");
    no_part: "range", "bytes=0-5" => None;
    no_part_if_it_is_the_same: "if-range", "\"x\"" => None;
    no_extension: "sec-websocket-extensions", "permessage-deflate" => None;
    no_compressed_message: "grpc-accept-encoding", "gzip" => None;
    no_compressed_message_of_connect: "connect-accept-encoding", "gzip" => None;
    no_difference: "a-im", "vcdiff" => None;
    conditions_stay: "if-none-match", "\"x\"" => Some("\"x\"");
}

/// What is left of a head, or why it is refused.
fn head(status: u16, head: bool, fields: &[(&'static str, &'static str)]) -> Result<Vec<String>, Reason> {
    let mut fields = map(fields);
    filter(values(), head, StatusCode::from_u16(status).unwrap(), &mut fields).map(|_| shown(&fields))
}

#[test]
fn heads_are_masked() {
    let fields = [
        ("location", "https://other.test/?k=Canary%2F17&x=1"),
        ("set-cookie", "a=Canary/17; Path=/"),
        ("set-cookie", "b=1"),
    ];
    let left = head(302, false, &fields).unwrap();
    assert_eq!(
        left,
        ["location: https://other.test/?k=***********&x=1", "set-cookie: a=*********; Path=/", "set-cookie: b=1"]
    );
}

#[test]
fn a_name_that_holds_the_value_takes_its_field_with_it() {
    let secret = Secret::new("K", Zeroizing::new(b"Canary-17".to_vec())).unwrap();
    let mut fields = map(&[("x-canary-17", "1"), ("x-canary-18", "1")]);
    mask_headers(&Scrubber::new([&secret]), &mut fields);
    assert_eq!(shown(&fields), ["x-canary-18: 1"]);
}

/// A length is the body's, and masking it would only make the message unreadable.
#[test]
fn a_length_is_not_masked() {
    let secret = Secret::new("K", Zeroizing::new(b"12".to_vec())).unwrap();
    let mut fields = map(&[("content-length", "1234"), ("x-number", "1234")]);
    mask_headers(&Scrubber::new([&secret]), &mut fields);
    assert_eq!(shown(&fields), ["content-length: 1234", "x-number: **34"]);
}

const ENCODED: [(&str, &str); 8] = [
    ("content-encoding", "gzip"),
    ("content-length", "100"),
    ("etag", "\"x\""),
    ("accept-ranges", "bytes"),
    ("digest", "md5=x"),
    ("repr-digest", "sha-256=:x:"),
    ("content-md5", "x"),
    ("content-type", "text/plain"),
];

#[test]
fn a_body_that_is_decoded_loses_what_was_true_of_its_coding() {
    let left = ["content-type: text/plain", "etag: W/\"x\""];
    assert_eq!(head(200, false, &ENCODED).unwrap(), left);
    // Its answer to HEAD says the same.
    assert_eq!(head(200, true, &ENCODED).unwrap(), left);
    let plain = head(200, false, &ENCODED[1..]).unwrap();
    assert_eq!(plain.len(), 6);
    assert!(plain.contains(&"etag: \"x\"".to_owned()) && plain.contains(&"content-length: 100".to_owned()));
    assert_eq!(head(200, false, &[("content-encoding", "br"), ("etag", "W/\"x\"")]).unwrap(), ["etag: W/\"x\""]);
}

macro_rules! refused {
    ($($test:ident: $status:literal, $fields:expr => $refused:expr;)*) => { $(
        #[test]
        fn $test() {
            assert_eq!(head($status, false, &$fields).is_err(), $refused);
        }
    )* };
}

refused! {
    an_unknown_coding: 200, [("content-encoding", "compress")] => true;
    a_dictionary: 200, [("content-encoding", "dcb")] => true;
    an_error_page_too: 500, [("content-encoding", "x")] => true;
    two_codings: 200, [("content-encoding", "gzip, identity"), ("content-encoding", "br")] => false;
    three_codings: 200, [("content-encoding", "gzip, gzip, gzip")] => true;
    a_transfer_coding: 200, [("transfer-encoding", "gzip, chunked")] => true;
    chunks: 200, [("transfer-encoding", "chunked")] => false;
    a_part: 206, [("content-range", "bytes 0-1/3")] => true;
    a_difference: 226, [("im", "vcdiff")] => true;
    no_part_after_all: 416, [("content-range", "bytes */3")] => false;
    compressed_messages: 200, [("content-type", "application/grpc"), ("grpc-encoding", "gzip")] => true;
    compressed_messages_of_connect: 200, [("content-type", "application/connect+json"), ("connect-content-encoding", "br")] => true;
    plain_messages: 200, [("content-type", "application/grpc"), ("grpc-encoding", "identity")] => false;
    nothing_modified: 304, [("content-encoding", "compress")] => false;
    an_extension: 101, [("upgrade", "websocket"), ("sec-websocket-extensions", "permessage-deflate")] => true;
    a_websocket: 101, [("upgrade", "websocket")] => false;
}
