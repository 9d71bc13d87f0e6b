//! Reads accounts, access keys and policies from a volume, and follows their changes.
//!
//! A view reads them once before its first request, because it would otherwise refuse known access
//! keys. After that, a task of the view follows the changes: it reads all records again when it
//! starts, at each notification of the change feed, and at regular intervals. For example, `ashlar
//! user remove anna` in another process removes a record; the change feed reports it within a
//! second, and the next request of `anna` fails.
//!
//! While the volume cannot be read, the last known records stay in force.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use volume::{Volume, VolumeError};

use crate::access::Access;

/// The interval at which access keys and policies are read again without a notification of the
/// change feed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// The interval at which they are read again after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

const _: () = assert!(RETRY_INTERVAL.as_secs() < REFRESH_INTERVAL.as_secs());

impl Access {
    /// Reads all accounts, access keys and policies of a volume, and replaces the known ones.
    /// Damaged records grant nothing, and are logged once.
    pub async fn read(&self, volume: &Volume) -> Result<(), VolumeError> {
        // One read after the other, so that an earlier state never replaces a later one.
        let _alone = self.reading.lock().await;
        let records = volume.access_records().await?;
        // A damaged key or policy grants nothing, and does not affect the others.
        for unusable in self.replace(records) {
            tracing::warn!(%unusable, "an access key or policy is unusable and grants nothing");
        }
        Ok(())
    }

    /// Reads the records now, at each change and at regular intervals, until `stop` is cancelled.
    /// Logs the first failure of each outage.
    pub async fn follow(&self, volume: &Volume, stop: &CancellationToken) {
        let mut changes = volume.access_changes();
        // A change between the first read and this call was notified already, so the records are
        // read once now.
        changes.mark_changed();
        let mut failing = false;
        loop {
            let wait = if failing { RETRY_INTERVAL } else { REFRESH_INTERVAL };
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep(wait) => {}
                () = stop.cancelled() => return,
            }
            match self.read(volume).await {
                Ok(()) => failing = false,
                // Logged once for each outage.
                Err(_) if failing => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot read access keys; the last known ones stay in force");
                    failing = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
