//! The delivery of access logs into buckets.
//!
//! One task takes buffers at each interval and writes each of them as an object. If a store does
//! not answer, a buffer is tried again at the next intervals. If the target refuses the log, the
//! lines are dropped: for example, because the owner of the target has removed its policy.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use gateway::{BucketLines, Gateway, LogError};
use time::OffsetDateTime;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volume::VolumeError;

use super::{BucketLogs, LogBuffer};
use crate::config::ServeSettings;

/// The number of objects that are written at a time.
const DELIVERIES_AT_ONCE: usize = 4;

/// The number of failed attempts after which the lines of a buffer are dropped.
const FAILURES_MAX: u32 = 5;

/// The longest interval.
const INTERVAL_MAX: Duration = Duration::from_hours(24);

/// The limit of time of the last delivery, when the gateway stops.
const LAST_DELIVERY_MAX: Duration = Duration::from_secs(10);

/// The deliveries of a gateway.
#[derive(Debug)]
pub(in super::super) struct Deliveries {
    deliverer: Deliverer,
    tasks: TaskTracker,
}

#[derive(Clone, Debug)]
struct Deliverer {
    logs: Arc<BucketLogs>,
    gateway: Arc<Gateway>,
}

impl Deliveries {
    /// Begins to deliver logs at an interval, of at most 24 hours, until `stop`.
    pub(in super::super) fn start(
        logs: &Arc<BucketLogs>,
        gateway: &Arc<Gateway>,
        settings: &ServeSettings,
        stop: &CancellationToken,
    ) -> Deliveries {
        let interval = Duration::from_secs(settings.bucket_log_interval_seconds);
        let interval = interval.min(INTERVAL_MAX);
        let deliverer = Deliverer { logs: Arc::clone(logs), gateway: Arc::clone(gateway) };
        let (tasks, stop, delivering) = (TaskTracker::new(), stop.clone(), deliverer.clone());
        tasks.spawn(async move { delivering.run(interval, &stop).await });
        Deliveries { deliverer, tasks }
    }

    /// Delivers all lines once more after `stop`. The lines that are not delivered within 10
    /// seconds are lost.
    pub(in super::super) async fn end(self) {
        let Deliveries { deliverer, tasks } = self;
        tasks.close();
        tasks.wait().await;
        // A task of its own: a deadline must not cancel a commit.
        tasks.spawn(async move { deliverer.deliver(true).await });
        if timeout(LAST_DELIVERY_MAX, tasks.wait()).await.is_err() {
            tracing::warn!("the stores are too slow: the last lines of access logs are lost");
        }
    }
}

impl Deliverer {
    async fn run(&self, interval: Duration, stop: &CancellationToken) {
        let mut ticks = interval_at(Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let all = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = ticks.tick() => true,
                () = self.logs.filled.notified() => false,
            };
            self.deliver(all).await;
        }
    }

    /// Delivers the buffers that are full, or all of them if `all` is true.
    async fn deliver(&self, all: bool) {
        let taken = futures::stream::iter(self.logs.take(all));
        taken.for_each_concurrent(DELIVERIES_AT_ONCE, |buffer| self.deliver_one(buffer)).await;
    }

    async fn deliver_one(&self, mut buffer: LogBuffer) {
        match self.write(&mut buffer).await {
            Ok(()) => self.logs.end(&buffer, None),
            Err(error) => {
                buffer.failures += 1;
                if error.is_transient() && buffer.failures < FAILURES_MAX {
                    self.logs.keep(buffer);
                } else {
                    self.logs.end(&buffer, Some(&error));
                }
            }
        }
    }

    async fn write(&self, buffer: &mut LogBuffer) -> Result<(), LogError> {
        let (time, unique) = self.name(buffer)?;
        let lines = BucketLines {
            source: &buffer.bucket.name,
            account: buffer.bucket.account,
            destination: &buffer.bucket.destination,
            time,
            unique,
        };
        let content = Bytes::from(buffer.text.clone());
        // Boxed, because the future of a write is large.
        Box::pin(self.gateway.deliver_log(lines, content)).await.map(drop)
    }

    /// Returns the time and the number in the key of an object. They stay the same when the
    /// delivery is repeated.
    fn name(&self, buffer: &mut LogBuffer) -> Result<(OffsetDateTime, u64), LogError> {
        if let Some(named) = buffer.named {
            return Ok(named);
        }
        let mut unique = [0; 8];
        getrandom::fill(&mut unique).map_err(|error| {
            let why = format!("the machine gives no random bytes: {error}");
            LogError::Volume(VolumeError::Unavailable(why))
        })?;
        let midnight = buffer.day.map(|day| day.midnight().assume_utc());
        let time = midnight.unwrap_or_else(|| self.gateway.now());
        Ok(*buffer.named.insert((time, u64::from_be_bytes(unique))))
    }
}
