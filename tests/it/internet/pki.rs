//! A root that only the tests know, leaves for any name, and leaves with one fault each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

/// Chained to no root at all.
pub const SELF_SIGNED: &str = "self-signed.test";
/// Ended in 2001.
pub const EXPIRED: &str = "expired.test";
/// Issued to another name.
pub const WRONG_NAME: &str = "wrong-name.test";
/// Chained to a root that nobody was told of.
pub const UNKNOWN_ROOT: &str = "unknown-root.test";

/// Makes certificates; one with a fault where the name asks for it.
#[derive(Debug)]
pub struct Pki {
    root: Issuer<'static, KeyPair>,
    stranger: Issuer<'static, KeyPair>,
    key: KeyPair,
    leaves: Mutex<HashMap<String, Arc<CertifiedKey>>>,
    file: PathBuf,
}

impl Pki {
    /// A new root, whose certificate is written to `file` for `--upstream-ca`.
    pub fn new(file: &Path) -> Self {
        let (root, pem) = authority("Sandbox Proxy Test Root");
        std::fs::write(file, pem).unwrap();
        let (stranger, _) = authority("Unknown Root");
        let key = KeyPair::generate().unwrap();
        Self { root, stranger, key, leaves: Mutex::default(), file: file.into() }
    }

    /// The PEM file of the root.
    pub fn root_file(&self) -> &Path {
        &self.file
    }

    /// A TLS server that shows a certificate for whatever name it is asked for.
    pub fn server(self: &Arc<Self>, alpn: &[&str]) -> Arc<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(BySni(self.clone())));
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// The same for clients that show a certificate of the root: others are refused.
    pub fn server_for_clients(self: &Arc<Self>) -> Arc<ServerConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.file).unwrap()).unwrap();
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        Arc::new(config.with_client_cert_verifier(clients).with_cert_resolver(Arc::new(BySni(self.clone()))))
    }

    /// A server's certificate for all of these names and its key, as PEM.
    pub fn pem(&self, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut leaf = CertificateParams::new(names).unwrap();
        leaf.use_authority_key_identifier_extension = true;
        (leaf.signed_by(&self.key, &self.root).unwrap().pem(), self.key.serialize_pem())
    }

    /// A client's certificate and its key, as PEM.
    pub fn client(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut leaf = CertificateParams::new(vec![name.to_owned()]).unwrap();
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        (leaf.signed_by(&key, &self.root).unwrap().pem(), key.serialize_pem())
    }

    fn leaf(&self, name: &str) -> Arc<CertifiedKey> {
        let mut leaves = self.leaves.lock().unwrap();
        leaves.entry(name.to_owned()).or_insert_with(|| Arc::new(self.make_leaf(name))).clone()
    }

    fn make_leaf(&self, name: &str) -> CertifiedKey {
        let subject = if name == WRONG_NAME { "somebody-else.test" } else { name };
        let mut leaf = CertificateParams::new(vec![subject.to_owned()]).unwrap();
        leaf.use_authority_key_identifier_extension = true;
        leaf.not_before = date_time_ymd(2000, 1, 1);
        leaf.not_after = if name == EXPIRED { date_time_ymd(2001, 1, 1) } else { date_time_ymd(2090, 1, 1) };
        let certificate = match name {
            SELF_SIGNED => leaf.self_signed(&self.key),
            UNKNOWN_ROOT => leaf.signed_by(&self.key, &self.stranger),
            _ => leaf.signed_by(&self.key, &self.root),
        };
        let chain: Vec<CertificateDer<'static>> = vec![certificate.unwrap().der().clone()];
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        CertifiedKey::new(chain, aws_lc_rs::sign::any_supported_type(&key).unwrap())
    }
}

fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let mut root = CertificateParams::default();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    root.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    root.distinguished_name.push(DnType::CommonName, name);
    root.not_before = date_time_ymd(2000, 1, 1);
    let key = KeyPair::generate().unwrap();
    let pem = root.self_signed(&key).unwrap().pem();
    (Issuer::new(root, key), pem)
}

#[derive(Debug)]
struct BySni(Arc<Pki>);

impl ResolvesServerCert for BySni {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.leaf(hello.server_name().unwrap_or("no-sni.test")))
    }
}
