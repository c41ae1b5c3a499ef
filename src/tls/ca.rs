//! The certificate authority of one sandbox.

use std::fmt;
use std::time::SystemTime;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData,
};
use rustls::pki_types::CertificateDer;

use crate::types::SandboxId;

use super::{TlsError, lifetime, random_serial};

/// A certificate authority that one sandbox trusts and no other. Its key exists in this process's memory alone and is
/// never written anywhere; when the value is dropped, nothing can sign for the sandbox any more.
pub struct SandboxCa {
    issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
    pem: String,
}

impl SandboxCa {
    /// Makes a P-256 authority named `Sandbox Proxy CA <id>` with path length 0. It is valid from one hour ago for ten
    /// years.
    ///
    /// # Errors
    /// [`TlsError::Generate`] or [`TlsError::Random`] when the system gives no randomness.
    pub fn generate(id: &SandboxId) -> Result<Self, TlsError> {
        Self::generate_at(id, SystemTime::now())
    }

    /// [`Self::generate`] at a given time.
    ///
    /// # Errors
    /// As there.
    pub fn generate_at(id: &SandboxId, now: SystemTime) -> Result<Self, TlsError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        params.not_before = (now - lifetime::BACK_DATED).into();
        params.not_after = (now + lifetime::CA).into();
        params.serial_number = Some(random_serial()?);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, format!("Sandbox Proxy CA {id}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.self_signed(&key)?;
        Ok(Self { pem: certificate.pem(), der: certificate.into(), issuer: Issuer::new(params, key) })
    }

    /// The certificate as one PEM block with a final newline.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The certificate as DER.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    pub(super) fn sign(
        &self,
        params: &CertificateParams,
        key: &impl PublicKeyData,
    ) -> Result<Certificate, rcgen::Error> {
        params.signed_by(key, &self.issuer)
    }
}

impl fmt::Debug for SandboxCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxCa").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use x509_parser::prelude::*;

    use super::*;

    #[test]
    fn the_certificate_is_as_rfc_5280_wants_an_authority() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let ca = SandboxCa::generate_at(&SandboxId::from_bits(0xabc), now).unwrap();
        let (rest, cert) = X509Certificate::from_der(ca.der()).unwrap();
        assert!(rest.is_empty());
        assert_eq!(cert.version(), X509Version::V3);
        assert_eq!(cert.subject().to_string(), "CN=Sandbox Proxy CA 0000000000000abc");
        assert_eq!(cert.issuer(), cert.subject());
        assert_eq!(cert.raw_serial().len(), 16);
        assert!((0x40..0x80).contains(&cert.raw_serial()[0]), "positive and not shortened");
        assert_eq!(cert.validity().not_before.timestamp(), 1_800_000_000 - 3600);
        assert_eq!(cert.validity().not_after.timestamp(), 1_800_000_000 + 3650 * 86_400);
        let constraints = cert.basic_constraints().unwrap().unwrap();
        assert!(constraints.critical && constraints.value.ca);
        assert_eq!(constraints.value.path_len_constraint, Some(0));
        let usage = cert.key_usage().unwrap().unwrap();
        assert!(usage.critical);
        assert_eq!(usage.value.flags, 1 << 5 | 1 << 6, "keyCertSign and cRLSign, nothing else");
        let key_id = cert.get_extension_unique(&oid_registry::OID_X509_EXT_SUBJECT_KEY_IDENTIFIER).unwrap();
        assert!(key_id.is_some());
        cert.verify_signature(None).unwrap();
    }

    #[test]
    fn no_two_authorities_share_a_key_or_serial() {
        let id = SandboxId::from_bits(1);
        let (a, b) = (SandboxCa::generate(&id).unwrap(), SandboxCa::generate(&id).unwrap());
        let parse = |ca: &SandboxCa| {
            let (_, cert) = X509Certificate::from_der(ca.der()).unwrap();
            (cert.raw_serial().to_vec(), cert.public_key().raw.to_vec())
        };
        assert_ne!(parse(&a).0, parse(&b).0);
        assert_ne!(parse(&a).1, parse(&b).1);
    }

    #[test]
    fn debug_shows_no_key() {
        let ca = SandboxCa::generate(&SandboxId::from_bits(1)).unwrap();
        assert_eq!(format!("{ca:?}"), "SandboxCa { .. }");
    }
}
