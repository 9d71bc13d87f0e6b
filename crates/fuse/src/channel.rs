//! The state that the parts of a session share: device, requests in flight, counters.
//!
//! A reply is one write, sent after its request has left the table of requests in flight. For
//! example, READ replies with an iovec of the header and several blocks, without copying them.

use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::error;
use zerocopy::IntoBytes;

use crate::abi::OutHeader;
use crate::device::Device;
use crate::errno::Errno;
use crate::in_flight::InFlight;
use crate::meters::OperationMeters;

/// The number of parts (separate byte slices, with the header) up to which a reply needs no
/// allocation.
const PARTS_ON_STACK: usize = 16;
/// The number of parts (separate byte slices, with the header) up to which a reply is sent without
/// copying the parts into one buffer: `IOV_MAX` of Linux.
const PARTS_MAX: usize = 1024;

/// The state that the parts of a session with the kernel share.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) device: Device,
    pub(crate) in_flight: InFlight,
    pub(crate) counts: Counts,
    pub(crate) meters: OperationMeters,
}

/// The counters of a session with the kernel, as `SessionCounters` but changeable.
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

/// A snapshot of the counters of a session with the kernel, since its start in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Requests that were read from the kernel, including those that need no reply.
    pub requests: u64,
    /// Requests whose bytes do not match their header; answered with EIO.
    pub malformed: u64,
    /// Requests whose handler in the file system dropped the reply without answering; answered with
    /// EIO.
    pub unanswered: u64,
    /// Panics in methods and actions of the file system. The session continues after each.
    pub panics: u64,
    /// Interrupts that were read: a program that waits for a request got a signal.
    pub interrupts: u64,
    /// Replies to requests that the kernel had dropped, because the program was killed or the mount
    /// ended.
    pub undelivered: u64,
    /// Replies that the kernel refused as invalid. Any is a defect of this program.
    pub refused: u64,
}

impl Counts {
    /// Returns the present values of the session's counters.
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

/// Increments a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Channel {
    /// Returns the shared state of a new session, with no request in flight.
    pub(crate) fn new(device: Device) -> Channel {
        let meters = OperationMeters::new();
        Channel { device, in_flight: InFlight::default(), counts: Counts::default(), meters }
    }

    /// Removes a request from the table of requests in flight and replies to it. `unique` is the
    /// number of the request, `error` is 0 or a negative error number, and `parts` are the bytes
    /// after the header.
    pub(crate) fn finish(&self, unique: u64, error: i32, parts: &[IoSlice<'_>]) {
        // The request leaves the table first, so that no interrupt action runs after the reply.
        self.in_flight.end(unique);
        self.reply(unique, error, parts);
    }

    /// Replies to a request that is not in the table of requests in flight. If the kernel does not
    /// take the reply, that is counted and is no error.
    pub(crate) fn reply(&self, unique: u64, error: i32, parts: &[IoSlice<'_>]) {
        match self.send(unique, error, parts) {
            Ok(()) => {}
            // The kernel had dropped the request: its program was killed, or the mount ended.
            Err(Errno::ENOENT | Errno::ENODEV | Errno::ENOTCONN) => {
                count(&self.counts.undelivered);
            }
            // The program gets an error from the kernel. A refusal is a defect of this program.
            Err(refusal) => {
                count(&self.counts.refused);
                let bytes: usize = parts.iter().map(|part| part.len()).sum();
                error!(unique, error, bytes, %refusal, "the kernel refused a reply");
            }
        }
    }

    /// Writes one message to the kernel: a header with `unique` and `error`, and these parts. A
    /// reply has the number of its request as `unique`; a notification has 0, and its code as
    /// `error`.
    pub(crate) fn send(&self, unique: u64, error: i32, parts: &[IoSlice<'_>]) -> Result<(), Errno> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let len = u32::try_from(size_of::<OutHeader>() + bytes).map_err(|_| Errno::E2BIG)?;
        let header = OutHeader { len, error, unique };
        let header = IoSlice::new(header.as_bytes());
        // Most replies have a few parts, and need no allocation for their iovec.
        if parts.len() < PARTS_ON_STACK {
            let mut all = [IoSlice::new(&[]); PARTS_ON_STACK];
            all[0] = header;
            all[1..=parts.len()].copy_from_slice(parts);
            self.device.write(&all[..=parts.len()])
        } else if parts.len() < PARTS_MAX {
            let all: Vec<_> = std::iter::once(header).chain(parts.iter().copied()).collect();
            self.device.write(&all)
        } else {
            // One write must be one message, and writev(2) takes no more parts than this.
            let together: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            self.device.write(&[header, IoSlice::new(&together)])
        }
    }
}
