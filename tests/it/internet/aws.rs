//! A part of S3 and of DynamoDB that checks signatures by itself: one pair of keys is good, with a token on hosts of temporary keys.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use aws_lc_rs::{digest, hmac};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::https::{Reply, json_reply, plain, value};

/// What the names of the hosts end in; those of temporary keys begin with [`TEMPORARY`].
pub const SUFFIX: &str = ".aws.allowed.test";
/// Hosts that want a session token.
pub const TEMPORARY: &str = "temporary";
/// The keys that are good.
pub const ID: &str = "AKIACANARYOFAWS45678";
pub const SECRET: &str = "canaryOfAws/Secret+Key0123456789abcdefgh";
pub const TOKEN: &str = "canaryOfAwsToken/0123456789+abcdefghijklmnop==";

static OBJECTS: LazyLock<Mutex<BTreeMap<String, Vec<u8>>>> = LazyLock::new(Mutex::default);

/// Answers a request to one of the hosts. What is not signed sees what is public, and nothing else.
pub async fn serve(request: Request<Incoming>, host: &str) -> Response<Reply> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    if head.uri.path() == "/public" && !head.headers.contains_key("authorization") {
        return plain(StatusCode::OK, Reply::text("for everybody"));
    }
    if let Err(reason) = verify(&head, host, &body) {
        let text = format!("<Error><Code>SignatureDoesNotMatch</Code><Message>{reason}</Message></Error>");
        return plain(StatusCode::FORBIDDEN, Reply::text(text));
    }
    if header(&head, "x-amz-target").is_some() { dynamo(&body) } else { s3(&head, body) }
}

fn header<'a>(head: &'a Parts, name: &str) -> Option<&'a str> {
    head.headers.get(name).map(|value| value.to_str().unwrap())
}

fn mac(key: &[u8], data: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// The book's five steps, on texts.
fn verify(head: &Parts, host: &str, body: &[u8]) -> Result<(), &'static str> {
    let sent = header(head, "authorization").ok_or("not signed")?;
    let sent = sent.strip_prefix("AWS4-HMAC-SHA256 Credential=").ok_or("another algorithm")?;
    let [credential, names, signature]: [&str; 3] =
        sent.split(", ").collect::<Vec<_>>().try_into().map_err(|_| "not three parts")?;
    let (id, scope) = credential.split_once('/').ok_or("no scope")?;
    let names = names.strip_prefix("SignedHeaders=").ok_or("no names")?;
    let signature = signature.strip_prefix("Signature=").ok_or("no signature")?;
    let expected = host.starts_with(TEMPORARY).then_some(TOKEN);
    if (id, header(head, "x-amz-security-token")) != (ID, expected) {
        return Err("another key or token");
    }
    let unsigned = |name: &str| name.starts_with("x-amz-") && !names.split(';').any(|signed| signed == name);
    if head.headers.keys().any(|name| unsigned(name.as_str())) {
        return Err("a header is not signed");
    }
    let [date, region, service, "aws4_request"] = scope.split('/').collect::<Vec<_>>()[..] else {
        return Err("another scope");
    };
    let path = if service == "s3" { head.uri.path().to_owned() } else { head.uri.path().replace('%', "%25") };
    let mut query: Vec<String> = head.uri.query().unwrap_or_default().split('&').map(str::to_owned).collect();
    query.iter_mut().filter(|pair| !pair.is_empty() && !pair.contains('=')).for_each(|pair| pair.push('='));
    query.sort();
    let mut fields = String::new();
    for name in names.split(';') {
        let value = if name == "host" { host } else { header(head, name).ok_or("a signed header is missing")? };
        fields += &format!("{name}:{}\n", value.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let payload = header(head, "x-amz-content-sha256").map_or_else(|| sha256(body), str::to_owned);
    if payload.len() == 64 && payload != sha256(body) {
        return Err("another body");
    }
    let canonical = format!("{}\n{path}\n{}\n{fields}\n{names}\n{payload}", head.method, query.join("&"));
    let time = header(head, "x-amz-date").ok_or("no date")?;
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha256(canonical.as_bytes()));
    let key = [date, region, service, "aws4_request"]
        .iter()
        .fold(format!("AWS4{SECRET}").into_bytes(), |key, part| mac(&key, part));
    if hex(&mac(&key, &text)) == signature { Ok(()) } else { Err("another signature") }
}

fn dynamo(body: &[u8]) -> Response<Reply> {
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    json_reply(&json!({ "Item": { "table": { "S": asked["TableName"] }, "length": { "N": body.len().to_string() } } }))
}

fn s3(head: &Parts, body: Vec<u8>) -> Response<Reply> {
    let (path, mut objects) = (head.uri.path(), OBJECTS.lock().unwrap());
    let query = head.uri.query().unwrap_or_default();
    match head.method {
        Method::PUT => {
            let streamed = header(head, "x-amz-content-sha256") == Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER");
            objects.insert(path.to_owned(), if streamed { pieces(&body) } else { body });
            plain(StatusCode::OK, Reply::text(""))
        }
        _ if query.contains("list-type=2") => {
            let text = format!(
                "<ListBucketResult><EncodingType>url</EncodingType><Name>b</Name><KeyCount>1</KeyCount><Contents><Key>{}</Key><Size>{}</Size></Contents></ListBucketResult>",
                value(query, "prefix"),
                objects.len()
            );
            plain(StatusCode::OK, Reply::text(text))
        }
        _ => match objects.get(path) {
            Some(object) => plain(StatusCode::OK, Reply::text(object.clone())),
            None => plain(StatusCode::NOT_FOUND, Reply::text("<Error><Code>NoSuchKey</Code></Error>")),
        },
    }
}

/// The data of a body in `aws-chunked`, without its trailers.
fn pieces(mut body: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    while let Some(end) = memchr::memmem::find(body, b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            break;
        }
        data.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 2 + length + 2..];
    }
    data
}
