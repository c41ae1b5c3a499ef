//! The configuration of `serve`: one TOML file, or nothing at all.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

/// What `serve` is told. Every key may be left out.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where the service keeps what is its own, unless something else is said of it: the database, its key and the audit.
    pub state_directory: Option<PathBuf>,
    /// The port of sandboxes.
    pub proxy: ProxyPort,
    /// The port of administrators and of agent SDKs.
    pub admin: AdminPort,
    /// The database.
    pub store: StoreConfig,
    /// The record of the traffic.
    pub audit: AuditConfig,
    /// What is beyond the proxy.
    pub upstream: UpstreamConfig,
    /// Connections at a time; 16 at least.
    pub max_connections: usize,
    /// Threads that carry traffic; one for each core where nothing is said.
    pub threads: Option<usize>,
}

/// `[proxy]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct ProxyPort {
    /// Addresses with ports.
    pub listen: Vec<SocketAddr>,
    /// How sandboxes reach it, as a URL; its first address where nothing is said.
    pub public_url: Option<String>,
    /// TLS on the port itself.
    pub tls: Option<TlsFiles>,
}

/// `[admin]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct AdminPort {
    /// Addresses with ports.
    pub listen: Vec<SocketAddr>,
    /// The names, besides addresses, by which it is asked; others are refused.
    pub names: Vec<String>,
    /// TLS on the port itself.
    pub tls: Option<TlsFiles>,
}

/// A certificate with its key, as PEM files.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificate, and what it chains to.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// `[store]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// `sqlite:PATH` or `postgres://…`; a file in the state directory where nothing is said.
    pub url: Option<String>,
    /// The key that seals secrets; a file in the state directory, made at the first start, where nothing is said.
    pub key: Option<KeySource>,
    /// Keys that sealed before: they still open.
    pub older_keys: Vec<KeySource>,
    /// How long the service goes on with what it knows while the database is away, in seconds: 1 to 600.
    pub grace_seconds: Option<u64>,
}

/// Where a key comes from.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum KeySource {
    /// A file of 32 bytes, or of their base64, that only its owner may read.
    File(PathBuf),
    /// The output of a program, which is run without a shell.
    Command(Vec<String>),
}

/// `[audit]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct AuditConfig {
    /// The file; one in the state directory where nothing is said.
    pub file: Option<PathBuf>,
    /// At which size a new one is begun, in MiB.
    pub max_mb: u64,
    /// How many full ones are kept.
    pub keep: u32,
}

/// `[upstream]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamConfig {
    /// Authorities that are trusted besides the system's, as PEM files.
    pub ca: Vec<PathBuf>,
    /// Whom names are asked of, instead of the host's nameservers: `ADDRESS` or `ADDRESS:PORT`.
    pub nameservers: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            state_directory: None,
            proxy: ProxyPort::default(),
            admin: AdminPort::default(),
            store: StoreConfig::default(),
            audit: AuditConfig::default(),
            upstream: UpstreamConfig::default(),
            max_connections: 16_384,
            threads: None,
        }
    }
}

impl Default for ProxyPort {
    fn default() -> Self {
        Self { listen: vec![SocketAddr::from(([127, 0, 0, 1], 3129))], public_url: None, tls: None }
    }
}

impl Default for AdminPort {
    fn default() -> Self {
        Self { listen: vec![SocketAddr::from(([127, 0, 0, 1], 3130))], names: Vec::new(), tls: None }
    }
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { file: None, max_mb: 256, keep: 8 }
    }
}

/// Why a text is no configuration. It says where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is no TOML, or has a key or a value that is none.
    #[error("{0}")]
    Text(String),
    /// A value out of its bounds.
    #[error("`{key}` is {bounds}")]
    Bounds {
        /// The key.
        key: &'static str,
        /// What it may be.
        bounds: &'static str,
    },
}

impl Config {
    /// How long the service goes on without its database where nothing is said.
    const GRACE: u64 = 60;

    /// Reads a file's text. Relative paths are counted from `directory`.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(text: &str, directory: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text).map_err(|error| ConfigError::Text(error.to_string()))?;
        let bounds = |key, holds: bool, bounds| if holds { Ok(()) } else { Err(ConfigError::Bounds { key, bounds }) };
        bounds("max_connections", (16..=1_000_000).contains(&config.max_connections), "16 to 1000000")?;
        bounds("threads", config.threads.is_none_or(|threads| (1..=256).contains(&threads)), "1 to 256")?;
        let grace = config.store.grace_seconds;
        bounds("store.grace_seconds", grace.is_none_or(|grace| (1..=600).contains(&grace)), "1 to 600")?;
        bounds("proxy.listen", !config.proxy.listen.is_empty(), "an address with a port, at least")?;
        bounds("admin.listen", !config.admin.listen.is_empty(), "an address with a port, at least")?;
        bounds("audit.max_mb", (1..=1_048_576).contains(&config.audit.max_mb), "1 to 1048576")?;
        config.nameservers()?;
        config.paths().for_each(|path| *path = directory.join(&*path));
        Ok(config)
    }

    /// How long the service goes on without its database.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.store.grace_seconds.unwrap_or(Self::GRACE))
    }

    /// The nameservers with their ports.
    ///
    /// # Errors
    /// [`ConfigError::Bounds`] for one that is no address.
    pub fn nameservers(&self) -> Result<Vec<SocketAddr>, ConfigError> {
        let parse = |text: &String| {
            let address = text.parse().or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53)));
            let bounds = "a list of addresses, such as 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53";
            address.map_err(|_| ConfigError::Bounds { key: "upstream.nameservers", bounds })
        };
        self.upstream.nameservers.iter().map(parse).collect()
    }

    fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let keys = self.store.key.iter_mut().chain(&mut self.store.older_keys).filter_map(|key| match key {
            KeySource::File(path) => Some(path),
            KeySource::Command(_) => None,
        });
        let tls = [&mut self.proxy.tls, &mut self.admin.tls].into_iter().flatten();
        let tls = tls.flat_map(|files| [&mut files.certificate, &mut files.key]);
        keys.chain(tls).chain(&mut self.state_directory).chain(&mut self.audit.file).chain(&mut self.upstream.ca)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("/etc/sandbox-proxy"))
    }

    #[test]
    fn nothing_is_a_configuration() {
        let config = parse("").unwrap();
        assert_eq!(config, Config::default());
        assert!(config.proxy.listen.iter().chain(&config.admin.listen).all(|address| address.ip().is_loopback()));
        assert_eq!(config.grace(), Duration::from_secs(60));
    }

    #[test]
    fn paths_are_counted_from_the_file() {
        let text = "state_directory = \"state\"\n[store]\nkey = { file = \"key\" }\nolder_keys = [{ file = \"/k\" }, { command = [\"a\"] }]\n\
                    [admin]\ntls = { certificate = \"c.pem\", key = \"k.pem\" }\n[upstream]\nca = [\"ca.pem\"]\nnameservers = [\"192.0.2.1\", \"[2001:db8::1]:5353\"]\n";
        let config = parse(text).unwrap();
        assert_eq!(config.state_directory.as_deref(), Some(Path::new("/etc/sandbox-proxy/state")));
        assert_eq!(config.store.key, Some(KeySource::File("/etc/sandbox-proxy/key".into())));
        assert_eq!(config.store.older_keys[0], KeySource::File("/k".into()));
        assert_eq!(config.admin.tls.as_ref().unwrap().key, Path::new("/etc/sandbox-proxy/k.pem"));
        assert_eq!(config.upstream.ca, [Path::new("/etc/sandbox-proxy/ca.pem")]);
        let servers = config.nameservers().unwrap();
        assert_eq!(servers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["192.0.2.1:53", "[2001:db8::1]:5353"]);
    }

    #[test]
    fn mistakes_say_where() {
        for (text, says) in [
            ("nope = 1", "unknown field `nope`"),
            ("[proxy]\nlisten = [\"localhost\"]", "line 2"),
            ("[store]\nkey = { keyring = \"x\" }", "keyring"),
            ("[store]\nkey = { file = \"x\", command = [\"y\"] }", "line 2"),
            ("max_connections = 1", "`max_connections` is 16 to 1000000"),
            ("threads = 0", "`threads` is 1 to 256"),
            ("[store]\ngrace_seconds = 601", "`store.grace_seconds` is 1 to 600"),
            ("[proxy]\nlisten = []", "`proxy.listen` is an address"),
            ("[audit]\nmax_mb = 0", "`audit.max_mb`"),
            ("[upstream]\nnameservers = [\"dns.test\"]", "`upstream.nameservers`"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
