//! The answers of a policy.

use std::fmt;
use std::net::IpAddr;

use crate::types::{Authority, Host, Scheme};

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
        /// The entry that matched as it was written, or `allow_all`.
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
    /// A name that means the machine itself (RFC 6761 section 6.3), which no policy permits.
    #[error("{authority} is a name for the machine itself, which no policy permits")]
    LocalName {
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
    /// The look-up gave no address to check, so there is none to dial.
    #[error("{authority} has no address")]
    NoAddress {
        /// What was asked for.
        authority: Authority,
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
            Self::LocalName { .. } => "local_name",
            Self::HttpsOnly { .. } => "https_only",
            Self::AddressBlocked { .. } => "address_blocked",
            Self::NoAddress { .. } => "no_address",
            Self::AmbiguousPath { .. } => "ambiguous_path",
            Self::BindingConflict { .. } => "binding_conflict",
        }
    }

    /// The option of `run` that would permit it, where one would. It may name an address that the sandbox has not seen:
    /// it is for the operator, and [`Self::cure_inside`] is for the sandbox.
    pub fn cure(&self) -> Option<String> {
        match self {
            Self::NotListed { authority } => Some(cure_of_unlisted(authority)),
            Self::AddressBlocked { address, .. } => Some(format!("--allow-cidr {address}")),
            Self::LocalName { .. }
            | Self::HttpsOnly { .. }
            | Self::NoAddress { .. }
            | Self::AmbiguousPath { .. }
            | Self::BindingConflict { .. } => None,
        }
    }

    /// The cure as the sandbox may read it: without an address that it did not write itself.
    pub fn cure_inside(&self) -> Option<String> {
        match self {
            Self::AddressBlocked { authority: Authority { host: Host::Name(name), .. }, .. } => {
                Some(format!("--allow-cidr with the address of {name}"))
            }
            Self::NotListed { .. }
            | Self::LocalName { .. }
            | Self::HttpsOnly { .. }
            | Self::AddressBlocked { .. }
            | Self::NoAddress { .. }
            | Self::AmbiguousPath { .. }
            | Self::BindingConflict { .. } => self.cure(),
        }
    }
}

/// `--allow` takes https alone, so port 80 is answered with the host's https port; and it opens no blocked address.
fn cure_of_unlisted(authority: &Authority) -> String {
    match &authority.host {
        Host::Ip(ip) if AddressClass::of(*ip).is_some() => format!("--allow-cidr {ip}"),
        Host::Name(_) | Host::Ip(_) if authority.port == 80 => format!("--allow {}", authority.host),
        Host::Name(_) | Host::Ip(_) => format!("--allow {authority}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unlisted(text: &str) -> Option<String> {
        Denial::NotListed { authority: Authority::parse(text, 443).unwrap() }.cure()
    }

    #[test]
    fn the_cure_is_the_option_that_would_permit_it() {
        assert_eq!(unlisted("a.test").as_deref(), Some("--allow a.test"));
        assert_eq!(unlisted("a.test:8443").as_deref(), Some("--allow a.test:8443"));
        assert_eq!(unlisted("a.test:80").as_deref(), Some("--allow a.test"));
        assert_eq!(unlisted("[2606:4700::1]").as_deref(), Some("--allow [2606:4700::1]"));
        assert_eq!(unlisted("10.0.0.1:5432").as_deref(), Some("--allow-cidr 10.0.0.1"));
    }

    #[test]
    fn what_the_sandbox_reads_holds_no_resolved_address() {
        let blocked = |text: &str| Denial::AddressBlocked {
            authority: Authority::parse(text, 443).unwrap(),
            address: IpAddr::from([10, 0, 0, 1]),
            class: AddressClass::Private,
        };
        let by_name = blocked("db.test");
        assert_eq!(by_name.to_string(), "db.test is at a private address, which is blocked");
        assert_eq!(by_name.cure().as_deref(), Some("--allow-cidr 10.0.0.1"));
        assert_eq!(by_name.cure_inside().as_deref(), Some("--allow-cidr with the address of db.test"));
        assert_eq!(blocked("10.0.0.1").cure_inside().as_deref(), Some("--allow-cidr 10.0.0.1"));
    }
}
