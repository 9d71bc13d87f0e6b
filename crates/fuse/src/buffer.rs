//! A pool of request buffers.
//!
//! There are two sizes. A reader reads into a large buffer, which has capacity for the largest
//! request. A request of up to 4 KiB is copied into a small buffer, so that it does not occupy a
//! large one while it waits. For example, a thousand programs that wait for locks hold 4 MiB of
//! buffers. The number of large buffers is limited: when all are lent, a reader waits for one.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The size up to which a request is copied into a small buffer, in bytes.
pub(crate) const SMALL_BYTES: usize = 4096;

/// The maximum number of small buffers (of 4 KiB each) that the pool keeps for reuse. Further ones
/// are freed when they are returned.
const SMALL_KEPT: usize = 512;

/// A pool of buffers for requests of the kernel.
#[derive(Debug)]
pub(crate) struct BufferPool {
    large_bytes: usize,
    large_max: usize,
    free: Mutex<FreeBuffers>,
    returned: Condvar,
}

/// The buffers that the pool has for reuse, and the number of large ones that are lent.
#[derive(Debug, Default)]
struct FreeBuffers {
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
    large_lent: usize,
}

/// A buffer that the pool has lent, with its content. Dropping it returns it to the pool.
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    bytes: Vec<u8>,
    is_large: bool,
    pool: Arc<BufferPool>,
}

impl BufferPool {
    /// Returns a pool that lends up to `large_max` buffers of `large_bytes` bytes at a time.
    pub(crate) fn new(large_bytes: usize, large_max: usize) -> Arc<BufferPool> {
        assert!(large_bytes > SMALL_BYTES && large_max > 0);
        let (free, returned) = (Mutex::default(), Condvar::new());
        Arc::new(BufferPool { large_bytes, large_max, free, returned })
    }

    /// Lends an empty large buffer, which has capacity for the largest request. Waits while the
    /// maximum number is lent.
    pub(crate) fn large(self: &Arc<BufferPool>) -> PooledBuffer {
        let mut free = self.lock();
        while free.large_lent >= self.large_max {
            free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        // Counted before the allocation, which then needs no lock.
        free.large_lent += 1;
        let bytes = free.large.pop();
        drop(free);
        let bytes = bytes.unwrap_or_else(|| Vec::with_capacity(self.large_bytes));
        PooledBuffer { bytes, is_large: true, pool: Arc::clone(self) }
    }

    /// Lends a small buffer with a copy of `content`, which must have at most `SMALL_BYTES` bytes.
    /// Does not wait.
    pub(crate) fn small_copy(self: &Arc<BufferPool>, content: &[u8]) -> PooledBuffer {
        let bytes = self.lock().small.pop();
        let mut bytes = bytes.unwrap_or_else(|| Vec::with_capacity(SMALL_BYTES));
        bytes.extend_from_slice(content);
        PooledBuffer { bytes, is_large: false, pool: Arc::clone(self) }
    }

    fn lock(&self) -> MutexGuard<'_, FreeBuffers> {
        // Each change of the lists is complete in itself, so a panic leaves no half-done change.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PooledBuffer {
    /// Empties the buffer and returns it as the target of a read from the device.
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
            // One buffer came back, so one waiter can continue. It does not find the lock held.
            self.pool.returned.notify_one();
        } else if free.small.len() < SMALL_KEPT {
            free.small.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
