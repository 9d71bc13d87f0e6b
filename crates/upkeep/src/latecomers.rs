//! Deletes what lands after its put was given up: see [`content::LateBlocks`].

use std::sync::{Arc, Weak};

use tokio::time::Instant;
use tracing::debug;

use crate::upkeep::Upkeep;

/// Deletes late blocks whenever some are due, for as long as the volume lives.
pub(crate) async fn delete_latecomers(volume: Weak<Upkeep>) {
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
            if closing.is_cancelled() || alive.session.is_fenced() {
                return;
            }
            let deleting =
                tokio::time::timeout(alive.staging.deadlines.block, alive.blocks.delete(id));
            if !matches!(deleting.await, Ok(Ok(()))) {
                debug!(block = %id, "a late block could not be deleted this time");
            }
        }
    }
}
