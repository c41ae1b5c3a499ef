use std::time::{Duration, SystemTime};

use rustls::pki_types::UnixTime;

use crate::types::SandboxId;

use super::super::SandboxCa;
use super::*;

fn no_env(_: &str) -> Option<OsString> {
    None
}

fn ca() -> SandboxCa {
    SandboxCa::generate(&SandboxId::from_bits(9)).unwrap()
}

fn named(bytes: impl Into<Vec<u8>>) -> NamedPem {
    NamedPem { name: "extra.pem".to_owned(), bytes: bytes.into() }
}

fn error(pem: NamedPem) -> String {
    UpstreamTls::new(&[pem], &no_env).map(|_| ()).unwrap_err().to_string()
}

/// A directory of its own for one test; removed when dropped.
struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("sandbox-proxy-roots-{test}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn file(&self, name: &str, bytes: &str) -> PathBuf {
        fs::write(self.0.join(name), bytes).unwrap();
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn env(variable: &'static str, path: &Path) -> impl Fn(&str) -> Option<OsString> + use<> {
    let value = path.as_os_str().to_owned();
    move |name| (name == variable).then(|| value.clone())
}

#[test]
fn a_bad_extra_file_is_named_at_once() {
    assert_eq!(error(named("hello")), "extra.pem: it holds no certificate; give a PEM file with CERTIFICATE blocks");
    assert!(error(named("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n")).contains("not valid PEM"));
    let cut = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(error(named(format!("{}{cut}", ca().pem()))).contains("certificate number 2 cannot be read"));
}

#[test]
fn ssl_cert_file_replaces_the_system() {
    let dir = Dir::new("file");
    let file = dir.file("one.pem", ca().pem());
    let tls = UpstreamTls::new(&[], &env("SSL_CERT_FILE", &file)).unwrap();
    assert_eq!(tls.roots().len(), 1);
    let tls = UpstreamTls::new(&[named(ca().pem())], &env("SSL_CERT_FILE", &file)).unwrap();
    assert_eq!(tls.roots().len(), 2);
}

#[test]
fn ssl_cert_dir_is_read_and_each_file_once() {
    let dir = Dir::new("dir");
    let one = dir.file("one.pem", ca().pem());
    dir.file("two.pem", ca().pem());
    dir.file("README", "not a certificate");
    std::os::unix::fs::symlink(&one, dir.0.join("0a1b2c3d.0")).unwrap();
    std::os::unix::fs::symlink("gone", dir.0.join("dangling.0")).unwrap();
    let tls = UpstreamTls::new(&[], &env("SSL_CERT_DIR", &dir.0)).unwrap();
    assert_eq!(tls.roots().len(), 2);
}

#[test]
fn no_authority_at_all_is_an_error_that_says_where_it_looked() {
    let missing = Path::new("/nonexistent/bundle.pem");
    let error = UpstreamTls::new(&[], &env("SSL_CERT_FILE", missing)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/bundle.pem: No such file"), "{error}");
    assert!(error.contains("--upstream-ca"), "{error}");
    assert!(UpstreamTls::new(&[named(ca().pem())], &env("SSL_CERT_FILE", missing)).is_ok(), "the extra one is enough");
}

#[test]
fn what_changes_after_the_start_is_not_read() {
    let dir = Dir::new("later");
    let file = dir.file("one.pem", ca().pem());
    let tls = UpstreamTls::new(&[], &env("SSL_CERT_FILE", &file)).unwrap();
    dir.file("one.pem", "");
    assert_eq!(tls.roots().len(), 1);
}

#[test]
fn two_settings_each_made_once() {
    let tls = UpstreamTls::new(&[named(ca().pem())], &no_env).unwrap();
    let (both, one) = (tls.config(Alpn::H2OrHttp1), tls.config(Alpn::Http1Only));
    assert_eq!(both.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    assert_eq!(one.alpn_protocols, [b"http/1.1".to_vec()]);
    assert!(Arc::ptr_eq(&both, &tls.config(Alpn::H2OrHttp1)));
    assert!(Arc::ptr_eq(&one, &tls.config(Alpn::Http1Only)));
    assert!(!both.enable_early_data);
    assert_eq!(both.crypto_provider().kx_groups[0].name(), rustls::NamedGroup::X25519MLKEM768);
}

/// What a verifier that trusts `root` says of an upstream whose chain is `root`'s leaf for `leaf_for`, `age` days old.
fn verdict(root: &SandboxCa, signer: &SandboxCa, leaf_for: &str, age: u64) -> String {
    let mut params = rcgen::CertificateParams::new(vec![leaf_for.to_owned()]).unwrap();
    params.not_before = (SystemTime::now() - Duration::from_secs(86_400)).into();
    params.not_after = (SystemTime::now() + Duration::from_secs(86_400)).into();
    let leaf = signer.sign(&params, &rcgen::KeyPair::generate().unwrap()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(root.der().clone()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier =
        rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let now = UnixTime::since_unix_epoch(
        UnixTime::now().as_secs().checked_add(age * 86_400).map(Duration::from_secs).unwrap(),
    );
    let name = "a.test".try_into().unwrap();
    match rustls::client::danger::ServerCertVerifier::verify_server_cert(&*verifier, leaf.der(), &[], &name, &[], now) {
        Ok(_) => "good".to_owned(),
        Err(error) => explain(&error).into_owned(),
    }
}

#[test]
fn reasons_are_short_and_readable() {
    let root = ca();
    let stranger = SandboxCa::generate(&SandboxId::from_bits(10)).unwrap();
    assert_eq!(verdict(&root, &root, "a.test", 0), "good");
    assert_eq!(verdict(&root, &root, "b.test", 0), "its certificate is not valid for this name");
    assert_eq!(verdict(&root, &root, "a.test", 3), "its certificate has expired");
    assert_eq!(
        verdict(&root, &stranger, "a.test", 0),
        "its certificate is from an unknown issuer (no trusted authority signed it)"
    );
}
