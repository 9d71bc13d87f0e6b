//! How an upload gives memory back while its client is slow.
//!
//! For example, an upload that holds 4 MiB and whose client has stopped puts its bytes as a short
//! block when another upload waits for memory.

use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::{ContentWriter, PERMIT_STEP_BYTES, SHORT_BLOCK_BYTES_MIN};
use crate::pressure::Pressure;
use crate::{ContentError, Permit};

impl ContentWriter {
    /// Waits until other requests need the memory of this body and its client is slow. The caller
    /// polls this while it waits for the client, and then calls [`ContentWriter::release_memory`].
    pub async fn memory_wanted(&self) {
        self.memory.pressure.wanted().await;
    }

    /// Puts the bytes that have arrived as a short block, so that other requests get their memory.
    ///
    /// # Errors
    /// As [`ContentWriter::write`].
    pub async fn release_memory(&mut self) -> Result<(), ContentError> {
        if self.failed {
            return Ok(());
        }
        // Set during the call, so that a call that is dropped halfway fails the body, too.
        self.failed = true;
        // A whole body with few bytes gives back the unused part of its permit and stays whole.
        // With more bytes it is cut into blocks. Without a permit it holds no budgeted memory.
        if let Some(mut whole) = self.whole.take() {
            let short = self.size <= u64::from(SHORT_BLOCK_BYTES_MIN);
            match &mut whole.permit {
                Some(permit) if short => {
                    permit.shrink_to(u64::from(SHORT_BLOCK_BYTES_MIN));
                    whole.granted = whole.granted.min(SHORT_BLOCK_BYTES_MIN);
                    self.whole = Some(whole);
                }
                Some(_) => self.spill(whole).await?,
                None => self.whole = Some(whole),
            }
        }
        match &mut self.block {
            // The gateway has memory for this much of each connection, so a shorter block stays.
            Some(block) if block.sealer.len() >= SHORT_BLOCK_BYTES_MIN => {
                self.memory.is_slow = true;
                self.put_short_block();
            }
            Some(block) => {
                block.permit.shrink_to(u64::from(SHORT_BLOCK_BYTES_MIN));
                block.granted = block.granted.min(SHORT_BLOCK_BYTES_MIN);
            }
            None => {}
        }
        if let Some(arrived) = self.md5_backlog.take() {
            self.start_md5_late(arrived, &Bytes::new()).await?;
        }
        self.record_held();
        self.failed = false;
        Ok(())
    }

    /// Records the memory that the writer holds while it waits for the client, so that the budget
    /// may ask for it.
    pub(super) fn record_held(&mut self) {
        let of_whole = self.whole.as_ref().and_then(|whole| whole.permit.as_ref());
        let permit = self.block.as_ref().map(|block| &block.permit).or(of_whole);
        let held = permit.map_or(0, Permit::bytes);
        // Registered at the first permit only, so that bodies without memory do not lengthen the
        // budget's list.
        if held > 0 && !std::mem::replace(&mut self.memory.is_registered, true) {
            let pressure: Weak<Pressure> = Arc::downgrade(&self.memory.pressure);
            self.staging.budget.register_holder(pressure);
        }
        // Memory that cannot be released is recorded as zero, so that the budget does not ask for
        // it.
        let held = if held > u64::from(SHORT_BLOCK_BYTES_MIN) { held } else { 0 };
        self.memory.pressure.note(self.size, held);
    }

    /// Puts the unfinished block before it is full. If the body was to be one bare block, whose MD5
    /// the block store reports, its MD5 is computed here from now on.
    pub(super) fn put_short_block(&mut self) {
        if std::mem::take(&mut self.bare) {
            self.md5_backlog = self.block.as_ref().map(|block| block.sealer.content());
        }
        self.put_block();
    }

    /// Returns the size in bytes of a block's first permit for memory: smaller if the client was
    /// slow.
    pub(super) fn first_step(&self) -> u32 {
        if self.memory.is_slow { SHORT_BLOCK_BYTES_MIN } else { PERMIT_STEP_BYTES }
    }
}
