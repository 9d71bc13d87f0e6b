//! Blocks in memory: the reference implementation of the contract, for tests and trials.
//!
//! Blocks are durable until the value is dropped, and not longer. For example, a test of the writer
//! puts blocks here and reads them back.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use hashing::Md5;
use record::{BlockId, Nonce};

use crate::store::{check_encrypted, check_mark, compare_marks};
use crate::{BlockError, BlockErrorKind, BlockPage, BlockStore, SealedBlock, Stored};

/// Blocks on one page of a listing.
const PAGE_BLOCKS: usize = 1_000;

/// A block store that keeps its blocks in memory, for tests.
#[derive(Debug, Default)]
pub struct MemoryBlocks {
    blocks: Mutex<BTreeMap<BlockId, Bytes>>,
    mark: Mutex<Option<Bytes>>,
    reports_md5: bool,
}

impl MemoryBlocks {
    /// Creates an empty block store in memory.
    pub fn new() -> MemoryBlocks {
        MemoryBlocks::default()
    }

    /// Creates a block store in memory that reports the MD5s of bare blocks (objects of content
    /// alone), as buckets do.
    pub fn reporting_md5() -> MemoryBlocks {
        MemoryBlocks { reports_md5: true, ..MemoryBlocks::default() }
    }

    /// Each statement leaves the map consistent, so a poisoned lock is still usable.
    fn blocks(&self) -> MutexGuard<'_, BTreeMap<BlockId, Bytes>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn md5(block: &SealedBlock) -> [u8; 16] {
    let mut md5 = Md5::new();
    block.content().for_each(|piece| md5.update(&piece));
    md5.finish()
}

#[async_trait]
impl BlockStore for MemoryBlocks {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        check_encrypted(block)?;
        let bytes = block.to_bytes();
        let mut blocks = self.blocks();
        let kept = blocks.entry(block.id()).or_insert_with(|| bytes.clone());
        if *kept == bytes {
            let reports = self.reports_md5 && block.id().is_bare();
            Ok(Stored { content_md5: reports.then(|| md5(block)) })
        } else {
            let doing = format!("writing block {}", block.id());
            Err(BlockError::new(BlockErrorKind::Conflict, doing))
        }
    }

    fn reports_md5(&self) -> bool {
        self.reports_md5
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        let blocks = self.blocks();
        let Some(block) = blocks.get(&id) else {
            return Err(BlockError::new(BlockErrorKind::NotFound, format!("reading block {id}")));
        };
        let end = usize::try_from(bytes.end).unwrap_or(usize::MAX).min(block.len());
        let start = usize::try_from(bytes.start).unwrap_or(usize::MAX).min(end);
        Ok(block.slice(start..end))
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        Ok(self.blocks().get(&id).map(|block| block.len() as u64))
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.blocks().remove(&id);
        Ok(())
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        let mut sessions: Vec<Nonce> = self.blocks().keys().map(|id| id.session()).collect();
        sessions.dedup();
        Ok(sessions)
    }

    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        // The resume position is the id of the last block, so blocks that were added or deleted
        // meanwhile do not shift the pages.
        let start = match resume {
            None => Bound::Included(BlockId::new(session, 0)),
            Some(last) => Bound::Excluded(last.parse().map_err(|error| {
                let doing = format!("resuming the blocks of session {session} from {last:?}");
                BlockError::with_cause(BlockErrorKind::Refused, doing, error)
            })?),
        };
        let end = Bound::Included(BlockId::new(session, BlockId::COUNTER_MAX));
        if matches!(start, Bound::Excluded(last) if last.session() != session) {
            let doing = format!("resuming the blocks of session {session} from another session's");
            return Err(BlockError::new(BlockErrorKind::Refused, doing));
        }
        let blocks = self.blocks();
        let mut rest = blocks.range((start, end)).map(|(id, bytes)| (*id, bytes.len() as u64));
        let page: Vec<(BlockId, u64)> = rest.by_ref().take(PAGE_BLOCKS).collect();
        // A page that ends with the last block needs no further page.
        let more = rest.next().is_some();
        let resume = page.last().filter(|_| more).map(|(id, _)| id.to_string());
        Ok(BlockPage { blocks: page, resume })
    }

    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        Ok(self.mark.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        check_mark(&mark)?;
        let mut standing = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        compare_marks(standing.get_or_insert_with(|| mark.clone()), &mark)
    }

    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        let mut standing = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        standing.take_if(|standing| *standing == mark);
        Ok(())
    }

    async fn probe(&self) -> Result<(), BlockError> {
        Ok(())
    }
}
