//! What an upstream's certificate must chain to. There is no switch that turns verification off.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, RootCertStore};

use crate::types::read_bounded;

use super::TlsError;

/// Where distributions keep every authority in one file, in the order they are tried: Debian, RHEL and Fedora (new and
/// old path), openSUSE, Alpine.
const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Read when none of [`SYSTEM_FILES`] exists.
const SYSTEM_DIR: &str = "/etc/ssl/certs";

/// The most that is read from one file, in MiB; a distribution's bundle has about 220,000 bytes.
const MAX_FILE: u32 = 8;

/// A PEM file with the name it was given by, for messages.
#[derive(Clone, Debug)]
pub struct NamedPem {
    /// The file, as it was given.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Which protocols an upstream is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alpn {
    /// h2, else http/1.1.
    H2OrHttp1,
    /// http/1.1 alone.
    Http1Only,
}

/// TLS settings towards upstreams: the machine's own authorities and those that were added, X25519MLKEM768 first,
/// sessions resumed.
pub struct UpstreamTls {
    /// Taken when they are decoded.
    pem: Mutex<Vec<Vec<u8>>>,
    extra: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
    configs: OnceLock<Configs>,
}

struct Configs {
    h2_or_http1: Arc<ClientConfig>,
    http1_only: Arc<ClientConfig>,
}

impl UpstreamTls {
    /// Reads the authorities: those of `SSL_CERT_FILE` and `SSL_CERT_DIR` where `read_env` has one of them, else those of
    /// the system, and in both cases `extra`.
    ///
    /// Every file is read here, before a sandbox runs that might write to it; the system's are decoded on first use, since
    /// that costs 1.5 ms for a distribution's 140.
    ///
    /// # Errors
    /// [`TlsError::ExtraRoots`] when an extra file holds no or a broken certificate, [`TlsError::NoRoots`] when nothing at
    /// all was found.
    pub fn new(extra: &[NamedPem], read_env: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, TlsError> {
        let mut extra_roots = Vec::new();
        for pem in extra {
            extra_roots.extend(strict(pem)?);
        }
        let mut found = Found::default();
        found.search(read_env);
        if found.pem.is_empty() && extra_roots.is_empty() {
            return Err(TlsError::NoRoots { reason: found.problems.join("; ") });
        }
        let provider = CryptoProvider {
            kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1],
            ..aws_lc_rs::default_provider()
        };
        // Checked here, so that the first use cannot fail.
        ClientConfig::builder_with_provider(Arc::new(provider.clone())).with_safe_default_protocol_versions()?;
        Ok(Self {
            pem: Mutex::new(found.pem),
            extra: extra_roots,
            provider: Arc::new(provider),
            configs: OnceLock::new(),
        })
    }

    /// The settings for one kind of connection; the same value each time, so that sessions are resumed.
    pub fn config(&self, alpn: Alpn) -> Arc<ClientConfig> {
        let configs = self.configs.get_or_init(|| {
            let roots = Arc::new(self.roots());
            Configs {
                h2_or_http1: self.client(&roots, &[b"h2", b"http/1.1"]),
                http1_only: self.client(&roots, &[b"http/1.1"]),
            }
        });
        Arc::clone(match alpn {
            Alpn::H2OrHttp1 => &configs.h2_or_http1,
            Alpn::Http1Only => &configs.http1_only,
        })
    }

    /// The same for a client that shows this certificate. Sessions are not resumed: they would be shared with connections that
    /// show none.
    pub fn config_showing(&self, alpn: Alpn, identity: &Arc<CertifiedKey>) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.config(alpn));
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(Arc::clone(identity)));
        config.resumption = Resumption::disabled();
        Arc::new(config)
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let pem = std::mem::take(&mut *self.pem.lock().unwrap_or_else(PoisonError::into_inner));
        for bytes in &pem {
            // A distribution's bundle may hold one that webpki cannot use; the others are as good as before.
            roots.add_parsable_certificates(CertificateDer::pem_slice_iter(bytes).filter_map(Result::ok));
        }
        roots.add_parsable_certificates(self.extra.iter().cloned());
        roots
    }

    fn client(&self, roots: &Arc<RootCertStore>, alpn: &[&[u8]]) -> Arc<ClientConfig> {
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .expect("the provider was checked when it was made")
            .with_root_certificates(Arc::clone(roots))
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}

/// Why a TLS connection to an upstream failed, in a few words for the answer to the sandbox.
pub fn explain(error: &rustls::Error) -> Cow<'static, str> {
    if let rustls::Error::InvalidCertificate(reason) = error {
        return explain_certificate(reason);
    }
    if let rustls::Error::AlertReceived(alert) = error {
        return format!("the upstream ended the handshake with the TLS alert {alert:?}").into();
    }
    if let rustls::Error::PeerIncompatible(_) = error {
        return "the upstream offers no TLS version or cipher that is still safe".into();
    }
    error.to_string().into()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "not our enum; what it gains has its own words")]
fn explain_certificate(reason: &CertificateError) -> Cow<'static, str> {
    use CertificateError as E;
    let text = match reason {
        E::UnknownIssuer => "its certificate is from an unknown issuer (no trusted authority signed it)",
        E::Expired | E::ExpiredContext { .. } => "its certificate has expired",
        E::NotValidYet | E::NotValidYetContext { .. } => "its certificate is not valid yet",
        E::NotValidForName | E::NotValidForNameContext { .. } => "its certificate is not valid for this name",
        E::Revoked => "its certificate is revoked",
        E::BadSignature => "the signature of its certificate is wrong",
        E::BadEncoding => "its certificate cannot be read",
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => "its certificate is not for servers",
        other => return format!("its certificate was refused: {other}").into(),
    };
    text.into()
}

/// The certificates of a file that a person named: all of them good, and at least one.
fn strict(pem: &NamedPem) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refuse = |reason: String| TlsError::ExtraRoots { name: pem.name.clone(), reason };
    let certificates = CertificateDer::pem_slice_iter(&pem.bytes)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refuse(format!("it is not valid PEM ({error})")))?;
    if certificates.is_empty() {
        return Err(refuse("it holds no certificate".to_owned()));
    }
    let mut check = RootCertStore::empty();
    for (index, certificate) in certificates.iter().enumerate() {
        check
            .add(certificate.clone())
            .map_err(|_| refuse(format!("its certificate number {} cannot be read", index + 1)))?;
    }
    Ok(certificates)
}

/// Files with at least one certificate, and what went wrong with the others.
#[derive(Default)]
struct Found {
    pem: Vec<Vec<u8>>,
    problems: Vec<String>,
    seen: HashSet<(u64, u64)>,
}

impl Found {
    /// As OpenSSL and rustls-native-certs do: a set variable replaces the system's places.
    fn search(&mut self, read_env: &dyn Fn(&str) -> Option<OsString>) {
        let named = |variable| read_env(variable).filter(|value| !value.is_empty());
        let (file, dirs) = (named("SSL_CERT_FILE"), named("SSL_CERT_DIR"));
        if file.is_none() && dirs.is_none() {
            return self.search_system();
        }
        if let Some(file) = file {
            self.file(Path::new(&file));
        }
        for dir in dirs.iter().flat_map(std::env::split_paths) {
            self.dir(&dir);
        }
    }

    fn search_system(&mut self) {
        match SYSTEM_FILES.iter().map(Path::new).find(|file| file.exists()) {
            Some(file) => self.file(file),
            None => self.dir(Path::new(SYSTEM_DIR)),
        }
    }

    fn file(&mut self, path: &Path) {
        match read(path, &mut self.seen) {
            Ok(Some(bytes)) if memchr::memmem::find(&bytes, b"-----BEGIN CERTIFICATE-----").is_some() => {
                self.pem.push(bytes);
            }
            Ok(Some(_)) => self.problems.push(format!("{} holds no certificate", path.display())),
            Ok(None) => {}
            Err(error) => self.problems.push(format!("{}: {error}", path.display())),
        }
    }

    /// A system's directory has its bundle beside the hundreds of files that the bundle is made of: reading that one instead
    /// takes 0.1 ms and not 5.
    fn dir(&mut self, dir: &Path) {
        let bundle = SYSTEM_FILES.iter().map(Path::new).find(|file| file.parent() == Some(dir) && file.exists());
        if let Some(bundle) = bundle {
            return self.file(bundle);
        }
        match entries(dir) {
            Ok(paths) if paths.is_empty() => self.problems.push(format!("{} is empty", dir.display())),
            Ok(paths) => paths.iter().for_each(|path| self.file(path)),
            Err(error) => self.problems.push(format!("{}: {error}", dir.display())),
        }
    }
}

/// The regular files of a directory, links followed; those that are gone by the time they are looked at are left out.
fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(dir)?.map(|entry| entry.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.is_file()).collect())
}

/// The content, or nothing where the same file was read before under another name.
fn read(path: &Path, seen: &mut HashSet<(u64, u64)>) -> io::Result<Option<Vec<u8>>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !seen.insert((metadata.dev(), metadata.ino())) {
        return Ok(None);
    }
    read_bounded(&file, MAX_FILE).map(Some)
}

#[cfg(test)]
mod tests;
