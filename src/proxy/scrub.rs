//! What a host with a binding answers is searched for the values of its bindings, and masked, before the sandbox sees it.
//!
//! The request is kept from asking for an answer that cannot be searched; an answer that cannot be all the same is refused
//! before anything of it is passed on, or breaks off where that shows later.

mod body;
mod decode;
mod frames;

use std::sync::Arc;

use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_RANGE, RANGE, SEC_WEBSOCKET_EXTENSIONS, TRANSFER_ENCODING,
};
use http::{Response, StatusCode};

use crate::credentials::{Scrubber, Watch};

use super::Connection;
use super::refusal::Refusal;

pub use body::{BodyFilter, Unscrubbable};
pub use decode::{Coding, Corrupt};
pub use frames::{Framing, Masker, Unreadable};

/// Codings of one body, at most.
const CODINGS_MAX: usize = 2;

/// What compresses messages one by one, or asks for a part or a difference of an answer (RFC 9110 section 14, RFC 3229), which
/// could cut a value in two.
const NOT_ASKED_FOR: [HeaderName; 6] = [
    RANGE,
    IF_RANGE,
    SEC_WEBSOCKET_EXTENSIONS,
    HeaderName::from_static("a-im"),
    GRPC_ACCEPT_ENCODING,
    HeaderName::from_static("connect-accept-encoding"),
];
const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// How messages of an answer are compressed one by one.
const MESSAGE_ENCODINGS: [HeaderName; 2] =
    [HeaderName::from_static("grpc-encoding"), HeaderName::from_static("connect-content-encoding")];
/// Sums of a body that is passed on in another coding (RFC 9530, RFC 3230, RFC 1864).
const DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
];

/// Takes out of a request what would have the answer come in a form that cannot be searched.
pub fn prepare_request(fields: &mut HeaderMap) {
    NOT_ASKED_FOR.iter().for_each(|name| drop(fields.remove(name)));
    if !fields.contains_key(ACCEPT_ENCODING) {
        return;
    }
    let offers = list(fields, &ACCEPT_ENCODING).filter(|offer| {
        let name = offer.split(';').next().unwrap_or_default().trim();
        Coding::parse(name).is_some() || name.eq_ignore_ascii_case("identity")
    });
    let offers = offers.collect::<Vec<_>>().join(", ");
    let offers = HeaderValue::from_str(&offers).ok().filter(|offers| !offers.is_empty());
    fields.insert(ACCEPT_ENCODING, offers.unwrap_or(HeaderValue::from_static("identity")));
}

/// Masks the head of an answer, and gives what its body is to go through. `head` is for a request of that method.
///
/// # Errors
/// [`Refusal::Unscrubbable`].
pub fn take_response<B>(
    connection: &Connection,
    values: Arc<Watch>,
    head: bool,
    response: &mut Response<B>,
) -> Result<BodyFilter, Refusal> {
    let status = response.status();
    filter(values, head, status, response.headers_mut()).map_err(|reason| {
        let authority = connection.destination.authority.clone();
        Refusal::Unscrubbable { authority, reason: reason.to_owned() }
    })
}

/// Why an answer is refused, as the end of a sentence.
type Reason = &'static str;

fn filter(values: Arc<Watch>, head: bool, status: StatusCode, fields: &mut HeaderMap) -> Result<BodyFilter, Reason> {
    if status == StatusCode::SWITCHING_PROTOCOLS {
        if fields.contains_key(SEC_WEBSOCKET_EXTENSIONS) {
            return Err("it agrees to an extension of WebSocket that was not offered");
        }
        mask_headers(&values.current(), fields);
        return Ok(BodyFilter::new(values, &[], Framing::WebSocket));
    }
    if matches!(status, StatusCode::PARTIAL_CONTENT | StatusCode::IM_USED) {
        return Err("it is a part of an answer, which was not asked for");
    }
    let bodiless = head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let codings = match codings(fields) {
        Ok(codings) => codings,
        Err(_) if bodiless => Vec::new(),
        Err(reason) => return Err(reason),
    };
    if !bodiless && MESSAGE_ENCODINGS.iter().any(|name| list(fields, name).any(|coding| !is_identity(coding))) {
        return Err("its messages are compressed, which was not asked for");
    }
    mask_headers(&values.current(), fields);
    fields.remove(ACCEPT_RANGES);
    if !codings.is_empty() {
        [CONTENT_ENCODING, CONTENT_LENGTH].iter().chain(&DIGESTS).for_each(|name| drop(fields.remove(name)));
        weaken_etag(fields);
    }
    Ok(BodyFilter::new(values, &codings, Framing::None))
}

/// The codings of a body, in the order in which they were applied.
fn codings(fields: &HeaderMap) -> Result<Vec<Coding>, Reason> {
    if list(fields, &TRANSFER_ENCODING).any(|coding| !coding.eq_ignore_ascii_case("chunked") && !is_identity(coding)) {
        return Err("it has a transfer coding, which was not asked for");
    }
    // What is no text names no coding.
    let unreadable = fields.get_all(CONTENT_ENCODING).iter().any(|value| value.to_str().is_err());
    let named = list(fields, &CONTENT_ENCODING).filter(|name| !is_identity(name));
    let codings = named.map(Coding::parse).collect::<Option<Vec<_>>>().filter(|_| !unreadable);
    match codings {
        None => Err("it has a content coding that this proxy does not know"),
        Some(codings) if codings.len() > CODINGS_MAX => Err("it has more than two content codings"),
        Some(codings) => Ok(codings),
    }
}

/// Masks what is found in header or trailer values, and takes off a field whose name holds something. A length stays as it is,
/// since the body has it.
pub(super) fn mask_headers(scrubber: &Scrubber, fields: &mut HeaderMap) {
    let named: Vec<HeaderName> =
        fields.keys().filter(|name| scrubber.is_in_small_letters(name.as_str().as_bytes())).cloned().collect();
    named.iter().for_each(|name| drop(fields.remove(name)));
    for (name, value) in fields.iter_mut() {
        if *name != CONTENT_LENGTH && scrubber.is_in(value.as_bytes()) {
            let mut bytes = value.as_bytes().to_vec();
            scrubber.mask_in_place(&mut bytes);
            *value = HeaderValue::from_bytes(&bytes).unwrap_or(HeaderValue::from_static(""));
        }
    }
}

/// What is passed on is not the same to the byte (RFC 9110 section 8.8.3).
fn weaken_etag(fields: &mut HeaderMap) {
    let weak = fields.get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    if let Some(Ok(weak)) = weak.map(|tag| HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())) {
        fields.insert(ETAG, weak);
    }
}

fn is_identity(coding: &str) -> bool {
    coding.is_empty() || coding.eq_ignore_ascii_case("identity")
}

fn list<'a>(fields: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = fields.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests;
