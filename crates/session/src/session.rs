//! The session: one process that has opened one volume, with its connection to the metadata store.

use std::sync::{Arc, Mutex, PoisonError};

use keyring::RingKeys;
use ledger::Note;
use record::{Ino, Nonce, Timestamp, VolumeRecord};
use runtime::{Clock, Metered, Metric, Tasks};
use store::{Limits, MetaStore, Plan};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, warn};

use crate::coalesce::ReadCoalescer;
use crate::commit::{CommittedFor, Committer, Outcome};
use crate::contention::reservations::Reservations;
use crate::contention::turn;
use crate::epoch::{Epochs, ReaderGuard};
use crate::error::VolumeError;
use crate::holds::{Holds, ReadPin};
use crate::inode_allocator::InodeAllocator;
use crate::leases::{Leases, ReadsFrom};
use crate::lock_notices::LockNotices;
use crate::meters::{Meters, current_charge, with_charge};
use crate::random_bits::RandomBits;
use crate::records::RecordCache;
use crate::state::{self, Heartbeat, ObservedSession, SessionState};
use crate::throttle::Throttle;
use crate::times::{CLOSE_PATIENCE, META_READ_DEADLINE};
use crate::watch::Watches;

/// A session of this process with a volume's metadata.
///
/// Dropping it without [`Session::close`] has the effect of a killed process: acknowledged changes
/// stay committed, and another session ends this one after [`crate::SESSION_SILENCE`] and cleans
/// up.
#[derive(Debug)]
pub struct Session {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random_bits: RandomBits,
    pub(crate) record: VolumeRecord,
    pub(crate) state: Arc<SessionState>,
    pub(crate) committer: Committer,
    /// The queue of operations that contend for the same records, each with the records that it has
    /// reserved.
    pub(crate) reservations: Arc<Reservations>,
    pub(crate) coalescer: ReadCoalescer,
    pub(crate) records: Arc<RecordCache>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) inode_allocator: Arc<InodeAllocator>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) holds: Arc<Holds>,
    /// Pins the epoch in which this process began or resumed the session, so that files that were
    /// open in the previous process are not deleted. Held until [`Session::end_inheritance`];
    /// `None` for a session without a ledger.
    pub(crate) inherited: Mutex<Option<ReaderGuard>>,
    pub(crate) is_resumed: bool,
    pub(crate) throttle: Throttle,
    pub(crate) watches: Arc<Watches>,
    pub(crate) tasks: Tasks,
    /// The ring keys, which give the cause if a record cannot be decrypted.
    pub(crate) keys: Arc<dyn RingKeys>,
    pub(crate) meters: Arc<Meters>,
    /// Notified when a file lost its last name, so that the reaper has work.
    pub(crate) orphaned: Arc<Notify>,
    /// Notified when another session has begun or ended.
    pub(crate) sessions: Arc<Notify>,
    pub(crate) lock_notices: Arc<LockNotices>,
    /// A version number that grows when accounts, users or policies may have changed.
    pub(crate) access: watch::Sender<u64>,
    /// Cancelled when the session begins to close. Background tasks stop then, and running
    /// operations finish.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the session is over. Tasks that resolve unknown outcomes stop then.
    pub(crate) gone: CancellationToken,
    pub(crate) heartbeat: tokio::sync::Mutex<Option<tokio::task::JoinHandle<Heartbeat>>>,
}

impl Session {
    /// Returns a receiver that changes when accounts, users or policies may have changed in the
    /// store. It changes within about [`crate::FEED_INTERVAL`], also for changes of other
    /// processes.
    pub fn access_changes(&self) -> watch::Receiver<u64> {
        self.access.subscribe()
    }

    /// Returns when this session is fenced: another process has ended it, or the store has lost its
    /// records. No request is served after that; only a new process can serve again. Otherwise it
    /// never returns, also after [`Session::close`].
    pub async fn lost(&self) {
        self.state.ended.cancelled().await;
        if !self.is_fenced() {
            std::future::pending::<()>().await;
        }
    }

    /// Finishes running operations, with waits of at most [`CLOSE_PATIENCE`], and ends the session.
    /// Later operations fail. The stores stay open; the caller closes them.
    pub async fn close(&self) {
        let Some(settled) = self.finish().await else { return };
        // If the heartbeat task did not end, its beat may still be written after the session's
        // records were deleted. Then the records stay, and another session ends this one when it
        // falls silent.
        if settled && !self.is_fenced() {
            let ending = state::end(&*self.store, &self.state, self.committer.slots());
            match tokio::time::timeout(META_READ_DEADLINE, ending).await {
                Ok(Ok(())) => info!(session = %self.state.nonce, "session closed"),
                Ok(Err(error)) => warn!(%error, "cannot end the session in the store"),
                Err(_late) => warn!("cannot end the session in the store in time"),
            }
        }
        self.state.ended.cancel();
        self.gone.cancel();
    }

    /// Finishes running operations, with waits of at most [`CLOSE_PATIENCE`], and keeps the
    /// session's records in the store, so that the next process can resume the session. For a mount
    /// whose process is replaced.
    pub async fn hand_over(&self) {
        let Some(_settled) = self.finish().await else { return };
        info!(session = %self.state.nonce, "session handed over to the next process");
        self.state.ended.cancel();
        self.gone.cancel();
    }

    /// Finishes running operations. Returns true if the heartbeat task (the session's sign of life)
    /// has ended in time, false if it has not, and `None` if the session was closed before.
    async fn finish(&self) -> Option<bool> {
        let heartbeat = self.heartbeat.lock().await.take()?;
        self.closing.cancel();
        let heartbeat = tokio::time::timeout(CLOSE_PATIENCE, heartbeat).await;
        let running = self.tasks.close_and_wait(CLOSE_PATIENCE).await;
        if running > 0 {
            warn!(running, "closing the session while tasks are still running");
        }
        // The listener has stopped, so the session does not learn of new peers. From now on no read
        // may be answered from the cache.
        self.leases.close();
        Some(matches!(heartbeat, Ok(Ok(_))))
    }

    /// Stops all tasks at once, without ending the session in the store, as if the process had been
    /// killed.
    pub fn abandon(&self) {
        self.closing.cancel();
        self.state.ended.cancel();
        self.gone.cancel();
    }

    /// Returns the current time of the session's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns a time, by the session's clock, that has certainly passed on every machine: see
    /// [`runtime::Clock::passed`].
    pub fn passed(&self) -> Timestamp {
        self.clock.passed()
    }

    /// Returns the volume's record, as read when the session began.
    pub fn volume(&self) -> &VolumeRecord {
        &self.record
    }

    /// Returns the random name of the session.
    pub fn nonce(&self) -> Nonce {
        self.state.nonce
    }

    /// Returns the metadata store, behind the record cache.
    pub fn store(&self) -> &Arc<dyn MetaStore> {
        &self.store
    }

    /// Returns the store's limits for one call.
    pub fn limits(&self) -> Limits {
        self.store.limits()
    }

    /// Returns the tasks of the session. A task runs to its end, also if the caller that started it
    /// is dropped.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Returns the epochs that readers of this process pin, so that the blocks that they may have
    /// found are not deleted.
    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    /// Returns the long readers of this process, and the holds: records that each keep the blocks
    /// of one such file.
    pub fn holds(&self) -> &Arc<Holds> {
        &self.holds
    }

    /// Returns a pin on the epoch in which this process began or resumed the session, and `None`
    /// after [`Session::end_inheritance`] or if the session has no ledger. The pin keeps files that
    /// were open in the previous process from being deleted until they are open again.
    pub fn inherited(&self) -> Option<ReaderGuard> {
        self.inherited.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns true if a previous process began this session and this process resumed it.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Releases the epoch and all holds (records that keep files' blocks) that this process took
    /// over from the previous one and that no reader uses. The caller has opened all files again
    /// that were open in the previous process.
    pub fn end_inheritance(&self) {
        let inherited = self.inherited.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.holds.end_inheritance();
        drop(inherited);
    }

    /// Lets a reader of a file that was open in the previous process rely on the hold that this
    /// process wrote (a record that keeps the file's blocks) instead of its pinned epoch. Does
    /// nothing if there is no such hold.
    pub fn rely_on_hold(&self, pin: &ReadPin) {
        self.holds.rely_on_hold(pin);
    }

    /// Returns the throttle, which pauses background work while requests are served.
    pub fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// Returns the allocator of inode numbers.
    pub fn inode_allocator(&self) -> &Arc<InodeAllocator> {
        &self.inode_allocator
    }

    /// Returns the session's counters of operations, round trips and plans.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Returns a token that is cancelled when the session closes. Background tasks end then.
    pub fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Returns true if the session has ended: closed, handed over or abandoned by this process, or
    /// fenced.
    pub fn has_ended(&self) -> bool {
        self.state.ended.is_cancelled()
    }

    /// Returns true if the session is fenced: another process has ended it, or the store has lost
    /// its records. No change is acknowledged any more.
    pub fn is_fenced(&self) -> bool {
        self.state.is_fenced()
    }

    /// Ends another session if its heartbeat is still the one in `seen`. Returns true if this call
    /// has ended the session, and false if the plan was refused, for example by a newer heartbeat.
    /// Fails if the store fails; then the session may have been ended.
    pub async fn fence(&self, seen: &ObservedSession) -> Result<bool, VolumeError> {
        Ok(state::fence(&*self.store, &self.state, seen).await?)
    }

    /// Returns the `Notify` that is notified when another session has begun or ended. A session
    /// that ended may have left blocks and records to clean up.
    pub fn session_changes(&self) -> &Arc<Notify> {
        &self.sessions
    }

    /// Returns the registry of tasks that wait for changes of file locks.
    pub fn lock_notices(&self) -> &Arc<LockNotices> {
        &self.lock_notices
    }

    /// Returns the `Notify` that is notified when a file lost its last name. The reaper waits on
    /// it.
    pub fn orphaned(&self) -> &Arc<Notify> {
        &self.orphaned
    }

    /// Wakes the reaper, because a file lost its last name.
    pub fn wake_reaper(&self) {
        self.orphaned.notify_one();
    }

    /// Begins a read: pins the current epoch. Blocks that are named by records read after this call
    /// are not deleted until the guard is dropped.
    pub fn reading(&self) -> ReaderGuard {
        self.epochs.pin()
    }

    /// Commits a plan of background work, with a pin on the current epoch, so that blocks which it
    /// found are not deleted: see [`Session::commit_reading`].
    pub async fn commit_plan(&self, plan: Plan) -> Outcome {
        self.commit_reading(plan, self.reading()).await
    }

    /// Commits a plan, in a batch with other waiting plans. The epoch that `reading` pins stays
    /// pinned until the outcome of the plan is certain, so no block that its reader found is
    /// deleted.
    ///
    /// Once the plan is in the queue it is committed even if the returned future is dropped.
    pub async fn commit_reading(&self, plan: Plan, reading: ReaderGuard) -> Outcome {
        let upkeep = CommittedFor::Upkeep;
        self.committer.commit(plan, reading, None, upkeep, Note::none()).await.outcome
    }

    /// Runs `future` in a task of the session, so that it completes even if the caller is dropped.
    /// Returns the future's result. Fails with [`VolumeError::Unknown`] if the task was cancelled.
    /// A panic of the future continues in the caller.
    pub async fn run_to_completion<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Result<T, VolumeError> {
        let future = turn::in_place(future, turn::place());
        let future = with_charge(future, current_charge()).in_current_span();
        match self.tasks.spawn(name, future).await {
            Ok(result) => result,
            Err(lost) => match lost.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(lost) => Err(VolumeError::Unknown(format!("it was not carried out: {lost}"))),
            },
        }
    }

    /// Returns `n` inode numbers that were never used. Usually costs no round trip, because numbers
    /// are leased in chunks.
    ///
    /// # Errors
    /// [`VolumeError::Unavailable`] if `n` is more than [`crate::INODES_PER_OPERATION_MAX`], and
    /// otherwise the errors of the lease: the store's errors, `Fenced`, `Corrupt`, or
    /// [`FsError::Contended`](namespace::FsError::Contended) if other sessions take each chunk
    /// first.
    pub async fn allocate_inodes(&self, n: usize) -> Result<Vec<Ino>, VolumeError> {
        self.inode_allocator.allocate(n).await
    }
}

impl Metered for Session {
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric)) {
        self.meters().visit_metrics(visit);
        let name = "ashlar_reaper_held_files";
        let help = "Files whose deletion waits for long reads.";
        let files = u64::try_from(self.holds().count()).unwrap_or(u64::MAX);
        visit(Metric::gauge(name, help, files));
        let name = "ashlar_reaper_oldest_pin_seconds";
        let help =
            "Age of the oldest read that delays all deletions of the volume, 0 if none does.";
        let oldest = self.epochs().oldest_pin().unwrap_or_default();
        visit(Metric::gauge(name, help, oldest.as_secs()));
        let name = "ashlar_session_reads_from";
        let help = "1 for the place from which reads of known records are answered, or the reason \
                    why the store is asked; 0 for the others.";
        let now = self.reads_from();
        for label in ReadsFrom::LABELS {
            let is_now = u64::from(now.label() == label);
            visit(Metric::gauge(name, help, is_now).with_label("from", label));
        }
        let name = "ashlar_session_leases_given";
        let help = "Sessions that hold a lease of this one.";
        let given = u64::try_from(self.leases.lessees()).unwrap_or(u64::MAX);
        visit(Metric::gauge(name, help, given));
        let name = "ashlar_session_notices_total";
        let help = "Notices of changes that were sent to sessions that hold a lease of this one.";
        visit(Metric::counter(name, help, self.leases.notices_sent()));
        let name = "ashlar_volume_task_panics_total";
        let help = "Background tasks that ended in a panic.";
        visit(Metric::counter(name, help, self.tasks().panics()));
    }
}
