//! The name layer of a policy: which hosts may be reached over https.

use std::collections::HashMap;

use crate::types::{Authority, Host, HostError, Scheme};

use super::verdict::{Denial, Grant};

/// The port of an entry that names none: `allow` means https.
pub(super) const DEFAULT_PORT: u16 = 443;

/// The seed's `Network`: nothing (the default), everything, or exact `host` and `host:port` entries over https.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network(Reach);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Reach {
    #[default]
    None,
    All,
    Allow(HashMap<Host, Vec<u16>>),
}

/// The mode of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkMode {
    /// No host.
    None,
    /// Every host.
    All,
    /// The hosts of the list.
    Allow,
}

/// Why a text is no `host` or `host:port` entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// `https://…`.
    #[error("an entry has no scheme; write the host alone, such as api.example.com or api.example.com:8443")]
    Scheme,
    /// A path, query or fragment.
    #[error("an entry has no path; write the host alone, such as api.example.com or api.example.com:8443")]
    Path,
    /// `*.example.com`.
    #[error("wildcards are not accepted here; list each host by its full name")]
    Wildcard,
    /// A name for the machine itself, which is never resolved.
    #[error("this name means the machine itself and is never resolved; list the address, such as 127.0.0.1:8443")]
    Local,
    /// No host.
    #[error("{0}; write a host such as api.example.com or api.example.com:8443")]
    Host(HostError),
}

/// Why a [`Network`] cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// `allow` without an entry.
    #[error("allow needs at least one host; none permits no host")]
    NoHost,
    /// A bad entry.
    #[error("{entry:?}: {error}")]
    Entry {
        /// The entry as given.
        entry: String,
        /// What is wrong with it.
        error: EntryError,
    },
}

impl Network {
    /// No host may be reached.
    pub fn none() -> Self {
        Self(Reach::None)
    }

    /// Every name may be reached, over any scheme; blocked addresses stay blocked.
    pub fn all() -> Self {
        Self(Reach::All)
    }

    /// Exactly these `host` and `host:port` entries may be reached, over https; without a port it is 443.
    ///
    /// # Errors
    /// [`NetworkError`] when there is no entry, or for the first bad one.
    pub fn allow<I>(hosts: I) -> Result<Self, NetworkError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let parse = |entry: I::Item| {
            let text = entry.as_ref();
            parse_entry(text).map_err(|error| NetworkError::Entry { entry: text.to_owned(), error })
        };
        let entries = hosts.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        if entries.is_empty() { Err(NetworkError::NoHost) } else { Ok(Self::of_entries(entries)) }
    }

    /// Whether this network permits https connections to `host` or `host:port`, exactly as the decision says. What is no
    /// host is not reached.
    pub fn reaches(&self, entry: &str) -> bool {
        Authority::parse(entry, DEFAULT_PORT)
            .is_ok_and(|authority| !is_local(&authority.host) && self.grant(&authority, Scheme::Https).is_ok())
    }

    /// The mode.
    pub fn mode(&self) -> NetworkMode {
        match self.0 {
            Reach::None => NetworkMode::None,
            Reach::All => NetworkMode::All,
            Reach::Allow(_) => NetworkMode::Allow,
        }
    }

    /// The entries of `allow`, sorted; empty in the other modes.
    pub fn entries(&self) -> Vec<Authority> {
        match &self.0 {
            Reach::None | Reach::All => Vec::new(),
            Reach::Allow(hosts) => {
                let of_host = |(host, ports): (&Host, &Vec<u16>)| {
                    ports.iter().map(|&port| Authority::new(host.clone(), port)).collect::<Vec<_>>()
                };
                let mut entries: Vec<_> = hosts.iter().flat_map(of_host).collect();
                entries.sort();
                entries
            }
        }
    }

    /// The caller has made sure that there is an entry.
    pub(super) fn of_entries(entries: impl IntoIterator<Item = Authority>) -> Self {
        let mut hosts = HashMap::<Host, Vec<u16>>::new();
        for Authority { host, port } in entries {
            let ports = hosts.entry(host).or_default();
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
        Self(Reach::Allow(hosts))
    }

    /// A listed host that is spoken to in plain is told so, on its own port and on 80, where http would go.
    pub(super) fn grant(&self, authority: &Authority, scheme: Scheme) -> Result<Grant, Denial> {
        let ports = match &self.0 {
            Reach::None => None,
            Reach::All => return Ok(Grant::NetworkAll),
            Reach::Allow(hosts) => hosts.get(&authority.host),
        };
        let listed = ports.is_some_and(|ports| ports.contains(&authority.port));
        match scheme {
            Scheme::Https if listed => Ok(Grant::Host { entry: authority.clone() }),
            Scheme::Http if listed || (ports.is_some() && authority.port == 80) => {
                Err(Denial::HttpsOnly { authority: authority.clone(), scheme })
            }
            Scheme::Tcp if listed => Err(Denial::HttpsOnly { authority: authority.clone(), scheme }),
            Scheme::Https | Scheme::Http | Scheme::Tcp => {
                Err(Denial::NotListed { authority: authority.clone(), mode_is_fixed: false })
            }
        }
    }

    /// Whether a port of this host is permitted that `closed` does not name. `all` has ports without end, so a list of closed
    /// ones does not matter to it.
    pub(super) fn names(&self, host: &Host, closed: impl Fn(u16) -> bool) -> bool {
        match &self.0 {
            Reach::None => false,
            Reach::All => true,
            Reach::Allow(hosts) => hosts.get(host).is_some_and(|ports| ports.iter().any(|port| !closed(*port))),
        }
    }
}

/// Parses the `host` or `host:port` of a list or binding.
///
/// # Errors
/// [`EntryError`] says what is wrong and what would be right.
pub fn parse_entry(text: &str) -> Result<Authority, EntryError> {
    if text.contains("://") {
        return Err(EntryError::Scheme);
    }
    if text.contains('*') {
        return Err(EntryError::Wildcard);
    }
    if text.contains(['/', '?', '#']) {
        return Err(EntryError::Path);
    }
    let authority = Authority::parse(text, DEFAULT_PORT).map_err(EntryError::Host)?;
    if is_local(&authority.host) { Err(EntryError::Local) } else { Ok(authority) }
}

/// The names of RFC 6761 section 6.3, and those that hosts files commonly give to loopback.
pub(super) fn is_local(host: &Host) -> bool {
    const NAMES: [&str; 8] = [
        "localhost.localdomain",
        "localhost4",
        "localhost4.localdomain4",
        "localhost6",
        "localhost6.localdomain6",
        "ip6-localhost",
        "ip6-loopback",
        "loopback",
    ];
    match host {
        Host::Ip(_) => false,
        Host::Name(name) => {
            let name = name.as_str();
            name == "localhost" || name.ends_with(".localhost") || NAMES.contains(&name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allow_refuses_what_the_seed_refuses() {
        assert_eq!(Network::allow::<[&str; 0]>([]), Err(NetworkError::NoHost));
        for (entry, error) in [
            ("https://a.test", EntryError::Scheme),
            ("a.test/", EntryError::Path),
            ("a.test?x", EntryError::Path),
            ("a.test#x", EntryError::Path),
            ("*", EntryError::Wildcard),
            ("*.a.test", EntryError::Wildcard),
            ("a*.test:443", EntryError::Wildcard),
            ("", EntryError::Host(HostError::Empty)),
            (" ", EntryError::Host(HostError::Character(' '))),
            ("a.test,b.test", EntryError::Host(HostError::Character(','))),
            ("u@a.test", EntryError::Host(HostError::Character('@'))),
            ("a.test:0", EntryError::Host(HostError::Port)),
            ("a.test:https", EntryError::Host(HostError::Port)),
            ("localhost", EntryError::Local),
            ("Foo.LOCALHOST.:8443", EntryError::Local),
            ("localhost.localdomain", EntryError::Local),
            ("ip6-localhost", EntryError::Local),
        ] {
            assert_eq!(parse_entry(entry), Err(error.clone()), "{entry:?}");
            let whole = NetworkError::Entry { entry: entry.to_owned(), error };
            assert_eq!(Network::allow(["a.test", entry]), Err(whole), "{entry:?}");
        }
    }

    #[test]
    fn reaches_compares_canonical_hosts_and_exact_ports() {
        let network =
            Network::allow(["Api.Example.com.", "b\u{fc}cher.test:8443", "127.1", "[::FFFF:10.0.0.1]:80"]).unwrap();
        for yes in [
            "api.example.com",
            "API.EXAMPLE.COM:443",
            "api.example.com.",
            "xn--bcher-kva.test:8443",
            "0x7f000001",
            "10.0.0.1:80",
        ] {
            assert!(network.reaches(yes), "{yes:?}");
        }
        for no in [
            "",
            "api.example.com:8443",
            "api.example.com:80",
            "example.com",
            "x.api.example.com",
            "evilapi.example.com",
            "api.example.com.evil.test",
            "api.example.com..",
            "*.example.com",
            "https://api.example.com",
            "api.example.com/",
            "api.example.com\0.evil.test",
            "b\u{fc}cher.test",
            "10.0.0.1",
        ] {
            assert!(!network.reaches(no), "{no:?}");
        }
    }

    #[test]
    fn all_and_none() {
        assert!(Network::all().reaches("anything.test:1"));
        assert!(!Network::all().reaches("localhost"));
        assert!(!Network::all().reaches("a.localhost:8443"));
        assert!(!Network::all().reaches("a b"));
        assert!(!Network::none().reaches("anything.test"));
        assert_eq!(Network::default(), Network::none());
    }

    #[test]
    fn entries_are_sorted_and_without_repeats() {
        let network = Network::allow(["b.test", "a.test:8443", "A.test.", "b.test:443"]).unwrap();
        let entries: Vec<_> = network.entries().iter().map(ToString::to_string).collect();
        assert_eq!(entries, ["a.test", "a.test:8443", "b.test"]);
    }
}
