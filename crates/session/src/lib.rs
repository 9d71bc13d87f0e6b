//! The session of one process with the metadata store of one volume. A [`Session`] runs operations
//! of the namespace against the store. Its parts, each in a module of its own:
//!
//! - The driver (`run`) plans an operation, reads what the plan needs, commits it, and plans again
//!   if a guard refuses it.
//! - The record cache (`records`) keeps records that were read or written. Each entry is *current*
//!   or a *hint*. Reads are answered from current entries; hints only save round trips, because the
//!   guards of a commit check them.
//! - `peers` finds out if other sessions exist. A session without peers is *authoritative*: only
//!   then can entries be current.
//! - The committer (`commit`) sends plans in batches. Idempotency slots (`slots`) prove the outcome
//!   of a plan whose answer was lost.
//! - The listener (`feed`) reads the store's change feed and drops the entries that other gateways
//!   changed.
//! - The heartbeat (`state`) shows other sessions that this one lives, and ends sessions that fell
//!   silent. A session that another process has ended is *fenced*: it acknowledges nothing any
//!   more.
//! - Epochs and holds (`epoch`, `holds`) keep blocks that a reader may still read from being
//!   deleted.
//!
//! For example, a PUT on a volume with one gateway: the driver takes the directories from current
//! entries without a read, the committer sends the plan with the plans of other PUTs in one round
//! trip, and the new records become current entries.
//!
//! The crate does not know the bytes of files, and it does not know which view (S3 or mount) calls
//! it.

mod backoff;
mod cached_store;
mod coalesce;
mod commit;
mod connecting;
mod contention;
mod epoch;
mod error;
mod feed;
mod holding;
mod holds;
mod inode_allocator;
mod leases;
mod lock_notices;
mod meters;
mod opening;
mod options;
mod peers;
mod planning;
mod random_bits;
mod records;
mod run;
pub mod scan;
mod session;
mod short;
mod slots;
#[cfg(test)]
mod slow_store;
mod state;
mod throttle;
mod times;
mod tries;
mod watch;
mod watching;

pub use commit::{Outcome, QUEUE_PLANS_MAX};
pub use epoch::{Epochs, ReaderGuard};
pub use error::{VolumeError, closing, corrupt};
pub use holds::{Holds, ReadPin};
pub use inode_allocator::{INODES_LEASED, INODES_PER_OPERATION_MAX, InodeAllocator};
pub use leases::{ReadsFrom, WhyAsks};
pub use lock_notices::{LockNotices, LockWatch};
pub use meters::{Meters, RoundTrips, count_round_trips};
pub use options::SessionOptions;
pub use peering::PeeringOptions;
pub use planning::dry_run;
pub use records::{CURRENT_VALUE_BYTES_MAX, HINT_VALUE_BYTES_MAX, RECORD_CACHE_BYTES_DEFAULT};
pub use session::Session;
pub use short::ShortSession;
pub use slots::SLOTS_MAX;
pub use state::{
    ObservedSession, check_block_owner, check_volume_format, counter, entries, is_mark,
    other_sessions, session_in_key, value,
};
pub use throttle::{PAUSE_FACTOR, PAUSE_MAX, Priority, Throttle, ThrottledStep};
pub use times::{
    AUTHORITY_DURATION, CLOSE_PATIENCE, COMMIT_DEADLINE, CONTENTION_DEADLINE, FEED_INTERVAL,
    HEARTBEAT_INTERVAL, HOLD_AFTER, JOIN_PATIENCE, LEASE_INTERVAL, LEASE_PROMISE,
    META_READ_DEADLINE, PUSHED_CACHE_DURATION, SESSION_SILENCE, SHORT_CONTENTION_DEADLINE,
    TURN_DURATION,
};
pub use tries::Tries;
pub use watch::{Acknowledge, CacheValidity, Coherence, NodeChanges, NodeWatch};
