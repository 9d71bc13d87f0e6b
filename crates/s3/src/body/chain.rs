//! The chain of signatures through a body: each one signs the one before it.

use sha2::{Digest as _, Sha256};

use crate::auth::{ChunkSeed, SigningKey};
use crate::{Code, Fault};

/// SHA-256 of nothing, which stands in each chunk's string to sign.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// What a chunk is signed with.
const CHUNK: &str = "AWS4-HMAC-SHA256-PAYLOAD";

/// Where a chain of signatures stands.
#[derive(Debug)]
pub(super) struct Chain {
    key: SigningKey,
    timestamp: String,
    scope: String,
    /// In hex; the request's own to begin with.
    previous: String,
    /// Of the content of the chunk that is arriving.
    hash: Sha256,
}

impl Chain {
    pub(super) fn new(seed: &ChunkSeed) -> Chain {
        Chain {
            key: seed.key.clone(),
            timestamp: seed.timestamp.clone(),
            scope: seed.scope.clone(),
            previous: seed.signature.clone(),
            hash: Sha256::new(),
        }
    }

    /// Takes content of the current chunk.
    pub(super) fn update(&mut self, content: &[u8]) {
        self.hash.update(content);
    }

    /// Ends the current chunk, which has content. Fault: `SignatureDoesNotMatch`.
    pub(super) fn check_chunk(&mut self, signature: &str) -> Result<(), Fault> {
        let content = hex::encode(self.hash.finalize_reset());
        self.check(CHUNK, &format!("{EMPTY}\n{content}"), signature)
    }

    /// Ends the chunk without content that is the last. Fault: `SignatureDoesNotMatch`.
    pub(super) fn check_end(&mut self, signature: &str) -> Result<(), Fault> {
        self.check(CHUNK, &format!("{EMPTY}\n{EMPTY}"), signature)
    }

    /// Checks the trailer, `name:value` and a line feed for each. Fault: `SignatureDoesNotMatch`.
    pub(super) fn check_trailer(&mut self, trailer: &str, signature: &str) -> Result<(), Fault> {
        let trailer = hex::encode(Sha256::digest(trailer));
        self.check("AWS4-HMAC-SHA256-TRAILER", &trailer, signature)
    }

    fn check(&mut self, algorithm: &str, rest: &str, signature: &str) -> Result<(), Fault> {
        let Chain { timestamp, scope, previous, .. } = self;
        let string_to_sign = format!("{algorithm}\n{timestamp}\n{scope}\n{previous}\n{rest}");
        if !self.key.sign(string_to_sign.as_bytes()).matches(signature) {
            return Err(Fault::because(
                Code::SignatureDoesNotMatch,
                "A signature in the body does not match.",
            )
            .with("StringToSign", string_to_sign)
            .with("SignatureProvided", signature));
        }
        signature.clone_into(&mut self.previous);
        Ok(())
    }
}
