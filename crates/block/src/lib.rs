//! Immutable blocks with ids: the contract of block stores, and the stores themselves.
//!
//! Roles:
//!
//! - A [`Sealer`] makes a block from content, and computes checksums as the bytes enter.
//! - A [`BlockStore`] keeps the sealed bytes under the block's id: in a folder ([`FolderBlocks`]),
//!   in an S3 bucket ([`BucketBlocks`]) or in memory ([`MemoryBlocks`]).
//! - *Layers* are block stores over a block store: [`Encrypting`] encrypts secret blocks,
//!   [`Observed`] counts calls, [`Retrying`] repeats failed ones.
//! - A [`BlockReader`] returns verified content. [`sealed::open`] is the only way from sealed bytes
//!   to content.
//! - A *mark* beside the blocks names the volume that owns them.
//!
//! **Invariant.** A block is written once, under an id that no other block ever gets, and its bytes
//! never change. So a cached copy is never stale, and a put may be repeated.
//!
//! For example, a writer seals 16 MiB of an object under a new id, puts the block, and a metadata
//! record then references it. A reader takes id, length and CRC from the record, gets a range of
//! the block, and verifies it.
//!
//! The crate does not know files, objects or records, or whether a block is still needed. The
//! caller of a delete has made sure that it is not.

#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unwrap_used)
)]

mod arrival;
mod bucket;
mod byte_source;
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
mod secret;
mod shift;
mod store;

pub use arrival::{ARRIVAL_BYTES_MIN, Arrival};
pub use bucket::{BucketBlocks, BucketOptions, SecretKey};
pub use byte_source::ByteSource;
pub use error::{BlockError, BlockErrorKind};
pub use folder::FolderBlocks;
pub use memory::MemoryBlocks;
pub use observed::{BlockMeters, Observed, VerbMeters};
pub use reader::{BlockReader, UncachedReader};
pub use record::{BlockId, Nonce};
pub use retrying::{RetryLimits, Retrying};
pub use sealed::{BlockRef, SealedBlock, SealedRange, Sealer, SubBlock, VerifiedSubBlock};
pub use secret::Encrypting;
pub use store::{BlockPage, BlockStore, MARK_BYTES_MAX, MARK_NAME, Stored, get_with_recovery};

/// Content bytes of a sub-block, the unit of verification. The last sub-block of a block may be
/// shorter.
pub const SUB_BLOCK_BYTES: u32 = 65_536;

/// The most content bytes of one block.
pub const BLOCK_BYTES_MAX: u32 = 16 << 20;

/// The default size at which writers end a block, in content bytes.
pub const BLOCK_BYTES_DEFAULT: u32 = 16 << 20;

const _: () = assert!(BLOCK_BYTES_MAX.is_multiple_of(SUB_BLOCK_BYTES), "sub-blocks fill a block");
const _: () = assert!(BLOCK_BYTES_DEFAULT <= BLOCK_BYTES_MAX, "the default is within the limit");
