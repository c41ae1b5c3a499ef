//! The canonical form of a request and the keys that sign it.

use aws_lc_rs::digest::{Context, SHA256, digest};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign_to_buffer};
use http::request::Parts;
use zeroize::Zeroizing;

use super::super::escape::encode;
use super::super::target::joined;

/// A host, and the names of the headers that are signed.
pub(super) type Named<'a> = (&'a [u8], &'a [String]);

/// How a path is written into the canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathForm {
    /// Byte for byte, as S3 has it.
    AsSent,
    /// Without dot segments and repeated slashes, each segment encoded once more, as all others have it.
    Encoded,
}

impl PathForm {
    /// Both forms, first the one that a service has by the book. Clients of services that speak like S3 choose for themselves.
    pub(super) fn of_service(service: &str) -> [Self; 2] {
        if service.starts_with("s3") { [Self::AsSent, Self::Encoded] } else { [Self::Encoded, Self::AsSent] }
    }

    fn of(self, path: &str) -> Zeroizing<Vec<u8>> {
        match self {
            Self::AsSent if path.is_empty() => joined(&[b"/"]),
            Self::AsSent => joined(&[path.as_bytes()]),
            Self::Encoded => normalised(path),
        }
    }
}

fn normalised(path: &str) -> Zeroizing<Vec<u8>> {
    let mut segments = Vec::<&str>::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let encoded: Vec<Zeroizing<Vec<u8>>> = segments.iter().map(|segment| encode(segment.as_bytes())).collect();
    let mut pieces: Vec<&[u8]> = encoded.iter().flat_map(|segment| [&b"/"[..], segment.as_slice()]).collect();
    if pieces.is_empty() || path.ends_with(['/']) || path.ends_with("/.") || path.ends_with("/..") {
        pieces.push(b"/");
    }
    joined(&pieces)
}

/// The hash of the canonical request. The request is never put together: it holds credentials.
pub(super) fn of_request(
    Parts { method, uri, headers, .. }: &Parts,
    (host, signed): Named<'_>,
    form: PathForm,
    payload: &str,
) -> [u8; 32] {
    let mut hash = Context::new(&SHA256);
    let mut add = |parts: &[&[u8]]| parts.iter().for_each(|part| hash.update(part));
    add(&[method.as_str().as_bytes(), b"\n", &form.of(uri.path()), b"\n"]);
    for (index, (name, value)) in sorted_query(uri.query().unwrap_or_default()).iter().enumerate() {
        add(&[if index > 0 { &b"&"[..] } else { b"" }, name, b"=", value]);
    }
    add(&[b"\n"]);
    for name in signed {
        add(&[name.as_bytes(), b":"]);
        if name == "host" {
            add(&[host]);
        } else {
            for (index, value) in headers.get_all(name.as_str()).iter().enumerate() {
                add(&[if index > 0 { &b","[..] } else { b"" }]);
                // Runs of white space count as one space.
                let words = value.as_bytes().split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
                words.enumerate().for_each(|(index, word)| add(&[if index > 0 { &b" "[..] } else { b"" }, word]));
            }
        }
        add(&[b"\n"]);
    }
    add(&[b"\n", signed.join(";").as_bytes(), b"\n", payload.as_bytes()]);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(hash.finish().as_ref());
    bytes
}

type Pair = (Zeroizing<Vec<u8>>, Zeroizing<Vec<u8>>);

fn sorted_query(query: &str) -> Vec<Pair> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<Pair> = pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (encode(&plain(name)), encode(&plain(value)))
        })
        .collect();
    pairs.sort_unstable_by(|a, b| (a.0.as_slice(), a.1.as_slice()).cmp(&(b.0.as_slice(), b.1.as_slice())));
    pairs
}

/// Escapes of two digits as what they stand for; all else stays.
fn plain(text: &str) -> Zeroizing<Vec<u8>> {
    let mut plain = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let escaped = (*first == b'%').then(|| Some(digit(0)? << 4 | digit(1)?)).flatten();
        match escaped.map(u8::try_from) {
            Some(Ok(byte)) => {
                plain.push(byte);
                rest = &tail[2..];
            }
            Some(Err(_)) | None => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    plain
}

/// The key for one day, region and service.
pub(super) fn derived(secret: &[u8], date: &str, region: &str, service: &str) -> Zeroizing<[u8; 32]> {
    let first = joined(&[b"AWS4", secret]);
    let day = mac(&first, date.as_bytes());
    let there = mac(&*day, region.as_bytes());
    let to = mac(&*there, service.as_bytes());
    mac(&*to, b"aws4_request")
}

pub(super) fn mac(key: &[u8], data: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut tag = Zeroizing::new([0; 32]);
    sign_to_buffer(&Key::new(HMAC_SHA256, key), data, &mut *tag).expect("SHA-256 has 32 bytes");
    tag
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash of a whole body, as a signature has it.
pub(super) fn hash_of(body: &[u8]) -> String {
    hex(digest(&SHA256, body).as_ref())
}
