//! TLS on both sides: what a sandbox is shown ([`ca`], [`leaf`]) and what an upstream must show ([`roots`]).

pub mod ca;
pub mod leaf;
pub mod roots;

pub use ca::SandboxCa;
pub use leaf::{Clock, LeafConfigs, LeafLimits};
pub use roots::{Alpn, NamedPem, UpstreamTls, explain};

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A key or certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Generate(#[from] rcgen::Error),
    /// The system gave no random bytes.
    #[error("cannot get random bytes for a certificate's serial number")]
    Random,
    /// The TLS library refuses the settings.
    #[error("cannot set up TLS: {0}")]
    Config(#[from] rustls::Error),
    /// A file given as an extra authority is none.
    #[error("{name}: {reason}; give a PEM file with CERTIFICATE blocks")]
    ExtraRoots {
        /// The file, as it was given.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing to verify an upstream with.
    #[error(
        "no certificate authority to verify upstreams with ({reason}); install ca-certificates, or name a PEM file with \
         --upstream-ca or SSL_CERT_FILE"
    )]
    NoRoots {
        /// Where they were looked for and what went wrong.
        reason: String,
    },
}

/// A serial number as RFC 5280 section 4.1.2.2 wants it: positive, at most 20 octets. Here: 16 octets, 126 of their bits
/// random.
fn random_serial() -> Result<rcgen::SerialNumber, TlsError> {
    let mut bytes = [0u8; 16];
    rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut bytes).map_err(|_| TlsError::Random)?;
    // The first bit says "positive"; the second keeps the number from being 0 or encoded in fewer octets.
    bytes[0] = bytes[0] & 0x3f | 0x40;
    Ok(rcgen::SerialNumber::from_slice(&bytes))
}

/// The days and hours of certificates, in one place.
mod lifetime {
    use std::time::Duration;

    /// How far back a certificate starts, for clients whose clock is slow.
    pub const BACK_DATED: Duration = Duration::from_secs(3600);
    /// A sandbox's authority: ten years, which outlasts any run.
    pub const CA: Duration = Duration::from_secs(3650 * 86_400);
    /// A leaf: thirty days.
    pub const LEAF: Duration = Duration::from_secs(30 * 86_400);
    /// A leaf this close to its end is replaced.
    pub const LEAF_RENEWED_BEFORE: Duration = Duration::from_secs(10 * 86_400);
}
