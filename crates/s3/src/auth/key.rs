//! Signing keys, and the comparison of what they sign.
//!
//! A [`Mac`] has no `PartialEq`: the only way to compare two is in constant time. A [`SigningKey`]
//! prints as nothing. Deriving one costs eight SHA-256 blocks, about a microsecond, which is why
//! no cache of keys exists.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac as _};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::{Code, Fault};

/// Stands in for the secret of a key that does not exist, so that such a key costs the same work.
pub(super) const DUMMY_SECRET: &str = "no key of this name, so the work is for nothing";

/// The refusal of a key that does not exist.
pub(super) fn unknown_key(access_key: &str) -> Fault {
    Fault::because(
        Code::InvalidAccessKeyId,
        "The AWS Access Key Id you provided does not exist in our records.",
    )
    .with("AWSAccessKeyId", access_key)
}

/// The key that signs for one secret, date and region.
#[derive(Clone)]
pub(crate) struct SigningKey([u8; 32]);

impl SigningKey {
    /// `date` is eight digits.
    pub(crate) fn derive(secret: &str, date: &str, region: &str) -> SigningKey {
        let first = [b"AWS4", secret.as_bytes()].concat();
        let key = hmac_sha256(&first, date.as_bytes());
        let key = hmac_sha256(&key, region.as_bytes());
        let key = hmac_sha256(&key, b"s3");
        SigningKey(hmac_sha256(&key, b"aws4_request"))
    }

    pub(crate) fn sign(&self, string_to_sign: &[u8]) -> Mac {
        Mac(hmac_sha256(&self.0, string_to_sign))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// What a signing key makes of a string to sign.
#[derive(Clone, Debug)]
pub(crate) struct Mac([u8; 32]);

impl Mac {
    /// Whether the hex text is this MAC. Upper case is not: a signature has one spelling.
    ///
    /// The time does not depend on where the two differ.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let mut claimed = [0; 32];
        let decoded = hex::decode_to_slice(text, &mut claimed).is_ok();
        let well_formed = Choice::from(u8::from(lower && decoded));
        (well_formed & self.0.ct_eq(&claimed)).into()
    }
}

/// HMAC-SHA-1, as SigV2 has it.
pub(super) fn hmac_sha1(key: &[u8], message: &[u8]) -> [u8; 20] {
    let key = block(key, |long| Sha1::digest(long).to_vec());
    Hmac::<Sha1>::new(&key.into()).chain_update(message).finalize().into_bytes().into()
}

fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let key = block(key, |long| Sha256::digest(long).to_vec());
    Hmac::<Sha256>::new(&key.into()).chain_update(message).finalize().into_bytes().into()
}

/// A key as long as a block of its hash, as HMAC defines it: no key is refused, none can fail.
fn block(key: &[u8], hash: impl Fn(&[u8]) -> Vec<u8>) -> [u8; 64] {
    let shortened;
    let key = if key.len() > 64 {
        shortened = hash(key);
        &shortened
    } else {
        key
    };
    let mut block = [0; 64];
    for (into, from) in block.iter_mut().zip(key) {
        *into = *from;
    }
    block
}
