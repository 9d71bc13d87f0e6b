//! Signing keys and signatures.
//!
//! A [`Signature`] has no `PartialEq`: the only way to compare one is in constant time. A
//! [`SigningKey`] prints nothing of the key. Deriving one costs eight SHA-256 blocks, about a
//! microsecond.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq as _};

use crate::CredentialScope;

/// The key that signs for one secret, day, region and service.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// Derives the key of a credential scope.
    pub fn derive(secret: &str, scope: &CredentialScope) -> SigningKey {
        let key = hmac(&[b"AWS4", secret.as_bytes()].concat(), scope.date());
        let key = hmac(&key, scope.region());
        let key = hmac(&key, scope.service());
        SigningKey(keyed(&hmac(&key, scope.terminator())))
    }

    /// Signs a string to sign.
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

/// What a key makes of a string to sign.
#[derive(Clone, Debug)]
pub struct Signature([u8; 32]);

impl Signature {
    /// The signature as a request carries it, in lower case.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }

    /// Whether `text` is this signature. In upper case it is not: a signature has one spelling.
    ///
    /// The time that this takes does not depend on where the two differ.
    pub fn matches(&self, text: &str) -> bool {
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let mut claimed = [0; 32];
        let decoded = hex::decode_to_slice(text, &mut claimed).is_ok();
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
