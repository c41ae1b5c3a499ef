//! Putting secrets into requests that the policy gave bindings to.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use crate::policy::Binding;
use crate::types::{Authority, Secret};

use super::place::sigv4::PayloadHash;
use super::place::{Bound, Taken};
use super::placeholder::{self, Placeholder};
use super::renew::Keeper;
use super::scrub::Watch;

/// The credentials of a policy's bindings. Header values are made once for each value of a credential, and marked sensitive, so
/// that HPACK never puts them into a table and `Debug` does not show them. Whatever holds a value is wiped when the last of the
/// requests that carry it is gone.
///
/// Its functions take indexes into the bindings it was made from, and panic at any other: a request must not go on without
/// the credential that it was to have.
pub struct Injector {
    bound: Vec<Bound>,
    placeholders: Vec<Placeholder>,
    searched: HashMap<Authority, Arc<Watch>>,
}

/// Why a request does not get its credentials. `Display` is what the sandbox may read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InjectError {
    /// It needs a secret that cannot be had.
    #[error("the secret {secret}, which {host} needs in {place}, cannot be had")]
    Unavailable {
        /// The host of the binding.
        host: Authority,
        /// The place it would set, such as `the header authorization`.
        place: String,
        /// The name of the secret.
        secret: String,
        /// Why it cannot be had, for the operator.
        reason: String,
    },
    /// It brings a credential of its own where only the placeholder is taken.
    #[error(
        "{host} takes the placeholder of {secret} in {place}, and nothing else: use the key that the environment holds"
    )]
    NotPlaceholder {
        /// The host of the binding.
        host: Authority,
        /// The place it owns.
        place: String,
        /// The name of the secret.
        secret: String,
    },
    /// It is signed in a way that cannot be signed anew.
    #[error("the request cannot be signed for {host}: {reason}")]
    Unsignable {
        /// The host of the binding.
        host: Authority,
        /// What is wrong with it, and what to do.
        reason: &'static str,
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
pub struct Used {
    taken: Vec<Taken>,
    identity: Option<Arc<CertifiedKey>>,
}

impl Used {
    /// The upstream has refused them.
    pub fn refused(&self) {
        self.taken.iter().for_each(|(keeper, live)| keeper.refused(live));
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// The same, for one who can ask again: waits for the renewals. Whether any of them has another value now.
    pub async fn renewed(&self) -> bool {
        let mut renewed = false;
        for (keeper, live) in &self.taken {
            renewed |= keeper.renewed(live).await;
        }
        renewed
    }

    /// What the connection has to show.
    pub fn identity(&self) -> Option<&Arc<CertifiedKey>> {
        self.identity.as_ref()
    }
}

impl Injector {
    /// Prepares the bindings, in their order; `keepers` by the name of the secret. One that is missing fails the requests that
    /// need it and no others. `placeholders` are what the sandbox holds in place of some of them.
    pub fn new(bindings: &[Binding], keepers: &HashMap<String, Arc<Keeper>>, placeholders: Vec<Placeholder>) -> Self {
        let bound = bindings.iter().map(|binding| Bound::new(binding.clone(), |name| keepers.get(name).cloned()));
        let searched = searched(bindings, keepers);
        Self { bound: bound.collect(), placeholders, searched }
    }

    /// What the answers of a host are to be searched for: the values of all its bindings, whatever path they are for, that are
    /// not excepted from it.
    pub fn searched(&self, host: &Authority) -> Option<Arc<Watch>> {
        self.searched.get(host).cloned()
    }

    /// What the sandbox holds.
    pub fn placeholders(&self) -> &[Placeholder] {
        &self.placeholders
    }

    /// Puts the credentials of the bindings at these indexes into a request, each exactly once, in place of whatever the client
    /// sent there in any spelling. Hop-by-hop headers are to be gone before, or a client could name ours in `Connection`. Waits
    /// where a credential has ended and is being renewed. To be called for every request, also one without bindings: a
    /// placeholder stands in no other header.
    ///
    /// # Errors
    /// [`InjectError`]; the request must not go on then.
    pub async fn apply(&self, indexes: &[usize], head: &mut Parts) -> Result<Used, InjectError> {
        let mut ready = Vec::with_capacity(indexes.len());
        for bound in self.at(indexes) {
            if let Some(piece) = bound.piece(head, self.stand_ins(bound)).await? {
                ready.push((bound, piece));
            }
        }
        self.at(indexes).try_for_each(|bound| bound.strip(head))?;
        if let Some((placeholder, header)) = placeholder::misplaced(&self.placeholders, &head.headers) {
            let (secret, variable) = (placeholder.secret().to_owned(), placeholder.variable().to_owned());
            return Err(InjectError::Misplaced { header, secret, variable });
        }
        let mut used = Used::default();
        ready.sort_by_key(|(bound, _)| bound.is_last());
        for (bound, piece) in ready {
            used.taken.extend(piece.taken.iter().cloned());
            used.identity = used.identity.or(piece.identity.clone());
            bound.put(head, piece, self.stand_ins(bound))?;
        }
        Ok(used)
    }

    /// Takes out of trailers what a client sent in the place of one of these bindings, and what holds a placeholder.
    pub fn strip(&self, indexes: &[usize], trailers: &mut HeaderMap) {
        self.at(indexes).for_each(|bound| bound.strip_trailers(trailers));
        while let Some((_, header)) = placeholder::misplaced(&self.placeholders, trailers) {
            trailers.remove(header);
        }
    }

    /// Whether the body of a request has to be known before its head can be made: it is signed, and does not say what it signed.
    /// [`PayloadHash`] among its extensions is for that.
    pub fn needs_body(&self, indexes: &[usize], head: &Parts) -> bool {
        self.at(indexes).any(Bound::is_last) && PayloadHash::is_missing(&head.headers)
    }

    /// What stands for the secrets of a binding.
    fn stand_ins<'a>(&'a self, bound: &'a Bound) -> impl Iterator<Item = &'a Placeholder> + Clone {
        self.placeholders.iter().filter(|known| bound.binding.uses(known.secret()))
    }

    /// Those of the bindings, each once. They are to be kept valid.
    pub fn keepers(&self) -> Vec<Arc<Keeper>> {
        let mut keepers = Vec::<Arc<Keeper>>::new();
        for keeper in self.bound.iter().flat_map(|bound| bound.keepers.iter().flatten()) {
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

fn searched(bindings: &[Binding], keepers: &HashMap<String, Arc<Keeper>>) -> HashMap<Authority, Arc<Watch>> {
    let mut of_hosts = HashMap::<&Authority, Vec<Arc<Keeper>>>::new();
    for binding in bindings.iter().filter(|binding| binding.scrub() && !binding.is_for_connection()) {
        let of_binding = binding.secrets().filter_map(|name| keepers.get(name)).cloned();
        of_hosts.entry(binding.host()).or_default().extend(of_binding);
    }
    let known = of_hosts.into_iter().filter(|(_, keepers)| !keepers.is_empty());
    known.map(|(host, keepers)| (host.clone(), Arc::new(Watch::new(keepers)))).collect()
}

pub(super) fn header_value(prefix: &str, secret: &Secret, suffix: &str) -> Result<HeaderValue, String> {
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
pub(super) fn basic_value(pair: &[u8]) -> Result<HeaderValue, String> {
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
        let names = self.bound.iter().map(|bound| (bound.binding.secret_name(), bound.binding.placement().to_string()));
        f.debug_tuple("Injector").field(&names.collect::<Vec<_>>()).finish()
    }
}

#[cfg(test)]
mod tests;
