//! Which refs a mutation changes: the doors of GraphQL to what the push rules guard (github-scope.md 2.7).

use super::super::denial::OutOfScope;
use super::super::name::RepoName;
use super::super::push::{Change, Forced, RefChange, RefTarget};
use super::mutations::required;
use super::values::Input;
use super::walk::Walk;
use super::words::{malformed, quoted};
use super::{RepoChange, RepositoryOf};

impl Walk<'_> {
    /// Adds what this mutation changes. Its input has been checked.
    pub(super) fn changes_of(&mut self, mutation: &str, input: &Input<'_>) -> Result<(), OutOfScope> {
        let update = Change::Update(Forced::No);
        match mutation {
            "createRef" => {
                let target = RefTarget::Named(full(required(input, "name")?)?);
                self.changed(required(input, "repositoryId")?, target, Change::Create);
            }
            "updateRef" => {
                let change = Change::Update(forced(input)?);
                let id = required(input, "refId")?;
                self.changed(id, RefTarget::RefNode(id.to_owned()), change);
            }
            "deleteRef" => {
                let id = required(input, "refId")?;
                self.changed(id, RefTarget::RefNode(id.to_owned()), Change::Delete);
            }
            "updateRefs" => self.several(input)?,
            "createCommitOnBranch" => self.commit(input)?,
            "mergeBranch" => {
                let target = RefTarget::Named(branch(required(input, "base")?)?);
                self.changed(required(input, "repositoryId")?, target, update);
            }
            "mergePullRequest" | "enqueuePullRequest" | "enablePullRequestAutoMerge" => {
                let id = required(input, "pullRequestId")?;
                self.changed(id, RefTarget::PullBaseNode(id.to_owned()), update);
            }
            "updatePullRequestBranch" => {
                let id = required(input, "pullRequestId")?;
                let rebase = !matches!(input.get("updateMethod").map(Input::word), None | Some(Some("MERGE")));
                let change = Change::Update(if rebase { Forced::Yes } else { Forced::No });
                self.changed(id, RefTarget::PullHeadNode(id.to_owned()), change);
            }
            // A merge that was permitted for the old base, or is to come by itself, would go into the new one.
            "updatePullRequest" if !matches!(input.get("baseRefName"), None | Some(Input::Null)) => {
                let target = RefTarget::Named(branch(required(input, "baseRefName")?)?);
                self.changed(required(input, "pullRequestId")?, target, update);
            }
            // GitHub names the branch `revert-NUMBER-BRANCH`.
            "revertPullRequest" => {
                let target = RefTarget::Named("refs/heads/revert-".to_owned());
                self.changed(required(input, "pullRequestId")?, target, Change::Create);
            }
            "createLinkedBranch" => {
                let target = RefTarget::Named(branch(required(input, "name")?)?);
                let id = if input.get("repositoryId").is_some() { "repositoryId" } else { "issueId" };
                self.changed(required(input, id)?, target, Change::Create);
            }
            // Unless told not to, it merges the default branch into the ref.
            "createDeployment" if input.get("autoMerge") != Some(&Input::Bool(false)) => {
                let id = required(input, "refId")?;
                self.changed(id, RefTarget::RefNode(id.to_owned()), update);
            }
            _ => {}
        }
        Ok(())
    }

    /// A change in the repository that this id belongs to. Where that is not known yet, the document is checked again.
    fn changed(&mut self, id: &str, target: RefTarget, change: Change) {
        if let Some(repository) = self.repository_of(id) {
            self.changes.push(RepoChange { repository, change: RefChange { target, change } });
        }
    }

    fn several(&mut self, input: &Input<'_>) -> Result<(), OutOfScope> {
        let id = required(input, "repositoryId")?;
        for one in input.get("refUpdates").map(Input::items).unwrap_or_default() {
            let name = full(required(one, "name")?)?;
            let changes = match (is_zero(one, "afterOid")?, is_zero(one, "beforeOid")?, forced(one)?) {
                (true, ..) => vec![Change::Delete],
                (false, true, _) => vec![Change::Create],
                (false, false, Forced::No) => vec![Change::Put],
                // A ref that is not there is made, so both have to be allowed.
                (false, false, Forced::Yes | Forced::Unknown) => vec![Change::Create, Change::Update(Forced::Yes)],
            };
            for change in changes {
                self.changed(id, RefTarget::Named(name.clone()), change);
            }
        }
        Ok(())
    }

    fn commit(&mut self, input: &Input<'_>) -> Result<(), OutOfScope> {
        let update = Change::Update(Forced::No);
        let place = input.get("branch").ok_or_else(|| malformed("the input needs `branch`"))?;
        let named = (place.get("repositoryNameWithOwner"), place.get("branchName"));
        match (place.get("id"), named) {
            (Some(_), (None, None)) => {
                let id = required(place, "id")?;
                self.changed(id, RefTarget::RefNode(id.to_owned()), update);
            }
            (None, (Some(_), Some(_))) => {
                let name = RepoName::parse(required(place, "repositoryNameWithOwner")?);
                let name = name.map_err(|error| malformed(format!("`repositoryNameWithOwner`: {error}")))?;
                let target = RefTarget::Named(branch(required(place, "branchName")?)?);
                let repository = RepositoryOf::Named(name);
                self.changes.push(RepoChange { repository, change: RefChange { target, change: update } });
            }
            _ => return Err(malformed("`branch` takes `id`, or else `repositoryNameWithOwner` and `branchName`")),
        }
        Ok(())
    }
}

/// Whether the id of a commit is that which stands for none; it is not where there is no id.
fn is_zero(input: &Input<'_>, key: &str) -> Result<bool, OutOfScope> {
    let oid = match input.get(key) {
        None | Some(Input::Null) => return Ok(false),
        Some(oid) => oid.text().unwrap_or_default(),
    };
    if !matches!(oid.len(), 40 | 64) || !oid.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(malformed(format!("`{key}` is not the id of a commit, of 40 or 64 hexadecimal digits")));
    }
    Ok(oid.bytes().all(|byte| byte == b'0'))
}

fn forced(input: &Input<'_>) -> Result<Forced, OutOfScope> {
    match input.get("force") {
        None | Some(Input::Bool(false)) => Ok(Forced::No),
        Some(Input::Bool(true)) => Ok(Forced::Yes),
        Some(_) => Err(malformed("`force` is true or false")),
    }
}

/// A ref's full name.
fn full(name: &str) -> Result<String, OutOfScope> {
    let good = name.starts_with("refs/") && plain(name);
    good.then(|| name.to_owned())
        .ok_or_else(|| malformed(format!("`{}` is no full name of a ref, such as refs/heads/main", quoted(name))))
}

/// The full name of the ref of a branch. One that begins with `refs/` could be taken for either.
fn branch(name: &str) -> Result<String, OutOfScope> {
    let good = !name.is_empty() && !name.starts_with("refs/") && !name.starts_with("heads/") && plain(name);
    good.then(|| format!("refs/heads/{name}"))
        .ok_or_else(|| malformed(format!("`{}` is no name of a branch", quoted(name))))
}

/// What git takes in a name of a ref, roughly: nothing that could be read as another name.
fn plain(name: &str) -> bool {
    let odd = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    name.len() <= 1024 && !name.contains(odd) && !name.contains("..") && !name.contains("//") && !name.contains("@{")
}
