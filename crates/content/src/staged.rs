//! A body that is durable and that no record names yet.

use record::Content;

use crate::claim::StagedBlocks;
use crate::staged_inline::Reservation;

/// A whole body, durable, that no record names yet. Dropping it deletes its blocks in the
/// background, unless it was disarmed.
#[derive(Debug)]
#[must_use = "what is not published is deleted"]
pub struct StagedContent {
    content: Content,
    size: u64,
    blocks: StagedBlocks,
    /// Of a body that is to be staged inline.
    reservation: Option<Reservation>,
    md5: Option<[u8; 16]>,
}

impl StagedContent {
    pub(crate) fn new(
        content: Content,
        size: u64,
        blocks: StagedBlocks,
        reservation: Option<Reservation>,
    ) -> StagedContent {
        StagedContent { content, size, blocks, reservation, md5: None }
    }

    pub(crate) fn with_md5(self, md5: Option<[u8; 16]>) -> StagedContent {
        StagedContent { md5, ..self }
    }

    /// The body's MD5, if its writer was [to know it](crate::ContentWriter::want_md5).
    pub fn md5(&self) -> Option<[u8; 16]> {
        self.md5
    }

    /// Takes the room that the body has if it is to be staged inline, for whoever makes it a
    /// file's.
    pub fn take_reservation(&mut self) -> Option<Reservation> {
        self.reservation.take()
    }

    /// Bytes of the body.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The body: inline, or any number of slices in the order of their positions. Never pages:
    /// laying them out is the publisher's business.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// See [`StagedBlocks::disarm`].
    pub fn disarm(&mut self) {
        self.blocks.disarm();
    }

    /// See [`StagedBlocks::rearm`].
    pub fn rearm(&mut self) {
        self.blocks.rearm();
    }

    /// The body, and the blocks behind it with their state.
    pub fn into_parts(self) -> (Content, StagedBlocks) {
        (self.content, self.blocks)
    }
}
