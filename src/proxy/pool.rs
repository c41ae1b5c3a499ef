//! Upstream connections that can be used again: hyper handles, kept per worker and destination.
//!
//! An HTTP/1 handle is lent to one request and comes back at the end of its response; an HTTP/2 handle is shared by up
//! to [`STREAMS`] requests at a time. Bounds: [`IDLE_EACH`] idle connections a destination, [`IDLE_ALL`] in all, each
//! for [`IDLE_TIME`]; at a bound a connection is closed instead of kept.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::client::conn::{http1, http2};
use rustls::sign::CertifiedKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::types::Authority;

use super::body::RequestBody;
use super::brake::Brake;

/// Requests at a time on one HTTP/2 connection; a further one opens another. It bounds what responses that nobody reads
/// can hold in memory.
pub const STREAMS: usize = 64;
/// Dials at a time to one destination, so that a burst of requests does not overrun its backlog.
const DIALS: usize = 64;
const IDLE_EACH: usize = 128;
const IDLE_ALL: usize = 1024;
const IDLE_TIME: Duration = Duration::from_secs(30);

/// What one connection may serve: an authority, reached in one way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Host and port.
    pub authority: Authority,
    /// The address, where the sandbox itself chose it (EgressPolicy).
    pub dialled: Option<IpAddr>,
    /// Only HTTP/1 is offered: the request wants an upgrade.
    pub http1_only: bool,
    /// No TLS: a rule permits plain http.
    pub plain: bool,
    /// The number of the policy by which it was dialled: another one may forbid where it leads to.
    pub policy: u64,
    /// What it showed of the user.
    pub identity: Option<Identity>,
}

/// A client certificate with its key. Two are the same when they are one value: a renewed one has connections of its own.
#[derive(Clone, Debug)]
pub struct Identity(pub Arc<CertifiedKey>);

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Identity {}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// A hyper handle.
pub enum Handle {
    /// For one request at a time.
    Http1(http1::SendRequest<RequestBody>),
    /// For many.
    Http2(http2::SendRequest<RequestBody>),
}

/// A connection lent to one request.
pub struct Lease {
    retired: bool,
    handle: Option<Handle>,
    peer: Option<SocketAddr>,
    reused: bool,
    key: Key,
    pool: Arc<Pool>,
    streams: Option<Arc<AtomicUsize>>,
    brake: Option<Brake>,
}

/// The connections of one worker.
#[derive(Default)]
pub struct Pool {
    entries: Mutex<HashMap<Key, Entry>>,
    idle: AtomicUsize,
}

#[derive(Default)]
struct Entry {
    idle: Vec<Idle>,
    shared: Vec<Shared>,
    gate: Gate,
    speaks_http1: bool,
    dials: Dials,
}

/// Room for dials to one destination.
struct Dials(Arc<Semaphore>);

impl Default for Dials {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(DIALS)))
    }
}

/// One dial at a time while it is not known that the destination speaks HTTP/1 only, so that the others can share. It
/// holds when a dial last failed: those who had waited for that one do not wait for each other, too.
pub type Gate = Arc<tokio::sync::Mutex<Option<Instant>>>;

struct Idle {
    handle: http1::SendRequest<RequestBody>,
    peer: Option<SocketAddr>,
    since: Instant,
}

struct Shared {
    handle: http2::SendRequest<RequestBody>,
    peer: Option<SocketAddr>,
    streams: Arc<AtomicUsize>,
    since: Instant,
}

impl Pool {
    /// A connection that is ready, if there is one.
    pub fn take(self: &Arc<Self>, key: &Key) -> Option<Lease> {
        let mut entries = self.lock();
        let entry = entries.get_mut(key)?;
        entry.shared.retain(|shared| !shared.handle.is_closed());
        if let Some(shared) = entry.shared.iter_mut().find(|s| s.streams.load(Ordering::Relaxed) < STREAMS) {
            shared.since = Instant::now();
            return Some(self.lend_shared(key, shared, true));
        }
        while let Some(at) = entry.idle.iter().rposition(|idle| idle.handle.is_ready() || idle.handle.is_closed()) {
            let idle = entry.idle.swap_remove(at);
            self.idle.fetch_sub(1, Ordering::Relaxed);
            if !idle.handle.is_closed() && idle.since.elapsed() < IDLE_TIME {
                let (handle, key) = (Some(Handle::Http1(idle.handle)), key.clone());
                return Some(Lease {
                    retired: false,
                    handle,
                    peer: idle.peer,
                    reused: true,
                    key,
                    pool: Arc::clone(self),
                    streams: None,
                    brake: None,
                });
            }
        }
        None
    }

    /// The gate to pass before dialling, where others may come to share the connection.
    pub fn gate(&self, key: &Key) -> Option<Gate> {
        let mut entries = self.lock();
        let entry = entries.entry(key.clone()).or_default();
        (!entry.speaks_http1).then(|| Arc::clone(&entry.gate))
    }

    /// A place among the dials to a destination: at the bound, further ones wait, and may find a connection free meanwhile.
    pub async fn dialling(&self, key: &Key) -> Option<OwnedSemaphorePermit> {
        let dials = Arc::clone(&self.lock().entry(key.clone()).or_default().dials.0);
        // It is never closed, so there always is one.
        dials.acquire_owned().await.ok()
    }

    /// Takes in a new connection and lends it at once.
    pub fn add(self: &Arc<Self>, key: &Key, handle: Handle, peer: Option<SocketAddr>) -> Lease {
        let mut entries = self.lock();
        let entry = entries.entry(key.clone()).or_default();
        match handle {
            Handle::Http1(_) => {
                entry.speaks_http1 = true;
                let (handle, key) = (Some(handle), key.clone());
                Lease {
                    retired: false,
                    handle,
                    peer,
                    reused: false,
                    key,
                    pool: Arc::clone(self),
                    streams: None,
                    brake: None,
                }
            }
            Handle::Http2(handle) => {
                entry.speaks_http1 = false;
                let shared = Shared { handle, peer, streams: Arc::default(), since: Instant::now() };
                let lease = self.lend_shared(key, &shared, false);
                entry.shared.push(shared);
                lease
            }
        }
    }

    /// Closes what has been idle for too long. Called now and then by the worker.
    pub fn sweep(&self) {
        let mut entries = self.lock();
        entries.retain(|_, entry| {
            entry.idle.retain(|idle| !idle.handle.is_closed() && idle.since.elapsed() < IDLE_TIME);
            entry.shared.retain(|shared| {
                let busy = shared.streams.load(Ordering::Relaxed) > 0;
                !shared.handle.is_closed() && (busy || shared.since.elapsed() < IDLE_TIME)
            });
            let dialled = Arc::strong_count(&entry.gate) > 1 || Arc::strong_count(&entry.dials.0) > 1;
            dialled || !entry.idle.is_empty() || !entry.shared.is_empty()
        });
        self.idle.store(entries.values().map(|entry| entry.idle.len()).sum(), Ordering::Relaxed);
    }

    /// Whether there is no connection, nor one on its way.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Closes what is idle, and lends what is busy no more: the policy has changed.
    pub fn clear(&self) {
        self.lock().values_mut().for_each(|entry| {
            entry.idle.clear();
            entry.shared.clear();
        });
        self.idle.store(0, Ordering::Relaxed);
    }

    fn lend_shared(self: &Arc<Self>, key: &Key, shared: &Shared, reused: bool) -> Lease {
        shared.streams.fetch_add(1, Ordering::Relaxed);
        Lease {
            retired: false,
            handle: Some(Handle::Http2(shared.handle.clone())),
            peer: shared.peer,
            reused,
            key: key.clone(),
            pool: Arc::clone(self),
            streams: Some(Arc::clone(&shared.streams)),
            brake: None,
        }
    }

    fn keep(&self, key: Key, idle: Idle) {
        let mut entries = self.lock();
        let entry = entries.entry(key).or_default();
        if entry.idle.len() < IDLE_EACH && self.idle.load(Ordering::Relaxed) < IDLE_ALL {
            entry.idle.push(idle);
            self.idle.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Nothing here panics half-way, so a poisoned lock still holds a good map.
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// The hyper handle.
    pub fn handle(&mut self) -> &mut Handle {
        self.handle.as_mut().expect("only giving it back takes it")
    }

    /// Where the connection goes.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Whether it had served a request before, so that the peer may have closed it meanwhile.
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// The brake of the request's body, which learns from here that the answer has ended.
    pub fn set_brake(&mut self, brake: Option<Brake>) {
        self.brake = brake;
    }

    /// After a change of protocol: whatever comes, the connection is used for nothing else.
    pub fn retire(&mut self) {
        self.retired = true;
    }

    /// At the end of a response. An HTTP/1 connection whose request body has not gone out whole cannot be used again.
    pub fn give_back(mut self, request_done: bool) {
        if let Some(Handle::Http1(handle)) = self.handle.take()
            && request_done
            && !self.retired
            && !handle.is_closed()
        {
            self.pool.keep(self.key.clone(), Idle { handle, peer: self.peer, since: Instant::now() });
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(streams) = &self.streams {
            streams.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(brake) = &self.brake {
            brake.over();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use hyper_util::rt::TokioIo;

    use super::*;

    fn key(host: &str) -> Key {
        Key {
            authority: Authority::parse(host, 443).unwrap(),
            dialled: None,
            http1_only: true,
            plain: false,
            policy: 0,
            identity: None,
        }
    }

    fn on_a_runtime(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(test);
    }

    /// A connection over memory; the other end stays open as long as it is held.
    async fn connection() -> (http1::SendRequest<RequestBody>, tokio::io::DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(1024);
        let (mut handle, driver) = http1::handshake(TokioIo::new(ours)).await.unwrap();
        tokio::spawn(driver.with_upgrades());
        handle.ready().await.unwrap();
        (handle, theirs)
    }

    #[test]
    fn a_connection_serves_again_unless_it_was_retired() {
        on_a_runtime(async {
            let (pool, key) = (Arc::new(Pool::default()), key("a.test"));
            let (handle, _open) = connection().await;
            let peer = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 443)));
            pool.add(&key, Handle::Http1(handle), peer).give_back(true);
            let mut again = pool.take(&key).expect("it was given back whole");
            assert!(again.reused());
            again.retire();
            again.give_back(true);
            assert!(pool.take(&key).is_none());
        });
    }

    #[test]
    fn a_connection_whose_request_is_unfinished_serves_nobody() {
        on_a_runtime(async {
            let (pool, key) = (Arc::new(Pool::default()), key("a.test"));
            let (handle, _open) = connection().await;
            let peer = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 443)));
            pool.add(&key, Handle::Http1(handle), peer).give_back(false);
            assert!(pool.take(&key).is_none());
        });
    }

    #[test]
    fn dials_to_one_destination_are_bounded_and_others_go_on() {
        on_a_runtime(async {
            let (pool, one, other) = (Pool::default(), key("a.test"), key("b.test"));
            let mut places = Vec::new();
            for _ in 0..DIALS {
                places.push(pool.dialling(&one).await.unwrap());
            }
            let further = pool.dialling(&one);
            tokio::pin!(further);
            let in_an_hour = tokio::time::timeout(Duration::from_secs(3600), further.as_mut()).await;
            assert!(in_an_hour.is_err(), "one more than {DIALS}");
            assert!(pool.dialling(&other).await.is_some());
            // What is looked through now and then must not forget that they are under way.
            pool.sweep();
            assert_eq!(pool.lock()[&one].dials.0.available_permits(), 0);
            places.pop();
            assert!(further.await.is_some());
        });
    }
}
