//! An ordinary HTTP proxy for clients that want one: CONNECT and absolute request targets.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::audit::AuditEvent;
use crate::types::{Authority, Destination, Host, Scheme};

use super::guard::{Guard, RawSwitch};
use super::{Capture, Slot, socks5};
use crate::proxy::body::ProxyBody;
use crate::proxy::refusal::{Refusal, RequestHead};
use crate::proxy::underway::Underway;
use crate::proxy::{Connection, Worker, handle, identity, intercept, refuse_unopened};

/// Serves one connection to the proxy's own port: SOCKS5 or HTTP, by its first byte. Each request on it is judged anew,
/// whatever the one before was for.
pub async fn serve(worker: Arc<Worker>, io: TcpStream, slot: Slot) {
    let mut first = [0];
    match tokio::time::timeout(intercept::HEAD_TIME, io.peek(&mut first)).await {
        Ok(Ok(1)) if first[0] == socks5::VERSION => return socks5::serve(worker, io, slot).await,
        Ok(Ok(1)) => {}
        // It has ended, or asks for nothing.
        Ok(_) | Err(_) => return,
    }
    let raw = RawSwitch::default();
    let guarded = Guard::new(io, raw.clone());
    let client = Client { worker: Arc::clone(&worker), slot, underway: Arc::default(), raw };
    let underway = Arc::clone(&client.underway);
    let service = service_fn(move |request| answer(client.clone(), request));
    let served = intercept::http1_builder().serve_connection(TokioIo::new(guarded), service).with_upgrades();
    intercept::until_forbidden(&underway, &worker, served).await;
}

/// One connection to the proxy.
#[derive(Clone)]
struct Client {
    worker: Arc<Worker>,
    slot: Slot,
    underway: Arc<Underway>,
    raw: RawSwitch,
}

async fn answer(client: Client, request: Request<Incoming>) -> Result<Response<ProxyBody>, Infallible> {
    let Client { worker, slot, underway, raw } = client;
    let connect = request.method() == Method::CONNECT;
    let http1 = request.version() < Version::HTTP_2;
    let head = RequestHead::of(request.method(), request.headers(), http1);
    let destination = match destination(&request) {
        Ok(destination) => destination,
        Err(refusal) => {
            let mut event = AuditEvent::new(worker.sandbox.id.clone(), Capture::Absolute.as_str(), None);
            event.method = Some(request.method().clone());
            let head = RequestHead { close: true, ..head };
            return Ok(refuse_unopened(&worker, event, &refusal, None, &head).await);
        }
    };
    if connect {
        let connection = Connection::new(worker, slot, Capture::Connect, destination);
        return Ok(tunnel(connection, raw, request, head).await);
    }
    let connection = Connection::new(worker, slot, Capture::Absolute, destination);
    let connection = Arc::new(Connection { underway, ..connection });
    handle(connection, raw, request).await
}

/// Where a request to the proxy wants to go.
fn destination(request: &Request<Incoming>) -> Result<Destination, Refusal> {
    let uri: &Uri = request.uri();
    let malformed = |what: String| Refusal::Malformed(what);
    let Some(target) = uri.authority() else {
        return Err(identity::fault(request).unwrap_or_else(|| {
            malformed("this is a proxy: it takes CONNECT, or a request target with a scheme and a host".into())
        }));
    };
    let scheme = match uri.scheme_str() {
        Some("http") => Scheme::Http,
        Some("https") | None => Scheme::Https,
        Some(_) => return Err(malformed("its scheme is neither http nor https".into())),
    };
    match (request.method() == Method::CONNECT, uri.scheme().is_some()) {
        (true, false) if target.port().is_some() => {}
        (true, _) => return Err(malformed("CONNECT needs HOST:PORT".into())),
        (false, true) => {}
        (false, false) => return Err(malformed("its target has no scheme".into())),
    }
    let port = if scheme == Scheme::Http { 80 } else { 443 };
    let authority = Authority::parse(target.as_str(), port);
    let authority = authority.map_err(|e| malformed(format!("its host is no host: {e}")))?;
    let dialled = match authority.host {
        Host::Ip(ip) => Some(ip),
        Host::Name(_) => None,
    };
    Ok(Destination { authority, scheme, dialled })
}

/// The verdict comes first, in the status line where clients show it; then the bytes are served like captured ones.
async fn tunnel(
    connection: Connection,
    raw: RawSwitch,
    request: Request<Incoming>,
    head: RequestHead,
) -> Response<ProxyBody> {
    let permitted = connection.worker.sandbox.policy().entry(&connection.destination).map(drop);
    if let Err(refusal) = identity::agree_connect(&connection, &request).and(permitted.map_err(Refusal::from)) {
        return refuse_connect(&connection, &refusal, &head).await;
    }
    raw.set();
    let upgrade = hyper::upgrade::on(request);
    tokio::spawn(async move {
        match upgrade.await.map(into_tcp) {
            Ok(Some((io, early))) => intercept::serve(connection, early, io).await,
            Ok(None) => tracing::error!("an upgraded connection is not the one that was served"),
            Err(error) => tracing::debug!(%error, "CONNECT was not completed"),
        }
    });
    let mut response = Response::new(ProxyBody::full(Bytes::new()));
    response.extensions_mut().insert(ReasonPhrase::from_static(b"Connection established"));
    response
}

async fn refuse_connect(connection: &Connection, refusal: &Refusal, head: &RequestHead) -> Response<ProxyBody> {
    let mut event = connection.event();
    event.method = Some(Method::CONNECT);
    let asked = format!("CONNECT {}:{}", connection.destination.authority.host, connection.destination.authority.port);
    let mut response = refuse_unopened(&connection.worker, event, refusal, Some(&asked), head).await;
    if response.status() != StatusCode::OK
        && let Ok(reason) = ReasonPhrase::try_from(format!("{}: {refusal}", refusal.code()).into_bytes())
    {
        response.extensions_mut().insert(reason);
    }
    response
}

/// The socket under an upgraded connection, with what was read from it already.
fn into_tcp(upgraded: Upgraded) -> Option<(TcpStream, Bytes)> {
    let parts = upgraded.downcast::<TokioIo<Guard<TcpStream>>>().ok()?;
    let (io, pending) = parts.io.into_inner().into_parts();
    let mut early = BytesMut::from(parts.read_buf);
    early.extend_from_slice(&pending);
    Some((io, early.freeze()))
}
