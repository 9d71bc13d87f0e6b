//! Dumps: a metadata store as a stream of bytes, which a load writes to another store.
//!
//! A dump has all records and counters of one snapshot ([`store::MetaStore::snapshot`]) in byte
//! order of their keys, a CRC for each, and a trailer with counts and a SHA-256 of all bytes. It
//! depends neither on the engine nor on the time of writing. For example, a dump of SQLite that is
//! loaded into PostgreSQL and dumped again has the same bytes.
//!
//! The invariant of a load: the store is filled completely, or it is not accepted as a store. The
//! load verifies the dump to its last byte before it writes anything, and writes the record that
//! makes a store complete ([`Keystone`]) last.
//!
//! The crate knows keys, values and integers. It does not know their meaning, nor the source and
//! the destination of the bytes.

mod error;
mod format;
mod load;
mod read;
mod write;

pub use error::DumpError;
pub use format::{FORMAT, LABEL_BYTES_MAX, VALUE_BYTES_MAX};
pub use load::{Keystone, load};
pub use read::verify;
pub use write::dump;

use bytes::Bytes;

/// The label, size and checksum of a complete dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The text or bytes that the writer of the dump chose for its header. This crate does not
    /// interpret it.
    pub label: Bytes,
    /// The number of records, counters and bytes, including header and trailer.
    pub counts: DumpSize,
    /// The SHA-256 of all bytes before it. Dumps with equal sums are equal.
    pub sum: [u8; 32],
}

/// The size of a dump, or of the part that was written or read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpSize {
    /// The number of records.
    pub records: u64,
    /// The number of counters.
    pub counters: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The phase of an operation on a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The dump is written.
    Dump,
    /// The dump is verified.
    Verify,
    /// A store is filled from the dump.
    Fill,
}

/// Receives reports on the progress of a dump, verification or load. The size restarts with each
/// phase.
pub trait Watcher: Sync {
    /// Reports the part of the phase that is done.
    fn passed(&self, phase: Phase, size: DumpSize);
}

/// Ignores reports.
impl Watcher for () {
    fn passed(&self, _: Phase, _: DumpSize) {}
}
