//! The only place that resolves a name, and it hands out checked addresses only.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ProtocolConfig, ResolveHosts, ResolverConfig,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver};

use crate::policy::{CheckedAddrs, Denial, Policy};
use crate::types::{Authority, Host, Scheme};

/// How long one question to one nameserver may take; it is asked twice.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Reads the host's hosts file first, then asks the nameservers; both are checked alike. One a runtime.
pub struct Resolver {
    inner: TokioResolver,
    hosts: Hosts,
}

/// Why a destination has no address to dial.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The policy refuses an address.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// The name does not exist.
    #[error("there is no host {0}")]
    NotFound(Authority),
    /// The name exists and has no address.
    #[error("{0} has no address")]
    NoAddress(Authority),
    /// The nameservers did not answer.
    #[error("no nameserver answered for {0}")]
    Unanswered(Authority),
    /// This host's own addresses cannot be read, so none can be checked against them.
    #[error("this host's own addresses cannot be read")]
    OwnAddresses,
}

/// A resolver cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ResolverError {
    /// `/etc/resolv.conf` or the hosts file.
    #[error("the host's resolver configuration cannot be used: {0}")]
    System(String),
}

impl Resolver {
    /// A resolver that asks `nameservers`, or those of the host where the list is empty.
    ///
    /// # Errors
    /// When the host's configuration cannot be read.
    pub fn new(nameservers: &[SocketAddr]) -> Result<Self, ResolverError> {
        let system = |e: hickory_resolver::net::NetError| ResolverError::System(e.to_string());
        let mut builder = match nameservers {
            [] => TokioResolver::builder_tokio().map_err(system)?,
            some => {
                let servers = some.iter().map(name_server).collect();
                let config = ResolverConfig::from_parts(None, Vec::new(), servers);
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
        };
        let options = builder.options_mut();
        options.timeout = TIMEOUT;
        options.attempts = 1;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // Read here, since the library would still ask the nameservers for the family that the file leaves out.
        options.use_hosts_file = ResolveHosts::Never;
        options.cache_size = 1024;
        options.positive_max_ttl = Some(Duration::from_secs(60));
        options.negative_max_ttl = Some(Duration::from_secs(5));
        let hosts = match Hosts::from_system() {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(ResolverError::System(format!("/etc/hosts: {error}")));
            }
            read => read.unwrap_or_default(),
        };
        Ok(Self { inner: builder.build().map_err(system)?, hosts })
    }

    /// The addresses of a destination, each of them checked by the policy. A literal address is checked, not looked up.
    ///
    /// # Errors
    /// [`ResolveError`].
    pub async fn resolve(
        &self,
        policy: &Policy,
        authority: &Authority,
        scheme: Scheme,
    ) -> Result<CheckedAddrs, ResolveError> {
        let answers = match &authority.host {
            Host::Ip(ip) => vec![*ip],
            Host::Name(name) if !policy.may_resolve(name) => {
                return Err(Denial::NotListed { authority: authority.clone(), mode_is_fixed: false }.into());
            }
            Host::Name(name) => self.look_up(name.as_str(), authority).await?,
        };
        self.check(policy, authority, scheme, &answers)
    }

    /// The addresses of a host that the person who runs the proxy has named, and no sandbox can: unchecked.
    ///
    /// # Errors
    /// [`ResolveError`], but no denial.
    pub async fn resolve_unchecked(&self, authority: &Authority) -> Result<Vec<IpAddr>, ResolveError> {
        match &authority.host {
            Host::Ip(ip) => Ok(vec![*ip]),
            Host::Name(name) => self.look_up(name.as_str(), authority).await,
        }
    }

    /// Checks addresses that need no look-up: the one that the client itself dialled.
    ///
    /// # Errors
    /// [`ResolveError`].
    pub fn check(
        &self,
        policy: &Policy,
        authority: &Authority,
        scheme: Scheme,
        answers: &[IpAddr],
    ) -> Result<CheckedAddrs, ResolveError> {
        let own = own_addresses().map_err(|_| ResolveError::OwnAddresses)?;
        Ok(policy.check_addresses(authority, scheme, answers, &own)?)
    }

    async fn look_up(&self, name: &str, authority: &Authority) -> Result<Vec<IpAddr>, ResolveError> {
        let Ok(mut name) = Name::from_ascii(name) else { return Err(ResolveError::NotFound(authority.clone())) };
        name.set_fqdn(true);
        let listed = self.listed(&name);
        if !listed.is_empty() {
            return Ok(listed);
        }
        match self.inner.lookup_ip(name).await {
            Ok(found) => {
                let answers: Vec<IpAddr> = found.iter().collect();
                if answers.is_empty() { Err(ResolveError::NoAddress(authority.clone())) } else { Ok(answers) }
            }
            Err(e) if e.is_nx_domain() => Err(ResolveError::NotFound(authority.clone())),
            Err(e) if e.is_no_records_found() => Err(ResolveError::NoAddress(authority.clone())),
            Err(error) => {
                tracing::debug!(%authority, %error, "look-up failed");
                Err(ResolveError::Unanswered(authority.clone()))
            }
        }
    }
}

impl Resolver {
    /// What the hosts file says of a name. Where it gives one family, the other has no address, as with the host's own
    /// programs.
    fn listed(&self, name: &Name) -> Vec<IpAddr> {
        let of_type = |kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind));
        let found = [RecordType::A, RecordType::AAAA].into_iter().filter_map(of_type);
        found.flat_map(|found| found.answers().iter().filter_map(|r| r.data.ip_addr()).collect::<Vec<_>>()).collect()
    }
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let connection = |protocol| {
        let mut connection = ConnectionConfig::new(protocol);
        connection.port = address.port();
        connection
    };
    NameServerConfig::new(address.ip(), true, vec![connection(ProtocolConfig::Udp), connection(ProtocolConfig::Tcp)])
}

/// The addresses of this host's own interfaces, read anew each time since they change.
fn own_addresses() -> std::io::Result<Vec<IpAddr>> {
    let own = nix::ifaddrs::getifaddrs()?.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
    });
    Ok(own.collect())
}
