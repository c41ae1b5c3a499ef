//! The Mistral API, as the user.

use std::time::Duration;

use crate::types::Authority;

use super::binding::{Accepts, Binding, BindingError, Placement, parse_host, parse_secret_name};

/// The Mistral API's key, put in place of one that only this proxy accepts (the seed's type of that name).
///
/// Inside, `MISTRAL_API_KEY` is that key and `MISTRAL_API_HTTP_PROXY` the proxy's URL. A request to the API which carries
/// exactly that key leaves with the real one, one that carries another is refused, and one that carries none goes on without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MistralApiBinding {
    host: Authority,
    secret_name: String,
    ttl: Duration,
}

/// Why a [`MistralApiBinding`] cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MistralApiError {
    /// The host.
    #[error(transparent)]
    Host(BindingError),
    /// The name of the secret.
    #[error(transparent)]
    SecretName(BindingError),
    /// The lifetime.
    #[error("a lifetime is 1 to 604800 seconds (7 days)")]
    Ttl,
    /// Whom requests are made as.
    #[error("`run_as` can be \"auto\" only: the owner of the key")]
    RunAs,
}

impl MistralApiBinding {
    /// The secret that is used where none is named.
    pub const SECRET: &str = "MISTRAL_API_KEY";
    /// The variable with the key inside.
    pub const KEY_VARIABLE: &str = "MISTRAL_API_KEY";
    /// The variable with the proxy's URL inside.
    pub const PROXY_VARIABLE: &str = "MISTRAL_API_HTTP_PROXY";
    /// The longest lifetime, in seconds.
    pub const MAX_TTL: u64 = 604_800;

    /// A binding to api.mistral.ai with the secret `MISTRAL_API_KEY`, asked for anew every 3600 seconds where its source does
    /// not say how long it lives.
    pub fn new() -> Self {
        Self {
            host: parse_host("api.mistral.ai").expect("a plain host name"),
            secret_name: Self::SECRET.to_owned(),
            ttl: Duration::from_secs(3600),
        }
    }

    /// The same for another host, such as a private deployment: `host` or `host:port`.
    ///
    /// # Errors
    /// [`MistralApiError::Host`].
    pub fn with_host(self, host: &str) -> Result<Self, MistralApiError> {
        Ok(Self { host: parse_host(host).map_err(MistralApiError::Host)?, ..self })
    }

    /// The same with another secret.
    ///
    /// # Errors
    /// [`MistralApiError::SecretName`].
    pub fn with_secret_name(self, name: &str) -> Result<Self, MistralApiError> {
        Ok(Self { secret_name: parse_secret_name(name).map_err(MistralApiError::SecretName)?, ..self })
    }

    /// The same with another lifetime, in seconds.
    ///
    /// # Errors
    /// [`MistralApiError::Ttl`] for none, and for more than seven days.
    pub fn with_ttl_seconds(self, seconds: u64) -> Result<Self, MistralApiError> {
        if !(1..=Self::MAX_TTL).contains(&seconds) {
            return Err(MistralApiError::Ttl);
        }
        Ok(Self { ttl: Duration::from_secs(seconds), ..self })
    }

    /// The same, made as `run_as`: always `auto`.
    ///
    /// # Errors
    /// [`MistralApiError::RunAs`] for anything else.
    pub fn with_run_as(self, run_as: &str) -> Result<Self, MistralApiError> {
        if run_as == "auto" { Ok(self) } else { Err(MistralApiError::RunAs) }
    }

    /// The name of the secret.
    pub fn secret_name(&self) -> &str {
        &self.secret_name
    }

    /// What it does to requests.
    pub fn into_binding(self) -> Binding {
        let (prefix, suffix) = ("Bearer ".to_owned(), String::new());
        let placement = Placement::Header { name: http::header::AUTHORIZATION, prefix, suffix };
        Binding::of_parts(self.host, self.secret_name, placement)
            .with_accepts(Accepts::PlaceholderOnly)
            .with_ttl(self.ttl)
    }
}

impl Default for MistralApiBinding {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_seeds() {
        let binding = MistralApiBinding::new().into_binding();
        assert_eq!(binding.host().to_string(), "api.mistral.ai");
        assert_eq!(binding.secret_name(), "MISTRAL_API_KEY");
        assert_eq!(binding.placement().sample("K"), "authorization: Bearer {K}");
        assert_eq!(binding.ttl(), Some(Duration::from_secs(3600)));
        assert_eq!(binding.accepts(), Accepts::PlaceholderOnly);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let new = MistralApiBinding::new;
        assert_eq!(
            [0, 604_801].map(|ttl| new().with_ttl_seconds(ttl)),
            [Err(MistralApiError::Ttl), Err(MistralApiError::Ttl)]
        );
        assert_eq!(new().with_run_as("me"), Err(MistralApiError::RunAs));
        assert!(new().with_run_as("auto").is_ok() && new().with_ttl_seconds(604_800).is_ok());
        assert!(matches!(new().with_host("*.mistral.test"), Err(MistralApiError::Host(_))));
        assert!(matches!(new().with_secret_name("a b"), Err(MistralApiError::SecretName(_))));
    }
}
