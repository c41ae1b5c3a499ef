//! The certificates that a sandbox is shown: one for each name it asks for, signed by its own authority.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rcgen::{CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::{self, Ticketer, cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};

use crate::types::Host;

use super::{SandboxCa, TlsError, lifetime, random_serial};

/// Where the time comes from.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Bounds of [`LeafConfigs`].
#[derive(Clone, Copy, Debug)]
pub struct LeafLimits {
    /// Names held at once, at least 1. Each holds about 4 KB.
    pub names: usize,
}

impl Default for LeafLimits {
    fn default() -> Self {
        Self { names: 1024 }
    }
}

/// The TLS settings towards one sandbox, made when a name is first asked for and kept for later connections.
///
/// At [`LeafLimits::names`] the name that was used longest ago is forgotten and made anew when it is asked for again, so a
/// sandbox that asks for ever new names costs itself time and nobody memory.
pub struct LeafConfigs {
    ca: Arc<SandboxCa>,
    clock: Clock,
    limits: LeafLimits,
    key: KeyPair,
    signing_key: Arc<dyn SigningKey>,
    template: ServerConfig,
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    entries: HashMap<Host, Entry>,
    /// Counts uses; the entry with the lowest `used` goes first.
    uses: u64,
}

struct Entry {
    config: Arc<ServerConfig>,
    renew_at: SystemTime,
    used: u64,
}

impl LeafConfigs {
    /// Makes the one leaf key of this sandbox.
    ///
    /// # Errors
    /// [`TlsError`] when the system gives no randomness.
    pub fn new(ca: Arc<SandboxCa>, limits: LeafLimits) -> Result<Self, TlsError> {
        Self::with_clock(ca, limits, Arc::new(SystemTime::now))
    }

    /// [`Self::new`] with another source of time.
    ///
    /// # Errors
    /// As there.
    pub fn with_clock(ca: Arc<SandboxCa>, limits: LeafLimits, clock: Clock) -> Result<Self, TlsError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let pkcs8 = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialized_der()));
        let signing_key = aws_lc_rs::sign::any_ecdsa_type(&pkcs8)?;
        let template = template()?;
        Ok(Self { ca, clock, limits, key, signing_key, template, cache: Mutex::default() })
    }

    /// The settings for a connection to `host`: its certificate (that name or address alone, never a wildcard), TLS 1.2
    /// and 1.3, ALPN h2 and http/1.1, no early data. Tickets are bound to the name: those of another name, another sandbox
    /// or a forgotten entry lead to a full handshake. A certificate with less than ten days left is replaced.
    ///
    /// Costs a map look-up for a known name and about 50 µs for a new one.
    ///
    /// # Errors
    /// [`TlsError`] when the certificate cannot be made.
    pub fn server_config(&self, host: &Host) -> Result<Arc<ServerConfig>, TlsError> {
        let now = (self.clock)();
        // Made under the lock, so that many first connections to one name make one certificate.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.uses += 1;
        let used = cache.uses;
        if let Some(entry) = cache.entries.get_mut(host).filter(|entry| now < entry.renew_at) {
            entry.used = used;
            return Ok(Arc::clone(&entry.config));
        }
        let config = self.make(host, now)?;
        cache.make_room(host, self.limits.names);
        let renew_at = now + lifetime::LEAF - lifetime::LEAF_RENEWED_BEFORE;
        cache.entries.insert(host.clone(), Entry { config: Arc::clone(&config), renew_at, used });
        Ok(config)
    }

    fn make(&self, host: &Host, now: SystemTime) -> Result<Arc<ServerConfig>, TlsError> {
        let certificate = self.ca.sign(&params(host, now)?, &self.key)?;
        let certified = CertifiedKey::new(vec![certificate.into()], Arc::clone(&self.signing_key));
        let mut config = self.template.clone();
        config.cert_resolver = Arc::new(SingleCertAndKey::from(certified));
        config.ticketer = Ticketer::new()?;
        Ok(Arc::new(config))
    }
}

impl Cache {
    fn make_room(&mut self, host: &Host, bound: usize) {
        if self.entries.contains_key(host) || self.entries.len() < bound.max(1) {
            return;
        }
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(host, _)| host.clone());
        if let Some(oldest) = oldest {
            self.entries.remove(&oldest);
        }
    }
}

fn params(host: &Host, now: SystemTime) -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::default();
    params.not_before = (now - lifetime::BACK_DATED).into();
    params.not_after = (now + lifetime::LEAF).into();
    params.serial_number = Some(random_serial()?);
    params.distinguished_name = DistinguishedName::new();
    params.subject_alt_names = vec![match host {
        Host::Name(name) => SanType::DnsName(name.to_string().try_into()?),
        Host::Ip(ip) => SanType::IpAddress(*ip),
    }];
    // Written out (CA:FALSE), because only then does rcgen write the subject key identifier too.
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// Everything but certificate and tickets. AES-128-GCM comes first whatever the client prefers: its SHA-256 has hardware
/// where SHA-384 has none. No ML-KEM: this hop stays on the machine, so nobody can record it for later.
fn template() -> Result<ServerConfig, TlsError> {
    let provider = CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1] as Vec<&dyn SupportedKxGroup>,
        ..aws_lc_rs::default_provider()
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(NoCertificate));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ignore_client_order = true;
    config.send_tls13_tickets = 1;
    // Tickets are enough; a session store would keep room for 256 sessions for each name.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

/// What the template holds until a name is known.
#[derive(Debug)]
struct NoCertificate;

impl rustls::server::ResolvesServerCert for NoCertificate {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

#[cfg(test)]
mod tests;
