//! Live sandboxes.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use crate::credentials::Records;
use crate::credentials::header::Injector;
use crate::policy::Policy;
use crate::policy::github::GitHubBinding;
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
    /// What is known of each of its GitHub bindings, in their order.
    records: Vec<Arc<Records>>,
    policy: RwLock<(u64, Arc<Policy>)>,
    changes: watch::Sender<()>,
}

impl Sandbox {
    /// A sandbox; `injector` has the credentials of the bindings of `policy`.
    pub fn new(id: SandboxId, policy: Policy, leaves: LeafConfigs, injector: Injector) -> Self {
        let policy = RwLock::new((0, Arc::new(policy)));
        Self { id, leaves, injector, records: Vec::new(), policy, changes: watch::Sender::new(()) }
    }

    /// The same with the records of the policy's GitHub bindings, in their order.
    pub fn with_records(self, records: Vec<Arc<Records>>) -> Self {
        Self { records, ..self }
    }

    /// What is known of the GitHub binding at this index of the policy's.
    pub fn records(&self, index: usize) -> Option<&Arc<Records>> {
        self.records.get(index)
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
        let same = |(one, other): (&GitHubBinding, &GitHubBinding)| one.is_same_as(other);
        let same_githubs = current.1.githubs().len() == policy.githubs().len()
            && current.1.githubs().iter().zip(policy.githubs()).all(same);
        if current.1.bindings() != policy.bindings() || !same_githubs {
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
