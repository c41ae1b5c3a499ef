//! What GitHub answers: URLs of storage and ids are learned from it, and what is of other repositories is taken out.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, LOCATION, SET_COOKIE,
    TRANSFER_ENCODING,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
use serde_json::Value;
use time::OffsetDateTime;

use crate::credentials::{Methods, Records};
use crate::policy::github::forms::Asked;
use crate::policy::github::git::advertisement::Advertisement;
use crate::policy::github::git::lfs;
use crate::policy::github::graphql::{Learn, Learned, RepositoryOf};
use crate::policy::github::route::{Action, Answer, Git, Route, Subject};
use crate::policy::github::{Api, Code, GitHubBinding, Known, Membership, NodeOwner, OutOfScope, Repository, answers};

use super::super::held::Held;
use super::super::refusal::Refusal;
use super::Scoped;

/// The longest answer that is read whole, in bytes. A longer one passes, and nothing is learned from it.
const ANSWER_MAX: usize = 8 * 1024 * 1024;

/// What is to be done with an answer, and how to ask again.
pub struct AnswerPlan {
    records: Arc<Records>,
    rest: String,
    web: String,
    asked: Asked,
    reading: Reading,
    repository: Option<Arc<Repository>>,
    no_thin: bool,
    again: Option<Again>,
}

enum Reading {
    Nothing,
    Ids,
    Foreign,
    LfsBatch,
    Graphql(Learn),
    Advertisement,
}

/// A request that can be made once more.
struct Again {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    bindings: Vec<usize>,
}

impl AnswerPlan {
    pub(super) fn new(records: &Arc<Records>, binding: &GitHubBinding, asked: Asked) -> Self {
        let site = binding.site();
        let (rest, web) = (site.rest().to_owned(), site.pages().to_owned());
        let no_thin = binding.rules().needs_ancestry();
        let records = Arc::clone(records);
        Self { records, rest, web, asked, reading: Reading::Nothing, repository: None, no_thin, again: None }
    }

    /// Reads what the row of the tables says, in the form that is asked for with these headers.
    pub(super) fn reads(&mut self, route: &Route, headers: &HeaderMap) {
        self.repository = match &route.repository {
            Some(Subject::Pinned(repository)) => Some(Arc::clone(repository)),
            Some(Subject::Name(_) | Subject::Id(_)) | None => None,
        };
        let is_description = |accepted: &HeaderValue| accepted.to_str().is_ok_and(answers::is_description);
        self.reading = match (route.answer, &route.action) {
            (_, Action::Git(Git::AdvertisePush)) => Reading::Advertisement,
            (Answer::Plain, _) => Reading::Nothing,
            (Answer::Learn, _) if headers.get_all(ACCEPT).iter().all(is_description) => Reading::Ids,
            (Answer::Learn, _) => Reading::Nothing,
            (Answer::Reduce, _) => Reading::Foreign,
            (Answer::LfsBatch, _) => Reading::LfsBatch,
        };
    }

    pub(super) fn learns(&mut self, learn: Learn) {
        self.reading = Reading::Graphql(learn);
    }

    /// Whether the answer is to come in plain.
    pub(super) fn is_read(&self) -> bool {
        !matches!(self.reading, Reading::Nothing)
    }

    /// Keeps what is needed to ask once more, where nothing of the body has been passed on by then.
    pub(super) fn keep(&mut self, head: &Parts, body: &Held, bindings: &[usize]) {
        self.again = body.is_whole().then(|| Again {
            method: head.method.clone(),
            uri: head.uri.clone(),
            headers: head.headers.clone(),
            body: body.beginning().clone(),
            bindings: bindings.to_vec(),
        });
    }

    /// The request once more, after a credential was refused.
    pub fn again(&mut self) -> Option<Scoped<Request<Held>>> {
        let again = self.again.take()?;
        let mut request = Request::new(Held::from(again.body));
        *request.method_mut() = again.method;
        *request.uri_mut() = again.uri;
        *request.headers_mut() = again.headers;
        Some(Scoped { request, bindings: again.bindings })
    }

    /// GitHub has refused the credential, and no other can be had. The sandbox must not take it for its own.
    pub fn revoked(&self) -> Refusal {
        let what = "GitHub refuses the credential that the proxy has: the person who runs this sandbox has to renew it";
        Refusal::out_of_scope(OutOfScope::new(Code::CredentialRefused, what), self.asked)
    }

    /// GitHub wants a credential for what gets none. The sandbox must not take that for its own.
    pub fn uncredentialed(&self) -> Refusal {
        let what = "GitHub gives this to nobody without a credential, and the proxy puts none into such requests";
        Refusal::out_of_scope(OutOfScope::new(Code::CredentialRefused, what), self.asked)
    }

    /// Takes an answer.
    ///
    /// # Errors
    /// It has to be read and cannot be.
    pub async fn take(&mut self, mut response: Response<Held>) -> Result<Response<Held>, Refusal> {
        response.headers_mut().remove(SET_COOKIE);
        self.learn_redirect(&response);
        if let (StatusCode::MOVED_PERMANENTLY, Some(repository)) = (response.status(), &self.repository) {
            self.records.look_again(repository.id);
        }
        match &self.reading {
            Reading::Nothing => {}
            Reading::Ids => self.learn_ids(&mut response).await,
            Reading::Foreign => self.reduce(&mut response).await?,
            Reading::LfsBatch => self.lfs_batch(&mut response).await?,
            Reading::Graphql(_) => self.learn_graphql(&mut response).await,
            Reading::Advertisement => self.advertisement(&mut response).await?,
        }
        Ok(response)
    }

    /// Where a redirect leads to, may be asked for.
    fn learn_redirect(&self, response: &Response<Held>) {
        let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
        let location = response.headers().get(LOCATION).filter(|_| is_redirect);
        let Some(uri) = location.and_then(|location| location.to_str().ok()?.parse::<Uri>().ok()) else { return };
        if let (Some("https"), Some(host), Some(target)) = (uri.scheme_str(), uri.host(), uri.path_and_query()) {
            self.records.learn_capability(host, target.as_str(), Methods::GET, None);
            // gh prefers the names that the archives have without this word.
            if host.starts_with("codeload.") && target.path().contains("/legacy.") {
                let other = target.as_str().replacen("/legacy.", "/", 1);
                self.records.learn_capability(host, &other, Methods::GET, None);
            }
        }
    }

    /// All of a JSON answer, where it is one that can be read.
    async fn json(&self, response: &mut Response<Held>) -> Option<Value> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_json = kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
        if !is_json || response.headers().contains_key(CONTENT_ENCODING) {
            return None;
        }
        let body = response.body_mut();
        body.read(ANSWER_MAX + 1).await.ok()?;
        if !body.is_whole() || body.beginning().len() > ANSWER_MAX {
            return None;
        }
        serde_json::from_slice(body.beginning()).ok()
    }

    async fn learn_ids(&self, response: &mut Response<Held>) {
        if !response.status().is_success() {
            return;
        }
        if let (Some(answer), Some(repository)) = (self.json(response).await, &self.repository) {
            self.learn(&answer, repository);
        }
    }

    fn learn(&self, answer: &Value, repository: &Repository) {
        let api = Api { rest: &self.rest, web: &self.web };
        let learned = answers::learn(answer, &repository.name, repository.id, &api);
        self.records.learn_nodes(learned.nodes);
        self.records.learn_issues(learned.issues);
    }

    async fn reduce(&self, response: &mut Response<Held>) -> Result<(), Refusal> {
        if !response.status().is_success() || response.status() == StatusCode::NO_CONTENT {
            return Ok(());
        }
        // Where all are allowed, there is no other.
        let Some(repository) = &self.repository else { return Ok(()) };
        let Some(mut answer) = self.json(response).await else {
            return Err(self.unreadable("it may tell of other repositories"));
        };
        answers::reduce(&mut answer, &repository.name, &Api { rest: &self.rest, web: &self.web });
        replace(response, answer.to_string().into());
        Ok(())
    }

    async fn lfs_batch(&self, response: &mut Response<Held>) -> Result<(), Refusal> {
        if !response.status().is_success() {
            return Ok(());
        }
        let body = response.body_mut();
        let read = body.read(ANSWER_MAX + 1).await.is_ok() && body.is_whole();
        let found = if read { lfs::capabilities(body.beginning(), OffsetDateTime::now_utc()).ok() } else { None };
        let Some(found) = found else { return Err(self.unreadable("it names the storage of objects")) };
        for capability in found {
            let uri = capability.url.parse::<Uri>().ok();
            let Some(uri) = uri.filter(|uri| uri.scheme_str() == Some("https")) else { continue };
            if let (Some(host), Some(target), Some(methods)) =
                (uri.host(), uri.path_and_query(), Methods::of(capability.method))
            {
                self.records.learn_capability(host, target.as_str(), methods, Some(capability.life));
            }
        }
        Ok(())
    }

    async fn learn_graphql(&self, response: &mut Response<Held>) {
        let Reading::Graphql(learn) = &self.reading else { return };
        if learn.is_empty() || self.json(response).await.is_none() {
            return;
        }
        let learned = learn.read(response.body().beginning()).into_iter().filter_map(|(id, of)| {
            let owner = match of {
                Learned::Account => NodeOwner::Account,
                Learned::Repository(RepositoryOf::Id(id)) => NodeOwner::Repository(id),
                Learned::Repository(RepositoryOf::Named(name)) => match self.records.repository(&name) {
                    Membership::Is(repository) => NodeOwner::Repository(repository.id),
                    Membership::Any | Membership::Not | Membership::Changed | Membership::Unresolved => {
                        return None;
                    }
                },
            };
            Some((id, owner))
        });
        self.records.learn_nodes(learned.collect::<Vec<_>>());
    }

    /// What a server of git offers before a push.
    async fn advertisement(&self, response: &mut Response<Held>) -> Result<(), Refusal> {
        if response.status() != StatusCode::OK {
            return Ok(());
        }
        if response.headers().contains_key(CONTENT_ENCODING) {
            return Err(self.unreadable("it offers what a push may be"));
        }
        let mut filter = Advertisement::new(self.no_thin);
        let (mut fed, mut rewritten) = (0, Vec::new());
        let unreadable = || self.unreadable("it offers what a push may be");
        while filter.end().is_err() {
            let read = response.body_mut().read_more(fed).await.map_err(|_| unreadable())?;
            if read.len() <= fed || filter.feed(&read[fed..], &mut rewritten).is_err() {
                return Err(unreadable());
            }
            fed = read.len();
        }
        response.body_mut().replace(rewritten.into());
        response.headers_mut().remove(CONTENT_LENGTH);
        Ok(())
    }

    fn unreadable(&self, why: &str) -> Refusal {
        let what = format!("GitHub's answer cannot be read, and {why}");
        Refusal::out_of_scope(OutOfScope::new(Code::Unresolved, what), self.asked)
    }
}

/// Puts another body in place of one that was read whole.
fn replace(response: &mut Response<Held>, bytes: Bytes) {
    let headers = response.headers_mut();
    headers.remove(ETAG);
    headers.remove(TRANSFER_ENCODING);
    headers.insert(CONTENT_LENGTH, bytes.len().into());
    response.body_mut().replace(bytes);
}
