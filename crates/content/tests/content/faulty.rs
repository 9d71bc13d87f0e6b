//! A layer over a block store that fails, delays and hangs on demand, and counts its calls.

use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use block::{
    BlockError, BlockErrorKind, BlockPage, BlockStore, ByteSource, MemoryBlocks, SealedBlock,
    Stored,
};
use bytes::Bytes;
use record::{BlockId, Nonce};

/// The fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails without effect.
    Before,
    /// The call fails after it took effect.
    After,
    /// The call never returns.
    Hang,
    /// The call panics.
    Panic,
    /// The put fails with `Conflict`, after other bytes were stored under the id.
    Conflict,
    /// One bit of the returned bytes is flipped.
    Flip,
    /// The last byte of the returned bytes is missing.
    Short,
    /// The call fails with `NotFound`.
    Missing,
    /// The put succeeds but reports no MD5.
    Unreported,
}

/// In-memory blocks with injected faults.
#[derive(Debug, Default)]
pub struct Faulty {
    pub inner: MemoryBlocks,
    /// Faults by the number of the put, from 0.
    pub puts_fail: Mutex<HashMap<u64, Fault>>,
    /// Faults by the number of the get, from 0.
    pub gets_fail: Mutex<HashMap<u64, Fault>>,
    /// Faults by the number of the delete, from 0.
    pub deletes_fail: Mutex<HashMap<u64, Fault>>,
    /// The duration of each put, and of each get.
    pub delay: Mutex<(Duration, Duration)>,
    pub puts: AtomicU64,
    pub gets: AtomicU64,
    pub deletes: AtomicU64,
    /// Faults that were injected.
    pub fired: AtomicUsize,
    /// Puts under way now, and the most that were under way at one time.
    pub putting: AtomicUsize,
    pub putting_peak: AtomicUsize,
    /// Bytes requested, by get.
    pub asked: Mutex<Vec<(BlockId, Range<u64>)>>,
    /// Bytes that arrive at a time; 0 if a range arrives at once.
    pub frame_bytes: usize,
    /// Bytes that have arrived.
    pub arrived: Arc<AtomicU64>,
    /// Ids that were deleted at any time.
    pub deleted: Mutex<HashSet<BlockId>>,
}

impl Faulty {
    pub fn put_fails(self, number: u64, fault: Fault) -> Faulty {
        self.puts_fail.lock().unwrap().insert(number, fault);
        self
    }

    pub fn get_fails(self, number: u64, fault: Fault) -> Faulty {
        self.gets_fail.lock().unwrap().insert(number, fault);
        self
    }

    pub fn delete_fails(self, number: u64, fault: Fault) -> Faulty {
        self.deletes_fail.lock().unwrap().insert(number, fault);
        self
    }

    pub fn slow(self, put: Duration, get: Duration) -> Faulty {
        *self.delay.lock().unwrap() = (put, get);
        self
    }

    /// Blocks whose MD5s are reported.
    pub fn reporting_md5() -> Faulty {
        Faulty { inner: MemoryBlocks::reporting_md5(), ..Faulty::default() }
    }

    /// Blocks that arrive in frames of `frame_bytes` bytes.
    pub fn streaming(frame_bytes: usize) -> Faulty {
        Faulty { frame_bytes, ..Faulty::default() }
    }

    pub fn fired(&self) -> usize {
        self.fired.load(Ordering::SeqCst)
    }

    /// The ids of the blocks that exist.
    pub async fn present(&self) -> Vec<BlockId> {
        let mut found = Vec::new();
        for session in self.inner.sessions().await.unwrap() {
            let mut resume = None;
            loop {
                let page = self.inner.list(session, resume).await.unwrap();
                found.extend(page.blocks.into_iter().map(|(id, _)| id));
                resume = page.resume;
                if resume.is_none() {
                    break;
                }
            }
        }
        found
    }

    fn fault(&self, faults: &Mutex<HashMap<u64, Fault>>, calls: &AtomicU64) -> Option<Fault> {
        let number = calls.fetch_add(1, Ordering::SeqCst);
        let fault = faults.lock().unwrap().get(&number).copied();
        if fault.is_some() {
            self.fired.fetch_add(1, Ordering::SeqCst);
        }
        fault
    }
}

fn failed(kind: BlockErrorKind, id: BlockId) -> BlockError {
    BlockError::new(kind, format!("calling for block {id} in a test"))
}

/// Counts a call until it is dropped, cancelled or not.
struct Under<'a>(&'a AtomicUsize);

impl Drop for Under<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Bytes on their way.
struct Frames {
    bytes: Bytes,
    frame_bytes: usize,
    arrived: Arc<AtomicU64>,
    fault: Option<Fault>,
}

#[async_trait]
impl ByteSource for Frames {
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError> {
        if self.bytes.is_empty() {
            return match self.fault {
                Some(Fault::Hang) => pending().await,
                Some(Fault::After) => {
                    Err(BlockError::new(BlockErrorKind::Unavailable, "losing bytes in a test"))
                }
                _ => Ok(None),
            };
        }
        let frame = self.bytes.split_to(self.frame_bytes.min(self.bytes.len()));
        self.arrived.fetch_add(frame.len() as u64, Ordering::SeqCst);
        Ok(Some(frame))
    }
}

#[async_trait]
impl BlockStore for Faulty {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        let fault = self.fault(&self.puts_fail, &self.puts);
        let now = self.putting.fetch_add(1, Ordering::SeqCst) + 1;
        let _under = Under(&self.putting);
        self.putting_peak.fetch_max(now, Ordering::SeqCst);
        let delay = self.delay.lock().unwrap().0;
        tokio::time::sleep(delay).await;
        match fault {
            None => self.inner.put(block).await,
            Some(Fault::Before) => Err(failed(BlockErrorKind::Unavailable, block.id())),
            Some(Fault::Hang) => pending().await,
            Some(Fault::Panic) => panic!("as the test wants"),
            Some(Fault::Conflict) => {
                let mut other = block::Sealer::new(block.id(), 9);
                other.push_copy(b"elsewhere");
                self.inner.put(&other.finish()).await?;
                self.inner.put(block).await
            }
            Some(Fault::Unreported) => {
                self.inner.put(block).await?;
                Ok(Stored::default())
            }
            Some(_) => {
                self.inner.put(block).await?;
                Err(failed(BlockErrorKind::Unavailable, block.id()))
            }
        }
    }

    fn reports_md5(&self) -> bool {
        self.inner.reports_md5()
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        let fault = self.fault(&self.gets_fail, &self.gets);
        self.asked.lock().unwrap().push((id, bytes.clone()));
        let delay = self.delay.lock().unwrap().1;
        tokio::time::sleep(delay).await;
        let found = self.inner.get(id, bytes).await?;
        match fault {
            None => Ok(found),
            Some(Fault::Hang) => pending().await,
            Some(Fault::Flip) => {
                let mut bytes = found.to_vec();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 4;
                Ok(bytes.into())
            }
            Some(Fault::Short) => Ok(found.slice(..found.len() - 1)),
            Some(Fault::Missing) => Err(failed(BlockErrorKind::NotFound, id)),
            Some(_) => Err(failed(BlockErrorKind::Unavailable, id)),
        }
    }

    fn streams(&self) -> bool {
        self.frame_bytes > 0
    }

    /// An injected fault happens in the middle of the bytes; a hang happens after them.
    async fn open(
        &self,
        id: BlockId,
        bytes: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, BlockError> {
        let number = self.gets.load(Ordering::SeqCst);
        let fault = self.gets_fail.lock().unwrap().get(&number).copied();
        let midway = matches!(fault, Some(Fault::After | Fault::Hang));
        let mut bytes = if midway {
            self.fault(&self.gets_fail, &self.gets);
            self.asked.lock().unwrap().push((id, bytes.clone()));
            self.inner.get(id, bytes).await?
        } else {
            self.get(id, bytes).await?
        };
        if midway {
            bytes.truncate(bytes.len() / 2);
        }
        let (frame_bytes, arrived) = (self.frame_bytes, Arc::clone(&self.arrived));
        Ok(Box::new(Frames { bytes, frame_bytes, arrived, fault }))
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        self.inner.size(id).await
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        match self.fault(&self.deletes_fail, &self.deletes) {
            None => {
                self.deleted.lock().unwrap().insert(id);
                self.inner.delete(id).await
            }
            Some(Fault::Hang) => pending().await,
            Some(_) => Err(failed(BlockErrorKind::Unavailable, id)),
        }
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
