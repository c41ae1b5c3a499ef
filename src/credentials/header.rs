//! Putting secrets into the headers of requests that the policy gave bindings to.

use std::collections::HashMap;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use zeroize::Zeroizing;

use crate::policy::HeaderBinding;
use crate::types::{Authority, Secret};

use super::source::SourceError;

/// The header values of a policy's bindings, made once. They are marked sensitive, so that HPACK never puts them into a
/// table and `Debug` does not show them, and are wiped when the last of the requests that carry them is gone.
///
/// Its functions take indexes into the bindings it was made from, and panic at any other: a request must not go on without
/// the header that it was to have.
pub struct Injector {
    prepared: Vec<Prepared>,
}

struct Prepared {
    host: Authority,
    header: HeaderName,
    secret_name: String,
    value: Result<HeaderValue, String>,
}

/// A request needs a secret that cannot be had. `Display` is what the sandbox may read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret {secret}, which {host} needs in the header {header}, cannot be read")]
pub struct InjectError {
    /// The host of the binding.
    pub host: Authority,
    /// The header it would set.
    pub header: HeaderName,
    /// The name of the secret it takes.
    pub secret: String,
    /// Why it cannot be read, for the operator.
    pub reason: String,
}

impl Injector {
    /// Prepares the bindings, in their order; `secrets` by name. A secret that is missing or could not be read fails the
    /// requests that need it and no others.
    pub fn new(bindings: &[HeaderBinding], secrets: &HashMap<String, Result<Secret, SourceError>>) -> Self {
        let prepared = bindings.iter().map(|binding| Prepared {
            host: binding.host().clone(),
            header: binding.header().clone(),
            secret_name: binding.secret_name().to_owned(),
            value: match secrets.get(binding.secret_name()) {
                Some(Ok(secret)) => header_value(binding.prefix(), secret, binding.suffix()),
                Some(Err(error)) => Err(error.to_string()),
                None => Err("no secret of that name is configured".to_owned()),
            },
        });
        Self { prepared: prepared.collect() }
    }

    /// Sets the headers of the bindings at these indexes, each exactly once, in place of whatever the client sent under that
    /// name (see [`Self::strip`]). Hop-by-hop headers are to be gone before, or a client could name ours in `Connection`.
    ///
    /// # Errors
    /// [`InjectError`] when a secret cannot be had; then nothing was changed.
    pub fn apply(&self, indexes: &[usize], headers: &mut HeaderMap) -> Result<(), InjectError> {
        for binding in self.at(indexes) {
            if let Err(reason) = &binding.value {
                return Err(InjectError {
                    host: binding.host.clone(),
                    header: binding.header.clone(),
                    secret: binding.secret_name.clone(),
                    reason: reason.clone(),
                });
            }
        }
        self.strip(indexes, headers);
        for binding in self.at(indexes) {
            if let Ok(value) = &binding.value {
                headers.insert(binding.header.clone(), value.clone());
            }
        }
        Ok(())
    }

    /// Takes away what a client sent under the header of one of these bindings, in every spelling that some server takes for
    /// the same: CGI and what descends from it fold `-`, `_` and, in PHP, `.` into one. For trailers too.
    pub fn strip(&self, indexes: &[usize], headers: &mut HeaderMap) {
        for binding in self.at(indexes) {
            headers.remove(&binding.header);
            while let Some(alike) = headers.keys().find(|name| looks_like(name, &binding.header)).cloned() {
                headers.remove(alike);
            }
        }
    }

    fn at<'a>(&'a self, indexes: &'a [usize]) -> impl Iterator<Item = &'a Prepared> {
        indexes.iter().map(|&index| &self.prepared[index])
    }
}

/// Names are in lower case here; every other character than a letter or digit counts as the same.
fn looks_like(a: &HeaderName, b: &HeaderName) -> bool {
    let fold = |byte: u8| if byte.is_ascii_alphanumeric() { byte } else { b'-' };
    let (a, b) = (a.as_str(), b.as_str());
    a.len() == b.len() && a.bytes().map(fold).eq(b.bytes().map(fold))
}

fn header_value(prefix: &str, secret: &Secret, suffix: &str) -> Result<HeaderValue, String> {
    let parts = [prefix.as_bytes(), secret.expose(), suffix.as_bytes()];
    // Of its final size from the start: growing would leave copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(parts.iter().map(|part| part.len()).sum()));
    for part in parts {
        bytes.extend_from_slice(part);
    }
    sensitive(bytes)
}

/// The value of `Proxy-Authorization` (RFC 7617) out of a secret `USER:PASSWORD`.
///
/// # Errors
/// There is no colon in it. The text never holds the value.
pub fn basic(secret: &Secret) -> Result<HeaderValue, String> {
    if !secret.expose().contains(&b':') {
        return Err("it holds no colon, which stands between user and password".to_owned());
    }
    const SCHEME: &[u8] = b"Basic ";
    let length = secret.expose().len().div_ceil(3) * 4;
    let mut bytes = Zeroizing::new(vec![0; SCHEME.len() + length]);
    bytes[..SCHEME.len()].copy_from_slice(SCHEME);
    let written = BASE64_STANDARD.encode_slice(secret.expose(), &mut bytes[SCHEME.len()..]);
    written.map_err(|error| error.to_string())?;
    sensitive(bytes)
}

fn sensitive(bytes: Zeroizing<Vec<u8>>) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_maybe_shared(Bytes::from_owner(bytes))
        .map_err(|_| "with what stands around it, it is no legal header value".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

impl fmt::Debug for Injector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.prepared.iter().map(|p| (&p.secret_name, &p.header));
        f.debug_tuple("Injector").field(&names.collect::<Vec<_>>()).finish()
    }
}

#[cfg(test)]
mod tests;
