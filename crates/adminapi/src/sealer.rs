//! Seals the secrets of new access keys under the master key of the gateway.

use admin::{NONCE_BYTES, SecretSealer};
use identity::{Access, Secret};

/// The master key of the gateway, as the administration uses it.
#[derive(Debug)]
pub(crate) struct Sealer<'a>(pub(crate) &'a Access);

impl SecretSealer for Sealer<'_> {
    fn seal(&self, access_key: &str, secret: &str, nonce: [u8; NONCE_BYTES]) -> Vec<u8> {
        self.0.seal(access_key, &Secret::new(secret), nonce)
    }

    fn is_sealed(&self, access_key: &str, secret: &str, sealed: &[u8]) -> bool {
        self.0.is_sealed(access_key, secret, sealed)
    }
}
