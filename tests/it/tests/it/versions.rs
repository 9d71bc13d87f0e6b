//! Versions, their locks and their removal, by two volumes over one store: random operations one
//! after another, each compared with a [`model`] that is a list for each key.
//!
//! The operations follow from a seed, which a failure prints. `ASHLAR_TEST_SEED` repeats the run,
//! and `ASHLAR_TEST_STEPS` sets the number of operations.

pub(crate) mod dice;
mod model;
mod moved;
mod views;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{BlockStore, MemoryBlocks};
use keyring::FixedRing;
use maintained::MaintainedVolume;
use record::{
    BucketConfig, BucketConfigKind, ObjectHeaders, ObjectLock, Timestamp, VersionRef, Versioning,
};
use store::{MemoryStore, MetaStore};
use volume::{
    BucketChange, CopyChanges, FileOwner, FsError, NewObject, ObjectChange, SessionOptions,
    SetClock, Volume, VolumeError, VolumeOptions, WriteCondition,
};

use crate::deep::driver::store;
use crate::fleet::{BlockKind, Engine, Fleet, on_the_drawn_server};
use crate::scale;
use dice::{BUCKETS, Dice, HOUR, KEYS};
use model::{Act, Answer, How, Model, Now, VersionKind, is_locked};
use upkeep::{NoProgress, fsck};

/// Limit of the ids of removed versions that are requested again.
const GONE_MAX: usize = 16;

on_the_drawn_server!(versions_match_the_model);

/// Number of steps between two lines of progress.
const PROGRESS_STEPS: u64 = 10_000;

#[test]
fn versions_match_the_model_memory() {
    let store: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
    run_on("memory", scale::steps(1_000), async || store);
}

#[test]
fn versions_match_the_model_sqlite() {
    over(Engine::Sqlite, scale::steps(400));
}

fn versions_match_the_model(engine: Engine) {
    over(engine, scale::steps(200));
}

fn over(engine: Engine, steps: u64) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    run_on(engine.name(), steps, async || store(engine, fleet.url(), folder.path()).await);
}

fn run_on(name: &str, steps: u64, store: impl AsyncFnOnce() -> Arc<dyn MetaStore>) {
    let seed = scale::seed();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let began = Instant::now();
    let done = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let mut world = World::new(store().await, seed).await;
            while world.step < steps {
                world.step().await;
                if world.step.is_multiple_of(PROGRESS_STEPS) {
                    eprintln!("{name}: {} steps after {:?}", world.step, began.elapsed());
                }
            }
            world.end().await
        })
    }));
    match done {
        Ok(counts) => {
            eprintln!("{name}: {steps} steps in {:?}, seed {seed}: {counts:?}", began.elapsed());
        }
        Err(why) => {
            eprintln!("{name}: again with ASHLAR_TEST_SEED={seed} ASHLAR_TEST_STEPS={steps}");
            resume_unwind(why);
        }
    }
}

/// Counts of results.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    done: u64,
    refused: u64,
    /// Removals that a lock forbade.
    locked: u64,
    /// Versions that were removed.
    removed: u64,
    /// Blocks that were deleted.
    reaped: u64,
}

#[derive(Debug)]
struct World {
    store: Arc<dyn MetaStore>,
    blocks: Arc<MemoryBlocks>,
    clock: Arc<SetClock>,
    volumes: [MaintainedVolume; 2],
    model: Model,
    dice: Dice,
    now: Now,
    gone: Vec<VersionRef>,
    step: u64,
    counts: Counts,
}

/// Opens a volume with this clock. Its limits are small: short bodies are inline in records, longer
/// ones are staged inline or in blocks.
pub(crate) async fn open(
    store: &Arc<dyn MetaStore>,
    blocks: &Arc<MemoryBlocks>,
    clock: &Arc<SetClock>,
) -> MaintainedVolume {
    open_with(store, blocks.clone(), clock, &Arc::default(), false).await
}

/// The same with these ring keys; if `authoritative_reads`, the session answers reads from its
/// cache when it may.
pub(crate) async fn open_with(
    store: &Arc<dyn MetaStore>,
    blocks: Arc<dyn BlockStore>,
    clock: &Arc<SetClock>,
    keys: &Arc<FixedRing>,
    authoritative_reads: bool,
) -> MaintainedVolume {
    let session = SessionOptions {
        clock: Arc::<SetClock>::clone(clock),
        authoritative_reads,
        // The reaper waits until each session has confirmed a newer epoch, which it does in
        // heartbeats.
        heartbeat_interval: Duration::from_millis(50),
        keys: Arc::<FixedRing>::clone(keys),
        ..Default::default()
    };
    let options = VolumeOptions {
        inline_bytes_max: 16,
        block_bytes: 65_536,
        staged_inline_bytes_max: 1 << 20,
        rings: Arc::<FixedRing>::clone(keys),
        session,
        ..Default::default()
    };
    MaintainedVolume::open_without_tasks(options, None, Arc::clone(store), blocks)
        .await
        .expect("a volume")
}

/// The first time of the clocks of these tests.
pub(crate) const BEGINNING: Timestamp = Timestamp(1_800_000_000_000_000_000);

impl World {
    async fn new(store: Arc<dyn MetaStore>, seed: u64) -> World {
        let blocks = Arc::new(MemoryBlocks::new());
        let clock = Arc::new(SetClock::new(BEGINNING));
        let open = async || open(&store, &blocks, &clock).await;
        let volumes = [open().await, open().await];
        for bucket in BUCKETS {
            let made =
                volumes[0].create_bucket(bucket, &volume::NewBucket::owned_by(&owner())).await;
            made.expect("a bucket");
        }
        let now = Now { clock: BEGINNING, passed: BEGINNING };
        let (model, dice) = (Model::new(BUCKETS.len()), Dice::new(seed));
        let (gone, counts) = (Vec::new(), Counts::default());
        let mut world =
            World { store, blocks, clock, volumes, model, dice, now, gone, step: 0, counts };
        // Objects from before versioning are locked, too.
        for (seed, key) in (1_u64 << 40..).zip(KEYS) {
            let content = model::Content { seed, length: 300 };
            let put =
                Act::Put { to: (1, key), content, lock: ObjectLock::default(), if_absent: false };
            world.act(&put).await;
        }
        world.act(&Act::Set(1, Versioning::Enabled)).await;
        let config = BucketConfig { bytes: b"<ObjectLockConfiguration/>".as_slice().into() };
        let kind = BucketConfigKind::ObjectLock;
        let set = world.volumes[0].set_bucket_config(BUCKETS[1], kind, Some(&config)).await;
        set.expect("objects may be locked");
        world.model.buckets[1].locks = true;
        world
    }

    fn volume(&mut self) -> MaintainedVolume {
        let volume = self.dice.of(&[0, 1]);
        self.volumes[volume].clone()
    }

    /// Advances the clock, or sets it forwards or back.
    fn tick(&mut self) {
        let step = i64::try_from(self.dice.below(2_000)).expect("few") * HOUR / 1_000;
        let passed = Timestamp(self.now.passed.0 + step);
        self.clock.set(passed);
        let clock = match self.dice.below(40) {
            0 => Timestamp(passed.0 + 1_000 * HOUR),
            1 => Timestamp(passed.0 - 3 * HOUR),
            _ => passed,
        };
        self.clock.jump(clock);
        self.now = Now { clock, passed };
    }

    /// Returns the times that the volume uses. If the clock is set back, the certainly elapsed time
    /// is not later than the clock.
    fn now(&self) -> Now {
        Now { clock: self.now.clock, passed: self.now.passed.min(self.now.clock) }
    }

    async fn step(&mut self) {
        self.step += 1;
        self.tick();
        let passed = self.now.passed;
        let act = self.dice.act(&self.model, &self.gone, self.step, passed);
        self.act(&act).await;
        self.looks(&act).await;
    }

    /// Executes an operation and compares its result with that of the model.
    async fn act(&mut self, act: &Act) {
        let volume = self.volume();
        let before = match act {
            Act::Remove(name, version, _) => {
                self.model.versions(*name).iter().find(|found| found.id == *version).copied()
            }
            _ => None,
        };
        let told = done(&volume, act).await;
        let fresh = match told {
            Ok(Answer::Put(id) | Answer::Deleted { marker: id, .. }) => id,
            _ => None,
        };
        let now = self.now();
        let wanted = self.model.apply(act, fresh, now);
        assert_eq!(told, wanted, "step {}, {act:?}, {now:?}", self.step);
        self.counts.done += u64::from(told.is_ok());
        self.counts.refused += u64::from(told.is_err());
        if let (Act::Remove(_, version, how), Some(before)) = (act, before) {
            self.counts.locked += u64::from(told == Err(FsError::Locked));
            if matches!(told, Ok(Answer::Removed { existed: true, .. })) {
                self.counts.removed += 1;
                if let VersionKind::Object(_, lock) = before.what {
                    let locked = is_locked(&lock, now.passed, *how == How::Bypass);
                    assert!(!locked, "step {}: {before:?} is locked and was removed", self.step);
                }
                self.gone.push(*version);
                if self.gone.len() > GONE_MAX {
                    self.gone.remove(0);
                }
            }
        }
    }

    /// Reads the versions that the operation concerned, and more in some steps.
    async fn looks(&mut self, act: &Act) {
        let (volume, bucket) = (self.volume(), self.dice.below(BUCKETS.len()));
        if let Act::Put { to: name, .. }
        | Act::Copy { to: name, .. }
        | Act::Delete(name)
        | Act::Remove(name, ..)
        | Act::Hold(name, ..)
        | Act::Retain(name, ..) = *act
        {
            let version = self.dice.version(&self.model, name, &self.gone);
            views::version(&volume, &self.model, name, None).await;
            views::version(&volume, &self.model, name, Some(version)).await;
        }
        if self.step.is_multiple_of(20) {
            views::versions(&volume, &self.model, bucket, &mut self.dice).await;
            views::objects(&volume, &self.model, bucket, &mut self.dice).await;
        }
        if self.step.is_multiple_of(200) {
            volume.upkeep().destage_now().await.expect("staged bodies move to blocks");
            let reaped = volume.upkeep().reap_now().await.expect("dead blocks are deleted");
            self.counts.reaped += reaped.blocks;
        }
        if self.step.is_multiple_of(250) {
            volume.upkeep().repack_now().await.expect("packs are rewritten");
            views::every_version(&volume, &self.model).await;
        }
        if self.step.is_multiple_of(5_000) {
            self.check().await;
        }
    }

    async fn check(&self) {
        let (store, blocks) = (Arc::clone(&self.store), Arc::<MemoryBlocks>::clone(&self.blocks));
        let report = fsck(store, blocks, &NoProgress).await.expect("records can be read");
        assert_eq!(report.findings, [], "step {}", self.step);
    }

    /// Compares everything with the model, then deletes everything after all locks have expired.
    async fn end(mut self) -> Counts {
        let volume = Arc::clone(&self.volumes[0]);
        for bucket in 0..BUCKETS.len() {
            views::versions(&volume, &self.model, bucket, &mut self.dice).await;
            views::objects(&volume, &self.model, bucket, &mut self.dice).await;
        }
        views::every_version(&volume, &self.model).await;
        moved::set(&volume).await;
        let mut dice = Dice::new(self.step);
        moved::reads_as_before(&self, &mut dice).await;
        let passed = Timestamp(self.now.passed.0 + 1_000 * HOUR);
        self.clock.set(passed);
        self.now = Now { clock: passed, passed };
        for (bucket, name) in BUCKETS.iter().enumerate() {
            for (key, _, version) in self.model.all(bucket) {
                if matches!(version.what, VersionKind::Object(_, lock) if lock.legal_hold == Some(true))
                {
                    self.act(&Act::Hold((bucket, key), Some(version.id), false)).await;
                }
                self.act(&Act::Remove((bucket, key), version.id, How::Plain)).await;
            }
            volume.delete_bucket(*name).await.expect("nothing is left in it");
        }
        for volume in &self.volumes {
            volume.upkeep().reap_now().await.expect("dead blocks are deleted");
        }
        self.check().await;
        for volume in &self.volumes {
            volume.close().await;
        }
        self.store.close().await;
        self.counts
    }
}

/// Returns the result of an operation on a volume.
async fn done(volume: &Arc<Volume>, act: &Act) -> Result<Answer, FsError> {
    match answer(volume, act).await {
        Ok(answer) => Ok(answer),
        Err(VolumeError::Fs(error)) => Err(error),
        Err(error) => panic!("{act:?}: {error}"),
    }
}

async fn answer(volume: &Arc<Volume>, act: &Act) -> Result<Answer, VolumeError> {
    match *act {
        Act::Set(bucket, versioning) => {
            let change = BucketChange::Versioning(versioning);
            volume.set_bucket(BUCKETS[bucket], change).await.map(|()| Answer::Set)
        }
        Act::Put { to: (bucket, key), content, lock, if_absent } => {
            let mut writer = volume.writer(None, Some(content.length as u64));
            writer.write(views::bytes(content)).await?;
            let body = writer.finish().await?;
            let headers = ObjectHeaders { lock, ..ObjectHeaders::default() };
            let tag = views::tag(content);
            let new =
                NewObject { owner: owner(), headers, tag, sums: Vec::new(), encryption: None };
            let condition = if if_absent { WriteCondition::IfAbsent } else { WriteCondition::None };
            let put = volume.put(BUCKETS[bucket], key.as_bytes(), body, new, condition).await?;
            Ok(Answer::Put(put.version))
        }
        Act::Copy { from, version, to: (bucket, key), lock } => {
            let source = volume.stat_version(BUCKETS[from.0], from.1.as_bytes(), version).await?;
            let changes = CopyChanges { lock, ..CopyChanges::default() };
            let (to, none) = (BUCKETS[bucket], WriteCondition::None);
            let copied = volume.copy(&source, to, key.as_bytes(), changes, none, &owner()).await?;
            Ok(Answer::Put(copied.version))
        }
        Act::Delete((bucket, key)) => {
            let keys = vec![(key.as_bytes().to_vec(), None)];
            let removed = volume.delete(BUCKETS[bucket], keys).await?.remove(0)?;
            Ok(Answer::Deleted { existed: removed.existed, marker: removed.marker })
        }
        Act::Remove((bucket, key), version, how) => {
            let (bucket, key) = (BUCKETS[bucket], key.as_bytes());
            let removed = match how {
                How::Sparing(spares) => {
                    volume.delete_version_sparing(bucket, key, version, spares).await?
                }
                How::Plain | How::Bypass => {
                    volume.delete_version(bucket, key, version, how == How::Bypass).await?
                }
            };
            Ok(Answer::Removed { existed: removed.existed, was_marker: removed.was_marker })
        }
        Act::Hold((bucket, key), version, hold) => {
            let (key, change) = (key.as_bytes(), ObjectChange::LegalHold(hold));
            let changed = volume.change_object(BUCKETS[bucket], key, version, None, change).await?;
            Ok(Answer::Changed(changed))
        }
        Act::Retain((bucket, key), version, retention, bypasses_governance) => {
            let change = ObjectChange::Retention { retention, bypasses_governance };
            let key = key.as_bytes();
            let changed = volume.change_object(BUCKETS[bucket], key, version, None, change).await?;
            Ok(Answer::Changed(changed))
        }
    }
}

pub(crate) fn owner() -> FileOwner {
    FileOwner {
        access_key: "someone".to_owned(),
        account: record::AccountId::MAIN,
        writer: None,
        uid: 7,
        gid: 8,
        umask: 0o022,
    }
}
