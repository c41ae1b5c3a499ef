//! AWS Signature Version 4 (AWS, "Create a signed AWS API request"): a request that was signed with placeholders is checked, then
//! signed anew with the real keys, over what leaves.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;

use crate::policy::SignedScope;

use super::super::header::sensitive;
use super::super::placeholder::Placeholder;
use super::target::joined;

mod canonical;
mod claim;

pub use claim::PayloadHash;

use canonical::{Named, PathForm, derived, hex, mac, of_request};
use claim::Claim;

const SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const PREFIX: &[u8] = b"AWS4-HMAC-SHA256 Credential=";

/// What signs a request.
pub(super) struct Keys<'a> {
    pub(super) id: &'a [u8],
    pub(super) secret: &'a [u8],
    pub(super) token: Option<&'a [u8]>,
}

/// What differs between this hop and the one before, or what the upstream's connection sets: none of it is signed.
const UNSIGNED: [&str; 10] = [
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "expect",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// Why a request is not signed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It is signed with a key that is not the placeholder.
    OtherKey,
    /// What is wrong, and what to do, for people.
    Shape(&'static str),
}

/// A request's own signature, which was good, and how its path was written into it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signing {
    claim: Claim,
    form: PathForm,
}

/// Reads the signature of a request as the client sent it. One without any goes on without a credential: what is public needs
/// none. `ids` and `secrets` are the placeholders that it must be signed with.
///
/// # Errors
/// [`Unfit`].
pub(super) fn read<'a>(
    head: &Parts,
    scope: &SignedScope,
    mut ids: impl Iterator<Item = &'a Placeholder>,
    secrets: impl Iterator<Item = &'a Placeholder>,
) -> Result<Option<Signing>, Unfit> {
    let Some(claim) = Claim::of(head).map_err(Unfit::Shape)? else { return Ok(None) };
    if !ids.any(|known| known.is(claim.key.as_bytes())) {
        return Err(Unfit::OtherKey);
    }
    if scope.region.as_ref().is_some_and(|region| *region != claim.region) {
        return Err(Unfit::Shape("it is signed for another region than the binding names"));
    }
    if scope.service.as_ref().is_some_and(|service| *service != claim.service) {
        return Err(Unfit::Shape("it is signed for another service than the binding names"));
    }
    let form = claim.form(head, secrets).ok_or(Unfit::Shape(
        "its signature does not fit: sign it with the secret key that the environment holds, and change nothing afterwards",
    ))?;
    Ok(Some(Signing { claim, form }))
}

impl Claim {
    /// How the path was written into the signature, if one of these secrets has signed the request as it is.
    fn form<'a>(&self, head: &Parts, mut secrets: impl Iterator<Item = &'a Placeholder>) -> Option<PathForm> {
        let host = head.headers.get(HOST).map(HeaderValue::as_bytes);
        let host = host.or_else(|| head.uri.authority().map(|authority| authority.as_str().as_bytes()))?;
        let text = |form| self.text_to_sign(head, (host, &self.signed), form);
        let texts = PathForm::of_service(&self.service).map(|form| (form, text(form)));
        secrets.find_map(|secret| {
            let key = derived(secret.value().as_bytes(), &self.date, &self.region, &self.service);
            let fits = |text: &str| {
                let ours = hex(&*mac(&*key, text.as_bytes()));
                verify_slices_are_equal(ours.as_bytes(), self.signature.as_bytes()).is_ok()
            };
            texts.iter().find(|(_, text)| fits(text)).map(|(form, _)| *form)
        })
    }

    fn scope(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.date, self.region, self.service)
    }

    /// It has a hash of the request, so that nothing of it needs to be wiped.
    fn text_to_sign(&self, head: &Parts, named: Named<'_>, form: PathForm) -> String {
        let hash = of_request(head, named, form, &self.payload);
        format!("AWS4-HMAC-SHA256\n{}\n{}\n{}", self.time, self.scope(), hex(&hash))
    }
}

impl Signing {
    /// Signs a request as it leaves, with the real keys; `host` is where it goes.
    ///
    /// # Errors
    /// The keys are none that a header can carry. The text never holds them.
    pub(super) fn sign(&self, head: &mut Parts, host: &str, keys: &Keys<'_>) -> Result<(), String> {
        let separates = |byte: &u8| !byte.is_ascii_graphic() || matches!(byte, b'/' | b',' | b'=');
        if keys.id.iter().any(separates) {
            return Err("the access key ID holds a character that no access key ID has".to_owned());
        }
        if let Some(token) = keys.token {
            head.headers.insert(SECURITY_TOKEN, sensitive(joined(&[token]))?);
        }
        let Self { claim, form } = self;
        let signed = self.signed_anew(&head.headers);
        let key = derived(keys.secret, &claim.date, &claim.region, &claim.service);
        let text = claim.text_to_sign(head, (host.as_bytes(), &signed), *form);
        let signature = hex(&*mac(&*key, text.as_bytes()));
        let rest = format!("/{}, SignedHeaders={}, Signature={signature}", claim.scope(), signed.join(";"));
        head.headers.insert(AUTHORIZATION, sensitive(joined(&[PREFIX, keys.id, rest.as_bytes()]))?);
        Ok(())
    }

    /// What the client has signed and is still there, with every header of AWS's own and the host.
    fn signed_anew(&self, headers: &HeaderMap) -> Vec<String> {
        let stays = |name: &&String| headers.contains_key(name.as_str()) && !UNSIGNED.contains(&name.as_str());
        let mut names: Vec<String> = self.claim.signed.iter().filter(stays).cloned().collect();
        names.extend(headers.keys().map(HeaderName::as_str).filter(|name| claim::is_amz(name)).map(str::to_owned));
        names.push("host".to_owned());
        names.sort_unstable();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests;
