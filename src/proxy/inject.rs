//! The only place that puts a credential into a request, and the last thing before it leaves.

use http::{Method, Request};

use crate::credentials::{Injector, Used};

use super::github::Scoped;
use super::headers;
use super::refusal::Refusal;

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
/// [`Refusal::NoCredential`] when a binding's secret cannot be had.
pub async fn inject<B>(
    injector: &Injector,
    scoped: Scoped<Request<B>>,
    upgrade: bool,
) -> Result<(Credentialed<Request<B>>, Used), Refusal> {
    let (request, bindings) = scoped.into_parts();
    let (mut head, body) = request.into_parts();
    let fields = &mut head.headers;
    headers::strip_hop_by_hop(fields);
    headers::join_cookies(fields);
    if upgrade {
        headers::set_websocket_upgrade(fields);
    }
    let used = injector.apply(&bindings, &mut head).await?;
    Ok((Credentialed { request: Request::from_parts(head, body), bindings }, used))
}

impl<B> Credentialed<Request<B>> {
    /// What is asked for.
    pub fn method(&self) -> &Method {
        self.request.method()
    }
}

impl<R> Credentialed<R> {
    /// The request, for the wire, and the bindings whose credentials it has: no trailer may bring another.
    pub fn into_parts(self) -> (R, Vec<usize>) {
        (self.request, self.bindings)
    }
}
