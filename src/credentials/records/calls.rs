//! The calls to GitHub that answer what has to be known, with the binding's own credentials.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use zeroize::Zeroizing;

use crate::policy::github::{Code, GitHubSite, OutOfScope, RepoName, Repository};
use crate::types::{Authority, Endpoint};

use super::super::fetch::{Answer, Call, Fetch, FetchError};
use super::super::renew::{Keeper, Live, Unavailable};

/// Redirects that a look-up of a repository follows: one for each new name it had.
const REDIRECTS: usize = 3;

/// Makes the calls. Each answer is read once and not kept.
pub struct Calls {
    site: GitHubSite,
    tokens: Vec<Kept>,
    fetch: Arc<dyn Fetch>,
}

/// One token of the binding.
pub struct Kept {
    /// Its value.
    pub keeper: Arc<Keeper>,
    /// Whose repositories it is for, in lower case; `None` for everybody's.
    pub owner: Option<String>,
}

/// Why something could not be looked up. The text holds nothing of an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookUpError {
    /// There is no credential.
    #[error("the binding has no credential")]
    NoCredential,
    /// The credential cannot be had.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The credential cannot stand in a header.
    #[error("the credential {0}")]
    Unusable(String),
    /// Nobody answered.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The answer is no success.
    #[error("{from} answered with status {status}")]
    Status {
        /// Who.
        from: Authority,
        /// The status.
        status: u16,
    },
    /// The answer is not what it is documented to be.
    #[error("the answer of {0} is not understood")]
    Form(String),
}

impl LookUpError {
    /// The refusal of a request that needs to know it. Why it is not known is the operator's to read, and no sandbox's.
    pub fn refusal(&self) -> OutOfScope {
        tracing::warn!("what a request to GitHub is about cannot be looked up: {self}");
        let what = "what this request is about could not be looked up: it is not there, the proxy's token does not reach it, or GitHub \
                    does not answer";
        OutOfScope::new(Code::Unresolved, what)
    }
}

/// What a node is that a ref is named by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefDetails {
    /// The number of its repository.
    pub repository: u64,
    /// Of a ref: its full name. Of a pull request: the full name of the branch it goes into.
    pub name: String,
    /// Of a pull request: the full name of the branch it comes from, and the number of that one's repository, where it still exists.
    pub head: Option<(String, Option<u64>)>,
}

#[derive(Deserialize)]
struct RepositoryAnswer {
    id: u64,
    node_id: String,
    full_name: String,
    default_branch: String,
    owner: Numbered,
    parent: Option<Numbered>,
}

#[derive(Deserialize)]
struct Numbered {
    id: u64,
}

#[derive(Deserialize)]
struct Moved {
    url: String,
}

#[derive(Deserialize)]
struct Pull {
    base: Side,
    head: Side,
}

#[derive(Deserialize)]
struct Side {
    r#ref: String,
    repo: Option<Numbered>,
}

#[derive(Deserialize)]
struct Release {
    tag_name: String,
}

#[derive(Deserialize)]
struct Compared {
    status: String,
}

#[derive(Deserialize)]
struct NodeAnswer {
    data: Option<NodeData>,
}

#[derive(Deserialize)]
struct NodeData {
    node: Option<Node>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    repository: Option<DatabaseId>,
    prefix: Option<String>,
    name: Option<String>,
    base_ref_name: Option<String>,
    head_ref_name: Option<String>,
    head_repository: Option<DatabaseId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DatabaseId {
    database_id: u64,
}

const NODE: &str = "query($id:ID!){node(id:$id){...on PullRequest{repository{databaseId} baseRefName headRefName \
                    headRepository{databaseId}} ...on Ref{repository{databaseId} prefix name}}}";

impl Calls {
    /// Calls to this GitHub. What is about a repository is asked with the token that is for its owner's.
    pub fn new(site: &GitHubSite, tokens: Vec<Kept>, fetch: Arc<dyn Fetch>) -> Self {
        Self { site: site.clone(), tokens, fetch }
    }

    /// The tokens, each of which may see other ids: for [`Self::graphql`].
    pub fn tokens(&self) -> &[Kept] {
        &self.tokens
    }

    /// The record of a repository, under whatever name it has now.
    ///
    /// # Errors
    /// [`LookUpError`].
    pub async fn repository(&self, name: &RepoName) -> Result<Repository, LookUpError> {
        let mut url = format!("{}/repos/{name}", self.site.rest());
        for _ in 0..REDIRECTS {
            let answer = self.get(&url, name).await?;
            if matches!(answer.status.as_u16(), 301 | 302 | 307 | 308) {
                url = read::<Moved>(&answer.body, self.site.rest())?.url;
                if !url.strip_prefix(self.site.rest()).is_some_and(|path| path.starts_with("/repositories/")) {
                    return Err(self.form());
                }
                continue;
            }
            let found: RepositoryAnswer = self.success(&answer)?;
            let name = RepoName::parse(&found.full_name).map_err(|_| self.form())?;
            return Ok(Repository {
                name,
                id: found.id,
                node_id: found.node_id,
                owner_id: found.owner.id,
                default_branch: found.default_branch,
                parent_id: found.parent.map(|parent| parent.id),
            });
        }
        Err(self.form())
    }

    /// The branches of a pull request.
    ///
    /// # Errors
    /// [`LookUpError`].
    pub async fn pull(&self, repository: &Repository, number: u64) -> Result<RefDetails, LookUpError> {
        let url = format!("{}/repos/{}/pulls/{number}", self.site.rest(), repository.name);
        let pull: Pull = self.success(&self.get(&url, &repository.name).await?)?;
        Ok(RefDetails {
            repository: repository.id,
            name: branch(&pull.base.r#ref),
            head: Some((branch(&pull.head.r#ref), pull.head.repo.map(|repo| repo.id))),
        })
    }

    /// The tag of a release.
    ///
    /// # Errors
    /// [`LookUpError`].
    pub async fn release(&self, repository: &Repository, number: u64) -> Result<RefDetails, LookUpError> {
        let url = format!("{}/repos/{}/releases/{number}", self.site.rest(), repository.name);
        let release: Release = self.success(&self.get(&url, &repository.name).await?)?;
        Ok(RefDetails { repository: repository.id, name: format!("refs/tags/{}", release.tag_name), head: None })
    }

    /// Whether `new` has all that `old` has.
    ///
    /// # Errors
    /// [`LookUpError`].
    pub async fn is_ahead(&self, repository: &Repository, old: &str, new: &str) -> Result<bool, LookUpError> {
        // On later pages are no files.
        let url = format!("{}/repos/{}/compare/{old}...{new}?per_page=1&page=2", self.site.rest(), repository.name);
        let compared: Compared = self.success(&self.get(&url, &repository.name).await?)?;
        Ok(matches!(compared.status.as_str(), "ahead" | "identical"))
    }

    /// What a pull request or a ref with this node id is, by the first token that sees it.
    ///
    /// # Errors
    /// [`LookUpError`], also where it is neither or is not there.
    pub async fn node(&self, id: &str) -> Result<RefDetails, LookUpError> {
        let mut failed = LookUpError::NoCredential;
        for token in &self.tokens {
            match self.node_by(token, id).await {
                Ok(found) => return Ok(found),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn node_by(&self, token: &Kept, id: &str) -> Result<RefDetails, LookUpError> {
        let body = json!({ "query": NODE, "variables": { "id": id } }).to_string().into_bytes();
        let answer = self.graphql(token, body).await?;
        let form = || self.form();
        let node = read::<NodeAnswer>(&answer, self.site.rest())?.data.and_then(|data| data.node).ok_or_else(form)?;
        let repository = node.repository.ok_or_else(form)?.database_id;
        match (node.prefix, node.name, node.base_ref_name, node.head_ref_name) {
            (Some(prefix), Some(name), _, _) => Ok(RefDetails { repository, name: prefix + &name, head: None }),
            (_, _, Some(base), Some(head)) => Ok(RefDetails {
                repository,
                name: branch(&base),
                head: Some((branch(&head), node.head_repository.map(|repository| repository.database_id))),
            }),
            (_, _, _, _) => Err(form()),
        }
    }

    /// The answer to a GraphQL document, with one of the binding's tokens.
    ///
    /// # Errors
    /// [`LookUpError`].
    pub async fn graphql(&self, token: &Kept, body: Vec<u8>) -> Result<Zeroizing<Vec<u8>>, LookUpError> {
        let answer = self.ask(token, Method::POST, self.site.graphql(), body).await?;
        self.check(&answer)?;
        Ok(answer.body)
    }

    async fn get(&self, url: &str, about: &RepoName) -> Result<Answer, LookUpError> {
        let is_for = |token: &&Kept| token.owner.as_deref().is_none_or(|owner| owner == about.owner());
        let token = self.tokens.iter().find(is_for).ok_or(LookUpError::NoCredential)?;
        self.ask(token, Method::GET, url, Vec::new()).await
    }

    /// Asks; once more where the token is refused and another one can be had.
    async fn ask(&self, token: &Kept, method: Method, url: &str, body: Vec<u8>) -> Result<Answer, LookUpError> {
        let url = Endpoint::parse(url).map_err(|_| self.form())?;
        let body = Bytes::from(body);
        let call = || {
            let mut call = Call { method: method.clone(), body: body.clone(), ..Call::get(url.clone()) };
            call.headers.insert(ACCEPT, HeaderValue::from_static("application/vnd.github+json"));
            // GitHub refuses requests without one.
            call.headers.insert(USER_AGENT, HeaderValue::from_static("sandbox-proxy"));
            if call.method == Method::POST {
                call.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            call
        };
        let live = token.keeper.value().await?;
        let answer = self.with_token(call(), &live).await?;
        if answer.status != StatusCode::UNAUTHORIZED || !token.keeper.renewed(&live).await {
            return Ok(answer);
        }
        self.with_token(call(), &*token.keeper.value().await?).await
    }

    async fn with_token(&self, call: Call, live: &Live) -> Result<Answer, LookUpError> {
        let call = call.with_secret(AUTHORIZATION, "Bearer ", live.secret.expose());
        Ok(self.fetch.fetch(call.map_err(LookUpError::Unusable)?).await?)
    }

    fn success<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, LookUpError> {
        self.check(answer)?;
        read(&answer.body, self.site.rest())
    }

    fn check(&self, answer: &Answer) -> Result<(), LookUpError> {
        if answer.status == StatusCode::OK {
            return Ok(());
        }
        let from = self.site.api_authority().clone();
        Err(LookUpError::Status { from, status: answer.status.as_u16() })
    }

    fn form(&self) -> LookUpError {
        LookUpError::Form(self.site.rest().to_owned())
    }
}

fn read<T: DeserializeOwned>(body: &[u8], from: &str) -> Result<T, LookUpError> {
    serde_json::from_slice(body).map_err(|_| LookUpError::Form(from.to_owned()))
}

fn branch(name: &str) -> String {
    format!("refs/heads/{name}")
}
