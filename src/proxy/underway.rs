//! What is under way on a connection of the sandbox's, so that a policy that has changed can end it.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Uri};
use slab::Slab;
use tokio::sync::watch;

use crate::policy::{Entry, Policy};
use crate::sandboxes::Sandbox;
use crate::types::{Destination, RequestFacts, Scheme};

/// The requests and relays of one connection that have been permitted and have not ended.
#[derive(Default)]
pub struct Underway {
    asked: Mutex<Slab<Asked>>,
}

struct Asked {
    destination: Destination,
    what: What,
    /// The address that it goes to, once that is known.
    peer: Option<IpAddr>,
}

enum What {
    Request(Method, Uri),
    Relay,
}

/// Something under way; it has ended when this is dropped.
pub struct Ticket {
    of: Arc<Underway>,
    at: usize,
}

impl Underway {
    /// Notes a request that was permitted.
    pub fn request(self: &Arc<Self>, destination: &Destination, method: &Method, uri: &Uri) -> Ticket {
        self.enter(destination, What::Request(method.clone(), uri.clone()))
    }

    /// Notes a connection that passes unread.
    pub fn relay(self: &Arc<Self>, destination: &Destination) -> Ticket {
        self.enter(destination, What::Relay)
    }

    /// Ends when a policy that came after `changes` forbids something of this: the connection is to be closed then.
    pub async fn forbidden(&self, sandbox: &Sandbox, mut changes: watch::Receiver<()>) {
        while changes.changed().await.is_ok() {
            let policy = sandbox.policy();
            if self.lock().iter().any(|(_, asked)| !asked.is_permitted(&policy)) {
                return;
            }
        }
        // Without the sandbox there are no changes.
        std::future::pending().await
    }

    fn enter(self: &Arc<Self>, destination: &Destination, what: What) -> Ticket {
        let asked = Asked { destination: destination.clone(), what, peer: None };
        Ticket { at: self.lock().insert(asked), of: Arc::clone(self) }
    }

    /// Nothing panics while it is locked.
    fn lock(&self) -> MutexGuard<'_, Slab<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asked {
    fn is_permitted(&self, policy: &Policy) -> bool {
        let destination = &self.destination;
        let permitted = match &self.what {
            What::Request(method, uri) => {
                policy.request(&RequestFacts { destination, method: method.as_str(), path: uri.path() }).is_ok()
            }
            What::Relay if destination.scheme == Scheme::Tcp => match policy.entry(destination) {
                Ok(Entry::Relay(_) | Entry::Look { other: Some(_) }) => true,
                Ok(Entry::Look { other: None }) | Err(_) => false,
            },
            What::Relay => policy.passes_unread(destination).is_some(),
        };
        let reached = |ip: &IpAddr| {
            policy.check_addresses(&destination.authority, destination.scheme, std::slice::from_ref(ip), &[]).is_ok()
        };
        permitted && self.peer.as_ref().is_none_or(reached)
    }
}

impl Ticket {
    /// Whether a policy permits it, as far as is known where it goes to.
    pub fn is_permitted(&self, policy: &Policy) -> bool {
        self.of.lock().get(self.at).is_none_or(|asked| asked.is_permitted(policy))
    }

    /// Notes where it goes to, where that is known.
    pub fn goes_to(&self, peer: Option<SocketAddr>) {
        if let Some(asked) = self.of.lock().get_mut(self.at) {
            asked.peer = peer.map(|peer| peer.ip());
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.of.lock().try_remove(self.at);
    }
}
