//! Blocks that a late put may create after they were deleted.
//!
//! A put that timed out, or whose reply was lost, may still be executed by the block store after
//! the deletion that followed it. No record references such a block, so it would remain as garbage.
//! Therefore each such block is deleted twice more, after the delays of [`DELETE_RETRY_DELAYS`].
//!
//! For example, a put times out after 30 seconds, the writer deletes the block, and the bucket
//! executes the queued PUT ten seconds later. The deletion one minute after the first one removes
//! the block.
//!
//! If the list is full, or a put is executed even later, the block remains until the sweeper finds
//! it. The sweeper looks at the session's blocks after the session has ended.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use record::BlockId;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The delay before each further deletion of a block, counted from its previous deletion.
pub const DELETE_RETRY_DELAYS: [Duration; 2] = [Duration::from_mins(1), Duration::from_mins(15)];

/// The most blocks that wait for each of the [`DELETE_RETRY_DELAYS`]. Further ones are left to the
/// sweeper.
pub const LATE_BLOCKS_MAX: usize = 4_096;

/// The queue of blocks that are to be deleted once more, because a put that timed out may have
/// created them after their deletion.
#[derive(Debug, Default)]
pub struct LateBlocks {
    /// One queue for each retry, sorted by the time at which the deletion is due.
    waiting: Mutex<[VecDeque<(Instant, BlockId)>; DELETE_RETRY_DELAYS.len()]>,
    added: Notify,
}

impl LateBlocks {
    fn waiting(&self) -> MutexGuard<'_, [VecDeque<(Instant, BlockId)>; DELETE_RETRY_DELAYS.len()]> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Schedules the further deletions of a block whose put may still be executed, or whose
    /// deletion failed. Returns false if the queue is full; then the sweeper has to find the block.
    pub fn note(&self, id: BlockId) -> bool {
        let noted = self.add(0, id);
        // The deleting task may be sleeping without a due time.
        self.added.notify_one();
        noted
    }

    fn add(&self, retry: usize, id: BlockId) -> bool {
        let mut waiting = self.waiting();
        let Some((queue, after)) = waiting.get_mut(retry).zip(DELETE_RETRY_DELAYS.get(retry))
        else {
            return false;
        };
        // The sweeper finds the blocks that are refused here.
        if queue.len() >= LATE_BLOCKS_MAX {
            return false;
        }
        queue.push_back((Instant::now() + *after, id));
        true
    }

    /// Returns the time at which the next block of the queue is to be deleted again; `None` if no
    /// block waits.
    pub fn next_due(&self) -> Option<Instant> {
        self.waiting().iter().filter_map(|queue| queue.front()).map(|(due, _)| *due).min()
    }

    /// Waits until a block has been added to the queue.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    /// Returns a block that is to be deleted again at `now` or earlier; `None` if there is none. It
    /// also schedules the block's next deletion, unless this is the last one.
    pub fn take_due(&self, now: Instant) -> Option<BlockId> {
        let due = {
            let mut waiting = self.waiting();
            let mut queues = waiting.iter_mut().enumerate();
            queues.find_map(|(retry, queue)| {
                queue.pop_front_if(|(due, _)| *due <= now).map(|(_, id)| (retry, id))
            })
        };
        due.map(|(retry, id)| {
            self.add(retry + 1, id);
            id
        })
    }
}

#[cfg(test)]
mod tests;
