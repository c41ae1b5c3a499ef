//! Tokens of GitHub that are asked for, as a policy names them: of an App's installation, and of a user, narrowed.

use std::collections::BTreeMap;
use std::fmt;

use super::name::RepoName;
use super::site::GitHubSite;

/// An installation access token of a GitHub App, good for the repositories of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppInstallation {
    /// Where GitHub is.
    pub site: GitHubSite,
    /// The App.
    pub client_id: ClientId,
    /// The secret that holds its private key.
    pub private_key: String,
    /// What the token is good for.
    pub repositories: Repositories,
    /// What it may do there, by GitHub's own names: `contents` → `write`. `metadata: read` is asked for always.
    pub permissions: BTreeMap<String, String>,
}

/// A token of a user of a GitHub App, narrowed to the repositories of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopedUserToken {
    /// Where GitHub is.
    pub site: GitHubSite,
    /// The App.
    pub client_id: ClientId,
    /// The secret that holds the App's client secret.
    pub client_secret: String,
    /// The secret that holds the user's token.
    pub user_token: String,
    /// What the narrowed token is good for.
    pub repositories: Repositories,
    /// What it may do there; `metadata: read` is asked for always.
    pub permissions: BTreeMap<String, String>,
}

/// Repositories of one owner: 1 to [`Repositories::MAX`] of them, or all that the App may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repositories {
    owner: String,
    named: Option<Vec<RepoName>>,
}

/// Why repositories are none that one token can be for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepositoriesError {
    /// No repository. It would mean every one to GitHub.
    #[error("there is no repository")]
    None,
    /// More than GitHub takes.
    #[error("there are more than 500 repositories, which is what one token can be for")]
    TooMany,
    /// Two owners.
    #[error("{0} and {1} have different owners; a token is for one owner")]
    Owners(RepoName, RepoName),
    /// What GitHub has no name for.
    #[error("an owner has 1 to 100 letters, digits, `-` and `_`, and begins with a letter or digit")]
    Owner,
}

impl Repositories {
    /// The most that GitHub makes one token for.
    pub const MAX: usize = 500;

    /// All repositories of an owner that the App may see.
    ///
    /// # Errors
    /// [`RepositoriesError::Owner`].
    pub fn all(owner: &str) -> Result<Self, RepositoriesError> {
        let name = RepoName::new(owner, "x").map_err(|_| RepositoriesError::Owner)?;
        Ok(Self { owner: name.owner().to_owned(), named: None })
    }

    /// These; one that is named twice counts once.
    ///
    /// # Errors
    /// [`RepositoriesError`].
    pub fn named(names: impl IntoIterator<Item = RepoName>) -> Result<Self, RepositoriesError> {
        let mut named: Vec<RepoName> = names.into_iter().collect();
        named.sort();
        named.dedup();
        let first = named.first().ok_or(RepositoriesError::None)?;
        if let Some(other) = named.iter().find(|name| name.owner() != first.owner()) {
            return Err(RepositoriesError::Owners(first.clone(), other.clone()));
        }
        if named.len() > Self::MAX {
            return Err(RepositoriesError::TooMany);
        }
        Ok(Self { owner: first.owner().to_owned(), named: Some(named) })
    }

    /// Whose they are, in lower case.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Their names in order, without repetition; `None` for all of the owner's.
    pub fn names(&self) -> Option<&[RepoName]> {
        self.named.as_deref()
    }
}

impl fmt::Display for Repositories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        let Some(named) = &self.named else { return write!(f, "all repositories of {}", self.owner) };
        let shown: Vec<String> = named.iter().take(SHOWN).map(ToString::to_string).collect();
        f.write_str(&shown.join(", "))?;
        match named.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The client id of a GitHub App (`Iv23…`), or its number: 1 to 64 letters, digits, `.`, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientId(String);

/// A text is no [`ClientId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has 1 to 64 letters, digits, `.`, `_` and `-`, such as Iv23liAbCdEfGhIjKlMn")]
pub struct ClientIdError;

impl ClientId {
    /// Parses one.
    ///
    /// # Errors
    /// [`ClientIdError`].
    pub fn parse(text: &str) -> Result<Self, ClientIdError> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let whole = (1..=64).contains(&text.len()) && text.bytes().all(legal) && !matches!(text, "." | "..");
        whole.then(|| Self(text.to_owned())).ok_or(ClientIdError)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The number, where it is an App's number.
    pub fn number(&self) -> Option<u64> {
        self.0.bytes().all(|byte| byte.is_ascii_digit()).then(|| self.0.parse().ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Vec<RepoName> {
        texts.iter().map(|text| RepoName::parse(text).unwrap()).collect()
    }

    #[test]
    fn repositories_are_of_one_owner_and_never_none() {
        let some = Repositories::named(names(&["acme/b", "Acme/A", "acme/b"])).unwrap();
        assert_eq!((some.owner(), some.names()), ("acme", Some(&names(&["acme/a", "acme/b"])[..])));
        assert_eq!(some.to_string(), "acme/a, acme/b");
        let all = Repositories::all("Acme").unwrap();
        assert_eq!((all.owner(), all.names(), all.to_string().as_str()), ("acme", None, "all repositories of acme"));
        assert_eq!(Repositories::named([]), Err(RepositoriesError::None));
        assert_eq!(Repositories::all("a/b"), Err(RepositoriesError::Owner));
        let two = names(&["acme/a", "other/b"]);
        assert_eq!(Repositories::named(two.clone()), Err(RepositoriesError::Owners(two[0].clone(), two[1].clone())));
        let many = |count: usize| Repositories::named((0..count).map(|n| RepoName::new("a", &n.to_string()).unwrap()));
        assert_eq!(many(500).unwrap().to_string(), "a/0, a/1, a/10 and 497 more");
        assert_eq!(many(501), Err(RepositoriesError::TooMany));
    }

    #[test]
    fn client_ids() {
        assert_eq!(ClientId::parse("123456").map(|id| id.number()), Ok(Some(123_456)));
        assert_eq!(ClientId::parse("Iv23liAbC.d").map(|id| id.number()), Ok(None));
        for text in ["", "..", "a/b", "a b", "a\"", &"a".repeat(65)] {
            assert_eq!(ClientId::parse(text), Err(ClientIdError), "{text}");
        }
    }
}
