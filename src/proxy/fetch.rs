//! Calls of the person who runs the proxy, to those who give credentials. They are made outside the sandbox's path: no policy
//! judges them, they may go to any address, and no row of the audit tells of them.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderValue, Method, Request, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

use crate::credentials::fetch::{Answer, CALL_TIME, Call, Fetch, FetchError, Fetching};
use crate::dns::Resolver;
use crate::tls::roots::{Alpn, UpstreamTls};
use crate::types::{Authority, Endpoint};

use super::capture::guard::{HEAD_MAX, HEADERS_MAX};
use super::refusal::Refusal;
use super::upstream::{connect_to, handshake};
use super::upstream_proxy::UpstreamProxy;

/// Makes calls one by one, each over a connection of its own, on whatever runtime it is awaited on.
pub struct OperatorFetch {
    nameservers: Vec<SocketAddr>,
    tls: Arc<UpstreamTls>,
    proxy: Option<Arc<UpstreamProxy>>,
}

impl OperatorFetch {
    /// Names are looked up at `nameservers`, or at those of the host where there are none, and all but this host is dialled
    /// through `proxy`, where there is one.
    pub fn new(nameservers: Vec<SocketAddr>, tls: Arc<UpstreamTls>, proxy: Option<Arc<UpstreamProxy>>) -> Self {
        Self { nameservers, tls, proxy }
    }

    async fn call(&self, call: Call) -> Result<Answer, FetchError> {
        let authority = call.url.authority().clone();
        let tcp = self.dial(&call.url).await;
        let tcp = tcp.map_err(|reason| FetchError::Unreachable { authority: authority.clone(), reason })?;
        if !call.url.is_tls() {
            return send(tcp, call, &authority).await;
        }
        match handshake(self.tls.config(Alpn::Http1Only), &authority, tcp).await {
            Ok(tls) => send(tls, call, &authority).await,
            Err(Refusal::Unverified { authority, reason }) => Err(FetchError::Unverified { authority, reason }),
            Err(other) => Err(FetchError::Unreachable { authority, reason: other.to_string() }),
        }
    }

    async fn dial(&self, url: &Endpoint) -> Result<TcpStream, String> {
        let authority = url.authority();
        // Made anew: it belongs to a runtime, and the host's nameservers may have changed since the last call.
        let resolver = Resolver::new(&self.nameservers).map_err(|error| error.to_string())?;
        let proxy = self.proxy.as_ref().filter(|_| !url.is_loopback());
        if let Some(proxy) = proxy.filter(|proxy| proxy.looks_up()) {
            return proxy.connect(&resolver, &format!("{}:{}", authority.host, authority.port)).await;
        }
        let mut last = "it has no address".to_owned();
        for ip in resolver.resolve_unchecked(authority).await.map_err(|error| error.to_string())? {
            let peer = SocketAddr::new(ip, authority.port);
            let dialled = match proxy {
                Some(proxy) => proxy.connect(&resolver, &peer.to_string()).await,
                None => connect_to(peer).await.map_err(|error| error.kind().to_string()),
            };
            match dialled {
                Ok(tcp) => return Ok(tcp),
                Err(reason) => last = reason,
            }
        }
        Err(last)
    }
}

impl Fetch for OperatorFetch {
    fn fetch(&self, call: Call) -> Fetching<'_> {
        Box::pin(async move {
            let authority = call.url.authority().clone();
            match tokio::time::timeout(CALL_TIME, self.call(call)).await {
                Ok(answered) => answered,
                Err(_) => Err(FetchError::Slow(authority)),
            }
        })
    }
}

async fn send<S>(stream: S, call: Call, authority: &Authority) -> Result<Answer, FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // hyper's own words may quote what it read.
    let bad = |_| FetchError::BadAnswer(authority.clone());
    let mut builder = http1::Builder::new();
    builder.max_headers(HEADERS_MAX).max_buf_size(4 * HEAD_MAX);
    let (mut handle, driver) = builder.handshake(TokioIo::new(stream)).await.map_err(bad)?;
    // Ends when `handle` and the body are dropped.
    tokio::spawn(driver);
    let longest = call.answer_max;
    let request = request(call, authority)?;
    let response = handle.send_request(request).await.map_err(bad)?;
    let (head, body) = response.into_parts();
    Ok(Answer { status: head.status, headers: head.headers, body: read(body, longest, authority).await? })
}

fn request(call: Call, authority: &Authority) -> Result<Request<Full<Bytes>>, FetchError> {
    let host = match call.url.is_tls() && authority.port == 443 {
        true => authority.host.to_string(),
        false => format!("{}:{}", authority.host, authority.port),
    };
    let odd = || FetchError::BadAnswer(authority.clone());
    let empty_post = call.method == Method::POST && call.body.is_empty();
    let mut request = Request::new(Full::new(call.body));
    *request.method_mut() = call.method;
    *request.version_mut() = Version::HTTP_11;
    *request.uri_mut() = call.url.target().map(Uri::from).ok_or_else(odd)?;
    *request.headers_mut() = call.headers;
    request.headers_mut().insert(HOST, HeaderValue::try_from(host).map_err(|_| odd())?);
    if empty_post {
        // Without it many servers answer 411 (RFC 9110 section 8.6).
        request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    Ok(request)
}

async fn read(mut body: Incoming, longest: usize, authority: &Authority) -> Result<Zeroizing<Vec<u8>>, FetchError> {
    // Of its longest size from the start: growing would leave copies behind.
    let mut whole = Zeroizing::new(Vec::with_capacity(longest));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| FetchError::BadAnswer(authority.clone()))?;
        let Some(data) = frame.data_ref() else { continue };
        if whole.len() + data.len() > longest {
            return Err(FetchError::TooLong { authority: authority.clone(), bytes: longest });
        }
        whole.extend_from_slice(data);
    }
    Ok(whole)
}
