//! The signatures are AWS's own (its "Signature Version 4 test suite": get-vanilla, post-x-www-form-urlencoded) and botocore 1.44's.

use http::Request;
use zeroize::Zeroizing;

use super::*;
use crate::types::Secret;

const ID: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const TIME: &str = "20150830T123600Z";

/// A request with a signature; its body is known where it names no hash.
fn head(method: &str, target: &str, fields: &[(&str, &str)], authorization: &str, body: &[u8]) -> Parts {
    let mut request = Request::builder().method(method).uri(target).header("host", "example.amazonaws.com");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    if !authorization.is_empty() {
        request = request.header("authorization", authorization);
    }
    let (mut head, ()) = request.body(()).unwrap().into_parts();
    head.extensions.insert(PayloadHash::of(body));
    head
}

fn authorization(id: &str, service: &str, signed: &str, signature: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential={id}/20150830/us-east-1/{service}/aws4_request, SignedHeaders={signed}, Signature={signature}"
    )
}

const KEYS: Keys<'static> = Keys { id: ID.as_bytes(), secret: SECRET.as_bytes(), token: None };

macro_rules! golden {
    ($($test:ident: $method:literal $target:literal $service:literal, $form:ident, $fields:expr, $body:literal => $signed:literal $signature:literal;)*) => { $(
        #[test]
        fn $test() {
            let fields: Vec<(&str, &str)> = [("x-amz-date", TIME)].into_iter().chain($fields).collect();
            let sent = authorization(ID, $service, $signed, &"0".repeat(64));
            let mut head = head($method, $target, &fields, &sent, $body);
            let claim = Claim::of(&head).unwrap().unwrap();
            let signing = Signing { claim, form: PathForm::$form };
            signing.sign(&mut head, "example.amazonaws.com", &KEYS).unwrap();
            assert_eq!(head.headers[AUTHORIZATION], authorization(ID, $service, $signed, $signature));
            assert!(head.headers[AUTHORIZATION].is_sensitive());
        }
    )* };
}

golden! {
    get_vanilla: "GET" "/" "service", Encoded, [], b"" =>
        "host;x-amz-date" "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
    post_x_www_form_urlencoded: "POST" "/" "service", Encoded, [("content-type", "application/x-www-form-urlencoded")], b"Param1=value1" =>
        "content-type;host;x-amz-date" "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a";
    a_query_is_sorted: "GET" "/?Param2=value2&Param1=value1&Param1=a%20b" "service", Encoded, [], b"" =>
        "host;x-amz-date" "cfb7bc6022571aff570c203e0b6e68cfc6d4018fbd56b41d9d66bd0dc38dd69f";
    white_space_and_a_path_encoded_twice: "GET" "/a%20b/x" "service", Encoded, [("my-header1", "a   b  c")], b"" =>
        "host;my-header1;x-amz-date" "3bc856aa800b29624712fbd017a3a80a32f70090f8e0f9b86733e2ef00ba048e";
    s3_takes_a_path_as_it_is: "GET" "/b/a%20b//c/../d?prefix=x%2Fy&list-type=2" "s3", AsSent, [("x-amz-content-sha256", EMPTY)], b"" =>
        "host;x-amz-content-sha256;x-amz-date" "91e3a09dc30a9dc2c4bc485d4e32a583df4f143bf25372afa3de35657e4260cb";
    s3_put: "PUT" "/b/k" "s3", AsSent, [("x-amz-content-sha256", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")], b"" =>
        "host;x-amz-content-sha256;x-amz-date" "c08431be0911b8d971001f9ff5e953612f9a9d80727b18d598e72dfb1c6d26a8";
}

fn placeholder(name: &str, value: &str) -> Placeholder {
    let secret = Secret::new(name, Zeroizing::new(value.as_bytes().to_vec())).unwrap();
    Placeholder::of(&secret, name).unwrap()
}

/// The placeholders of one sandbox.
struct Inside {
    id: Placeholder,
    secret: Placeholder,
}

impl Inside {
    fn new() -> Self {
        Self { id: placeholder("ID", "AKIAIOSFODNN7EXAMPLE"), secret: placeholder("KEY", SECRET) }
    }

    /// A request as a client inside signs it.
    fn signed(&self, target: &str, service: &str, fields: &[(&str, &str)], names: &str) -> Parts {
        let fields: Vec<_> = [("x-amz-date", TIME)].iter().chain(fields).copied().collect();
        let mut head = head("GET", target, &fields, &self.authorization(service, names, &"0".repeat(64)), b"");
        let claim = Claim::of(&head).unwrap().unwrap();
        let key = derived(self.secret.value().as_bytes(), &claim.date, &claim.region, &claim.service);
        let form = PathForm::of_service(service)[0];
        let text = claim.text_to_sign(&head, (b"example.amazonaws.com", &claim.signed), form);
        let signature = hex(&*mac(&*key, text.as_bytes()));
        head.headers.insert(AUTHORIZATION, self.authorization(service, names, &signature).parse().unwrap());
        head
    }

    fn authorization(&self, service: &str, names: &str, signature: &str) -> String {
        authorization(self.id.value(), service, names, signature)
    }

    fn read(&self, head: &Parts) -> Result<Option<Signing>, Unfit> {
        self.read_for(head, &SignedScope::default())
    }

    fn read_for(&self, head: &Parts, scope: &SignedScope) -> Result<Option<Signing>, Unfit> {
        read(head, scope, std::iter::once(&self.id), std::iter::once(&self.secret))
    }
}

const NAMES: &str = "host;x-amz-date";

#[test]
fn what_was_signed_with_the_placeholders_is_signed_anew() {
    let inside = Inside::new();
    for (target, service, form) in [
        ("/a%20b/c", "s3", PathForm::AsSent),
        ("/a%20b//c/../d", "sts", PathForm::Encoded),
        ("/", "s3", PathForm::AsSent),
    ] {
        let signing = inside.read(&inside.signed(target, service, &[], NAMES)).unwrap().unwrap();
        assert_eq!(signing.form, form, "{target}");
    }
    let mut head =
        inside.signed("/", "sts", &[("x-amz-security-token", "theirs")], "host;x-amz-date;x-amz-security-token");
    let signing = inside.read(&head).unwrap().unwrap();
    let keys = Keys { token: Some(b"canary-token"), ..KEYS };
    signing.sign(&mut head, "example.amazonaws.com", &keys).unwrap();
    assert_eq!(head.headers["x-amz-security-token"], "canary-token");
    assert!(
        head.headers[AUTHORIZATION].to_str().unwrap().contains("SignedHeaders=host;x-amz-date;x-amz-security-token,")
    );
}

#[test]
fn a_token_is_added_and_what_is_gone_is_not_signed() {
    let inside = Inside::new();
    let mut head =
        inside.signed("/", "sts", &[("x-gone", "1"), ("content-length", "0")], "content-length;host;x-amz-date;x-gone");
    let signing = inside.read(&head).unwrap().unwrap();
    head.headers.remove("x-gone");
    signing.sign(&mut head, "example.amazonaws.com", &Keys { token: Some(b"token"), ..KEYS }).unwrap();
    assert!(
        head.headers[AUTHORIZATION].to_str().unwrap().contains("SignedHeaders=host;x-amz-date;x-amz-security-token,")
    );
}

/// Nothing may have been changed since it was signed.
#[test]
fn an_altered_request_is_refused() {
    let inside = Inside::new();
    let changes: [fn(&mut Parts); 5] = [
        |head| head.uri = "/other".parse().unwrap(),
        |head| head.uri = "/?x=1".parse().unwrap(),
        |head| head.method = http::Method::DELETE,
        |head| drop(head.headers.insert(HOST, "other.amazonaws.com".parse().unwrap())),
        |head| drop(head.extensions.insert(PayloadHash::of(b"other"))),
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut head = inside.signed("/", "s3", &[], NAMES);
        assert!(inside.read(&head).is_ok());
        change(&mut head);
        let refused = inside.read(&head).unwrap_err();
        assert!(matches!(refused, Unfit::Shape(reason) if reason.contains("does not fit")), "{index}: {refused:?}");
    }
}

#[test]
fn only_the_placeholder_signs() {
    let (inside, other) = (Inside::new(), Inside::new());
    assert_eq!(inside.read(&other.signed("/", "s3", &[], NAMES)), Err(Unfit::OtherKey));
    let mixed = Inside { id: inside.id.clone(), secret: other.secret };
    assert!(matches!(inside.read(&mixed.signed("/", "s3", &[], NAMES)), Err(Unfit::Shape(_))));
    assert_eq!(inside.read(&head("GET", "/", &[], "", b"")), Ok(None));
}

#[test]
fn the_region_and_the_service_may_be_fixed() {
    let inside = Inside::new();
    let head = inside.signed("/", "s3", &[], NAMES);
    let read = |region: &str, service: &str| {
        let scope = SignedScope { region: Some(region.to_owned()), service: Some(service.to_owned()) };
        inside.read_for(&head, &scope).is_ok()
    };
    assert_eq!([read("us-east-1", "s3"), read("eu-west-1", "s3"), read("us-east-1", "sts")], [true, false, false]);
}

fn refused(method: &str, target: &str, fields: &[(&str, &str)], authorization: &str) -> &'static str {
    Claim::of(&head(method, target, fields, authorization, b"")).unwrap_err()
}

macro_rules! shapes {
    ($($test:ident: $target:literal, $fields:expr, $authorization:expr => $says:literal;)*) => { $(
        #[test]
        fn $test() {
            let reason = refused("GET", $target, &$fields, &$authorization);
            assert!(reason.contains($says), "{reason}");
        }
    )* };
}

fn by(signed: &str) -> String {
    authorization(ID, "s3", signed, &"0".repeat(64))
}

const DATED: (&str, &str) = ("x-amz-date", TIME);

shapes! {
    a_presigned_url: "/?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0", [], "" => "presigned URL";
    a_presigned_url_in_disguise: "/?a;x%2damz%2dsignature=0", [], "" => "presigned URL";
    an_old_presigned_url: "/?AWSAccessKeyId=x&Signature=y", [], "" => "presigned URL";
    sigv4a: "/", [DATED], "AWS4-ECDSA-P256-SHA256 Credential=x" => "SigV4A";
    another_scheme: "/", [DATED], "Bearer x" => "no AWS4-HMAC-SHA256";
    the_old_version: "/", [DATED], "AWS AKIDEXAMPLE:x" => "no AWS4-HMAC-SHA256";
    two_signatures: "/", [DATED, ("authorization", "x")], by(NAMES) => "more than one header Authorization";
    a_part_twice: "/", [DATED], by(NAMES) + ", Signature=0" => "each of them once";
    a_part_is_missing: "/", [DATED], "AWS4-HMAC-SHA256 Credential=x, Signature=y" => "each of them once";
    an_unknown_part: "/", [DATED], by(NAMES) + ", Other=0" => "each of them once";
    another_terminator: "/", [DATED], by(NAMES).replace("aws4_request", "aws5_request") => "its Credential is not";
    an_odd_region: "/", [DATED], by(NAMES).replace("us-east-1", "us east") => "its Credential is not";
    a_short_signature: "/", [DATED], authorization(ID, "s3", NAMES, "00") => "64 hexadecimal";
    a_signature_in_capitals: "/", [DATED], authorization(ID, "s3", NAMES, &"A".repeat(64)) => "64 hexadecimal";
    no_date: "/", [], by("host") => "X-Amz-Date";
    two_dates: "/", [DATED, DATED], by(NAMES) => "X-Amz-Date";
    an_odd_date: "/", [("x-amz-date", "2015-08-30T12:36Z")], by(NAMES) => "YYYYMMDD";
    another_day: "/", [("x-amz-date", "20150831T000000Z")], by(NAMES) => "date of its Credential";
    not_sorted: "/", [DATED], by("x-amz-date;host") => "not sorted";
    named_twice: "/", [DATED], by("host;host;x-amz-date") => "not sorted";
    no_host: "/", [DATED], by("x-amz-date") => "lack host";
    an_own_header_unsigned: "/", [DATED, ("x-amz-acl", "public-read")], by(NAMES) => "lack a header x-amz-";
    a_header_that_is_not_there: "/", [DATED], by("host;range;x-amz-date") => "does not have";
    a_header_twice: "/", [DATED, ("x-one", "1"), ("x-one", "2")], by("host;x-amz-date;x-one") => "more than once";
    signed_pieces: "/", [DATED, ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")], by("host;x-amz-content-sha256;x-amz-date") => "payload_signing_enabled";
    signed_pieces_with_trailers: "/", [DATED, ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER")], by("host;x-amz-content-sha256;x-amz-date") => "when_required";
    an_odd_hash: "/", [DATED, ("x-amz-content-sha256", "0")], by("host;x-amz-content-sha256;x-amz-date") => "neither one hash";
}

#[test]
fn a_body_that_nobody_has_hashed_is_not_signed() {
    let mut sent = head("POST", "/", &[DATED], &by(NAMES), b"");
    sent.extensions.clear();
    assert!(Claim::of(&sent).unwrap_err().contains("is not known"));
    for mark in ["UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", EMPTY] {
        let mut sent = head(
            "PUT",
            "/",
            &[DATED, ("x-amz-content-sha256", mark)],
            &by("host;x-amz-content-sha256;x-amz-date"),
            b"",
        );
        sent.extensions.clear();
        assert_eq!(Claim::of(&sent).unwrap().unwrap().payload, mark);
    }
}

#[test]
fn an_access_key_that_would_break_the_header_is_none() {
    let inside = Inside::new();
    let mut head = inside.signed("/", "s3", &[], NAMES);
    let signing = inside.read(&head).unwrap().unwrap();
    for id in ["a/b", "a,b", "a=b", "a b", "\u{fc}"] {
        let refused = signing.sign(&mut head, "a.test", &Keys { id: id.as_bytes(), ..KEYS }).unwrap_err();
        assert!(!refused.contains(id), "{refused}");
    }
}
