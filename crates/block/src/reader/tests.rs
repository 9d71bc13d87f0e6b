//! The requests and results of a reader without a cache.

use std::sync::Mutex;

use super::*;
use crate::{
    BlockId, BlockPage, MemoryBlocks, Nonce, SUB_BLOCK_BYTES, SealedBlock, Sealer, Stored,
};

/// In-memory blocks whose first responses are damaged.
#[derive(Debug, Default)]
struct Damaging {
    inner: MemoryBlocks,
    damaged: usize,
    asked: Mutex<Vec<Range<u64>>>,
}

#[async_trait]
impl BlockStore for Damaging {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        self.inner.put(block).await
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        let so_far = {
            let mut asked = self.asked.lock().unwrap();
            asked.push(bytes.clone());
            asked.len()
        };
        let mut found = self.inner.get(id, bytes).await?.to_vec();
        if so_far <= self.damaged {
            found[7] ^= 1;
        }
        Ok(found.into())
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        self.inner.size(id).await
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.inner.delete(id).await
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        self.inner.sessions().await
    }

    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        self.inner.list(session, resume).await
    }

    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        self.inner.mark().await
    }

    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.inner.set_mark(mark).await
    }

    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.inner.remove_mark(mark).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        self.inner.probe().await
    }
}

const LENGTH: u32 = 3 * SUB_BLOCK_BYTES + 77;

fn content() -> Vec<u8> {
    (0..LENGTH).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

async fn direct(damaged: usize) -> (UncachedReader<Damaging>, BlockRef) {
    let mut sealer = Sealer::new(BlockId::new(Nonce([1; Nonce::BYTES]), 1), LENGTH);
    sealer.push_copy(&content());
    let block = sealer.finish();
    let blocks = Damaging { damaged, ..Damaging::default() };
    blocks.put(&block).await.unwrap();
    (UncachedReader::new(blocks), block.reference())
}

#[tokio::test]
async fn a_range_is_one_request_for_its_sub_blocks() {
    let (reader, block) = direct(0).await;
    for range in [0..LENGTH, 5..9, 65_000..140_000, LENGTH - 1..LENGTH, 9..9] {
        reader.inner().asked.lock().unwrap().clear();
        let found = reader.read(block, range.clone()).await.unwrap();
        let due = &content()[range.start as usize..range.end as usize];
        assert!(found.concat() == due, "{range:?}");
        assert!(found.iter().all(|piece| piece.len() <= SUB_BLOCK_BYTES as usize));
        let span = sealed::span(LENGTH, range.clone()).bytes;
        let asked = reader.inner().asked.lock().unwrap().clone();
        assert_eq!(asked, if span.is_empty() { vec![] } else { vec![span] });
        assert_eq!(reader.in_memory(block, range), None);
    }
    assert_eq!(reader.second_reads(), 0);
}

#[tokio::test]
async fn damage_is_requested_once_more_and_then_an_error() {
    let (reader, block) = direct(1).await;
    assert!(reader.read(block, 0..LENGTH).await.unwrap().concat() == content());
    assert_eq!((reader.second_reads(), reader.inner().asked.lock().unwrap().len()), (1, 2));

    let (reader, block) = direct(2).await;
    let error = reader.read(block, 0..LENGTH).await.unwrap_err();
    assert_eq!((error.kind(), reader.second_reads()), (BlockErrorKind::Corrupt, 1));

    let (reader, block) = direct(0).await;
    let absent = BlockRef { id: BlockId::new(Nonce([1; Nonce::BYTES]), 2), ..block };
    let error = reader.read(absent, 0..LENGTH).await.unwrap_err();
    assert_eq!((error.kind(), reader.second_reads()), (BlockErrorKind::NotFound, 1));
    let error = reader.read(block, 9..LENGTH + 1).await.unwrap_err();
    assert_eq!(error.kind(), BlockErrorKind::Corrupt);
}
