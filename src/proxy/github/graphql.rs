//! Documents of GraphQL: read whole, judged, and judged again when what they name has been looked up.

use std::io::Read;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};

use crate::credentials::LookUpError;
use crate::policy::github::graphql::{
    self, Answer, Checked, Expect, Learn, RepositoryOf, Resolved, Rules, Types, resolve_query, resolved,
};
use crate::policy::github::scope::{GitHubHost, GitHubOption};
use crate::policy::github::{Code, Credential, Known, NodeOwner, OutOfScope, RepoName};

use super::super::held::Held;
use super::super::refusal::Refusal;
use super::{BODY_MAX, Judge, replace_body};

/// A document that may be sent.
pub(super) struct Covered {
    /// What its answer teaches.
    pub(super) learn: Learn,
    /// Whose repositories it is about, where that matters.
    pub(super) owner: Option<String>,
}

impl Judge<'_> {
    /// Judges a document, and says what its answer teaches and whose token it needs. What goes on is what was judged.
    pub(super) async fn graphql(&self, headers: &mut HeaderMap, body: &mut Held) -> Result<Covered, Refusal> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("application/json");
        if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
            return Err(self.malformed("a document of GraphQL is sent as application/json"));
        }
        let coding = headers.get(CONTENT_ENCODING).cloned();
        self.read(headers, body).await?;
        if let Some(coding) = coding.filter(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            let plain = if coding.as_bytes().eq_ignore_ascii_case(b"gzip") { unzipped(body.beginning()) } else { None };
            let plain =
                plain.ok_or_else(|| self.malformed("its content coding cannot be undone, or it is over 4 MiB"))?;
            replace_body(headers, body, plain);
        }
        let checked = self.checked(body.beginning()).await.map_err(|denial| self.refuse(denial))?;
        for change in &checked.changes {
            let name = self.name_of_repository(&change.repository).map_err(|denial| self.refuse(denial))?;
            match &name {
                Some(name) => self.changes(name, std::slice::from_ref(&change.change)).await?,
                None if self.binding.push().is_none() => {}
                None => return Err(self.malformed("there are push rules: name the repository as owner and name")),
            }
        }
        let owner = self.owner_of(&checked.repositories).map_err(|denial| self.refuse(denial))?;
        Ok(Covered { learn: checked.learn, owner })
    }

    async fn checked(&self, body: &[u8]) -> Result<Checked, OutOfScope> {
        let rules = self.graphql_rules();
        let unknown = match graphql::check(body, &rules, &**self.records)? {
            Answer::Covered(checked) => return Ok(*checked),
            Answer::Unknown(unknown) => unknown,
        };
        self.look_up(&unknown).await?;
        match graphql::check(body, &rules, &**self.records)? {
            Answer::Covered(checked) => Ok(*checked),
            Answer::Unknown(unknown) => {
                let id = unknown.first().map_or("", |(id, _)| id.as_str());
                let what = format!("nobody knows which repository the id {} belongs to", id.escape_debug());
                Err(OutOfScope::new(Code::ForeignObject, what))
            }
        }
    }

    fn graphql_rules(&self) -> Rules {
        let scope = self.binding.scope();
        let has = |option| scope.options.has(option);
        Rules {
            all: scope.all,
            read_only: !scope.write,
            web_host: scope.host.name().to_owned(),
            admin: has(GitHubOption::Admin),
            merge: has(GitHubOption::Merge),
            deploy: has(GitHubOption::Deploy),
            org_read: has(GitHubOption::OrgRead),
            projects: scope.projects.clone(),
        }
    }

    /// Asks GitHub what ids belong to.
    async fn look_up(&self, unknown: &[(String, Expect)]) -> Result<(), OutOfScope> {
        let types = match self.binding.scope().host {
            GitHubHost::Public | GitHubHost::Tenant(_) => Types::All,
            GitHubHost::Server(_) => Types::Old,
        };
        let calls = self.records.calls();
        let mut open: Vec<&str> = unknown.iter().map(|(id, _)| id.as_str()).collect();
        let mut failed = calls.tokens().is_empty().then_some(LookUpError::NoCredential);
        // What one owner's token does not see may be another's.
        for token in calls.tokens() {
            match calls.graphql(token, resolve_query(&open, types)).await {
                Ok(answer) => {
                    let found = resolved(&open, &answer).into_iter();
                    let found: Vec<_> = found.filter_map(|(id, of)| Some((id, self.node_owner(of)?))).collect();
                    open.retain(|id| !found.iter().any(|(known, _)| known == id));
                    self.records.learn_nodes(found);
                }
                Err(error) => failed = Some(error),
            }
            if open.is_empty() {
                return Ok(());
            }
        }
        failed.map_or(Ok(()), |error| Err(error.refusal()))
    }

    /// Whose token is for all of these; none where any is.
    fn owner_of(&self, repositories: &[RepositoryOf]) -> Result<Option<String>, OutOfScope> {
        let credential = self.binding.credential();
        if let Credential::Token(_) = credential {
            return Ok(None);
        }
        let names: Result<Vec<_>, _> = repositories.iter().map(|of| self.name_of_repository(of)).collect();
        Ok(credential.owner_of(names?.iter().flatten())?.map(str::to_owned))
    }

    /// Whom something belongs to that was looked up; none where the credential sees no such thing.
    fn node_owner(&self, resolved: Resolved) -> Option<NodeOwner> {
        Some(match resolved {
            Resolved::Repository { node_id, number } => match (self.records.node(&node_id), number) {
                (Some(owner), _) => owner,
                (None, Some(number)) if self.binding.scope().all => NodeOwner::Repository(number),
                (None, _) => NodeOwner::Foreign,
            },
            Resolved::Account => NodeOwner::Account,
            Resolved::Foreign => NodeOwner::Foreign,
            Resolved::Missing => return None,
        })
    }

    /// The name of a repository; where all are allowed, one that is known by its number alone has none.
    fn name_of_repository(&self, repository: &RepositoryOf) -> Result<Option<RepoName>, OutOfScope> {
        match repository {
            RepositoryOf::Named(name) => Ok(Some(name.clone())),
            RepositoryOf::Id(id) => match self.records.repository_of_id(*id) {
                Some(repository) => Ok(Some(repository.name.clone())),
                None if self.binding.scope().all => Ok(None),
                None => Err(OutOfScope::new(Code::ForeignObject, "this belongs to another repository")),
            },
        }
    }
}

/// What was compressed, where it is no longer than what is read whole.
fn unzipped(bytes: &[u8]) -> Option<Bytes> {
    let mut plain = Vec::new();
    let most = BODY_MAX as u64 + 1;
    GzDecoder::new(bytes).take(most).read_to_end(&mut plain).ok()?;
    (plain.len() <= BODY_MAX).then(|| plain.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    #[test]
    fn what_is_compressed_is_read_to_a_bound() {
        let zipped = |length: usize| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&vec![b'a'; length]).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(unzipped(&zipped(1000)).map(|plain| plain.len()), Some(1000));
        assert_eq!(unzipped(&zipped(BODY_MAX)).map(|plain| plain.len()), Some(BODY_MAX));
        assert_eq!(unzipped(&zipped(BODY_MAX + 1)), None);
        assert_eq!(unzipped(&zipped(1000)[..20]), None);
        assert_eq!(unzipped(b"plain"), None);
    }
}
