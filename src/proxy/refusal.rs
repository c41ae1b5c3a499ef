//! Every way in which the proxy says no, and the one place that turns it into HTTP.

use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHENTICATE,
};
use http::{Method, Response, StatusCode};
use serde::Serialize;

use crate::audit::AuditUnavailable;
use crate::credentials::header::InjectError;
use crate::dns::ResolveError;
use crate::policy::Denial;
use crate::policy::github::OutOfScope;
use crate::policy::github::forms::{self, Asked};
use crate::types::Authority;

use super::body::ProxyBody;
use super::capture::port::NotAdmitted;
use super::headers::DENIAL;

/// Why a request gets no answer from upstream. `Display` is what the sandbox may read.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The policy says no.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// The request cannot be read in one way only.
    #[error("the request is malformed: {0}")]
    Malformed(String),
    /// The host asked for is not the one that the connection was permitted for.
    #[error("this connection is for {authorized}, and the request asks for {asked}")]
    Misdirected {
        /// What the request, or the TLS handshake, asked for.
        asked: String,
        /// What CONNECT, SNI or the address dialled asked for.
        authorized: Authority,
    },
    /// The name has no address that can be dialled.
    #[error("{0}")]
    Unresolved(ResolveError),
    /// No address took the connection.
    #[error("{authority} cannot be reached: {reason}")]
    Unreachable {
        /// Where it should have gone.
        authority: Authority,
        /// What the system said.
        reason: String,
    },
    /// The upstream's certificate or handshake is not acceptable. Nothing was sent.
    #[error("{authority} could not be verified: {reason}")]
    Unverified {
        /// Where it should have gone.
        authority: Authority,
        /// What is wrong with it.
        reason: String,
    },
    /// The connection broke, or what came back is not HTTP.
    #[error("{authority} gave no usable answer: {reason}")]
    BadAnswer {
        /// Who answered.
        authority: Authority,
        /// What went wrong.
        reason: String,
    },
    /// The answer may hold a secret that was put into the request, and cannot be searched for it. Nothing of it is passed on.
    #[error("the answer of {authority} cannot be searched for the secret that it was sent: {reason}")]
    Unscrubbable {
        /// Who answered.
        authority: Authority,
        /// What is in the way.
        reason: String,
    },
    /// The request does not get its credentials.
    #[error(transparent)]
    NoCredential(#[from] InjectError),
    /// A GitHub binding does not cover it.
    #[error("{}", denial.message)]
    OutOfScope {
        /// Why.
        denial: OutOfScope,
        /// How the client is told so that it shows the reason.
        form: Box<forms::Refusal>,
    },
    /// Its body is signed, in a way that needs all of it first, and longer than what is held.
    #[error(
        "the request to {authority} is signed, has a body of more than 1 MiB, and does not say what was signed of it: send x-amz-content-sha256"
    )]
    TooLongToSign {
        /// Where it should have gone.
        authority: Authority,
    },
    /// Nobody knows whose it is.
    #[error(transparent)]
    NotAdmitted(#[from] NotAdmitted),
    /// The audit cannot take a row.
    #[error("the proxy cannot record this request, so it does not go on")]
    Unrecorded(#[from] AuditUnavailable),
}

#[derive(Serialize)]
struct Explanation<'a> {
    error: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cure: Option<String>,
}

impl From<ResolveError> for Refusal {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Denied(denial) => Self::Denied(denial),
            ResolveError::NotFound(_)
            | ResolveError::NoAddress(_)
            | ResolveError::Unanswered(_)
            | ResolveError::OwnAddresses => Self::Unresolved(error),
        }
    }
}

impl Refusal {
    /// The stable code, for the header and the audit.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Denied(denial) => denial.code(),
            Self::Malformed(_) => "malformed_request",
            Self::Misdirected { .. } => "misdirected",
            Self::Unresolved(_) => "upstream_unresolved",
            Self::Unreachable { .. } => "upstream_unreachable",
            Self::Unverified { .. } => "upstream_unverified",
            Self::BadAnswer { .. } => "upstream_bad_answer",
            Self::Unscrubbable { .. } => "unscrubbable_answer",
            Self::NoCredential(InjectError::Unavailable { .. }) => "credential_unavailable",
            Self::NoCredential(InjectError::NotPlaceholder { .. }) => "credential_not_accepted",
            Self::NoCredential(InjectError::Unsignable { .. }) => "signature_not_accepted",
            Self::NoCredential(InjectError::Misplaced { .. }) => "placeholder_misplaced",
            Self::OutOfScope { denial, .. } => denial.code.as_str(),
            Self::TooLongToSign { .. } => "body_too_long_to_sign",
            Self::NotAdmitted(NotAdmitted::Unavailable(_)) => "identity_unavailable",
            Self::NotAdmitted(_) => "no_identity",
            Self::Unrecorded(_) => "audit_unavailable",
        }
    }

    /// The status of its answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Denied(Denial::AmbiguousPath { .. }) | Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::Denied(_)
            | Self::NoCredential(
                InjectError::NotPlaceholder { .. } | InjectError::Unsignable { .. } | InjectError::Misplaced { .. },
            ) => StatusCode::FORBIDDEN,
            Self::TooLongToSign { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Misdirected { .. } => StatusCode::MISDIRECTED_REQUEST,
            Self::Unresolved(_)
            | Self::Unreachable { .. }
            | Self::Unverified { .. }
            | Self::BadAnswer { .. }
            | Self::Unscrubbable { .. }
            | Self::NoCredential(InjectError::Unavailable { .. }) => StatusCode::BAD_GATEWAY,
            Self::OutOfScope { form, .. } => StatusCode::from_u16(form.status).unwrap_or(StatusCode::FORBIDDEN),
            Self::NotAdmitted(NotAdmitted::Unavailable(_)) | Self::Unrecorded(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::NotAdmitted(_) => StatusCode::PROXY_AUTHENTICATION_REQUIRED,
        }
    }

    /// What the person in charge would add to permit it.
    pub fn cure(&self) -> Option<String> {
        self.denial().and_then(Denial::cure)
    }

    /// The reason for the operator, who may know the address, the rule and why a secret cannot be had.
    pub fn for_operator(&self) -> String {
        if let Some(Denial::AddressBlocked { address, .. }) = self.denial() {
            format!("{self} ({address})")
        } else if let Some(rule) = self.denial().and_then(Denial::rule) {
            format!("{self} ({rule})")
        } else if let Self::NoCredential(InjectError::Unavailable { reason, .. }) = self {
            format!("{self}: {reason}")
        } else {
            self.to_string()
        }
    }

    fn denial(&self) -> Option<&Denial> {
        if let Self::Denied(denial) = self { Some(denial) } else { None }
    }

    /// A refusal of a GitHub binding, as this client shows it.
    pub fn out_of_scope(denial: OutOfScope, asked: Asked) -> Self {
        let form = Box::new(forms::refusal(asked, &denial));
        Self::OutOfScope { denial, form }
    }

    /// The answer: JSON where the client accepts it, text elsewhere, and a gRPC status beside it for gRPC.
    pub fn response(&self, asked: Option<&str>, head: &RequestHead) -> Response<ProxyBody> {
        if let Self::OutOfScope { form, .. } = self {
            return self.in_form(form, head);
        }
        let explanation = Explanation {
            error: self.code(),
            message: self.to_string(),
            asked,
            cure: self.denial().and_then(Denial::cure_inside),
        };
        let (kind, text) = if head.json {
            ("application/json", serde_json::to_string(&explanation).unwrap_or_default() + "\n")
        } else {
            ("text/plain; charset=utf-8", explanation.text())
        };
        let length = text.len();
        // hyper sends whatever body it is given, to a HEAD over HTTP/2, too.
        let body = if head.grpc || head.bodiless { ProxyBody::empty() } else { ProxyBody::full(Bytes::from(text)) };
        let mut response = Response::new(body);
        *response.status_mut() = if head.grpc { StatusCode::OK } else { self.status() };
        let headers = response.headers_mut();
        headers.insert(DENIAL, HeaderValue::from_static(self.code()));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
            headers.insert(
                PROXY_AUTHENTICATE,
                HeaderValue::from_static(r#"Basic realm="sandbox-proxy", charset="UTF-8""#),
            );
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(if head.grpc { "application/grpc" } else { kind }));
        if head.grpc {
            headers.insert("grpc-status", HeaderValue::from_static(self.grpc_status()));
            if let Ok(message) = HeaderValue::from_str(&percent(&explanation.message)) {
                headers.insert("grpc-message", message);
            }
        }
        if head.bodiless && !head.grpc {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        if head.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// An answer as one client wants it.
    fn in_form(&self, form: &forms::Refusal, head: &RequestHead) -> Response<ProxyBody> {
        let body = if head.bodiless { ProxyBody::empty() } else { ProxyBody::full(Bytes::copy_from_slice(&form.body)) };
        let mut response = Response::new(body);
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(DENIAL, HeaderValue::from_static(self.code()));
        headers.insert(HeaderName::from_static(forms::REASON_HEADER), HeaderValue::from_static(form.reason));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.content_type));
        if head.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// `PERMISSION_DENIED` or `UNAVAILABLE`.
    fn grpc_status(&self) -> &'static str {
        match self.status() {
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => "14",
            _ => "7",
        }
    }
}

impl Explanation<'_> {
    fn text(&self) -> String {
        let mut text = format!("Sandbox Proxy refused this request ({})\n{}\n", self.error, self.message);
        if let Some(asked) = self.asked {
            text += &format!("asked for: {asked}\n");
        }
        if let Some(cure) = &self.cure {
            text += &format!("to allow it, the person who runs the sandbox adds: {cure}\n");
        }
        text
    }
}

/// What the answer to a request depends on, kept from its head since the request itself goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestHead {
    /// The client accepts JSON.
    pub json: bool,
    /// A gRPC call, whose client reads the status in its own headers.
    pub grpc: bool,
    /// A HEAD, whose answer has no body.
    pub bodiless: bool,
    /// The connection cannot carry another request: a body of it may be unread.
    pub close: bool,
}

impl RequestHead {
    /// Reads it from a head. `close` is for HTTP/1, where an unread body would be read as a request.
    pub fn of(method: &Method, headers: &HeaderMap, http1: bool) -> Self {
        let text = |name| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let has_body = headers.contains_key(http::header::CONTENT_LENGTH)
            || headers.contains_key(http::header::TRANSFER_ENCODING)
            || method == Method::CONNECT;
        let json = text(ACCEPT).split(',').any(|kind| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind == "application/json" || kind.ends_with("+json")
        });
        let grpc = text(CONTENT_TYPE).starts_with("application/grpc");
        Self { json, grpc, bodiless: method == Method::HEAD, close: http1 && has_body }
    }
}

/// Percent-encoding of `grpc-message` (gRPC over HTTP/2, "Percent-Encoded").
fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | 0..0x20 | 0x7f.. => out += &format!("%{byte:02X}"),
            _ => out.push(char::from(byte)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::net::{IpAddr, Ipv4Addr};

    fn blocked() -> Refusal {
        Denial::AddressBlocked {
            authority: Authority::parse("a.test", 443).unwrap(),
            address: IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3)),
            class: crate::policy::address::AddressClass::Loopback,
        }
        .into()
    }

    fn text(refusal: &Refusal, head: &RequestHead) -> (Response<()>, String) {
        let (parts, body) = refusal.response(Some("GET https://a.test/"), head).into_parts();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bytes = runtime.block_on(body.collect()).unwrap().to_bytes();
        (Response::from_parts(parts, ()), String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn the_sandbox_reads_no_address_and_the_operator_does() {
        for json in [false, true] {
            let (response, body) = text(&blocked(), &RequestHead { json, ..RequestHead::default() });
            assert_eq!(response.status(), 403);
            assert_eq!(response.headers()[DENIAL], "address_blocked");
            assert!(!body.contains("10.1.2.3"), "{body}");
        }
        assert!(blocked().for_operator().contains("10.1.2.3"));
    }

    #[test]
    fn the_cure_is_named() {
        let refusal = Refusal::from(Denial::NotListed {
            authority: Authority::parse("b.test:8443", 443).unwrap(),
            mode_is_fixed: false,
        });
        let (_, body) = text(&refusal, &RequestHead::default());
        assert!(body.contains("--allow b.test:8443\n"), "{body}");
        let (_, body) = text(&refusal, &RequestHead { json: true, ..RequestHead::default() });
        assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap()["cure"], "--allow b.test:8443");
    }

    #[test]
    fn grpc_gets_a_grpc_status() {
        let (response, body) = text(&blocked(), &RequestHead { grpc: true, ..RequestHead::default() });
        assert_eq!((response.status().as_u16(), body.as_str()), (200, ""));
        assert_eq!(response.headers()["grpc-status"], "7");
    }
}
