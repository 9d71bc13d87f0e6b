//! The byte path of a volume: bodies become blocks, and blocks become bodies.
//!
//! A [`ContentWriter`] cuts a body into blocks that upload while it still arrives, and ends in a
//! [`StagedContent`]: bytes that are durable and that no record names yet. A [`ContentStream`]
//! reads the bytes of a content map back, each of them verified. What either holds in memory is
//! taken from a [`ByteBudget`] first.
//!
//! Nothing here knows names, records or commits. Whoever publishes a staged content says so, by
//! [`StagedContent::disarm`] before the plan is sent; whatever is dropped without that is deleted.

mod budget;
mod claim;
mod deadlines;
mod error;
mod ids;
mod known;
mod late;
mod md5;
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

pub use budget::{ByteBudget, MemoryHolder, Overloaded, Permit, ReleaseMemory, SHARE_PARTS, Share};
pub use claim::StagedBlocks;
pub use deadlines::Deadlines;
pub use error::ContentError;
pub use ids::BlockIds;
pub use known::read_from_memory;
pub use late::{DELETE_RETRY_DELAYS, LATE_BLOCKS_MAX, LateBlocks};
pub use md5::Hashing;
pub use packer::{Packer, Packing, REMEMBERED_BYTES_MAX};
pub use placement::{
    CONCURRENCY_MEMORY, Conditions, Placement, PlacementPolicy, STAGED_INLINE_BODY_BYTES_MAX,
    SizeAndLoad,
};
pub use staged::StagedContent;
pub use staged_inline::{
    DESTAGE_DELAY, Reservation, STAGED_INLINE_BYTES_DEFAULT, StagedBody, StagedInline,
};
pub use staging::{Pin, Pins, Staging};
pub use stream::{
    ARRIVAL_MEMORY_BYTES, ContentStream, OPEN_AHEAD_BYTES, READ_AHEAD_BYTES_MAX, RUN_BYTES_MAX,
    RUN_BYTES_MIN, Reading, RecordSlices, SliceSource,
};
pub use traffic::Traffic;
pub use writer::{
    ContentWriter, GROWTH_TIMEOUT, Md5Wanted, PERMIT_STEP_BYTES, SHORT_BLOCK_BYTES_MIN,
    UPLOAD_BLOCKS_IN_FLIGHT, Writers,
};
