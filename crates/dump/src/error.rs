//! The errors of dumps. Their texts are fragments that fit after "cannot …:".
//!
//! For example, "cannot load the dump: it is cut off after 4096 bytes".

use std::io;

use store::{Key, StoreError};

/// The reason why a dump was not written or not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The metadata store failed; the cause says if a repetition can help.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The dump's bytes could not be written.
    #[error("writing the dump: {0}")]
    Write(#[source] io::Error),
    /// The dump's bytes could not be read.
    #[error("reading the dump: {0}")]
    Read(#[source] io::Error),
    /// The store has a record that a dump cannot hold, for example a value that is too long, or
    /// returned records out of order. The output is not a dump.
    #[error("the store cannot be dumped: {what} at {key:?}")]
    Undumpable {
        /// The mistake.
        what: &'static str,
        /// The key of the record or counter.
        key: Key,
    },
    /// The input is not a dump.
    #[error("it is not a dump of Ashlar's metadata")]
    NotADump,
    /// A newer release wrote the dump, in the format with this number.
    #[error("it has format {0}, and this release reads format {format}: use a newer one",
            format = crate::FORMAT)]
    Format(u8),
    /// The dump ends before its trailer, after this number of bytes.
    #[error("it is cut off after {0} bytes: a dump without its trailer is not complete")]
    Cut(u64),
    /// The bytes differ from those that were written, as a checksum, a count or the order of keys
    /// shows.
    #[error("it is damaged at byte {at}: {what}")]
    Damaged {
        /// The offset in the dump, in bytes, of the record, counter or other piece that is damaged.
        at: u64,
        /// The mistake.
        what: &'static str,
    },
    /// The second read of the dump returned other bytes than the first one.
    #[error("it changed while it was read")]
    Changed,
    /// A record or counter of the dump exceeds a limit of the engine that the load fills.
    #[error("{key:?} does not fit into this kind of store: {size} {what} are more than {limit}")]
    TooLarge {
        /// The key of the record or counter.
        key: Key,
        /// The quantity that is too large.
        what: &'static str,
        /// The size found in the record or counter.
        size: u64,
        /// The limit of the engine.
        limit: u64,
    },
    /// The dump does not have the record with this key, the keystone, without which a store is not
    /// complete.
    #[error("it has no record {0:?}, without which a store is not complete")]
    NoKeystone(Key),
    /// The store is not empty; it has this key.
    #[error("the store is not empty: it holds {0:?}")]
    NotEmpty(Key),
    /// Another load has begun to fill the store. It was interrupted, or is still running.
    #[error("another load has begun to fill the store and has not finished")]
    Unfinished,
    /// Another process wrote to the store during the load: a guard of the load did not hold.
    #[error("another process uses the store at the same time")]
    Contested,
}
