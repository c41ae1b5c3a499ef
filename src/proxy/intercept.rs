//! Where the sandbox's TLS ends, and HTTP is served on what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;

use crate::types::{Host, Scheme};

use super::capture::guard::{Guard, HEAD_MAX, HEADERS_MAX, RawSwitch};
use super::refusal::Refusal;
use super::stream::Prefixed;
use super::{Connection, handle, identity};

/// For the first bytes and for the TLS handshake.
const HELLO_TIME: Duration = Duration::from_secs(10);
/// For one HTTP/1 head, an idle connection's wait for its next one included.
const HEAD_TIME: Duration = Duration::from_secs(75);
/// Requests at a time on one HTTP/2 connection.
const STREAMS: u32 = 256;
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// Serves a connection of which nothing has been judged yet but where it goes. What it speaks is told by its first byte,
/// never by its port: TLS, HTTP, or something that is refused.
pub async fn serve(mut connection: Connection, early: Bytes, mut io: TcpStream) {
    let Some(early) = first_bytes(&mut io, early).await else {
        return note(&connection, &Refusal::Malformed("it sent nothing within 10 seconds".into()), Scheme::Tcp).await;
    };
    match early.first() {
        Some(0x16) => serve_tls(connection, Prefixed::new(early, io)).await,
        Some(b'A'..=b'Z') => {
            connection.destination.scheme = Scheme::Http;
            serve_http1(Arc::new(connection), Prefixed::new(early, io)).await;
        }
        Some(_) => {
            connection.destination.scheme = Scheme::Tcp;
            let refusal = match connection.worker.sandbox.policy.destination(&connection.destination) {
                Err(denial) => Refusal::from(denial),
                Ok(_) => Refusal::Malformed("it speaks neither TLS nor HTTP".into()),
            };
            note(&connection, &refusal, Scheme::Tcp).await;
        }
        // A connection that is closed again unused asked for nothing.
        None => {}
    }
}

async fn first_bytes(io: &mut TcpStream, early: Bytes) -> Option<Bytes> {
    if !early.is_empty() {
        return Some(early);
    }
    let mut buffer = vec![0; 2048];
    match tokio::time::timeout(HELLO_TIME, io.read(&mut buffer)).await {
        Ok(Ok(read)) => {
            buffer.truncate(read);
            Some(buffer.into())
        }
        Ok(Err(_)) => Some(Bytes::new()),
        Err(_) => None,
    }
}

async fn serve_tls(mut connection: Connection, io: Prefixed) {
    let refused = match tokio::time::timeout(HELLO_TIME, accept(&mut connection, io)).await {
        Ok(Ok(tls)) => {
            if tls.get_ref().1.alpn_protocol() == Some(b"h2") {
                serve_http2(Arc::new(connection), tls).await;
            } else {
                serve_http1(Arc::new(connection), tls).await;
            }
            return;
        }
        Ok(Err(refusal)) => refusal,
        Err(_) => Refusal::Malformed("no TLS handshake within 10 seconds".into()),
    };
    note(&connection, &refused, Scheme::Https).await;
}

/// The name is the handshake's; without one it is the destination's. A name that is not the destination's is answered
/// under its own certificate, so that the client can read the refusal.
async fn accept(
    connection: &mut Connection,
    io: Prefixed,
) -> Result<tokio_rustls::server::TlsStream<Prefixed>, Refusal> {
    let broken = |e: std::io::Error| Refusal::Malformed(format!("the TLS handshake failed: {e}"));
    let start = LazyConfigAcceptor::new(Acceptor::default(), io).await.map_err(broken)?;
    let host = match start.client_hello().server_name() {
        None => connection.destination.authority.host.clone(),
        Some(sni) => {
            let host = Host::parse(sni).map_err(|e| Refusal::Malformed(format!("its SNI is no host: {e}")))?;
            connection.take_name(&host);
            host
        }
    };
    let config = connection.worker.sandbox.leaves.server_config(&host);
    let config = config.map_err(|e| Refusal::Malformed(format!("no certificate for its SNI: {e}")))?;
    start.into_stream(config).await.map_err(broken)
}

impl Connection {
    /// Takes the name of a TLS handshake in. Where the client dialled a real address, the name says what it wants there;
    /// where it asked for a name, the two must be one.
    fn take_name(&mut self, sni: &Host) {
        let authority = &self.destination.authority;
        if authority.host == *sni {
            return;
        }
        if self.capture.by_address(&self.destination) {
            let mut destination = self.destination.clone();
            destination.authority.host = sni.clone();
            *self = self.to(destination);
        } else {
            self.mismatched_sni = Some(sni.to_string());
        }
    }
}

/// Serves HTTP/1 with its guard in front.
pub async fn serve_http1<T>(connection: Arc<Connection>, io: T)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let raw = RawSwitch::default();
    let io = Guard::new(io, raw.clone());
    let service = service_fn(move |request| handle(identity::of_request(&connection, &request), raw.clone(), request));
    let served = http1_builder().serve_connection(TokioIo::new(io), service).with_upgrades().await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended");
    }
}

/// hyper's HTTP/1 server, with this proxy's bounds.
pub fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .half_close(true)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEAD_MAX)
        .max_buf_size(4 * HEAD_MAX);
    builder
}

async fn serve_http2<T>(connection: Arc<Connection>, io: T)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| handle(Arc::clone(&connection), RawSwitch::default(), request));
    let served = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEAD_MAX as u32)
        .keep_alive_interval(Duration::from_secs(60))
        .serve_connection(TokioIo::new(io), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended");
    }
}

/// The row of a connection that ended before it could carry a request.
async fn note(connection: &Connection, refusal: &Refusal, scheme: Scheme) {
    let mut event = connection.event();
    event.scheme = scheme;
    event.deny(refusal.code(), refusal.for_operator(), refusal.cure());
    // Where no row can be had, nothing went on either.
    drop(connection.worker.audit.open(event).await);
}
