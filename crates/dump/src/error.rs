//! Errors, as fragments that fit after "cannot …:".

use std::io;

use store::{Key, StoreError};

/// Why a dump was not written, or not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The metadata store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The dump's bytes could not be written.
    #[error("writing the dump: {0}")]
    Write(#[source] io::Error),
    /// The dump's bytes could not be read.
    #[error("reading the dump: {0}")]
    Read(#[source] io::Error),
    /// The store holds what a dump has no room for, or gave it out of order. Nothing was finished.
    #[error("the store cannot be dumped: {what} at {key:?}")]
    Undumpable {
        /// What is wrong.
        what: &'static str,
        /// Where.
        key: Key,
    },
    /// The bytes are something else.
    #[error("it is not a dump of Ashlar's metadata")]
    NotADump,
    /// A newer release wrote the dump.
    #[error("it has format {0}, and this release reads format {format}: use a newer one",
            format = crate::FORMAT)]
    Format(u8),
    /// The dump ends before its trailer.
    #[error("it is cut off after {0} bytes: a dump without its end is none")]
    Cut(u64),
    /// The dump is not what was written.
    #[error("it is damaged at byte {at}: {what}")]
    Damaged {
        /// Where the damaged piece begins.
        at: u64,
        /// What does not fit.
        what: &'static str,
    },
    /// The dump's bytes were others when they were read again.
    #[error("it changed while it was read")]
    Changed,
    /// The engine that is to be filled does not take such records.
    #[error("{key:?} does not fit into this kind of store: {size} {what} are more than {limit}")]
    TooLarge {
        /// The record.
        key: Key,
        /// What is too large.
        what: &'static str,
        /// What there is.
        size: u64,
        /// What the engine takes.
        limit: u64,
    },
    /// The record that makes a store a whole is not in the dump.
    #[error("it holds no record {0:?}, without which nothing is a whole")]
    NoKeystone(Key),
    /// The store that is to be filled is not empty.
    #[error("the store is not empty: it holds {0:?}")]
    NotEmpty(Key),
    /// An earlier load began to fill the store and did not end, or has not ended yet.
    #[error("another load has begun to fill the store, and did not finish")]
    Unfinished,
    /// While the store was being filled somebody else took or changed it.
    #[error("somebody else uses the store at the same time")]
    Contested,
}
