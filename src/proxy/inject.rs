//! The only place that puts a credential into a request, and the last thing before it leaves.

use http::Request;

use crate::credentials::{PayloadHash, Used};

use super::Connection;
use super::github::Scoped;
use super::headers;
use super::held::Held;
use super::refusal::Refusal;
use crate::sandboxes::InForce;

/// A permitted request with its credentials in it. `upstream` sends nothing else. Nobody else can make one:
///
/// ```compile_fail,E0451
/// use sandbox_proxy::proxy::inject::Credentialed;
///
/// let forged = Credentialed { request: (), bindings: Vec::new() };
/// ```
pub struct Credentialed<R> {
    request: R,
    bindings: Vec<usize>,
}

/// Takes off what belongs to one hop and whatever the client put where a credential goes, then sets the credentials. In
/// this order, so that a client that names a header in `Connection` cannot have ours dropped.
///
/// # Errors
/// [`Refusal::NoCredential`] when a binding's secret cannot be had, and what [`Held::hold`] gives.
pub async fn inject(
    connection: &Connection,
    in_force: &InForce,
    scoped: Scoped<Request<Held>>,
    upgrade: bool,
) -> Result<(Credentialed<Request<Held>>, Used), Refusal> {
    let (request, bindings) = scoped.into_parts();
    let (mut head, mut body) = request.into_parts();
    let fields = &mut head.headers;
    headers::strip_hop_by_hop(fields);
    headers::join_cookies(fields);
    if upgrade {
        headers::set_websocket_upgrade(fields);
    }
    let injector = &in_force.injector;
    if injector.needs_body(&bindings, &head) {
        // Boxed, like all that is rare: else every request's future would have room for it.
        let whole = Box::pin(body.hold(&connection.destination.authority)).await?;
        head.extensions.insert(PayloadHash::of(whole));
    }
    let used = injector.apply(&bindings, &mut head).await?;
    Ok((Credentialed { request: Request::from_parts(head, body), bindings }, used))
}

impl<R> Credentialed<R> {
    /// The request, for the wire, and the bindings whose credentials it has: no trailer may bring another.
    pub fn into_parts(self) -> (R, Vec<usize>) {
        (self.request, self.bindings)
    }
}
