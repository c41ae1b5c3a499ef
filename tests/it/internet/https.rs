//! The HTTPS upstreams on port 443, any name: HTTP/1.1 and HTTP/2 on two addresses, HTTP/1.1 alone on a third.
//!
//! | path | what it does |
//! |---|---|
//! | `/echo…` (and any other path) | JSON of the request as it arrived |
//! | `/bytes/N` | N bytes of a pattern, streamed |
//! | `/zeros/N` | N zeros, streamed, as fast as they are taken |
//! | `/sink` | reads the body: JSON of its length and SHA-256; `/drain`: of its length alone |
//! | `/sse?id=X` | one chunk for each text sent through `Web::events("X")`, or to `/send?id=X` |
//! | `/send?id=X` | has the body sent as an event; an empty body ends the stream |
//! | `/chat` | sends each piece of the body back as it comes |
//! | `/slow?id=X` | answers only when the test sends a text there |
//! | `/trailers` | a body and the trailer `x-checksum` · `/grpc/N`: gRPC status N, behind a message if it is 0, else alone |
//! | `/status/N` | that status with a short body (204 and 304 without) |
//! | `/redirect?to=URL` | 302 |
//! | `/mirror…`, `/mirror-events…` | the credential that it was sent, in every form (`mirror.rs`) |
//! | `/early` | 401 before the body is read |
//! | `/ws` | WebSocket echo · `/upgrade-foo`: 101 to a protocol of the name foo, echoing bytes |

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use aws_lc_rs::digest;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_rustls::TlsAcceptor;

use super::pki::Pki;
use super::{aws, git, mirror, mistral, packages, websocket};
use crate::rig;

/// A request as the upstream got it.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub method: String,
    /// Path and query; in HTTP/1 the whole target as sent.
    pub target: String,
    /// `:authority` or Host, as sent.
    pub host: String,
    /// The name in the ClientHello.
    pub sni: Option<String>,
    /// The upstream's own address.
    pub local: SocketAddr,
    pub version: Version,
    /// Every header in its order, repeated ones repeated; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as far as the route read it (not of `/sink`).
    pub body: Vec<u8>,
}

impl Recorded {
    /// Every value of a header.
    pub fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(header, _)| header == name).map(|(_, value)| value.as_str()).collect()
    }

    /// How often a text stands in it, wherever.
    pub fn count(&self, text: &str) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| count(name, text) + count(value, text)).sum();
        headers
            + count(&self.target, text)
            + count(&self.host, text)
            + count(&String::from_utf8_lossy(&self.body), text)
    }
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// The upstream's log and levers.
pub struct Web {
    log: Mutex<Vec<Recorded>>,
    connections: Mutex<Vec<(String, SocketAddr)>>,
    waiting: Mutex<HashMap<String, UnboundedReceiver<Bytes>>>,
    streams: Mutex<HashMap<String, UnboundedSender<Bytes>>>,
    files: PathBuf,
    repositories: PathBuf,
}

impl Web {
    /// With the trees that the package indices and git serve.
    pub fn new(files: PathBuf, repositories: PathBuf) -> Self {
        Self {
            log: Mutex::default(),
            connections: Mutex::default(),
            waiting: Mutex::default(),
            streams: Mutex::default(),
            files,
            repositories,
        }
    }

    /// The requests whose host or SNI is `name`. A test that uses a name of its own sees its own requests only.
    pub fn requests(&self, name: &str) -> Vec<Recorded> {
        let log = self.log.lock().unwrap();
        let to_name =
            |request: &&Recorded| request.host.split(':').next() == Some(name) || request.sni.as_deref() == Some(name);
        log.iter().filter(to_name).cloned().collect()
    }

    /// The requests that carry a text anywhere, whatever their host.
    pub fn requests_with(&self, text: &str) -> Vec<Recorded> {
        self.log.lock().unwrap().iter().filter(|request| request.count(text) > 0).cloned().collect()
    }

    /// The TLS connections made with this SNI.
    pub fn connections(&self, sni: &str) -> usize {
        self.connections.lock().unwrap().iter().filter(|(name, _)| name == sni).count()
    }

    /// What `/sse?id=…` and `/slow?id=…` send: each text as one chunk, the end when it is dropped.
    pub fn events(&self, id: &str) -> UnboundedSender<Bytes> {
        let (sender, receiver) = unbounded_channel();
        self.waiting.lock().unwrap().insert(id.to_owned(), receiver);
        sender
    }

    /// Listens on port 443 of both addresses and both families, and of the one for HTTP/1.1.
    pub async fn listen(self: Arc<Self>, pki: &Arc<Pki>) {
        let tls = TlsAcceptor::from(pki.server(&["h2", "http/1.1"]));
        for address in [rig::WEB, rig::OTHER, "2a11:22:33::9", "2a11:22:33::10"] {
            let listener = TcpListener::bind((address, 443)).await.unwrap();
            tokio::spawn(self.clone().accept(listener, tls.clone()));
        }
        let listener = TcpListener::bind((rig::WEB_HTTP1, 443)).await.unwrap();
        tokio::spawn(self.accept(listener, TlsAcceptor::from(pki.server(&["http/1.1"]))));
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, tls: TlsAcceptor) {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(self.clone().serve(stream, tls.clone()));
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, tls: TlsAcceptor) {
        let local = stream.local_addr().unwrap();
        let _ = stream.set_nodelay(true);
        let Ok(stream) = tls.accept(stream).await else { return };
        let session = stream.get_ref().1;
        let sni = session.server_name().map(str::to_owned);
        let h2 = session.alpn_protocol() == Some(b"h2");
        self.connections.lock().unwrap().push((sni.clone().unwrap_or_default(), local));
        let service = service_fn(move |request| {
            let (web, sni) = (self.clone(), sni.clone());
            async move { Ok::<_, Infallible>(web.handle(request, sni, local).await) }
        });
        let io = TokioIo::new(stream);
        // How the client ends a connection is its own affair.
        let _ = if h2 {
            let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            server.max_header_list_size(1 << 20).serve_connection(io, service).await
        } else {
            hyper::server::conn::http1::Builder::new().serve_connection(io, service).with_upgrades().await
        };
    }

    async fn handle(&self, request: Request<Incoming>, sni: Option<String>, local: SocketAddr) -> Response<Reply> {
        let recorded = record(&request, sni, local);
        let row = {
            let mut log = self.log.lock().unwrap();
            log.push(recorded.clone());
            log.len() - 1
        };
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let head = request.method() == Method::HEAD;
        match path.split('/').nth(1).unwrap_or_default() {
            _ if recorded.host.starts_with("git.test") => git::serve(&self.repositories, request).await,
            _ if recorded.host.ends_with(aws::SUFFIX) => aws::serve(request, &recorded.host).await,
            _ if recorded.host == mistral::HOST => mistral::serve(request).await,
            _ if packages::serves(&recorded.host) => packages::serve(&self.files, &recorded.host, &path),
            "mirror" => mirror::show(&query, recorded.header("x-key").first().unwrap_or(&"nothing sent"), head),
            _ if head => plain(StatusCode::OK, Reply::Once(None)),
            "bytes" => plain(StatusCode::OK, Reply::Pattern { sent: 0, left: last_number(&path) }),
            "zeros" => plain(StatusCode::OK, Reply::Zeros { left: last_number(&path) }),
            "chat" => plain(StatusCode::OK, Reply::Same(request.into_body())),
            "send" => self.send(&query, request.into_body()).await,
            "grpc" => grpc(last_number(&path)),
            "sink" => sink(request.into_body(), Some(digest::Context::new(&digest::SHA256))).await,
            "drain" => sink(request.into_body(), None).await,
            "sse" => self.stream(&query),
            "mirror-events" => self.mirror_events(&query, recorded.header("x-key").concat()),
            "slow" => self.slow(&query).await,
            "trailers" => trailers(),
            "status" => status(last_number(&path) as u16),
            "redirect" => redirect(&query),
            "early" => plain(StatusCode::UNAUTHORIZED, Reply::text("no\n")),
            "ws" => websocket::upgrade(request),
            "upgrade-foo" => websocket::upgrade_to_foo(request),
            _ => self.echo(row, &recorded, request.into_body()).await,
        }
    }

    async fn echo(&self, row: usize, recorded: &Recorded, body: Incoming) -> Response<Reply> {
        let collected = body.collect().await;
        let sent_trailers = collected.as_ref().ok().and_then(|body| body.trailers().cloned()).unwrap_or_default();
        let body = collected.map(|body| body.to_bytes()).unwrap_or_default();
        self.log.lock().unwrap()[row].body = body.to_vec();
        json_reply(&json!({
            "method": recorded.method,
            "target": recorded.target,
            "host": recorded.host,
            "sni": recorded.sni,
            "version": format!("{:?}", recorded.version),
            "headers": recorded.headers,
            "length": body.len(),
            "trailers": pairs(&sent_trailers),
        }))
    }

    fn stream(&self, query: &str) -> Response<Reply> {
        let id = value(query, "id");
        let events = self.waiting.lock().unwrap().remove(id).unwrap_or_else(|| {
            let (sender, events) = unbounded_channel();
            self.streams.lock().unwrap().insert(id.to_owned(), sender);
            events
        });
        let mut response = plain(StatusCode::OK, Reply::Events(events));
        response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
        response
    }

    fn mirror_events(&self, query: &str, key: String) -> Response<Reply> {
        let (sender, events) = unbounded_channel();
        self.streams.lock().unwrap().insert(value(query, "id").to_owned(), sender);
        mirror::show_events(query, key, events)
    }

    async fn send(&self, query: &str, body: Incoming) -> Response<Reply> {
        let text = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let mut streams = self.streams.lock().unwrap();
        if text.is_empty() {
            streams.remove(value(query, "id"));
        } else if streams.get(value(query, "id")).is_none_or(|stream| stream.send(text).is_err()) {
            return status(404);
        }
        status(204)
    }

    async fn slow(&self, query: &str) -> Response<Reply> {
        let waiting = self.waiting.lock().unwrap().remove(value(query, "id"));
        let text = match waiting {
            Some(mut texts) => texts.recv().await.unwrap_or_default(),
            None => return status(404),
        };
        plain(StatusCode::OK, Reply::Once(Some(text)))
    }
}

fn record(request: &Request<Incoming>, sni: Option<String>, local: SocketAddr) -> Recorded {
    let host = request.headers().get("host").map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
    Recorded {
        method: request.method().to_string(),
        target: match request.uri().path_and_query() {
            Some(path) if request.version() == Version::HTTP_2 => path.to_string(),
            Some(_) | None => request.uri().to_string(),
        },
        host: request.uri().authority().map(ToString::to_string).or(host).unwrap_or_default(),
        sni,
        local,
        version: request.version(),
        headers: pairs(request.headers()),
        body: Vec::new(),
    }
}

fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

static ZEROS: [u8; 262_144] = [0; 262_144];

/// A response body of the fixtures.
pub enum Reply {
    Once(Option<Bytes>),
    Pattern { sent: u64, left: u64 },
    Zeros { left: u64 },
    Same(Incoming),
    Events(UnboundedReceiver<Bytes>),
    WithTrailers(Option<Bytes>, Option<HeaderMap>),
    Other(UnsyncBoxBody<Bytes, Infallible>),
}

impl Reply {
    /// A whole body.
    pub fn text(text: impl Into<Bytes>) -> Self {
        Self::Once(Some(text.into()))
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match &mut *self {
            Self::Once(text) => text.take().map(Frame::data),
            Self::Pattern { left: 0, .. } => None,
            Self::Pattern { sent, left } => {
                let length = 65_536.min(*left);
                let chunk: Vec<u8> = (*sent..*sent + length).map(|at| (at % 251) as u8).collect();
                *sent += length;
                *left -= length;
                Some(Frame::data(chunk.into()))
            }
            Self::Zeros { left: 0 } => None,
            Self::Zeros { left } => {
                let length = (ZEROS.len() as u64).min(*left);
                *left -= length;
                Some(Frame::data(Bytes::from_static(&ZEROS[..length as usize])))
            }
            Self::Same(body) => {
                return Pin::new(body).poll_frame(context).map(|frame| frame.and_then(Result::ok).map(Ok));
            }
            Self::Events(events) => {
                return events.poll_recv(context).map(|event| event.map(|text| Ok(Frame::data(text))));
            }
            Self::Other(body) => return Pin::new(body).poll_frame(context),
            Self::WithTrailers(text, trailers) => match text.take() {
                Some(text) => Some(Frame::data(text)),
                None => trailers.take().map(Frame::trailers),
            },
        };
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Once(None) | Self::WithTrailers(None, None))
    }
}

/// A response of this status and body.
pub fn plain(status: StatusCode, body: Reply) -> Response<Reply> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// A response of this JSON.
pub fn json_reply(value: &Value) -> Response<Reply> {
    let mut response = plain(StatusCode::OK, Reply::text(format!("{value}\n")));
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    response
}

async fn sink(mut body: Incoming, mut hash: Option<digest::Context>) -> Response<Reply> {
    let mut length = 0;
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            hash.iter_mut().for_each(|hash| hash.update(data));
            length += data.len();
        }
    }
    let sum = hash.map(|hash| hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    json_reply(&json!({"length": length, "sha256": sum}))
}

fn trailers() -> Response<Reply> {
    let mut fields = HeaderMap::new();
    fields.insert("x-checksum", "abc123".parse().unwrap());
    let mut response = plain(StatusCode::OK, Reply::WithTrailers(Some("with trailers\n".into()), Some(fields)));
    response.headers_mut().insert("trailer", "x-checksum".parse().unwrap());
    response
}

fn grpc(code: u64) -> Response<Reply> {
    let (mut fields, message) = (HeaderMap::new(), Bytes::from_static(b"\0\0\0\0\x02hi"));
    fields.insert("grpc-status", code.into());
    let mut response = plain(StatusCode::OK, Reply::Once(None));
    match code {
        0 => *response.body_mut() = Reply::WithTrailers(Some(message), Some(fields)),
        _ => response.headers_mut().extend(fields),
    }
    response.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    response
}

fn status(code: u16) -> Response<Reply> {
    let body = if matches!(code, 204 | 304) { Reply::Once(None) } else { Reply::text(format!("status {code}\n")) };
    plain(StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST), body)
}

fn redirect(query: &str) -> Response<Reply> {
    let mut response = plain(StatusCode::FOUND, Reply::text("elsewhere\n"));
    response.headers_mut().insert("location", value(query, "to").parse().unwrap());
    response
}

/// A parameter of a query; empty without it.
pub fn value<'a>(query: &'a str, key: &str) -> &'a str {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == key).map_or("", |(_, value)| value)
}

fn last_number(path: &str) -> u64 {
    path.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}
