//! Live sandboxes.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use crate::credentials::header::Injector;
use crate::policy::Policy;
use crate::tls::leaf::LeafConfigs;
use crate::types::SandboxId;

/// One isolated client and everything that is its alone.
pub struct Sandbox {
    /// Its name.
    pub id: SandboxId,
    /// What the proxy shows it as certificates.
    pub leaves: LeafConfigs,
    /// The credentials of its bindings.
    pub injector: Injector,
    policy: RwLock<(u64, Arc<Policy>)>,
    changes: watch::Sender<()>,
}

impl Sandbox {
    /// A sandbox; `injector` has the credentials of the bindings of `policy`.
    pub fn new(id: SandboxId, policy: Policy, leaves: LeafConfigs, injector: Injector) -> Self {
        Self { id, leaves, injector, policy: RwLock::new((0, Arc::new(policy))), changes: watch::Sender::new(()) }
    }

    /// What it may reach, now.
    pub fn policy(&self) -> Arc<Policy> {
        self.numbered_policy().1
    }

    /// The same, with how many there were before it.
    pub fn numbered_policy(&self) -> (u64, Arc<Policy>) {
        // Nothing panics while it is locked.
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has another policy decide from here on. Its bindings must be those of the one before, to which the credentials belong.
    ///
    /// # Errors
    /// The policy, where its bindings are others.
    pub fn change(&self, policy: Policy) -> Result<(), Box<Policy>> {
        let mut current = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        if current.1.bindings() != policy.bindings() {
            return Err(Box::new(policy));
        }
        *current = (current.0 + 1, Arc::new(policy));
        drop(current);
        self.changes.send_replace(());
        Ok(())
    }

    /// Tells of every change that comes after this call.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}
