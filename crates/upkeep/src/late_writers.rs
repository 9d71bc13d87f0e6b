//! Deletes blocks that a late put created after their deletion: see [`content::LateBlocks`].
//!
//! *Why this is safe.* Such a block was put by this session under an id that no committed plan
//! references, and the session does not use the id again. For example, a put timed out, its upload
//! failed, and the block store executed the put a minute later.

use std::sync::{Arc, Weak};

use tokio::time::Instant;
use tracing::debug;

use crate::upkeep::Upkeep;

/// Deletes blocks again that a timed-out put may have created after their deletion, when their time
/// has come, until the volume is closed.
pub(crate) async fn delete_late_blocks(volume: Weak<Upkeep>) {
    loop {
        let Some(alive) = volume.upgrade() else { return };
        let (closing, late) = (alive.session.closing().clone(), Arc::clone(&alive.staging.late));
        drop(alive);
        let due = late.next_due();
        let due = async move {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = closing.cancelled() => return,
            () = due => {}
            () = late.added() => continue,
        }
        let Some(alive) = volume.upgrade() else { return };
        while let Some(id) = late.take_due(Instant::now()) {
            // A fenced session may have lost its claims, so it must not change anything.
            if closing.is_cancelled() || alive.session.is_fenced() {
                return;
            }
            let deleting =
                tokio::time::timeout(alive.staging.deadlines.block, alive.blocks.delete(id));
            if !matches!(deleting.await, Ok(Ok(()))) {
                debug!(block = %id, "deleting a late block failed");
            }
        }
    }
}
