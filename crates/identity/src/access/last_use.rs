//! The last use of each access key, in memory until it is written.
//!
//! A request stores a number and waits for nothing. The task of [`Access::keep_last_uses`] writes
//! the numbers that have changed at most once an hour, and when the view stops. The memory is
//! bounded by the number of access keys: the number belongs to the key.
//!
//! For example, after a gateway was killed, the last use of a key can be an hour too early.

use std::time::Duration;

use record::Timestamp;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use volume::{LAST_USES_MAX, Volume, VolumeError};

use super::snapshot::{Access, Identity};

/// The interval at which last uses are written.
const WRITE_INTERVAL: Duration = Duration::from_hours(1);

/// The limit of time for the last write, when a view stops. A store that does not answer must not
/// delay the stop; the uses since the last write are lost then.
const FINAL_WRITE_PATIENCE: Duration = Duration::from_secs(5);

impl Identity {
    /// Notes that a request with the access key has been authenticated.
    pub fn note_use(&self, now: OffsetDateTime) {
        if let Some(last_use) = &self.last_use {
            last_use.note(now);
        }
    }

    /// Returns the identity with the uses of the same key in an earlier snapshot. Another secret
    /// means another key.
    pub(super) fn with_use_of(mut self, earlier: Option<&Identity>) -> Identity {
        if let Some(earlier) = earlier.filter(|earlier| earlier.secret == self.secret) {
            self.last_use.clone_from(&earlier.last_use);
        }
        self
    }
}

impl Access {
    /// Writes the last uses of access keys at regular intervals, and once more when `stop` is
    /// cancelled. Logs the first failure of each outage.
    pub async fn keep_last_uses(&self, volume: &Volume, stop: &CancellationToken) {
        let mut failing = false;
        loop {
            let stopped = tokio::select! {
                () = tokio::time::sleep(WRITE_INTERVAL) => false,
                () = stop.cancelled() => true,
            };
            if stopped {
                let written = self.write_last_uses(volume);
                // A failure is no loss that an operator must know of.
                drop(tokio::time::timeout(FINAL_WRITE_PATIENCE, written).await);
                return;
            }
            match self.write_last_uses(volume).await {
                Ok(()) => failing = false,
                Err(_) if failing => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot write the last uses of access keys");
                    failing = true;
                }
            }
        }
    }

    /// Writes the last uses that have changed since they were written.
    ///
    /// # Errors
    /// If the store refuses a write. The uses are then written by the next call.
    pub async fn write_last_uses(&self, volume: &Volume) -> Result<(), VolumeError> {
        let unwritten = self.unwritten_uses();
        for chunk in unwritten.chunks(LAST_USES_MAX) {
            let uses: Vec<(String, Timestamp)> = chunk
                .iter()
                .map(|(identity, at)| (identity.signing_key.clone(), Timestamp(*at)))
                .collect();
            volume.record_last_uses(&uses).await?;
            for (identity, at) in chunk {
                if let Some(last_use) = &identity.last_use {
                    last_use.note_written(*at);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
