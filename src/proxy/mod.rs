//! The path of a request: capture → intercept → authorize → scope → inject → upstream → respond.
//!
//! Each arrow is a type with one maker: only [`authorize`] makes a `Permitted`, only [`github`] a `Scoped`, only [`inject`] a
//! `Credentialed`, and
//! [`upstream`] sends nothing else. Plain and TLS, HTTP/1.1 and HTTP/2, captured or proxied: all meet in [`handle`].

pub mod authorize;
pub mod body;
pub mod brake;
pub mod capture;
pub mod fetch;
pub mod github;
pub mod headers;
pub mod held;
pub mod identity;
pub mod inject;
pub mod intercept;
pub mod pool;
pub mod refusal;
pub mod relay;
pub mod scrub;
pub mod stream;
pub mod tunnel;
pub mod underway;
pub mod upstream;
pub mod upstream_proxy;

use std::convert::Infallible;
use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;

use crate::audit::{Audit, AuditEvent, Row};
use crate::dns::Resolver;
use crate::policy::Grant;
use crate::sandboxes::Sandbox;
use crate::tls::roots::UpstreamTls;
use crate::types::{Destination, Scheme};

use body::ProxyBody;
use capture::guard::RawSwitch;
use capture::{Capture, Slot};
use github::Outcome;
use held::Held;
use pool::{Identity, Key, Lease, Pool};
use refusal::{Refusal, RequestHead};
use scrub::BodyFilter;
use tunnel::Joint;
use underway::{Ticket, Underway};
use upstream_proxy::UpstreamProxy;

/// What one thread needs to serve any sandbox.
#[derive(Clone)]
pub struct Outlet {
    /// Names to checked addresses.
    pub resolver: Arc<Resolver>,
    /// What upstreams must chain to.
    pub upstream_tls: Arc<UpstreamTls>,
    /// What they are dialled through.
    pub upstream_proxy: Option<Arc<UpstreamProxy>>,
    /// Where rows go.
    pub audit: Audit,
}

impl Outlet {
    /// What serves one sandbox, with upstream connections of its own.
    pub fn worker(&self, sandbox: Arc<Sandbox>) -> Worker {
        let Self { resolver, upstream_tls, upstream_proxy, audit } = self.clone();
        Worker { sandbox, resolver, upstream_tls, upstream_proxy, audit, pool: Arc::default() }
    }
}

/// What one thread needs to serve one sandbox.
pub struct Worker {
    /// Whose traffic it is.
    pub sandbox: Arc<Sandbox>,
    /// Names to checked addresses.
    pub resolver: Arc<Resolver>,
    /// What upstreams must chain to.
    pub upstream_tls: Arc<UpstreamTls>,
    /// What they are dialled through.
    pub upstream_proxy: Option<Arc<UpstreamProxy>>,
    /// Where rows go.
    pub audit: Audit,
    /// Upstream connections.
    pub pool: Arc<Pool>,
}

/// One connection from the sandbox: where it was permitted to ask for, and how it came.
pub struct Connection {
    /// Who serves it.
    pub worker: Arc<Worker>,
    /// Its place among the connections.
    pub slot: Slot,
    /// How it entered.
    pub capture: Capture,
    /// Where it goes.
    pub destination: Destination,
    /// What is under way on it.
    pub underway: Arc<Underway>,
    /// The name of the TLS handshake, where that is not the destination's: every request is misdirected then.
    pub mismatched_sni: Option<String>,
    /// The destination as `Host` has it.
    pub host_value: http::HeaderValue,
    /// The destination as `:authority` has it.
    pub uri_authority: http::uri::Authority,
}

impl Connection {
    /// A connection to `destination`.
    pub fn new(worker: Arc<Worker>, slot: Slot, capture: Capture, destination: Destination) -> Self {
        let text = destination.asked_as();
        let uri_authority = text.parse().expect("a canonical authority is one to http, too");
        let host_value = http::HeaderValue::from_str(&text).expect("a canonical authority is ASCII");
        let (underway, mismatched_sni) = (Arc::default(), None);
        Self { worker, slot, capture, destination, underway, mismatched_sni, host_value, uri_authority }
    }

    /// The same connection, for a destination that it has named since.
    pub fn to(&self, destination: Destination) -> Self {
        let underway = Arc::clone(&self.underway);
        Self { underway, ..Self::new(Arc::clone(&self.worker), self.slot.clone(), self.capture, destination) }
    }

    /// The same connection, now that its scheme is known.
    pub fn speaking(&self, scheme: Scheme) -> Self {
        self.to(Destination { scheme, ..self.destination.clone() })
    }

    /// A row about this connection.
    pub fn event(&self) -> AuditEvent {
        AuditEvent::new(Some(self.worker.sandbox.id.clone()), self.capture.as_str(), Some(&self.destination))
    }
}

/// Answers one request, whatever it came over.
///
/// # Errors
/// Never: every failure is an answer.
pub async fn handle(
    connection: Arc<Connection>,
    raw: RawSwitch,
    request: Request<Incoming>,
) -> Result<Response<ProxyBody>, Infallible> {
    let request = Held::upload(request);
    let http1 = request.version() < Version::HTTP_2;
    let head = RequestHead::of(request.method(), request.headers(), http1);
    let mut row = match connection.worker.audit.open(describe(&connection, &request)).await {
        Ok(row) => row,
        Err(full) => return Ok(Refusal::from(full).response(None, &head)),
    };
    let asked = format_asked(&connection, &request);
    Ok(match pass(&connection, raw, request, &mut row).await {
        Ok(Answered::Passed(passed)) => deliver(passed, row),
        Ok(Answered::Here(response)) => {
            row.head(response.status().as_u16());
            response
        }
        Err(refusal) => refuse(&refusal, Some(&asked()), &head, row),
    })
}

/// What comes of a request that is not refused.
#[expect(clippy::large_enum_variant, reason = "nearly all are of the larger kind, which is moved once")]
enum Answered {
    Passed(Passed),
    /// It was made here.
    Here(Response<ProxyBody>),
}

/// A response on its way back.
struct Passed {
    response: Response<Held>,
    lease: Lease,
    /// What its body goes through, where it may hold a secret.
    filter: Option<BodyFilter>,
    /// None where a tunnel holds it.
    ticket: Option<Ticket>,
}

/// The whole path on one screen.
async fn pass(
    connection: &Arc<Connection>,
    raw: RawSwitch,
    mut request: Request<Held>,
    row: &mut Row,
) -> Result<Answered, Refusal> {
    identity::agree(connection, &request)?;
    let in_force = connection.worker.sandbox.in_force();
    let searched = in_force.injector.searched(&connection.destination.authority);
    if searched.is_some() {
        scrub::prepare_request(request.headers_mut());
    }
    let upgrade = headers::websocket_upgrade(request.headers()).then(|| hyper::upgrade::on(&mut request));
    let ticket = connection.underway.request(&connection.destination, request.method(), request.uri());
    let permitted = authorize::authorize(&in_force.policy, &connection.destination, request)?;
    let mut key = Key {
        authority: connection.destination.authority.clone(),
        dialled: matches!(permitted.grant(), Grant::Egress { .. }).then_some(connection.destination.dialled).flatten(),
        http1_only: upgrade.is_some(),
        plain: connection.destination.scheme == Scheme::Http,
        policy: in_force.number,
        identity: None,
    };
    row.event().rule = Some(permitted.grant().clone());
    let (scoped, mut plan) = match github::scope(connection, &in_force, permitted).await? {
        Outcome::Pass(scoped, plan) => (scoped, plan),
        Outcome::Here(response) => return Ok(Answered::Here(response)),
    };
    let names = scoped.bindings().iter().flat_map(|&at| in_force.policy.bindings()[at].secrets());
    row.event().bindings = names.map(ToOwned::to_owned).collect();
    let head = *scoped.request().method() == Method::HEAD;
    let (credentialed, used) = inject::inject(connection, &in_force, scoped, upgrade.is_some()).await?;
    key.identity = used.identity().cloned().map(Identity);
    let (mut response, mut lease) =
        upstream::send(connection, &in_force, credentialed, key.clone(), row, &ticket).await?;
    if response.status() == StatusCode::UNAUTHORIZED {
        match &mut plan {
            None => used.refused(),
            // Who holds a stand-in can do nothing about it.
            Some(plan) if !used.is_empty() => {
                let renewed = used.renewed().await;
                let Some(scoped) = plan.again().filter(|_| renewed) else { return Err(plan.revoked()) };
                let (credentialed, _) = inject::inject(connection, &in_force, scoped, false).await?;
                (response, lease) = upstream::send(connection, &in_force, credentialed, key, row, &ticket).await?;
                if response.status() == StatusCode::UNAUTHORIZED {
                    return Err(plan.revoked());
                }
            }
            Some(plan) => return Err(plan.uncredentialed()),
        }
    }
    let mut response = response.map(Held::from);
    if let Some(plan) = &mut plan {
        response = plan.take(response).await?;
    }
    let filter = searched.map(|values| scrub::take_response(connection, values, head, &mut response)).transpose()?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        lease.retire();
        tunnel::switch(
            connection,
            &mut response,
            Joint { client: upgrade, raw, ticket, masker: filter.map(BodyFilter::into_masker) },
        )?;
        return Ok(Answered::Passed(Passed { response, lease, filter: None, ticket: None }));
    }
    headers::clean_response(response.headers_mut());
    Ok(Answered::Passed(Passed { response, lease, filter, ticket: Some(ticket) }))
}

fn deliver(passed: Passed, mut row: Row) -> Response<ProxyBody> {
    let (mut parts, body) = passed.response.into_parts();
    row.head(parts.status.as_u16());
    parts.extensions.clear();
    parts.version = Version::default();
    Response::from_parts(parts, ProxyBody::relayed(body, passed.filter, passed.lease, row, passed.ticket))
}

/// Refuses a request that has no row yet.
pub async fn refuse_unopened(
    audit: &Audit,
    event: AuditEvent,
    refusal: &Refusal,
    asked: Option<&str>,
    head: &RequestHead,
) -> Response<ProxyBody> {
    match audit.open(event).await {
        Ok(row) => refuse(refusal, asked, head, row),
        Err(full) => Refusal::from(full).response(asked, head),
    }
}

fn refuse(refusal: &Refusal, asked: Option<&str>, head: &RequestHead, mut row: Row) -> Response<ProxyBody> {
    row.event().deny(refusal.code(), refusal.for_operator(), refusal.cure());
    row.head(refusal.status().as_u16());
    refusal.response(asked, head)
}

fn describe(connection: &Connection, request: &Request<Held>) -> AuditEvent {
    let mut event = connection.event();
    event.protocol = match request.version() {
        Version::HTTP_2 => "h2",
        Version::HTTP_10 => "http/1.0",
        _ => "http/1.1",
    };
    event.method = Some(request.method().clone());
    event.path = request.uri().path_and_query().and_then(shortened);
    event
}

/// As much of a path as a row shows, so that open rows do not hold whole heads.
fn shortened(path: &PathAndQuery) -> Option<PathAndQuery> {
    const MOST: usize = 2048;
    let text = path.as_str();
    if text.len() <= MOST {
        return Some(path.clone());
    }
    let end = (0..=MOST).rev().find(|&end| text.is_char_boundary(end))?;
    text[..end].parse().ok()
}

/// What a refusal says was asked for, put into words only when there is one.
fn format_asked(connection: &Connection, request: &Request<Held>) -> impl FnOnce() -> String + use<> {
    let (method, path) = (request.method().clone(), request.uri().path_and_query().cloned());
    let destination = connection.destination.clone();
    move || {
        let path = path.as_ref().map_or("", PathAndQuery::path);
        format!("{method} {}://{}{path}", destination.scheme, destination.authority)
    }
}
