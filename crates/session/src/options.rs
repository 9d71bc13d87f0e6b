//! Options of a session.

use std::sync::Arc;
use std::time::Duration;

use keyring::{FixedRing, RingKeys};
use ledger::Ledger;
use record::SessionFacts;
use runtime::{Clock, SystemClock};

use crate::records::RECORD_CACHE_BYTES_DEFAULT;
use crate::times::{HEARTBEAT_INTERVAL, JOIN_PATIENCE, SESSION_SILENCE};

/// Options of a session.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct SessionOptions {
    /// Bytes of the record cache, keys and overhead included. 0 turns the cache off.
    pub record_cache_bytes: u64,
    /// If true, reads are answered from the record cache while this session is the only one of its
    /// volume. If false, every read asks the store.
    pub authoritative_reads: bool,
    /// Time that a new session waits before its first change if there are other sessions. It may be
    /// less than [`JOIN_PATIENCE`] only if none of the other sessions uses authoritative reads,
    /// that is, answers reads from its cache while it is alone.
    pub join_patience: Duration,
    /// True if no other process serves the volume, for example because the limits of the store say
    /// so. Other session records then come from processes that are gone, and are ended at once.
    pub sole: bool,
    /// Host and process of the session, shown to operators.
    pub place: String,
    /// Facts about the process, shown to operators.
    pub facts: SessionFacts,
    /// Interval between two heartbeats.
    pub heartbeat_interval: Duration,
    /// Time without a heartbeat after which this session ends another one.
    pub session_silence: Duration,
    /// If true, a volume is created when the store has none. If false, opening fails with
    /// `Refused`.
    pub creates_volume: bool,
    /// If true, a block location without the volume's mark is accepted although the volume was
    /// marked before, and is marked again. For example, an operator sets this after the blocks were
    /// restored without the mark. A location with the mark of another volume is refused in any
    /// case.
    pub adopts_blocks: bool,
    /// The clock of the session.
    pub clock: Arc<dyn Clock>,
    /// The ring keys. If a record is encrypted under a key that is not available, they give the
    /// cause.
    pub keys: Arc<dyn RingKeys>,
    /// The ledger: a file in memory that outlives this process, for a process (of a mount) that
    /// will be replaced by another one. If it names a session that still exists, this process
    /// resumes that session. `None` for a session that ends with its process.
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
            facts: SessionFacts::default(),
            heartbeat_interval: HEARTBEAT_INTERVAL,
            session_silence: SESSION_SILENCE,
            creates_volume: true,
            adopts_blocks: false,
            clock: Arc::new(SystemClock::new()),
            keys: Arc::new(FixedRing::default()),
            ledger: None,
        }
    }
}
