//! A body that is durable and that no record references yet.

use std::sync::Arc;

use publication::StagedBlocks;
use record::Content;

use crate::claim::BlockClaim;
use crate::staged_inline::Reservation;

/// A complete, durable body that no record references yet. Dropping it deletes its blocks in the
/// background, unless `disarm` was called because a plan may reference them.
///
/// For example, a PUT whose condition `If-None-Match: *` fails at commit drops its staged content,
/// and the blocks are deleted.
#[derive(Debug)]
#[must_use = "content that is not published is deleted"]
pub struct StagedContent {
    content: Content,
    size: u64,
    blocks: BlockClaim,
    /// The reserved capacity of a body that is to be staged inline, that is, kept in its inode's
    /// record for a while.
    reservation: Option<Reservation>,
    md5: Option<[u8; 16]>,
}

impl StagedContent {
    pub(crate) fn new(
        content: Content,
        size: u64,
        blocks: BlockClaim,
        reservation: Option<Reservation>,
    ) -> StagedContent {
        StagedContent { content, size, blocks, reservation, md5: None }
    }

    pub(crate) fn with_md5(self, md5: Option<[u8; 16]>) -> StagedContent {
        StagedContent { md5, ..self }
    }

    /// The body's MD5; `None` unless the writer was asked for it with
    /// [`request_md5`](crate::ContentWriter::request_md5).
    pub fn md5(&self) -> Option<[u8; 16]> {
        self.md5
    }

    /// Takes the reserved capacity of a body that is to be staged inline, that is, kept in its
    /// inode's record until it is moved into a block. The publisher assigns it to the file that
    /// gets the body. Returns `None` for other bodies and at the second call.
    pub fn take_reservation(&mut self) -> Option<Reservation> {
        self.reservation.take()
    }

    /// The size of the body in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The content: inline bytes, or any number of slices sorted by position. Never pages: the
    /// publisher lays out pages.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Keeps the body's blocks when this is dropped, because a plan may reference them: see
    /// [`BlockClaim::disarm`].
    pub fn disarm(&mut self) {
        self.blocks.disarm();
    }

    /// Deletes the body's blocks again when this is dropped: see [`BlockClaim::rearm`].
    pub fn rearm(&mut self) {
        self.blocks.rearm();
    }

    /// Returns the claim on the body's blocks, for the session that publishes them. It deletes the
    /// blocks if its last owner drops it armed.
    pub fn into_blocks(self) -> Arc<dyn StagedBlocks> {
        self.blocks.0
    }

    /// Returns the content, and the claim on its blocks, which deletes them when it is dropped
    /// armed. The claim stays armed or disarmed as it is.
    pub fn into_parts(self) -> (Content, BlockClaim) {
        (self.content, self.blocks)
    }
}
