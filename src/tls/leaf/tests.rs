use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConnection};
use x509_parser::prelude::*;

use crate::types::SandboxId;

use super::*;

const DAY: u64 = 86_400;

fn ca() -> Arc<SandboxCa> {
    Arc::new(SandboxCa::generate(&SandboxId::from_bits(7)).unwrap())
}

fn leaves() -> (Arc<SandboxCa>, LeafConfigs) {
    let ca = ca();
    (Arc::clone(&ca), LeafConfigs::new(ca, LeafLimits::default()).unwrap())
}

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

/// A client as strict as rustls is.
fn client(ca: &SandboxCa) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// A whole handshake in memory, tickets included.
fn handshake(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
    name: &str,
) -> Result<(ClientConnection, ServerConnection), rustls::Error> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::clone(client), name)?;
    let mut server = ServerConnection::new(Arc::clone(server))?;
    while client.wants_write() || server.wants_write() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        feed(&mut server, &wire)?;
        wire.clear();
        server.write_tls(&mut wire).unwrap();
        feed(&mut client, &wire)?;
    }
    Ok((client, server))
}

fn feed<D>(to: &mut rustls::ConnectionCommon<D>, mut wire: &[u8]) -> Result<(), rustls::Error> {
    while !wire.is_empty() {
        to.read_tls(&mut wire).unwrap();
        to.process_new_packets()?;
    }
    Ok(())
}

fn leaf_of(ca: &SandboxCa, config: &Arc<ServerConfig>, name: &str) -> CertificateDer<'static> {
    let (client, _) = handshake(&client(ca), config, name).unwrap();
    client.peer_certificates().unwrap()[0].clone()
}

#[test]
fn the_certificate_is_as_rfc_5280_wants_a_server() {
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let ca = ca();
    let key = KeyPair::generate().unwrap();
    let der = ca.sign(&params(&host("a.test"), now).unwrap(), &key).unwrap();
    let (_, cert) = X509Certificate::from_der(der.der()).unwrap();
    let (_, ca_cert) = X509Certificate::from_der(ca.der()).unwrap();
    assert_eq!(cert.version(), X509Version::V3);
    assert_eq!(cert.subject().iter().count(), 0);
    assert_eq!(cert.issuer(), ca_cert.subject());
    assert_eq!(cert.raw_serial().len(), 16);
    assert!((0x40..0x80).contains(&cert.raw_serial()[0]));
    assert_eq!(cert.validity().not_before.timestamp(), 1_800_000_000 - 3600);
    assert_eq!(cert.validity().not_after.timestamp(), 1_800_000_000 + 30 * DAY as i64);
    let san = cert.subject_alternative_name().unwrap().unwrap();
    assert!(san.critical, "RFC 5280 4.2.1.6: critical when the subject is empty");
    assert_eq!(san.value.general_names, [GeneralName::DNSName("a.test")]);
    let usage = cert.key_usage().unwrap().unwrap();
    assert!(usage.critical);
    assert_eq!(usage.value.flags, 1, "digitalSignature, nothing else");
    let extended = cert.extended_key_usage().unwrap().unwrap().value;
    assert!(extended.server_auth && !extended.client_auth && !extended.any);
    assert!(!cert.is_ca());
    assert_eq!(authority_key(&cert), subject_key(&ca_cert));
    assert!(!subject_key(&cert).is_empty());
    for absent in [
        oid_registry::OID_X509_EXT_CRL_DISTRIBUTION_POINTS,
        oid_registry::OID_PKIX_AUTHORITY_INFO_ACCESS,
        oid_registry::OID_X509_EXT_CERTIFICATE_POLICIES,
    ] {
        assert!(cert.get_extension_unique(&absent).unwrap().is_none());
    }
    cert.verify_signature(Some(ca_cert.public_key())).unwrap();
}

fn subject_key(cert: &X509Certificate<'_>) -> Vec<u8> {
    let id = cert.get_extension_unique(&oid_registry::OID_X509_EXT_SUBJECT_KEY_IDENTIFIER).unwrap().unwrap();
    let ParsedExtension::SubjectKeyIdentifier(id) = id.parsed_extension() else { panic!("{id:?}") };
    id.0.to_vec()
}

fn authority_key(cert: &X509Certificate<'_>) -> Vec<u8> {
    let id = cert.get_extension_unique(&oid_registry::OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER).unwrap().unwrap();
    let ParsedExtension::AuthorityKeyIdentifier(id) = id.parsed_extension() else { panic!("{id:?}") };
    id.key_identifier.as_ref().unwrap().0.to_vec()
}

macro_rules! names {
    ($($test:ident: $name:expr;)*) => { $(
        #[test]
        fn $test() {
            let (ca, leaves) = leaves();
            let config = leaves.server_config(&host($name)).unwrap();
            let (_, server) = handshake(&client(&ca), &config, $name).unwrap();
            assert_eq!(server.alpn_protocol(), Some(&b"h2"[..]));
            let other = leaves.server_config(&host("other.test")).unwrap();
            let refused = handshake(&client(&ca), &other, $name).unwrap_err();
            assert!(matches!(refused, rustls::Error::InvalidCertificate(_)), "{refused}");
        }
    )* };
}

names! {
    rustls_accepts_a_name: "a.test";
    rustls_accepts_an_underscore: "a_b.test";
    rustls_accepts_an_international_name: "xn--bcher-kva.test";
    rustls_accepts_ipv4: "203.0.113.9";
    rustls_accepts_ipv6: "2001:db8::9";
}

#[test]
fn another_sandbox_is_not_trusted() {
    let (_, leaves) = leaves();
    let config = leaves.server_config(&host("a.test")).unwrap();
    let error = handshake(&client(&ca()), &config, "a.test").unwrap_err();
    assert_eq!(super::super::explain(&error), "the signature of its certificate is wrong");
}

#[test]
fn one_key_for_all_names_and_a_serial_for_each() {
    let (ca, leaves) = leaves();
    let parts = |name: &str| {
        let der = leaf_of(&ca, &leaves.server_config(&host(name)).unwrap(), name);
        let (_, cert) = X509Certificate::from_der(&der).unwrap();
        (cert.public_key().raw.to_vec(), cert.raw_serial().to_vec())
    };
    let (a, b) = (parts("a.test"), parts("b.test"));
    assert_eq!(a.0, b.0);
    assert_ne!(a.1, b.1);
}

#[test]
fn the_proxy_chooses_the_cipher_and_group() {
    let (ca, leaves) = leaves();
    let config = leaves.server_config(&host("a.test")).unwrap();
    let (connection, _) = handshake(&client(&ca), &config, "a.test").unwrap();
    let suite = connection.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(suite, rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
    assert_eq!(connection.negotiated_key_exchange_group().unwrap().name(), rustls::NamedGroup::X25519);
    assert_eq!(connection.tls13_tickets_received(), 1);
}

#[test]
fn a_session_is_resumed_for_its_own_name_only() {
    let (ca, leaves) = leaves();
    let (a, b) = (leaves.server_config(&host("a.test")).unwrap(), leaves.server_config(&host("b.test")).unwrap());
    let client = client(&ca);
    assert_eq!(handshake(&client, &a, "a.test").unwrap().0.handshake_kind(), Some(HandshakeKind::Full));
    assert_eq!(handshake(&client, &a, "a.test").unwrap().0.handshake_kind(), Some(HandshakeKind::Resumed));
    // The ticket of a.test shown to the settings of b.test: a full handshake, which fails on the certificate.
    assert!(matches!(handshake(&client, &b, "a.test"), Err(rustls::Error::InvalidCertificate(_))));
}

#[test]
fn a_session_without_sni_is_not_resumed_for_another_address() {
    let (ca, leaves) = leaves();
    let (a, b) = (leaves.server_config(&host("192.0.2.1")).unwrap(), leaves.server_config(&host("192.0.2.2")).unwrap());
    let client = client(&ca);
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        assert_eq!(handshake(&client, &a, "192.0.2.1").unwrap().0.handshake_kind(), Some(kind));
    }
    assert!(matches!(handshake(&client, &b, "192.0.2.1"), Err(rustls::Error::InvalidCertificate(_))));
}

#[test]
fn tls_1_2_works() {
    let (ca, leaves) = leaves();
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = leaves.server_config(&host("a.test")).unwrap();
    let (connection, _) = handshake(&Arc::new(client), &config, "a.test").unwrap();
    assert_eq!(connection.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
}

#[test]
fn a_known_name_keeps_its_settings_until_they_are_old() {
    let start = SystemTime::now();
    let time = Arc::new(Mutex::new(start));
    let clock = Arc::clone(&time);
    let leaves =
        LeafConfigs::with_clock(ca(), LeafLimits::default(), Arc::new(move || *clock.lock().unwrap())).unwrap();
    let at = |days: u64| {
        *time.lock().unwrap() = start + Duration::from_secs(days * DAY);
        leaves.server_config(&host("a.test")).unwrap()
    };
    let first = at(0);
    assert!(Arc::ptr_eq(&first, &at(19)));
    let second = at(20);
    assert!(!Arc::ptr_eq(&first, &second), "ten days before its end it is replaced");
    assert!(Arc::ptr_eq(&second, &at(39)));
    assert!(!Arc::ptr_eq(&second, &at(40)));
}

#[test]
fn the_cache_is_bounded_and_forgets_the_least_recently_used() {
    let leaves = LeafConfigs::new(ca(), LeafLimits { names: 2 }).unwrap();
    let get = |name: &str| leaves.server_config(&host(name)).unwrap();
    let (a, b) = (get("a.test"), get("b.test"));
    assert!(Arc::ptr_eq(&a, &get("a.test")));
    let c = get("c.test");
    assert!(Arc::ptr_eq(&a, &get("a.test")), "used after b");
    assert!(Arc::ptr_eq(&c, &get("c.test")));
    assert!(!Arc::ptr_eq(&b, &get("b.test")), "b made room for c");
    for index in 0..50 {
        get(&format!("n{index}.test"));
    }
    assert_eq!(leaves.cache.lock().unwrap().entries.len(), 2);
}

/// Writes the authority and a leaf as PEM where an outside program can read them; removed when dropped.
struct Files(PathBuf);

impl Files {
    fn new(test: &str, name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("sandbox-proxy-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (ca, leaves) = leaves();
        let der = leaf_of(&ca, &leaves.server_config(&host(name)).unwrap(), name);
        std::fs::write(dir.join("ca.pem"), ca.pem()).unwrap();
        std::fs::write(dir.join("leaf.der"), &der).unwrap();
        Self(dir)
    }

    fn openssl_verify(&self, option: &str, name: &str) -> std::process::Output {
        Command::new("openssl")
            .current_dir(&self.0)
            .args(["verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "ca.pem", option, name, "leaf.der"])
            .output()
            .expect("openssl is needed by the tests")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

macro_rules! openssl {
    ($($test:ident: $option:literal $name:literal, not $other:literal;)*) => { $(
        #[test]
        fn $test() {
            let files = Files::new(stringify!($test), $name);
            let output = files.openssl_verify($option, $name);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(!files.openssl_verify($option, $other).status.success());
        }
    )* };
}

openssl! {
    openssl_strict_accepts_a_name: "-verify_hostname" "a.test", not "b.test";
    openssl_strict_accepts_an_address: "-verify_ip" "203.0.113.9", not "203.0.113.8";
    openssl_strict_accepts_an_ipv6_address: "-verify_ip" "2001:db8::9", not "2001:db8::8";
}
