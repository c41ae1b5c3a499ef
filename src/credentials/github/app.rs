//! Installation access tokens of a GitHub App.
//!
//! The first token is asked for by the repositories' names, since an App cannot read their numbers by itself. The numbers
//! that come with it are kept, and every later token is asked for by them: a name that changes hands in between gives
//! nobody anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::policy::github::{AppInstallation, RepoName};
use crate::types::{Authority, Endpoint, Secret};

use super::super::fetch::{Answer, Call};
use super::super::issue::{IssueError, Issued, Issuer, Issuing, Reading, hidden};
use super::super::issuers::{Asking, Needed};
use super::GitHubError;
use super::answer::{ahead, documented, failed, listed, shifted, time, wanted, within};
use super::jwt::jwt;

/// Asks for the older form of token, without dots.
const STATELESS: HeaderName = HeaderName::from_static("x-github-stateless-s2s-token");
const GIT_PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");
/// The longest answer with a token, in bytes: it describes each of up to 500 repositories, in some 6 KiB.
const TOKEN_MAX: usize = 8 * 1024 * 1024;
/// How many seconds clocks may differ without a reason to correct ours.
const TOLERATED: u64 = 5;

/// Asks for tokens of one installation.
pub(in super::super) struct AppIssuer {
    asking: Asking,
    source: AppInstallation,
    private_key: Needed,
    known: Mutex<Known>,
}

/// What earlier answers have shown.
#[derive(Clone, Default)]
struct Known {
    /// How many seconds GitHub's clock is ahead of ours, once that mattered.
    ahead: i64,
    installation: Option<u64>,
    account: Option<u64>,
    /// The numbers of the repositories that were named.
    repositories: Option<BTreeSet<u64>>,
    /// Git takes the older form of token only.
    wants_classic: bool,
}

impl AppIssuer {
    /// An issuer of a secret. `private_key` is the App's.
    pub(in super::super) fn new(asking: Asking, source: AppInstallation, private_key: Needed) -> Self {
        Self { asking, source, private_key, known: Mutex::default() }
    }

    async fn ask(&self) -> Result<Issued, IssueError> {
        let key = self.private_key.get().await?;
        let known = self.known().installation;
        let installation = match known {
            Some(installation) => installation,
            None => self.find(&key).await?,
        };
        let issued = self.token(&key, installation).await?;
        let wants_classic = self.known().wants_classic;
        if wants_classic || self.is_good_for_git(&issued.secret).await {
            return Ok(issued);
        }
        self.known().wants_classic = true;
        self.token(&key, installation).await
    }

    /// The installation that has the first of the repositories, or is the owner's.
    async fn find(&self, key: &Secret) -> Result<u64, IssueError> {
        let owner = self.source.repositories.owner();
        let (subject, paths) = match self.source.repositories.names().and_then(<[RepoName]>::first) {
            Some(name) => (name.to_string(), vec![format!("/repos/{name}/installation")]),
            None => {
                let paths = ["users", "orgs"].map(|kind| format!("/{kind}/{owner}/installation"));
                (owner.to_owned(), paths.to_vec())
            }
        };
        for path in paths {
            let url = self.url(&path);
            let answer = self.call(key, Call::get(url)).await?;
            match answer.status {
                StatusCode::OK => return self.found(&answer),
                StatusCode::NOT_FOUND => {}
                _ => return Err(failed(&answer, self.from(), &subject, (self.asking.now)())),
            }
        }
        Err(self.wrong(GitHubError::NotInstalled(subject)))
    }

    fn found(&self, answer: &Answer) -> Result<u64, IssueError> {
        let installation: Installation =
            serde_json::from_slice(&answer.body).map_err(|_| self.wrong(GitHubError::Form))?;
        let owner = self.source.repositories.owner();
        let mut known = self.known();
        let is_same = known.account.is_none_or(|account| account == installation.account.id);
        if !is_same || !installation.account.login.eq_ignore_ascii_case(owner) {
            drop(known);
            return Err(self.wrong(GitHubError::OtherAccount(owner.to_owned())));
        }
        if installation.suspended_at.is_some() {
            drop(known);
            return Err(self.wrong(GitHubError::Suspended));
        }
        known.account = Some(installation.account.id);
        known.installation = Some(installation.id);
        Ok(installation.id)
    }

    async fn token(&self, key: &Secret, installation: u64) -> Result<Issued, IssueError> {
        let wanted = wanted(&self.source.permissions);
        let known = self.known().clone();
        let mut body = json!({ "permissions": wanted });
        if let Some(names) = self.source.repositories.names() {
            match &known.repositories {
                Some(numbers) => body["repository_ids"] = json!(numbers),
                None => body["repositories"] = names.iter().map(RepoName::name).map(Value::from).collect(),
            }
        }
        let url = self.url(&format!("/app/installations/{installation}/access_tokens"));
        let mut call = Call::post(url, Zeroizing::new(body.to_string().into_bytes()));
        call.answer_max = TOKEN_MAX;
        if known.wants_classic {
            call.headers.insert(STATELESS, HeaderValue::from_static("disabled"));
        }
        let answer = self.call(key, call).await?;
        match answer.status {
            StatusCode::CREATED => self.checked(&answer, &wanted),
            StatusCode::NOT_FOUND => {
                self.known().installation = None;
                Err(self.wrong(GitHubError::Gone))
            }
            StatusCode::UNPROCESSABLE_ENTITY => {
                let repositories = self.source.repositories.to_string();
                Err(self.wrong(GitHubError::NotGranted { repositories, permissions: listed(&wanted) }))
            }
            _ => Err(failed(&answer, self.from(), &self.source.repositories.to_string(), (self.asking.now)())),
        }
    }

    /// The token, if it is for what was asked for.
    fn checked(&self, answer: &Answer, wanted: &BTreeMap<String, String>) -> Result<Issued, IssueError> {
        let given: Given = serde_json::from_slice(&answer.body).map_err(|_| self.wrong(GitHubError::Form))?;
        let end = time(&given.expires_at).ok_or_else(|| self.wrong(GitHubError::Form))?;
        if !within(&given.permissions, wanted) {
            return Err(self.wrong(GitHubError::OtherPermissions(listed(wanted))));
        }
        let asked = &self.source.repositories;
        if let Some(names) = asked.names() {
            let numbers = self.same(names, given.repository_selection.as_deref(), &given.repositories);
            let numbers = numbers.ok_or_else(|| self.wrong(GitHubError::OtherRepositories(asked.to_string())))?;
            self.known().repositories = Some(numbers);
        }
        let now = (self.asking.now)();
        // Its end is by GitHub's clock, and is counted by ours.
        let ahead = ahead(&answer.headers, now).unwrap_or_else(|| self.known().ahead);
        let end = if ahead.unsigned_abs() > TOLERATED { shifted(end, -ahead) } else { end };
        let reading = Reading { name: &self.asking.name, now, ttl: None };
        let from = self.from();
        reading.issued(given.token, Some(end)).map_err(|error| IssueError::Answer { from, error })
    }

    /// The numbers of the repositories that a token is for, where they are exactly those that were asked for.
    fn same(&self, names: &[RepoName], selection: Option<&str>, given: &[Repository]) -> Option<BTreeSet<u64>> {
        let numbers: BTreeSet<u64> = given.iter().map(|repository| repository.id).collect();
        if selection != Some("selected") || numbers.len() != names.len() || given.len() != names.len() {
            return None;
        }
        let known = self.known();
        let is_same = match &known.repositories {
            Some(known) => *known == numbers,
            None => {
                let given = given.iter().map(|repository| RepoName::parse(&repository.full_name).ok());
                let given: Option<BTreeSet<RepoName>> = given.collect();
                given.is_some_and(|given| given.iter().eq(names))
            }
        };
        is_same.then_some(numbers)
    }

    /// The newer form of token, which has dots, was seen to be unknown to git where the API took it. Only then it is not good.
    async fn is_good_for_git(&self, token: &Secret) -> bool {
        let reads = self.source.permissions.contains_key("contents");
        let first = self.source.repositories.names().and_then(<[RepoName]>::first).filter(|_| reads);
        let Some(name) = first.filter(|_| token.expose().contains(&b'.')) else { return true };
        let path = format!("/{name}.git/info/refs?service=git-upload-pack");
        let Ok(url) = self.source.site.web(&path) else { return true };
        let mut call = Call::get(url);
        call.headers.insert(USER_AGENT, HeaderValue::from_static("git/2 sandbox-proxy"));
        // Its answer is short, whatever the repository holds.
        call.headers.insert(GIT_PROTOCOL, HeaderValue::from_static("version=2"));
        let login = Zeroizing::new([b"x-access-token:", token.expose()].concat());
        let login = Zeroizing::new(BASE64_STANDARD.encode(&*login));
        let Ok(call) = call.with_secret(AUTHORIZATION, "Basic ", login.as_bytes()) else { return true };
        // Without an answer nothing is known against it.
        let status = self.asking.fetch.fetch(call).await.map(|answer| answer.status.as_u16());
        !matches!(status, Ok(401 | 403 | 404))
    }

    /// Sends it in the name of the App; once more where 401 comes with a date that our clock does not have.
    async fn call(&self, key: &Secret, call: Call) -> Result<Answer, IssueError> {
        let answer = self.signed(key, &call).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let told = ahead(&answer.headers, (self.asking.now)());
        let corrected = told.filter(|told| told.abs_diff(self.known().ahead) > TOLERATED);
        let Some(told) = corrected else { return Err(self.wrong(GitHubError::Jwt)) };
        self.known().ahead = told;
        let answer = self.signed(key, &call).await?;
        match answer.status {
            StatusCode::UNAUTHORIZED => Err(self.wrong(GitHubError::Jwt)),
            _ => Ok(answer),
        }
    }

    async fn signed(&self, key: &Secret, call: &Call) -> Result<Answer, IssueError> {
        let Call { method, url, headers, body, answer_max } = call;
        let (method, url, headers): (Method, _, _) = (method.clone(), url.clone(), headers.clone());
        let copy = documented(Call { method, url, headers, body: body.clone(), answer_max: *answer_max });
        let now = shifted((self.asking.now)(), self.known().ahead);
        let unusable = |reason: String| self.private_key.unusable(reason);
        let jwt = jwt(key.expose(), &self.source.client_id, now).map_err(unusable)?;
        let call = copy.with_secret(AUTHORIZATION, "Bearer ", &jwt).map_err(unusable)?;
        Ok(self.asking.fetch.fetch(call).await?)
    }

    fn url(&self, path: &str) -> Endpoint {
        self.source.site.api(path).expect("names and numbers make a legal path")
    }

    fn wrong(&self, error: GitHubError) -> IssueError {
        IssueError::GitHub { from: self.from(), error }
    }

    fn from(&self) -> Authority {
        self.source.site.api_authority().clone()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing panics while it is locked.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Issuer for AppIssuer {
    fn issue(&self) -> Issuing<'_> {
        Box::pin(self.ask())
    }
}

#[derive(Deserialize)]
struct Installation {
    id: u64,
    account: Account,
    suspended_at: Option<String>,
}

#[derive(Deserialize)]
struct Account {
    id: u64,
    login: String,
}

#[derive(Deserialize)]
struct Given {
    #[serde(deserialize_with = "hidden")]
    token: Zeroizing<Vec<u8>>,
    expires_at: String,
    permissions: BTreeMap<String, String>,
    repository_selection: Option<String>,
    #[serde(default)]
    repositories: Vec<Repository>,
}

#[derive(Deserialize)]
struct Repository {
    id: u64,
    full_name: String,
}
