//! Putting secrets into the headers of requests that the policy gave bindings to.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use zeroize::Zeroizing;

use crate::policy::HeaderBinding;
use crate::types::{Authority, Secret};

use super::renew::{Keeper, Live};

/// The header values of a policy's bindings, made once for each value of a credential. They are marked sensitive, so that
/// HPACK never puts them into a table and `Debug` does not show them, and are wiped when the last of the requests that carry
/// them is gone.
///
/// Its functions take indexes into the bindings it was made from, and panic at any other: a request must not go on without
/// the header that it was to have.
pub struct Injector {
    bound: Vec<Bound>,
}

struct Bound {
    binding: HeaderBinding,
    /// `None` where no secret of that name is configured.
    keeper: Option<Arc<Keeper>>,
    made: Mutex<Option<Made>>,
}

/// The header for one value of the credential.
#[derive(Clone)]
struct Made {
    generation: u64,
    header: Result<HeaderValue, String>,
}

/// A request needs a secret that cannot be had. `Display` is what the sandbox may read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret {secret}, which {host} needs in the header {header}, cannot be had")]
pub struct InjectError {
    /// The host of the binding.
    pub host: Authority,
    /// The header it would set.
    pub header: HeaderName,
    /// The name of the secret it takes.
    pub secret: String,
    /// Why it cannot be had, for the operator.
    pub reason: String,
}

/// The credentials that one request has got.
#[derive(Debug, Default)]
pub struct Used(Vec<(Arc<Keeper>, Arc<Live>)>);

impl Used {
    /// The upstream has refused them.
    pub fn refused(&self) {
        self.0.iter().for_each(|(keeper, live)| keeper.refused(live));
    }
}

impl Injector {
    /// Prepares the bindings, in their order; `keepers` by the name of the secret. One that is missing fails the requests that
    /// need it and no others.
    pub fn new(bindings: &[HeaderBinding], keepers: &HashMap<String, Arc<Keeper>>) -> Self {
        let bound = bindings.iter().map(|binding| Bound {
            binding: binding.clone(),
            keeper: keepers.get(binding.secret_name()).cloned(),
            made: Mutex::default(),
        });
        Self { bound: bound.collect() }
    }

    /// Sets the headers of the bindings at these indexes, each exactly once, in place of whatever the client sent under that
    /// name (see [`Self::strip`]). Hop-by-hop headers are to be gone before, or a client could name ours in `Connection`. Waits
    /// where a credential has ended and is being renewed.
    ///
    /// # Errors
    /// [`InjectError`] when a secret cannot be had; then nothing was changed.
    pub async fn apply(&self, indexes: &[usize], headers: &mut HeaderMap) -> Result<Used, InjectError> {
        let mut ready = Vec::with_capacity(indexes.len());
        let mut used = Vec::with_capacity(indexes.len());
        for bound in self.at(indexes) {
            let (value, keeper, live) = bound.value().await.map_err(|reason| bound.error(reason))?;
            ready.push((bound.binding.header().clone(), value));
            used.push((keeper, live));
        }
        self.strip(indexes, headers);
        headers.extend(ready);
        Ok(Used(used))
    }

    /// Takes away what a client sent under the header of one of these bindings, in every spelling that some server takes for
    /// the same: CGI and what descends from it fold `-`, `_` and, in PHP, `.` into one. For trailers too.
    pub fn strip(&self, indexes: &[usize], headers: &mut HeaderMap) {
        for bound in self.at(indexes) {
            let header = bound.binding.header();
            headers.remove(header);
            while let Some(alike) = headers.keys().find(|name| looks_like(name, header)).cloned() {
                headers.remove(alike);
            }
        }
    }

    /// Those of the bindings, each once. They are to be kept valid.
    pub fn keepers(&self) -> Vec<Arc<Keeper>> {
        let mut keepers = Vec::<Arc<Keeper>>::new();
        for keeper in self.bound.iter().filter_map(|bound| bound.keeper.as_ref()) {
            if !keepers.iter().any(|known| Arc::ptr_eq(known, keeper)) {
                keepers.push(Arc::clone(keeper));
            }
        }
        keepers
    }

    fn at<'a>(&'a self, indexes: &'a [usize]) -> impl Iterator<Item = &'a Bound> {
        indexes.iter().map(|&index| &self.bound[index])
    }
}

impl Bound {
    async fn value(&self) -> Result<(HeaderValue, Arc<Keeper>, Arc<Live>), String> {
        let keeper = self.keeper.clone().ok_or("no secret of that name is configured")?;
        let live = keeper.value().await.map_err(|error| error.0)?;
        let made = self.made(&live);
        Ok((made.header?, keeper, live))
    }

    fn made(&self, live: &Live) -> Made {
        // Nothing panics while it is locked.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some(made) if made.generation == live.generation => made.clone(),
            Some(_) | None => {
                let header = header_value(self.binding.prefix(), &live.secret, self.binding.suffix());
                made.insert(Made { generation: live.generation, header }).clone()
            }
        }
    }

    fn error(&self, reason: String) -> InjectError {
        InjectError {
            host: self.binding.host().clone(),
            header: self.binding.header().clone(),
            secret: self.binding.secret_name().to_owned(),
            reason,
        }
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

/// A header value that no table and no `Debug` shows.
///
/// # Errors
/// It is no legal one.
pub(super) fn sensitive(bytes: Zeroizing<Vec<u8>>) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_maybe_shared(Bytes::from_owner(bytes))
        .map_err(|_| "with what stands around it, it is no legal header value".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

impl fmt::Debug for Injector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.bound.iter().map(|bound| (bound.binding.secret_name(), bound.binding.header()));
        f.debug_tuple("Injector").field(&names.collect::<Vec<_>>()).finish()
    }
}

#[cfg(test)]
mod tests;
