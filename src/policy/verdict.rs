//! The answers of a policy.

use std::fmt;
use std::net::IpAddr;

use crate::types::{Authority, Scheme};

use super::address::AddressClass;

/// What permitted a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// `Network.all()`.
    NetworkAll,
    /// An entry of `network.hosts`.
    Host {
        /// The entry that matched.
        entry: Authority,
    },
    /// EgressPolicy, by the address that the client dialled: that very address is dialled, nothing is looked up.
    Egress {
        /// The entry that matched, or `allow_all`.
        entry: String,
    },
}

/// As the audit and `policy explain` say it.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NetworkAll => f.write_str("network all"),
            Self::Host { entry } => write!(f, "network host {entry}"),
            Self::Egress { entry } => write!(f, "egress {entry}"),
        }
    }
}

/// A permitted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// What permitted it.
    pub grant: Grant,
    /// Indexes into [`super::Policy::bindings`] of the bindings that apply.
    pub bindings: Vec<usize>,
}

/// Why something is refused, with the evidence. `code` is stable; `Display` is what the sandbox may read and names no
/// address that it did not write itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// No entry, rule or CIDR permits it.
    #[error("{authority} is not in this sandbox's policy")]
    NotListed {
        /// What was asked for.
        authority: Authority,
    },
    /// The host may be reached, but not in this way.
    #[error("{authority} may be reached over https only, not {scheme}")]
    HttpsOnly {
        /// What was asked for.
        authority: Authority,
        /// How it was spoken to.
        scheme: Scheme,
    },
    /// An address of the destination is blocked.
    #[error("{authority} is at {class}, which is blocked")]
    AddressBlocked {
        /// What was asked for.
        authority: Authority,
        /// The blocked address, for the operator.
        address: IpAddr,
        /// Its class.
        class: AddressClass,
    },
    /// The path can be read in two ways, and a binding or rule looks at it.
    #[error("the path is ambiguous: {what}")]
    AmbiguousPath {
        /// What was asked for.
        authority: Authority,
        /// The part that is ambiguous.
        what: &'static str,
    },
    /// Two bindings set one header for this request.
    #[error("two bindings set the header {header} for this request")]
    BindingConflict {
        /// What was asked for.
        authority: Authority,
        /// The header.
        header: String,
    },
}

impl Denial {
    /// The stable code, as in `x-sandbox-proxy-denial` and the audit.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotListed { .. } => "host_not_listed",
            Self::HttpsOnly { .. } => "https_only",
            Self::AddressBlocked { .. } => "address_blocked",
            Self::AmbiguousPath { .. } => "ambiguous_path",
            Self::BindingConflict { .. } => "binding_conflict",
        }
    }

    /// The option of `run` that would permit it, where one would.
    pub fn cure(&self) -> Option<String> {
        match self {
            Self::NotListed { authority } => Some(format!("--allow {authority}")),
            Self::AddressBlocked { address, .. } => Some(format!("--allow-cidr {address}")),
            Self::HttpsOnly { .. } | Self::AmbiguousPath { .. } | Self::BindingConflict { .. } => None,
        }
    }
}
