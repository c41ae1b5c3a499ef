//! GraphQL: which repositories a document reads and writes, by a walk over a table of the published schema. What the table does not have
//! is refused; every operation, fragment and branch of the document counts, whichever of them would run.

mod answer;
mod contexts;
mod document;
mod mutations;
mod names;
mod refs;
mod roots;
mod table;
mod values;
mod walk;
mod words;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::denial::{Code, OutOfScope};
use super::json::Json;
use super::known::Known;
use super::name::RepoName;
use super::push::RefChange;
use document::{Document, Kind};
use words::{malformed, quoted};

pub use answer::{Learn, Learned, Resolved, Types, resolve_query, resolved};
pub use document::LENGTH;

/// How many ids a document may name that nobody knows yet: one look-up asks for them all.
pub const UNKNOWN_NODES: usize = 50;

/// What a binding allows of GraphQL, next to its repositories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// It is for every repository that the credential reaches.
    pub all: bool,
    /// It refuses every mutation.
    pub read_only: bool,
    /// The host of the web pages, in lower case, such as `github.com`: what `resource(url:)` may name.
    pub web_host: String,
    /// Issues may be deleted.
    pub admin: bool,
    /// Pull requests may be merged.
    pub merge: bool,
    /// Deployments may be made.
    pub deploy: bool,
    /// Teams of an organization are shown.
    pub org_read: bool,
    /// Node ids of the projects whose items may be changed.
    pub projects: Vec<String>,
}

/// A repository that a document means, as it says so.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RepositoryOf {
    /// By its name.
    Named(RepoName),
    /// By an id of something in it; this is the repository's number.
    Id(u64),
}

/// What an unknown id has to be for the document to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Something of one of the binding's repositories.
    Repository,
    /// An account.
    Account,
    /// One of the two.
    Either,
}

/// A change of a ref, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoChange {
    /// The repository that the ref is in.
    pub repository: RepositoryOf,
    /// The change, which is to be judged by the push rules.
    pub change: RefChange,
}

/// A document that the binding covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Every repository that it means, each once for each way of saying it. One credential has to serve them all.
    pub repositories: Vec<RepositoryOf>,
    /// The changes of refs it asks for. They are not judged here.
    pub changes: Vec<RepoChange>,
    /// How to learn ids from the answer.
    pub learn: Learn,
    /// Whether it changes anything.
    pub mutation: bool,
}

/// What comes of a document that is not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It may be sent.
    Covered(Box<Checked>),
    /// It may not be sent yet: these ids have to be looked up ([`resolve_query`]), and the document checked again. What is still unknown
    /// then is to be refused.
    Unknown(Vec<(String, Expect)>),
}

/// Judges the decoded body of a request to `/graphql`.
///
/// # Errors
/// What is not covered, with the reason as one line. Everything that cannot be read in one way only, that is above the bounds
/// (github-scope.md 4.1), or that the table does not know, is not covered.
pub fn check(body: &[u8], rules: &Rules, known: &dyn Known) -> Result<Answer, OutOfScope> {
    let json = Json::read(body).map_err(|error| malformed(error.to_string()))?;
    let request = Request::of(&json)?;
    let document = Document::parse(request.query)?;
    let chosen = |name: &str| document.operations.iter().any(|operation| operation.name == Some(name));
    match request.operation {
        Some(name) if !chosen(name) => return Err(malformed(format!("the query has no operation `{}`", quoted(name)))),
        None if document.operations.len() > 1 => {
            return Err(malformed("of several operations, `operationName` has to name one"));
        }
        Some(_) | None => {}
    }
    let mutation = document.operations.iter().any(|operation| operation.kind == Kind::Mutation);
    if mutation && rules.read_only {
        return Err(OutOfScope::new(Code::ReadOnly, "nothing may be changed here: mutations are refused"));
    }
    walk::walk(&document, request.variables, rules, known)
}

/// The parts of the body.
struct Request<'d> {
    query: &'d str,
    variables: &'d [(Cow<'d, str>, Json<'d>)],
    operation: Option<&'d str>,
}

impl<'d> Request<'d> {
    fn of(json: &'d Json<'d>) -> Result<Self, OutOfScope> {
        let entries =
            json.entries().ok_or_else(|| malformed("a GraphQL request is one JSON object; batches are not served"))?;
        let (mut query, mut variables, mut operation) = (None, &[][..], None);
        for (key, value) in entries {
            match (key.as_ref(), value) {
                ("query", Json::Text(text)) => query = Some(text.as_ref()),
                ("variables", Json::Object(entries)) => variables = entries,
                ("operationName", Json::Text(name)) => operation = Some(name.as_ref()),
                ("variables" | "operationName", Json::Null) => {}
                ("query" | "variables" | "operationName", _) => {
                    return Err(malformed(format!("`{}` of the GraphQL request has the wrong type", quoted(key))));
                }
                _ => return Err(malformed(format!("a GraphQL request with `{}` is not served", quoted(key)))),
            }
        }
        let query =
            query.ok_or_else(|| malformed("the GraphQL request has no `query`; persisted queries are not served"))?;
        Ok(Self { query, variables, operation })
    }
}
