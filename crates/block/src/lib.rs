//! Immutable blocks by id: the contract, and the places that keep blocks.
//!
//! A block is written once, under an id that its writer drew and nobody draws again, and it never
//! changes. [`Sealer`] makes a block, adding checksums as the bytes enter; a [`BlockStore`] keeps
//! its sealed bytes; [`sealed::open`] is the only way back to the content, and it verifies. A mark
//! beside the blocks, in words of their owner's, says whose they are.
//!
//! Nothing here knows files, objects or records, nor who may still need a block: whoever deletes
//! one has settled that before.

#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unwrap_used)
)]

mod arrival;
mod arriving;
mod bucket;
pub mod conformance;
mod error;
mod folder;
mod memory;
mod observed;
mod opening;
mod place;
mod reader;
mod retrying;
pub mod sealed;
mod shift;
mod store;

pub use arrival::{ARRIVAL_BYTES_MIN, Arrival};
pub use arriving::Arriving;
pub use bucket::{BucketBlocks, BucketOptions, SecretKey};
pub use error::{BlockError, BlockErrorKind};
pub use folder::FolderBlocks;
pub use memory::MemoryBlocks;
pub use observed::{BlockCounters, Observed, VerbCount};
pub use reader::{BlockReader, Direct};
pub use record::{BlockId, Nonce};
pub use retrying::{RetryLimits, Retrying};
pub use sealed::{BlockRef, Opened, SealedBlock, SealedRange, Sealer, SubBlock};
pub use store::{BlockPage, BlockStore, MARK_BYTES_MAX, Stored, get_known};

/// Content bytes of a sub-block, the unit of verification; the last one of a block may be shorter.
pub const SUB_BLOCK_BYTES: u32 = 65_536;

/// Content bytes that one block holds at most.
pub const BLOCK_BYTES_MAX: u32 = 16 << 20;

/// Content bytes at which writers cut blocks unless told otherwise.
pub const BLOCK_BYTES_DEFAULT: u32 = 16 << 20;

const _: () = assert!(BLOCK_BYTES_MAX.is_multiple_of(SUB_BLOCK_BYTES), "sub-blocks fill a block");
const _: () = assert!(BLOCK_BYTES_DEFAULT <= BLOCK_BYTES_MAX, "the default is within the limit");
