//! The queue of refused operations: its places, and the waits for them.
//!
//! For example, the operation at place 9 waits for the end of the reservation at place 7, or until
//! it has expired.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::time::Instant;

use crate::times::TURN_DURATION;

use super::table::{Earlier, Table};

/// The records that the operations of a session have reserved after a refusal, each operation at
/// its place in a queue.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    pub(crate) table: Table,
    /// Duration of the last commit of an operation in the queue, in microseconds.
    pub(super) commit_micros: AtomicU64,
}

/// The place of one operation in the queue of refused operations, and the records reserved for it.
/// Dropping it ends the reservation.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) place: u64,
    pub(crate) reservations: Arc<Reservations>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.reservations.table.leave(self.place);
    }
}

impl Table {
    /// Waits until a reservation has ended or expired, but at most for [`TURN_DURATION`]: the
    /// caller looks again, because a turn gets its limit when it comes to the front. Returns false
    /// if `deadline` comes first.
    pub(crate) async fn wait_until(&self, deadline: Instant, earlier: Earlier) -> bool {
        let look = earlier.expires.unwrap_or_else(|| Instant::now() + TURN_DURATION);
        if tokio::time::timeout_at(deadline.min(look), earlier.ended.cancelled()).await.is_ok() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        if earlier.expires.is_some() {
            self.leave(earlier.place);
        }
        true
    }
}
