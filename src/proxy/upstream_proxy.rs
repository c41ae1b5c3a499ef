//! Upstreams behind another proxy: it is asked with CONNECT for an address that was checked here, or for a name where its
//! operator has it look names up. It could lead anywhere else all the same, so the TLS handshake behind it counts as always.

use std::net::SocketAddr;

use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::dns::Resolver;
use crate::types::Authority;

use super::upstream::connect_to;

/// Another proxy, that every upstream is dialled through.
pub struct UpstreamProxy {
    authority: Authority,
    authorization: Option<HeaderValue>,
    looks_up: bool,
}

impl UpstreamProxy {
    /// The proxy at `authority`, with the value of its `Proxy-Authorization`. One that looks names up is asked for permitted
    /// names, and for addresses only where a client has named one.
    pub fn new(authority: Authority, authorization: Option<HeaderValue>, looks_up: bool) -> Self {
        Self { authority, authorization, looks_up }
    }

    /// Whether it looks names up.
    pub fn looks_up(&self) -> bool {
        self.looks_up
    }

    /// A connection to `target`, a host and a port, through it.
    ///
    /// # Errors
    /// The reason, in words for the sandbox: they do not tell where the proxy is.
    pub async fn connect(&self, resolver: &Resolver, target: &str) -> Result<TcpStream, String> {
        let addresses = resolver.resolve_unchecked(&self.authority).await;
        for ip in addresses.map_err(|_| "the upstream proxy has no address")? {
            if let Ok(tcp) = connect_to(SocketAddr::new(ip, self.authority.port)).await {
                return self.tunnel(tcp, target).await;
            }
        }
        Err("the upstream proxy cannot be reached".to_owned())
    }

    async fn tunnel(&self, tcp: TcpStream, target: &str) -> Result<TcpStream, String> {
        let odd = |_: hyper::Error| "the upstream proxy does not speak HTTP".to_owned();
        let (mut handle, driver) = http1::Builder::new().handshake(TokioIo::new(tcp)).await.map_err(odd)?;
        // Ends with the upgrade, or when `handle` is dropped.
        tokio::spawn(driver.with_upgrades());
        let response = handle.send_request(self.request(target)?).await.map_err(odd)?;
        match response.status() {
            status if status.is_success() => {}
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                return Err("the upstream proxy wants credentials, or others than it was given".to_owned());
            }
            other => return Err(format!("the upstream proxy refused with {}", other.as_u16())),
        }
        let upgraded = hyper::upgrade::on(response).await.map_err(odd)?;
        match upgraded.downcast::<TokioIo<TcpStream>>() {
            // A TLS server says nothing before the client has.
            Ok(parts) if parts.read_buf.is_empty() => Ok(parts.io.into_inner()),
            Ok(_) | Err(_) => Err("the upstream proxy spoke out of turn".to_owned()),
        }
    }

    fn request(&self, target: &str) -> Result<Request<Empty<Bytes>>, String> {
        let mut request = Request::new(Empty::new());
        *request.method_mut() = Method::CONNECT;
        *request.uri_mut() = Uri::try_from(target).map_err(|error| error.to_string())?;
        let host = HeaderValue::try_from(target).map_err(|error| error.to_string())?;
        request.headers_mut().insert(http::header::HOST, host);
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(http::header::PROXY_AUTHORIZATION, authorization.clone());
        }
        Ok(request)
    }
}
