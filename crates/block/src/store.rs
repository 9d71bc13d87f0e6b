//! The contract of every place that keeps blocks, and of every layer over one.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use record::{BlockId, Nonce};

use crate::arriving::{Arriving, AtOnce};
use crate::{BlockError, BlockErrorKind, BlockRef, SealedBlock};

/// Bytes of a mark at most.
pub const MARK_BYTES_MAX: usize = 4_096;

/// A place that keeps sealed blocks under their ids.
///
/// - **Atomic.** A block is there with all of its bytes or not at all, at every instant and after
///   every crash. Nobody sees part of one.
/// - **Durable.** When [`put`](BlockStore::put) returns, the block outlives the process, and the
///   machine as far as the place promises it.
/// - **Seen.** What a `put` or `delete` has done is seen by every call that begins after it
///   returned, whoever makes it.
/// - **Once.** An id names one content for ever. A place that can tell refuses other bytes.
/// - **Opaque.** A store moves sealed bytes and looks into none of them: whoever reads verifies,
///   through [`sealed::open`](crate::sealed::open).
/// - **Dropped calls.** A call whose future is dropped may still take effect, now or later.
///
/// Every call may be made at any time from any task, and every call may be repeated.
#[async_trait]
pub trait BlockStore: Debug + Send + Sync + 'static {
    /// Keeps a block under its id. Putting the same bytes again succeeds and changes nothing.
    ///
    /// # Errors
    /// `Conflict` if the id names other bytes already: those stay. After any other error the block
    /// may or may not be there.
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError>;

    /// Whether [`put`](BlockStore::put) usually tells the MD5 of the content of a block that is
    /// [bare](BlockId::is_bare), because the place computes it anyway. The last
    /// [`probe`](BlockStore::probe) found it out.
    fn reports_md5(&self) -> bool {
        false
    }

    /// The given range of a block's sealed bytes, cut where the block ends; empty if it ends
    /// before the range begins. Callers ask for at least one byte.
    ///
    /// # Errors
    /// `NotFound` if no block has this id; never empty or made-up bytes in its place. `SumsLost` if
    /// the place has lost what it makes sealed bytes with: see [`learn`](BlockStore::learn).
    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError>;

    /// Whether [`open`](BlockStore::open) gives bytes as they arrive, rather than all at once.
    fn streams(&self) -> bool {
        false
    }

    /// The same range as [`get`](BlockStore::get) gives it, as it arrives: returns when the store
    /// has answered, and the bytes come as the caller asks for them. A store that does not
    /// [stream](BlockStore::streams) gives them at once.
    ///
    /// # Errors
    /// As `get` has them. What is lost after the store has answered is an error of the bytes'.
    async fn open(&self, id: BlockId, bytes: Range<u64>) -> Result<Box<dyn Arriving>, BlockError> {
        Ok(Box::new(AtOnce(Some(self.get(id, bytes).await?))))
    }

    /// Finds out anew what the pieces of a block are verified by, after
    /// [`get`](BlockStore::get) said that this is lost: reads all of the block once, and lets it count
    /// if it is the one of the record. Then `get` gives sealed bytes again for a while. Returns the
    /// bytes that were read for it: none if another call has just done so.
    ///
    /// # Errors
    /// `Corrupt` if the whole block is not the one of the record, and what `get` says. A place that
    /// cannot lose this is not asked, and says `Refused`.
    async fn learn(&self, block: BlockRef) -> Result<u64, BlockError> {
        let doing = format!("learning the checksums of block {}", block.id);
        Err(BlockError::because(BlockErrorKind::Refused, doing, "none can be lost here"))
    }

    /// What an operator should know of a place that works, in sentences, as far as the last
    /// [`probe`](BlockStore::probe) found out.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// The sealed size in bytes of a block, or `None` if no block has this id.
    ///
    /// # Errors
    /// An answer that could not be had is an error, not `None`.
    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError>;

    /// Removes a block. Removing what is not there succeeds.
    ///
    /// # Errors
    /// After an error the block may or may not be there.
    async fn delete(&self, id: BlockId) -> Result<(), BlockError>;

    /// The sessions that have blocks here, in ascending order. A session without blocks may be
    /// among them.
    ///
    /// # Errors
    /// Complete or an error: a caller may conclude that a session not named has no block.
    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError>;

    /// A page of one session's blocks in ascending order, from the beginning or from where an
    /// earlier page stopped. Every block that was there from the first page to the last stands on
    /// exactly one page.
    ///
    /// # Errors
    /// A page is complete or an error. A name among the blocks that is not a block's is `Corrupt`.
    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError>;

    /// What was written beside the blocks to say whose they are, or `None` if nothing was.
    ///
    /// # Errors
    /// `Corrupt` if what stands there has more than [`MARK_BYTES_MAX`] bytes. An answer that could
    /// not be had is an error, not `None`.
    async fn mark(&self) -> Result<Option<Bytes>, BlockError>;

    /// Writes down whose blocks these are: at most [`MARK_BYTES_MAX`] bytes, as durable as a
    /// block. The same mark again succeeds and changes nothing. A mark is never changed; a bucket
    /// that does not honour conditions cannot tell two that are set at the same instant apart, and
    /// keeps either.
    ///
    /// # Errors
    /// `Conflict` if another mark stands already: it stays. `Refused` if the mark is too long.
    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError>;

    /// Whether blocks can be read and written here now: for start-up and for readiness. Costs a
    /// small write or two, now and then one as large as a small block, which is read back; leaves no
    /// block behind.
    ///
    /// # Errors
    /// `Refused` with a sentence for the operator, or `Unavailable`.
    async fn probe(&self) -> Result<(), BlockError>;
}

/// What became known of a block while it was stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The MD5 of its content, as the place that keeps it computed it of what arrived there.
    pub content_md5: Option<[u8; 16]>,
}

/// Some blocks of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockPage {
    /// The blocks and their sealed sizes in bytes, in ascending order.
    pub blocks: Vec<(BlockId, u64)>,
    /// Where the next page begins, in the store's own words; `None` after the last page.
    pub resume: Option<String>,
}

/// A shared store is a store, so that layers can lie over one that is chosen at run time.
#[async_trait]
impl<B: BlockStore + ?Sized> BlockStore for Arc<B> {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        (**self).put(block).await
    }

    fn reports_md5(&self) -> bool {
        (**self).reports_md5()
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        (**self).get(id, bytes).await
    }

    fn streams(&self) -> bool {
        (**self).streams()
    }

    async fn open(&self, id: BlockId, bytes: Range<u64>) -> Result<Box<dyn Arriving>, BlockError> {
        (**self).open(id, bytes).await
    }

    async fn learn(&self, block: BlockRef) -> Result<u64, BlockError> {
        (**self).learn(block).await
    }

    fn warnings(&self) -> Vec<String> {
        (**self).warnings()
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        (**self).size(id).await
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        (**self).delete(id).await
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        (**self).sessions().await
    }

    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        (**self).list(session, resume).await
    }

    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        (**self).mark().await
    }

    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        (**self).set_mark(mark).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        (**self).probe().await
    }
}

/// As [`BlockStore::get`], from a place that may have lost the checksums of a block of which the
/// caller knows the record: the place learns them, which costs all of the block, once for many reads.
///
/// # Errors
/// As `get` and [`learn`](BlockStore::learn) have them.
pub async fn get_known(
    store: &(impl BlockStore + ?Sized),
    block: BlockRef,
    bytes: Range<u64>,
) -> Result<Bytes, BlockError> {
    match store.get(block.id, bytes.clone()).await {
        Err(error) if error.kind() == BlockErrorKind::SumsLost => {
            store.learn(block).await?;
            store.get(block.id, bytes).await
        }
        got => got,
    }
}

/// As [`BlockStore::open`], as [`get_known`].
///
/// # Errors
/// As `get_known` has them.
pub(crate) async fn open_known(
    store: &(impl BlockStore + ?Sized),
    block: BlockRef,
    bytes: Range<u64>,
) -> Result<Box<dyn Arriving>, BlockError> {
    match store.open(block.id, bytes.clone()).await {
        Err(error) if error.kind() == BlockErrorKind::SumsLost => {
            store.learn(block).await?;
            store.open(block.id, bytes).await
        }
        opened => opened,
    }
}

/// What is being done, for errors.
pub(crate) const READING_MARK: &str = "reading the mark of the blocks";

/// What is being done, for errors.
pub(crate) const SETTING_MARK: &str = "marking the blocks";

/// An error unless these bytes may be set as a mark.
pub(crate) fn check_mark(mark: &[u8]) -> Result<(), BlockError> {
    if mark.len() <= MARK_BYTES_MAX {
        return Ok(());
    }
    let error = format!("a mark has at most {MARK_BYTES_MAX} bytes, and this one {}", mark.len());
    Err(BlockError::because(BlockErrorKind::Refused, SETTING_MARK, error))
}

/// The mark that was found, unless nobody can have set it.
pub(crate) fn found_mark(mark: Bytes) -> Result<Bytes, BlockError> {
    if mark.len() <= MARK_BYTES_MAX {
        return Ok(mark);
    }
    let error = format!("what stands in its place has more than {MARK_BYTES_MAX} bytes");
    Err(BlockError::because(BlockErrorKind::Corrupt, READING_MARK, error))
}

/// What it means for a new mark that another stands already.
pub(crate) fn compare_marks(standing: &[u8], mark: &[u8]) -> Result<(), BlockError> {
    if standing == mark {
        Ok(())
    } else {
        Err(BlockError::new(BlockErrorKind::Conflict, SETTING_MARK))
    }
}
