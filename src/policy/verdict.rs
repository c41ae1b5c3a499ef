//! The answers of a policy.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::types::{Authority, Host, Scheme};

use super::address::AddressClass;
use super::github::OutOfScope;
use super::mistake::Place;

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
    /// An allow rule.
    Rule {
        /// Where it was written.
        place: Place,
    },
    /// EgressPolicy, by the address that the client dialled: that very address is dialled, nothing is looked up.
    Egress {
        /// The entry that matched as it was written, or `allow_all`.
        entry: String,
    },
    /// A GitHub binding, for the hosts that GitHub's clients are sent to. Every request to them is judged by it.
    GitHub {
        /// Where it was written.
        place: Place,
    },
}

/// As the audit and `policy explain` say it.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NetworkAll => f.write_str("network all"),
            Self::Host { entry } => write!(f, "network host {entry}"),
            Self::Rule { place } => write!(f, "rule {place}"),
            Self::Egress { entry } => write!(f, "egress {entry}"),
            Self::GitHub { place } => write!(f, "github binding {place}"),
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
        /// A file fixes the network mode, so that `--allow` would contradict it.
        mode_is_fixed: bool,
    },
    /// A deny rule, whatever else permits it.
    #[error("a rule of this sandbox's policy denies {}{authority}{}", if *.whole { "" } else { "this request to " }, because(.reason))]
    RuleDenied {
        /// What was asked for, or the address that it leads to.
        authority: Authority,
        /// Where the rule was written.
        rule: Place,
        /// Whether it denies the destination, whatever is asked of it.
        whole: bool,
        /// What the rule says of itself.
        reason: Option<Arc<str>>,
    },
    /// Allow rules permit other methods for this path.
    #[error("{authority} may be reached, but not with {method} for this path{}", because(.reason))]
    MethodNotPermitted {
        /// What was asked for.
        authority: Authority,
        /// The method, where it is a common one.
        method: &'static str,
        /// Where the rule that comes nearest was written.
        rule: Place,
        /// What that rule says of itself.
        reason: Option<Arc<str>>,
    },
    /// Allow rules permit other paths.
    #[error("{authority} may be reached, but not this path of it{}", because(.reason))]
    PathNotPermitted {
        /// What was asked for.
        authority: Authority,
        /// Where the rule that comes nearest was written.
        rule: Place,
        /// What that rule says of itself.
        reason: Option<Arc<str>>,
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
    /// Rules permit it by another scheme.
    #[error("{authority} may be reached over {permitted}, not over {scheme}")]
    SchemeNotPermitted {
        /// What was asked for.
        authority: Authority,
        /// How it was spoken to.
        scheme: Scheme,
        /// How it may be.
        permitted: Scheme,
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
    /// A GitHub binding does not cover it.
    #[error("{}", denial.message)]
    OutOfScope {
        /// What was asked for.
        authority: Authority,
        /// Why.
        denial: OutOfScope,
    },
    /// Two bindings set one place of this request.
    #[error("two bindings set {place} for this request")]
    BindingConflict {
        /// What was asked for.
        authority: Authority,
        /// The place, such as `the header authorization`.
        place: String,
    },
}

impl Denial {
    /// The stable code, as in `x-sandbox-proxy-denial` and the audit.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotListed { .. } => "host_not_listed",
            Self::RuleDenied { .. } => "rule_denied",
            Self::MethodNotPermitted { .. } => "method_not_permitted",
            Self::PathNotPermitted { .. } => "path_not_permitted",
            Self::LocalName { .. } => "local_name",
            Self::HttpsOnly { .. } => "https_only",
            Self::SchemeNotPermitted { .. } => "scheme_not_permitted",
            Self::AddressBlocked { .. } => "address_blocked",
            Self::NoAddress { .. } => "no_address",
            Self::AmbiguousPath { .. } => "ambiguous_path",
            Self::OutOfScope { denial, .. } => denial.code.as_str(),
            Self::BindingConflict { .. } => "binding_conflict",
        }
    }

    /// What would permit it, where something would: an option of `run`, or what to write into the policy. It may name a file
    /// or an address that the sandbox has not seen: it is for the operator, and [`Self::cure_inside`] is for the sandbox.
    pub fn cure(&self) -> Option<String> {
        match self {
            Self::NotListed { authority, mode_is_fixed } => Some(cure_of_unlisted(authority, *mode_is_fixed)),
            Self::RuleDenied { rule, .. } => Some(format!("take out or narrow the deny rule at {rule}")),
            Self::MethodNotPermitted { method, rule, .. } => {
                Some(format!("{method} in the methods of the rule at {rule}, or a rule of its own"))
            }
            Self::PathNotPermitted { rule, .. } => {
                Some(format!("the path in the paths of the rule at {rule}, or a rule of its own"))
            }
            Self::AddressBlocked { address, class: AddressClass::Denied, .. } => {
                Some(format!("take {address} out of the addresses that the policy denies"))
            }
            Self::AddressBlocked { address, .. } => Some(format!("--allow-cidr {address}")),
            Self::SchemeNotPermitted { authority, scheme, .. } => {
                let Authority { host, port } = authority;
                Some(format!(
                    "[[network.rules]] with host = \"{host}\", scheme = \"{scheme}\", ports = [{port}], action = \"allow\""
                ))
            }
            Self::LocalName { .. }
            | Self::HttpsOnly { .. }
            | Self::NoAddress { .. }
            | Self::AmbiguousPath { .. }
            | Self::OutOfScope { .. }
            | Self::BindingConflict { .. } => None,
        }
    }

    /// The cure as the sandbox may read it: without a file of the host's and without an address that it did not write
    /// itself. A deny rule is meant, so nothing is said about taking it out.
    pub fn cure_inside(&self) -> Option<String> {
        match self {
            Self::RuleDenied { .. } | Self::AddressBlocked { class: AddressClass::Denied, .. } => None,
            Self::AddressBlocked { authority: Authority { host: Host::Name(name), .. }, .. } => {
                Some(format!("--allow-cidr with the address of {name}"))
            }
            Self::MethodNotPermitted { method, authority, .. } => {
                Some(format!("{method} in the methods of the rule for {authority}, or a rule of its own"))
            }
            Self::PathNotPermitted { authority, .. } => {
                Some(format!("the path in the paths of the rule for {authority}, or a rule of its own"))
            }
            Self::NotListed { .. }
            | Self::LocalName { .. }
            | Self::HttpsOnly { .. }
            | Self::SchemeNotPermitted { .. }
            | Self::AddressBlocked { .. }
            | Self::NoAddress { .. }
            | Self::AmbiguousPath { .. }
            | Self::OutOfScope { .. }
            | Self::BindingConflict { .. } => self.cure(),
        }
    }

    /// Where the rule was written that decided, or that comes nearest to permitting it.
    pub fn rule(&self) -> Option<&Place> {
        match self {
            Self::RuleDenied { rule, .. }
            | Self::MethodNotPermitted { rule, .. }
            | Self::PathNotPermitted { rule, .. } => Some(rule),
            Self::NotListed { .. }
            | Self::LocalName { .. }
            | Self::HttpsOnly { .. }
            | Self::SchemeNotPermitted { .. }
            | Self::AddressBlocked { .. }
            | Self::NoAddress { .. }
            | Self::AmbiguousPath { .. }
            | Self::OutOfScope { .. }
            | Self::BindingConflict { .. } => None,
        }
    }
}

fn because(reason: &Option<Arc<str>>) -> String {
    reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"))
}

/// A method's name where it is a common one: other ones are the client's own words, which a person would read as ours.
pub(super) fn common_method(method: &str) -> &'static str {
    const METHODS: [&str; 14] = [
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "PATCH",
        "DELETE",
        "OPTIONS",
        "PROPFIND",
        "PROPPATCH",
        "MKCOL",
        "COPY",
        "MOVE",
        "REPORT",
        "QUERY",
    ];
    METHODS.into_iter().find(|known| *known == method).unwrap_or("this method")
}

/// `--allow` takes https alone, so port 80 is answered with the host's https port; and it opens no blocked address.
fn cure_of_unlisted(authority: &Authority, mode_is_fixed: bool) -> String {
    let port = if authority.port == 80 { 443 } else { authority.port };
    match &authority.host {
        Host::Ip(ip) if AddressClass::of(*ip).is_some() => format!("--allow-cidr {ip}"),
        host if mode_is_fixed && port == 443 => format!("[[network.rules]] with host = \"{host}\", action = \"allow\""),
        host if mode_is_fixed => {
            format!("[[network.rules]] with host = \"{host}\", ports = [{port}], action = \"allow\"")
        }
        Host::Name(_) | Host::Ip(_) if authority.port == 80 => format!("--allow {}", authority.host),
        Host::Name(_) | Host::Ip(_) => format!("--allow {authority}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unlisted(text: &str) -> Option<String> {
        Denial::NotListed { authority: Authority::parse(text, 443).unwrap(), mode_is_fixed: false }.cure()
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
    fn where_the_mode_is_fixed_the_cure_is_a_rule() {
        let cure =
            |text| Denial::NotListed { authority: Authority::parse(text, 443).unwrap(), mode_is_fixed: true }.cure();
        let rule = "[[network.rules]] with host = \"a.test\",";
        assert_eq!(cure("a.test").unwrap(), format!("{rule} action = \"allow\""));
        assert_eq!(cure("a.test:80").unwrap(), format!("{rule} action = \"allow\""));
        assert_eq!(cure("a.test:8443").unwrap(), format!("{rule} ports = [8443], action = \"allow\""));
        assert_eq!(cure("10.0.0.1:8443").as_deref(), Some("--allow-cidr 10.0.0.1"));
    }

    #[test]
    fn the_cure_of_a_rule_is_in_the_file_for_the_operator_alone() {
        let authority = || Authority::parse("a.test:8443", 443).unwrap();
        let rule = || Place::File { name: "dir/p.toml".into(), line: 7, column: 1 };
        let reason = Some(Arc::from("read-only"));
        let denied = Denial::RuleDenied { authority: authority(), rule: rule(), whole: true, reason: reason.clone() };
        assert_eq!(denied.to_string(), "a rule of this sandbox's policy denies a.test:8443: read-only");
        assert_eq!(denied.cure().as_deref(), Some("take out or narrow the deny rule at dir/p.toml:7:1"));
        assert_eq!(denied.cure_inside(), None);
        let denied = Denial::RuleDenied { authority: authority(), rule: rule(), whole: false, reason: None };
        assert_eq!(denied.to_string(), "a rule of this sandbox's policy denies this request to a.test:8443");
        let method = Denial::MethodNotPermitted { authority: authority(), method: "PUT", rule: rule(), reason };
        assert_eq!(method.to_string(), "a.test:8443 may be reached, but not with PUT for this path: read-only");
        let path = Denial::PathNotPermitted { authority: authority(), rule: rule(), reason: None };
        assert_eq!(path.to_string(), "a.test:8443 may be reached, but not this path of it");
        for denial in [method, path] {
            assert!(denial.cure().is_some_and(|cure| cure.contains("of the rule at dir/p.toml:7:1")));
            assert!(
                denial
                    .cure_inside()
                    .is_some_and(|cure| cure.contains("of the rule for a.test:8443") && !cure.contains("p.toml"))
            );
        }
        assert_eq!(
            (common_method("POST"), common_method("post"), common_method("RUN-ME")),
            ("POST", "this method", "this method")
        );
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
