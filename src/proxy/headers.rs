//! Which headers go on, and in what form.

use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, COOKIE,
    HOST, HeaderMap, HeaderName, HeaderValue, MAX_FORWARDS, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const ALT_SVC: HeaderName = HeaderName::from_static("alt-svc");

/// Takes off what belongs to one hop (RFC 9110 section 7.6.1): the fields that `Connection` names, then the known ones.
/// A client cannot drop `Host` or a framing field by naming it, and `TE: trailers` stays, since gRPC servers ask for it.
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        for name in named_by_connection(headers) {
            if name != HOST && name != CONTENT_LENGTH && name != TE {
                headers.remove(name);
            }
        }
        headers.remove(CONNECTION);
    }
    for name in [KEEP_ALIVE, PROXY_CONNECTION, PROXY_AUTHORIZATION, PROXY_AUTHENTICATE, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    if headers.contains_key(TE) {
        let trailers = list(headers, &TE).any(|token| token.eq_ignore_ascii_case("trailers"));
        headers.remove(TE);
        if trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
    }
}

/// What some servers read as `Transfer-Encoding` and `Content-Length`.
pub const FRAMING_LOOK_ALIKES: [&str; 2] = ["transfer_encoding", "content_length"];

/// What no trailer may say, since a server that merged it into the head would frame, route or judge another request (RFC 9110
/// section 6.5.1). One hop's own fields are among it.
const NO_TRAILERS: [HeaderName; 11] = [
    AUTHORIZATION,
    CACHE_CONTROL,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    CONTENT_TYPE,
    COOKIE,
    HOST,
    MAX_FORWARDS,
    TE,
    TRAILER,
];

/// Takes out of a request's trailers what belongs into a head, or to one hop.
pub fn clean_trailers(fields: &mut HeaderMap) {
    strip_hop_by_hop(fields);
    NO_TRAILERS.iter().for_each(|name| drop(fields.remove(name)));
    FRAMING_LOOK_ALIKES.iter().for_each(|name| drop(fields.remove(*name)));
}

/// The header that carries the code of a refusal. No upstream may set it.
pub const DENIAL: HeaderName = HeaderName::from_static("x-sandbox-proxy-denial");

/// Takes off what a response must not say to the sandbox: one hop's fields, an offer of another way in, a refusal that is
/// not the proxy's, and a length that a Transfer-Encoding overrides (RFC 9112 section 6.3).
pub fn clean_response(headers: &mut HeaderMap) {
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    strip_hop_by_hop(headers);
    headers.remove(ALT_SVC);
    headers.remove(DENIAL);
}

/// The protocol that a client asks to change to, when it may: WebSocket only.
pub fn websocket_upgrade(headers: &HeaderMap) -> bool {
    list(headers, &CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"))
        && list(headers, &UPGRADE).any(|token| token.eq_ignore_ascii_case("websocket"))
}

/// Puts the two fields of a WebSocket upgrade back, once the hop-by-hop ones are off.
pub fn set_websocket_upgrade(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

/// One `Cookie` line out of the several that HTTP/2 may carry (RFC 9113 section 8.2.3).
pub fn join_cookies(headers: &mut HeaderMap) {
    let mut lines = headers.get_all(COOKIE).iter();
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else { return };
    let mut joined = first.as_bytes().to_vec();
    for line in std::iter::once(second).chain(lines) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(line.as_bytes());
    }
    // Every piece was a header value, so the whole is one.
    if let Ok(value) = HeaderValue::from_bytes(&joined) {
        headers.insert(COOKIE, value);
    }
}

fn list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    list(headers, &CONNECTION).filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn one_hops_fields_do_not_go_on() {
        let mut headers = map(&[
            ("connection", "close, X-Internal, host, content-length, authorization"),
            ("x-internal", "s"),
            ("authorization", "mine"),
            ("host", "a.test"),
            ("content-length", "3"),
            ("proxy-authorization", "Basic x"),
            ("proxy-connection", "keep-alive"),
            ("keep-alive", "timeout=5"),
            ("te", "gzip"),
            ("upgrade", "h2c"),
            ("accept", "*/*"),
        ]);
        strip_hop_by_hop(&mut headers);
        assert_eq!(names(&headers), ["accept", "content-length", "host"]);
    }

    #[test]
    fn te_trailers_stays_even_when_connection_names_it() {
        let mut headers = map(&[("connection", "te"), ("te", "gzip, trailers")]);
        strip_hop_by_hop(&mut headers);
        assert_eq!(headers.get(TE).map(HeaderValue::as_bytes), Some(&b"trailers"[..]));
    }

    #[test]
    fn a_length_beside_a_transfer_encoding_is_dropped_from_a_response() {
        let mut headers = map(&[("transfer-encoding", "chunked"), ("content-length", "3"), ("alt-svc", "h3=\":443\"")]);
        clean_response(&mut headers);
        assert!(headers.is_empty());
    }

    #[test]
    fn only_websocket_is_an_upgrade() {
        assert!(websocket_upgrade(&map(&[("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")])));
        assert!(!websocket_upgrade(&map(&[("connection", "Upgrade"), ("upgrade", "foo")])));
        assert!(!websocket_upgrade(&map(&[("upgrade", "websocket")])));
    }

    #[test]
    fn cookies_are_joined() {
        let mut headers = HeaderMap::new();
        for crumb in ["a=1", "b=2", "c=3"] {
            headers.append(COOKIE, HeaderValue::from_static(crumb));
        }
        join_cookies(&mut headers);
        assert_eq!(headers.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2; c=3"]);
    }
}
