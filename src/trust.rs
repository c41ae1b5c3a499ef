//! How the clients in a sandbox come to trust its authority: `certs/trust.toml` lists every file and variable through which
//! a client learns one, and [`plan`] says what each is to hold.

mod jks;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use memchr::memmem;
use rustls::pki_types::CertificateDer;
use serde::Deserialize;

use crate::types::read_bounded;

const TABLE: &str = include_str!("../certs/trust.toml");

/// The names of the three files.
const BUNDLE: &str = "ca-bundle.pem";
const CA_ONLY: &str = "ca.pem";
const JAVA: &str = "cacerts.jks";

/// The longest bundle that is read, in MiB; a distribution's has about 220,000 bytes.
const MAX_BUNDLE: u32 = 8;

/// What a sandbox needs so that its clients trust its authority.
#[derive(Debug, Default)]
pub struct TrustPlan {
    /// Files for a private directory inside.
    pub files: Vec<TrustFile>,
    /// Variables to set, whatever the user has in them.
    pub env: Vec<(String, OsString)>,
    /// Variables to take away.
    pub unset: Vec<String>,
    /// Files of the system that are to show other content inside.
    pub overrides: Vec<Override>,
}

/// One file of the private directory. It holds certificates only and may be read by anybody.
#[derive(Debug)]
pub struct TrustFile {
    /// Its name in that directory.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// A file of the system, present on this machine. Two of them may be one file by way of a link.
///
/// What has to be covered is the *directory* that holds it: a mount over the file itself is silently detached when the host
/// renames a new file into its place, as `update-ca-certificates` does.
#[derive(Debug, PartialEq, Eq)]
pub struct Override {
    /// The path that clients read.
    pub path: PathBuf,
    /// The [`TrustFile::name`] to show there.
    pub file: String,
}

/// Why no plan can be made.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The user's or the system's bundle is there and broken.
    #[error("the certificate bundle {} {reason}; mend it, or set SSL_CERT_FILE to another", path.display())]
    Bundle {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// The files of the machine, so that tests bring their own.
pub trait TrustFs {
    /// Whether there is a file, links followed.
    fn exists(&self, path: &Path) -> bool;

    /// The content of a regular file.
    ///
    /// # Errors
    /// Any that reading gives, and one for a file of another kind or over 8 MiB.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
}

/// The real files.
#[derive(Clone, Copy, Debug)]
pub struct HostFs;

impl TrustFs for HostFs {
    fn exists(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Looked at before it is opened: opening a FIFO would wait for a writer.
        if !path.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        read_bounded(&File::open(path)?, MAX_BUNDLE)
    }
}

/// What clients are to trust besides what they trusted before.
#[derive(Debug)]
pub struct Authorities<'a> {
    /// The sandbox's own authority, as PEM.
    pub pem: &'a str,
    /// The same as DER.
    pub der: &'a [u8],
    /// PEM texts of what upstreams may chain to: TLS that is passed on unread shows their own certificates. One that cannot
    /// be read is left out here, and named where upstreams are verified.
    pub upstream: Vec<&'a [u8]>,
}

/// What to put where so that clients trust these authorities besides those they trusted before.
///
/// `dir` is where the files will stand inside; it holds no white space. `read_env` is asked for `SSL_CERT_FILE`, whose file
/// the bundle then starts from, and for `JAVA_TOOL_OPTIONS`, which goes into the sandbox with an option added: answer
/// `None` to the latter unless the user's environment may be seen inside. A bundle that cannot be read counts as absent, and
/// with no bundle at all the sandbox's authority is the only one.
///
/// Of a bundle only its certificates are taken: comments and anything else that stands between them, such as a private key,
/// stay outside.
///
/// # Errors
/// [`TrustError::Bundle`] names a bundle that can be read and holds no, or a broken, certificate.
pub fn plan(
    authorities: &Authorities<'_>,
    dir: &Path,
    read_env: &dyn Fn(&str) -> Option<OsString>,
    fs: &dyn TrustFs,
) -> Result<TrustPlan, TrustError> {
    let table = Table::compiled_in();
    let mut bundle = match find_bundle(&table, read_env, fs) {
        Some((path, bytes)) => Bundle::parse(&bytes).map_err(|reason| TrustError::Bundle { path, reason })?,
        None => Bundle::default(),
    };
    let mut ours = Bundle::default();
    ours.push(authorities.pem.trim_end().as_bytes(), CertificateDer::from(authorities.der.to_vec()));
    authorities.upstream.iter().filter_map(|text| Bundle::parse(text).ok()).for_each(|more| ours.append(&more));
    bundle.append(&ours);
    let mut plan = TrustPlan {
        files: vec![
            TrustFile { name: BUNDLE.to_owned(), bytes: bundle.pem },
            TrustFile { name: CA_ONLY.to_owned(), bytes: ours.pem },
            TrustFile { name: JAVA.to_owned(), bytes: jks::trust_store(&bundle.certificates) },
        ],
        ..TrustPlan::default()
    };
    for variable in table.variable {
        let at = |file: &str| dir.join(file).into_os_string();
        let value = match variable.kind {
            VariableKind::Bundle => at(BUNDLE),
            VariableKind::CaOnly => at(CA_ONLY),
            VariableKind::JavaOptions => java_options(read_env(&variable.name), &dir.join(JAVA)),
            VariableKind::Unset => {
                plan.unset.push(variable.name);
                continue;
            }
        };
        plan.env.push((variable.name, value));
    }
    plan.overrides = table.file.into_iter().filter(|file| fs.exists(&file.path)).map(Override::from).collect();
    Ok(plan)
}

/// The names of the variables of a kind.
pub fn variables(kind: VariableKind) -> impl Iterator<Item = String> {
    Table::compiled_in().variable.into_iter().filter(move |row| row.kind == kind).map(|row| row.name)
}

/// A trust store for Java that holds one certificate.
pub fn java_store(der: &CertificateDer<'_>) -> Vec<u8> {
    jks::trust_store(std::slice::from_ref(der))
}

/// The last `-D` of a name counts, so ours goes last. A JKS store needs no password and no type, but those that the user
/// gave for a store of theirs would be applied to ours.
fn java_options(user: Option<OsString>, store: &Path) -> OsString {
    let user = user.unwrap_or_default();
    let theirs = memmem::find(user.as_encoded_bytes(), b"javax.net.ssl.trustStore").is_some();
    let mut value = user;
    if !value.is_empty() {
        value.push(" ");
    }
    value.push("-Djavax.net.ssl.trustStore=");
    value.push(store);
    if theirs {
        value.push(" -Djavax.net.ssl.trustStoreType=jks -Djavax.net.ssl.trustStorePassword=");
        value.push(jks::PASSWORD);
    }
    value
}

fn find_bundle(
    table: &Table,
    read_env: &dyn Fn(&str) -> Option<OsString>,
    fs: &dyn TrustFs,
) -> Option<(PathBuf, Vec<u8>)> {
    let user = read_env("SSL_CERT_FILE").filter(|value| !value.is_empty()).map(PathBuf::from);
    let system = table.file.iter().filter(|file| file.kind == FileKind::Bundle).map(|file| file.path.clone());
    user.into_iter().chain(system).find_map(|path| fs.read(&path).ok().map(|bytes| (path, bytes)))
}

/// Certificates as PEM and as DER.
#[derive(Default)]
struct Bundle {
    pem: Vec<u8>,
    /// Where the PEM of each certificate ends.
    ends: Vec<usize>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Bundle {
    fn parse(text: &[u8]) -> Result<Self, String> {
        const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
        const END: &[u8] = b"-----END CERTIFICATE-----";
        let mut bundle = Self { pem: Vec::with_capacity(text.len() + 1024), ..Self::default() };
        let end = memmem::Finder::new(END);
        let mut rest = text;
        while let Some(start) = memmem::find(rest, BEGIN) {
            let number = bundle.certificates.len() + 1;
            let body = &rest[start..];
            let length = end.find(body).ok_or_else(|| format!("ends within certificate number {number}"))? + END.len();
            let block = &body[..length];
            let der = decoded(&block[BEGIN.len()..length - END.len()]).filter(|der| is_der_sequence(der));
            let der = der.ok_or_else(|| format!("has a broken certificate, number {number}"))?;
            bundle.push(block, CertificateDer::from(der));
            rest = &body[length..];
        }
        if bundle.certificates.is_empty() { Err("holds no certificate".to_owned()) } else { Ok(bundle) }
    }

    /// Takes in what it does not have yet.
    fn append(&mut self, other: &Self) {
        let starts = std::iter::once(&0).chain(&other.ends);
        for ((start, end), certificate) in starts.zip(&other.ends).zip(&other.certificates) {
            if !self.certificates.contains(certificate) {
                self.push(other.pem[*start..*end].trim_ascii_end(), certificate.clone());
            }
        }
    }

    fn push(&mut self, pem: &[u8], certificate: CertificateDer<'static>) {
        self.pem.extend_from_slice(pem);
        self.pem.push(b'\n');
        self.ends.push(self.pem.len());
        self.certificates.push(certificate);
    }
}

/// Certificates are public, so this need not take the same time for all: a bundle is decoded five times as fast.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(text.len());
    text.split(u8::is_ascii_whitespace).for_each(|line| plain.extend_from_slice(line));
    BASE64_STANDARD.decode(plain).ok()
}

/// Whether the bytes are one DER SEQUENCE and nothing behind it, which is what tells a certificate from other base64
/// without the cost of reading it.
fn is_der_sequence(der: &[u8]) -> bool {
    match der {
        [0x30, 0x81, length, rest @ ..] => rest.len() == usize::from(*length),
        [0x30, 0x82, high, low, rest @ ..] => rest.len() == usize::from(*high) << 8 | usize::from(*low),
        _ => false,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    file: Vec<FileRow>,
    variable: Vec<VariableRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRow {
    path: PathBuf,
    kind: FileKind,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum FileKind {
    Bundle,
    Java,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VariableRow {
    name: String,
    kind: VariableKind,
}

/// What a variable is to hold.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum VariableKind {
    /// The path of all authorities.
    Bundle,
    /// The path of the sandbox's authority alone.
    CaOnly,
    /// An option of Java's.
    JavaOptions,
    /// Nothing.
    Unset,
}

impl Table {
    fn compiled_in() -> Self {
        toml::from_str(TABLE).expect("the table is compiled in and every test that makes a plan reads it")
    }
}

impl From<FileRow> for Override {
    fn from(row: FileRow) -> Self {
        let file = match row.kind {
            FileKind::Bundle => BUNDLE,
            FileKind::Java => JAVA,
        };
        Self { path: row.path, file: file.to_owned() }
    }
}

#[cfg(test)]
mod tests;
