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
    in_force: RwLock<Arc<InForce>>,
    changes: watch::Sender<()>,
}

/// What holds for a sandbox at a time: a policy, with the credentials of its bindings. A request takes it once, so that both are of
/// one kind.
pub struct InForce {
    /// How many there were before it.
    pub number: u64,
    /// What may be reached.
    pub policy: Arc<Policy>,
    /// The credentials of its bindings.
    pub injector: Arc<Injector>,
    /// What is known of each of its GitHub bindings, in their order.
    records: Arc<[Arc<Records>]>,
}

impl InForce {
    /// What is known of the GitHub binding at this index of the policy's.
    pub fn records(&self, index: usize) -> Option<&Arc<Records>> {
        self.records.get(index)
    }
}

impl Sandbox {
    /// A sandbox; `injector` has the credentials of the bindings of `policy`, `records` are those of its GitHub bindings in their order.
    pub fn new(
        id: SandboxId,
        leaves: LeafConfigs,
        policy: Policy,
        injector: Injector,
        records: Vec<Arc<Records>>,
    ) -> Self {
        let (policy, injector) = (Arc::new(policy), Arc::new(injector));
        let in_force = RwLock::new(Arc::new(InForce { number: 0, policy, injector, records: records.into() }));
        Self { id, leaves, in_force, changes: watch::Sender::new(()) }
    }

    /// What holds now.
    pub fn in_force(&self) -> Arc<InForce> {
        // Nothing panics while it is locked.
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What it may reach, now.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.in_force().policy)
    }

    /// Has another policy decide from here on. Its bindings must be those of the one before, to which the credentials belong.
    ///
    /// # Errors
    /// The policy, where its bindings are others.
    pub fn change(&self, policy: Policy) -> Result<(), Box<Policy>> {
        let mut current = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        let same = |(one, other): (&GitHubBinding, &GitHubBinding)| one.is_same_as(other);
        let same_githubs = current.policy.githubs().len() == policy.githubs().len()
            && current.policy.githubs().iter().zip(policy.githubs()).all(same);
        if current.policy.bindings() != policy.bindings() || !same_githubs {
            return Err(Box::new(policy));
        }
        let (injector, records) = (Arc::clone(&current.injector), Arc::clone(&current.records));
        *current = Arc::new(InForce { number: current.number + 1, policy: Arc::new(policy), injector, records });
        drop(current);
        self.changes.send_replace(());
        Ok(())
    }

    /// Tells of every change that comes after this call.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}
