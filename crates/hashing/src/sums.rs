//! What is computed of one message.

use std::mem;

use crate::md5::{self, Md5};
use crate::sha256::{self, Sha256};
use crate::vectors::Block;

/// A running MD5 of one message, and maybe running SHA-256s of the same bytes: of all of them, or of
/// one part after the other.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    md5: Md5,
    sha256s: Option<Box<Sha256s>>,
}

/// The SHA-256 of the part that is under way, and those of the parts that have ended.
#[derive(Clone, Debug)]
struct Sha256s {
    running: Sha256,
    ended: Vec<[u8; 32]>,
}

impl Sums {
    /// The MD5 of nothing yet.
    pub fn md5() -> Sums {
        Sums::default()
    }

    /// The MD5 and the SHA-256 of nothing yet.
    pub fn md5_and_sha256() -> Sums {
        let sha256s = Sha256s { running: Sha256::new(), ended: Vec::new() };
        Sums { sha256s: Some(Box::new(sha256s)), ..Sums::default() }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        if let Some(sha256s) = &mut self.sha256s {
            sha256s.running.0.update(bytes);
        }
    }

    /// Ends the SHA-256 of a part, if there is one, and begins that of the next.
    pub fn end_part(&mut self) {
        if let Some(sha256s) = &mut self.sha256s {
            let ended = mem::replace(&mut sha256s.running, Sha256::new());
            sha256s.ended.push(ended.finish());
        }
    }

    /// The SHA-256s of the parts that have ended since this was asked last, in their order.
    pub fn ended_parts(&mut self) -> Vec<[u8; 32]> {
        self.sha256s.as_mut().map(|sha256s| mem::take(&mut sha256s.ended)).unwrap_or_default()
    }

    /// The MD5 of all that was taken, and the SHA-256 of what no part ended.
    pub fn finish(self) -> ([u8; 16], Option<[u8; 32]>) {
        (self.md5.finish(), self.sha256s.map(|sha256s| sha256s.running.finish()))
    }

    /// How many bytes wait for the MD5's block to be full.
    pub(crate) fn rest_bytes(&self) -> usize {
        self.md5.0.rest_bytes()
    }

    /// The states of both at the end of an MD5's block; the SHA-256's if one of its blocks ends there
    /// too. It does unless a part ended within a block.
    pub(crate) fn states(&self) -> (md5::State, Option<sha256::State>) {
        let sha256 = self.sha256s.as_ref().map(|sha256s| &sha256s.running);
        (self.md5.0.state(), sha256.and_then(Sha256::state_between_blocks))
    }

    /// Goes on behind blocks that were taken elsewhere, with the states after them; the SHA-256 takes
    /// them here if it had no state to give.
    pub(crate) fn skip(&mut self, taken: &[Block], md5: md5::State, sha256: Option<sha256::State>) {
        self.md5.0.skip(taken.len(), md5);
        let Some(sha256s) = &mut self.sha256s else { return };
        match sha256 {
            Some(state) => sha256s.running.0.skip(taken.len(), state),
            None => sha256s.running.0.update(taken.as_flattened()),
        }
    }
}
