//! OAuth 2.0 (RFC 6749): access tokens for a refresh token (section 6) or for the client's own credentials (section 4.4).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use crate::policy::{ClientAuth, OAuth2Source, OAuthGrant};
use crate::telemetry;
use crate::types::{Authority, Secret};

use super::fetch::{Answer, Call};
use super::issue::{AnswerError, IssueError, Issued, Issuer, Issuing, Reading, hidden};
use super::issuers::{Asking, Needed, meaning};
use super::source::Source;

/// Asks a token endpoint.
pub(super) struct OAuthIssuer {
    pub(super) asking: Asking,
    pub(super) source: OAuth2Source,
    pub(super) client_secret: Option<Needed>,
    /// None for the client's own credentials.
    pub(super) refresh_token: Option<Arc<Rotating>>,
}

/// A refresh token, which may be used once only. Whoever shares it takes turns, so that no old one is sent again.
pub(super) struct Rotating {
    needed: Needed,
    /// Where a new one is written to.
    source: Option<Arc<Source>>,
    /// The newest, where it could not be written.
    newest: Mutex<Option<Secret>>,
}

impl Rotating {
    /// The token that `needed` gives at first; `source` is where it comes from, if that is on this host.
    pub(super) fn new(needed: Needed, source: Option<Arc<Source>>) -> Self {
        Self { needed, source, newest: Mutex::default() }
    }

    /// What stands in the source. Where its file was replaced, somebody else has got a newer token for it, and this one may be
    /// taken for stolen.
    async fn first(&self) -> Result<Secret, IssueError> {
        if let Some(source) = self.source.clone() {
            let checking = tokio::task::spawn_blocking(move || source.check_in_place());
            let checked = checking.await.map_err(|_| IssueError::Ending)?;
            checked.map_err(|error| self.needed.failed(error.into()))?;
        }
        self.needed.get().await
    }

    /// Keeps a new one. From here on the old one is used no more, whether the new one can be written or not.
    async fn keep(&self, token: Secret, newest: &mut Option<Secret>) {
        let written = match self.source.clone() {
            Some(source) => {
                let token = token.clone();
                let writing = tokio::task::spawn_blocking(move || source.replace(token.expose()));
                writing.await.unwrap_or_else(|_| Err("the proxy is ending".to_owned()))
            }
            None => Err("its source takes none".to_owned()),
        };
        *newest = match written {
            Ok(()) => None,
            Err(reason) => {
                let secret = self.needed.name();
                telemetry::tell(&format!("the new refresh token for {secret} is lost when the command ends: {reason}"));
                Some(token)
            }
        };
    }
}

impl OAuthIssuer {
    async fn ask(&self) -> Result<Issued, IssueError> {
        let Some(rotating) = &self.refresh_token else { return self.exchange(None).await?.0 };
        // Held until the new token is kept.
        let mut newest = rotating.newest.lock().await;
        let token = match &*newest {
            Some(token) => token.clone(),
            None => rotating.first().await?,
        };
        let (issued, new) = self.exchange(Some(&token)).await?;
        // Whatever is wrong with the rest of the answer: the old one may be worth nothing any more.
        if let Some(new) = new.filter(|new| new.expose() != token.expose()) {
            rotating.keep(new, &mut newest).await;
        }
        issued
    }

    /// An access token, or what is wrong with it, and a new refresh token where there is one.
    async fn exchange(
        &self,
        refresh_token: Option<&Secret>,
    ) -> Result<(Result<Issued, IssueError>, Option<Secret>), IssueError> {
        let call = self.call(refresh_token).await?;
        // What lives for a minute has begun to when it was made, which is before it is here.
        let now = (self.asking.now)();
        let Answer { status, body, .. } = self.asking.fetch.fetch(call).await?;
        let from = || self.source.token_url.authority().clone();
        // A token of another form is one that could not be kept.
        let new = serde_json::from_slice(&body).ok().and_then(|Renewed { refresh_token }| refresh_token);
        let new = new.and_then(|new| Secret::new(self.asking.name.as_str(), new).ok());
        // Some say what is wrong with status 200.
        if let Ok(Refused { error }) = serde_json::from_slice(&body) {
            return Ok((Err(refused(from(), &error)), new));
        }
        if !status.is_success() {
            return Err(IssueError::Status { from: from(), status: status.as_u16(), means: meaning(status) });
        }
        Ok((self.issued(&body, now).map_err(|error| IssueError::Token { from: from(), error }), new))
    }

    fn issued(&self, body: &[u8], now: SystemTime) -> Result<Issued, TokenError> {
        let token: Token = serde_json::from_slice(body).map_err(|_| TokenError::Form)?;
        if token.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err(TokenError::Kind);
        }
        let expires_at = token.expires_in.as_ref().map(|after| end(now, after).ok_or(TokenError::Life));
        let reading = Reading { name: &self.asking.name, now, ttl: None };
        reading.issued(token.access_token, expires_at.transpose()?).map_err(TokenError::Value)
    }

    async fn call(&self, refresh_token: Option<&Secret>) -> Result<Call, IssueError> {
        let source = &self.source;
        let mut form = Form::default();
        match source.grant {
            OAuthGrant::RefreshToken(_) => form.add("grant_type", b"refresh_token"),
            OAuthGrant::ClientCredentials => form.add("grant_type", b"client_credentials"),
        }
        if let Some(token) = refresh_token {
            form.add("refresh_token", token.expose());
        }
        for (name, value) in [("scope", &source.scope), ("audience", &source.audience)] {
            value.iter().for_each(|value| form.add(name, value.as_bytes()));
        }
        let mut login = None;
        match (&self.client_secret, source.auth) {
            (Some(needed), ClientAuth::Basic) => {
                login = Some((needed, basic(&source.client_id, needed.get().await?.expose())));
            }
            (Some(needed), ClientAuth::Post) => {
                form.add("client_id", source.client_id.as_bytes());
                form.add("client_secret", needed.get().await?.expose());
            }
            (None, ClientAuth::Basic | ClientAuth::Post) => form.add("client_id", source.client_id.as_bytes()),
        }
        let mut call = Call::post(source.token_url.clone(), form.0);
        call.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        match login {
            Some((needed, login)) => {
                call.with_secret(AUTHORIZATION, "Basic ", &login).map_err(|reason| needed.unusable(reason))
            }
            None => Ok(call),
        }
    }
}

impl Issuer for OAuthIssuer {
    fn issue(&self) -> Issuing<'_> {
        Box::pin(self.ask())
    }
}

/// Why a token endpoint's answer is of no use. The text never holds any part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// No access token in it.
    #[error("is no answer of a token endpoint (RFC 6749 section 5.1)")]
    Form,
    /// A lifetime that is no time.
    #[error("says that its token lives for what is no number of seconds from 0 on")]
    Life,
    /// A token that is used in another way.
    #[error("holds a token of another type than Bearer, which cannot be put into a header")]
    Kind,
    /// The token is unusable.
    #[error(transparent)]
    Value(AnswerError),
}

#[derive(Deserialize)]
struct Token {
    #[serde(deserialize_with = "hidden")]
    access_token: Zeroizing<Vec<u8>>,
    token_type: Option<String>,
    expires_in: Option<Value>,
}

#[derive(Deserialize)]
struct Renewed {
    #[serde(default, deserialize_with = "hidden_if_any")]
    refresh_token: Option<Zeroizing<Vec<u8>>>,
}

fn hidden_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Zeroizing<Vec<u8>>>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.map(|text| Zeroizing::new(text.into_bytes())).filter(|text| !text.is_empty()))
}

/// RFC 6749 section 5.2.
#[derive(Deserialize)]
struct Refused {
    error: String,
}

fn refused(from: Authority, error: &str) -> IssueError {
    let means = match error {
        // The first two are GitHub's, with status 200.
        "bad_refresh_token" => ": the refresh token has ended, was revoked, or was used before; log in anew",
        "incorrect_client_credentials" => ": check client_id, and the secret that client_secret names",
        "invalid_grant" => ": the refresh token has ended, was revoked, or was used before; log in anew",
        "invalid_client" => ": check client_id, the secret that client_secret names, and auth (basic or post)",
        "unauthorized_client" | "unsupported_grant_type" => ": this client may not use this grant",
        "invalid_scope" => ": check scope",
        _ => "",
    };
    // A word, and nothing that a token could be.
    let is_word = error.len() <= 64 && error.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let code = if is_word { error } else { "an error of its own" };
    IssueError::Refused { from, code: code.to_owned(), means }
}

/// Some write the number as a text.
fn end(now: SystemTime, after: &Value) -> Option<SystemTime> {
    let seconds = after.as_f64().or_else(|| after.as_str()?.parse().ok())?;
    now.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// Base64 of what RFC 6749 section 2.3.1 has in HTTP Basic: both parts in form encoding first.
fn basic(id: &str, secret: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut plain = Form::default();
    plain.encode(id.as_bytes());
    plain.push(b":");
    plain.encode(secret);
    let mut encoded = Zeroizing::new(vec![0; plain.0.len().div_ceil(3) * 4]);
    let length = BASE64_STANDARD.encode_slice(&plain.0[..], &mut encoded).unwrap_or_default();
    encoded.truncate(length);
    encoded
}

/// A body in form encoding, which is wiped.
#[derive(Default)]
struct Form(Zeroizing<Vec<u8>>);

impl Form {
    fn add(&mut self, name: &str, value: &[u8]) {
        if !self.0.is_empty() {
            self.push(b"&");
        }
        self.push(name.as_bytes());
        self.push(b"=");
        self.encode(value);
    }

    fn encode(&mut self, value: &[u8]) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        for &byte in value {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.push(&[byte]);
            } else {
                self.push(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }

    /// Grows into a new buffer and wipes the old one: `Vec` would leave a copy behind.
    fn push(&mut self, bytes: &[u8]) {
        if self.0.capacity() - self.0.len() < bytes.len() {
            let mut grown = Zeroizing::new(Vec::with_capacity(2 * (self.0.capacity() + bytes.len()).max(256)));
            grown.extend_from_slice(&self.0);
            self.0 = grown;
        }
        self.0.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests;
