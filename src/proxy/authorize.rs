//! The only maker of permits.

use http::Request;

use crate::policy::{Grant, Permit, Policy};
use crate::types::{Destination, RequestFacts};

use super::refusal::Refusal;

/// Something that the policy has permitted, for one destination. `inject` takes nothing else. Nobody else can make one:
///
/// ```compile_fail,E0451
/// use sandbox_proxy::proxy::authorize::Permitted;
///
/// fn forge(permit: sandbox_proxy::policy::Permit) -> Permitted<()> {
///     Permitted { request: (), permit }
/// }
/// ```
#[derive(Debug)]
pub struct Permitted<R> {
    request: R,
    permit: Permit,
}

/// Judges one request. Called for every request of a connection, the first one included.
///
/// # Errors
/// The policy's denial.
pub fn authorize<B>(
    policy: &Policy,
    destination: &Destination,
    request: Request<B>,
) -> Result<Permitted<Request<B>>, Refusal> {
    let facts = RequestFacts { destination, method: request.method().as_str(), path: request.uri().path() };
    let permit = policy.request(&facts)?;
    Ok(Permitted { request, permit })
}

impl<R> Permitted<R> {
    /// What permitted it.
    pub fn grant(&self) -> &Grant {
        &self.permit.grant
    }

    /// The bindings that apply, as indexes into the policy's.
    pub fn bindings(&self) -> &[usize] {
        &self.permit.bindings
    }

    /// Ends the permit: the request and its bindings. `inject` builds on them.
    pub fn into_parts(self) -> (R, Vec<usize>) {
        (self.request, self.permit.bindings)
    }
}
