//! Counters of the operations of a session: results, latencies and bytes.
//!
//! Each reply adds to three atomic counters of its operation, without a lock. For example, a LOOKUP
//! that fails with `ENOENT` after 80 µs adds to the result `ENOENT`, to the bucket of 100 µs, and
//! to the sum of the latencies. Readers get a snapshot in which the counters may differ by the
//! replies of that moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::abi::opcode;
use crate::errno::Errno;

/// The upper bounds of the buckets of latencies in seconds: from 25 µs, a reply from memory, to 30
/// seconds, a store that does not respond. Slower operations are in one more bucket.
pub const LATENCY_SECONDS: [f64; BOUNDS] = [
    0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 1.0, 5.0, 30.0,
];

/// The same bounds in microseconds.
const LATENCY_MICROS: [u64; BOUNDS] = [
    25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    1_000_000, 5_000_000, 30_000_000,
];

const BOUNDS: usize = 16;

/// The number of error numbers with counters of their own, from 0 for success. Linux has fewer than
/// this. Others share the last one.
const RESULTS: usize = 134;

/// The name of a success among the results.
const SUCCESS: &str = "OK";

/// The name of results without a name of their own.
const OTHER: &str = "OTHER";

macro_rules! operations {
    ($($name:ident)*) => {
        /// The operations with counters: their numbers and names.
        const OPERATIONS: &[(u32, &str)] = &[$((opcode::$name, stringify!($name)),)*];
    };
}

operations! {
    LOOKUP GETATTR SETATTR READLINK SYMLINK MKNOD MKDIR UNLINK RMDIR RENAME LINK OPEN READ WRITE
    STATFS RELEASE FSYNC SETXATTR GETXATTR LISTXATTR REMOVEXATTR FLUSH OPENDIR READDIR RELEASEDIR
    FSYNCDIR GETLK SETLK SETLKW ACCESS CREATE IOCTL FALLOCATE READDIRPLUS RENAME2 LSEEK
    COPY_FILE_RANGE SYNCFS TMPFILE STATX COPY_FILE_RANGE_64
}

/// The number of operations that the table can hold: their numbers are below it.
const OPCODES: usize = 64;

/// The counters of all operations of a session.
#[derive(Debug)]
pub(crate) struct OperationMeters {
    /// The counters of each operation, at its number.
    operations: Box<[OperationMeter]>,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

#[derive(Debug)]
struct OperationMeter {
    results: [AtomicU64; RESULTS],
    latencies: [AtomicU64; BOUNDS + 1],
    total_micros: AtomicU64,
}

/// The counters of one operation since the start of the session in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationCounters {
    /// The name of the operation, such as `LOOKUP`.
    pub operation: &'static str,
    /// The replies by their result: `OK`, or the name of the error, such as `ENOENT`. Results that
    /// have not occurred are absent.
    pub results: Vec<(&'static str, u64)>,
    /// The replies by their latency: those up to each bound of [`LATENCY_SECONDS`] and above the
    /// previous one, and the slower ones.
    pub latencies: [u64; BOUNDS + 1],
    /// The sum of the latencies.
    pub total: Duration,
}

impl OperationMeters {
    pub(crate) fn new() -> OperationMeters {
        let meter = |_| OperationMeter {
            results: [const { AtomicU64::new(0) }; RESULTS],
            latencies: [const { AtomicU64::new(0) }; BOUNDS + 1],
            total_micros: AtomicU64::new(0),
        };
        let operations = (0..OPCODES).map(meter).collect();
        OperationMeters {
            operations,
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        }
    }

    /// Counts a reply. `error` is 0 or a negative error number.
    pub(crate) fn count(&self, opcode: u32, error: i32, latency: Duration) {
        let at = usize::try_from(opcode).unwrap_or(usize::MAX);
        // The kernel may have operations that this program does not know; they are not answered
        // here.
        let Some(meter) = self.operations.get(at) else { return };
        let result = usize::try_from(error.unsigned_abs()).unwrap_or(RESULTS).min(RESULTS - 1);
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_MICROS.iter().position(|bound| micros <= *bound).unwrap_or(BOUNDS);
        meter.results[result].fetch_add(1, Ordering::Relaxed);
        meter.latencies[bucket].fetch_add(1, Ordering::Relaxed);
        meter.total_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts bytes that a READ returned.
    pub(crate) fn count_read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes that a WRITE took.
    pub(crate) fn count_written(&self, bytes: u32) {
        self.written_bytes.fetch_add(bytes.into(), Ordering::Relaxed);
    }

    /// Returns the bytes that READ returned and that WRITE took.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.read_bytes.load(Ordering::Relaxed), self.written_bytes.load(Ordering::Relaxed))
    }

    /// Returns the counters of each operation that has occurred.
    pub(crate) fn snapshot(&self) -> Vec<OperationCounters> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = |(number, operation): &(u32, &'static str)| {
            let meter = self.operations.get(usize::try_from(*number).ok()?)?;
            let results = meter.results.iter().enumerate();
            let results = results.map(|(number, count)| (result(number), load(count)));
            let results = merged(results.filter(|(_, count)| *count > 0));
            (!results.is_empty()).then(|| OperationCounters {
                operation,
                results,
                latencies: std::array::from_fn(|at| load(&meter.latencies[at])),
                total: Duration::from_micros(load(&meter.total_micros)),
            })
        };
        OPERATIONS.iter().filter_map(counters).collect()
    }
}

/// Returns the results, those of one name as one.
fn merged(results: impl Iterator<Item = (&'static str, u64)>) -> Vec<(&'static str, u64)> {
    let mut merged: Vec<(&'static str, u64)> = Vec::new();
    for (name, count) in results {
        match merged.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += count,
            None => merged.push((name, count)),
        }
    }
    merged
}

/// Returns the name of a result.
fn result(number: usize) -> &'static str {
    if number == 0 {
        return SUCCESS;
    }
    let errno = i32::try_from(number).ok().and_then(Errno::new);
    errno.and_then(Errno::name).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests;
