//! The issuers of a policy's secrets, put together: some need a value of another one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{Method, StatusCode};

use crate::policy::github::{AppInstallation, ScopedUserToken};
use crate::policy::{HttpSource, OAuth2Source, OAuthGrant, VaultSource};
use crate::types::Secret;

use super::fetch::{Answer, Call, Fetch};
use super::github::{AppIssuer, ScopedIssuer, UserToken};
use super::issue::{IssueError, Issued, Issuer, Issuing, Reading};
use super::oauth::{OAuthIssuer, Rotating};
use super::source::{Clock, Source, SourceContext, SourceIssuer};
use super::vault::VaultIssuer;

/// Where the values of one secret come from, opened.
pub enum Supply {
    /// Read on this host.
    Read(Arc<Source>),
    /// Asked for.
    Http(HttpSource),
    /// Asked of a token endpoint.
    OAuth2(OAuth2Source),
    /// Read in a vault.
    Vault(VaultSource),
    /// Asked of GitHub, for an App.
    GitHubApp(AppInstallation),
    /// Asked of GitHub, for a user.
    GitHubScoped(ScopedUserToken),
}

/// The issuers of these secrets. Each that needs another one asks it anew for every value of its own. A secret that is not
/// among the supplies, or needs itself, has none; a policy that was compiled names no such secret.
pub fn issuers<'a>(
    supplies: &'a [(String, Supply)],
    names: impl IntoIterator<Item = &'a str>,
    context: &SourceContext,
    fetch: &Arc<dyn Fetch>,
) -> BTreeMap<String, Arc<dyn Issuer>> {
    let supplies = supplies.iter().map(|(name, supply)| (name.as_str(), supply)).collect();
    let (begun, made) = (HashSet::new(), HashMap::new());
    let (rotating, user_tokens) = (HashMap::new(), HashMap::new());
    let mut maker = Maker { supplies, begun, made, rotating, user_tokens, context, fetch };
    let made = names.into_iter().filter_map(|name| Some((name.to_owned(), maker.make(name)?)));
    made.collect()
}

struct Maker<'a> {
    supplies: HashMap<&'a str, &'a Supply>,
    begun: HashSet<&'a str>,
    made: HashMap<&'a str, Arc<dyn Issuer>>,
    /// By the name of the refresh token.
    rotating: HashMap<&'a str, Arc<Rotating>>,
    /// By the name of the user's token.
    user_tokens: HashMap<&'a str, Arc<UserToken>>,
    context: &'a SourceContext,
    fetch: &'a Arc<dyn Fetch>,
}

impl<'a> Maker<'a> {
    fn make(&mut self, name: &'a str) -> Option<Arc<dyn Issuer>> {
        if let Some(made) = self.made.get(name) {
            return Some(Arc::clone(made));
        }
        if !self.begun.insert(name) {
            return None;
        }
        let issuer: Arc<dyn Issuer> = match self.supplies.get(name).copied()? {
            Supply::Read(source) => Arc::new(SourceIssuer::new(name, Arc::clone(source), self.context.clone())),
            Supply::Http(source) => Arc::new(HttpIssuer {
                bearer: self.need_any(source.bearer.as_deref())?,
                source: source.clone(),
                asking: self.asking(name),
            }),
            Supply::OAuth2(source) => Arc::new(OAuthIssuer {
                client_secret: self.need_any(source.client_secret.as_deref())?,
                refresh_token: match &source.grant {
                    OAuthGrant::RefreshToken(token) => Some(self.rotating(token)?),
                    OAuthGrant::ClientCredentials => None,
                },
                source: source.clone(),
                asking: self.asking(name),
            }),
            Supply::Vault(source) => Arc::new(VaultIssuer {
                token: self.need(&source.token)?,
                source: source.clone(),
                asking: self.asking(name),
            }),
            Supply::GitHubApp(source) => {
                Arc::new(AppIssuer::new(self.asking(name), source.clone(), self.need(&source.private_key)?))
            }
            Supply::GitHubScoped(source) => Arc::new(ScopedIssuer {
                user_token: self.user_token(&source.user_token)?,
                client_secret: self.need(&source.client_secret)?,
                source: source.clone(),
                asking: self.asking(name),
            }),
        };
        self.made.insert(name, Arc::clone(&issuer));
        Some(issuer)
    }

    fn need(&mut self, name: &'a str) -> Option<Needed> {
        Some(Needed { issuer: self.make(name)?, name: name.to_owned() })
    }

    /// `Some(None)` where nothing is needed.
    fn need_any(&mut self, name: Option<&'a str>) -> Option<Option<Needed>> {
        name.map_or(Some(None), |name| self.need(name).map(Some))
    }

    /// Whoever uses one refresh token shares it.
    fn rotating(&mut self, name: &'a str) -> Option<Arc<Rotating>> {
        if let Some(rotating) = self.rotating.get(name) {
            return Some(Arc::clone(rotating));
        }
        let source = match self.supplies.get(name).copied()? {
            Supply::Read(source) => Some(Arc::clone(source)),
            Supply::Http(_) | Supply::OAuth2(_) | Supply::Vault(_) => None,
            Supply::GitHubApp(_) | Supply::GitHubScoped(_) => None,
        };
        let rotating = Arc::new(Rotating::new(self.need(name)?, source));
        self.rotating.insert(name, Arc::clone(&rotating));
        Some(rotating)
    }

    /// Whoever narrows one user's token shares it.
    fn user_token(&mut self, name: &'a str) -> Option<Arc<UserToken>> {
        if let Some(token) = self.user_tokens.get(name) {
            return Some(Arc::clone(token));
        }
        let token = Arc::new(UserToken::new(self.need(name)?, Arc::clone(&self.context.now)));
        self.user_tokens.insert(name, Arc::clone(&token));
        Some(token)
    }

    fn asking(&self, name: &str) -> Asking {
        Asking { name: name.to_owned(), fetch: Arc::clone(self.fetch), now: Arc::clone(&self.context.now) }
    }
}

/// A secret that another one needs.
pub(super) struct Needed {
    issuer: Arc<dyn Issuer>,
    name: String,
}

impl Needed {
    /// The secret's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A failure of its own.
    pub(super) fn failed(&self, error: IssueError) -> IssueError {
        IssueError::Needed { secret: self.name.clone(), error: Box::new(error) }
    }

    pub(super) async fn get(&self) -> Result<Secret, IssueError> {
        self.issued().await.map(|issued| issued.secret)
    }

    /// Its value with its expiry.
    pub(super) async fn issued(&self) -> Result<Issued, IssueError> {
        self.issuer.issue().await.map_err(|error| self.failed(error))
    }

    /// What this secret cannot be used for.
    pub(super) fn unusable(&self, reason: impl Into<String>) -> IssueError {
        IssueError::Unusable { secret: self.name.clone(), reason: reason.into() }
    }
}

/// What every issuer has that asks somebody.
pub(super) struct Asking {
    /// The secret's name.
    pub(super) name: String,
    pub(super) fetch: Arc<dyn Fetch>,
    pub(super) now: Clock,
}

/// Asks a service that answers `{"value": …, "expires_at": …}`.
struct HttpIssuer {
    asking: Asking,
    source: HttpSource,
    bearer: Option<Needed>,
}

impl HttpIssuer {
    async fn ask(&self) -> Result<Issued, IssueError> {
        let mut call = Call::get(self.source.url.clone());
        if self.source.post {
            call.method = Method::POST;
        }
        if let Some(bearer) = &self.bearer {
            let token = bearer.get().await?;
            let with = call.with_secret(AUTHORIZATION, "Bearer ", token.expose());
            call = with.map_err(|reason| bearer.unusable(reason))?;
        }
        let from = || self.source.url.authority().clone();
        let Answer { status, body, .. } = self.asking.fetch.fetch(call).await?;
        if status != StatusCode::OK {
            return Err(IssueError::Status { from: from(), status: status.as_u16(), means: meaning(status) });
        }
        let reading = Reading { name: &self.asking.name, now: (self.asking.now)(), ttl: self.source.ttl };
        reading.json(&body).map_err(|error| IssueError::Answer { from: from(), error })
    }
}

impl Issuer for HttpIssuer {
    fn issue(&self) -> Issuing<'_> {
        Box::pin(self.ask())
    }
}

/// What a person should know of a status, as the end of a sentence; mostly nothing.
pub(super) fn meaning(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=399 => ", and redirects are not followed: name the URL it leads to",
        401 | 403 => ": it does not accept what it was asked with",
        404 => ": check the path of the URL",
        429 => ": it was asked too often",
        _ => "",
    }
}

#[cfg(test)]
pub(super) mod tests;
