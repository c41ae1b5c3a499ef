//! Where the sandbox's TLS ends, and HTTP is served on what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;

use crate::policy::{Entry, Grant};
use crate::types::{Destination, Host, Scheme};

use super::capture::guard::{Guard, HEAD_MAX, HEADERS_MAX, RawSwitch};
use super::refusal::Refusal;
use super::relay::{self, Failure};
use super::stream::Prefixed;
use super::underway::Underway;
use super::{Connection, Worker, handle, identity};

/// For the first bytes and for the TLS handshake.
const HELLO_TIME: Duration = Duration::from_secs(10);
/// How long a client that may speak anything is waited for before its upstream is dialled.
const SILENCE: Duration = Duration::from_millis(250);
/// The longest ClientHello: one handshake message with its record headers (RFC 8446 section 4).
const HELLO_MAX: usize = 128 * 1024;
/// For one HTTP/1 head, an idle connection's wait for its next one included.
pub const HEAD_TIME: Duration = Duration::from_secs(75);
/// Requests at a time on one HTTP/2 connection.
const STREAMS: u32 = 256;
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// Serves a connection of which nothing has been judged yet but where it goes. What it speaks is told by its first bytes,
/// never by its port: TLS, HTTP, or something that only a policy that permits tcp lets pass. Where that is permitted and
/// nothing else is, they are not looked at.
pub async fn serve(connection: Connection, early: Bytes, io: TcpStream) {
    match connection.worker.sandbox.policy().entry(&connection.destination) {
        Ok(Entry::Relay(grant)) => {
            let passed = pass_on(&connection.speaking(Scheme::Tcp), grant, early, io).await;
            if let Err((failure, early, io)) = passed {
                look(connection, Some(failure), early, io).await;
            }
        }
        Ok(Entry::Look { other: Some(grant) }) => look_or_relay(connection, grant, early, io).await,
        Ok(Entry::Look { other: None }) | Err(_) => look(connection, None, early, io).await,
    }
}

/// Passes a connection on unread, or gives it back with why that cannot be.
async fn pass_on(
    connection: &Connection,
    grant: Grant,
    early: Bytes,
    io: TcpStream,
) -> Result<(), (Failure, Bytes, TcpStream)> {
    match relay::dial(connection, grant).await {
        Ok(joint) => {
            relay::join(connection, joint, early, io).await;
            Ok(())
        }
        Err(failure) => Err((failure, early, io)),
    }
}

/// Serves what can be seen. Where a connection should have passed unread and could not, those who speak TLS or HTTP are told
/// why in that; others only see their connection end.
async fn look(connection: Connection, unread: Option<Failure>, early: Bytes, mut io: TcpStream) {
    let patience = if unread.is_some() { SILENCE } else { HELLO_TIME };
    let early = first_bytes(&mut io, early, patience).await;
    let refusal = match early.as_deref().map(Speech::of) {
        Some(Speech::Tls) => return serve_tls(connection, early.unwrap_or_default(), io).await,
        Some(Speech::Http) => return serve_http(connection, early.unwrap_or_default(), io).await,
        spoke => match (unread, spoke) {
            (Some(Failure::Failed(_)), _) => return,
            (Some(Failure::Refused(refusal)), _) => refusal,
            // A connection that is closed again unused asked for nothing.
            (None, Some(Speech::Nothing)) => return,
            (None, None) => Refusal::Malformed("it sent nothing within 10 seconds".into()),
            (None, Some(Speech::Tls | Speech::Http | Speech::Other)) => {
                let destination = Destination { scheme: Scheme::Tcp, ..connection.destination.clone() };
                let permitted = connection.worker.sandbox.policy().destination(&destination);
                let unreadable = |_| Refusal::Malformed("it speaks neither TLS nor HTTP".into());
                permitted.map_or_else(Refusal::from, unreadable)
            }
        },
    };
    note(&connection, &refusal, Scheme::Tcp).await;
}

/// Where a client is silent, the upstream is dialled, since it may be that which speaks first.
async fn look_or_relay(connection: Connection, grant: Grant, early: Bytes, mut io: TcpStream) {
    let opaque = connection.speaking(Scheme::Tcp);
    let speech = match grant {
        Grant::NetworkAll | Grant::Egress { .. } => Speech::of_doubtful,
        Grant::Host { .. } | Grant::Rule { .. } | Grant::GitHub { .. } => Speech::of,
    };
    let Some(early) = first_bytes(&mut io, early, SILENCE).await else {
        let joint = match relay::dial(&opaque, grant).await {
            Ok(joint) => joint,
            Err(failure) => return look(connection, Some(failure), Bytes::new(), io).await,
        };
        let early = tokio::select! {
            biased;
            () = opaque.underway.forbidden(&opaque.worker.sandbox, joint.changes.clone()) => return,
            _ = joint.server.readable() => Bytes::new(),
            early = first_bytes(&mut io, Bytes::new(), Duration::MAX) => early.unwrap_or_default(),
        };
        return match speech(&early) {
            Speech::Other | Speech::Nothing => relay::join(&opaque, joint, early, io).await,
            Speech::Tls | Speech::Http => {
                drop(joint);
                look(connection, None, early, io).await;
            }
        };
    };
    match speech(&early) {
        Speech::Other => {
            if let Err((failure, early, io)) = pass_on(&opaque, grant, early, io).await {
                look(connection, Some(failure), early, io).await;
            }
        }
        Speech::Tls | Speech::Http | Speech::Nothing => look(connection, None, early, io).await,
    }
}

/// What the first bytes of a client are.
enum Speech {
    Tls,
    Http,
    Other,
    Nothing,
}

impl Speech {
    /// What clients send: HTTP is a method in capitals and a space, or as much of that as there is, which is not what ssh, for
    /// one, begins with.
    fn of(early: &[u8]) -> Self {
        let word = early.iter().take_while(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_')).count();
        match early.first() {
            None => Self::Nothing,
            Some(0x16) => Self::Tls,
            Some(b'A'..=b'Z') if early.get(word).is_none_or(|byte| *byte == b' ') => Self::Http,
            Some(_) => Self::Other,
        }
    }

    /// The same by whatever a server may take for HTTP: small letters, other white space, and what stands behind empty lines
    /// (RFC 9112 section 2.2). For connections that are permitted whatever they are called, which a deny rule has to see:
    /// what only looks like HTTP is refused there.
    fn of_doubtful(early: &[u8]) -> Self {
        let text = early.trim_ascii_start();
        let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        let word = text.iter().take_while(|byte| is_token(byte)).count();
        let may_be_request = match text[word..] {
            [] | [b'\r'] | [b' ' | b'\t' | 0x0b | 0x0c, ..] => true,
            [b'\r', next, ..] => next != b'\n',
            _ => false,
        };
        match (Self::of(early), text.first()) {
            (Self::Other, None) => Self::Http,
            (Self::Other, Some(first)) if is_token(first) && may_be_request && !is_ssh(text) => Self::Http,
            (plain, _) => plain,
        }
    }
}

/// Whether it begins with a whole line of ssh's (RFC 4253 section 4.2), and one that no server takes for a request: `SSH-2.0-x` could
/// be a method, too.
fn is_ssh(text: &[u8]) -> bool {
    let line = text.iter().position(|byte| *byte == b'\n').map(|end| text[..end].to_ascii_uppercase());
    line.is_some_and(|line| line.starts_with(b"SSH-") && memchr::memmem::find(&line, b"HTTP/").is_none())
}

/// What was read already, else what comes first; none when nothing comes in time, empty when the client has ended.
async fn first_bytes(io: &mut TcpStream, early: Bytes, patience: Duration) -> Option<Bytes> {
    if !early.is_empty() {
        return Some(early);
    }
    // Nothing is read until there is something, so that a wait which is given up has lost no bytes.
    match tokio::time::timeout(patience, io.readable()).await {
        Ok(_) => {}
        Err(_) => return None,
    }
    let mut buffer = vec![0; 2048];
    let read = io.read(&mut buffer).await.unwrap_or(0);
    buffer.truncate(read);
    Some(buffer.into())
}

async fn serve_http(connection: Connection, early: Bytes, io: TcpStream) {
    let connection = connection.speaking(Scheme::Http);
    let (early, io) = match connection.worker.sandbox.policy().passes_unread(&connection.destination) {
        Some(grant) => match pass_on(&connection.speaking(Scheme::Tcp), grant, early, io).await {
            Ok(()) => return,
            Err((_, early, io)) => (early, io),
        },
        None => (early, io),
    };
    serve_http1(Arc::new(connection), Prefixed::new(early, io)).await;
}

/// TLS ends here, unless the policy has it pass: then the name that it asks for counts first.
async fn serve_tls(mut connection: Connection, early: Bytes, mut io: TcpStream) {
    let mut seen = early;
    if connection.worker.sandbox.policy().may_pass_tls_unread()
        && let Ok(Some(name)) = tokio::time::timeout(HELLO_TIME, peek_hello(&mut io, &mut seen)).await
    {
        let mut named = connection.speaking(Scheme::Https);
        name.iter().for_each(|name| named.take_name(name));
        let unread = connection.worker.sandbox.policy().passes_unread(&named.destination);
        if let Some(grant) = unread.filter(|_| named.mismatched_sni.is_none()) {
            match pass_on(&named, grant, seen, io).await {
                Ok(()) => return,
                Err((_, early, socket)) => (seen, io) = (early, socket),
            }
        }
    }
    let refused = match tokio::time::timeout(HELLO_TIME, accept(&mut connection, Prefixed::new(seen, io))).await {
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

/// Reads on until a whole ClientHello has been seen: its name, if it has one. None for one that cannot be read: it never passes
/// unread, and is told what is wrong when it is answered.
async fn peek_hello(io: &mut TcpStream, seen: &mut Bytes) -> Option<Option<Host>> {
    let mut acceptor = Acceptor::default();
    let mut all = BytesMut::from(&seen[..]);
    let mut told = 0;
    let name = loop {
        let mut untold = &all[told..];
        let len = untold.len();
        // Reads from memory; it takes no more when what it has is no TLS.
        while !untold.is_empty() && matches!(acceptor.read_tls(&mut untold), Ok(1..)) {}
        told += len - untold.len();
        match acceptor.accept() {
            Ok(Some(accepted)) => break accepted.client_hello().server_name().map(Host::parse).transpose().ok(),
            Ok(None) if all.len() < HELLO_MAX => {}
            Ok(None) | Err(_) => break None,
        }
        if !matches!(io.read_buf(&mut all).await, Ok(1..)) {
            break None;
        }
    };
    *seen = all.freeze();
    name
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
    let (underway, worker) = (Arc::clone(&connection.underway), Arc::clone(&connection.worker));
    let service = service_fn(move |request| handle(identity::of_request(&connection, &request), raw.clone(), request));
    let served = http1_builder().serve_connection(TokioIo::new(io), service).with_upgrades();
    until_forbidden(&underway, &worker, served).await;
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
    let (underway, worker) = (Arc::clone(&connection.underway), Arc::clone(&connection.worker));
    let service = service_fn(move |request| handle(Arc::clone(&connection), RawSwitch::default(), request));
    let served = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEAD_MAX as u32)
        .keep_alive_interval(Duration::from_secs(60))
        .serve_connection(TokioIo::new(io), service);
    until_forbidden(&underway, &worker, served).await;
}

/// Serves a connection until it ends, or until a changed policy forbids something that is under way on it.
pub async fn until_forbidden(underway: &Underway, worker: &Worker, served: impl Future<Output = hyper::Result<()>>) {
    let changes = worker.sandbox.changes();
    tokio::select! {
        served = served => if let Err(error) = served {
            tracing::debug!(%error, "connection ended");
        },
        () = underway.forbidden(&worker.sandbox, changes) => tracing::debug!("the policy has changed: connection closed"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_may_take_for_http() {
        let spoken = |bytes: &[u8]| match Speech::of_doubtful(bytes) {
            Speech::Tls => "tls",
            Speech::Http => "http",
            Speech::Other => "other",
            Speech::Nothing => "nothing",
        };
        for (bytes, want) in [
            (&b""[..], "nothing"),
            (b"\x16\x03\x01", "tls"),
            (b"GET / HTTP/1.1\r\n", "http"),
            (b"GE", "http"),
            (b"ge", "http"),
            (b"\r\n", "http"),
            (b"\r\n get / HTTP/1.1", "http"),
            (b"get\x0b/", "http"),
            (b"get\r/", "http"),
            (b"get\r", "http"),
            (b"SSH-2.0-x / HTTP/1.1\r\n", "http"),
            (b"SSH-2.0-x /", "http"),
            (b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n", "other"),
            (b"PING\r\n", "other"),
            (b"\x00\x00\x00\x08\x04\xd2\x16\x2f", "other"),
            (b"*1\r\n$4\r\nPING\r\n", "other"),
        ] {
            assert_eq!(spoken(bytes), want, "{bytes:?}");
        }
    }
}
