//! What a client says that it has signed, read from its headers and checked for shape.

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;

use super::super::escape::is_name;
use super::canonical::hash_of;

/// The hash of a body that was held until it was whole, among a request's extensions.
#[derive(Clone, Debug)]
pub struct PayloadHash(String);

impl PayloadHash {
    /// The hash of this body.
    pub fn of(body: &[u8]) -> Self {
        Self(hash_of(body))
    }

    /// Whether a request is signed, and does not say itself what the hash of its body is.
    pub fn is_missing(headers: &HeaderMap) -> bool {
        headers.contains_key(AUTHORIZATION) && !headers.contains_key(CONTENT_HASH)
    }
}

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const CONTENT_HASH: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
/// What is in the query of a request that is signed there, by this version and the one before.
const IN_QUERY: [&str; 5] =
    ["X-Amz-Signature", "X-Amz-Credential", "X-Amz-Algorithm", "X-Amz-Security-Token", "AWSAccessKeyId"];

/// The parts of a signature.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) key: String,
    pub(super) date: String,
    pub(super) region: String,
    pub(super) service: String,
    pub(super) signed: Vec<String>,
    pub(super) signature: String,
    /// Of `X-Amz-Date`.
    pub(super) time: String,
    /// The hash of the body, or what stands for one.
    pub(super) payload: String,
}

/// Why a signature is not one that can be made anew, for people, with what to do.
type Reason = &'static str;

/// Whether a header is one of AWS's own, all of which are signed. `x-amzn-trace-id` is none.
pub(super) fn is_amz(name: &str) -> bool {
    name.starts_with("x-amz-")
}

impl Claim {
    /// Reads the signature of a request, where it has one.
    ///
    /// # Errors
    /// [`Reason`].
    pub(super) fn of(head: &Parts) -> Result<Option<Self>, Reason> {
        if head.uri.query().is_some_and(is_signed) {
            return Err(
                "it is signed in its query (a presigned URL), which this version does not sign anew: send the request with its signature in the header Authorization",
            );
        }
        let mut lines = head.headers.get_all(AUTHORIZATION).iter();
        let line = match (lines.next(), lines.next()) {
            (None, _) => return Ok(None),
            (Some(line), None) => line.to_str().map_err(|_| "its header Authorization is not ASCII")?,
            (Some(_), Some(_)) => return Err("it has more than one header Authorization"),
        };
        let (algorithm, rest) = line.split_once(' ').unwrap_or((line, ""));
        match algorithm {
            ALGORITHM => {}
            "AWS4-ECDSA-P256-SHA256" => {
                return Err(
                    "it is signed with SigV4A (AWS4-ECDSA-P256-SHA256), which this version does not make: set AWS_AUTH_SCHEME_PREFERENCE=sigv4 and use an endpoint of one region",
                );
            }
            _ => return Err("its header Authorization is no AWS4-HMAC-SHA256 signature"),
        }
        let [credential, signed, signature] = fields(rest)
            .ok_or("its header Authorization is not Credential=…, SignedHeaders=…, Signature=…, each of them once")?;
        let (key, [date, region, service]) =
            scope(credential).ok_or("its Credential is not KEY/DATE/REGION/SERVICE/aws4_request")?;
        if !is_hash(signature) {
            return Err("its Signature is not 64 hexadecimal digits in small letters");
        }
        let time = time(&head.headers, date)?;
        let signed = signed_headers(&head.headers, signed)?;
        let payload = payload(head)?;
        let [key, date, region, service, signature] = [key, date, region, service, signature].map(str::to_owned);
        Ok(Some(Self { key, date, region, service, signed, signature, time, payload }))
    }
}

fn is_signed(query: &str) -> bool {
    let mut names = query.split(['&', ';']).map(|pair| pair.split('=').next().unwrap_or_default());
    names.any(|name| IN_QUERY.iter().any(|ours| is_name(name.as_bytes(), ours)))
}

fn fields(text: &str) -> Option<[&str; 3]> {
    let mut found = [None; 3];
    for field in text.split(',') {
        let (name, value) = field.trim().split_once('=')?;
        let at = ["Credential", "SignedHeaders", "Signature"].iter().position(|known| *known == name)?;
        if found[at].replace(value).is_some() {
            return None;
        }
    }
    let [credential, signed, signature] = found;
    Some([credential?, signed?, signature?])
}

fn scope(credential: &str) -> Option<(&str, [&str; 3])> {
    let parts: Vec<&str> = credential.split('/').collect();
    let [key, date, region, service, "aws4_request"] = parts[..] else { return None };
    let is_date = date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit());
    let is_fit = !key.is_empty() && is_date && [region, service].into_iter().all(is_scope_name);
    is_fit.then_some((key, [date, region, service]))
}

/// The name of a region or a service.
fn is_scope_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The one value of a header.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(HeaderValue::to_str), values.next()) {
        (Some(Ok(value)), None) => Some(value),
        (Some(Ok(_) | Err(_)) | None, _) => None,
    }
}

fn time(headers: &HeaderMap, date: &str) -> Result<String, Reason> {
    let time = one(headers, &DATE).ok_or("it has no header X-Amz-Date, or more than one")?;
    let is_time = |(at, byte): (usize, u8)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    if time.len() != 16 || !time.bytes().enumerate().all(is_time) {
        return Err("its X-Amz-Date is not YYYYMMDDTHHMMSSZ");
    }
    if !time.starts_with(date) {
        return Err("the date of its Credential is not that of its X-Amz-Date");
    }
    Ok(time.to_owned())
}

fn signed_headers(headers: &HeaderMap, list: &str) -> Result<Vec<String>, Reason> {
    let names: Vec<&str> = list.split(';').collect();
    if !names.is_sorted_by(|a, b| a < b) {
        return Err("its SignedHeaders are not sorted, or name a header twice");
    }
    if !names.contains(&"host") {
        return Err("its SignedHeaders lack host");
    }
    if headers.keys().any(|name| is_amz(name.as_str()) && !names.contains(&name.as_str())) {
        return Err("its SignedHeaders lack a header x-amz-… that it has");
    }
    for name in names.iter().filter(|name| **name != "host") {
        // Names are in small letters in the map.
        let known = headers.keys().find(|known| known.as_str() == *name);
        let count = known.map_or(0, |known| headers.get_all(known).iter().count());
        match count {
            0 => {
                return Err(
                    "its SignedHeaders name a header that it does not have, or that is taken off here (Range is, unless the binding has scrub = false)",
                );
            }
            1 => {}
            _ => return Err("a header among its SignedHeaders stands there more than once"),
        }
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

fn payload(head: &Parts) -> Result<String, Reason> {
    if !head.headers.contains_key(CONTENT_HASH) {
        let known = head.extensions.get::<PayloadHash>().map(|PayloadHash(hash)| hash.clone());
        return known.ok_or("the hash of its body is not known: send it in the header x-amz-content-sha256");
    }
    match one(&head.headers, &CONTENT_HASH) {
        Some(hash) if is_hash(hash) => Ok(hash.to_owned()),
        Some(mark @ ("UNSIGNED-PAYLOAD" | "STREAMING-UNSIGNED-PAYLOAD-TRAILER")) => Ok(mark.to_owned()),
        Some(mark) if mark.starts_with("STREAMING-AWS4-") => Err(
            "each piece of its body is signed (STREAMING-AWS4-…), and a body is passed on as it comes: turn payload signing off (payload_signing_enabled = false) and set AWS_REQUEST_CHECKSUM_CALCULATION=when_required",
        ),
        Some(_) | None => Err(
            "its x-amz-content-sha256 is neither one hash nor UNSIGNED-PAYLOAD nor STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        ),
    }
}
