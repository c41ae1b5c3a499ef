//! What gives a credential: a value, and how long it is good for.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use zeroize::Zeroizing;

use crate::types::{Authority, Secret, SecretError};

use super::fetch::FetchError;
use super::github::GitHubError;
use super::oauth::TokenError;
use super::source::SourceError;
use super::vault::VaultError;

/// The furthest expiry that is believed: what lies further ahead is a mistake of units.
const FURTHEST: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

/// A value as its issuer gave it.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The value.
    pub secret: Secret,
    /// When it stops being good, where the issuer says so; always ahead of the time at which it was given.
    pub expires_at: Option<SystemTime>,
}

/// A value that is under way.
pub type Issuing<'a> = Pin<Box<dyn Future<Output = Result<Issued, IssueError>> + Send + 'a>>;

/// Gives values of one secret. It may be asked as often as one likes, and by several at a time; each answer is fetched anew.
pub trait Issuer: Send + Sync {
    /// A value that is good now. Ends by itself within the issuer's own bound on time. Needs a Tokio runtime.
    ///
    /// # Errors
    /// [`IssueError`].
    fn issue(&self) -> Issuing<'_>;
}

impl<T: Issuer + ?Sized> Issuer for Arc<T> {
    fn issue(&self) -> Issuing<'_> {
        (**self).issue()
    }
}

/// Why there is no value. Neither `Display` nor `Debug` holds one, nor any part of what was answered.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// It cannot be read where the user keeps it.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It needs another secret, which cannot be had.
    #[error("it needs the secret {secret}: {error}")]
    Needed {
        /// The other one's name.
        secret: String,
        /// Why.
        error: Box<IssueError>,
    },
    /// It needs another secret, whose value does not do.
    #[error("the value of the secret {secret}, which it needs, cannot be used: {reason}")]
    Unusable {
        /// The other one's name.
        secret: String,
        /// Why.
        reason: String,
    },
    /// Whoever was asked did not answer.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The answer has a status that is no success.
    #[error("{from} answered with status {status}{means}")]
    Status {
        /// Who.
        from: Authority,
        /// The status.
        status: u16,
        /// What follows, as the end of a sentence; may be empty.
        means: &'static str,
    },
    /// The answer gives no value.
    #[error("the answer of {from} {error}")]
    Answer {
        /// Whose.
        from: Authority,
        /// Why.
        error: AnswerError,
    },
    /// A token endpoint says no.
    #[error("{from} refused with {code}{means}")]
    Refused {
        /// Who.
        from: Authority,
        /// Its word for it, where it is one.
        code: String,
        /// What follows, as the end of a sentence; may be empty.
        means: &'static str,
    },
    /// A token endpoint's answer gives no token.
    #[error("the answer of {from} {error}")]
    Token {
        /// Whose.
        from: Authority,
        /// Why.
        error: TokenError,
    },
    /// A vault's answer gives no value.
    #[error("the answer of {from} {error}")]
    Vault {
        /// Whose.
        from: Authority,
        /// Why.
        error: VaultError,
    },
    /// GitHub gives no token.
    #[error("{from} {error}")]
    GitHub {
        /// Which one.
        from: Authority,
        /// Why.
        error: GitHubError,
    },
    /// The program is ending.
    #[error("it was not read, since the proxy is ending")]
    Ending,
}

impl IssueError {
    /// How long nobody is to ask again, where that was said.
    pub fn wait(&self) -> Option<Duration> {
        match self {
            Self::GitHub { error, .. } => error.wait(),
            Self::Needed { error, .. } => error.wait(),
            Self::Source(_) | Self::Unusable { .. } | Self::Fetch(_) | Self::Status { .. } | Self::Answer { .. } => {
                None
            }
            Self::Refused { .. } | Self::Token { .. } | Self::Vault { .. } | Self::Ending => None,
        }
    }
}

/// Why an answer gives no value. The text never holds any part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Not the JSON that is understood.
    #[error(
        "is not {{\"value\": …, \"expires_at\": …}} (the time as in RFC 3339 or in seconds since 1970, or left out)"
    )]
    Form,
    /// The value had expired before it was used.
    #[error("holds a value that expired at {0}")]
    Expired(When),
    /// An expiry that cannot be meant.
    #[error("says that its value expires at {0}, more than 10 years ahead")]
    TooFar(When),
    /// The bytes cannot be a secret.
    #[error("holds no usable value: {0}")]
    Value(#[from] SecretError),
}

/// A time, shown as RFC 3339 has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When(pub SystemTime);

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&OffsetDateTime::from(self.0).format(&Rfc3339).unwrap_or_default())
    }
}

/// What an answer is judged by besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'a> {
    /// The secret's name.
    pub(super) name: &'a str,
    /// The time.
    pub(super) now: SystemTime,
    /// How long the value is good for at most.
    pub(super) ttl: Option<Duration>,
}

impl Reading<'_> {
    /// The value of `{"value": …, "expires_at": …}`. The reader's own buffer, which it uses for values with escapes, is the one
    /// copy that is not wiped.
    pub(super) fn json(&self, raw: &[u8]) -> Result<Issued, AnswerError> {
        // The reader's own words may quote what it read, so they are dropped.
        let answer = serde_json::from_slice::<Answer>(raw).map_err(|_| AnswerError::Form)?;
        let expires_at = answer.expires_at.as_ref().map(|at| time(at).ok_or(AnswerError::Form)).transpose()?;
        self.issued(answer.value, expires_at)
    }

    /// A value with the expiry that came with it; the time to live, where there is one, may end it earlier.
    pub(super) fn issued(
        &self,
        raw: Zeroizing<Vec<u8>>,
        expires_at: Option<SystemTime>,
    ) -> Result<Issued, AnswerError> {
        if let Some(at) = expires_at {
            match at.duration_since(self.now) {
                Ok(left) if left.is_zero() => return Err(AnswerError::Expired(When(at))),
                Ok(left) if left > FURTHEST => return Err(AnswerError::TooFar(When(at))),
                Ok(_) => {}
                Err(_) => return Err(AnswerError::Expired(When(at))),
            }
        }
        Ok(Issued { secret: Secret::new(self.name, raw)?, expires_at: expires_at.into_iter().chain(self.ends()).min() })
    }

    /// When a value ends of which nothing else is said.
    pub(super) fn ends(&self) -> Option<SystemTime> {
        self.ttl.map(|ttl| self.now + ttl)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(deserialize_with = "hidden")]
    value: Zeroizing<Vec<u8>>,
    expires_at: Option<Value>,
}

/// A text that is wiped.
pub(super) fn hidden<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<Vec<u8>>, D::Error> {
    String::deserialize(deserializer).map(|text| Zeroizing::new(text.into_bytes()))
}

/// RFC 3339, or whole or broken seconds since 1970.
fn time(written: &Value) -> Option<SystemTime> {
    if let Some(text) = written.as_str() {
        return Some(OffsetDateTime::parse(text, &Rfc3339).ok()?.into());
    }
    let since = Duration::try_from_secs_f64(written.as_f64()?).ok()?;
    // What no calendar here reaches could not be shown either.
    let last = OffsetDateTime::from_unix_timestamp(253_402_300_799).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(since).map(|at| at.min(last.into()))
}

#[cfg(test)]
mod tests;
