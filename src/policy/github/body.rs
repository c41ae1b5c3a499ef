//! What the body of a request to REST or LFS asks for.

mod fields;
mod refs;

use super::denial::{Code, OutOfScope};
use super::git::lfs;
use super::json::Json;
use super::known::Known;
use super::push::{Change, Forced, RefChange, RefTarget};
use super::rest::row::Door;
use super::route::{Shown, Subject};
use super::scope::{GitHubOption, Scope};
use super::target::{self, malformed, member, number, overrides_method, repo_name};

use fields::{Fields, read};

/// The longest body that is read for a check, in bytes.
pub const MAX_BODY: usize = 4 * 1024 * 1024;

/// What has to be true of a body before it is forwarded.
#[derive(Clone, Debug)]
pub struct BodyCheck {
    what: What,
    /// Whether GitHub may read it as a form.
    form: bool,
    repository: Option<Subject>,
    all: bool,
}

#[derive(Clone, Debug)]
enum What {
    /// That it is JSON.
    Json,
    Context,
    Settings,
    Issue,
    /// With the issue's id that the path names.
    IssueIds(Option<u64>),
    Head,
    RefCreate,
    RefUpdate(String),
    RefDelete(String),
    /// A commit on the branch that this key names; without it on the default branch.
    CommitOn(&'static str, Absent),
    /// A move that the path alone names.
    Move(RefTarget),
    Rename(String),
    /// Another branch that a pull request is to go into, where one is named.
    NewBase,
    MergeUpstream,
    ReleaseCreate,
    ReleaseUpdate(u64),
    Deployment,
}

#[derive(Clone, Copy, Debug)]
enum Absent {
    DefaultBranch,
    Refused,
}

impl BodyCheck {
    /// The check of a body that has to be none that changes the method, and nothing else.
    pub(super) fn form(repository: Option<Subject>, all: bool) -> Self {
        Self { what: What::Json, form: true, repository, all }
    }

    /// Whether GitHub may read the body as a form, where it is not told that it is JSON.
    pub fn may_be_form(&self) -> bool {
        self.form
    }

    /// Says whether GitHub may read the body as a form.
    pub(super) fn read_as_form(self, form: bool) -> Self {
        Self { form, ..self }
    }

    /// The check of a row; `segments` are those of the path below the repository.
    pub(super) fn new(
        door: Door,
        segments: &[&str],
        repository: Option<Subject>,
        all: bool,
    ) -> Result<Self, OutOfScope> {
        let numbered = || segments.get(1).and_then(|id| number(id)).ok_or_else(|| malformed("the path has no number"));
        let joined = |range: &[&str]| target::text(&range.join("/"));
        let named = || refs::full(format!("refs/{}", joined(segments.get(2..).unwrap_or_default())?));
        let what = match door {
            Door::Context => What::Context,
            Door::Settings => What::Settings,
            Door::Issue => What::Issue,
            Door::IssueIds => What::IssueIds(match segments {
                [.., "blocked_by", id] => Some(number(id).ok_or_else(|| malformed("the path has no number"))?),
                _ => None,
            }),
            Door::Head => What::Head,
            Door::RefCreate => What::RefCreate,
            Door::RefUpdate => What::RefUpdate(named()?),
            Door::RefDelete => What::RefDelete(named()?),
            Door::Contents => What::CommitOn("branch", Absent::DefaultBranch),
            Door::Merges => What::CommitOn("base", Absent::Refused),
            Door::Autofix => What::CommitOn("target_ref", Absent::Refused),
            Door::PullMerge => What::Move(RefTarget::PullBase(numbered()?)),
            Door::PullEdit => What::NewBase,
            Door::PullUpdate => What::Move(RefTarget::PullHead(numbered()?)),
            Door::BranchRename => {
                let middle = segments.get(1..segments.len().saturating_sub(1)).unwrap_or_default();
                What::Rename(refs::branch(&joined(middle)?)?)
            }
            Door::MergeUpstream => What::MergeUpstream,
            Door::ReleaseCreate => What::ReleaseCreate,
            Door::ReleaseUpdate => What::ReleaseUpdate(numbered()?),
            Door::Deployment => What::Deployment,
        };
        Ok(Self { what, form: false, repository, all })
    }

    /// Checks a body: the bytes as they are forwarded, which no content encoding covers; none where the request has no body. The changes
    /// of refs that it asks for are still to be held against the push rules.
    ///
    /// # Errors
    /// [`OutOfScope`], also for a body above [`MAX_BODY`] bytes and for JSON that can be read in two ways.
    pub fn check(&self, body: &[u8], known: &dyn Known) -> Result<Vec<RefChange>, OutOfScope> {
        if self.form {
            let text = std::str::from_utf8(body).map_err(|_| malformed("the body is not UTF-8"))?;
            if overrides_method(text) {
                return Err(malformed("the body has `_method` as a form would have it: send it as application/json"));
            }
        }
        let json = read(body)?;
        let fields = match (&json, &self.what) {
            (Json::Object(fields), _) => Fields(fields),
            (Json::List(_), What::Json) => return Ok(Vec::new()),
            (Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::List(_), _) => {
                return Err(malformed("the body is no JSON object"));
            }
        };
        match &self.what {
            What::Json => Ok(Vec::new()),
            What::Context => self.context(fields, known).map(|()| Vec::new()),
            What::Settings => settings(fields).map(|()| Vec::new()),
            What::Issue => self.issue(fields, known).map(|()| Vec::new()),
            What::IssueIds(id) => self.issue_ids(*id, fields, known).map(|()| Vec::new()),
            What::Head => self.head(fields, known).map(|()| Vec::new()),
            What::RefCreate => Ok(vec![named(refs::full(fields.needed("ref")?.to_owned())?, Change::Create)]),
            What::RefUpdate(name) => {
                let forced = if fields.flag("force")?.unwrap_or(false) { Forced::Yes } else { Forced::No };
                Ok(vec![named(name.clone(), Change::Update(forced))])
            }
            What::RefDelete(name) => Ok(vec![named(name.clone(), Change::Delete)]),
            What::CommitOn(key, absent) => commit_on(fields, key, *absent),
            What::Move(target) => Ok(vec![RefChange { target: target.clone(), change: MOVES }]),
            What::Rename(old) => {
                let new = refs::branch(fields.needed("new_name")?)?;
                Ok(vec![named(old.clone(), Change::Delete), named(new, Change::Create)])
            }
            // A merge that was permitted for the old base, or is to come by itself, would go into the new one.
            What::NewBase => match fields.text("base")? {
                Some(base) => Ok(vec![named(refs::branch(base)?, MOVES)]),
                None => Ok(Vec::new()),
            },
            What::MergeUpstream => self.merge_upstream(fields, known),
            What::ReleaseCreate => Ok(vec![named(refs::tag(fields.needed("tag_name")?)?, Change::Create)]),
            What::ReleaseUpdate(id) => release_update(fields, *id),
            What::Deployment => deployment(fields),
        }
    }

    fn member(&self, owner: &str, name: &str, known: &dyn Known) -> Result<(), OutOfScope> {
        member(repo_name(owner, name)?, known, self.all).map(|_| ())
    }

    /// The repository in which mentions of a text are looked up.
    fn context(&self, fields: Fields<'_>, known: &dyn Known) -> Result<(), OutOfScope> {
        match fields.text("context")? {
            None | Some("") => Ok(()),
            Some(context) => {
                let parts = context.split_once('/').filter(|(_, name)| !name.contains('/'));
                let (owner, name) = parts.ok_or_else(|| malformed("`context` is not OWNER/NAME"))?;
                self.member(owner, name, known)
            }
        }
    }

    fn issue(&self, fields: Fields<'_>, known: &dyn Known) -> Result<(), OutOfScope> {
        for (key, value) in fields.0 {
            if key.contains("issue_id") || key.contains("issue_url") {
                self.issue_id(key, value, known)?;
            }
        }
        Ok(())
    }

    fn issue_ids(&self, path: Option<u64>, fields: Fields<'_>, known: &dyn Known) -> Result<(), OutOfScope> {
        if let Some(id) = path {
            self.issue_id("the path", &Json::Number(id.into()), known)?;
        }
        for (key, value) in fields.0 {
            match key.as_ref() {
                "replace_parent" => {}
                "sub_issue_id" | "issue_id" | "after_id" | "before_id" => self.issue_id(key, value, known)?,
                _ => return Err(malformed(format!("`{}` is not a parameter of this request", Shown(key)))),
            }
        }
        Ok(())
    }

    fn issue_id(&self, key: &str, value: &Json<'_>, known: &dyn Known) -> Result<(), OutOfScope> {
        match (value, value.whole()) {
            (Json::Null, _) => Ok(()),
            (_, Some(_)) if self.all => Ok(()),
            (_, Some(id)) if known.issue_id(id) => Ok(()),
            (_, Some(id)) => {
                let message = format!(
                    "the issue with the id {id} is not known to be one of this sandbox's repositories: read it first"
                );
                Err(OutOfScope::new(Code::ForeignObject, message))
            }
            (_, None) => Err(malformed(format!("`{}` is not the number of an issue", Shown(key)))),
        }
    }

    /// The branch that a new pull request comes from.
    fn head(&self, fields: Fields<'_>, known: &dyn Known) -> Result<(), OutOfScope> {
        if self.all {
            return Ok(());
        }
        let own = self.repository.as_ref().and_then(Subject::name);
        let own =
            own.ok_or_else(|| OutOfScope::new(Code::Unresolved, "the repository of the pull request has no name"))?;
        let parts: Vec<&str> = fields.needed("head")?.split(':').collect();
        let owner = match parts[..] {
            [_] => own.owner(),
            [owner, _] => owner,
            [owner, name, _] => {
                self.member(owner, name, known)?;
                owner
            }
            _ => return Err(malformed("`head` is not BRANCH or OWNER:BRANCH")),
        };
        match fields.text("head_repo")? {
            Some(name) => {
                let (owner, name) = name.split_once('/').unwrap_or((owner, name));
                self.member(owner, name, known)
            }
            None if parts.len() == 3 || owner.eq_ignore_ascii_case(own.owner()) => Ok(()),
            None => {
                let message = format!("this sandbox may not use the repository that {} names", Shown(&parts.join(":")));
                Err(OutOfScope::new(Code::RepoNotAllowed, message))
            }
        }
    }

    /// Takes the commits of the repository that this one is a fork of.
    fn merge_upstream(&self, fields: Fields<'_>, known: &dyn Known) -> Result<Vec<RefChange>, OutOfScope> {
        let allowed = match &self.repository {
            _ if self.all => true,
            Some(Subject::Pinned(repository)) => {
                repository.parent_id.is_some_and(|id| known.repository_of_id(id).is_some())
            }
            Some(Subject::Name(_) | Subject::Id(_)) | None => false,
        };
        if !allowed {
            let message = "this sandbox may not use the repository that this one is a fork of";
            return Err(OutOfScope::new(Code::RepoNotAllowed, message));
        }
        commit_on(fields, "branch", Absent::Refused)
    }
}

/// Commits are added, and none is dropped.
const MOVES: Change = Change::Update(Forced::No);

fn named(name: String, change: Change) -> RefChange {
    RefChange { target: RefTarget::Named(name), change }
}

fn commit_on(fields: Fields<'_>, key: &str, absent: Absent) -> Result<Vec<RefChange>, OutOfScope> {
    let target = match (fields.text(key)?, absent) {
        (Some(name), Absent::DefaultBranch | Absent::Refused) => RefTarget::Named(refs::branch(name)?),
        (None, Absent::DefaultBranch) => RefTarget::DefaultBranch,
        (None, Absent::Refused) => return Err(malformed(format!("the body has no `{key}`"))),
    };
    Ok(vec![RefChange { target, change: MOVES }])
}

/// A release makes its tag when it is published, where the tag is not there yet.
fn release_update(fields: Fields<'_>, id: u64) -> Result<Vec<RefChange>, OutOfScope> {
    if let Some(name) = fields.text("tag_name")? {
        return Ok(vec![named(refs::tag(name)?, Change::Create)]);
    }
    let publishes = fields.flag("draft")? == Some(false);
    let change = RefChange { target: RefTarget::ReleaseTag(id), change: Change::Create };
    Ok(if publishes { vec![change] } else { Vec::new() })
}

/// A deployment of a branch merges the default branch into it first, unless it is told not to.
fn deployment(fields: Fields<'_>) -> Result<Vec<RefChange>, OutOfScope> {
    let name = fields.needed("ref")?;
    let commit = matches!(name.len(), 40 | 64) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if commit || fields.flag("auto_merge")? == Some(false) {
        return Ok(Vec::new());
    }
    Ok(vec![named(refs::branch(name)?, MOVES)])
}

fn settings(fields: Fields<'_>) -> Result<(), OutOfScope> {
    match fields.0.iter().map(|(key, _)| key).find(|key| !SETTINGS.contains(&key.as_ref())) {
        None => Ok(()),
        Some(key) => Err(OutOfScope::new(
            Code::NotAllowed,
            format!("the setting `{}` of a repository is not changed from here", Shown(key)),
        )),
    }
}

const SETTINGS: [&str; 18] = [
    "description",
    "homepage",
    "has_issues",
    "has_projects",
    "has_wiki",
    "has_discussions",
    "has_downloads",
    "allow_squash_merge",
    "allow_merge_commit",
    "allow_rebase_merge",
    "allow_auto_merge",
    "allow_update_branch",
    "delete_branch_on_merge",
    "use_squash_pr_title_as_default",
    "squash_merge_commit_title",
    "squash_merge_commit_message",
    "merge_commit_title",
    "merge_commit_message",
];

/// Judges the body of a batch request of LFS; `wiki` is the route's.
///
/// # Errors
/// [`OutOfScope`]: no such request, or a write that the binding does not allow.
pub fn lfs_batch(scope: &Scope, wiki: bool, body: &[u8]) -> Result<(), OutOfScope> {
    match lfs::request(body)? {
        lfs::Operation::Download => Ok(()),
        lfs::Operation::Upload if !scope.write => {
            Err(OutOfScope::new(Code::ReadOnly, "this sandbox may read its repositories and not write to them"))
        }
        lfs::Operation::Upload if wiki && !scope.options.has(GitHubOption::Wiki) => {
            Err(OutOfScope::new(Code::OptionOff, "this sandbox may not push to wikis"))
        }
        lfs::Operation::Upload => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_read_within_its_bounds() {
        assert!(read(&vec![b' '; MAX_BODY + 1]).is_err());
        let quoted = read(format!("\"{}\" x", "a".repeat(100_000)).as_bytes()).unwrap_err();
        assert!(quoted.message.len() < 300, "{}", quoted.message.len());
        assert_eq!(read(b"").unwrap(), Json::Object(Vec::new()));
        let any = BodyCheck::form(None, false).read_as_form(false);
        let allowed = |body: &[u8]| any.check(body, &super::super::known::Listed::default()).is_ok();
        assert!(allowed(b"[1]") && allowed(b"{}") && allowed(b""));
        for body in ["7", " ", "a=b", "\"a\"", "null"] {
            assert!(!allowed(body.as_bytes()), "{body}");
        }
    }

    #[test]
    fn fields_are_those_of_the_outermost_object() {
        let json = read(br#"{"a":"x","b":1,"c":true,"d":null,"e":{"a":2},"f":-1,"g":1.0}"#).unwrap();
        let fields = Fields(json.entries().unwrap());
        assert_eq!((fields.text("a"), fields.text("d"), fields.text("none")), (Ok(Some("x")), Ok(None), Ok(None)));
        assert_eq!((fields.flag("c"), fields.flag("d")), (Ok(Some(true)), Ok(None)));
        assert!(["b", "c", "e", "f"].iter().all(|key| fields.text(key).is_err()));
        assert!(["a", "b", "e"].iter().all(|key| fields.flag(key).is_err()));
        assert_eq!(["b", "f", "g"].map(|key| fields.get(key).and_then(Json::whole)), [Some(1), None, None]);
    }
}
