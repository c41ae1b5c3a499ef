//! What an App proves itself with: a JWT (RFC 7519) that is signed with its key.

use std::time::{Duration, SystemTime};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use zeroize::{Zeroize, Zeroizing};

use crate::policy::github::ClientId;

/// How far before the time of its making it is good, so that clocks may differ.
const BEFORE: Duration = Duration::from_secs(60);
/// How long after it; GitHub takes no more than 600 seconds.
const AFTER: Duration = Duration::from_secs(540);

/// A JWT of the App, signed with RS256. `pem` is its private key as GitHub gives it, in PKCS#1, or in PKCS#8.
///
/// # Errors
/// What is wrong with the key, of which nothing is said.
pub(super) fn jwt(pem: &[u8], client: &ClientId, now: SystemTime) -> Result<Zeroizing<Vec<u8>>, String> {
    let key = key(pem)?;
    let seconds = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    // An App's number is one in JSON, too.
    let issuer = client.number().map_or_else(|| Value::from(client.as_str()), Value::from);
    let claims = json!({ "iat": seconds(now - BEFORE), "exp": seconds(now + AFTER), "iss": issuer });
    let encode = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(json!({ "alg": "RS256", "typ": "JWT" })), encode(claims));
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
        .map_err(|_| "nothing can be signed with the key".to_owned())?;
    Ok(Zeroizing::new(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)).into_bytes()))
}

fn key(pem: &[u8]) -> Result<RsaKeyPair, String> {
    const KIND: &str = "it is no RSA key of 2048 bits or more, which Apps have";
    let mut der = PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| "it is no PEM of a private key without a password (PKCS 1 or PKCS 8)".to_owned())?;
    let read = match &der {
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()).ok(),
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok(),
        PrivateKeyDer::Sec1(_) | _ => None,
    };
    der.zeroize();
    read.ok_or_else(|| KIND.to_owned())
}
