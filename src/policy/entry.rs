//! How a connection is taken: passed on unread, or with a look inside.

use crate::types::{Authority, Destination, Host, HostName, Scheme};

use super::decide::hosts_of;
use super::rule::Schemes;
use super::{Denial, EgressMode, Grant, NetworkMode, Policy};

/// How a connection is taken before anything of it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Its bytes are passed on unread, from the first one on.
    Relay(Grant),
    /// What it speaks has to be seen.
    Look {
        /// What permits to pass on what is neither TLS nor HTTP, if anything does.
        other: Option<Grant>,
    },
}

impl Policy {
    /// How a connection to this destination is taken, whatever its scheme. Bytes are passed on unread where nothing but tcp is
    /// permitted, and where Network or EgressPolicy permits everything and nothing else could matter: no binding, no rule
    /// for the host, no deny rule that what is inside could be for.
    ///
    /// # Errors
    /// The [`Denial`] of https, when nothing may be spoken to it. What a connection names inside, of which only the address
    /// is known, may still be permitted.
    pub fn entry(&self, destination: &Destination) -> Result<Entry, Denial> {
        let by = |scheme| self.destination(&Destination { scheme, ..destination.clone() });
        match (by(Scheme::Tcp), by(Scheme::Https)) {
            (Err(_), Err(denial)) => by(Scheme::Http).map(|_| Entry::Look { other: None }).map_err(|_| denial),
            (Err(_), Ok(_)) => Ok(Entry::Look { other: None }),
            (Ok(grant @ (Grant::NetworkAll | Grant::Egress { .. })), _) if self.unseen(destination) => {
                Ok(Entry::Relay(grant))
            }
            (Ok(grant @ Grant::Rule { .. }), Err(_)) if !self.must_see(destination) && by(Scheme::Http).is_err() => {
                Ok(Entry::Relay(grant))
            }
            (Ok(grant), _) => Ok(Entry::Look { other: Some(grant).filter(|_| !self.must_see(destination)) }),
        }
    }

    /// What permits to pass on unread what speaks TLS or HTTP, the destination's scheme, if anything does.
    pub fn passes_unread(&self, destination: &Destination) -> Option<Grant> {
        let through = || self.passthrough.opening(&destination.authority, destination.scheme).is_some();
        match self.destination(destination) {
            // Whatever else permits the host.
            Ok(_) if self.github(destination).is_some() => None,
            Ok(grant) if through() => Some(grant),
            Ok(grant @ (Grant::NetworkAll | Grant::Egress { .. })) => self.unseen(destination).then_some(grant),
            Ok(Grant::Host { .. } | Grant::Rule { .. } | Grant::GitHub { .. }) => None,
            Err(_) => {
                let tcp = Destination { scheme: Scheme::Tcp, ..destination.clone() };
                self.destination(&tcp).ok().filter(|_| !self.must_see(destination))
            }
        }
    }

    /// Whether TLS may pass unread at all, so that its ClientHello is worth a look of its own.
    pub fn may_pass_tls_unread(&self) -> bool {
        let by_network = self.network.mode() == NetworkMode::All || self.egress.mode() != EgressMode::BlockAll;
        by_network || self.rules.relay_any() || !self.passthrough.as_slice().is_empty()
    }

    /// Whether a name has to keep its connections known by it: what is passed on unread does not say a name, be that because of
    /// a tcp rule, or because addresses are permitted whatever they are called while a rule or a binding is for the name. So do hosts of
    /// storage that a GitHub binding opens for URLs that were seen: their names could be made up to say something to a nameserver.
    pub fn is_known_by_name_only(&self, name: &HostName) -> bool {
        let host = Host::Name(name.clone());
        let by_address = self.network.mode() == NetworkMode::All || self.egress.mode() != EgressMode::BlockAll;
        let is_meant = || {
            let is_bound = self.bindings.iter().any(|bound| bound.host().host == host);
            self.rules.say_anything_of(&host) || is_bound || self.githubs.iter().any(|github| github.covers_host(&host))
        };
        let is_storage = || self.githubs.iter().any(|github| github.is_storage(&host));
        self.rules.open_any(&host, Schemes::Only(Scheme::Tcp)) || by_address && is_meant() || is_storage()
    }

    /// Whether something for this destination looks at requests, or denies https or http.
    fn must_see(&self, destination: &Destination) -> bool {
        let Destination { authority: authority @ Authority { port, .. }, .. } = destination;
        let closes = |host: &Host, scheme| self.rules.closing(host, *port, scheme).is_some();
        self.is_bound(authority)
            || hosts_of(destination).any(|host| {
                self.rules.look_inside(&host, *port) || closes(&host, Scheme::Https) || closes(&host, Scheme::Http)
            })
    }

    /// Whether nothing that is said inside a connection could matter to a policy that permits everything there.
    fn unseen(&self, destination: &Destination) -> bool {
        let by_address = matches!(destination.authority.host, Host::Ip(_)) && destination.dialled.is_some();
        let names_matter =
            !self.rules.as_slice().is_empty() || !self.bindings.is_empty() || self.network.mode() == NetworkMode::Allow;
        !(self.learning || self.must_see(destination) || self.rules.deny_any() || by_address && names_matter)
    }
}
