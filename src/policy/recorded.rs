//! What another policy would say to what an audit has recorded.

use std::net::IpAddr;

use crate::types::{Destination, Host, RequestFacts, Scheme};

use super::question::{SCHEMES, connection, request, without_bindings};
use super::verdict::{Denial, Permit};
use super::{AddressClass, EgressMode, Grant, Policy};

/// A request, or a connection, as far as a policy looks at it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recorded {
    /// Where it went. `dialled` is known where the host is an address, or where EgressPolicy permitted it.
    pub destination: Destination,
    /// None for a connection that was passed on unread, or that ended before it asked for something.
    pub method: Option<String>,
    /// As it was sent, without query. None where there was none, or where only its beginning was recorded.
    pub path: Option<String>,
    /// The path was too long to be recorded whole.
    pub path_is_cut: bool,
    /// The address that was dialled.
    pub upstream: Option<IpAddr>,
    /// What became of it.
    pub before: Before,
}

/// What the policy of the run said.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Before {
    /// It was permitted.
    Permitted {
        /// By EgressPolicy, for the address that the client dialled.
        by_egress: bool,
    },
    /// It was denied, for this code.
    Denied(String),
}

/// What becomes of it under another policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Permitted as before.
    StillPermitted,
    /// Denied as before, be it for another reason.
    StillDenied,
    /// It would pass.
    NowPermitted(Permit),
    /// It would be refused.
    NowDenied(Denial),
    /// The record does not hold what the decision would need.
    Unknown(&'static str),
}

impl Recorded {
    /// What becomes of it under this policy. Its names are not looked up: an address counts where it was recorded.
    pub fn under(&self, policy: &Policy) -> Fate {
        let answer = self.ask(policy);
        if self.path_is_cut && self.path_matters(policy) {
            return Fate::Unknown("its path is too long to have been recorded whole");
        }
        match (&self.before, answer) {
            (Before::Permitted { .. }, Ok(_)) => Fate::StillPermitted,
            (Before::Permitted { by_egress: true }, Err(denial)) => match (self.upstream, policy.egress().mode()) {
                (Some(_), _) | (None, EgressMode::BlockAll) => Fate::NowDenied(denial),
                (None, EgressMode::AllowAll | EgressMode::Custom) => {
                    Fate::Unknown("it was permitted by its address, which was not recorded")
                }
            },
            (Before::Permitted { by_egress: false }, Err(denial)) => Fate::NowDenied(denial),
            (Before::Denied(_), Err(_)) => Fate::StillDenied,
            (Before::Denied(code), Ok(permit)) => {
                let by_address = ["address_blocked", "no_address"].contains(&code.as_str());
                match self.destination.authority.host {
                    Host::Name(_) if by_address => {
                        Fate::Unknown("its name may be permitted, and its address was not recorded")
                    }
                    // Nothing but that blocks a public address.
                    Host::Ip(ip) if by_address && AddressClass::of(ip).is_none() => {
                        Fate::Unknown("its address was one of the host's own, which the record does not list")
                    }
                    Host::Name(_) | Host::Ip(_) => Fate::NowPermitted(permit),
                }
            }
        }
    }

    fn ask(&self, policy: &Policy) -> Result<Permit, Denial> {
        let Destination { authority, scheme, .. } = &self.destination;
        let permit = match (self.method.as_deref(), scheme) {
            (Some("CONNECT"), _) => without_bindings(self.by_any_scheme(policy)?),
            (Some(method), _) => {
                let path = self.path.as_deref().unwrap_or("/");
                request(policy, &RequestFacts { destination: &self.destination, method, path })?
            }
            (None, Scheme::Tcp) => without_bindings(connection(policy, &self.destination)?),
            (None, Scheme::Https | Scheme::Http) => {
                let unread = policy.passes_unread(&self.destination);
                without_bindings(unread.map_or_else(|| policy.destination(&self.destination), Ok)?)
            }
        };
        let dialled = match authority.host {
            Host::Ip(ip) => Some(ip),
            Host::Name(_) => self.upstream,
        };
        match dialled {
            Some(ip) => policy.check_addresses(authority, *scheme, &[ip], &[]).map(|_| permit),
            None => Ok(permit),
        }
    }

    /// CONNECT is judged before it is known what will be spoken.
    fn by_any_scheme(&self, policy: &Policy) -> Result<Grant, Denial> {
        let by = |scheme| policy.destination(&Destination { scheme, ..self.destination.clone() });
        SCHEMES.into_iter().find_map(|scheme| by(scheme).ok()).map_or_else(|| by(Scheme::Https), Ok)
    }

    /// Whether the decision could depend on the path.
    fn path_matters(&self, policy: &Policy) -> bool {
        let authority = &self.destination.authority;
        policy.is_bound(authority) || policy.rules().of_host(&authority.host).any(|rule| rule.paths.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{NamedText, PolicyOptions, load};
    use crate::types::Authority;

    fn policy(text: &str) -> Policy {
        let file = NamedText { name: "p.toml".to_owned(), text: text.to_owned() };
        load(&[file], &PolicyOptions::default()).unwrap_or_else(|mistakes| panic!("{mistakes}")).policy
    }

    const POLICY: &str = "
[network]
mode = \"allow\"
hosts = [\"listed.test\", \"10.0.0.1\", \"11.22.33.44\"]
[[network.rules]]
host = \"rule.test\"
action = \"allow\"
methods = [\"GET\"]
paths = [\"/v1/**\"]
[[network.rules]]
host = \"db.test\"
action = \"allow\"
scheme = \"tcp\"
ports = [5432]
[egress]
mode = \"custom\"
allow_cidrs = [\"9.9.9.0/24\"]
";

    /// `SCHEME METHOD AUTHORITY PATH`, with `-` for none, the address that was dialled, and what was said before.
    fn fate(asked: &str, upstream: Option<&str>, before: Before) -> String {
        let [scheme, method, authority, path] = asked.split(' ').collect::<Vec<_>>()[..] else { panic!("{asked}") };
        let scheme = SCHEMES.into_iter().find(|known| known.as_str() == scheme).unwrap();
        let given = |text: &str| Some(text.to_owned()).filter(|text| text != "-");
        let authority = Authority::parse(authority, 443).unwrap();
        let upstream = upstream.map(|address| address.parse().unwrap());
        let dialled = match authority.host {
            Host::Ip(ip) => Some(ip),
            Host::Name(_) => upstream.filter(|_| before == Before::Permitted { by_egress: true }),
        };
        let destination = Destination { authority, scheme, dialled };
        let path_is_cut = path == "cut";
        let path = given(path).filter(|_| !path_is_cut);
        let recorded = Recorded { destination, method: given(method), path, path_is_cut, upstream, before };
        match recorded.under(&policy(POLICY)) {
            Fate::StillPermitted => "permitted".to_owned(),
            Fate::StillDenied => "denied".to_owned(),
            Fate::NowPermitted(permit) => format!("now by {}", permit.grant),
            Fate::NowDenied(denial) => format!("now {}", denial.code()),
            Fate::Unknown(why) => format!("unknown: {why}"),
        }
    }

    const PERMITTED: Before = Before::Permitted { by_egress: false };

    macro_rules! fates {
        ($($name:ident: $asked:literal, $upstream:expr, $before:expr => $want:literal;)*) => { $(
            #[test]
            fn $name() {
                assert_eq!(fate($asked, $upstream, $before), $want);
            }
        )* };
    }

    fates! {
        as_before: "https GET listed.test /", Some("11.22.33.9"), PERMITTED => "permitted";
        no_longer_listed: "https GET other.test /", Some("11.22.33.9"), PERMITTED => "now host_not_listed";
        another_method: "https POST rule.test /v1/x", None, PERMITTED => "now method_not_permitted";
        an_address_that_is_now_blocked: "https GET listed.test /", Some("10.9.9.9"), PERMITTED => "now address_blocked";
        denied_as_before: "https GET other.test /", None, Before::Denied("host_not_listed".into()) => "denied";
        denied_for_another_reason: "https POST rule.test /v1/x", None, Before::Denied("host_not_listed".into()) => "denied";
        listed_since: "https GET listed.test /", None, Before::Denied("host_not_listed".into()) => "now by network host listed.test";
        a_rule_since: "https GET rule.test /v1/x", None, Before::Denied("path_not_permitted".into()) => "now by rule p.toml:5:1";
        a_name_that_was_blocked: "https GET listed.test /", None, Before::Denied("address_blocked".into())
            => "unknown: its name may be permitted, and its address was not recorded";
        a_literal_that_is_blocked: "https GET 10.0.0.1 /", None, Before::Denied("address_blocked".into()) => "denied";
        a_literal_of_the_host: "https GET 11.22.33.44 /", None, Before::Denied("address_blocked".into())
            => "unknown: its address was one of the host's own, which the record does not list";
        by_address_as_before: "https GET any.test /", Some("9.9.9.9"), Before::Permitted { by_egress: true } => "permitted";
        by_address_no_longer: "https GET any.test /", Some("8.8.8.8"), Before::Permitted { by_egress: true } => "now host_not_listed";
        by_an_address_that_is_not_known: "https GET any.test /", None, Before::Permitted { by_egress: true }
            => "unknown: it was permitted by its address, which was not recorded";
        a_long_path: "https GET rule.test cut", None, PERMITTED => "unknown: its path is too long to have been recorded whole";
        a_long_path_that_nobody_looks_at: "https GET listed.test cut", None, PERMITTED => "permitted";
        a_connection: "tcp - db.test:5432 -", None, PERMITTED => "permitted";
        a_connection_to_another_port: "tcp - db.test:5433 -", None, PERMITTED => "now host_not_listed";
        tls_that_was_passed_on: "https - db.test:5432 -", None, PERMITTED => "permitted";
        tls_without_a_request: "https - other.test -", None, Before::Denied("host_not_listed".into()) => "denied";
        connect: "https CONNECT listed.test -", None, Before::Denied("host_not_listed".into()) => "now by network host listed.test";
        connect_for_tcp: "https CONNECT db.test:5432 -", None, Before::Denied("host_not_listed".into()) => "now by rule p.toml:10:1";
        connect_denied: "https CONNECT other.test -", None, Before::Denied("host_not_listed".into()) => "denied";
        plain_http: "http GET listed.test:80 /", None, Before::Denied("https_only".into()) => "denied";
    }
}
