//! HashiCorp Vault and OpenBao: one field of a secret in a key-value engine of version 2.

use std::collections::HashMap;
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use crate::policy::VaultSource;

use super::fetch::{Answer, Call};
use super::issue::{IssueError, Issued, Issuer, Issuing, Reading};
use super::issuers::{Asking, Needed, meaning};

const TOKEN: HeaderName = HeaderName::from_static("x-vault-token");
const NAMESPACE: HeaderName = HeaderName::from_static("x-vault-namespace");
/// Some set-ups refuse requests without it, so that no browser can be made to send them.
const REQUEST: HeaderName = HeaderName::from_static("x-vault-request");

/// Reads the current version of a secret.
pub(super) struct VaultIssuer {
    pub(super) asking: Asking,
    pub(super) source: VaultSource,
    pub(super) token: Needed,
}

impl VaultIssuer {
    async fn ask(&self) -> Result<Issued, IssueError> {
        let source = &self.source;
        let mut call = Call::get(source.url.clone());
        call.headers.insert(REQUEST, HeaderValue::from_static("true"));
        let usable = |namespace: &String| HeaderValue::try_from(namespace).ok();
        if let Some(namespace) = source.namespace.as_ref().and_then(usable) {
            call.headers.insert(NAMESPACE, namespace);
        }
        let token = self.token.get().await?;
        let call = call.with_secret(TOKEN, "", token.expose()).map_err(|reason| self.token.unusable(reason))?;
        let Answer { status, body, .. } = self.asking.fetch.fetch(call).await?;
        if status != StatusCode::OK {
            let means = why(status, &body);
            return Err(IssueError::Status { from: source.url.authority().clone(), status: status.as_u16(), means });
        }
        let wrong = |error| IssueError::Vault { from: source.url.authority().clone(), error };
        let read = serde_json::from_slice::<Read<'_>>(&body).map_err(|_| wrong(VaultError::Form))?;
        let mut fields = read.data.data.ok_or_else(|| wrong(VaultError::Form))?;
        let field = fields.remove(source.field.as_str());
        let field = field.ok_or_else(|| wrong(VaultError::NoField(source.field.clone())))?;
        let value = serde_json::from_str::<String>(field.get()).map(|text| Zeroizing::new(text.into_bytes()));
        let value = value.map_err(|_| wrong(VaultError::NoText(source.field.clone())))?;
        let now = (self.asking.now)();
        let leased = (read.lease_duration > 0).then(|| now.checked_add(Duration::from_secs(read.lease_duration)));
        let reading = Reading { name: &self.asking.name, now, ttl: source.ttl };
        let from = || source.url.authority().clone();
        reading.issued(value, leased.flatten()).map_err(|error| IssueError::Answer { from: from(), error })
    }
}

impl Issuer for VaultIssuer {
    fn issue(&self) -> Issuing<'_> {
        Box::pin(self.ask())
    }
}

/// Why an answer holds no value. The text holds nothing of it but the field's name, which stands in the policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// Not what version 2 of the engine answers.
    #[error("is not that of a key-value engine of version 2; check that path is MOUNT/data/NAME")]
    Form,
    /// The secret is there and has no such field.
    #[error("has no field {0}")]
    NoField(String),
    /// A number, say.
    #[error("has a field {0} that is no text")]
    NoText(String),
}

#[derive(Deserialize)]
struct Read<'a> {
    #[serde(borrow)]
    data: Versioned<'a>,
    #[serde(default)]
    lease_duration: u64,
}

/// A version of a secret. The fields stay where they were read, but for the one that is wanted.
#[derive(Deserialize)]
struct Versioned<'a> {
    #[serde(borrow)]
    data: Option<HashMap<String, &'a RawValue>>,
}

/// Of an answer that is no success.
#[derive(Deserialize)]
struct Failed {
    data: Option<Gone>,
}

#[derive(Deserialize)]
struct Gone {
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Metadata {
    destroyed: bool,
}

fn why(status: StatusCode, body: &[u8]) -> &'static str {
    match status.as_u16() {
        403 => ": the token has ended, or its policies do not permit `read` of this path (with data/ behind the mount)",
        404 => {
            let failed = serde_json::from_slice::<Failed>(body).ok();
            match failed.and_then(|failed| failed.data?.metadata) {
                Some(Metadata { destroyed: true }) => ": the current version of the secret was destroyed",
                Some(Metadata { destroyed: false }) => ": the current version of the secret was deleted",
                None => ": there is no such secret; path is MOUNT/data/NAME, and namespace where there is one",
            }
        }
        307 => ": it is a standby, and redirects are not followed; name the active node as its address",
        503 => ": it is sealed, or in maintenance",
        _ => meaning(status),
    }
}

#[cfg(test)]
mod tests;
