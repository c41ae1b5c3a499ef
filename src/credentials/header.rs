//! Putting secrets into the headers of requests that the policy gave bindings to.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use zeroize::Zeroizing;

use crate::policy::{Accepts, HeaderBinding};
use crate::types::{Authority, Secret};

use super::placeholder::{self, Placeholder};
use super::renew::{Keeper, Live};

/// The header values of a policy's bindings, made once for each value of a credential. They are marked sensitive, so that
/// HPACK never puts them into a table and `Debug` does not show them, and are wiped when the last of the requests that carry
/// them is gone.
///
/// Its functions take indexes into the bindings it was made from, and panic at any other: a request must not go on without
/// the header that it was to have.
pub struct Injector {
    bound: Vec<Bound>,
    placeholders: Vec<Placeholder>,
}

struct Bound {
    binding: HeaderBinding,
    /// `None` where no secret of that name is configured.
    keeper: Option<Arc<Keeper>>,
    made: Mutex<Option<Made>>,
}

/// The header for one value of the credential.
struct Made {
    generation: u64,
    header: Result<HeaderValue, String>,
}

/// Why a request does not get its credentials. `Display` is what the sandbox may read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InjectError {
    /// It needs a secret that cannot be had.
    #[error("the secret {secret}, which {host} needs in the header {header}, cannot be had")]
    Unavailable {
        /// The host of the binding.
        host: Authority,
        /// The header it would set.
        header: HeaderName,
        /// The name of the secret it takes.
        secret: String,
        /// Why it cannot be had, for the operator.
        reason: String,
    },
    /// It brings a credential of its own where only the placeholder is taken.
    #[error(
        "{host} takes the placeholder of {secret} in the header {header}, and nothing else: use the key that the environment holds"
    )]
    NotPlaceholder {
        /// The host of the binding.
        host: Authority,
        /// The header it owns.
        header: HeaderName,
        /// The name of the secret.
        secret: String,
    },
    /// A placeholder stands where no binding swaps it.
    #[error(
        "the header {header} holds the placeholder of {secret} (the variable {variable}), which is worth nothing here: no binding swaps it"
    )]
    Misplaced {
        /// The header in which it stands.
        header: HeaderName,
        /// The name of the secret.
        secret: String,
        /// The variable inside.
        variable: String,
    },
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
    /// need it and no others. `placeholders` are what the sandbox holds in place of some of them.
    pub fn new(
        bindings: &[HeaderBinding],
        keepers: &HashMap<String, Arc<Keeper>>,
        placeholders: Vec<Placeholder>,
    ) -> Self {
        let bound = bindings.iter().map(|binding| Bound {
            binding: binding.clone(),
            keeper: keepers.get(binding.secret_name()).cloned(),
            made: Mutex::default(),
        });
        Self { bound: bound.collect(), placeholders }
    }

    /// What the sandbox holds.
    pub fn placeholders(&self) -> &[Placeholder] {
        &self.placeholders
    }

    /// Sets the headers of the bindings at these indexes, each exactly once, in place of whatever the client sent under that
    /// name in any spelling. Hop-by-hop headers are to be gone before, or a client could name ours in `Connection`. Waits
    /// where a credential has ended and is being renewed. To be called for every request, also one without bindings: a
    /// placeholder stands in no other header.
    ///
    /// # Errors
    /// [`InjectError`]; the request must not go on then.
    pub async fn apply(&self, indexes: &[usize], headers: &mut HeaderMap) -> Result<Used, InjectError> {
        let mut ready = Vec::with_capacity(indexes.len());
        let mut used = Vec::with_capacity(indexes.len());
        for bound in self.at(indexes) {
            let stand_in = self.placeholders.iter().filter(|known| known.secret() == bound.binding.secret_name());
            if let Some((value, keeper, live)) = bound.value(headers, stand_in).await? {
                ready.push((bound.binding.header().clone(), value));
                used.push((keeper, live));
            }
        }
        self.strip_bound(indexes, headers);
        if let Some((placeholder, header)) = placeholder::misplaced(&self.placeholders, headers) {
            let (secret, variable) = (placeholder.secret().to_owned(), placeholder.variable().to_owned());
            return Err(InjectError::Misplaced { header, secret, variable });
        }
        headers.extend(ready);
        Ok(Used(used))
    }

    /// Takes out of trailers what a client sent under the header of one of these bindings, and what holds a placeholder.
    pub fn strip(&self, indexes: &[usize], trailers: &mut HeaderMap) {
        self.strip_bound(indexes, trailers);
        while let Some((_, header)) = placeholder::misplaced(&self.placeholders, trailers) {
            trailers.remove(header);
        }
    }

    /// Takes away what a client sent under the header of one of these bindings, in every spelling that some server takes for
    /// the same: CGI and what descends from it fold `-`, `_` and, in PHP, `.` into one.
    fn strip_bound(&self, indexes: &[usize], headers: &mut HeaderMap) {
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
    /// The header to set, if any, for a request with these headers; `stand_ins` are the placeholders of the secret.
    async fn value<'a>(
        &self,
        headers: &HeaderMap,
        mut stand_ins: impl Iterator<Item = &'a Placeholder> + Clone,
    ) -> Result<Option<(HeaderValue, Arc<Keeper>, Arc<Live>)>, InjectError> {
        let sent: Vec<&HeaderValue> = headers.get_all(self.binding.header()).iter().collect();
        match (self.binding.accepts(), &sent[..]) {
            (Accepts::Anything, _) => {}
            (Accepts::PlaceholderOnly, []) => return Ok(None),
            (Accepts::PlaceholderOnly, [sent]) if stand_ins.clone().any(|known| self.carries(sent, known)) => {}
            (Accepts::PlaceholderOnly, _) => {
                let (host, header, secret) = self.named();
                return Err(InjectError::NotPlaceholder { host, header, secret });
            }
        }
        let keeper = self.keeper.clone().ok_or_else(|| self.unavailable("no secret of that name is configured"))?;
        let live = keeper.value().await.map_err(|error| self.unavailable(error.0))?;
        let swapped = match &sent[..] {
            [sent] => stand_ins.find_map(|known| known.swapped_in_basic(sent, &live.secret)),
            [] | [_, ..] => None,
        };
        let value = swapped.map_or_else(|| self.made(&live), |pair| basic_value(&pair));
        Ok(Some((value.map_err(|reason| self.unavailable(reason))?, keeper, live)))
    }

    /// Whether what was sent is the placeholder, with what stands around the credential; a scheme has no case.
    fn carries(&self, sent: &HeaderValue, placeholder: &Placeholder) -> bool {
        let (prefix, suffix) = (self.binding.prefix().as_bytes(), self.binding.suffix().as_bytes());
        let rest = sent.as_bytes().split_at_checked(prefix.len());
        let rest = rest.filter(|(before, _)| before.eq_ignore_ascii_case(prefix)).map(|(_, rest)| rest);
        rest.and_then(|rest| rest.strip_suffix(suffix)).is_some_and(|text| placeholder.is(text))
    }

    fn made(&self, live: &Live) -> Result<HeaderValue, String> {
        // Nothing panics while it is locked.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some(made) if made.generation == live.generation => made.header.clone(),
            Some(_) | None => {
                let header = header_value(self.binding.prefix(), &live.secret, self.binding.suffix());
                made.insert(Made { generation: live.generation, header }).header.clone()
            }
        }
    }

    fn named(&self) -> (Authority, HeaderName, String) {
        (self.binding.host().clone(), self.binding.header().clone(), self.binding.secret_name().to_owned())
    }

    fn unavailable(&self, reason: impl Into<String>) -> InjectError {
        let (host, header, secret) = self.named();
        InjectError::Unavailable { host, header, secret, reason: reason.into() }
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
    basic_value(secret.expose())
}

/// `Basic` with this pair of user and password.
fn basic_value(pair: &[u8]) -> Result<HeaderValue, String> {
    const SCHEME: &[u8] = b"Basic ";
    let length = pair.len().div_ceil(3) * 4;
    let mut bytes = Zeroizing::new(vec![0; SCHEME.len() + length]);
    bytes[..SCHEME.len()].copy_from_slice(SCHEME);
    let written = BASE64_STANDARD.encode_slice(pair, &mut bytes[SCHEME.len()..]);
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
