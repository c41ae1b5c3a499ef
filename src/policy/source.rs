//! Where the values of secrets come from, as a policy names it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::types::Endpoint;

use super::github::{AppInstallation, ScopedUserToken};

/// Where a secret's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSpec {
    /// Its name.
    pub name: String,
    /// Its source.
    pub source: SecretSource,
}

/// A source of a value. `Display` is what a person may be shown: no argument of a command, no path of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the launcher's environment.
    Env(String),
    /// A file. One that a policy file names is counted from the directory of that file.
    File(PathBuf),
    /// The output of a program.
    Command(CommandSource),
    /// The answer of a service.
    Http(HttpSource),
    /// An access token of OAuth 2.0.
    OAuth2(OAuth2Source),
    /// A field of a secret in HashiCorp Vault or OpenBao.
    Vault(VaultSource),
    /// An installation access token of a GitHub App.
    GitHubApp(AppInstallation),
    /// A narrowed token of a user of a GitHub App.
    GitHubScoped(ScopedUserToken),
    /// A secret of the workspace, in the service's store.
    Store(String),
}

/// The output of a program, which is run without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSource {
    /// The program with its arguments; never empty.
    pub argv: Vec<String>,
    /// How long it may take, 1 to 300 seconds.
    pub timeout: Duration,
    /// How long its value is good for at most.
    pub ttl: Option<Duration>,
}

impl CommandSource {
    /// How long a command may take that says nothing else.
    pub const TIMEOUT: Duration = Duration::from_secs(30);

    /// A command with nothing said of it but its words.
    pub fn new(argv: Vec<String>) -> Self {
        Self { argv, timeout: Self::TIMEOUT, ttl: None }
    }

    /// What the user's own `gh` is logged in with at a host, by the name of its pages.
    pub fn gh_auth_token(host: &str) -> Self {
        Self::new(["gh", "auth", "token", "--hostname", host].map(str::to_owned).to_vec())
    }
}

/// The answer of a service: `{"value": …, "expires_at": …}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSource {
    /// Whom to ask.
    pub url: Endpoint,
    /// POST, with an empty body, instead of GET.
    pub post: bool,
    /// The secret that goes with the request as a bearer token.
    pub bearer: Option<String>,
    /// How long its value is good for at most.
    pub ttl: Option<Duration>,
}

/// An access token of OAuth 2.0 (RFC 6749).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuth2Source {
    /// The token endpoint.
    pub token_url: Endpoint,
    /// What it is asked with.
    pub grant: OAuthGrant,
    /// The client's name there.
    pub client_id: String,
    /// The secret that proves it.
    pub client_secret: Option<String>,
    /// The scope that is asked for.
    pub scope: Option<String>,
    /// Whom the token is for, where the server wants to know.
    pub audience: Option<String>,
    /// How the client's secret is sent.
    pub auth: ClientAuth,
}

/// What a token endpoint is asked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OAuthGrant {
    /// A refresh token: the name of the secret that holds it.
    RefreshToken(String),
    /// The client's own credentials.
    ClientCredentials,
}

/// How a client's secret is sent (RFC 6749 section 2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// HTTP Basic.
    Basic,
    /// In the body.
    Post,
}

/// A field of a secret in a key-value engine of version 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultSource {
    /// Where it is read: the address, `/v1/` and the path.
    pub url: Endpoint,
    /// The field.
    pub field: String,
    /// The secret that holds the token.
    pub token: String,
    /// The namespace, where there is one.
    pub namespace: Option<String>,
    /// How long its value is good for at most.
    pub ttl: Option<Duration>,
}

impl SecretSource {
    /// The names of the secrets that it needs itself.
    pub fn needs(&self) -> Vec<&str> {
        match self {
            Self::Env(_) | Self::File(_) | Self::Command(_) | Self::Store(_) => Vec::new(),
            Self::Http(http) => http.bearer.as_deref().into_iter().collect(),
            Self::OAuth2(oauth) => {
                let refresh_token = match &oauth.grant {
                    OAuthGrant::RefreshToken(secret) => Some(secret.as_str()),
                    OAuthGrant::ClientCredentials => None,
                };
                refresh_token.into_iter().chain(oauth.client_secret.as_deref()).collect()
            }
            Self::Vault(vault) => vec![vault.token.as_str()],
            Self::GitHubApp(app) => vec![app.private_key.as_str()],
            Self::GitHubScoped(scoped) => vec![scoped.user_token.as_str(), scoped.client_secret.as_str()],
        }
    }

    /// How long one of its values is used, as the end of a sentence about it. `longest` is a binding's own bound.
    pub fn life(&self, longest: Option<Duration>) -> String {
        let (is_told, ttl) = match self {
            Self::Store(_) => return "until another value is put into the store".to_owned(),
            Self::Env(_) | Self::File(_) => (false, None),
            Self::Command(command) => (true, command.ttl),
            Self::Http(http) => (true, http.ttl),
            Self::OAuth2(_) | Self::GitHubApp(_) | Self::GitHubScoped(_) => (true, None),
            Self::Vault(vault) => (true, vault.ttl),
        };
        let bound = ttl.into_iter().chain(longest).min().map(|bound| bound.as_secs());
        match (is_told, bound) {
            (false, None) => "as long as the command runs".to_owned(),
            (false, Some(seconds)) => format!("for {seconds} seconds, and read anew ahead of that"),
            (true, None) => "until the end that its answer tells, and renewed ahead of it".to_owned(),
            (true, Some(seconds)) => {
                format!(
                    "for {seconds} seconds at most, or until the end that its answer tells, and renewed ahead of it"
                )
            }
        }
    }

    /// Whether it asks somebody on the network.
    pub fn is_remote(&self) -> bool {
        match self {
            Self::Env(_) | Self::File(_) | Self::Command(_) | Self::Store(_) => false,
            Self::Http(_) | Self::OAuth2(_) | Self::Vault(_) | Self::GitHubApp(_) | Self::GitHubScoped(_) => true,
        }
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "the variable {name}"),
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Store(name) => write!(f, "the secret {name} of the workspace"),
            Self::Command(command) => write!(f, "the command {}", command.argv.first().map_or("", String::as_str)),
            Self::Http(http) => write!(f, "{}", http.url),
            Self::OAuth2(oauth) => write!(f, "the token endpoint of {}", oauth.token_url),
            Self::Vault(vault) => write!(f, "the vault at {}", vault.url),
            Self::GitHubApp(app) => {
                write!(f, "the App {} at {}, for {}", app.client_id.as_str(), app.site.host(), app.repositories)
            }
            Self::GitHubScoped(scoped) => write!(
                f,
                "a user's token of the App {} at {}, narrowed to {}",
                scoped.client_id.as_str(),
                scoped.site.host(),
                scoped.repositories
            ),
        }
    }
}
