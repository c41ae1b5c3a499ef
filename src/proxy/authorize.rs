//! The only maker of permits.

use http::Request;

use crate::policy::{Grant, Permit};
use crate::types::{Destination, RequestFacts};

use super::refusal::Refusal;

/// Something that the policy has permitted, for one destination. `inject` takes nothing else.
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
    policy: &crate::policy::Policy,
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

    /// What was permitted.
    pub fn request_mut(&mut self) -> &mut R {
        &mut self.request
    }

    /// Ends the permit; `inject` builds on it.
    pub fn into_inner(self) -> R {
        self.request
    }
}
