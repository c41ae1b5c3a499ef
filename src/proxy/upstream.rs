//! Sends what is permitted and credentialed to a checked address over verified TLS, and nothing else anywhere.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CONTENT_LENGTH, EXPECT, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

use crate::audit::Row;
use crate::policy::{CheckedAddrs, Grant};
use crate::sandboxes::InForce;
use crate::tls::roots::{self, Alpn};
use crate::types::{Authority, Destination, Host};

use super::body::{RequestBody, TrailerFilter};
use super::brake::Brake;
use super::capture::guard::{HEAD_MAX, HEADERS_MAX};
use super::held::Held;
use super::inject::Credentialed;
use super::pool::{Handle, Key, Lease, STREAMS};
use super::refusal::Refusal;
use super::underway::Ticket;
use super::{Connection, Worker};

/// For one address to take the connection.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// For the upstream proxy to take the connection and to make its own.
const PROXY_TIME: Duration = Duration::from_secs(15);
/// For the TLS handshake.
const TLS_TIME: Duration = Duration::from_secs(10);
/// HTTP/2 window of one response: enough for 130 Mbit/s over 30 ms.
const STREAM_WINDOW: u32 = 512 * 1024;
/// Room for every stream's window, so that streams which nobody reads cannot hold up the others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS as u32;

/// Sends one request and returns the head of its response with the connection it came on.
///
/// # Errors
/// [`Refusal`]; nothing is sent again but what the connection gave back unsent, or, on a connection that had served
/// before, a request of a safe method without body (RFC 9110 section 9.2.2).
pub async fn send(
    connection: &Connection,
    in_force: &Arc<InForce>,
    request: Credentialed<Request<Held>>,
    key: Key,
    row: &mut Row,
    ticket: &Ticket,
) -> Result<(Response<Incoming>, Lease), Refusal> {
    let mut request = outgoing(in_force, request, row);
    let mut fresh = false;
    loop {
        let mut lease = connect(connection, &key, fresh).await?;
        row.event().upstream = lease.peer();
        ticket.goes_to(lease.peer());
        let now = connection.worker.sandbox.in_force();
        if now.number != key.policy && !ticket.is_permitted(&now.policy) {
            // Before its destination was known, nobody could tell.
            let authority = connection.destination.authority.clone();
            return Err(Refusal::Unreachable { authority, reason: "the policy has changed".to_owned() });
        }
        let copy = replayable(&request, lease.reused(), row);
        match exchange(connection, &mut lease, request).await {
            Ok(response) => return Ok((response, lease)),
            Err(failed) => match failed.unsent.or(copy) {
                Some(again) if lease.reused() => {
                    request = again;
                    fresh = true;
                }
                Some(_) | None => {
                    let authority = connection.destination.authority.clone();
                    return Err(Refusal::BadAnswer { authority, reason: reason(&failed.error) });
                }
            },
        }
    }
}

/// The request as the upstream gets it, with nothing in its extensions that came from the sandbox's side.
fn outgoing(in_force: &Arc<InForce>, request: Credentialed<Request<Held>>, row: &Row) -> Request<RequestBody> {
    let (request, bindings) = request.into_parts();
    let (parts, body) = request.into_parts();
    let trailers = TrailerFilter { in_force: Arc::clone(in_force), bindings };
    let mut request = Request::new(RequestBody::new(body, Arc::clone(&row.traffic), trailers));
    *request.method_mut() = parts.method;
    *request.uri_mut() = parts.uri;
    *request.headers_mut() = parts.headers;
    request
}

fn replayable(request: &Request<RequestBody>, reused: bool, row: &Row) -> Option<Request<RequestBody>> {
    let safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !(reused && safe && http_body::Body::is_end_stream(request.body())) {
        return None;
    }
    let mut copy = Request::new(RequestBody::none(Arc::clone(&row.traffic)));
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

struct Failed {
    error: hyper::Error,
    unsent: Option<Request<RequestBody>>,
}

async fn exchange(
    connection: &Connection,
    lease: &mut Lease,
    mut request: Request<RequestBody>,
) -> Result<Response<Incoming>, Failed> {
    let http1 = matches!(lease.handle(), Handle::Http1(_));
    // An HTTP/2 connection tells the sandbox's side to go on by itself, since hyper passes no 100 on from there.
    let brake = brake(&mut request, http1);
    lease.set_brake(brake.clone());
    let sent = match lease.handle() {
        Handle::Http1(handle) => {
            *request.version_mut() = Version::HTTP_11;
            *request.uri_mut() = origin_form(request.uri());
            request.headers_mut().insert(HOST, connection.host_value.clone());
            // hyper takes a GET or HEAD for one without a body, and drops it, unless its framing is written out.
            if !http_body::Body::is_end_stream(request.body()) && !request.headers().contains_key(CONTENT_LENGTH) {
                request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
            handle.try_send_request(request).await
        }
        Handle::Http2(handle) => {
            *request.version_mut() = Version::HTTP_2;
            request.headers_mut().remove(HOST);
            request.headers_mut().remove(TRANSFER_ENCODING);
            let mut uri = std::mem::take(request.uri_mut()).into_parts();
            uri.scheme = Some(http::uri::Scheme::HTTPS);
            uri.authority = Some(connection.uri_authority.clone());
            *request.uri_mut() = http::Uri::from_parts(uri).unwrap_or_default();
            handle.try_send_request(request).await
        }
    };
    if let (Ok(response), Some(brake)) = (&sent, &brake) {
        brake.answered(response.status());
    }
    sent.map_err(|mut failed| Failed { unsent: failed.take_message(), error: failed.into_error() })
}

/// An absolute target is for proxies (RFC 9112 section 3.2.1), and many servers refuse one.
fn origin_form(uri: &Uri) -> Uri {
    uri.path_and_query().map_or_else(Uri::default, |path| Uri::from(path.clone()))
}

/// A brake on the body; with `Expect: 100-continue` it waits until the upstream agrees.
fn brake(request: &mut Request<RequestBody>, http1: bool) -> Option<Brake> {
    let expect = http1 && request.headers().contains_key(EXPECT);
    let brake = request.body_mut().braked(expect)?;
    if expect {
        let brake = brake.clone();
        hyper::ext::on_informational(request, move |response| {
            if response.status() == http::StatusCode::CONTINUE {
                brake.release();
            }
        });
    }
    Some(brake)
}

async fn connect(connection: &Connection, key: &Key, fresh: bool) -> Result<Lease, Refusal> {
    let pool = &connection.worker.pool;
    if let (false, Some(lease)) = (fresh, pool.take(key)) {
        return Ok(lease);
    }
    // Boxed, like all of the rare way: else every request's future would have room for a dial in it.
    Box::pin(connect_anew(connection, key, fresh)).await
}

async fn connect_anew(connection: &Connection, key: &Key, fresh: bool) -> Result<Lease, Refusal> {
    let pool = &connection.worker.pool;
    let Some(gate) = pool.gate(key) else { return dial(connection, key, fresh).await };
    let since = Instant::now();
    let mut turn = gate.lock().await;
    if turn.is_some_and(|failed| failed >= since) {
        drop(turn);
        return dial(connection, key, fresh).await;
    }
    let dialled = dial(connection, key, fresh).await;
    *turn = dialled.is_err().then(Instant::now);
    dialled
}

async fn dial(connection: &Connection, key: &Key, fresh: bool) -> Result<Lease, Refusal> {
    let pool = &connection.worker.pool;
    let _place = pool.dialling(key).await;
    if let (false, Some(lease)) = (fresh, pool.take(key)) {
        return Ok(lease);
    }
    let target = target(connection, &key.authority, key.dialled).await?;
    let (handle, peer) = open(&connection.worker, key, &target).await?;
    Ok(pool.add(key, handle, peer))
}

/// What is dialled.
pub enum Target {
    /// Addresses that were checked.
    Checked(CheckedAddrs),
    /// A permitted name that the upstream proxy looks up itself, as its operator has chosen.
    ByName,
}

async fn target(connection: &Connection, authority: &Authority, dialled: Option<IpAddr>) -> Result<Target, Refusal> {
    let policy = &*connection.worker.sandbox.policy();
    let resolver = &connection.worker.resolver;
    let scheme = connection.destination.scheme;
    let looks_up = connection.worker.upstream_proxy.as_ref().is_some_and(|proxy| proxy.looks_up());
    Ok(match (dialled, &authority.host) {
        (Some(ip), _) => Target::Checked(resolver.check(policy, authority, scheme, &[ip])?),
        (None, Host::Name(name)) if looks_up && policy.may_resolve(name) => Target::ByName,
        (None, _) => Target::Checked(resolver.resolve(policy, authority, scheme).await?),
    })
}

async fn open(worker: &Worker, key: &Key, target: &Target) -> Result<(Handle, Option<SocketAddr>), Refusal> {
    let authority = &key.authority;
    let (tcp, peer) = dial_tcp(worker, authority, target).await?;
    let bad = |error: hyper::Error| Refusal::BadAnswer { authority: authority.clone(), reason: reason(&error) };
    if key.plain {
        return Ok((http1(tcp).await.map_err(bad)?, peer));
    }
    let alpn = if key.http1_only { Alpn::Http1Only } else { Alpn::H2OrHttp1 };
    let config = match &key.identity {
        Some(identity) => worker.upstream_tls.config_showing(alpn, &identity.0),
        None => worker.upstream_tls.config(alpn),
    };
    let tls = handshake(config, authority, tcp).await?;
    let h2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
    let handle = if h2 {
        let (handle, driver) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(4 * HEAD_MAX as u32)
            .keep_alive_interval(Duration::from_secs(30))
            .handshake(TokioIo::new(tls))
            .await
            .map_err(bad)?;
        tokio::spawn(async move { note_end(driver.await) });
        Handle::Http2(handle)
    } else {
        http1(tls).await.map_err(bad)?
    };
    Ok((handle, peer))
}

async fn http1(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> hyper::Result<Handle> {
    let mut builder = http1::Builder::new();
    builder.max_headers(HEADERS_MAX).max_buf_size(4 * HEAD_MAX);
    let (handle, driver) = builder.handshake(TokioIo::new(io)).await?;
    tokio::spawn(async move { note_end(driver.with_upgrades().await) });
    Ok(Handle::Http1(handle))
}

/// Where bytes go that nobody reads. Where a name was permitted, that is what the name leads to: what a client says inside is
/// no reason to trust the address that it dialled.
///
/// # Errors
/// [`Refusal`].
pub async fn target_unread(connection: &Connection, grant: &Grant) -> Result<Target, Refusal> {
    let Destination { authority, dialled, .. } = &connection.destination;
    let by_address = matches!(grant, Grant::NetworkAll | Grant::Egress { .. });
    target(connection, authority, dialled.filter(|_| by_address)).await
}

/// Dials for bytes that nobody reads.
///
/// # Errors
/// [`Refusal::Unreachable`].
pub async fn dial_unread(connection: &Connection, target: &Target) -> Result<(TcpStream, Option<SocketAddr>), Refusal> {
    dial_tcp(&connection.worker, &connection.destination.authority, target).await
}

fn note_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "upstream connection ended");
    }
}

async fn dial_tcp(
    worker: &Worker,
    authority: &Authority,
    target: &Target,
) -> Result<(TcpStream, Option<SocketAddr>), Refusal> {
    let proxy = worker.upstream_proxy.as_deref();
    let patience = if proxy.is_some() { PROXY_TIME } else { CONNECT_TIME };
    let peers = match target {
        Target::Checked(addresses) => {
            addresses.as_slice().iter().map(|ip| Some(SocketAddr::new(*ip, authority.port))).collect()
        }
        Target::ByName => vec![None],
    };
    let mut last = None;
    for peer in peers {
        let attempt = async {
            match (proxy, peer) {
                (Some(proxy), Some(peer)) => proxy.connect(&worker.resolver, &peer.to_string()).await,
                (Some(proxy), None) => {
                    proxy.connect(&worker.resolver, &format!("{}:{}", authority.host, authority.port)).await
                }
                (None, Some(peer)) => connect_to(peer).await.map_err(|error| error.kind().to_string()),
                (None, None) => Err("there is no proxy that would look it up".to_owned()),
            }
        };
        match tokio::time::timeout(patience, attempt).await {
            Ok(Ok(stream)) => return Ok((stream, peer)),
            Ok(Err(reason)) => last = Some(reason),
            Err(_) => last = Some(format!("no answer within {} seconds", patience.as_secs())),
        }
    }
    let reason = last.unwrap_or_else(|| "it has no address".to_owned());
    Err(Refusal::Unreachable { authority: authority.clone(), reason })
}

/// To a checked address, to the upstream proxy or to one who gives credentials, and nowhere else.
pub(super) async fn connect_to(peer: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = if peer.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let stream = socket?.connect(peer).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Verified TLS with an upstream, or with one who gives credentials.
///
/// # Errors
/// [`Refusal::Unverified`].
pub(super) async fn handshake(
    config: Arc<ClientConfig>,
    authority: &Authority,
    tcp: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, Refusal> {
    let unverified = |reason: String| Refusal::Unverified { authority: authority.clone(), reason };
    let name = match &authority.host {
        Host::Name(name) => ServerName::try_from(name.as_str().to_owned()),
        Host::Ip(ip) => Ok(ServerName::from(*ip)),
    };
    let name = name.map_err(|_| unverified("no certificate can be valid for this name".to_owned()))?;
    match tokio::time::timeout(TLS_TIME, TlsConnector::from(config).connect(name, tcp)).await {
        Ok(Ok(tls)) => Ok(tls),
        Ok(Err(error)) => Err(unverified(tls_reason(&error))),
        Err(_) => Err(unverified("no TLS handshake within 10 seconds".to_owned())),
    }
}

fn tls_reason(error: &std::io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(inner) => roots::explain(inner).to_string(),
        None => format!("the TLS handshake failed: {}", error.kind()),
    }
}

/// The whole chain of an error's causes: hyper's own text names only the outermost.
fn reason(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text += ": ";
        text += &inner.to_string();
        cause = inner.source();
    }
    text
}
