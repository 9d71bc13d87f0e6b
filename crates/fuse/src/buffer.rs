//! Buffers for requests, lent and taken back.
//!
//! There are two sizes. A reader reads into a large buffer, which holds the largest request. A small
//! request is copied out of it, so that one that waits for long holds 4 KiB and not a megabyte. The
//! number of large buffers is bounded: when all are lent, a reader waits for one.
//!
//! What is in a buffer is not known here.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The largest request that is copied into a small buffer.
pub(crate) const SMALL_BYTES: usize = 4096;

/// Small buffers that are kept for later; more are given back to the allocator.
const SMALL_KEPT: usize = 512;

/// Lends buffers.
#[derive(Debug)]
pub(crate) struct BufferPool {
    large_bytes: usize,
    large_max: usize,
    free: Mutex<FreeBuffers>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct FreeBuffers {
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
    large_lent: usize,
}

/// A lent buffer, which goes back when it is dropped.
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    bytes: Vec<u8>,
    is_large: bool,
    pool: Arc<BufferPool>,
}

impl BufferPool {
    /// A pool that lends up to `large_max` buffers of `large_bytes` at a time.
    pub(crate) fn new(large_bytes: usize, large_max: usize) -> Arc<BufferPool> {
        assert!(large_bytes > SMALL_BYTES && large_max > 0);
        let (free, returned) = (Mutex::default(), Condvar::new());
        Arc::new(BufferPool { large_bytes, large_max, free, returned })
    }

    /// A large buffer, empty. Waits until there is one.
    pub(crate) fn large(self: &Arc<BufferPool>) -> PooledBuffer {
        let mut free = self.lock();
        while free.large_lent >= self.large_max {
            free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        free.large_lent += 1;
        let bytes = free.large.pop();
        drop(free);
        let bytes = bytes.unwrap_or_else(|| Vec::with_capacity(self.large_bytes));
        PooledBuffer { bytes, is_large: true, pool: Arc::clone(self) }
    }

    /// A small buffer with these bytes, of which there are at most `SMALL_BYTES`.
    pub(crate) fn small_with(self: &Arc<BufferPool>, content: &[u8]) -> PooledBuffer {
        let bytes = self.lock().small.pop();
        let mut bytes = bytes.unwrap_or_else(|| Vec::with_capacity(SMALL_BYTES));
        bytes.extend_from_slice(content);
        PooledBuffer { bytes, is_large: false, pool: Arc::clone(self) }
    }

    fn lock(&self) -> MutexGuard<'_, FreeBuffers> {
        // Every change of the stock is complete in itself, so a panic leaves none half done.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PooledBuffer {
    /// Empties the buffer and gives the room that is to be filled.
    pub(crate) fn clear_for_read(&mut self) -> &mut Vec<u8> {
        self.bytes.clear();
        &mut self.bytes
    }
}

impl Deref for PooledBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let mut free = self.pool.lock();
        if self.is_large {
            free.large_lent -= 1;
            free.large.push(bytes);
            drop(free);
            self.pool.returned.notify_one();
        } else if free.small.len() < SMALL_KEPT {
            free.small.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
