//! Where a request to a host of the binding goes, and what has to be done about it.

use std::fmt;
use std::sync::Arc;

use super::body::BodyCheck;
use super::denial::{Code, OutOfScope};
use super::hosts::{CredentialForm, HostClass, class_of};
use super::known::{Known, Repository};
use super::local::LocalAnswer;
use super::name::RepoName;
use super::scope::{GitHubHost, Scope};
use super::target::{Target, malformed};
use super::{rest, web};

/// The head of a request, as the sandbox sent it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The host, which is that of SNI and `Host`, too; lower case, without a port.
    pub host: &'a str,
    /// The method, in capitals.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// `Content-Type`, where there is one.
    pub content_type: Option<&'a str>,
    /// Whether a body follows; one of unknown length counts as one.
    pub body: bool,
}

/// What becomes of an allowed request.
#[derive(Clone, Debug)]
pub struct Route {
    /// The repository that it is about; none for what belongs to no repository.
    pub repository: Option<Subject>,
    /// Further repositories whose content the answer may hold: those that a search names.
    pub named: Vec<RepoName>,
    /// Whether it is that repository's wiki.
    pub wiki: bool,
    /// What has to be done before, or instead of, forwarding it.
    pub action: Action,
    /// The row of the tables.
    pub family: &'static str,
    /// The form in which the credential goes along.
    pub credential: CredentialForm,
    /// What has to be done with the answer.
    pub answer: Answer,
}

/// A repository that a request may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One whose record is known.
    Pinned(Arc<Repository>),
    /// Any, by its name: only where the binding is for all.
    Name(RepoName),
    /// Any, by its number: only where the binding is for all.
    Id(u64),
}

/// What has to be done with a request.
#[derive(Clone, Debug)]
pub enum Action {
    /// It is forwarded.
    Forward,
    /// Its body is read, decoded and checked first; where it has none, the check gets no bytes.
    Body(BodyCheck),
    /// It is git's smart protocol.
    Git(Git),
    /// Its body is a document of GraphQL.
    Graphql,
    /// Its body is a request of LFS, for [`lfs_batch`](super::body::lfs_batch).
    LfsBatch,
    /// It is forwarded where an answer has named exactly this URL.
    Capability,
    /// It is answered here.
    Local(LocalAnswer),
}

/// The requests of git's smart protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Git {
    /// What a fetch may have.
    AdvertiseFetch,
    /// What a push may change.
    AdvertisePush,
    /// A fetch.
    Fetch,
    /// A push; its commands are under the push rules.
    Push,
}

/// What has to be done with an answer. A redirect to a host that gets no credential makes a capability, whatever stands here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    Plain,
    /// It names URLs of storage.
    LfsBatch,
    /// JSON, whose ids are learned: those of objects whose own `url` is below the repository.
    Learn,
    /// JSON in which objects of other repositories may stand: they are cut down to number and repository. Nothing is learned.
    Reduce,
}

/// Whether a request is in the scope of the binding, and what becomes of it. Looks nothing up and reads no body.
///
/// # Errors
/// [`OutOfScope`]; what no row of the tables names is refused.
pub fn judge(scope: &Scope, known: &dyn Known, request: &Request<'_>) -> Result<Route, OutOfScope> {
    let closed =
        || OutOfScope::new(Code::NotAllowed, format!("{} is not reached from this sandbox", Shown(request.host)));
    let class = class_of(scope, request.host).ok_or_else(closed)?;
    let by: fn(&Asked<'_>) -> Result<Route, OutOfScope> = match class {
        HostClass::Web => on_web,
        HostClass::Api => |asked| asked.api(0),
        HostClass::Uploads => |asked| rest::upload(asked, 0),
        HostClass::Raw => |asked| web::raw(asked, 0),
        HostClass::Codeload => web::codeload,
        HostClass::Media => web::media,
        HostClass::Maven => web::maven,
        // What an answer has named is compared whole, so it need not be taken apart.
        HostClass::Storage => return Target::legal(request.target).map(|()| web::capability("storage")),
        HostClass::Closed => return Err(closed()),
    };
    by(&Asked { scope, known, request, target: &Target::parse(request.target)? })
}

/// The host of a server or a tenant carries the APIs, too.
fn on_web(asked: &Asked<'_>) -> Result<Route, OutOfScope> {
    let segments = asked.target.segments();
    match (&asked.scope.host, segments) {
        (GitHubHost::Server(_) | GitHubHost::Tenant(_), ["api", "v3", ..]) => asked.api(2),
        (GitHubHost::Server(_) | GitHubHost::Tenant(_), ["api", "graphql"]) => asked.graphql(),
        (GitHubHost::Server(_) | GitHubHost::Tenant(_), ["api", "uploads", ..]) => rest::upload(asked, 2),
        (GitHubHost::Server(_), ["raw", ..]) => web::raw(asked, 1),
        (GitHubHost::Server(_), ["codeload" | "_codeload" | "media" | "storage", ..]) => Ok(web::capability("storage")),
        _ => web::route(asked),
    }
}

/// A request with all that judges it.
pub(super) struct Asked<'a> {
    pub scope: &'a Scope,
    pub known: &'a dyn Known,
    pub request: &'a Request<'a>,
    pub target: &'a Target<'a>,
}

impl Asked<'_> {
    /// An API whose paths begin after this many segments.
    fn api(&self, skip: usize) -> Result<Route, OutOfScope> {
        match &self.target.segments()[skip..] {
            ["graphql"] if skip == 0 => self.graphql(),
            _ => rest::route(self, skip),
        }
    }

    fn graphql(&self) -> Result<Route, OutOfScope> {
        if self.request.method != "POST" {
            return Err(OutOfScope::new(Code::NotAllowed, "GraphQL is asked by POST here"));
        }
        if self.target.slash || !self.target.query.0.is_empty() {
            return Err(malformed("the URL of GraphQL has nothing after its path"));
        }
        Ok(Route {
            repository: None,
            named: Vec::new(),
            wiki: false,
            action: Action::Graphql,
            family: "/graphql",
            credential: CredentialForm::Bearer,
            answer: Answer::Plain,
        })
    }

    /// Whether it reads.
    pub fn reads(&self) -> bool {
        matches!(self.request.method, "GET" | "HEAD")
    }

    pub fn read_only(&self) -> OutOfScope {
        OutOfScope::new(Code::ReadOnly, "this sandbox may read its repositories and not write to them")
    }
}

impl Route {
    /// The names of the repositories that it is about, where they are known.
    pub fn names(&self) -> impl Iterator<Item = &RepoName> {
        self.repository.as_ref().and_then(Subject::name).into_iter().chain(&self.named)
    }
}

impl Subject {
    /// Its owner and name, where they are known.
    pub fn name(&self) -> Option<&RepoName> {
        match self {
            Self::Pinned(repository) => Some(&repository.name),
            Self::Name(name) => Some(name),
            Self::Id(_) => None,
        }
    }
}

/// A text of the sandbox in a message: no more than a line.
pub(super) struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars().take(120) {
            fmt::Write::write_char(f, if char.is_control() { '?' } else { char })?;
        }
        if self.0.chars().nth(120).is_some() { f.write_str("…") } else { Ok(()) }
    }
}
