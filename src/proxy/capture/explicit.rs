//! An ordinary HTTP proxy for clients that want one: CONNECT and absolute request targets.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::audit::{Audit, AuditEvent};
use crate::types::{Authority, Destination, Host, Scheme};

use super::guard::{Guard, RawSwitch};
use super::port::{NotAdmitted, Port};
use super::{Capture, Slot, socks5};
use crate::proxy::body::ProxyBody;
use crate::proxy::refusal::{Refusal, RequestHead};
use crate::proxy::underway::Underway;
use crate::proxy::{Connection, Worker, handle, identity, intercept, refuse_unopened};

/// Whose the requests on a connection are.
#[derive(Clone)]
pub enum Whose {
    /// All are this one's sandbox's.
    One(Arc<Worker>),
    /// Each says it.
    Named(Arc<Port>),
}

impl Whose {
    /// Where rows go about those of whom nobody knows whose they are.
    pub fn audit(&self) -> &Audit {
        match self {
            Self::One(worker) => &worker.audit,
            Self::Named(port) => &port.outlet().audit,
        }
    }
}

/// Serves one connection to the proxy's own port: SOCKS5 or HTTP, by its first byte. Each request on it is judged anew,
/// whatever the one before was for.
pub async fn serve(whose: Whose, io: TcpStream, slot: Slot) {
    let mut first = [0];
    match tokio::time::timeout(intercept::HEAD_TIME, io.peek(&mut first)).await {
        Ok(Ok(1)) if first[0] == socks5::VERSION => return socks5::serve(whose, io, slot).await,
        Ok(Ok(1)) => {}
        // It has ended, or asks for nothing.
        Ok(_) | Err(_) => return,
    }
    let raw = RawSwitch::default();
    let guarded = Guard::new(io, raw.clone());
    let known = match &whose {
        Whose::One(worker) => Some(Arc::clone(worker)),
        Whose::Named(_) => None,
    };
    let known = Arc::new(watch::Sender::new(known));
    let mut named = known.subscribe();
    let client = Client { whose, known, slot, underway: Arc::default(), raw };
    let underway = Arc::clone(&client.underway);
    let service = service_fn(move |request| answer(client.clone(), request));
    let served = intercept::http1_builder().serve_connection(TokioIo::new(guarded), service).with_upgrades();
    let mut served = std::pin::pin!(served);
    let worker = tokio::select! {
        _ = &mut served => return,
        Ok(worker) = named.wait_for(Option::is_some) => worker.clone(),
    };
    if let Some(worker) = worker {
        intercept::until_forbidden(&underway, &worker, served).await;
    }
}

/// One connection to the proxy.
#[derive(Clone)]
struct Client {
    whose: Whose,
    /// Whose it is, once a request has said so.
    known: Arc<watch::Sender<Option<Arc<Worker>>>>,
    slot: Slot,
    underway: Arc<Underway>,
    raw: RawSwitch,
}

impl Client {
    /// Whose a request is. All on one connection are one sandbox's.
    async fn worker(&self, headers: &HeaderMap) -> Result<Arc<Worker>, Refusal> {
        let port = match &self.whose {
            Whose::One(worker) => return Ok(Arc::clone(worker)),
            Whose::Named(port) => port,
        };
        let worker = port.of_request(headers).await?;
        let mut is_same = true;
        self.known.send_if_modified(|known| match known {
            Some(known) => {
                is_same = Arc::ptr_eq(known, &worker);
                false
            }
            None => {
                *known = Some(Arc::clone(&worker));
                true
            }
        });
        if is_same { Ok(worker) } else { Err(NotAdmitted::Another.into()) }
    }
}

async fn answer(client: Client, request: Request<Incoming>) -> Result<Response<ProxyBody>, Infallible> {
    let connect = request.method() == Method::CONNECT;
    let http1 = request.version() < Version::HTTP_2;
    let head = RequestHead::of(request.method(), request.headers(), http1);
    let worker = client.worker(request.headers()).await;
    let destination = destination(&request);
    let (worker, destination) = match (worker, destination) {
        (Ok(worker), Ok(destination)) => (worker, destination),
        (worker, destination) => {
            let capture = if connect { Capture::Connect } else { Capture::Absolute };
            let sandbox = worker.as_ref().ok().map(|worker| worker.sandbox.id.clone());
            let mut event = AuditEvent::new(sandbox, capture.as_str(), destination.as_ref().ok());
            event.method = Some(request.method().clone());
            let head = RequestHead { close: true, ..head };
            let refusal = match (worker, destination) {
                (Err(refusal), _) | (Ok(_), Err(refusal)) => refusal,
                (Ok(_), Ok(_)) => Refusal::Malformed("it cannot be served".to_owned()),
            };
            let mut response = refuse_unopened(client.whose.audit(), event, &refusal, None, &head).await;
            if connect {
                give_reason(&mut response, &refusal);
            }
            return Ok(response);
        }
    };
    let Client { slot, underway, raw, .. } = client;
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
    let mut response = refuse_unopened(&connection.worker.audit, event, refusal, Some(&asked), head).await;
    give_reason(&mut response, refusal);
    response
}

/// Puts it into the status line, which is all of an answer to CONNECT that clients show.
fn give_reason(response: &mut Response<ProxyBody>, refusal: &Refusal) {
    if response.status() != StatusCode::OK
        && let Ok(reason) = ReasonPhrase::try_from(format!("{}: {refusal}", refusal.code()).into_bytes())
    {
        response.extensions_mut().insert(reason);
    }
}

/// The socket under an upgraded connection, with what was read from it already.
fn into_tcp(upgraded: Upgraded) -> Option<(TcpStream, Bytes)> {
    let parts = upgraded.downcast::<TokioIo<Guard<TcpStream>>>().ok()?;
    let (io, pending) = parts.io.into_inner().into_parts();
    let mut early = BytesMut::from(parts.read_buf);
    early.extend_from_slice(&pending);
    Some((io, early.freeze()))
}
