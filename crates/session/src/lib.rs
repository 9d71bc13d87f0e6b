//! What speaks to the metadata store for a process that has a volume open.
//!
//! A [`Session`] runs operations of the namespace against the store: it reads, remembers, commits
//! plans together with others, and finds out what became of a plan whose answer was lost. It shows
//! others that it lives, ends those that fell silent, and stops acknowledging when it was ended itself.
//! What it remembers is told from what others may have changed; whether a reader may still see a
//! block is known by epochs and holds.
//!
//! Nothing here knows what the bytes of files are, or which view asks.

mod commit;
mod epoch;
mod error;
mod feed;
mod gather;
mod holding;
mod holds;
mod inos;
mod lanes;
mod meters;
mod opening;
mod options;
mod peers;
mod records;
mod run;
pub mod scan;
mod session;
mod state;
mod throttle;

pub use commit::{COMMIT_DEADLINE, Outcome, QUEUE_PLANS_MAX};
pub use epoch::{Epochs, ReaderGuard};
pub use error::{VolumeError, closing, corrupt};
pub use feed::FEED_INTERVAL;
pub use gather::META_READ_DEADLINE;
pub use holds::{HOLD_AFTER, Holds, ReadPin};
pub use inos::{INOS_PER_OPERATION_MAX, Inos, LEASE_INOS};
pub use lanes::LANES_MAX;
pub use meters::{Meters, Trips, measured};
pub use options::{BEAT_INTERVAL, SESSION_SILENCE, SessionOptions};
pub use peers::{AUTHORITY_LASTS, JOIN_PATIENCE, Visit, visit};
pub use records::{CURRENT_VALUE_BYTES_MAX, HINT_VALUE_BYTES_MAX, RECORD_CACHE_BYTES_DEFAULT};
pub use session::{CLOSE_PATIENCE, Session};
pub use state::{Seen, check_known, entries, named_session, others, tally, value};
pub use throttle::{Pace, REST_FACTOR, REST_MAX, Step, Throttle};
