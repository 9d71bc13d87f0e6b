//! What the parts of a session share: the device, the requests in flight, the counters.
//!
//! A reply is written once, whole, and after its request left the table. What is in it is not known
//! here.

use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::error;
use zerocopy::IntoBytes;

use crate::abi::OutHeader;
use crate::device::Device;
use crate::errno::Errno;
use crate::in_flight::InFlight;

/// Parts that a reply can have without a vector being allocated for it.
const PARTS_ON_STACK: usize = 16;
/// Parts that a reply can have without being copied together first; the system's limit.
const PARTS_MAX: usize = 1024;

/// What the parts of a session share.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) device: Device,
    pub(crate) in_flight: InFlight,
    pub(crate) counts: Counts,
}

/// What happened so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) unanswered: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) interrupts: AtomicU64,
    pub(crate) undelivered: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// What happened in a session so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Requests that were read, those included that have no answer.
    pub requests: u64,
    /// Requests that were not what they announced; answered with EIO.
    pub malformed: u64,
    /// Replies that were dropped; answered with EIO.
    pub unanswered: u64,
    /// Handlers that panicked.
    pub panics: u64,
    /// Interrupts that were read.
    pub interrupts: u64,
    /// Replies to requests that were gone, since their programs or the mount were.
    pub undelivered: u64,
    /// Replies that the kernel refused. There should be none.
    pub refused: u64,
}

impl Counts {
    pub(crate) fn snapshot(&self) -> SessionCounters {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SessionCounters {
            requests: load(&self.requests),
            malformed: load(&self.malformed),
            unanswered: load(&self.unanswered),
            panics: load(&self.panics),
            interrupts: load(&self.interrupts),
            undelivered: load(&self.undelivered),
            refused: load(&self.refused),
        }
    }
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Channel {
    pub(crate) fn new(device: Device) -> Channel {
        Channel { device, in_flight: InFlight::default(), counts: Counts::default() }
    }

    /// Answers a request of the table. `error` is 0 or negative.
    pub(crate) fn finish(&self, unique: u64, error: i32, parts: &[IoSlice<'_>]) {
        self.in_flight.end(unique);
        self.reply(unique, error, parts);
    }

    /// Answers a request.
    pub(crate) fn reply(&self, unique: u64, error: i32, parts: &[IoSlice<'_>]) {
        match self.send(unique, error, parts) {
            Ok(()) => {}
            Err(Errno::ENOENT | Errno::ENODEV | Errno::ENOTCONN) => {
                count(&self.counts.undelivered);
            }
            Err(refusal) => {
                count(&self.counts.refused);
                let bytes: usize = parts.iter().map(|part| part.len()).sum();
                error!(unique, error, bytes, %refusal, "the kernel refused a reply");
            }
        }
    }

    /// Sends one message with a header in front of it.
    pub(crate) fn send(&self, unique: u64, error: i32, parts: &[IoSlice<'_>]) -> Result<(), Errno> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let len = u32::try_from(size_of::<OutHeader>() + bytes).map_err(|_| Errno::E2BIG)?;
        let header = OutHeader { len, error, unique };
        let header = IoSlice::new(header.as_bytes());
        if parts.len() < PARTS_ON_STACK {
            let mut all = [IoSlice::new(&[]); PARTS_ON_STACK];
            all[0] = header;
            all[1..=parts.len()].copy_from_slice(parts);
            self.device.write(&all[..=parts.len()])
        } else if parts.len() < PARTS_MAX {
            let all: Vec<_> = std::iter::once(header).chain(parts.iter().copied()).collect();
            self.device.write(&all)
        } else {
            let together: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            self.device.write(&[header, IoSlice::new(&together)])
        }
    }
}
