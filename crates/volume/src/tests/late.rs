//! Blocks that land after the put was given up.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use block::{BlockError, BlockPage, BlockStore, MemoryBlocks, SealedBlock, Stored};
use bytes::Bytes;
use content::Deadlines;
use faulty::Faulty;
use record::{BlockId, Nonce};

use super::{MaintainedVolume, count_blocks, make_bucket};
use crate::{ContentWriter, VolumeOptions};

/// How long after it was sent a put lands.
const LANDS_AFTER: Duration = Duration::from_secs(40);

/// Blocks that are taken late, and no answer comes.
#[derive(Debug, Default)]
struct Late {
    inner: Arc<MemoryBlocks>,
    landed: Arc<AtomicU64>,
}

#[async_trait]
impl BlockStore for Late {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        let (inner, landed, block) =
            (Arc::clone(&self.inner), Arc::clone(&self.landed), block.clone());
        runtime::Tasks::new().spawn("land", async move {
            tokio::time::sleep(LANDS_AFTER).await;
            inner.put(&block).await.unwrap();
            landed.fetch_add(1, Ordering::SeqCst);
        });
        std::future::pending().await
    }
    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        self.inner.get(id, bytes).await
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

#[tokio::test(start_paused = true)]
async fn a_block_that_arrives_after_its_put_timed_out_is_deleted() {
    let (store, blocks) = (Faulty::new(), Arc::new(Late::default()));
    let deadlines = Deadlines { block: Duration::from_secs(5), ..Deadlines::default() };
    let options = VolumeOptions { inline_bytes_max: 16, deadlines, ..VolumeOptions::default() };
    let volume = MaintainedVolume::open(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    // One alone, and one that could have shared its block.
    let mut alone = ContentWriter::in_blocks(&volume.writers, Some(100_000));
    alone.write(Bytes::from(vec![5; 100_000])).await.unwrap();
    alone.finish().await.unwrap_err();
    let mut packed = ContentWriter::new(&volume.writers, Some(50_000));
    packed.write(Bytes::from(vec![5; 50_000])).await.unwrap();
    packed.finish().await.unwrap_err();
    assert_eq!(count_blocks(&blocks.inner).await, 0);
    tokio::time::sleep(LANDS_AFTER).await;
    assert_eq!(blocks.landed.load(Ordering::SeqCst), 2, "they landed after that");
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(count_blocks(&blocks.inner).await, 0, "and are gone although the session lives");
    volume.close().await;
}
