//! Reads and writes object content as blocks.
//!
//! Roles:
//!
//! - A [`ContentWriter`] cuts an incoming body into blocks and uploads each full block while the
//!   rest of the body arrives. It ends in a [`StagedContent`]: bytes that are durable but that no
//!   metadata record references yet.
//! - The [`Packer`] puts several small bodies into one shared block, a *pack*.
//! - A [`ContentStream`] reads the bytes of a content map back. It verifies every byte before it
//!   returns it.
//! - A [`ByteBudget`] limits the memory that writers and streams hold. Each takes a permit before
//!   it allocates.
//!
//! **Invariant.** Every block that a writer puts is owned by a claim. If the claim is dropped, it
//! deletes the block, unless a plan that references the block was sent. The publisher calls
//! [`StagedBlocks::disarm`] before it sends that plan. If the outcome of the plan stays unknown,
//! the block stays too, and the sweeper deletes it later if no record references it.
//!
//! For example, a PUT of 20 MiB with blocks of 8 MiB puts three blocks. If the client disconnects
//! after 18 MiB, the writer is dropped, and a background task deletes the blocks that were put.
//!
//! The crate does not know names, records or commits.

mod budget;
mod claim;
mod deadlines;
mod ids;
mod keys;
mod known;
mod late;
mod md5;
mod object_cipher;
mod packer;
mod placement;
mod pressure;
mod put;
mod staged;
mod staged_inline;
mod staging;
mod stream;
mod traffic;
mod writer;

pub use budget::{ByteBudget, MemoryHolder, Permit, ReleaseMemory, SHARE_PARTS, Share};
pub use claim::BlockClaim;
pub use deadlines::Deadlines;
pub use ids::BlockIds;
pub use keys::ContentKeys;
pub use known::read_from_memory;
pub use late::{DELETE_RETRY_DELAYS, LATE_BLOCKS_MAX, LateBlocks};
pub use md5::Hashing;
pub use packer::{Packer, Packing, REMEMBERED_BYTES_MAX, RING_PACKERS_MAX};
pub use placement::{
    CONCURRENCY_MEMORY, Conditions, Placement, PlacementPolicy, STAGED_INLINE_BODY_BYTES_MAX,
    SizeAndLoad,
};
pub use publication::{ContentError, Overloaded, Pin, Pins, StagedBlocks};
pub use staged::StagedContent;
pub use staged_inline::{
    DESTAGE_DELAY, Reservation, STAGED_INLINE_BYTES_DEFAULT, StagedBody, StagedInline,
};
pub use staging::Staging;
pub use stream::{
    ARRIVAL_MEMORY_BYTES, ContentStream, OPEN_AHEAD_BYTES, READ_AHEAD_BYTES_MAX, RUN_BYTES_MAX,
    RUN_BYTES_MIN, Reading, RecordSlices, SliceSource,
};
pub use traffic::Traffic;
pub use writer::{
    ContentWriter, GROWTH_TIMEOUT, Md5Wanted, PERMIT_STEP_BYTES, SHORT_BLOCK_BYTES_MIN,
    UPLOAD_BLOCKS_IN_FLIGHT, Writers,
};
