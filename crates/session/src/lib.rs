//! What speaks to the metadata store for a process that has a volume open.
//!
//! A [`Session`] runs operations of the namespace against the store: it reads, remembers, commits
//! plans together with others, and finds out what became of a plan whose answer was lost. It shows
//! others that it lives, ends those that fell silent, and stops acknowledging when it was ended itself.
//! What it remembers is told from what others may have changed; whether a reader may still see a
//! block is known by epochs and holds.
//!
//! Nothing here knows what the bytes of files are, or which view asks.

mod backoff;
mod coalesce;
mod commit;
mod contention;
mod epoch;
mod error;
mod feed;
mod holding;
mod holds;
mod inode_allocator;
mod lock_notices;
mod meters;
mod opening;
mod options;
mod peers;
mod random_bits;
mod records;
mod run;
pub mod scan;
mod session;
mod slots;
mod state;
mod throttle;
mod watch;
mod watching;

pub use backoff::{Backoff, CONTENTION_DEADLINE};
pub use coalesce::META_READ_DEADLINE;
pub use commit::{COMMIT_DEADLINE, Outcome, QUEUE_PLANS_MAX};
pub use epoch::{Epochs, ReaderGuard};
pub use error::{VolumeError, closing, corrupt};
pub use feed::FEED_INTERVAL;
pub use holds::{HOLD_AFTER, Holds, ReadPin};
pub use inode_allocator::{INODES_LEASED, INODES_PER_OPERATION_MAX, InodeAllocator};
pub use lock_notices::{LockNotices, LockWatch};
pub use meters::{Meters, RoundTrips, count_round_trips};
pub use options::{HEARTBEAT_INTERVAL, SESSION_SILENCE, SessionOptions};
pub use peers::{AUTHORITY_DURATION, JOIN_PATIENCE, ShortSession, begin_short_session};
pub use records::{CURRENT_VALUE_BYTES_MAX, HINT_VALUE_BYTES_MAX, RECORD_CACHE_BYTES_DEFAULT};
pub use session::{CLOSE_PATIENCE, Session};
pub use slots::SLOTS_MAX;
pub use state::{
    ObservedSession, check_block_owner, check_volume_format, counter, entries, other_sessions,
    session_in_key, value,
};
pub use throttle::{PAUSE_FACTOR, PAUSE_MAX, Priority, Throttle, ThrottledStep};
pub use watch::{CacheValidity, Coherence, NodeChanges, NodeWatch, PUSHED_CACHE_DURATION};
