//! A client certificate, as TLS shows it.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// The certificates of a PEM text, the client's own first, with the key of another one.
///
/// # Errors
/// One of them cannot be read, or they do not belong together. The text never holds any part of them.
pub(super) fn identity(chain: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, String> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|_| "the certificate is not valid PEM".to_owned())?;
    if chain.is_empty() {
        return Err(
            "the certificate holds no certificate; it is PEM that begins with -----BEGIN CERTIFICATE".to_owned()
        );
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| "the key is no PEM of a private key without a password (PKCS 8, PKCS 1 or SEC 1)".to_owned())?;
    let key = aws_lc_rs::sign::any_supported_type(&key)
        .map_err(|_| "the key is of a kind that TLS does not use here: take ECDSA, Ed25519 or RSA".to_owned())?;
    let identity = CertifiedKey::new(chain, key);
    identity.keys_match().map_err(|_| "the key is not that of the certificate".to_owned())?;
    Ok(Arc::new(identity))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pair() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["client.test".to_owned()]).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn what_belongs_together_is_one() {
        let (certificate, key) = pair();
        let (other, _) = pair();
        let made = identity((certificate.clone() + &other).as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(made.cert.len(), 2);
    }

    #[test]
    fn what_does_not_is_refused_without_a_word_of_it() {
        let ((certificate, key), (other, _)) = (pair(), pair());
        let refused = |chain: &str, key: &str| identity(chain.as_bytes(), key.as_bytes()).unwrap_err();
        assert_eq!(refused(&other, &key), "the key is not that of the certificate");
        assert!(refused("", &key).contains("no certificate"));
        assert!(refused(&key, &key).contains("no certificate"));
        assert!(refused("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", &key).contains("not valid PEM"));
        assert!(refused(&certificate, "x").contains("no PEM of a private key"));
    }
}
