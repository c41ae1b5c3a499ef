//! Upgrades: a WebSocket that echoes and takes any subprotocol, and a protocol that is none.

use aws_lc_rs::digest;
use http::header::{CONNECTION, UPGRADE};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::https::{Reply, plain};

/// 101 for a WebSocket handshake, then every message comes back; 400 for anything else.
pub fn upgrade(mut request: Request<Incoming>) -> Response<Reply> {
    let Some(key) = request.headers().get("sec-websocket-key").cloned() else {
        return plain(StatusCode::BAD_REQUEST, Reply::text("not a WebSocket handshake\n"));
    };
    let protocol = request.headers().get("sec-websocket-protocol").cloned();
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(stream) = upgraded.await {
            let _ = echo_messages(TokioIo::new(stream)).await;
        }
    });
    let mut response = switching("websocket");
    let accept = accept_key(key.as_bytes()).parse().unwrap();
    response.headers_mut().insert("sec-websocket-accept", accept);
    if let Some(protocol) = protocol {
        response.headers_mut().insert("sec-websocket-protocol", protocol);
    }
    response
}

/// 101 to `foo`, then bytes are echoed.
pub fn upgrade_to_foo(mut request: Request<Incoming>) -> Response<Reply> {
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(stream) = upgraded.await else { return };
        let (mut reader, mut writer) = tokio::io::split(TokioIo::new(stream));
        let _ = tokio::io::copy(&mut reader, &mut writer).await;
    });
    switching("foo")
}

fn switching(protocol: &'static str) -> Response<Reply> {
    let mut response = plain(StatusCode::SWITCHING_PROTOCOLS, Reply::Once(None));
    response.headers_mut().insert(CONNECTION, http::HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, http::HeaderValue::from_static(protocol));
    response
}

/// RFC 6455 frames: unmasked and sent back under the same opcode until a close frame.
async fn echo_messages(mut stream: TokioIo<Upgraded>) -> std::io::Result<()> {
    loop {
        let first = stream.read_u8().await?;
        let length = match stream.read_u8().await? & 0x7f {
            126 => usize::from(stream.read_u16().await?),
            127 => stream.read_u64().await? as usize,
            short => usize::from(short),
        };
        let mut mask = [0; 4];
        stream.read_exact(&mut mask).await?;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await?;
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        let mut frame = vec![first];
        match length {
            0..126 => frame.push(length as u8),
            126..65_536 => frame.extend([&[126][..], &(length as u16).to_be_bytes()].concat()),
            _ => frame.extend([&[127][..], &(length as u64).to_be_bytes()].concat()),
        }
        frame.extend(payload);
        stream.write_all(&frame).await?;
        // TLS may hold the end of a long frame back until then.
        stream.flush().await?;
        if first & 0x0f == 8 {
            return stream.shutdown().await;
        }
    }
}

fn accept_key(key: &[u8]) -> String {
    let text = [key, b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"].concat();
    base64(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text).as_ref())
}

/// Standard base64 with padding: also for canaries that a leak would carry in this form.
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |chunk: &[u8]| {
        let mut padded = [0u8; 4];
        padded[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(padded);
        let digit = move |place: u32| char::from(ALPHABET[(bits >> (18 - 6 * place)) as usize & 63]);
        (0..4u32).map(|place| if place as usize <= chunk.len() { digit(place) } else { '=' }).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}
