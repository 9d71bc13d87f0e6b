//! The content of a range as it arrives from a store, verified.
//!
//! An [`Arrival`] requests its range once and yields each sub-block as soon as it has passed its
//! checksum, as slices of the store's own frames. The reader pulls: what it has not asked for yet waits
//! in the store, in the buffers of a connection, say, and holds the sender back. The store is passed to
//! each call and not kept.
//!
//! **All or an error.** If a source ends too early, the rest is requested again from the first sub-block
//! that was not yielded. So it is, once, if a sub-block is damaged or missing. A reader gets each byte
//! exactly once, or an error; never zeros, never fewer bytes.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use record::BlockId;
use tracing::warn;

use crate::opening::Opener;
use crate::sealed::Opened;
use crate::store::open_known;
use crate::{Arriving, BlockError, BlockErrorKind, BlockRef, BlockStore, SUB_BLOCK_BYTES};

/// Content bytes of a range from which on streaming pays off. A shorter range is read at once.
pub const ARRIVAL_BYTES_MIN: u32 = 2 << 20;

/// How often a source that was lost is replaced before another sub-block has come.
const RESUMES_MAX: u32 = 3;

/// A range of a block's content that arrives.
pub struct Arrival {
    block: BlockRef,
    /// The wanted content that is not verified yet.
    range: Range<u32>,
    /// Sub-blocks that hold all of what was wanted at first.
    sub_blocks: u32,
    opener: Opener,
    source: Option<Box<dyn Arriving>>,
    /// Verified content that was not taken yet.
    verified: VecDeque<Bytes>,
    /// Sources that were lost since the last sub-block came.
    lost: u32,
    second_reads: u32,
    _claim: Option<Box<dyn Any + Send>>,
}

impl Arrival {
    /// Whether a range lies within its block and is long enough to be had as it arrives.
    pub fn pays(block: BlockRef, range: &Range<u32>) -> bool {
        range.end <= block.length && range.end.saturating_sub(range.start) >= ARRIVAL_BYTES_MIN
    }

    /// A range that lies within its block and is not empty. Asks for nothing yet. `claim` is
    /// dropped with it.
    pub fn new(block: BlockRef, range: Range<u32>, claim: Option<Box<dyn Any + Send>>) -> Arrival {
        let sub_blocks = range.start / SUB_BLOCK_BYTES..range.end.div_ceil(SUB_BLOCK_BYTES);
        Arrival {
            block,
            range,
            sub_blocks: sub_blocks.end - sub_blocks.start,
            opener: Opener::new(block, sub_blocks),
            source: None,
            verified: VecDeque::new(),
            lost: 0,
            second_reads: 0,
            _claim: claim,
        }
    }

    /// The block that arrives.
    pub fn block_id(&self) -> BlockId {
        self.block.id
    }

    /// How many sub-blocks arrive, those that have come included.
    pub fn sub_blocks(&self) -> u32 {
        self.sub_blocks
    }

    /// Content bytes that were not taken yet.
    pub fn left(&self) -> u32 {
        let waiting: usize = self.verified.iter().map(Bytes::len).sum();
        self.range.end - self.range.start + u32::try_from(waiting).unwrap_or(u32::MAX)
    }

    /// Says what the CRC-32C is of all content before the range, before anything has come. If the
    /// range ends where its block does, its last sub-block leaves only if that makes the block of
    /// the record. A range from the beginning of its block knows it by itself.
    pub fn follow(&mut self, before: u32) {
        self.opener.follow(before);
    }

    /// The CRC-32C of the block's content up to what came, where all of that is known.
    pub fn joined(&self) -> Option<u32> {
        self.opener.joined()
    }

    /// Times that it was asked once more for what was missing or damaged: at most one.
    pub fn second_reads(&self) -> u32 {
        self.second_reads
    }

    /// The next piece that has been verified, if one has.
    pub fn take(&mut self) -> Option<Bytes> {
        self.verified.pop_front()
    }

    /// Asks the store for what has not come, unless it was asked, and waits until it answers.
    ///
    /// # Errors
    /// As [`BlockStore::get`] has them; a block that is missing is asked for twice.
    pub async fn open(&mut self, store: &(impl BlockStore + ?Sized)) -> Result<(), BlockError> {
        while self.source.is_none() && !self.opener.is_done() {
            let bytes = self.opener.restart();
            match open_known(store, self.block, bytes).await {
                Ok(source) => self.source = Some(source),
                Err(error) => self.again(error)?,
            }
        }
        Ok(())
    }

    /// Waits until there is more to take, and says whether there is; `false` is the end of the
    /// range. `seen` is shown each sub-block that came.
    ///
    /// # Errors
    /// `Corrupt` if what came is not what was sealed, also when asked for again; what a store's
    /// [`get`](BlockStore::get) says; the store's own error if it was lost too often.
    pub async fn advance(
        &mut self,
        store: &(impl BlockStore + ?Sized),
        mut seen: impl FnMut(&Opened) + Send,
    ) -> Result<bool, BlockError> {
        while self.verified.is_empty() {
            if self.opener.is_done() {
                return Ok(false);
            }
            self.open(store).await?;
            let Some(source) = &mut self.source else { continue };
            match source.next().await {
                Ok(Some(frame)) => self.push(frame, &mut seen)?,
                Ok(None) => {
                    let error = self.corrupt("fewer bytes came than the record names".to_owned());
                    self.again(error)?;
                }
                Err(error) => self.lose(error)?,
            }
            if self.opener.is_done() {
                self.end().await;
            }
        }
        Ok(true)
    }

    /// Opens a frame.
    fn push(&mut self, frame: Bytes, mut seen: impl FnMut(&Opened)) -> Result<(), BlockError> {
        let Arrival { opener, verified, range, lost, .. } = self;
        let pushed = opener.push(frame, |opened| {
            seen(&opened);
            *lost = 0;
            cut(range, opened, verified);
        });
        match pushed {
            Ok(()) => Ok(()),
            Err(what) => {
                let error = self.corrupt(what);
                self.again(error)
            }
        }
    }

    /// Drops a source that has given all that is wanted. Its end is read first, so that its connection
    /// can be used again. An error does not matter then: what it gave was verified.
    async fn end(&mut self) {
        if let Some(mut source) = self.source.take() {
            let _ = source.next().await;
        }
    }

    /// Gives a source up that was lost midway, unless that happens again and again.
    fn lose(&mut self, error: BlockError) -> Result<(), BlockError> {
        if error.kind() != BlockErrorKind::Unavailable {
            return self.again(error);
        }
        self.source = None;
        self.lost += 1;
        if self.lost > RESUMES_MAX {
            return Err(error);
        }
        let index = self.opener.next_index();
        warn!(block = %self.block.id, index, %error, "a block that was arriving is asked for again");
        Ok(())
    }

    /// Gives a source up that was missing or damaged, unless that is the second time.
    fn again(&mut self, error: BlockError) -> Result<(), BlockError> {
        self.source = None;
        match error.kind() {
            BlockErrorKind::Corrupt | BlockErrorKind::NotFound if self.second_reads == 0 => {
                self.second_reads += 1;
                warn!(block = %self.block.id, %error, "a block is read once more");
                Ok(())
            }
            _ => Err(error),
        }
    }

    fn corrupt(&self, what: String) -> BlockError {
        let (Range { start, end }, index) = (&self.range, self.opener.next_index());
        let doing =
            format!("opening bytes {start}..{end} of block {}, sub-block {index}", self.block.id);
        BlockError::because(BlockErrorKind::Corrupt, doing, what)
    }
}

/// Takes what is wanted of a sub-block.
fn cut(range: &mut Range<u32>, opened: Opened, verified: &mut VecDeque<Bytes>) {
    let mut place = opened.index.saturating_mul(SUB_BLOCK_BYTES);
    for mut piece in opened.pieces {
        let length = u32::try_from(piece.len()).unwrap_or(SUB_BLOCK_BYTES);
        piece.truncate(range.end.saturating_sub(place) as usize);
        let skip = range.start.saturating_sub(place) as usize;
        let piece = piece.split_off(skip.min(piece.len()));
        place = place.saturating_add(length);
        if !piece.is_empty() {
            range.start = place.min(range.end);
            verified.push_back(piece);
        }
    }
}

impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival")
            .field("block", &self.block.id)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
