//! A trust store in the form that every Java reads without being told: `JKS`, version 2, trusted certificates only.
//!
//! The form is that of `sun.security.provider.JavaKeyStore`: magic, version and count; for each certificate the tag 2, an
//! alias, a date, the type and the DER; at the end a SHA-1 over the password, a fixed phrase and all of it. Numbers are
//! big-endian. The digest guards against damage, not against people: the password is the one every Java installation has.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use rustls::pki_types::CertificateDer;

/// The password that Java's own stores have. A reader may leave it out; then it does not check the digest.
pub(super) const PASSWORD: &str = "changeit";

const MAGIC: u32 = 0xfeed_feed;
const VERSION: u32 = 2;
const TRUSTED_CERTIFICATE: u32 = 2;
const PHRASE: &[u8] = b"Mighty Aphrodite";

/// The store that holds these certificates, under the aliases `ca-1`, `ca-2` and so on.
pub(super) fn trust_store(certificates: &[CertificateDer<'_>]) -> Vec<u8> {
    let size: usize = certificates.iter().map(|certificate| certificate.len() + 40).sum();
    let mut out = Vec::with_capacity(size + 32);
    number(&mut out, MAGIC);
    number(&mut out, VERSION);
    number(&mut out, length(certificates.len()));
    for (index, certificate) in certificates.iter().enumerate() {
        number(&mut out, TRUSTED_CERTIFICATE);
        text(&mut out, &format!("ca-{}", index + 1));
        // When it was added, in milliseconds since 1970: nobody needs it, and so equal input gives equal bytes.
        out.extend_from_slice(&0u64.to_be_bytes());
        text(&mut out, "X.509");
        number(&mut out, length(certificate.len()));
        out.extend_from_slice(certificate);
    }
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    for unit in PASSWORD.encode_utf16() {
        digest.update(&unit.to_be_bytes());
    }
    digest.update(PHRASE);
    digest.update(&out);
    out.extend_from_slice(digest.finish().as_ref());
    out
}

fn number(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Java's `writeUTF`; ASCII is the same in its own UTF-8 as in everybody's.
fn text(out: &mut Vec<u8>, ascii: &str) {
    let length = u16::try_from(ascii.len()).expect("an alias or type name is short");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(ascii.as_bytes());
}

fn length(value: usize) -> u32 {
    u32::try_from(value).expect("a bundle is at most 8 MiB")
}
