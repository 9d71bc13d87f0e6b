//! Encryption of content under the key of its object (SSE-C), piece by piece.
//!
//! The cipher depends on the id of the block and on the position in its content, and does not
//! change the length. So a range of a block is decrypted alone, and an object may reference the
//! blocks of another one that has the same key. For example, a copy from one client's key to
//! another references the blocks of its source.

use bytes::{Bytes, BytesMut};
use keyring::{ObjectEncryptionKey, PositionCipher};
use record::BlockId;

/// The cipher of a piece of content, whose bytes come in order.
#[derive(Debug)]
pub(crate) struct PieceCipher {
    cipher: PositionCipher,
    /// The position of the next byte in the content of the block.
    position: u64,
}

impl PieceCipher {
    /// Creates the cipher of the bytes of a block from `position` on.
    pub(crate) fn of_block(
        key: &ObjectEncryptionKey,
        block: BlockId,
        position: u32,
    ) -> PieceCipher {
        PieceCipher { cipher: key.of_block(block), position: u64::from(position) }
    }

    /// Returns the next bytes, encrypted or decrypted: both are the same.
    pub(crate) fn apply(&mut self, bytes: &Bytes) -> Bytes {
        let mut changed = BytesMut::from(&bytes[..]);
        self.cipher.apply(self.position, &mut changed);
        self.position += changed.len() as u64;
        changed.freeze()
    }
}

/// Returns inline content, encrypted or decrypted.
pub(crate) fn inline(key: &ObjectEncryptionKey, bytes: &Bytes) -> Bytes {
    let mut changed = BytesMut::from(&bytes[..]);
    key.of_inline().apply(0, &mut changed);
    changed.freeze()
}
