//! The issuers of a policy's secrets, put together: some need a value of another one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{Method, StatusCode};

use crate::policy::HttpSource;
use crate::types::Secret;

use super::fetch::{Answer, Call, Fetch};
use super::issue::{IssueError, Issued, Issuer, Issuing, Reading};
use super::source::{Clock, Source, SourceContext, SourceIssuer};

/// Where the values of one secret come from, opened.
pub enum Supply {
    /// Read on this host.
    Read(Arc<Source>),
    /// Asked for.
    Http(HttpSource),
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
    let mut maker = Maker { supplies, made: HashMap::new(), context, fetch };
    let made = names.into_iter().filter_map(|name| Some((name.to_owned(), maker.make(name)?)));
    made.collect()
}

struct Maker<'a> {
    /// Those that no issuer was made of yet.
    supplies: HashMap<&'a str, &'a Supply>,
    made: HashMap<&'a str, Arc<dyn Issuer>>,
    context: &'a SourceContext,
    fetch: &'a Arc<dyn Fetch>,
}

impl<'a> Maker<'a> {
    fn make(&mut self, name: &'a str) -> Option<Arc<dyn Issuer>> {
        if let Some(made) = self.made.get(name) {
            return Some(Arc::clone(made));
        }
        let issuer: Arc<dyn Issuer> = match self.supplies.remove(name)? {
            Supply::Read(source) => Arc::new(SourceIssuer::new(name, Arc::clone(source), self.context.clone())),
            Supply::Http(source) => Arc::new(HttpIssuer {
                bearer: self.need(source.bearer.as_deref())?,
                source: source.clone(),
                asking: self.asking(name),
            }),
        };
        self.made.insert(name, Arc::clone(&issuer));
        Some(issuer)
    }

    /// `Some(None)` where nothing is needed.
    fn need(&mut self, name: Option<&'a str>) -> Option<Option<Needed>> {
        let Some(name) = name else { return Some(None) };
        Some(Some(Needed { issuer: self.make(name)?, name: name.to_owned() }))
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
    pub(super) async fn get(&self) -> Result<Secret, IssueError> {
        match self.issuer.issue().await {
            Ok(issued) => Ok(issued.secret),
            Err(error) => Err(IssueError::Needed { secret: self.name.clone(), error: Box::new(error) }),
        }
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
        let Answer { status, body } = self.asking.fetch.fetch(call).await?;
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
mod tests;
