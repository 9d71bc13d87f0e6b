//! The chain of signatures through a body: each one signs the one before it.
//!
//! The SHA-256 of each chunk is computed here, or by somebody else, who tells it later. Then
//! signatures wait for it, and are checked in their order.

use std::collections::VecDeque;

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
    hash: Hash,
}

/// Who computes the SHA-256s of the chunks.
#[derive(Debug)]
enum Hash {
    /// The chain: this one is of the content of the chunk that is arriving.
    Here(Sha256),
    /// Somebody else: these have not been told yet, or wait behind such a one.
    Elsewhere(VecDeque<Unchecked>),
}

/// A signature that was sent, and what it signs.
#[derive(Debug)]
enum Unchecked {
    /// Content whose SHA-256 is not known yet.
    Chunk(String),
    /// What is known: the algorithm, the end of the string to sign, and the signature.
    Known(&'static str, String, String),
}

impl Chain {
    pub(super) fn new(seed: &ChunkSeed) -> Chain {
        Chain {
            key: seed.key.clone(),
            timestamp: seed.timestamp.clone(),
            scope: seed.scope.clone(),
            previous: seed.signature.clone(),
            hash: Hash::Here(Sha256::new()),
        }
    }

    /// Lets somebody else compute the SHA-256s. Before any content came.
    pub(super) fn hash_elsewhere(&mut self) {
        self.hash = Hash::Elsewhere(VecDeque::new());
    }

    /// Whether all signatures that came have been checked.
    pub(super) fn is_checked(&self) -> bool {
        matches!(&self.hash, Hash::Elsewhere(waiting) if waiting.is_empty())
            || matches!(self.hash, Hash::Here(_))
    }

    /// Takes content of the current chunk.
    pub(super) fn update(&mut self, content: &[u8]) {
        if let Hash::Here(hash) = &mut self.hash {
            hash.update(content);
        }
    }

    /// Ends the current chunk, which has content. Fault: `SignatureDoesNotMatch`.
    pub(super) fn check_chunk(&mut self, signature: &str) -> Result<(), Fault> {
        match &mut self.hash {
            Hash::Here(hash) => {
                let content = hash.finalize_reset();
                self.check_content(&content, signature)
            }
            Hash::Elsewhere(waiting) => {
                waiting.push_back(Unchecked::Chunk(signature.to_owned()));
                Ok(())
            }
        }
    }

    /// Ends the chunk without content that is the last. Fault: `SignatureDoesNotMatch`.
    pub(super) fn check_end(&mut self, signature: &str) -> Result<(), Fault> {
        self.check_in_turn(CHUNK, format!("{EMPTY}\n{EMPTY}"), signature)
    }

    /// Checks the trailer, `name:value` and a line feed for each. Fault: `SignatureDoesNotMatch`.
    pub(super) fn check_trailer(&mut self, trailer: &str, signature: &str) -> Result<(), Fault> {
        let trailer = hex::encode(Sha256::digest(trailer));
        self.check_in_turn("AWS4-HMAC-SHA256-TRAILER", trailer, signature)
    }

    /// Takes the SHA-256 of the first chunk that waits for it, and checks what can be checked then.
    /// Faults: `SignatureDoesNotMatch`; `InternalError` if no chunk waits.
    pub(super) fn hashed(&mut self, content: &[u8; 32]) -> Result<(), Fault> {
        let Some(Unchecked::Chunk(signature)) = self.next_waiting(|_| true) else {
            return Err(Code::InternalError.into());
        };
        self.check_content(content, &signature)?;
        while let Some(Unchecked::Known(algorithm, rest, signature)) =
            self.next_waiting(|next| matches!(next, Unchecked::Known(..)))
        {
            self.check(algorithm, &rest, &signature)?;
        }
        Ok(())
    }

    fn next_waiting(&mut self, wanted: impl FnOnce(&Unchecked) -> bool) -> Option<Unchecked> {
        let Hash::Elsewhere(waiting) = &mut self.hash else { return None };
        waiting.front().is_some_and(wanted).then(|| waiting.pop_front())?
    }

    /// Checks a signature when all before it have been.
    fn check_in_turn(
        &mut self,
        algorithm: &'static str,
        rest: String,
        signature: &str,
    ) -> Result<(), Fault> {
        match &mut self.hash {
            Hash::Elsewhere(waiting) if !waiting.is_empty() => {
                waiting.push_back(Unchecked::Known(algorithm, rest, signature.to_owned()));
                Ok(())
            }
            _ => self.check(algorithm, &rest, signature),
        }
    }

    fn check_content(&mut self, content: &[u8], signature: &str) -> Result<(), Fault> {
        self.check(CHUNK, &format!("{EMPTY}\n{}", hex::encode(content)), signature)
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
