//! One HTTPS call to somebody who gives credentials. The proxy implements it; here is what is said about it.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use zeroize::Zeroizing;

use crate::types::{Authority, Endpoint, Secret};

use super::header::sensitive;

/// The longest answer to a call that says nothing else, in bytes: twice the longest secret.
pub const ANSWER_MAX: usize = 2 * Secret::MAX_LEN;
/// How long a call may take, all in all.
pub const CALL_TIME: Duration = Duration::from_secs(10);

/// A request. `Debug` shows no header that carries a credential, and no body.
pub struct Call {
    /// Its method.
    pub method: Method,
    /// Whom it goes to.
    pub url: Endpoint,
    /// Its headers besides Host and Content-Length.
    pub headers: HeaderMap,
    /// Its body; wiped when the last of those who send it is done.
    pub body: Bytes,
    /// The longest answer that is read, in bytes.
    pub answer_max: usize,
}

/// What came back.
pub struct Answer {
    /// Its status; a redirect is an answer like any other.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Zeroizing<Vec<u8>>,
}

/// An answer that is under way.
pub type Fetching<'a> = Pin<Box<dyn Future<Output = Result<Answer, FetchError>> + Send + 'a>>;

/// Makes calls for the person who runs the proxy. The policy of the sandbox does not judge them.
pub trait Fetch: Send + Sync {
    /// Sends a request, over verified TLS unless the URL is one of this host, and follows no redirect.
    ///
    /// # Errors
    /// [`FetchError`] when there is no whole answer of at most [`Call::answer_max`] bytes within [`CALL_TIME`].
    fn fetch(&self, call: Call) -> Fetching<'_>;
}

/// Why there is no answer. The text holds nothing of the request or of the answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// It could not be connected to.
    #[error("{authority} cannot be reached: {reason}")]
    Unreachable {
        /// Whom the call was for.
        authority: Authority,
        /// Why.
        reason: String,
    },
    /// Its certificate or handshake is not acceptable. Nothing was sent.
    #[error("{authority} could not be verified: {reason}")]
    Unverified {
        /// Whom the call was for.
        authority: Authority,
        /// What is wrong with it.
        reason: String,
    },
    /// What came back is no HTTP, or ended early.
    #[error("{0} gave no usable answer")]
    BadAnswer(Authority),
    /// It went on and on.
    #[error("{authority} gave an answer of more than {bytes} bytes")]
    TooLong {
        /// Whom the call was for.
        authority: Authority,
        /// The bound.
        bytes: usize,
    },
    /// It took too long.
    #[error("{0} gave no answer within 10 seconds")]
    Slow(Authority),
}

impl Call {
    /// A GET that asks for JSON.
    pub fn get(url: Endpoint) -> Self {
        let headers = HeaderMap::from_iter([(http::header::ACCEPT, HeaderValue::from_static("application/json"))]);
        Self { method: Method::GET, url, headers, body: Bytes::new(), answer_max: ANSWER_MAX }
    }

    /// A POST that asks for JSON.
    pub fn post(url: Endpoint, body: Zeroizing<Vec<u8>>) -> Self {
        Self { method: Method::POST, body: Bytes::from_owner(body), ..Self::get(url) }
    }

    /// The same with a secret as the value of a header, behind a prefix.
    ///
    /// # Errors
    /// The value cannot stand in a header.
    pub fn with_secret(mut self, header: HeaderName, prefix: &str, secret: &[u8]) -> Result<Self, String> {
        // Of its final size from the start: growing would leave copies behind.
        let mut value = Zeroizing::new(Vec::with_capacity(prefix.len() + secret.len()));
        value.extend_from_slice(prefix.as_bytes());
        value.extend_from_slice(secret);
        self.headers.insert(header, sensitive(value)?);
        Ok(self)
    }
}
