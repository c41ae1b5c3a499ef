//! What may be pushed.

use super::super::denial::{Code, OutOfScope};
use super::glob::RefGlob;
use super::{Change, Forced, RefChange, RefTarget};

/// Push rules as a policy has them. What is not said is not permitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenPushRules {
    /// Patterns of the branches that may change, each on the part after `refs/heads/`. `None` is every branch.
    pub branches: Option<Vec<String>>,
    /// Patterns of branches that may not change, whatever `branches` says.
    pub deny_branches: Vec<String>,
    /// Patterns of full names of refs that may change and are neither branches nor tags, such as `refs/notes/*`.
    pub other_refs: Vec<String>,
    /// Whether refs may be made; tags need `tags` alone.
    pub create: bool,
    /// Whether refs may be deleted.
    pub delete: bool,
    /// Whether tags may be made, and, with `delete` and `force`, deleted and moved.
    pub tags: bool,
    /// Whether moves may drop commits, and tags may move.
    pub force: bool,
}

/// Why push rules are none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushRuleError {
    /// An empty list of branches.
    #[error("`branches` is empty; name the branches that may change, or leave it out for every branch")]
    NoBranches,
    /// A pattern that is none.
    #[error("`{list}` has a pattern that is none, {why}: {text}")]
    Pattern {
        /// The list that it stands in.
        list: &'static str,
        /// The pattern.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A pattern of a full name where the short one belongs.
    #[error("`{list}` takes names without refs/heads/: {text}")]
    Full {
        /// The list that it stands in.
        list: &'static str,
        /// The pattern.
        text: String,
    },
    /// Something in `other_refs` that is not for them.
    #[error("`other_refs` takes full names such as refs/notes/*, which are neither branches nor tags: {0}")]
    NotOther(String),
    /// More than 100 patterns in a list.
    #[error("`{0}` has more than 100 patterns")]
    Many(&'static str),
}

/// The most patterns in a list.
const PATTERNS_MAX: usize = 100;

/// What may be pushed, whatever door a change comes through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushRules {
    branches: Branches,
    deny_branches: Vec<RefGlob>,
    other_refs: Vec<RefGlob>,
    create: bool,
    delete: bool,
    tags: bool,
    force: bool,
}

/// Which branches may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Branches {
    /// All of them.
    Every,
    /// Those that one of these is for.
    Of(Vec<RefGlob>),
}

/// What push rules say to a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It may be.
    Allowed,
    /// It may not.
    Refused(OutOfScope),
    /// It may be where the new commit has the old one among its ancestors, and not where that is unknown. [`PushRules::not_known`]
    /// and [`PushRules::forced`] are the refusals.
    NeedsAncestry,
}

impl PushRules {
    /// Branches and tags without limits. Other refs stay as they are: GitHub keeps pull requests there.
    pub fn unlimited() -> Self {
        Self {
            branches: Branches::Every,
            deny_branches: Vec::new(),
            other_refs: Vec::new(),
            create: true,
            delete: true,
            tags: true,
            force: true,
        }
    }

    /// Rules as they were written.
    ///
    /// # Errors
    /// Every [`PushRuleError`] at once.
    pub fn new(written: &WrittenPushRules) -> Result<Self, Vec<PushRuleError>> {
        let mut errors = Vec::new();
        let branches = match &written.branches {
            None => Branches::Every,
            Some(list) if list.is_empty() => {
                errors.push(PushRuleError::NoBranches);
                Branches::Of(Vec::new())
            }
            Some(list) => Branches::Of(globs("branches", list, short, &mut errors)),
        };
        let rules = Self {
            branches,
            deny_branches: globs("deny_branches", &written.deny_branches, short, &mut errors),
            other_refs: globs("other_refs", &written.other_refs, other, &mut errors),
            create: written.create,
            delete: written.delete,
            tags: written.tags,
            force: written.force,
        };
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }

    /// Whether a push may be refused for dropping commits, so that packs have to be whole: clients are told `no-thin` then.
    pub fn needs_ancestry(&self) -> bool {
        !self.force
    }

    /// Judges one change. A target that is not [`RefTarget::Named`] has to be looked up before and is refused.
    pub fn judge(&self, change: &RefChange) -> Judged {
        let RefTarget::Named(name) = &change.target else {
            let message = "the ref that this would change is not known";
            return Judged::Refused(OutOfScope::new(Code::Unresolved, message));
        };
        if let Err(why) = super::check_name(name) {
            let message = format!("no name of a ref, {why}: {}", name.escape_debug());
            return Judged::Refused(OutOfScope::new(Code::Malformed, message));
        }
        if let Some(branch) = name.strip_prefix("refs/heads/") {
            let listed = match &self.branches {
                Branches::Every => true,
                Branches::Of(globs) => globs.iter().any(|glob| glob.matches(branch)),
            };
            if !listed || self.deny_branches.iter().any(|glob| glob.matches(branch)) {
                return refused("branch not allowed", name);
            }
            self.change(change.change, name)
        } else if name.starts_with("refs/tags/") {
            self.tag(change.change, name)
        } else if self.other_refs.iter().any(|glob| glob.matches(name)) {
            self.change(change.change, name)
        } else {
            refused("ref is neither a branch nor a tag", name)
        }
    }

    /// The refusal of a change that drops commits.
    pub fn forced(name: &str) -> OutOfScope {
        no("force push not allowed", name)
    }

    /// The refusal of a change of which nobody knows whether it drops commits.
    pub fn not_known(name: &str) -> OutOfScope {
        no("not shown to be a fast-forward", name)
    }

    fn change(&self, change: Change, name: &str) -> Judged {
        match change {
            Change::Create | Change::Put if !self.create => refused("creating it is not allowed", name),
            Change::Delete if !self.delete => refused("deleting it is not allowed", name),
            Change::Update(Forced::Yes) if !self.force => Judged::Refused(Self::forced(name)),
            Change::Update(Forced::Unknown) if !self.force => Judged::NeedsAncestry,
            Change::Create | Change::Put | Change::Delete | Change::Update(_) => Judged::Allowed,
        }
    }

    fn tag(&self, change: Change, name: &str) -> Judged {
        match change {
            _ if !self.tags => refused("tags are not allowed", name),
            Change::Delete if !self.delete => refused("deleting it is not allowed", name),
            Change::Update(_) | Change::Put if !self.force => refused("moving a tag is not allowed", name),
            Change::Create | Change::Delete | Change::Update(_) | Change::Put => Judged::Allowed,
        }
    }
}

fn refused(what: &str, name: &str) -> Judged {
    Judged::Refused(no(what, name))
}

fn no(what: &str, name: &str) -> OutOfScope {
    OutOfScope::new(Code::PushRule, format!("blocked by policy: {what}: {name}"))
}

type Check = fn(&'static str, &str) -> Result<(), PushRuleError>;

fn globs(list: &'static str, texts: &[String], check: Check, errors: &mut Vec<PushRuleError>) -> Vec<RefGlob> {
    if texts.len() > PATTERNS_MAX {
        errors.push(PushRuleError::Many(list));
        return Vec::new();
    }
    let parse = |text: &String| {
        check(list, text)?;
        RefGlob::parse(text).map_err(|why| PushRuleError::Pattern { list, text: text.clone(), why })
    };
    let mut parsed = Vec::new();
    for text in texts {
        match parse(text) {
            Ok(glob) => parsed.push(glob),
            Err(error) => errors.push(error),
        }
    }
    parsed
}

fn short(list: &'static str, text: &str) -> Result<(), PushRuleError> {
    if text.starts_with("refs/") { Err(PushRuleError::Full { list, text: text.to_owned() }) } else { Ok(()) }
}

/// One that could be for a branch or a tag would be dead there, and mislead.
fn other(_: &'static str, text: &str) -> Result<(), PushRuleError> {
    let owned = ["refs/heads/", "refs/tags/"].iter().any(|owned| text.starts_with(owned));
    let full = text == "HEAD" || text.strip_prefix("refs/").is_some_and(|rest| !rest.starts_with('*'));
    if full && !owned { Ok(()) } else { Err(PushRuleError::NotOther(text.to_owned())) }
}

#[cfg(test)]
mod tests;
