//! A metadata store as one stream of bytes, and back into any other.
//!
//! A dump is what [`store::MetaStore::snapshot`] gives: every record and every counter of one
//! instant, in byte order of their keys, with a CRC for each, counts, and a sum over the whole at
//! the end. It holds nothing of the engine and nothing of the moment at which it was written. So
//! a store that was filled from a dump gives the same bytes again, whatever engines the two are.
//!
//! A dump is verified to its last byte before anything of it is written to a store, and the record
//! that makes a store complete is written last ([`Keystone`]). So a store is either filled completely or
//! not taken for a store.
//!
//! This crate knows keys, values and integers; neither what they mean nor where bytes come from
//! and go to.

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

/// What a dump holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// A label that the writer has chosen.
    pub label: Bytes,
    /// How much there is, the bytes of header and trailer included.
    pub counts: DumpSize,
    /// SHA-256 of all bytes before it: dumps with equal sums are equal.
    pub sum: [u8; 32],
}

/// How much of a dump was written or read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpSize {
    /// Records.
    pub records: u64,
    /// Counters.
    pub counters: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What is being done with a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is being written.
    Dump,
    /// It is being verified.
    Verify,
    /// A store is being filled from it.
    Fill,
}

/// Receives reports on the progress of a phase. The size restarts with each phase.
pub trait Watcher: Sync {
    /// So much of this phase is done.
    fn passed(&self, phase: Phase, size: DumpSize);
}

/// Ignores reports.
impl Watcher for () {
    fn passed(&self, _: Phase, _: DumpSize) {}
}
