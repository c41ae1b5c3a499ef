//! Tokens of GitHub: of an App's installation ([`app`]), and a user's token that GitHub itself narrows ([`scoped`]). What is asked
//! for is what a token is checked to be good for, before its first use.

mod answer;
mod app;
mod jwt;
mod scoped;

use std::time::Duration;

pub(super) use app::AppIssuer;
pub(super) use scoped::{ScopedIssuer, UserToken};

/// Why GitHub gives no token, as the end of a sentence that begins with its host. The text holds nothing of the answer, and of
/// the policy what stands there in clear.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GitHubError {
    /// 401 for an App, also by GitHub's own clock.
    #[error(
        "does not accept the App's JWT: check client_id, that the key is one of this App's, and this machine's clock"
    )]
    Jwt,
    /// 401 for the client of a user's token.
    #[error("does not accept the App's own credentials: check client_id (not app_id) and client_secret")]
    Client,
    /// 404 for a user's token.
    #[error("does not know the user's token as one of this App: it has ended, or is of a kind that cannot be narrowed")]
    UserToken,
    /// 404 where the installation was looked for.
    #[error("knows no installation of the App for {0}: install it there, with access to it")]
    NotInstalled(String),
    /// A redirect: names change, and what is asked for is a name.
    #[error("has {0} under another name by now; write the new one")]
    Moved(String),
    /// What was found belongs to somebody else.
    #[error("answered for another account than {0}, so nothing of it was used")]
    OtherAccount(String),
    /// Its owner has suspended the App.
    #[error("says that the App's installation is suspended; its owner can end that")]
    Suspended,
    /// 404 for an installation that was there before.
    #[error("does not know the App's installation any more; it is looked for again")]
    Gone,
    /// 422. It is not asked again for less, and never for all.
    #[error("gives no token for {repositories} with {permissions}: the installation lacks one of them")]
    NotGranted {
        /// What was asked for.
        repositories: String,
        /// With which permissions.
        permissions: String,
    },
    /// The token is good for something else than was asked for.
    #[error("gave a token for other repositories than {0}, so it was not used")]
    OtherRepositories(String),
    /// The token may do more than was asked for.
    #[error("gave a token with more permissions than {0}, so it was not used")]
    OtherPermissions(String),
    /// 403 or 429, with or without a time.
    #[error("was asked too often, and is not asked again for {} seconds", .0.as_secs())]
    Limited(Duration),
    /// It is none of the documented ones.
    #[error("gave an answer that is not the documented one")]
    Form,
}

impl GitHubError {
    /// How long nobody is to ask again.
    pub(super) fn wait(&self) -> Option<Duration> {
        match self {
            Self::Limited(wait) => Some(*wait),
            Self::Jwt | Self::Client | Self::UserToken | Self::NotInstalled(_) | Self::Moved(_) => None,
            Self::OtherAccount(_) | Self::Suspended | Self::Gone | Self::NotGranted { .. } => None,
            Self::OtherRepositories(_) | Self::OtherPermissions(_) | Self::Form => None,
        }
    }
}

#[cfg(test)]
mod tests;
