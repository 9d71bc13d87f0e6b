//! Blocks that may land after they were deleted.
//!
//! A put that was given up, or whose answer was lost, may still be carried out by the block store
//! after the deletion that followed it. Nothing names such a block, and nothing will. So it is
//! deleted again after a while, and then once more. What does not fit into the list, and what lands
//! even later, is left to the sweeper, once the session has ended.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use record::BlockId;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long after its last deletion a block is deleted again, each time.
pub const DELETE_RETRY_DELAYS: [Duration; 2] = [Duration::from_mins(1), Duration::from_mins(15)];

/// Blocks that are remembered for each time.
pub const LATE_BLOCKS_MAX: usize = 4_096;

/// Blocks that are to be deleted again.
#[derive(Debug, Default)]
pub struct LateBlocks {
    /// For each time the blocks in the order in which they are due.
    waiting: Mutex<[VecDeque<(Instant, BlockId)>; DELETE_RETRY_DELAYS.len()]>,
    added: Notify,
}

impl LateBlocks {
    fn waiting(&self) -> MutexGuard<'_, [VecDeque<(Instant, BlockId)>; DELETE_RETRY_DELAYS.len()]> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block was deleted, or could not be, and may be there later; false if there is no room.
    pub fn note(&self, id: BlockId) -> bool {
        let noted = self.add(0, id);
        self.added.notify_one();
        noted
    }

    fn add(&self, time: usize, id: BlockId) -> bool {
        let mut waiting = self.waiting();
        let Some((queue, after)) = waiting.get_mut(time).zip(DELETE_RETRY_DELAYS.get(time)) else {
            return false;
        };
        if queue.len() >= LATE_BLOCKS_MAX {
            return false;
        }
        queue.push_back((Instant::now() + *after, id));
        true
    }

    /// When the next one is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.waiting().iter().filter_map(|queue| queue.front()).map(|(due, _)| *due).min()
    }

    /// Returns when one was noted.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    /// A block that is due to be deleted again. It will be once more, if this was not the last
    /// time.
    pub fn take_due(&self, now: Instant) -> Option<BlockId> {
        let due = {
            let mut waiting = self.waiting();
            let mut queues = waiting.iter_mut().enumerate();
            queues.find_map(|(time, queue)| {
                queue.pop_front_if(|(due, _)| *due <= now).map(|(_, id)| (time, id))
            })
        };
        due.map(|(time, id)| {
            self.add(time + 1, id);
            id
        })
    }
}

#[cfg(test)]
mod tests;
