//! The volume: one file system, opened by one session.

use std::sync::Arc;
use std::time::Duration;

use block::{BLOCK_BYTES_DEFAULT, BlockReader, BlockStore, Direct};
use record::{Ino, Timestamp, VolumeRecord};
use store::{MetaStore, Read};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, warn};

use crate::clock::{Clock, SystemClock};
use crate::commit::{Committer, Desk};
use crate::company::{self, Company, JOIN_PATIENCE};
use crate::content::{
    BlockIds, ByteBudget, Deadlines, Packer, Packing, Reading, Resting, Staging, Traffic,
};
use crate::epoch::{Epochs, ReaderGuard};
use crate::feed::Listener;
use crate::gather::Gatherer;
use crate::hints::{HINT_BYTES_DEFAULT, HintMemory};
use crate::holds::{self, Holds};
use crate::inos::Inos;
use crate::lanes::Lanes;
use crate::latecomers;
use crate::meters::{Counters, Meters, charge, charged};
use crate::mirror::{Mirror, Mirrored};
use crate::reaper::{self, Damaged, ReaperMemory};
use crate::repack::{self, Repacking};
use crate::session::{self, BEAT_INTERVAL, Heart, SESSION_SILENCE, Session};
use crate::settle;
use crate::sweeper;
use crate::{Tasks, VolumeError};

/// How long an operation waits for one read of metadata.
pub const META_READ_DEADLINE: Duration = Duration::from_secs(10);

/// How long [`Volume::check`] waits for each store.
pub const CHECK_DEADLINE: Duration = Duration::from_secs(2);

/// How long [`Volume::close`] waits for what is under way.
pub const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// Bytes up to which a body is kept in its record, unless told otherwise.
pub const INLINE_BYTES_DEFAULT: u32 = 4 << 10;

/// Bytes that bodies on their way in may hold in memory, unless told otherwise.
pub const BUDGET_BYTES_DEFAULT: u64 = 64 << 20;

/// How a volume is opened.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Content bytes of a full block; counts when the volume is made, and never after.
    pub block_bytes: u32,
    /// Up to how many bytes a body is kept in its record.
    pub inline_bytes_max: u32,
    /// Which bodies share blocks, and how.
    pub packing: Packing,
    /// Bytes of small bodies that may rest in their records at the same time, those that came alone;
    /// 0 puts each into a block before it is acknowledged.
    pub resting_bytes_max: u64,
    /// Bytes that bodies on their way in may hold in memory.
    pub write_budget_bytes: u64,
    /// Bytes that bodies on their way out may hold in memory.
    pub read_budget_bytes: u64,
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
    /// How long a block is kept after a commit has freed it: longer than the metadata store may
    /// forget. `None`: [`crate::DELETION_GRACE_RELAXED`] while the store is relaxed, else 0.
    pub deletion_grace: Option<Duration>,
    /// How long the byte path waits.
    pub deadlines: Deadlines,
    /// Where the content of blocks comes from: a cache over the same blocks, say. `None` reads
    /// them each time.
    pub reader: Option<Arc<dyn BlockReader>>,
    /// Whether the reaper, the sweeper, the rewriter of packs and what settles resting bodies run by
    /// themselves.
    pub collect: bool,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
}

impl Default for VolumeOptions {
    fn default() -> VolumeOptions {
        VolumeOptions {
            block_bytes: BLOCK_BYTES_DEFAULT,
            inline_bytes_max: INLINE_BYTES_DEFAULT,
            packing: Packing::default(),
            resting_bytes_max: 0,
            write_budget_bytes: BUDGET_BYTES_DEFAULT,
            read_budget_bytes: BUDGET_BYTES_DEFAULT,
            hint_bytes: HINT_BYTES_DEFAULT,
            mirror_bytes: 0,
            join_patience: JOIN_PATIENCE,
            sole: false,
            place: String::new(),
            commits_in_flight: 1,
            reads_in_flight: 1,
            beat_interval: BEAT_INTERVAL,
            session_silence: SESSION_SILENCE,
            deletion_grace: None,
            deadlines: Deadlines::default(),
            reader: None,
            collect: true,
            clock: Arc::new(SystemClock),
        }
    }
}

impl VolumeOptions {
    /// What reads blocks: the reader that was given, or one without a memory.
    fn reader_over(&self, blocks: &Arc<dyn BlockStore>) -> Arc<dyn BlockReader> {
        let given = self.reader.clone();
        given.unwrap_or_else(|| Arc::new(Direct::new(Arc::clone(blocks))))
    }

    /// What all readers of a session share.
    fn streams(
        &self,
        reader: Arc<dyn BlockReader>,
        tasks: &Tasks,
        traffic: &Arc<Traffic>,
    ) -> Arc<Reading> {
        Arc::new(Reading {
            reader,
            budget: ByteBudget::new(self.read_budget_bytes),
            tasks: tasks.clone(),
            deadlines: self.deadlines,
            traffic: Arc::clone(traffic),
        })
    }
}

/// A file system over a metadata store and a place for blocks, opened by this process.
///
/// Dropping it without [`Volume::close`] is as if the process had been killed: what was
/// acknowledged stands, and the next session clears up.
#[derive(Debug)]
pub struct Volume {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) blocks: Arc<dyn BlockStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) record: VolumeRecord,
    pub(crate) session: Arc<Session>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) gatherer: Gatherer,
    pub(crate) hints: Arc<HintMemory>,
    pub(crate) mirror: Arc<Mirror>,
    pub(crate) inos: Arc<Inos>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) holds: Arc<Holds>,
    pub(crate) staging: Arc<Staging>,
    pub(crate) streams: Arc<Reading>,
    pub(crate) deadlines: Deadlines,
    pub(crate) deletion_grace: Option<Duration>,
    pub(crate) tasks: Tasks,
    pub(crate) meters: Arc<Meters>,
    pub(crate) traffic: Arc<Traffic>,
    /// Told when something lost its name.
    pub(crate) orphaned: Arc<Notify>,
    /// Told when users or policies may have changed.
    access: watch::Sender<u64>,
    /// Held by the reaper's pass.
    pub(crate) reaping: tokio::sync::Mutex<ReaperMemory>,
    /// What it keeps because it cannot be read.
    pub(crate) damaged: Damaged,
    /// Which packs are worth rewriting.
    pub(crate) repacking: Repacking,
    /// Held by a sweep.
    pub(crate) sweeping: tokio::sync::Mutex<()>,
    /// Cancelled when the volume closes.
    pub(crate) closing: CancellationToken,
    /// Cancelled when nothing may go on any more.
    gone: CancellationToken,
    heart: tokio::sync::Mutex<Option<tokio::task::JoinHandle<Heart>>>,
}

/// Whether what stands behind a volume can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The metadata store, and why not.
    pub store: Result<(), String>,
    /// The blocks, and why not.
    pub blocks: Result<(), String>,
    /// Whether the session still counts.
    pub session: Result<(), String>,
}

impl Health {
    /// Whether requests can be served.
    pub fn is_ready(&self) -> bool {
        self.store.is_ok() && self.blocks.is_ok() && self.session.is_ok()
    }
}

impl Volume {
    /// Opens the volume in `store`, or makes one if there is none, and begins a session.
    ///
    /// # Errors
    /// With a sentence for the operator, if a store cannot be reached or read, if a newer release
    /// made the volume, or if the blocks are another volume's; then nothing was changed.
    pub async fn open(
        options: VolumeOptions,
        store: Arc<dyn MetaStore>,
        blocks: Arc<dyn BlockStore>,
    ) -> Result<Arc<Volume>, VolumeError> {
        let now = options.clock.now();
        let (bytes, place) = (options.block_bytes, &options.place);
        let started = session::start(&*store, &*blocks, bytes, place, now).await?;
        if !options.sole {
            company::join(&*store, started.nonce, options.join_patience).await?;
        }
        let position = Listener::begin(&*store).await?;
        let (mut volume, heart) = Volume::assemble(&options, store, blocks, started);
        if options.sole {
            heart.end_others().await?;
        }
        let ended = Arc::clone(&heart.fenced);
        let heart = volume.tasks.spawn("heartbeat", heart.run(volume.closing.clone()));
        *volume.heart.get_mut() = Some(heart);
        let listening = volume.listener(position, &ended).run(volume.closing.clone());
        drop(volume.tasks.spawn("listener", listening));
        let volume = Arc::new(volume);
        let holding = holds::hold_always(Arc::downgrade(&volume));
        drop(volume.tasks.spawn("holds", holding));
        if options.collect {
            let reaping = reaper::reap_always(Arc::downgrade(&volume));
            drop(volume.tasks.spawn("reaper", reaping));
            let sweeping = sweeper::sweep_always(Arc::downgrade(&volume), ended);
            drop(volume.tasks.spawn("sweeper", sweeping));
            let repacking = repack::repack_always(Arc::downgrade(&volume));
            drop(volume.tasks.spawn("repacker", repacking));
            let settling = settle::settle_always(Arc::downgrade(&volume));
            drop(volume.tasks.spawn("settler", settling));
            let latecomers = latecomers::delete_latecomers(Arc::downgrade(&volume));
            drop(volume.tasks.spawn("latecomers", latecomers));
        }
        Ok(volume)
    }

    /// Puts together what serves a session that has begun, and its heart, which does not beat yet.
    fn assemble(
        options: &VolumeOptions,
        store: Arc<dyn MetaStore>,
        blocks: Arc<dyn BlockStore>,
        started: session::Started,
    ) -> (Volume, Heart) {
        let (session, epochs) = (Arc::new(Session::new(started.nonce)), Epochs::new(started.epoch));
        let (tasks, meters) = (Tasks::new(), Arc::<Meters>::default());
        let mirror = Mirror::new(options.mirror_bytes);
        let hints = Arc::new(HintMemory::new(options.hint_bytes, &mirror));
        let store: Arc<dyn MetaStore> = Arc::new(Mirrored::new(store, Arc::clone(&mirror)));
        let [closing, gone] = std::array::from_fn(|_| CancellationToken::new());
        let desk = Desk {
            store: Arc::clone(&store),
            limits: store.limits(),
            session: Arc::clone(&session),
            lanes: Lanes::new(started.nonce),
            hints: Arc::clone(&hints),
            own: Arc::default(),
            meters: Arc::clone(&meters),
            tasks: tasks.clone(),
            closing: closing.clone(),
            gone: gone.clone(),
        };
        let committer = Arc::new(Committer::new(desk, options.commits_in_flight));
        let gatherer = Gatherer::new(&store, &meters, &tasks, options.reads_in_flight);
        let inos = Inos::new(started.nonce, &committer, &epochs, &store, tasks.clone());
        let (traffic, reader) = (Arc::<Traffic>::default(), options.reader_over(&blocks));
        let staging = Arc::new(Staging {
            blocks: Arc::clone(&blocks),
            reader: Arc::clone(&reader),
            ids: BlockIds::new(started.nonce),
            numbers: Arc::new(Arc::clone(&inos)),
            budget: ByteBudget::new(options.write_budget_bytes),
            tasks: tasks.clone(),
            block_bytes: started.volume.block_bytes,
            inline_bytes_max: options.inline_bytes_max,
            packer: Packer::new(options.packing),
            resting: Arc::new(Resting::new(options.resting_bytes_max)),
            late: Arc::default(),
            epochs: Arc::clone(&epochs),
            deadlines: options.deadlines,
            traffic: Arc::clone(&traffic),
        });
        let heart = Heart::new(&store, &session, &epochs, options, started.beat);
        let volume = Volume {
            store,
            blocks,
            clock: Arc::clone(&options.clock),
            record: started.volume,
            session,
            committer,
            gatherer,
            hints,
            mirror,
            inos,
            epochs,
            holds: Arc::default(),
            staging,
            streams: options.streams(reader, &tasks, &traffic),
            deadlines: options.deadlines,
            deletion_grace: options.deletion_grace,
            tasks,
            meters,
            traffic,
            orphaned: Arc::default(),
            access: watch::Sender::new(0),
            reaping: tokio::sync::Mutex::default(),
            damaged: Damaged::default(),
            repacking: Repacking::new(options.packing.pack_bytes),
            sweeping: tokio::sync::Mutex::default(),
            closing,
            gone,
            heart: tokio::sync::Mutex::default(),
        };
        (volume, heart)
    }

    /// What listens to other gateways from a position on, and tells of sessions that begin or end.
    fn listener(&self, position: store::Position, sessions: &Arc<Notify>) -> Listener {
        Listener {
            store: Arc::clone(&self.store),
            hints: Arc::clone(&self.hints),
            mirror: Arc::clone(&self.mirror),
            company: Company::new(self.session.nonce, &self.mirror),
            own: self.committer.own_writes(),
            meters: Arc::clone(&self.meters),
            access: self.access.clone(),
            sessions: Arc::clone(sessions),
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
        self.session.ended.cancelled().await;
        if !self.session.is_fenced() {
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
        if matches!(heart, Ok(Ok(_))) && !self.session.is_fenced() {
            let ending = session::end(&*self.store, &self.session, self.committer.lanes());
            match tokio::time::timeout(META_READ_DEADLINE, ending).await {
                Ok(Ok(())) => info!(session = %self.session.nonce, "session closed"),
                Ok(Err(error)) => warn!(%error, "the session could not be closed"),
                Err(_late) => warn!("the session could not be closed in time"),
            }
        }
        self.session.ended.cancel();
        self.gone.cancel();
    }

    /// The volume's time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The volume's own record.
    pub fn record(&self) -> &VolumeRecord {
        &self.record
    }

    /// Pins the epoch of what is read from here on, until the guard is dropped.
    pub(crate) fn reading(&self) -> ReaderGuard {
        self.epochs.pin()
    }

    /// Runs what must not stop halfway, though whoever waits for it may leave.
    pub(crate) async fn to_its_end<T: Send + 'static>(
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
    pub(crate) async fn fresh_inos(&self, n: usize) -> Result<Vec<Ino>, VolumeError> {
        self.inos.fresh(n).await
    }

    /// Tells the reaper that something lost its name.
    pub(crate) fn wake_reaper(&self) {
        self.orphaned.notify_one();
    }

    /// Whether the stores answer, within [`CHECK_DEADLINE`].
    pub async fn check(&self) -> Health {
        let volume = [Read::Record { key: record::key::volume(), follow: None }];
        let store = async {
            match tokio::time::timeout(CHECK_DEADLINE, self.store.read(&volume)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_late) => Err("no answer in time".to_owned()),
            }
        };
        let blocks = async {
            match tokio::time::timeout(CHECK_DEADLINE, self.blocks.probe()).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_late) => Err("no answer in time".to_owned()),
            }
        };
        let (store, blocks) = futures::join!(store, blocks);
        let session = if self.session.ended.is_cancelled() {
            Err("the session has ended".to_owned())
        } else {
            Ok(())
        };
        Health { store, blocks, session }
    }

    /// What the volume did since it was opened.
    pub fn counters(&self) -> Counters {
        let (meters, traffic) = (&self.meters, &self.traffic);
        Counters {
            meta_reads: meters.reads.get(),
            reads_mirrored: meters.mirrored.get(),
            meta_commits: meters.commits.get(),
            plans: meters.plans.get(),
            refused: meters.refused.get(),
            in_doubt: meters.in_doubt.get(),
            unresolved: meters.unresolved.get(),
            told: meters.told.get(),
            missed: meters.missed.get(),
            block_puts: traffic.puts.get(),
            block_put_bytes: traffic.put_bytes.get(),
            block_gets: traffic.gets.get(),
            block_got_bytes: traffic.got_bytes.get(),
            blocks_abandoned: traffic.abandoned.get(),
            files_reaped: meters.files_reaped.get(),
            blocks_reaped: meters.blocks_reaped.get(),
            bytes_reaped: meters.bytes_reaped.get(),
            blocks_swept: meters.blocks_swept.get(),
            damaged_kept: meters.damaged_kept.get(),
            packs_rewritten: meters.packs_rewritten.get(),
            packs_left: meters.packs_left.get(),
            bytes_repacked: meters.bytes_repacked.get(),
            bodies_settled: meters.bodies_settled.get(),
            bytes_settled: meters.bytes_settled.get(),
            panics: self.tasks.panics(),
            holds: u64::try_from(self.holds.count()).unwrap_or(u64::MAX),
            oldest_pin: self.epochs.oldest_pin().unwrap_or_default(),
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.closing.cancel();
        self.session.ended.cancel();
        self.gone.cancel();
    }
}
