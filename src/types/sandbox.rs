//! Names of sandboxes.

use std::fmt;
use std::sync::Arc;

/// The id of one isolated client: 64 random bits in lower-case hex. It is a name, not a credential.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SandboxId(Arc<str>);

impl SandboxId {
    /// An id from 64 bits of the caller's randomness.
    pub fn from_bits(bits: u64) -> Self {
        Self(format!("{bits:016x}").into())
    }

    /// An id from its text.
    pub fn parse(text: &str) -> Option<Self> {
        let legal = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        legal.then(|| Self(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
