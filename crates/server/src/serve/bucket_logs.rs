//! The access logs of buckets: lines of requests that wait for their delivery into other buckets.
//!
//! A request on a bucket with a log adds its line to the buffer of this bucket. [`Deliveries`]
//! writes each buffer as one object of the target bucket: at an interval, and at once when a buffer
//! is full. For example, 20 requests within a minute become one object of 20 lines.
//!
//! Invariants: no request waits for a delivery. A bucket whose log cannot be delivered holds at
//! most [`SOURCE_BYTES_MAX`] of memory, and all buckets together [`TOTAL_BYTES_MAX`]; further lines
//! are dropped and counted. A crash loses the lines in the buffers, so the log is best effort, as
//! on AWS.

mod delivery;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use audit::{AuditEntry, LineFormat};
use gateway::Served;
use record::AccountId;
use runtime::{Metered, Metric};
use s3::bucket_logging::LoggingEnabled;
use time::{Date, OffsetDateTime};
use tokio::sync::Notify;
use tokio::time::Instant;

pub(super) use delivery::Deliveries;

/// The bytes of lines after which a buffer is delivered before the interval is over.
const BUFFER_BYTES: usize = 1 << 20;

/// The number of lines after which a buffer is delivered before the interval is over.
const BUFFER_LINES: u64 = 10_000;

/// The limit of bytes of lines of one bucket that wait for their delivery.
const SOURCE_BYTES_MAX: usize = 8 << 20;

/// The limit of bytes of lines of all buckets that wait for their delivery.
const TOTAL_BYTES_MAX: usize = 32 << 20;

const _: () = assert!(BUFFER_BYTES < SOURCE_BYTES_MAX && SOURCE_BYTES_MAX < TOTAL_BYTES_MAX);

/// The minimum time between two log lines about dropped lines.
const WARN_INTERVAL: Duration = Duration::from_mins(1);

runtime::counters! {
    /// Counters of the access logs of buckets.
    pub(super) struct BucketLogMeters {
        /// Lines that were delivered.
        delivered: "ashlar_bucket_log_lines_total" { result: "delivered" }
            "Lines of access logs of buckets, by their result. A line is dropped if its target bucket refuses the log, or if too many lines wait.",
        /// Lines that were dropped.
        dropped: "ashlar_bucket_log_lines_total" { result: "dropped" },
    }
}

/// A bucket whose access log is delivered.
#[derive(Clone, Debug)]
pub(super) struct LoggedBucket {
    name: String,
    account: AccountId,
    destination: Arc<LoggingEnabled>,
}

impl LoggedBucket {
    /// Returns the bucket of a request and takes its destination; `None` if its log is not
    /// delivered.
    pub(super) fn of(served: &mut Served) -> Option<LoggedBucket> {
        let destination = served.logging.take()?;
        let (name, account) = (served.bucket.clone()?, served.bucket_owner?);
        Some(LoggedBucket { name, account, destination })
    }
}

/// The lines of one bucket for one object.
#[derive(Debug)]
struct LogBuffer {
    bucket: LoggedBucket,
    /// The day of all lines, if the key of the object has this day.
    day: Option<Date>,
    text: String,
    lines: u64,
    /// The time and the number in the key of the object, since the first attempt to write it.
    named: Option<(OffsetDateTime, u64)>,
    /// The number of attempts that failed.
    failures: u32,
}

impl LogBuffer {
    fn new(bucket: &LoggedBucket, day: Option<Date>) -> LogBuffer {
        let bucket = bucket.clone();
        LogBuffer { bucket, day, text: String::new(), lines: 0, named: None, failures: 0 }
    }

    fn is_for(&self, destination: &Arc<LoggingEnabled>, day: Option<Date>) -> bool {
        let same = &self.bucket.destination;
        self.day == day && (Arc::ptr_eq(same, destination) || same == destination)
    }

    fn is_full(&self) -> bool {
        self.text.len() >= BUFFER_BYTES || self.lines >= BUFFER_LINES
    }
}

/// The lines of one source bucket.
#[derive(Debug, Default)]
struct SourceLines {
    /// The buffers that take lines: one for each destination and day.
    open: Vec<LogBuffer>,
    /// The bytes of all lines, also of those that are being delivered.
    bytes: usize,
}

#[derive(Debug, Default)]
struct Buffers {
    sources: HashMap<String, SourceLines>,
    /// Buffers that are full.
    full: Vec<LogBuffer>,
    /// Buffers whose delivery failed and is tried again at the interval.
    again: Vec<LogBuffer>,
    /// The bytes of all lines, also of those that are being delivered.
    bytes: usize,
    /// The time of the last log line about dropped lines.
    warned: Option<Instant>,
}

/// The lines that wait for their delivery.
#[derive(Debug, Default)]
pub(super) struct BucketLogs {
    buffers: Mutex<Buffers>,
    meters: BucketLogMeters,
    /// Notified when a buffer is full.
    filled: Notify,
}

impl BucketLogs {
    fn lock(&self) -> MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the line of a request on a bucket. Does not wait: if too many lines wait, the line is
    /// dropped and counted.
    pub(super) fn push(&self, bucket: &LoggedBucket, entry: &AuditEntry) {
        let line = LineFormat::S3.line(entry);
        let day = bucket.destination.is_by_day().then(|| entry.time.date());
        let bytes = line.len() + 1;
        let mut guard = self.lock();
        let buffers = &mut *guard;
        let source = match buffers.sources.get_mut(&bucket.name) {
            Some(source) => source,
            None => buffers.sources.entry(bucket.name.clone()).or_default(),
        };
        if source.bytes + bytes > SOURCE_BYTES_MAX || buffers.bytes + bytes > TOTAL_BYTES_MAX {
            let is_empty = source.bytes == 0;
            if is_empty {
                buffers.sources.remove(&bucket.name);
            }
            drop(guard);
            self.count_dropped(1, &bucket.name, &"too many lines wait for their delivery");
            return;
        }
        let found = source.open.iter().position(|buffer| buffer.is_for(&bucket.destination, day));
        let index = found.unwrap_or_else(|| {
            source.open.push(LogBuffer::new(bucket, day));
            source.open.len() - 1
        });
        let buffer = &mut source.open[index];
        buffer.text.push_str(&line);
        buffer.text.push('\n');
        buffer.lines += 1;
        source.bytes += bytes;
        buffers.bytes += bytes;
        if buffer.is_full() {
            buffers.full.push(source.open.swap_remove(index));
            drop(guard);
            self.filled.notify_one();
        }
    }

    /// Takes the buffers to deliver: those that are full, or all of them if `all` is true. Their
    /// lines count for the limits until [`BucketLogs::end`].
    fn take(&self, all: bool) -> Vec<LogBuffer> {
        let mut buffers = self.lock();
        let mut taken = std::mem::take(&mut buffers.full);
        if all {
            taken.append(&mut buffers.again);
            for source in buffers.sources.values_mut() {
                taken.append(&mut source.open);
            }
        }
        taken
    }

    /// Keeps a buffer whose delivery failed for the next interval.
    fn keep(&self, buffer: LogBuffer) {
        self.lock().again.push(buffer);
    }

    /// Ends the wait of a buffer: its lines are delivered, or dropped for the reason `why`.
    fn end(&self, buffer: &LogBuffer, why: Option<&dyn fmt::Display>) {
        let (name, bytes) = (&buffer.bucket.name, buffer.text.len());
        let mut guard = self.lock();
        guard.bytes -= bytes;
        if let Some(source) = guard.sources.get_mut(name) {
            source.bytes -= bytes;
            // The map has only buckets with lines, so it does not grow with deleted buckets.
            if source.bytes == 0 {
                guard.sources.remove(name);
            }
        }
        drop(guard);
        match why {
            None => self.meters.delivered.add(buffer.lines),
            Some(why) => self.count_dropped(buffer.lines, name, why),
        }
    }

    /// Counts dropped lines of a bucket. Logs the reason, at most once a minute.
    fn count_dropped(&self, lines: u64, bucket: &str, why: &dyn fmt::Display) {
        self.meters.dropped.add(lines);
        let mut buffers = self.lock();
        if buffers.warned.is_none_or(|warned| warned.elapsed() >= WARN_INTERVAL) {
            buffers.warned = Some(Instant::now());
            drop(buffers);
            let dropped = self.meters.dropped.get();
            tracing::warn!(bucket, %why, dropped, "lines of the access log of a bucket are dropped");
        }
    }
}

impl Metered for BucketLogs {
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric)) {
        self.meters.visit_metrics(visit);
        let bytes = self.lock().bytes as u64;
        let help = "Bytes of lines of access logs of buckets that wait for their delivery.";
        visit(Metric::gauge("ashlar_bucket_log_waiting_bytes", help, bytes));
    }
}

#[cfg(test)]
mod tests;
