//! A user's token, narrowed by GitHub to the repositories of one owner: what a sandbox does with it then ends where it should,
//! whatever the proxy overlooks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::StatusCode;
use http::header::AUTHORIZATION;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use crate::policy::github::{RepoName, ScopedUserToken};
use crate::types::Secret;

use super::super::fetch::{Answer, Call};
use super::super::issue::{IssueError, Issued, Issuer, Issuing, Reading, hidden};
use super::super::issuers::{Asking, Needed};
use super::super::source::Clock;
use super::GitHubError;
use super::answer::{documented, failed, listed, time, wanted, within};

/// The life that a user's token has left at least when it is narrowed: more than the time ahead of its end at which a narrowed one
/// is renewed.
const LEAST: Duration = Duration::from_secs(900);

/// Asks for a narrower token than the user's.
pub(in super::super) struct ScopedIssuer {
    pub(in super::super) asking: Asking,
    pub(in super::super) source: ScopedUserToken,
    pub(in super::super) user_token: Arc<UserToken>,
    pub(in super::super) client_secret: Needed,
}

/// A user's token, shared by all that narrow it, and kept while it has some life left: to get a new one ends the old one.
pub(in super::super) struct UserToken {
    needed: Needed,
    now: Clock,
    last: Mutex<Option<Issued>>,
}

impl UserToken {
    pub(in super::super) fn new(needed: Needed, now: Clock) -> Self {
        Self { needed, now, last: Mutex::default() }
    }

    /// The token, and whether it was got before.
    async fn get(&self) -> Result<(Issued, bool), IssueError> {
        // Held while a new one comes, so that one comes for all.
        let mut last = self.last.lock().await;
        let least = (self.now)() + LEAST;
        if let Some(kept) = last.as_ref().filter(|kept| kept.expires_at.is_some_and(|end| end > least)) {
            return Ok((kept.clone(), true));
        }
        let issued = self.needed.issued().await?;
        *last = Some(issued.clone());
        Ok((issued, false))
    }

    /// It is of no use any more.
    async fn forget(&self, token: &Issued) {
        let mut last = self.last.lock().await;
        last.take_if(|kept| kept.secret.expose() == token.secret.expose());
    }
}

impl ScopedIssuer {
    async fn ask(&self) -> Result<Issued, IssueError> {
        let wanted = wanted(&self.source.permissions);
        let (mut whole, was_kept) = self.user_token.get().await?;
        let mut answer = self.narrowed(&whole, &wanted).await?;
        if answer.status == StatusCode::NOT_FOUND && was_kept {
            self.user_token.forget(&whole).await;
            whole = self.user_token.get().await?.0;
            answer = self.narrowed(&whole, &wanted).await?;
        }
        let subject = || self.source.repositories.to_string();
        match answer.status {
            StatusCode::OK => self.checked(&answer, &whole, &wanted),
            StatusCode::UNAUTHORIZED => Err(self.wrong(GitHubError::Client)),
            StatusCode::NOT_FOUND => Err(self.wrong(GitHubError::UserToken)),
            StatusCode::UNPROCESSABLE_ENTITY => {
                Err(self.wrong(GitHubError::NotGranted { repositories: subject(), permissions: listed(&wanted) }))
            }
            _ => {
                let from = self.source.site.api_authority().clone();
                Err(failed(&answer, from, &subject(), (self.asking.now)()))
            }
        }
    }

    async fn narrowed(&self, whole: &Issued, wanted: &BTreeMap<String, String>) -> Result<Answer, IssueError> {
        let call = self.call(&whole.secret, wanted).await?;
        Ok(self.asking.fetch.fetch(call).await?)
    }

    async fn call(&self, whole: &Secret, wanted: &BTreeMap<String, String>) -> Result<Call, IssueError> {
        let ScopedUserToken { site, client_id, repositories, .. } = &self.source;
        let mut body = json!({ "permissions": wanted, "target": repositories.owner() });
        if let Some(names) = repositories.names() {
            body["repositories"] = names.iter().map(RepoName::name).map(Value::from).collect();
        }
        let url = site.api(&format!("/applications/{}/token/scoped", client_id.as_str()));
        let url = url.expect("a client id makes a legal path");
        let call = documented(Call::post(url, with_token(&body, whole).ok_or_else(|| self.no_token())?));
        let secret = self.client_secret.get().await?;
        let login = Zeroizing::new([client_id.as_str().as_bytes(), b":", secret.expose()].concat());
        let login = Zeroizing::new(BASE64_STANDARD.encode(&*login));
        let with = call.with_secret(AUTHORIZATION, "Basic ", login.as_bytes());
        with.map_err(|reason| self.client_secret.unusable(reason))
    }

    /// The token, if it is narrowed to what was asked for. Which repositories it is for is not in the answer: GitHub makes one
    /// for all of them or none (422).
    fn checked(
        &self,
        answer: &Answer,
        whole: &Issued,
        wanted: &BTreeMap<String, String>,
    ) -> Result<Issued, IssueError> {
        let given: Given = serde_json::from_slice(&answer.body).map_err(|_| self.wrong(GitHubError::Form))?;
        let end = given.expires_at.map(|text| time(&text).ok_or_else(|| self.wrong(GitHubError::Form))).transpose()?;
        let repositories = &self.source.repositories;
        let Installation { permissions, repository_selection, account } = given.installation;
        if !account.login.eq_ignore_ascii_case(repositories.owner()) {
            return Err(self.wrong(GitHubError::OtherAccount(repositories.owner().to_owned())));
        }
        let is_narrow = repositories.names().is_none() || repository_selection == "selected";
        if !is_narrow || *given.token == whole.secret.expose() {
            return Err(self.wrong(GitHubError::OtherRepositories(repositories.to_string())));
        }
        if !within(&permissions, wanted) {
            return Err(self.wrong(GitHubError::OtherPermissions(listed(wanted))));
        }
        let reading = Reading { name: &self.asking.name, now: (self.asking.now)(), ttl: None };
        let from = self.source.site.api_authority().clone();
        let end = end.into_iter().chain(whole.expires_at).min();
        reading.issued(given.token, end).map_err(|error| IssueError::Answer { from, error })
    }

    fn no_token(&self) -> IssueError {
        self.user_token.needed.unusable("it is no token of GitHub, which has letters, digits, `_`, `-` and `.`")
    }

    fn wrong(&self, error: GitHubError) -> IssueError {
        IssueError::GitHub { from: self.source.site.api_authority().clone(), error }
    }
}

impl Issuer for ScopedIssuer {
    fn issue(&self) -> Issuing<'_> {
        Box::pin(self.ask())
    }
}

/// The JSON object with `access_token` as one more member; nothing where that would have to be escaped.
fn with_token(body: &Value, token: &Secret) -> Option<Zeroizing<Vec<u8>>> {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    if !token.expose().iter().all(legal) {
        return None;
    }
    let body = body.to_string();
    let parts: [&[u8]; 4] = [b"{\"access_token\":\"", token.expose(), b"\",", body.strip_prefix('{')?.as_bytes()];
    // Of its final size from the start: growing would leave copies behind.
    Some(Zeroizing::new(parts.concat()))
}

#[derive(Deserialize)]
struct Given {
    #[serde(deserialize_with = "hidden")]
    token: Zeroizing<Vec<u8>>,
    expires_at: Option<String>,
    installation: Installation,
}

#[derive(Deserialize)]
struct Installation {
    permissions: BTreeMap<String, String>,
    repository_selection: String,
    account: Account,
}

#[derive(Deserialize)]
struct Account {
    login: String,
}
