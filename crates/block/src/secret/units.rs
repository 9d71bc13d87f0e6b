//! Encryption and decryption of the units of one secret block.

use bytes::{BufMut, Bytes, BytesMut};
use keyring::{RingKey, TAG_BYTES, UnitCipher};
use record::{BlockId, RingNumber};

use super::object::{self, PREFIX_BYTES};
use crate::SealedBlock;
use crate::sealed::{self, CHECKSUM_BYTES, HEADER_BYTES};

/// Units that are encrypted or decrypted before other tasks run. With 64 KiB for each, these take
/// some 0.1 ms of a core.
pub(super) const UNITS_AT_ONCE: u32 = 4;

/// The purpose of the keys of blocks, for the derivation from a ring key.
const PURPOSE: &str = "block";

/// The cipher of one block under one ring key.
#[derive(Debug)]
pub(super) struct Units {
    id: BlockId,
    ring: RingNumber,
    cipher: UnitCipher,
}

impl Units {
    pub(super) fn new(id: BlockId, ring: RingNumber, key: &RingKey) -> Units {
        Units { id, ring, cipher: key.cipher(PURPOSE, &id.0) }
    }

    /// The number of the ring key.
    pub(super) fn ring(&self) -> RingNumber {
        self.ring
    }

    /// The operation of decrypting the block, for error texts.
    pub(super) fn decrypting(&self) -> String {
        format!("decrypting block {} under ring key {}", self.id, self.ring)
    }

    /// Returns the object of the block in pieces. The same block gives the same bytes.
    ///
    /// A full block takes some 10 ms of a core. A thread of its own would cost a change of threads
    /// also for a pack of some KiB, and memory for all waiting blocks. So the task encrypts in
    /// steps, and lets others run between them.
    pub(super) async fn encrypted(&self, block: &SealedBlock) -> Vec<Bytes> {
        let units = block.length().div_ceil(crate::SUB_BLOCK_BYTES);
        let mut pieces = Vec::with_capacity(units.div_ceil(UNITS_AT_ONCE) as usize);
        let mut open = BytesMut::with_capacity(object::unit_bytes(0) + step_bytes(block, 0));
        open.put_slice(&object::prefix(self.id, self.ring));
        open.put_slice(&sealed::header(self.id, block.length()));
        self.seal(0, &mut open, PREFIX_BYTES);
        for sub_block in block.sub_blocks() {
            if sub_block.index > 0 && sub_block.index.is_multiple_of(UNITS_AT_ONCE) {
                pieces.push(open.freeze());
                tokio::task::yield_now().await;
                open = BytesMut::with_capacity(step_bytes(block, sub_block.index));
            }
            let begin = open.len();
            for piece in &sub_block.pieces {
                open.put_slice(piece);
            }
            open.put_u32(sub_block.checksum);
            self.seal(sub_block.index + 1, &mut open, begin);
        }
        pieces.push(open.freeze());
        pieces
    }

    /// Decrypts a unit in place; its tag is removed. An error is a description of the damage, and
    /// leaves undefined bytes.
    pub(super) fn open(&self, unit: u32, bytes: &mut BytesMut) -> Result<(), String> {
        let smallest = if unit == 0 { HEADER_BYTES } else { CHECKSUM_BYTES + 1 } as usize;
        let length = bytes.len().checked_sub(TAG_BYTES).filter(|length| *length >= smallest);
        let Some(length) = length else {
            return Err(format!("unit {unit} is cut off"));
        };
        let tag = bytes.split_off(length);
        let opened = match tag.first_chunk() {
            Some(tag) => self.cipher.open(unit, &self.associated(unit), bytes, tag),
            None => Err(keyring::NotAuthentic),
        };
        opened.map_err(|error| format!("unit {unit}: {error}"))
    }

    /// Encrypts the bytes from `begin` on in place, and appends the tag.
    fn seal(&self, unit: u32, bytes: &mut BytesMut, begin: usize) {
        if let Some(content) = bytes.get_mut(begin..) {
            let tag = self.cipher.seal(unit, &self.associated(unit), content);
            bytes.put_slice(&tag);
        }
    }

    /// Returns the bytes that the tag of a unit authenticates too: block id, ring key, unit.
    fn associated(&self, unit: u32) -> [u8; BlockId::BYTES + 8] {
        let mut associated = [0; BlockId::BYTES + 8];
        let mut fields: &mut [u8] = &mut associated;
        fields.put_slice(&self.id.0);
        fields.put_u32(self.ring.0);
        fields.put_u32(unit);
        associated
    }
}

/// Returns the bytes of the units of one step, from that of the sub-block `index` on.
fn step_bytes(block: &SealedBlock, index: u32) -> usize {
    let content = sealed::content_of(block.length(), index..index.saturating_add(UNITS_AT_ONCE));
    let content = (content.end - content.start) as usize;
    content + UNITS_AT_ONCE as usize * (CHECKSUM_BYTES as usize + TAG_BYTES)
}
