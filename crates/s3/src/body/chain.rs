//! The chain of signatures in a chunked body: each signature covers the previous one.

use sha2::{Digest as _, Sha256};
use sigv4::{
    CredentialScope, EMPTY_SHA256, SigningKey, chunk_string_to_sign, trailer_string_to_sign,
};

use crate::auth::ChunkSeed;
use crate::{Code, Fault};

/// The chain of signatures in a chunked body, in which each signature covers the previous one.
/// `self` is the part that is already verified.
#[derive(Debug)]
pub(super) struct Chain {
    key: SigningKey,
    timestamp: String,
    scope: CredentialScope,
    /// The last verified signature, in hexadecimal; initially the signature of the request.
    previous: String,
    /// The hash of the content of the current chunk.
    hash: Sha256,
}

impl Chain {
    /// Starts the chain of signatures of a body after the signature of its request.
    pub(super) fn new(seed: &ChunkSeed) -> Chain {
        Chain {
            key: seed.key.clone(),
            timestamp: seed.timestamp.clone(),
            scope: seed.scope.clone(),
            previous: seed.signature.clone(),
            hash: Sha256::new(),
        }
    }

    /// Adds content of the current chunk to its hash.
    pub(super) fn update(&mut self, content: &[u8]) {
        self.hash.update(content);
    }

    /// Ends the current chunk, which has content, and checks its signature. Fails with
    /// `SignatureDoesNotMatch`.
    pub(super) fn check_chunk(&mut self, signature: &str) -> Result<(), Fault> {
        let content = hex::encode(self.hash.finalize_reset());
        self.check(&self.chunk(&content), signature)
    }

    /// Checks the signature of the last chunk, which has no content. Fails with
    /// `SignatureDoesNotMatch`.
    pub(super) fn check_last_chunk(&mut self, signature: &str) -> Result<(), Fault> {
        self.check(&self.chunk(EMPTY_SHA256), signature)
    }

    /// Checks the signature of the trailer, that is, of the header lines after the last chunk.
    /// `trailer` is `name:value` and a line feed for each field. Fails with
    /// `SignatureDoesNotMatch`.
    pub(super) fn check_trailer(&mut self, trailer: &str, signature: &str) -> Result<(), Fault> {
        let Chain { timestamp, scope, previous, .. } = &*self;
        let string_to_sign = trailer_string_to_sign(timestamp, scope, previous, trailer);
        self.check(&string_to_sign, signature)
    }

    fn chunk(&self, content_sha256: &str) -> String {
        chunk_string_to_sign(&self.timestamp, &self.scope, &self.previous, content_sha256)
    }

    fn check(&mut self, string_to_sign: &str, signature: &str) -> Result<(), Fault> {
        // The chain does not continue after a wrong signature: `previous` stays unchanged and the
        // body fails.
        if !self.key.sign(string_to_sign).matches(signature) {
            return Err(Fault::new(Code::SignatureDoesNotMatch)
                .detail("The signature of a chunk or of the trailer does not match.")
                .with("StringToSign", string_to_sign)
                .with("SignatureProvided", signature));
        }
        signature.clone_into(&mut self.previous);
        Ok(())
    }
}
