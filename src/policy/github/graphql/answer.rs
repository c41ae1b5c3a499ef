//! What an answer says about ids: which belong to which repository.

use rustc_hash::FxHashMap;

use super::super::json::Json;
use super::RepositoryOf;
use super::document::Field;
use super::names::NameId;

/// How many ids are learned from one answer.
const IDS: usize = 10_000;
/// How long an id may be, in bytes.
pub(super) const ID: usize = 256;

/// Where in the answer to a document which ids stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learn {
    /// The first one is the answer's `data`.
    places: Vec<Place>,
    repositories: Vec<RepositoryOf>,
}

/// Whose an id is, that an answer has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learned {
    /// Something of this repository.
    Repository(RepositoryOf),
    /// A user, an organization, a team.
    Account,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    key: Box<str>,
    inside: Vec<usize>,
    id: Owner,
}

/// Whose the ids of a place are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Owner {
    /// Not known: nothing is learned.
    #[default]
    Nobody,
    /// That of this number in the list of the document's repositories.
    Repository(usize),
    Account,
}

impl Learn {
    /// Whether an answer has nothing to be learned from.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The ids of an answer (at most 10,000), and whose they are. What links to another repository teaches nothing: the thing may as well
    /// be of the same one. Nothing is learned from an answer without `data`, or from one that is no JSON.
    pub fn read(&self, answer: &[u8]) -> Vec<(String, Learned)> {
        let mut found = Vec::new();
        let Ok(json) = Json::read(answer) else { return found };
        if let (Some(data), false) = (json.get("data"), self.is_empty()) {
            self.visit(0, data, &mut found);
        }
        found
    }

    fn visit(&self, at: usize, value: &Json<'_>, found: &mut Vec<(String, Learned)>) {
        let place = &self.places[at];
        match value {
            Json::List(items) => items.iter().for_each(|item| self.visit(at, item, found)),
            Json::Object(entries) => {
                for &inside in &place.inside {
                    let key = &self.places[inside].key;
                    if let Some((_, value)) = entries.iter().find(|(name, _)| name == key.as_ref()) {
                        self.visit(inside, value, found);
                    }
                }
            }
            Json::Text(id) => {
                let learned = match place.id {
                    Owner::Nobody => return,
                    Owner::Repository(number) => Learned::Repository(self.repositories[number].clone()),
                    Owner::Account => Learned::Account,
                };
                if found.len() < IDS && id.len() <= ID {
                    found.push((id.to_string(), learned));
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
}

/// The shape of an answer while a document is walked. Fields that land on one name of the answer are one place, whichever fragments they
/// come from; where they do not agree on what they are, nothing at or below the place is learned.
#[derive(Debug)]
pub(super) struct Shape<'d> {
    spots: Vec<Spot<'d>>,
    by_key: FxHashMap<(usize, NameId), usize>,
}

#[derive(Debug)]
struct Spot<'d> {
    parent: usize,
    /// None for the answer's `data`.
    field: Option<&'d Field<'d>>,
    /// Whose the thing is that has this field.
    owner: Owner,
    doubtful: bool,
}

impl<'d> Shape<'d> {
    /// For a document that writes down so many fields.
    pub fn new(fields: usize) -> Self {
        let mut spots = Vec::with_capacity(fields + 1);
        spots.push(Spot { parent: 0, field: None, owner: Owner::Nobody, doubtful: false });
        Self { spots, by_key: FxHashMap::with_capacity_and_hasher(fields, Default::default()) }
    }

    /// The place of a field.
    pub fn place(&mut self, parent: usize, field: &'d Field<'d>, owner: Owner) -> usize {
        let next = self.spots.len();
        let at = *self.by_key.entry((parent, field.key_id)).or_insert(next);
        match self.spots.get_mut(at) {
            None => self.spots.push(Spot { parent, field: Some(field), owner, doubtful: false }),
            Some(spot) => {
                let same = spot.field.is_some_and(|other| other.name_id == field.name_id);
                spot.doubtful |= !same || spot.owner != owner;
            }
        }
        at
    }

    /// What is to be learned. Only the ways to ids are kept.
    pub fn learn(&self, repositories: &[RepositoryOf]) -> Learn {
        let mut kept = vec![false; self.spots.len()];
        for (at, spot) in self.spots.iter().enumerate() {
            if spot.is_id() && spot.owner != Owner::Nobody {
                self.keep(at, &mut kept);
            }
        }
        let mut learn = Learn { places: Vec::new(), repositories: repositories.to_vec() };
        let mut number = vec![0; self.spots.len()];
        // A place comes behind the one it is in.
        for (at, spot) in self.spots.iter().enumerate().filter(|(at, _)| kept[*at]) {
            number[at] = learn.places.len();
            if at > 0 {
                let inside = number[at];
                learn.places[number[spot.parent]].inside.push(inside);
            }
            let id = if spot.is_id() { spot.owner } else { Owner::Nobody };
            let key = spot.field.map_or("data", |field| field.key).into();
            learn.places.push(Place { key, inside: Vec::new(), id });
        }
        learn
    }

    fn keep(&self, leaf: usize, kept: &mut [bool]) {
        let mut way = vec![leaf];
        let mut at = leaf;
        while at != 0 {
            if self.spots[at].doubtful {
                return;
            }
            at = self.spots[at].parent;
            way.push(at);
        }
        way.into_iter().for_each(|at| kept[at] = true);
    }
}

impl Spot<'_> {
    fn is_id(&self) -> bool {
        self.field.is_some_and(|field| field.name == "id")
    }
}

/// What GitHub says a node id belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Something of the repository with this node id and number.
    Repository {
        /// The repository's own node id.
        node_id: String,
        /// Its number.
        number: Option<u64>,
    },
    /// A user, an organization, a team.
    Account,
    /// Something that belongs to no repository, or of which that cannot be said.
    Foreign,
    /// The credential sees no such thing.
    Missing,
}

/// Which types the look-up asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {
    /// All that lead to a repository.
    All,
    /// Those that an old GitHub Enterprise Server has, too: a type that a server does not know makes its whole answer an error.
    Old,
}

/// Types with a repository of their own (github-scope.md 4.4). The first ones are in every server that is still kept.
const OWN: [&str; 31] = [
    "Blob",
    "CheckRun",
    "CheckSuite",
    "Commit",
    "CommitComment",
    "CommitCommentThread",
    "Deployment",
    "Issue",
    "IssueComment",
    "Label",
    "Milestone",
    "PullRequest",
    "PullRequestCommitCommentThread",
    "PullRequestReview",
    "PullRequestReviewComment",
    "PullRequestReviewThread",
    "Ref",
    "Release",
    "Tag",
    "Tree",
    "BranchProtectionRule",
    "DependencyGraphManifest",
    "Discussion",
    "DiscussionCategory",
    "MergeQueue",
    "PinnedDiscussion",
    "PinnedEnvironment",
    "PinnedIssue",
    "Push",
    "RepositoryVulnerabilityAlert",
    "WorkflowRun",
];
const OLD: usize = 20;

/// Types that have one by a field of theirs.
const HOP: [(&str, &str); 7] = [
    ("ReleaseAsset", "release"),
    ("StatusContext", "commit"),
    ("DeploymentStatus", "deployment"),
    ("DiscussionComment", "discussion"),
    ("LinkedBranch", "ref"),
    ("MergeQueueEntry", "pullRequest"),
    ("DiscussionPoll", "discussion"),
];
const OLD_HOPS: usize = 3;

/// The body of the request that asks GitHub which repositories these ids belong to. It is sent with the proxy's own credential; at most
/// 50 ids fit in one.
pub fn resolve_query(ids: &[&str], types: Types) -> Vec<u8> {
    let (own, hops) = match types {
        Types::All => (OWN.len(), HOP.len()),
        Types::Old => (OLD, OLD_HOPS),
    };
    let mut query = "query($ids:[ID!]!){nodes(ids:$ids){__typename id ...on Repository{databaseId}".to_owned();
    // Each under a name of its own: fields that may be null and fields that may not cannot share one.
    for name in &OWN[..own] {
        query += &match *name {
            "WorkflowRun" => "...on WorkflowRun{r_WorkflowRun:checkSuite{repository{id databaseId}}}".to_owned(),
            name => format!("...on {name}{{r_{name}:repository{{id databaseId}}}}"),
        };
    }
    for (name, field) in &HOP[..hops] {
        query += &format!("...on {name}{{r_{name}:{field}{{repository{{id databaseId}}}}}}");
    }
    query += "}}";
    serde_json::json!({ "query": query, "variables": { "ids": ids } }).to_string().into_bytes()
}

/// What GitHub answered to [`resolve_query`] about the same ids. An answer that cannot be read says nothing about any of them; the caller
/// refuses what stays unknown.
pub fn resolved(ids: &[&str], answer: &[u8]) -> Vec<(String, Resolved)> {
    let Ok(json) = Json::read(answer) else { return Vec::new() };
    let nodes = json.get("data").and_then(|data| data.get("nodes")).and_then(Json::items).unwrap_or_default();
    if nodes.len() != ids.len() {
        return Vec::new();
    }
    // `nodes` has its answers in the order of the ids, null for one that is not there.
    ids.iter().zip(nodes).map(|(id, node)| ((*id).to_owned(), one(node))).collect()
}

fn one(node: &Json<'_>) -> Resolved {
    let Some(kind) = node.get("__typename").and_then(Json::text) else { return Resolved::Missing };
    if kind == "Repository" {
        return repository(node);
    }
    if super::table::TABLE.is_account(kind) {
        return Resolved::Account;
    }
    let own = node.entries().into_iter().flatten().find(|(key, _)| key.strip_prefix("r_") == Some(kind));
    match own {
        Some((_, value)) => repository(value.get("repository").unwrap_or(value)),
        None => Resolved::Foreign,
    }
}

fn repository(json: &Json<'_>) -> Resolved {
    match json.get("id").and_then(Json::text) {
        Some(id) => {
            Resolved::Repository { node_id: id.to_owned(), number: json.get("databaseId").and_then(Json::whole) }
        }
        None => Resolved::Foreign,
    }
}

/// An id that can be one at all.
pub(super) fn is_id(id: &str) -> bool {
    (1..=ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}
