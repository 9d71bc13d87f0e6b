//! A session: one process with one volume open, as far as its metadata goes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ledger::Note;
use record::{Ino, Nonce, Timestamp, VolumeRecord};
use runtime::{Clock, Tasks};
use store::{Limits, MetaStore, Plan};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, warn};

use crate::coalesce::{META_READ_DEADLINE, ReadCoalescer};
use crate::commit::{CommittedFor, Committer, Outcome};
use crate::contention::Reservations;
use crate::epoch::{Epochs, ReaderGuard};
use crate::error::VolumeError;
use crate::holds::{Holds, ReadPin};
use crate::inode_allocator::InodeAllocator;
use crate::lock_notices::LockNotices;
use crate::meters::{Meters, current_charge, with_charge};
use crate::random_bits::RandomBits;
use crate::records::RecordCache;
use crate::state::{self, Heartbeat, ObservedSession, SessionState};
use crate::throttle::Throttle;
use crate::watch::Watches;

/// How long [`Session::close`] waits for what is under way.
pub const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// A volume's metadata, opened by this process.
///
/// Abandoned without [`Session::close`], it is as if the process had been killed: what was
/// acknowledged stands, and the next session clears up.
#[derive(Debug)]
pub struct Session {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random_bits: RandomBits,
    pub(crate) record: VolumeRecord,
    pub(crate) state: Arc<SessionState>,
    pub(crate) committer: Committer,
    /// The line of operations that contend for records.
    pub(crate) reservations: Arc<Reservations>,
    pub(crate) coalescer: ReadCoalescer,
    pub(crate) records: Arc<RecordCache>,
    pub(crate) inode_allocator: Arc<InodeAllocator>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) holds: Arc<Holds>,
    /// Pins the epoch that the session was in when it was gone on with.
    pub(crate) inherited: Mutex<Option<ReaderGuard>>,
    pub(crate) is_resumed: bool,
    pub(crate) throttle: Throttle,
    pub(crate) watches: Arc<Watches>,
    pub(crate) tasks: Tasks,
    pub(crate) meters: Arc<Meters>,
    /// Notified when something lost its name.
    pub(crate) orphaned: Arc<Notify>,
    /// Notified when another session has begun or ended.
    pub(crate) sessions: Arc<Notify>,
    pub(crate) lock_notices: Arc<LockNotices>,
    /// Notified when users or policies may have changed.
    pub(crate) access: watch::Sender<u64>,
    /// Cancelled when the session closes.
    pub(crate) closing: CancellationToken,
    /// Cancelled when nothing may go on any more.
    pub(crate) gone: CancellationToken,
    pub(crate) heartbeat: tokio::sync::Mutex<Option<tokio::task::JoinHandle<Heartbeat>>>,
}

impl Session {
    /// Is notified, within about [`crate::FEED_INTERVAL`], when users or policies may have changed,
    /// whoever changed them.
    pub fn access_changes(&self) -> watch::Receiver<u64> {
        self.access.subscribe()
    }

    /// Waits until another process has ended this session, or the store has lost it: nothing is
    /// served any more then, and only a new process can. Does not return before.
    pub async fn lost(&self) {
        self.state.ended.cancelled().await;
        if !self.is_fenced() {
            std::future::pending::<()>().await;
        }
    }

    /// Finishes what is under way, for [`CLOSE_PATIENCE`] at most, and ends the session: nothing
    /// that comes later is served. The stores stay open; they are the caller's.
    pub async fn close(&self) {
        let Some(settled) = self.finish().await else { return };
        // A heartbeat that is stuck may still be written: then the session is left for others to end.
        if settled && !self.is_fenced() {
            let ending = state::end(&*self.store, &self.state, self.committer.slots());
            match tokio::time::timeout(META_READ_DEADLINE, ending).await {
                Ok(Ok(())) => info!(session = %self.state.nonce, "session closed"),
                Ok(Err(error)) => warn!(%error, "the session could not be closed"),
                Err(_late) => warn!("the session could not be closed in time"),
            }
        }
        self.state.ended.cancel();
        self.gone.cancel();
    }

    /// Finishes what is under way, for [`CLOSE_PATIENCE`] at most, and leaves the session to the
    /// process that is going to go on with it.
    pub async fn hand_over(&self) {
        let Some(_settled) = self.finish().await else { return };
        info!(session = %self.state.nonce, "session left to whoever goes on with it");
        self.state.ended.cancel();
        self.gone.cancel();
    }

    /// Finishes what is under way. Answers whether the heartbeat has ended; none if this was done
    /// before.
    async fn finish(&self) -> Option<bool> {
        let heartbeat = self.heartbeat.lock().await.take()?;
        self.closing.cancel();
        let heartbeat = tokio::time::timeout(CLOSE_PATIENCE, heartbeat).await;
        let running = self.tasks.close_and_wait(CLOSE_PATIENCE).await;
        if running > 0 {
            warn!(running, "closing although tasks are still running");
        }
        // Whoever comes once the session has ended waits for nobody.
        self.records.disable();
        Some(matches!(heartbeat, Ok(Ok(_))))
    }

    /// Stops everything at once, as if the process had been killed.
    pub fn abandon(&self) {
        self.closing.cancel();
        self.state.ended.cancel();
        self.gone.cancel();
    }

    /// The time of day, by the session's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A time that has surely come: see [`runtime::Clock::passed`].
    pub fn passed(&self) -> Timestamp {
        self.clock.passed()
    }

    /// The volume's own record.
    pub fn volume(&self) -> &VolumeRecord {
        &self.record
    }

    /// The session's name.
    pub fn nonce(&self) -> Nonce {
        self.state.nonce
    }

    /// The metadata store, with what is known of it without asking.
    pub fn store(&self) -> &Arc<dyn MetaStore> {
        &self.store
    }

    /// What one call to the store may carry.
    pub fn limits(&self) -> Limits {
        self.store.limits()
    }

    /// What must run to its end, whoever waits for it.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Which epochs this process still reads in.
    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    /// The readers that may last, and what is held for them.
    pub fn holds(&self) -> &Arc<Holds> {
        &self.holds
    }

    /// Pins what was open when this process went on with the session, as long as nobody has said
    /// that all of that is open again.
    pub fn inherited(&self) -> Option<ReaderGuard> {
        self.inherited.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns true if another process began this session. False if it began with this process.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// All that was open is open again: what else was kept is let go of.
    pub fn end_inheritance(&self) {
        let inherited = self.inherited.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.holds.end_inheritance();
        drop(inherited);
    }

    /// Has a reader of what was inherited rest on a hold that stands.
    pub fn rely_on_hold(&self, pin: &ReadPin) {
        self.holds.rely_on_hold(pin);
    }

    /// How background work is throttled.
    pub fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// Where inode numbers come from.
    pub fn inode_allocator(&self) -> &Arc<InodeAllocator> {
        &self.inode_allocator
    }

    /// What it did so far.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Cancelled when the session closes: what works by itself ends then.
    pub fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Whether the session has ended, by itself or from outside.
    pub fn has_ended(&self) -> bool {
        self.state.ended.is_cancelled()
    }

    /// Whether the session was ended from outside: nothing is acknowledged any more.
    pub fn is_fenced(&self) -> bool {
        self.state.is_fenced()
    }

    /// Ends another session as it was seen, if it has shown no life since. Answers whether it is ended
    /// now.
    pub async fn fence(&self, seen: &ObservedSession) -> Result<bool, VolumeError> {
        Ok(state::fence(&*self.store, &self.state, seen).await?)
    }

    /// Notified when another session has begun or ended: it may have left something.
    pub fn session_changes(&self) -> &Arc<Notify> {
        &self.sessions
    }

    /// Who waits for locks of files to change.
    pub fn lock_notices(&self) -> &Arc<LockNotices> {
        &self.lock_notices
    }

    /// Notified when something lost its name.
    pub fn orphaned(&self) -> &Arc<Notify> {
        &self.orphaned
    }

    /// Tells those who delete what is dead that something lost its name.
    pub fn wake_reaper(&self) {
        self.orphaned.notify_one();
    }

    /// Pins the epoch of what is read from here on, until the guard is dropped.
    pub fn reading(&self) -> ReaderGuard {
        self.epochs.pin()
    }

    /// Commits a plan of upkeep, whose reader began now.
    pub async fn commit_plan(&self, plan: Plan) -> Outcome {
        self.commit_reading(plan, self.reading()).await
    }

    /// Commits a plan together with others. `reading` is held until the plan has settled.
    ///
    /// Dropping the returned future takes nothing back once the plan is in the queue.
    pub async fn commit_reading(&self, plan: Plan, reading: ReaderGuard) -> Outcome {
        let upkeep = CommittedFor::Upkeep;
        self.committer.commit(plan, reading, None, upkeep, Note::none()).await.outcome
    }

    /// Runs what must not stop halfway, though whoever waits for it may leave.
    pub async fn run_to_completion<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Result<T, VolumeError> {
        let future = with_charge(future, current_charge()).in_current_span();
        match self.tasks.spawn(name, future).await {
            Ok(result) => result,
            Err(lost) => match lost.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(lost) => Err(VolumeError::Unknown(format!("it was not carried out: {lost}"))),
            },
        }
    }

    /// `n` inode numbers that nobody had before; usually without a round trip.
    pub async fn allocate_inodes(&self, n: usize) -> Result<Vec<Ino>, VolumeError> {
        self.inode_allocator.allocate(n).await
    }
}
