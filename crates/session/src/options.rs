//! How a session is begun.

use std::sync::Arc;
use std::time::Duration;

use ledger::Ledger;
use runtime::{Clock, SystemClock};

use crate::peers::JOIN_PATIENCE;
use crate::records::RECORD_CACHE_BYTES_DEFAULT;

/// How often a session shows that it lives.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);

/// How long a session may be silent before another one ends it.
pub const SESSION_SILENCE: Duration = Duration::from_secs(30);

/// How a session is begun.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "switches that do not depend on each other")]
pub struct SessionOptions {
    /// Bytes of the records that are remembered; with 0 none are.
    pub record_cache_bytes: u64,
    /// Whether reads are answered from what is remembered while this session is the only one of its
    /// volume; if not, every read asks the store.
    pub authoritative_reads: bool,
    /// How long a session that has just begun changes nothing if there are others. Less than
    /// [`JOIN_PATIENCE`] only where none of them is authoritative.
    pub join_patience: Duration,
    /// Whether this is the only process that uses the store: other sessions are then left over
    /// from processes that are gone, and are ended at once.
    pub sole: bool,
    /// Where the session runs, for people: host and process.
    pub place: String,
    /// Batches of plans that may be under way at the same time.
    pub commits_in_flight: usize,
    /// Short reads of metadata that may be under way at the same time; those that are asked for
    /// meanwhile leave together.
    pub reads_in_flight: usize,
    /// How often the session shows that it lives.
    pub heartbeat_interval: Duration,
    /// How long another session may be silent before it is ended.
    pub session_silence: Duration,
    /// Makes a volume if the store has none. If not, opening such a store is refused.
    pub creates_volume: bool,
    /// Accepts a place of blocks that does not bear the volume's mark, and marks it anew, though it
    /// was marked before: the blocks were restored without the mark. A place with the mark of another
    /// volume is refused in any case.
    pub adopts_blocks: bool,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Where it stands what must outlive this process, if another one may follow it: then the
    /// session of the one before is gone on with, if it still counts.
    pub ledger: Option<Arc<Ledger>>,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            record_cache_bytes: RECORD_CACHE_BYTES_DEFAULT,
            authoritative_reads: false,
            join_patience: JOIN_PATIENCE,
            sole: false,
            place: String::new(),
            commits_in_flight: 1,
            reads_in_flight: 1,
            heartbeat_interval: HEARTBEAT_INTERVAL,
            session_silence: SESSION_SILENCE,
            creates_volume: true,
            adopts_blocks: false,
            clock: Arc::new(SystemClock::new()),
            ledger: None,
        }
    }
}
