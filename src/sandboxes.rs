//! Live sandboxes.

use std::sync::Arc;

use crate::credentials::header::Injector;
use crate::policy::Policy;
use crate::tls::leaf::LeafConfigs;
use crate::types::SandboxId;

/// One isolated client and everything that is its alone.
pub struct Sandbox {
    /// Its name.
    pub id: SandboxId,
    /// What it may reach.
    pub policy: Arc<Policy>,
    /// What the proxy shows it as certificates.
    pub leaves: LeafConfigs,
    /// The credentials of its bindings.
    pub injector: Injector,
}
