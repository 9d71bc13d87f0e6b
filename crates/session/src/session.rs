//! A session: one process with one volume open, as far as its metadata goes.

use std::sync::Arc;
use std::time::Duration;

use block::{BLOCK_BYTES_DEFAULT, BlockStore};
use record::{Ino, Nonce, Timestamp, VolumeRecord};
use runtime::{Clock, SystemClock, Tasks};
use store::{Limits, MetaStore, Plan};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, warn};

use crate::VolumeError;
use crate::commit::{Committer, Desk, Outcome};
use crate::company::{self, Company, JOIN_PATIENCE};
use crate::epoch::{Epochs, ReaderGuard};
use crate::feed::Listener;
use crate::gather::Gatherer;
use crate::hints::{HINT_BYTES_DEFAULT, HintMemory};
use crate::holds::{self, Holds};
use crate::inos::Inos;
use crate::lanes::Lanes;
use crate::meters::{Meters, charge, charged};
use crate::mirror::{Mirror, Mirrored};
use crate::state::{self, BEAT_INTERVAL, Heart, SESSION_SILENCE, Seen, Started, State};

/// How long an operation waits for one read of metadata.
pub const META_READ_DEADLINE: Duration = Duration::from_secs(10);

/// How long [`Session::close`] waits for what is under way.
pub const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// How a session is begun.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Content bytes of a full block; counts when the volume is made, and never after.
    pub block_bytes: u32,
    /// Bytes of remembered records.
    pub hint_bytes: u64,
    /// Bytes of the records that are kept while this session is alone with its volume, so that
    /// they need not be read; with 0 every read asks the store.
    pub mirror_bytes: u64,
    /// How long a session that has just begun changes nothing if there are others. Less than
    /// [`JOIN_PATIENCE`] only where none of them keeps a mirror.
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
    pub beat_interval: Duration,
    /// How long another session may be silent before it is ended.
    pub session_silence: Duration,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            block_bytes: BLOCK_BYTES_DEFAULT,
            hint_bytes: HINT_BYTES_DEFAULT,
            mirror_bytes: 0,
            join_patience: JOIN_PATIENCE,
            sole: false,
            place: String::new(),
            commits_in_flight: 1,
            reads_in_flight: 1,
            beat_interval: BEAT_INTERVAL,
            session_silence: SESSION_SILENCE,
            clock: Arc::new(SystemClock),
        }
    }
}

/// A volume's metadata, opened by this process.
///
/// Abandoned without [`Session::close`], it is as if the process had been killed: what was
/// acknowledged stands, and the next session clears up.
#[derive(Debug)]
pub struct Session {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) record: VolumeRecord,
    pub(crate) state: Arc<State>,
    pub(crate) committer: Committer,
    pub(crate) gatherer: Gatherer,
    pub(crate) hints: Arc<HintMemory>,
    pub(crate) mirror: Arc<Mirror>,
    pub(crate) inos: Arc<Inos>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) holds: Arc<Holds>,
    pub(crate) tasks: Tasks,
    pub(crate) meters: Arc<Meters>,
    /// Told when something lost its name.
    orphaned: Arc<Notify>,
    /// Told when another session has begun or ended.
    sessions: Arc<Notify>,
    /// Told when users or policies may have changed.
    access: watch::Sender<u64>,
    /// Cancelled when the session closes.
    pub(crate) closing: CancellationToken,
    /// Cancelled when nothing may go on any more.
    gone: CancellationToken,
    heart: tokio::sync::Mutex<Option<tokio::task::JoinHandle<Heart>>>,
}

impl Session {
    /// Opens the volume in `store`, or makes one if there is none, and begins a session. The blocks
    /// are asked whose they are, and marked.
    ///
    /// # Errors
    /// With a sentence for the operator, if a store cannot be reached or read, if a newer release
    /// made the volume, or if the blocks are another volume's; then nothing was changed.
    pub async fn open(
        options: SessionOptions,
        store: Arc<dyn MetaStore>,
        blocks: &dyn BlockStore,
    ) -> Result<Arc<Session>, VolumeError> {
        let now = options.clock.now();
        let (bytes, place) = (options.block_bytes, &options.place);
        let started = state::start(&*store, blocks, bytes, place, now).await?;
        if !options.sole {
            company::join(&*store, started.nonce, options.join_patience).await?;
        }
        let position = Listener::begin(&*store).await?;
        let (mut session, heart) = Session::assemble(&options, store, started);
        if options.sole {
            heart.end_others().await?;
        }
        let heart = session.tasks.spawn("heartbeat", heart.run(session.closing.clone()));
        *session.heart.get_mut() = Some(heart);
        let listening = session.listener(position).run(session.closing.clone());
        drop(session.tasks.spawn("listener", listening));
        let session = Arc::new(session);
        let holding = holds::hold_always(Arc::downgrade(&session));
        drop(session.tasks.spawn("holds", holding));
        Ok(session)
    }

    /// Puts together what serves a session that has begun, and its heart, which does not beat yet.
    fn assemble(
        options: &SessionOptions,
        store: Arc<dyn MetaStore>,
        started: Started,
    ) -> (Session, Heart) {
        let (state, epochs) = (Arc::new(State::new(started.nonce)), Epochs::new(started.epoch));
        let (tasks, meters) = (Tasks::new(), Arc::<Meters>::default());
        let mirror = Mirror::new(options.mirror_bytes);
        let hints = Arc::new(HintMemory::new(options.hint_bytes, &mirror));
        let store: Arc<dyn MetaStore> = Arc::new(Mirrored::new(store, Arc::clone(&mirror)));
        let [closing, gone] = std::array::from_fn(|_| CancellationToken::new());
        let desk = Desk {
            store: Arc::clone(&store),
            limits: store.limits(),
            state: Arc::clone(&state),
            lanes: Lanes::new(started.nonce),
            hints: Arc::clone(&hints),
            own: Arc::default(),
            meters: Arc::clone(&meters),
            tasks: tasks.clone(),
            closing: closing.clone(),
            gone: gone.clone(),
        };
        let committer = Committer::new(desk, options.commits_in_flight);
        let gatherer = Gatherer::new(&store, &meters, &tasks, options.reads_in_flight);
        let inos = Inos::new(started.nonce, &committer, &epochs, &store, tasks.clone());
        let heart = Heart::new(&store, &state, &epochs, options, started.beat);
        let session = Session {
            store,
            clock: Arc::clone(&options.clock),
            record: started.volume,
            state,
            committer,
            gatherer,
            hints,
            mirror,
            inos,
            epochs,
            holds: Arc::default(),
            tasks,
            meters,
            orphaned: Arc::default(),
            sessions: Arc::clone(&heart.fenced),
            access: watch::Sender::new(0),
            closing,
            gone,
            heart: tokio::sync::Mutex::default(),
        };
        (session, heart)
    }

    /// What listens to other gateways from a position on, and tells of sessions that begin or end.
    fn listener(&self, position: store::Position) -> Listener {
        Listener {
            store: Arc::clone(&self.store),
            hints: Arc::clone(&self.hints),
            mirror: Arc::clone(&self.mirror),
            company: Company::new(self.state.nonce, &self.mirror),
            own: self.committer.own_writes(),
            meters: Arc::clone(&self.meters),
            access: self.access.clone(),
            sessions: Arc::clone(&self.sessions),
            position,
        }
    }

    /// Is told, within about [`crate::FEED_INTERVAL`], when users or policies may have changed,
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
        let heart = self.heart.lock().await.take();
        let Some(heart) = heart else { return };
        self.closing.cancel();
        let heart = tokio::time::timeout(CLOSE_PATIENCE, heart).await;
        let running = self.tasks.close_and_wait(CLOSE_PATIENCE).await;
        if running > 0 {
            warn!(running, "closing although tasks are still running");
        }
        // Whoever comes once the session has ended waits for nobody.
        self.mirror.end();
        // A heart that is stuck may still beat: then the session is left for others to end.
        if matches!(heart, Ok(Ok(_))) && !self.is_fenced() {
            let ending = state::end(&*self.store, &self.state, self.committer.lanes());
            match tokio::time::timeout(META_READ_DEADLINE, ending).await {
                Ok(Ok(())) => info!(session = %self.state.nonce, "session closed"),
                Ok(Err(error)) => warn!(%error, "the session could not be closed"),
                Err(_late) => warn!("the session could not be closed in time"),
            }
        }
        self.state.ended.cancel();
        self.gone.cancel();
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

    /// Where inode numbers come from.
    pub fn inos(&self) -> &Arc<Inos> {
        &self.inos
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
    pub async fn fence(&self, seen: &Seen) -> Result<bool, VolumeError> {
        Ok(state::fence(&*self.store, &self.state, seen).await?)
    }

    /// Told when another session has begun or ended: it may have left something.
    pub fn session_changes(&self) -> &Arc<Notify> {
        &self.sessions
    }

    /// Told when something lost its name.
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
        self.committer.commit(plan, reading, None).await.0
    }

    /// Runs what must not stop halfway, though whoever waits for it may leave.
    pub async fn to_its_end<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Result<T, VolumeError> {
        let future = charged(future, charge()).in_current_span();
        match self.tasks.spawn(name, future).await {
            Ok(result) => result,
            Err(lost) => match lost.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(lost) => Err(VolumeError::Unknown(format!("it was not carried out: {lost}"))),
            },
        }
    }

    /// `n` inode numbers that nobody had before; usually without a round trip.
    pub async fn fresh_inos(&self, n: usize) -> Result<Vec<Ino>, VolumeError> {
        self.inos.fresh(n).await
    }
}
