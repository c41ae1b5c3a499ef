use std::collections::HashMap;
use std::process::Command;

use rustls::pki_types::pem::PemObject;

use super::*;

const DIR: &str = "/run/sandbox-proxy";
const DEBIAN: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Files that exist in a test and nowhere else.
#[derive(Default)]
struct Files(HashMap<PathBuf, Vec<u8>>);

impl Files {
    fn with(mut self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.insert(path.into(), bytes.into());
        self
    }
}

impl TrustFs for Files {
    fn exists(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

struct Ca {
    pem: String,
    der: Vec<u8>,
}

fn ca(name: &str) -> Ca {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    Ca { pem: certificate.pem(), der: certificate.der().to_vec() }
}

fn plan_with(own: &Ca, env: &[(&str, &str)], files: &Files) -> Result<TrustPlan, TrustError> {
    let env: HashMap<_, _> = env.iter().copied().collect();
    let authorities = Authorities { pem: &own.pem, der: &own.der, upstream: Vec::new() };
    plan(&authorities, Path::new(DIR), &|name| env.get(name).map(OsString::from), files)
}

fn bundle(plan: &TrustPlan) -> Vec<Vec<u8>> {
    let file = plan.files.iter().find(|file| file.name == "ca-bundle.pem").unwrap();
    CertificateDer::pem_slice_iter(&file.bytes).map(|der| der.unwrap().to_vec()).collect()
}

fn variable(plan: &TrustPlan, name: &str) -> String {
    let (_, value) = plan.env.iter().find(|(key, _)| key == name).unwrap();
    value.clone().into_string().unwrap()
}

#[test]
fn the_bundle_is_the_systems_and_our_own() {
    let (own, root) = (ca("own"), ca("root"));
    let plan = plan_with(&own, &[], &Files::default().with(DEBIAN, root.pem.trim_end())).unwrap();
    assert_eq!(bundle(&plan), [root.der, own.der]);
}

/// Upstreams' authorities are in every file, so that TLS which passes unread is verified by the client.
#[test]
fn authorities_of_upstreams_are_trusted_too() {
    let (own, corporate) = (ca("own"), ca("corporate"));
    let upstream = vec![b"broken".as_slice(), corporate.pem.as_bytes()];
    let authorities = Authorities { pem: &own.pem, der: &own.der, upstream };
    let plan = plan(&authorities, Path::new(DIR), &|_| None, &Files::default()).unwrap();
    assert_eq!(bundle(&plan), [own.der.clone(), corporate.der.clone()]);
    let only = plan.files.iter().find(|file| file.name == "ca.pem").unwrap();
    let only: Vec<_> = CertificateDer::pem_slice_iter(&only.bytes).map(|der| der.unwrap().to_vec()).collect();
    assert_eq!(only, [own.der, corporate.der]);
}

#[test]
fn the_users_own_bundle_comes_before_the_systems() {
    let (own, user, system) = (ca("own"), ca("user"), ca("system"));
    let files = Files::default().with("/home/u/ca.pem", user.pem).with(DEBIAN, system.pem);
    let plan = plan_with(&own, &[("SSL_CERT_FILE", "/home/u/ca.pem")], &files).unwrap();
    assert_eq!(bundle(&plan), [user.der, own.der]);
}

#[test]
fn a_bundle_that_cannot_be_read_counts_as_absent() {
    let (own, system) = (ca("own"), ca("system"));
    let files = Files::default().with("/etc/ssl/cert.pem", system.pem);
    let plan = plan_with(&own, &[("SSL_CERT_FILE", "/gone")], &files).unwrap();
    assert_eq!(bundle(&plan), [system.der, own.der]);
}

#[test]
fn without_any_bundle_our_own_authority_is_the_only_one() {
    let own = ca("own");
    assert_eq!(bundle(&plan_with(&own, &[], &Files::default()).unwrap()), [own.der]);
}

#[test]
fn our_own_authority_is_never_there_twice() {
    let own = ca("own");
    let plan = plan_with(&own, &[], &Files::default().with(DEBIAN, own.pem.clone())).unwrap();
    assert_eq!(bundle(&plan), [own.der]);
}

#[test]
fn only_certificates_are_taken_from_a_bundle() {
    let (own, root) = (ca("own"), ca("root"));
    let key = "-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----\n";
    let files = Files::default().with(DEBIAN, format!("# canary\n{key}{}{key}", root.pem));
    let plan = plan_with(&own, &[], &files).unwrap();
    assert_eq!(bundle(&plan).len(), 2);
    for file in &plan.files {
        assert!(memmem::find(&file.bytes, b"canary").is_none());
        assert!(memmem::find(&file.bytes, b"PRIVATE").is_none());
        assert!(memmem::find(&file.bytes, b"Y2FuYXJ5").is_none());
    }
}

macro_rules! broken {
    ($($test:ident: $text:expr => $reason:expr;)*) => { $(
        #[test]
        fn $test() {
            let files = Files::default().with("/home/u/ca.pem", $text);
            let error = plan_with(&ca("own"), &[("SSL_CERT_FILE", "/home/u/ca.pem")], &files).unwrap_err().to_string();
            let want = format!("the certificate bundle /home/u/ca.pem {}; mend it, or set SSL_CERT_FILE to another", $reason);
            assert_eq!(error, want);
        }
    )* };
}

broken! {
    an_empty_bundle_is_named: "" => "holds no certificate";
    a_bundle_of_something_else_is_named: "hello" => "holds no certificate";
    a_cut_bundle_is_named: &ca("a").pem[..200] => "ends within certificate number 1";
    a_bundle_with_bad_base64_is_named:
        format!("{}-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", ca("a").pem)
        => "has a broken certificate, number 2";
    a_bundle_with_bad_der_is_named:
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" => "has a broken certificate, number 1";
}

#[test]
fn every_variable_names_the_file_its_client_needs() {
    let plan =
        plan_with(&ca("own"), &[("SSL_CERT_FILE", ""), ("NODE_EXTRA_CA_CERTS", "/mine")], &Files::default()).unwrap();
    for name in [
        "SSL_CERT_FILE",
        "CURL_CA_BUNDLE",
        "REQUESTS_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "CARGO_HTTP_CAINFO",
        "PIP_CERT",
        "AWS_CA_BUNDLE",
        "NIX_SSL_CERT_FILE",
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
        "HTTPLIB2_CA_CERTS",
    ] {
        assert_eq!(variable(&plan, name), "/run/sandbox-proxy/ca-bundle.pem", "{name}");
    }
    for name in ["NODE_EXTRA_CA_CERTS", "DENO_CERT"] {
        assert_eq!(variable(&plan, name), "/run/sandbox-proxy/ca.pem", "{name}");
    }
    assert_eq!(plan.unset, ["SSL_CERT_DIR", "GIT_SSL_CAPATH"]);
    assert!(plan.env.iter().all(|(name, _)| !plan.unset.contains(name)));
}

#[test]
fn java_gets_its_option_behind_those_of_the_user() {
    let java =
        |env: &[(&str, &str)]| variable(&plan_with(&ca("own"), env, &Files::default()).unwrap(), "JAVA_TOOL_OPTIONS");
    let ours = "-Djavax.net.ssl.trustStore=/run/sandbox-proxy/cacerts.jks";
    assert_eq!(java(&[]), ours);
    assert_eq!(java(&[("JAVA_TOOL_OPTIONS", "-Xmx1g")]), format!("-Xmx1g {ours}"));
    let theirs = "-Djavax.net.ssl.trustStore=/mine -Djavax.net.ssl.trustStorePassword=p";
    let type_and_password = "-Djavax.net.ssl.trustStoreType=jks -Djavax.net.ssl.trustStorePassword=changeit";
    assert_eq!(java(&[("JAVA_TOOL_OPTIONS", theirs)]), format!("{theirs} {ours} {type_and_password}"));
}

#[test]
fn what_exists_on_the_system_is_replaced() {
    let files = Files::default().with(DEBIAN, ca("a").pem).with("/etc/ssl/certs/java/cacerts", "any");
    let plan = plan_with(&ca("own"), &[], &files).unwrap();
    let at = |path: &str, file: &str| Override { path: path.into(), file: file.to_owned() };
    assert_eq!(plan.overrides, [at(DEBIAN, "ca-bundle.pem"), at("/etc/ssl/certs/java/cacerts", "cacerts.jks")]);
}

#[test]
fn every_row_of_the_table_is_a_path_or_a_name() {
    let table = Table::compiled_in();
    assert!(table.file.iter().all(|row| row.path.is_absolute()));
    let legal = |name: &str| name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    assert!(table.variable.iter().all(|row| legal(&row.name)));
}

/// Java's own tool, which checks the digest when it is given the password.
#[test]
fn keytool_reads_the_java_store() {
    let (own, root) = (ca("own"), ca("root"));
    let plan = plan_with(&own, &[], &Files::default().with(DEBIAN, root.pem)).unwrap();
    let store = plan.files.iter().find(|file| file.name == "cacerts.jks").unwrap();
    let path = std::env::temp_dir().join(format!("sandbox-proxy-trust-{}.jks", std::process::id()));
    let list = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Command::new("keytool")
            .args(["-J-Duser.language=en", "-list", "-rfc", "-storetype", "JKS", "-storepass", "changeit", "-keystore"])
            .arg(&path)
            .output()
            .expect("keytool is needed by the tests")
    };
    let good = list(&store.bytes);
    let mut damaged = store.bytes.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let bad = list(&damaged);
    std::fs::remove_file(&path).unwrap();
    let text = String::from_utf8_lossy(&good.stdout);
    assert!(good.status.success(), "{text}");
    assert!(text.contains("Your keystore contains 2 entries"), "{text}");
    let der: Vec<_> = CertificateDer::pem_slice_iter(&good.stdout).map(|der| der.unwrap().to_vec()).collect();
    assert!(der.contains(&own.der) && der.contains(&root.der));
    assert!(!bad.status.success(), "a wrong digest must be noticed");
}

#[test]
fn the_real_files_are_bounded_and_regular() {
    assert!(HostFs.read(Path::new("/dev/null")).is_err());
    assert!(HostFs.read(Path::new("/nonexistent")).is_err());
    assert!(!HostFs.exists(Path::new("/tmp")));
}
