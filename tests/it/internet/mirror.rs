//! An upstream that shows the credential it was sent (the header `x-key`) in every place and form.
//!
//! `/mirror?coding=C&cut=N&status=S&type=T`: in the head, in a body of that Content-Encoding (several with commas, the last one
//! applied last), cut into frames of N bytes, and in a trailer. `message=gzip` says that gRPC messages are compressed.
//! `before=HEX` puts these bytes before a body of any type. `broken=yes` spoils the end of the body. `/mirror-events?id=X&coding=C`: each text sent to `/send?id=X`, `{KEY}` replaced.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::sync::mpsc::UnboundedReceiver;

use super::coding::Encoder;
use super::https::{Reply, plain, value};
use super::websocket::base64;

/// Shows it at once. `head` has no body.
pub fn show(query: &str, key: &str, head: bool) -> Response<Reply> {
    let codings: Vec<&str> = value(query, "coding").split(',').filter(|coding| !coding.is_empty()).collect();
    let kind = if value(query, "type").is_empty() { "text/plain" } else { value(query, "type") };
    let before = value(query, "before");
    let mut body = match (before, kind.starts_with("application/grpc")) {
        ("", true) => messages(key),
        ("", false) => text(key).into_bytes(),
        (hex, _) => [bytes(hex), text(key).into_bytes()].concat(),
    };
    for coding in &codings {
        let mut encoder = Encoder::new(coding);
        body = [encoder.push(&body), encoder.finish()].concat();
    }
    if value(query, "broken") == "yes" {
        body.truncate(body.len() - 3);
    }
    let status = value(query, "status").parse().unwrap_or(200);
    let cut = value(query, "cut").parse().unwrap_or(usize::MAX).min(body.len().max(1));
    let pieces = body.chunks(cut).map(Bytes::copy_from_slice).collect();
    let bodiless = head || matches!(status, 204 | 304);
    let mut trailers = HeaderMap::new();
    trailers.insert("x-trailer", format!("t {key}").parse().unwrap());
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let pieces = Pieces { pieces, trailers: Some(trailers) };
    let reply = if bodiless { Reply::Once(None) } else { Reply::Other(pieces.boxed_unsync()) };
    let mut response = plain(StatusCode::from_u16(status).unwrap(), reply);
    let fields = response.headers_mut();
    let mut field = |name: &'static str, value: &str| {
        fields.append(name, value.parse().unwrap());
    };
    field("content-type", kind);
    field("trailer", "x-trailer, grpc-status");
    field("etag", "\"mirror\"");
    field("accept-ranges", "bytes");
    field("x-key-is", &format!("<{key}>"));
    field("set-cookie", &format!("session={key}; Path=/"));
    field("location", &format!("https://elsewhere.test/?key={}", percent(key)));
    field("www-authenticate", &format!("Basic {}", base64(format!("user:{key}").as_bytes())));
    fields.append(
        HeaderName::from_bytes(format!("x-{}-x", percent(key)).as_bytes()).unwrap(),
        HeaderValue::from_static("1"),
    );
    if !codings.is_empty() {
        fields.append("content-encoding", codings.join(", ").parse().unwrap());
        fields.append("repr-digest", HeaderValue::from_static("sha-256=:x:"));
    }
    if !value(query, "message").is_empty() {
        fields.append("grpc-encoding", value(query, "message").parse().unwrap());
    }
    response
}

/// Shows it in each text that comes.
pub fn show_events(query: &str, key: String, events: UnboundedReceiver<Bytes>) -> Response<Reply> {
    let coding = value(query, "coding");
    let body = Coded { events, key, encoder: Some(Encoder::new(coding)) };
    let mut response = plain(StatusCode::OK, Reply::Other(body.boxed_unsync()));
    response.headers_mut().insert("content-type", HeaderValue::from_static("text/event-stream"));
    if !coding.is_empty() {
        response.headers_mut().insert("content-encoding", coding.parse().unwrap());
    }
    response
}

/// One frame for each piece, whatever it would look like whole.
struct Pieces {
    pieces: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
}

struct Coded {
    events: UnboundedReceiver<Bytes>,
    key: String,
    encoder: Option<Encoder>,
}

type Next = Poll<Option<Result<Frame<Bytes>, Infallible>>>;

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Next {
        let piece = self.pieces.pop_front().map(Frame::data);
        Poll::Ready(piece.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }
}

impl Body for Coded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Next {
        let Self { events, key, encoder } = self.get_mut();
        events.poll_recv(context).map(|event| {
            let piece = match event {
                Some(text) => {
                    let text = String::from_utf8_lossy(&text).replace("{KEY}", key);
                    encoder.as_mut()?.push(text.as_bytes())
                }
                None => encoder.take()?.finish(),
            };
            Some(Ok(Frame::data(piece.into())))
        })
    }
}

/// A body that ends in what may begin the key.
fn text(key: &str) -> String {
    let basic = base64(format!("user:{key}").as_bytes());
    let hex = key.bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("raw {key} twice {key}{key}\nbasic {basic}\npercent {}\nhex {hex}\nends with {}", percent(key), &key[..6])
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Two gRPC messages.
fn messages(key: &str) -> Vec<u8> {
    let message = |text: String| [&[0][..], &(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
    [message(format!("\n\x0e{key} and {}", &key[..4])), message(key.to_owned())].concat()
}

fn percent(key: &str) -> String {
    key.replace('+', "%2B").replace('/', "%2F")
}
