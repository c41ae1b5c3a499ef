//! Changes of refs: by git, whose commands are read before anything of a push is forwarded, and by the APIs.

use std::fs::File;
use std::io::Seek;
use std::sync::Arc;

use http::header::{CONTENT_ENCODING, EXPECT, HeaderMap};

use crate::policy::github::git::history::{Ancestry, History, PACK_MAX};
use crate::policy::github::git::receive::{Command, Commands, ReceiveRequest, Rest};
use crate::policy::github::git::report;
use crate::policy::github::{Code, Judged, OutOfScope, PushRules, RefChange, RefTarget, RepoName, Repository};

use super::super::held::Held;
use super::super::refusal::Refusal;
use super::Judge;

/// How much of a refused push is read so that git takes the answer, in bytes.
const DRAIN_MAX: u64 = 512 * 1024 * 1024;
/// Commits at the edge of a pack that are compared with what a branch has, at most.
const EDGES_MAX: usize = 16;

impl Judge<'_> {
    /// Judges a push. What goes on is what was read.
    pub(super) async fn receive_pack(
        &self,
        name: &RepoName,
        headers: &mut HeaderMap,
        body: &mut Held,
    ) -> Result<(), Refusal> {
        if headers.contains_key(CONTENT_ENCODING) {
            return Err(self.malformed("its body has a content coding; send it without"));
        }
        headers.remove(EXPECT);
        let commands = self.front(body).await?;
        let mut verdicts: Vec<Judged> =
            commands.changes().iter().map(|change| self.binding.rules().judge(change)).collect();
        let is_refused = |verdict: &Judged| matches!(verdict, Judged::Refused(_));
        if !verdicts.iter().any(is_refused) && verdicts.contains(&Judged::NeedsAncestry) {
            self.look_into_pack(name, &commands, body, &mut verdicts).await?;
        }
        if !verdicts.iter().any(is_refused) {
            return Ok(());
        }
        // Before it has sent everything, git takes an answer for a broken connection.
        body.drain(DRAIN_MAX).await;
        let refused: Vec<Option<OutOfScope>> = verdicts.into_iter().map(refusal_of).collect();
        let first = refused.iter().flatten().next().cloned();
        let denial = first.unwrap_or_else(|| OutOfScope::new(Code::PushRule, "this push is not allowed"));
        Err(Refusal::OutOfScope { form: Box::new(report::refuse(&commands, &refused, "")), denial })
    }

    /// Everything up to the pack, and a look at how that begins.
    async fn front(&self, body: &mut Held) -> Result<Commands, Refusal> {
        let mut reader = ReceiveRequest::new();
        let commands = loop {
            let fed = reader.fed().len();
            let read = body.read_more(fed).await.map_err(|_| self.malformed("its body broke off"))?;
            if read.len() <= fed {
                return Err(self.malformed("its list of commands breaks off"));
            }
            if let Some(commands) = reader.feed(&read[fed..]).map_err(|denial| self.refuse(denial))? {
                break commands;
            }
        };
        let mut rest = Rest::after(&commands);
        let read = body.read(commands.consumed + 4).await.map_err(|_| self.malformed("its body broke off"))?;
        rest.feed(&read[commands.consumed..]).map_err(|denial| self.refuse(denial))?;
        if body.is_whole() {
            rest.end().map_err(|denial| self.refuse(denial))?;
        }
        Ok(commands)
    }

    /// Finds out of each move whether it drops commits. Where that cannot be told, it counts as if it did.
    async fn look_into_pack(
        &self,
        name: &RepoName,
        commands: &Commands,
        body: &mut Held,
        verdicts: &mut [Judged],
    ) -> Result<(), Refusal> {
        let repository = self.records.record(name).await.map_err(|denial| self.refuse(denial))?;
        let _room = self.records.room_for_pack().await.map_err(|denial| self.refuse(denial))?;
        let pack = if commands.has_pack { body.keep_rest(commands.consumed, PACK_MAX).await } else { None };
        let is_lost = commands.has_pack && pack.is_none();
        for (command, verdict) in commands.commands.iter().zip(verdicts) {
            match verdict {
                Judged::NeedsAncestry if is_lost => *verdict = Judged::Refused(PushRules::not_known(&command.name)),
                Judged::NeedsAncestry => {
                    *verdict = self.ancestry(&repository, command, commands, pack.as_ref()).await;
                }
                Judged::Allowed | Judged::Refused(_) => {}
            }
        }
        Ok(())
    }

    async fn ancestry(
        &self,
        repository: &Repository,
        command: &Command,
        commands: &Commands,
        pack: Option<&Arc<File>>,
    ) -> Judged {
        let calls = self.records.calls();
        let (old, new) = (command.old.clone(), command.new.clone());
        let found = match pack.map(Arc::clone) {
            Some(pack) => {
                let format = commands.capabilities.format;
                let look = move || {
                    // The next one reads it from its beginning, too.
                    (&*pack).rewind()?;
                    History::read(&mut &*pack, format).map(|mut history| history.judge(&old, &new))
                };
                let looked = tokio::task::spawn_blocking(look).await;
                looked.ok().and_then(Result::ok).unwrap_or(Ancestry::Unknown)
            }
            // Without the pack, only what GitHub has already can be compared.
            None => Ancestry::Boundary(vec![new]),
        };
        let edges = match found {
            Ancestry::FastForward => return Judged::Allowed,
            Ancestry::Force => return Judged::Refused(PushRules::forced(&command.name)),
            Ancestry::Boundary(edges) if edges.len() <= EDGES_MAX => edges,
            Ancestry::Boundary(_) | Ancestry::Unknown => {
                return Judged::Refused(PushRules::not_known(&command.name));
            }
        };
        for edge in edges {
            match calls.is_ahead(repository, &command.old, &edge).await {
                Ok(true) => return Judged::Allowed,
                Ok(false) => {}
                Err(_) => return Judged::Refused(PushRules::not_known(&command.name)),
            }
        }
        Judged::Refused(PushRules::forced(&command.name))
    }

    /// Judges changes that are asked of an API, of this repository.
    pub(super) async fn changes(&self, name: &RepoName, changes: &[RefChange]) -> Result<(), Refusal> {
        for change in changes {
            let target = self.target(name, &change.target).await.map_err(|denial| self.refuse(denial))?;
            let named = RefChange { target: RefTarget::Named(target.clone()), change: change.change };
            match self.binding.rules().judge(&named) {
                Judged::Allowed => {}
                Judged::Refused(denial) => return Err(self.refuse(denial)),
                Judged::NeedsAncestry => return Err(self.refuse(PushRules::not_known(&target))),
            }
        }
        Ok(())
    }

    /// The full name of a ref, looked up where the request does not say it.
    async fn target(&self, name: &RepoName, target: &RefTarget) -> Result<String, OutOfScope> {
        if let RefTarget::Named(full) = target {
            return Ok(full.clone());
        }
        let calls = self.records.calls();
        let repository = self.records.record(name).await?;
        let of_pull = |number: &u64| calls.pull(&repository, *number);
        let found = match target {
            RefTarget::Named(full) => return Ok(full.clone()),
            RefTarget::DefaultBranch => return Ok(format!("refs/heads/{}", repository.default_branch)),
            RefTarget::PullBase(number) | RefTarget::PullHead(number) => of_pull(number).await,
            RefTarget::ReleaseTag(number) => calls.release(&repository, *number).await,
            RefTarget::PullBaseNode(id) | RefTarget::PullHeadNode(id) | RefTarget::RefNode(id) => calls.node(id).await,
        };
        let found = found.map_err(|error| error.refusal())?;
        if found.repository != repository.id {
            return Err(OutOfScope::new(Code::ForeignObject, "this is in another repository"));
        }
        match target {
            RefTarget::PullHead(_) | RefTarget::PullHeadNode(_) => match found.head {
                Some((head, Some(of))) if of == repository.id => Ok(head),
                Some(_) | None => {
                    let what = "the branch that this pull request comes from is in another repository";
                    Err(OutOfScope::new(Code::ForeignObject, what))
                }
            },
            RefTarget::Named(_)
            | RefTarget::DefaultBranch
            | RefTarget::PullBase(_)
            | RefTarget::ReleaseTag(_)
            | RefTarget::PullBaseNode(_)
            | RefTarget::RefNode(_) => Ok(found.name),
        }
    }
}

fn refusal_of(verdict: Judged) -> Option<OutOfScope> {
    match verdict {
        Judged::Refused(denial) => Some(denial),
        Judged::Allowed | Judged::NeedsAncestry => None,
    }
}
