//! Signing keys and signatures.
//!
//! Invariants: a [`Signature`] has no `PartialEq`, so it can only be compared in constant time, and
//! `Debug` prints nothing of a [`SigningKey`]. Deriving a key takes eight SHA-256 blocks, about a
//! microsecond.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq as _};

use crate::CredentialScope;

/// The key that signs requests. It is derived from the secret of an access key for one day, region
/// and service.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// Derives the signing key from a secret for the day, region and service of a credential scope.
    pub fn derive(secret: &str, scope: &CredentialScope) -> SigningKey {
        // Each step adds one part of the scope, so a derived key is useless for another day, region
        // or service.
        let key = hmac(&[b"AWS4", secret.as_bytes()].concat(), scope.date());
        let key = hmac(&key, scope.region());
        let key = hmac(&key, scope.service());
        SigningKey(keyed(&hmac(&key, scope.terminator())))
    }

    /// Returns the signature of a string to sign, that is, of the text that contains the hash of a
    /// canonical request, of a chunk or of a trailer.
    pub fn sign(&self, string_to_sign: &str) -> Signature {
        let mac = self.0.clone().chain_update(string_to_sign);
        Signature(mac.finalize().into_bytes().into())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// The signature of a string to sign: an HMAC-SHA256 of 32 bytes.
#[derive(Clone, Debug)]
pub struct Signature([u8; 32]);

impl Signature {
    /// Returns the signature in lower-case hexadecimal, as requests carry it.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }

    /// Returns true if `text`, a signature that a client sent in hexadecimal, is this signature.
    /// Upper-case digits do not match, because a signature has only one encoding.
    ///
    /// The duration of the comparison does not depend on the position of the first difference, so
    /// it does not help to guess a signature.
    pub fn matches(&self, text: &str) -> bool {
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let mut claimed = [0; 32];
        let decoded = hex::decode_to_slice(text, &mut claimed).is_ok();
        // The comparison always runs in full, without a branch on the format of the text.
        let well_formed = Choice::from(u8::from(lower && decoded));
        (well_formed & self.0.ct_eq(&claimed)).into()
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn hmac(key: &[u8], message: &str) -> [u8; 32] {
    keyed(key).chain_update(message).finalize().into_bytes().into()
}
