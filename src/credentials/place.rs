//! The places of one binding in a request: taking out what the client sent there, and putting the credential in.

use std::sync::{Arc, Mutex, PoisonError};

use http::header::{COOKIE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use crate::policy::{Accepts, BasicUser, Binding, Placement};

use super::header::{InjectError, basic_value, header_value};
use super::placeholder::Placeholder;
use super::renew::{Keeper, Live};

use sigv4::{Keys, Signing, Unfit};

mod certificate;
mod cookie;
mod escape;
mod query;
mod segment;
pub(super) mod sigv4;
mod target;

/// A credential as it was when it was used, with what keeps it valid.
pub(super) type Taken = (Arc<Keeper>, Arc<Live>);

/// A binding with what keeps its secrets valid.
pub(super) struct Bound {
    pub(super) binding: Binding,
    /// In the order of [`Binding::secrets`]; `None` where no secret of that name is configured.
    pub(super) keepers: Vec<Option<Arc<Keeper>>>,
    made: Mutex<Option<Made>>,
    identity: Mutex<Option<Identity>>,
}

/// The client certificate for one value of each secret.
struct Identity {
    generations: Vec<u64>,
    made: Result<Arc<CertifiedKey>, String>,
}

/// The header for one value of each secret.
struct Made {
    generations: Vec<u64>,
    header: Result<HeaderValue, String>,
}

/// What is to be put into a request.
pub(super) struct Piece {
    /// Of the header that is the binding's own.
    header: Option<HeaderValue>,
    /// For the connection.
    pub(super) identity: Option<Arc<CertifiedKey>>,
    /// The signature that is made anew once all else is in its place.
    signing: Option<Signing>,
    /// What it is made of.
    pub(super) taken: Vec<Taken>,
}

impl Bound {
    pub(super) fn new(binding: Binding, keeper: impl Fn(&str) -> Option<Arc<Keeper>>) -> Self {
        let keepers = binding.secrets().map(keeper).collect();
        Self { binding, keepers, made: Mutex::default(), identity: Mutex::default() }
    }

    /// What to put into a request with this head, if anything; `stand_ins` are the placeholders of its secrets.
    pub(super) async fn piece<'a>(
        &self,
        head: &Parts,
        stand_ins: impl Iterator<Item = &'a Placeholder> + Clone,
    ) -> Result<Option<Piece>, InjectError> {
        let header = match self.binding.placement() {
            Placement::Header { name, prefix, suffix } => {
                return self.header_piece(&head.headers, (name, prefix, suffix), stand_ins).await;
            }
            Placement::PathSegment { prefix, suffix } => {
                if !segment::has(head.uri.path(), prefix, suffix, stand_ins) {
                    return Ok(None);
                }
                None
            }
            // A target without a path (`*`, of OPTIONS) has no query.
            Placement::QueryParameter { .. } if !head.uri.path().starts_with('/') => return Ok(None),
            Placement::QueryParameter { .. } | Placement::Cookie { .. } => None,
            Placement::Basic { user } => {
                let taken = self.take().await?;
                let value = self.made(&taken, || basic_header(user, &taken));
                return Ok(Some(Piece { header: Some(self.usable(value)?), identity: None, signing: None, taken }));
            }
            Placement::ClientCertificate { .. } => {
                let taken = self.take().await?;
                let identity = Some(self.usable(self.identity(&taken))?);
                return Ok(Some(Piece { header: None, identity, signing: None, taken }));
            }
            Placement::AwsSigv4 { .. } => {
                let Some(signing) = self.signing(head, stand_ins)? else { return Ok(None) };
                let (signing, taken) = (Some(signing), self.take().await?);
                return Ok(Some(Piece { header: None, identity: None, signing, taken }));
            }
        };
        let taken = self.take().await?;
        let usable = match self.binding.placement() {
            Placement::Cookie { .. } => cookie::check(taken[0].1.secret.expose()),
            Placement::PathSegment { prefix, suffix } => segment::check(prefix, taken[0].1.secret.expose(), suffix),
            Placement::QueryParameter { .. }
            | Placement::Header { .. }
            | Placement::Basic { .. }
            | Placement::ClientCertificate { .. }
            | Placement::AwsSigv4 { .. } => Ok(()),
        };
        self.usable(usable)?;
        Ok(Some(Piece { header, identity: None, signing: None, taken }))
    }

    async fn header_piece<'a>(
        &self,
        headers: &HeaderMap,
        (name, prefix, suffix): (&HeaderName, &str, &str),
        mut stand_ins: impl Iterator<Item = &'a Placeholder> + Clone,
    ) -> Result<Option<Piece>, InjectError> {
        let sent: Vec<&HeaderValue> = headers.get_all(name).iter().collect();
        match (self.binding.accepts(), &sent[..]) {
            (Accepts::Anything, _) => {}
            (Accepts::PlaceholderOnly, []) => return Ok(None),
            (Accepts::PlaceholderOnly, [sent])
                if stand_ins.clone().any(|known| carries(sent, (prefix, suffix), known)) => {}
            (Accepts::PlaceholderOnly, _) => {
                let (host, place) = (self.binding.host().clone(), self.binding.placement().to_string());
                return Err(InjectError::NotPlaceholder { host, place, secret: self.binding.secret_name().to_owned() });
            }
        }
        let taken = self.take().await?;
        let secret = &taken[0].1.secret;
        let swapped = match &sent[..] {
            [sent] => stand_ins.find_map(|known| known.swapped_in_basic(sent, secret)),
            [] | [_, ..] => None,
        };
        let value = match swapped {
            Some(pair) => basic_value(&pair),
            None => self.made(&taken, || header_value(prefix, secret, suffix)),
        };
        Ok(Some(Piece { header: Some(self.usable(value)?), identity: None, signing: None, taken }))
    }

    /// What to sign anew, if the request is signed.
    fn signing<'a>(
        &self,
        head: &Parts,
        stand_ins: impl Iterator<Item = &'a Placeholder> + Clone,
    ) -> Result<Option<Signing>, InjectError> {
        let Placement::AwsSigv4 { access_key_id, scope, .. } = self.binding.placement() else { return Ok(None) };
        let ids = stand_ins.clone().filter(|known| known.secret() == access_key_id);
        let secrets = stand_ins.filter(|known| known.secret() == self.binding.secret_name());
        let signed = sigv4::read(head, scope, ids, secrets);
        signed.map_err(|unfit| {
            let (host, place) = (self.binding.host().clone(), self.binding.placement().to_string());
            match unfit {
                Unfit::OtherKey => InjectError::NotPlaceholder { host, place, secret: access_key_id.clone() },
                Unfit::Shape(reason) => InjectError::Unsignable { host, reason },
            }
        })
    }

    /// Whether it comes after all others, since it looks at what they did.
    pub(super) fn is_last(&self) -> bool {
        matches!(self.binding.placement(), Placement::AwsSigv4 { .. })
    }

    /// Takes away what the client sent in the place, in every spelling that some server takes for the same.
    pub(super) fn strip(&self, head: &mut Parts) -> Result<(), InjectError> {
        self.usable(match self.binding.placement() {
            Placement::QueryParameter { name } => query::strip(&mut head.uri, name),
            Placement::Cookie { name } => cookie::strip(&mut head.headers, name),
            Placement::Header { .. } | Placement::Basic { .. } | Placement::AwsSigv4 { .. } => {
                self.strip_header(&mut head.headers);
                Ok(())
            }
            // What stands there is replaced, and of a handshake the client has none.
            Placement::PathSegment { .. } | Placement::ClientCertificate { .. } => Ok(()),
        })
    }

    /// The same of trailers, where there is no query, no path and no cookie.
    pub(super) fn strip_trailers(&self, trailers: &mut HeaderMap) {
        self.strip_header(trailers);
        if let Placement::Cookie { .. } = self.binding.placement() {
            trailers.remove(COOKIE);
        }
    }

    /// CGI and what descends from it fold `-`, `_` and, in PHP, `.` into one.
    fn strip_header(&self, headers: &mut HeaderMap) {
        for header in self.binding.placement().headers() {
            headers.remove(header);
            while let Some(alike) = headers.keys().find(|name| looks_like(name, header)).cloned() {
                headers.remove(alike);
            }
        }
    }

    /// Puts in what [`Self::piece`] gave.
    pub(super) fn put<'a>(
        &self,
        head: &mut Parts,
        piece: Piece,
        stand_ins: impl Iterator<Item = &'a Placeholder> + Clone,
    ) -> Result<(), InjectError> {
        let secret = piece.taken[0].1.secret.expose();
        self.usable(match self.binding.placement() {
            Placement::QueryParameter { name } => query::append(&mut head.uri, name, secret),
            Placement::Cookie { name } => cookie::put(&mut head.headers, name, secret),
            Placement::PathSegment { prefix, suffix } => {
                segment::swap(&mut head.uri, (prefix, suffix), secret, stand_ins)
            }
            Placement::ClientCertificate { .. } => Ok(()),
            Placement::AwsSigv4 { .. } => {
                let [secret, id, token] = [0, 1, 2].map(|at| piece.taken.get(at).map(|taken| taken.1.secret.expose()));
                match (piece.signing, secret, id) {
                    (Some(signing), Some(secret), Some(id)) => {
                        signing.sign(head, &self.binding.host().to_string(), &Keys { id, secret, token })
                    }
                    (Some(_) | None, Some(_) | None, Some(_) | None) => Err("a part of the keys is missing".to_owned()),
                }
            }
            Placement::Header { .. } | Placement::Basic { .. } => {
                let header = self.binding.placement().header().cloned();
                head.headers.extend(header.zip(piece.header));
                Ok(())
            }
        })
    }

    async fn take(&self) -> Result<Vec<Taken>, InjectError> {
        let mut taken = Vec::with_capacity(self.keepers.len());
        for (name, keeper) in self.binding.secrets().zip(&self.keepers) {
            let failed = |reason: String| self.unavailable(name, reason);
            let keeper = keeper.clone().ok_or_else(|| failed("no secret of that name is configured".to_owned()))?;
            let live = keeper.value().await.map_err(|error| failed(error.0))?;
            // No spelling that answers are searched for holds a line break of either kind.
            let has_lines = live.secret.expose().iter().any(|byte| matches!(byte, b'\n' | b'\r'));
            if has_lines && !self.binding.is_for_connection() {
                return Err(failed(
                    "it is a PEM text of several lines, which can be a client certificate only".to_owned(),
                ));
            }
            taken.push((keeper, live));
        }
        Ok(taken)
    }

    fn made(&self, taken: &[Taken], make: impl FnOnce() -> Result<HeaderValue, String>) -> Result<HeaderValue, String> {
        // Nothing panics while it is locked.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let generations = || taken.iter().map(|(_, live)| live.generation);
        match &*made {
            Some(made) if made.generations.iter().copied().eq(generations()) => made.header.clone(),
            Some(_) | None => made.insert(Made { generations: generations().collect(), header: make() }).header.clone(),
        }
    }

    fn identity(&self, taken: &[Taken]) -> Result<Arc<CertifiedKey>, String> {
        // Nothing panics while it is locked.
        let mut kept = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        let generations: Vec<u64> = taken.iter().map(|(_, live)| live.generation).collect();
        match &*kept {
            Some(kept) if kept.generations == generations => kept.made.clone(),
            Some(_) | None => {
                let made = certificate::identity(taken[1].1.secret.expose(), taken[0].1.secret.expose());
                kept.insert(Identity { generations, made }).made.clone()
            }
        }
    }

    fn usable<T>(&self, made: Result<T, String>) -> Result<T, InjectError> {
        made.map_err(|reason| self.unavailable(self.binding.secret_name(), reason))
    }

    fn unavailable(&self, secret: &str, reason: String) -> InjectError {
        let (host, place) = (self.binding.host().clone(), self.binding.placement().to_string());
        InjectError::Unavailable { host, place, secret: secret.to_owned(), reason }
    }
}

/// Whether what was sent is the placeholder, with what stands around the credential; a scheme has no case.
fn carries(sent: &HeaderValue, (prefix, suffix): (&str, &str), placeholder: &Placeholder) -> bool {
    let (prefix, suffix) = (prefix.as_bytes(), suffix.as_bytes());
    let rest = sent.as_bytes().split_at_checked(prefix.len());
    let rest = rest.filter(|(before, _)| before.eq_ignore_ascii_case(prefix)).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.strip_suffix(suffix)).is_some_and(|text| placeholder.is(text))
}

/// Names are in lower case here; every other character than a letter or digit counts as the same.
fn looks_like(a: &HeaderName, b: &HeaderName) -> bool {
    let fold = |byte: u8| if byte.is_ascii_alphanumeric() { byte } else { b'-' };
    let (a, b) = (a.as_str(), b.as_str());
    a.len() == b.len() && a.bytes().map(fold).eq(b.bytes().map(fold))
}

/// The password is the first of the secrets, the user a text or the second.
fn basic_header(user: &BasicUser, taken: &[Taken]) -> Result<HeaderValue, String> {
    let password = taken[0].1.secret.expose();
    let user = match user {
        BasicUser::Plain(user) => user.as_bytes(),
        BasicUser::Secret(name) => {
            let user = taken[1].1.secret.expose();
            if user.contains(&b':') {
                return Err(format!("the secret {name} holds a colon, which no user of Basic can have"));
            }
            user
        }
    };
    // Of its final size from the start: growing would leave copies behind.
    let mut pair = Zeroizing::new(Vec::with_capacity(user.len() + 1 + password.len()));
    [user, b":", password].iter().for_each(|part| pair.extend_from_slice(part));
    basic_value(&pair)
}

#[cfg(test)]
mod tests;
