//! The contract of all block stores and of the layers over them.
//!
//! For example, two gateways put the same id with different bytes: at most one put succeeds, and
//! the other one fails with `Conflict` where the store can detect it.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use record::{BlockId, Nonce, RingNumber};

use crate::byte_source::{AtOnce, ByteSource};
use crate::{BlockError, BlockErrorKind, BlockRef, SealedBlock};

/// The most bytes of a mark, the object beside the blocks that names their owner.
pub const MARK_BYTES_MAX: usize = 4_096;

/// The name of the file or object that contains the mark, beside the sessions of the blocks. No
/// session has a name like this.
pub const MARK_NAME: &str = "volume";

/// A store of sealed blocks under their ids.
///
/// - **Atomic.** At every instant and after every crash, a block exists with all its bytes or not
///   at all. No reader sees a part of it.
/// - **Durable.** When [`put`](BlockStore::put) returns, the block survives the end of the process,
///   and a failure of the machine as far as the storage guarantees it.
/// - **Consistent.** The effect of a `put` or `delete` is visible to every call that begins after
///   it returned, in every process.
/// - **Write-once.** An id names one content for ever. A store that can detect other bytes refuses
///   them.
/// - **Opaque.** A store moves sealed bytes and does not examine them. The reader verifies them
///   with [`sealed::open`](crate::sealed::open).
/// - **Cancellation.** A call whose future is dropped may still take effect, at once or later.
///
/// Every call may be made at any time from any task, and may be repeated.
#[async_trait]
pub trait BlockStore: Debug + Send + Sync + 'static {
    /// Stores a block under its id. Putting the same bytes again succeeds and changes nothing.
    ///
    /// # Errors
    /// Fails with `Conflict` if other bytes are stored under the id; these stay. After any other
    /// error the block may or may not exist.
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError>;

    /// Returns true if [`put`](BlockStore::put) usually reports the MD5 of the content of a
    /// [bare](BlockId::is_bare) block, because the storage computes it in any case. The last
    /// [`probe`](BlockStore::probe) determined this.
    fn reports_md5(&self) -> bool {
        false
    }

    /// Returns a range of a block's sealed bytes (header, content and checksums), cut at the
    /// block's end; empty if the block ends before the range begins. Callers request at least one
    /// byte.
    ///
    /// # Errors
    /// Fails with `NotFound` if no block has this id, and never returns empty or invented bytes
    /// instead. Fails with `ChecksumsLost` if the storage has lost the block's checksums: see
    /// [`recompute_checksums`](BlockStore::recompute_checksums).
    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError>;

    /// Returns true if [`open`](BlockStore::open) returns bytes as they arrive, and not all at
    /// once.
    fn streams(&self) -> bool {
        false
    }

    /// Returns the same range of a block as [`get`](BlockStore::get), as a stream. The call returns
    /// when the store has begun to answer; the caller pulls the bytes. A store that does not
    /// [stream](BlockStore::streams) returns them at once.
    ///
    /// # Errors
    /// As `get`. A failure after the store has begun to answer is an error of the stream.
    async fn open(
        &self,
        id: BlockId,
        bytes: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, BlockError> {
        Ok(Box::new(AtOnce(Some(self.get(id, bytes).await?))))
    }

    /// Recomputes the checksums of a block after [`get`](BlockStore::get) failed with
    /// `ChecksumsLost`. It reads the whole block once and accepts it if its CRC is the record's.
    /// After that, `get` returns sealed bytes again for a while. Returns the number of bytes that
    /// were read: 0 if another call has just done it.
    ///
    /// # Errors
    /// Fails with `Corrupt` if the whole block is not the record's, and as `get`. A store that
    /// cannot lose checksums fails with `Refused`.
    async fn recompute_checksums(&self, block: BlockRef) -> Result<u64, BlockError> {
        let doing = format!("recomputing the checksums of block {}", block.id);
        Err(BlockError::with_cause(BlockErrorKind::Refused, doing, "none can be lost here"))
    }

    /// Returns warnings for the operator about a working store, as found by the last
    /// [`probe`](BlockStore::probe) and by reads.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the sealed size of a block (header, content and checksums) in bytes; `None` if no
    /// block has this id.
    ///
    /// # Errors
    /// If the store does not answer, the result is an error, never `None`.
    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError>;

    /// Returns the ring key under which the object of a block is encrypted; `None` if no block has
    /// this id, or if the block is not encrypted.
    ///
    /// # Errors
    /// As [`get`](BlockStore::get). A store that does not encrypt, and is not above one that does,
    /// fails with `Refused` for a secret block, so that no caller takes it for one without a key.
    async fn ring_of(&self, id: BlockId) -> Result<Option<RingNumber>, BlockError> {
        if !id.is_secret() {
            return Ok(None);
        }
        let doing = format!("reading the ring key of block {id}");
        Err(BlockError::with_cause(BlockErrorKind::Refused, doing, "no layer encrypts blocks"))
    }

    /// Deletes a block. Deleting a block that does not exist succeeds.
    ///
    /// # Errors
    /// After an error the block may or may not exist.
    async fn delete(&self, id: BlockId) -> Result<(), BlockError>;

    /// Returns the sessions that have blocks in this store, sorted. Sessions without blocks may be
    /// among them.
    ///
    /// # Errors
    /// The list is complete or the call fails, because the caller concludes that other sessions
    /// have no blocks.
    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError>;

    /// Returns one page of the blocks that a session has written, sorted. Without `resume` it is
    /// the first page; otherwise `resume` is the value from the page before. Every block that
    /// exists from the first page to the last is on exactly one page.
    ///
    /// # Errors
    /// A page is complete or the call fails. Fails with `Corrupt` if a name among the blocks is not
    /// a block's.
    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError>;

    /// Returns the mark that names the owner of the blocks; `None` if there is none.
    ///
    /// # Errors
    /// Fails with `Corrupt` if the mark has more than [`MARK_BYTES_MAX`] bytes. If the store does
    /// not answer, the result is an error, never `None`.
    async fn mark(&self) -> Result<Option<Bytes>, BlockError>;

    /// Sets the mark that names the owner of the blocks: at most [`MARK_BYTES_MAX`] bytes, as
    /// durable as a block. Setting the same mark again succeeds and changes nothing. A mark is
    /// never overwritten. A bucket that does not support conditional writes cannot detect two marks
    /// that are set at the same instant, and keeps one of them.
    ///
    /// # Errors
    /// Fails with `Conflict` if there is another mark; it stays. Fails with `Refused` if the mark
    /// is too long.
    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError>;

    /// Removes the mark if it is this one. Another mark stays, and no mark is no error. The caller
    /// ensures that no other process sets a mark at the same instant: the comparison and the
    /// removal are two steps.
    ///
    /// # Errors
    /// Fails if the store does not answer.
    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError>;

    /// Checks that blocks can be read and written now. Used at start and for readiness checks. It
    /// costs one or two small writes, and sometimes the write of a small block, which is read back.
    /// It leaves no block behind.
    ///
    /// # Errors
    /// Fails with `Refused` and a sentence for the operator, or with `Unavailable`.
    async fn probe(&self) -> Result<(), BlockError>;
}

/// The store's answer to the put of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The MD5 of the block's content, as the storage computed it from the received bytes; `None`
    /// if it did not.
    pub content_md5: Option<[u8; 16]>,
}

/// One page of a listing of a session's blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockPage {
    /// The blocks and their sealed sizes (header, content and checksums) in bytes, sorted by id.
    pub blocks: Vec<(BlockId, u64)>,
    /// The start of the next page, in a form that only the store understands; `None` after the last
    /// page.
    pub resume: Option<String>,
}

/// A shared store is a store, so that a layer can be put over a store that is chosen at run time.
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

    async fn open(
        &self,
        id: BlockId,
        bytes: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, BlockError> {
        (**self).open(id, bytes).await
    }

    async fn recompute_checksums(&self, block: BlockRef) -> Result<u64, BlockError> {
        (**self).recompute_checksums(block).await
    }

    fn warnings(&self) -> Vec<String> {
        (**self).warnings()
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        (**self).size(id).await
    }

    async fn ring_of(&self, id: BlockId) -> Result<Option<RingNumber>, BlockError> {
        (**self).ring_of(id).await
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

    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        (**self).remove_mark(mark).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        (**self).probe().await
    }
}

/// As [`BlockStore::get`], but if the store has lost the checksums of the block, it recomputes them
/// from the record's reference. That costs one read of the whole block and serves many reads.
///
/// # Errors
/// As `get` and [`recompute_checksums`](BlockStore::recompute_checksums).
pub async fn get_with_recovery(
    store: &(impl BlockStore + ?Sized),
    block: BlockRef,
    bytes: Range<u64>,
) -> Result<Bytes, BlockError> {
    match store.get(block.id, bytes.clone()).await {
        Err(error) if error.kind() == BlockErrorKind::ChecksumsLost => {
            store.recompute_checksums(block).await?;
            store.get(block.id, bytes).await
        }
        got => got,
    }
}

/// As [`BlockStore::open`], with the recovery of [`get_with_recovery`].
///
/// # Errors
/// As `get_with_recovery`.
pub(crate) async fn open_with_recovery(
    store: &(impl BlockStore + ?Sized),
    block: BlockRef,
    bytes: Range<u64>,
) -> Result<Box<dyn ByteSource>, BlockError> {
    match store.open(block.id, bytes.clone()).await {
        Err(error) if error.kind() == BlockErrorKind::ChecksumsLost => {
            store.recompute_checksums(block).await?;
            store.open(block.id, bytes).await
        }
        opened => opened,
    }
}

/// Fails with `Refused` if a block is to be encrypted. The places of blocks call this: a layer
/// above them encrypts, and without it the content would be stored in the clear.
pub(crate) fn check_encrypted(block: &SealedBlock) -> Result<(), BlockError> {
    let Some(ring) = block.ring() else { return Ok(()) };
    let error = format!("it is to be encrypted under ring key {ring}, but no layer does that");
    let doing = format!("writing block {}", block.id());
    Err(BlockError::with_cause(BlockErrorKind::Refused, doing, error))
}

/// The operation of reading the mark, for error texts.
pub(crate) const READING_MARK: &str = "reading the mark of the blocks";

/// The operation of setting the mark, for error texts.
pub(crate) const SETTING_MARK: &str = "marking the blocks";

/// The action in errors of [`BlockStore::remove_mark`].
pub(crate) const REMOVING_MARK: &str = "removing the mark of the blocks";

/// Fails with `Refused` if these bytes are too long for a mark, the object that names the blocks'
/// owner.
pub(crate) fn check_mark(mark: &[u8]) -> Result<(), BlockError> {
    if mark.len() <= MARK_BYTES_MAX {
        return Ok(());
    }
    let error =
        format!("a mark has at most {MARK_BYTES_MAX} bytes, but this one has {}", mark.len());
    Err(BlockError::with_cause(BlockErrorKind::Refused, SETTING_MARK, error))
}

/// Returns the mark that was read. Fails with `Corrupt` if it is longer than any mark that can have
/// been set.
pub(crate) fn check_found_mark(mark: Bytes) -> Result<Bytes, BlockError> {
    if mark.len() <= MARK_BYTES_MAX {
        return Ok(mark);
    }
    let error = format!("the stored mark has more than {MARK_BYTES_MAX} bytes");
    Err(BlockError::with_cause(BlockErrorKind::Corrupt, READING_MARK, error))
}

/// Compares a new mark (the name of the blocks' owner) with the existing one. Fails with `Conflict`
/// if they differ.
pub(crate) fn compare_marks(existing: &[u8], mark: &[u8]) -> Result<(), BlockError> {
    if existing == mark {
        Ok(())
    } else {
        Err(BlockError::new(BlockErrorKind::Conflict, SETTING_MARK))
    }
}
