//! What is known of the repositories of a GitHub binding: pinned at the start, learned from answers, looked up where a request
//! needs more. What could not be looked up is never taken for permitted.

mod cache;
mod calls;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};
use futures_util::future::join_all;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::policy::github::{Code, Known, Membership, NodeOwner, OutOfScope, RepoName, Repository};

use super::source::Clock;
use cache::Cache;

pub use calls::{Calls, Kept, LookUpError, RefDetails};

/// How long what a name leads to is believed.
const FRESH: Duration = Duration::from_secs(600);
/// How long it is known what a node id or an issue's number belongs to.
const LEARNED: Duration = Duration::from_secs(24 * 60 * 60);
/// Node ids that are remembered.
const NODES: usize = 50_000;
/// Numbers of issues that are remembered.
const ISSUES: usize = 50_000;
/// URLs of storage that are remembered.
const CAPABILITIES: usize = 16_384;
/// Names that are remembered where every repository is allowed.
const NAMES: usize = 4096;
/// How long a URL of storage is good for of which nothing is said, and at most.
const CAPABILITY: Duration = Duration::from_secs(15 * 60);
const CAPABILITY_MAX: Duration = Duration::from_secs(60 * 60);

/// How long a name is left alone that could not be looked up.
const AGAIN: Duration = Duration::from_secs(30);
/// Names of which that is remembered.
const FAILED: usize = 4096;
/// Names that are looked up at a time.
const TOGETHER: usize = 8;
/// Bodies that are held to be judged: how many pieces of [`BODY_PIECE`] bytes, in one sandbox.
const BODY_PIECES: usize = 1024;
/// Bytes in which held bodies are counted.
const BODY_PIECE: usize = 64 * 1024;
/// How long a request waits for room.
const PATIENCE: Duration = Duration::from_secs(30);
/// Packs of pushes that are kept at a time in one sandbox; further ones wait.
const PACKS: usize = 2;

/// The records of one binding in one sandbox.
pub struct Records {
    all: bool,
    listed: Vec<RepoName>,
    calls: Calls,
    clock: Clock,
    state: Mutex<State>,
    /// Whoever holds it looks names up.
    turn: tokio::sync::Mutex<()>,
    packs: Semaphore,
    bodies: Arc<Semaphore>,
}

struct State {
    /// By the name as it is listed, or as it was asked for where all are allowed.
    pins: HashMap<RepoName, Pin>,
    /// By every name that leads to one of them.
    names: HashMap<RepoName, RepoName>,
    /// Names that could not be looked up a moment ago.
    failed: Cache<RepoName, ()>,
    nodes: Cache<String, NodeOwner>,
    issues: Cache<u64, ()>,
    capabilities: Cache<[u8; 32], Methods>,
}

struct Pin {
    /// As it was first seen; what bears its name now is another one, where `is_changed`.
    repository: Arc<Repository>,
    is_changed: bool,
    seen: SystemTime,
}

/// What may be asked of a URL of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Methods {
    /// GET and HEAD.
    pub get: bool,
    /// PUT.
    pub put: bool,
    /// POST.
    pub post: bool,
}

impl Methods {
    /// GET and HEAD: what a redirect permits.
    pub const GET: Self = Self { get: true, put: false, post: false };

    /// What an answer of LFS permits with this word: `GET`, `PUT` or `POST`.
    pub fn of(method: &str) -> Option<Self> {
        let none = Self { get: false, put: false, post: false };
        match method {
            "GET" => Some(Self::GET),
            "PUT" => Some(Self { put: true, ..none }),
            "POST" => Some(Self { post: true, ..none }),
            _ => None,
        }
    }

    fn allow(self, method: &str) -> bool {
        match method {
            "GET" | "HEAD" => self.get,
            "PUT" => self.put,
            "POST" => self.post,
            _ => false,
        }
    }
}

impl Records {
    /// Records without anything in them. `listed` are the binding's repositories, `None` where all are allowed.
    pub fn new(listed: Option<Vec<RepoName>>, calls: Calls, clock: Clock) -> Self {
        let state = State {
            pins: HashMap::new(),
            names: HashMap::new(),
            failed: Cache::new(FAILED),
            nodes: Cache::new(NODES),
            issues: Cache::new(ISSUES),
            capabilities: Cache::new(CAPABILITIES),
        };
        let (all, listed) = (listed.is_none(), listed.unwrap_or_default());
        Self {
            all,
            listed,
            calls,
            clock,
            state: Mutex::new(state),
            turn: tokio::sync::Mutex::new(()),
            packs: Semaphore::new(PACKS),
            bodies: Arc::new(Semaphore::new(BODY_PIECES)),
        }
    }

    /// Looks up what the listed names lead to, some at a time, where that is not known or was not looked at for ten minutes. Others
    /// wait. A name that cannot be looked up is left alone for half a minute, and stays unknown, or as it was if it has been seen within
    /// twice that time.
    pub async fn refresh(&self) {
        if self.stale().is_empty() {
            return;
        }
        let _turn = self.turn.lock().await;
        for names in self.stale().chunks(TOGETHER) {
            join_all(names.iter().map(|name| self.look_up(name))).await;
        }
    }

    async fn look_up(&self, name: &RepoName) {
        match self.calls.repository(name).await {
            Ok(found) => self.pin(name, found),
            Err(error) => {
                tracing::warn!("the repository {name} cannot be looked up: {error}");
                let again = (self.clock)() + AGAIN;
                self.lock().failed.insert(name.clone(), (), again);
            }
        }
    }

    /// Has the names that lead to a repository looked up at the next request: GitHub says that it has moved, so its old name may be
    /// given to another.
    pub fn look_again(&self, id: u64) {
        let seen = (self.clock)() - FRESH;
        let mut state = self.lock();
        let moved = state.pins.values_mut().filter(|pin| pin.repository.id == id);
        moved.for_each(|pin| pin.seen = pin.seen.min(seen));
    }

    /// The record of a repository that the binding allows.
    ///
    /// # Errors
    /// It is none of the binding's, or cannot be looked up.
    pub async fn record(&self, name: &RepoName) -> Result<Arc<Repository>, OutOfScope> {
        if let Some(record) = self.repository(name).record(name, self.all)? {
            return Ok(record);
        }
        if !self.has_failed(name) {
            self.look_up(name).await;
        }
        let known = self.repository(name).record(name, self.all)?;
        known.ok_or_else(|| Membership::unresolved(name))
    }

    /// Every repository that is known, in the order of their names.
    pub fn repositories(&self) -> Vec<Arc<Repository>> {
        let state = self.lock();
        let usable = state.pins.values().filter(|pin| !pin.is_changed).map(|pin| Arc::clone(&pin.repository));
        let mut found: Vec<_> = usable.collect();
        drop(state);
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found.dedup_by_key(|repository| repository.id);
        found
    }

    /// Who makes look-ups.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Whoever keeps the pack of a push holds this.
    ///
    /// # Errors
    /// There are too many for half a minute.
    pub async fn room_for_pack(&self) -> Result<SemaphorePermit<'_>, OutOfScope> {
        let room = timeout(PATIENCE, self.packs.acquire()).await;
        room.ok().and_then(Result::ok).ok_or_else(|| busy("other pushes"))
    }

    /// Whoever holds so many bytes of a body holds this.
    ///
    /// # Errors
    /// There is no room for half a minute.
    pub async fn room_for_body(&self, bytes: usize) -> Result<OwnedSemaphorePermit, OutOfScope> {
        let pieces = bytes.div_ceil(BODY_PIECE).clamp(1, BODY_PIECES) as u32;
        let room = timeout(PATIENCE, Arc::clone(&self.bodies).acquire_many_owned(pieces)).await;
        room.ok().and_then(Result::ok).ok_or_else(|| busy("other requests"))
    }

    /// Remembers what node ids belong to.
    pub fn learn_nodes(&self, nodes: impl IntoIterator<Item = (String, NodeOwner)>) {
        let until = (self.clock)() + LEARNED;
        // What they come from may look into the records, too.
        let nodes: Vec<_> = nodes.into_iter().collect();
        let mut state = self.lock();
        nodes.into_iter().for_each(|(id, owner)| state.nodes.insert(id, owner, until));
    }

    /// Remembers numbers of issues of allowed repositories.
    pub fn learn_issues(&self, ids: impl IntoIterator<Item = u64>) {
        let until = (self.clock)() + LEARNED;
        let ids: Vec<_> = ids.into_iter().collect();
        let mut state = self.lock();
        ids.into_iter().for_each(|id| state.issues.insert(id, (), until));
    }

    /// Remembers a URL of storage that an answer to this sandbox has named, for 15 minutes where nothing else is said and for an hour
    /// at most.
    pub fn learn_capability(&self, host: &str, target: &str, methods: Methods, life: Option<Duration>) {
        let until = (self.clock)() + life.unwrap_or(CAPABILITY).min(CAPABILITY_MAX);
        self.lock().capabilities.insert(capability(host, target), methods, until);
    }

    /// Whether an answer to this sandbox has named exactly this URL for this method.
    pub fn is_capability(&self, host: &str, target: &str, method: &str) -> bool {
        let now = (self.clock)();
        self.lock().capabilities.get(&capability(host, target), now).is_some_and(|methods| methods.allow(method))
    }

    fn stale(&self) -> Vec<RepoName> {
        let now = (self.clock)();
        let mut state = self.lock();
        let mut is_stale = |name: &&RepoName| {
            let is_fresh = state.pins.get(*name).is_some_and(|pin| now < pin.seen + FRESH);
            !is_fresh && state.failed.get(*name, now).is_none()
        };
        self.listed.iter().filter(|name| is_stale(name)).cloned().collect()
    }

    /// Whether it could not be looked up a moment ago.
    fn has_failed(&self, name: &RepoName) -> bool {
        let now = (self.clock)();
        self.lock().failed.get(name, now).is_some()
    }

    fn pin(&self, name: &RepoName, found: Repository) {
        let seen = (self.clock)();
        let mut state = self.lock();
        if self.all && state.pins.len() >= NAMES {
            state.pins.clear();
            state.names.clear();
        }
        // A name that it had before may be another's by now, and what was learned under that name, too.
        state.names.retain(|_, of| of != name);
        state.names.insert(name.clone(), name.clone());
        let was = state.pins.remove(name);
        if let Some(pin) = &was
            && pin.repository.name != found.name
        {
            let of = NodeOwner::Repository(pin.repository.id);
            state.nodes.forget(|owner| *owner == of);
            state.issues.forget(|()| true);
        }
        let pin = match was {
            // A new owner is not whom it was entrusted to.
            Some(pin) if pin.repository.id != found.id || pin.repository.owner_id != found.owner_id => {
                tracing::warn!("{name} is another repository than at the start, or another owner's: it is closed");
                Pin { is_changed: true, seen, ..pin }
            }
            Some(pin) if pin.is_changed => Pin { seen, ..pin },
            Some(_) | None => {
                state.names.insert(found.name.clone(), name.clone());
                Pin { repository: Arc::new(found), is_changed: false, seen }
            }
        };
        state.pins.insert(name.clone(), pin);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known for Records {
    fn repository(&self, name: &RepoName) -> Membership {
        let now = (self.clock)();
        let state = self.lock();
        let pin = state.names.get(name).and_then(|listed| state.pins.get(listed));
        match pin {
            Some(pin) if pin.is_changed => Membership::Changed,
            Some(pin) if now < pin.seen + 2 * FRESH => Membership::Is(Arc::clone(&pin.repository)),
            Some(_) | None if self.all => Membership::Any,
            // Its record is too old to be believed.
            Some(_) => Membership::Unresolved,
            None if self.listed.contains(name) => Membership::Unresolved,
            None => Membership::Not,
        }
    }

    fn repository_of_id(&self, id: u64) -> Option<Arc<Repository>> {
        let now = (self.clock)();
        let state = self.lock();
        let usable = |pin: &&Pin| !pin.is_changed && now < pin.seen + 2 * FRESH;
        let found = state.pins.values().find(|pin| pin.repository.id == id && usable(pin));
        found.map(|pin| Arc::clone(&pin.repository))
    }

    fn node(&self, id: &str) -> Option<NodeOwner> {
        let now = (self.clock)();
        let mut state = self.lock();
        let usable = |pin: &&Pin| !pin.is_changed && now < pin.seen + 2 * FRESH;
        if let Some(pin) = state.pins.values().filter(usable).find(|pin| pin.repository.node_id == id) {
            return Some(NodeOwner::Repository(pin.repository.id));
        }
        match state.nodes.get(id, now)? {
            // What was learned before its repository changed hands.
            NodeOwner::Repository(of)
                if !self.all && !state.pins.values().filter(usable).any(|pin| pin.repository.id == of) =>
            {
                Some(NodeOwner::Foreign)
            }
            owner @ (NodeOwner::Repository(_) | NodeOwner::Account | NodeOwner::Foreign) => Some(owner),
        }
    }

    fn issue_id(&self, id: u64) -> bool {
        let now = (self.clock)();
        self.lock().issues.get(&id, now).is_some()
    }
}

fn busy(others: &str) -> OutOfScope {
    OutOfScope::new(
        Code::Unresolved,
        format!("{others} of this sandbox have to end before this one can be judged: try again"),
    )
}

fn capability(host: &str, target: &str) -> [u8; 32] {
    let url = format!("https://{}{target}", host.to_ascii_lowercase());
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, url.as_bytes()).as_ref());
    key
}

#[cfg(test)]
mod tests;
