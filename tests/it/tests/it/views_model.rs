//! Versions, trash and locks in both views. Two mounts and a gateway over one store execute random
//! operations one after another. Each is compared with a [`model`] that is a list for each key.
//!
//! All three sessions have leases of each other, so most reads are answered from their caches.
//!
//! A mount here is a volume with the file layer over it, which receives the requests that a kernel
//! would send; there is no kernel. Descriptors stay open while their files change. In half of the
//! runs, buckets have a default [`encryption`]. The test checks these laws:
//!
//! 1. Bytes that a program has synced are in its file. A flush that cannot store them fails.
//! 2. A noncurrent version, an item of the trash and a locked version keep bytes, headers and
//!    metadata.
//! 3. The versions of each key, their ids and their order are those of the model.
//! 4. A locked version stays, and a default retention covers the content that programs write.
//! 5. Each operation ends, and none is refused because of others.
//! 6. `fsck` finds nothing, and no block remains at the end.
//!
//! All choices follow from a seed, which a failure prints with the last operations.
//! `ASHLAR_TEST_SEED` repeats the run, and `ASHLAR_TEST_VIEW_STEPS` sets the number of operations.

mod checks;
mod descriptors;
mod encryption;
mod holds;
mod lifecycle;
mod model;
mod objects;
mod programs;
mod returns;
mod tree;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use block::{Encrypting, MemoryBlocks};
use files::{Files, FilesOptions};
use keyring::FixedRing;
use maintained::MaintainedVolume;
use peering::PeeringOptions;
use record::{BucketConfig, Ino, RetentionDefault, RetentionMode, Timestamp, Versioning};
use sealing::Sealing;
use store::{MemoryStore, MetaStore};
use tempfile::TempDir;
use volume::{BucketChange, FsError, NewBucket, SetClock, VolumeError};

use crate::deep::driver::store;
use crate::fleet::{BlockKind, Engine, Fleet, on_the_drawn_server};
use crate::scale;
use crate::versions::dice::{Dice, HOUR};
use crate::versions::{BEGINNING, open_with, owner};
use descriptors::Open;
use model::{BUCKETS, HELD, KEPT, Model, PLAIN, TRASH};
use upkeep::{NoProgress, fsck};

on_the_drawn_server!(both_views_match_the_model);

#[test]
fn both_views_match_the_model_memory() {
    let store: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
    run_on("memory", scale::view_steps(400), async || store);
}

#[test]
fn both_views_match_the_model_sqlite() {
    over(Engine::Sqlite, scale::view_steps(200));
}

fn both_views_match_the_model(engine: Engine) {
    over(engine, scale::view_steps(100));
}

fn over(engine: Engine, steps: u64) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    run_on(engine.name(), steps, async || store(engine, fleet.url(), folder.path()).await);
}

/// Number of operations that a failure prints.
const OPERATIONS_SHOWN: usize = 40;

/// Steps between two lines of progress.
const PROGRESS_STEPS: u64 = 5_000;

/// The time limit of one step. A lifecycle pass over many versions, one a page, takes longest.
const STEP_DEADLINE: Duration = Duration::from_mins(5);

/// The last operations with their steps, oldest first.
type Log = Arc<Mutex<VecDeque<(u64, String)>>>;

fn run_on(name: &str, steps: u64, store: impl AsyncFnOnce() -> Arc<dyn MetaStore>) {
    let seed = scale::seed();
    let log = Log::default();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let began = Instant::now();
    let done = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let mut world = World::new(store().await, seed, Arc::clone(&log)).await;
            while world.step < steps {
                let step = tokio::time::timeout(STEP_DEADLINE, world.step());
                step.await.expect("a step ends within its deadline");
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
            for (step, act) in log.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                eprintln!("{name}, step {step}: {act}");
            }
            eprintln!("{name}: again with ASHLAR_TEST_SEED={seed} ASHLAR_TEST_VIEW_STEPS={steps}");
            resume_unwind(why);
        }
    }
}

/// Counts of results.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    acts: u64,
    refused: u64,
    /// Flushes that gave a noncurrent version its own copy of the file.
    detached: u64,
    /// Flushes that a lock refused.
    locked: u64,
    /// Directories that were moved with keys below them.
    directories: u64,
    /// Items that were restored from the trash.
    restored: u64,
    /// Lifecycle passes.
    passes: u64,
    /// Keys that were deleted with their directories and restored while programs had their files
    /// open.
    returned: u64,
    /// Blocks that were deleted.
    reaped: u64,
    /// Changes of the default encryption of buckets.
    default_changes: u64,
    /// Reads of metadata that a session answered from its cache, by leases of the two others.
    from_cache: u64,
}

/// The volume of a mount, and the file layer over it.
#[derive(Debug)]
struct Mount {
    volume: MaintainedVolume,
    files: Arc<Files>,
}

#[derive(Debug)]
struct World {
    store: Arc<dyn MetaStore>,
    blocks: Arc<Encrypting<MemoryBlocks>>,
    clock: Arc<SetClock>,
    gateway: MaintainedVolume,
    mounts: [Mount; 2],
    model: Model,
    open: Open,
    dice: Dice,
    log: Log,
    step: u64,
    counts: Counts,
    /// True if the default encryption of buckets changes.
    encrypts: bool,
    /// True if each lifecycle pass also expires items of the trash.
    trash_has_days: bool,
    /// Reads that the gateway answered from its cache before the mounts began.
    alone: u64,
    _sockets: TempDir,
}

/// The parts that the sessions of one volume share.
#[derive(Debug)]
struct Shared {
    /// The metadata store with the layer that encrypts inline content.
    store: Arc<dyn MetaStore>,
    blocks: Arc<Encrypting<MemoryBlocks>>,
    keys: Arc<FixedRing>,
    clock: Arc<SetClock>,
    sockets: TempDir,
}

impl Shared {
    fn new(store: Arc<dyn MetaStore>) -> Shared {
        let keys = encryption::keys();
        let blocks = Encrypting::new(MemoryBlocks::new(), Arc::<FixedRing>::clone(&keys));
        let store = Sealing::new(store, Arc::<FixedRing>::clone(&keys));
        Shared {
            store: Arc::new(store),
            blocks: Arc::new(blocks),
            keys,
            clock: Arc::new(SetClock::new(BEGINNING)),
            sockets: tempfile::tempdir().expect("a folder"),
        }
    }

    /// Opens the volume in a session that takes leases of the others, and gives leases to them.
    async fn open(&self) -> MaintainedVolume {
        let Shared { store, blocks, keys, clock, sockets } = self;
        let volume = open_with(store, blocks.clone(), clock, keys, true).await;
        let options = PeeringOptions {
            volume: volume.record().id,
            network_key: None,
            socket_dir: Some(sockets.path().to_owned()),
            listen: None,
            address: None,
        };
        volume.connect_peers(options).await.expect("the sessions connect");
        volume
    }

    async fn mount(&self) -> Mount {
        let volume = self.open().await;
        let options = FilesOptions {
            root: Ino::ROOT,
            read_only: false,
            write_memory: 64 << 20,
            full_rewrite_bytes_max: 48 << 10,
            io_timeout: Duration::from_secs(20),
            updates_atime: true,
            defers_creations: false,
            ledger: None,
        };
        let files = Files::new(Arc::clone(&volume), options);
        Mount { volume, files }
    }
}

impl World {
    async fn new(store: Arc<dyn MetaStore>, seed: u64, log: Log) -> World {
        let shared = Shared::new(store);
        let gateway = shared.open().await;
        let mounts = [shared.mount().await, shared.mount().await];
        let alone = gateway.counters().session.remembered;
        for bucket in BUCKETS {
            let made = gateway.create_bucket(bucket, &NewBucket::owned_by(&owner())).await;
            made.expect("a bucket");
        }
        let trash = BucketChange::Versioning(Versioning::Trash);
        gateway.set_bucket(BUCKETS[TRASH], trash).await.expect("a trash");
        let model = Model::new(BEGINNING);
        let (dice, open, counts) = (Dice::new(seed), Open::default(), Counts::default());
        let Shared { store, blocks, keys: _, clock, sockets } = shared;
        let mut world = World {
            store,
            blocks,
            clock,
            gateway,
            mounts,
            model,
            open,
            dice,
            log,
            step: 0,
            counts,
            encrypts: encryption::is_wanted(seed),
            trash_has_days: false,
            alone,
            _sockets: sockets,
        };
        world.begin_encryption(seed).await;
        // An object from before versioning is the null version of its key.
        world.model.buckets[KEPT].versioning = Versioning::Off;
        for key in ["f.txt", "d/g", "x/e/g"] {
            world.put((KEPT, key), false).await;
        }
        world.set_versioning(KEPT, Versioning::Enabled).await;
        let enabled = BucketChange::Versioning(Versioning::Enabled);
        world.gateway.set_bucket(BUCKETS[HELD], enabled).await.expect("versions are kept");
        world
            .set_default(Some(RetentionDefault { mode: RetentionMode::Governance, days: 1 }))
            .await;
        world
    }

    /// Records the next operation for the message of a failure.
    fn record(&mut self, act: String) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() == OPERATIONS_SHOWN {
            log.pop_front();
        }
        log.push_back((self.step, act));
    }

    /// Advances the clock by a little before each operation, and by hours before some.
    fn tick(&mut self) {
        let step = match self.dice.below(4) {
            0 => i64::try_from(self.dice.below(8_000)).expect("few") * HOUR / 1_000,
            _ => 1_000_000,
        };
        self.model.now = Timestamp(self.model.now.0 + 1_000 + step);
        self.clock.set(self.model.now);
    }

    async fn step(&mut self) {
        self.step += 1;
        self.tick();
        self.counts.acts += 1;
        self.maybe_change_encryption().await;
        match self.dice.below(100) {
            0..36 => self.object_operation().await,
            36..64 => self.descriptor_operation().await,
            64..94 => self.program_operation().await,
            94 => self.return_operation().await,
            95..97 => self.lifecycle_operation().await,
            97 => self.hold_operation().await,
            _ => self.upkeep_operation().await,
        }
        self.check_some().await;
    }

    /// Background work of volumes and mounts.
    async fn upkeep_operation(&mut self) {
        match self.dice.below(8) {
            0 => {
                self.record("destage".to_owned());
                self.gateway.upkeep().destage_now().await.expect("staged bodies move to blocks");
            }
            1 => {
                self.record("reap".to_owned());
                // The reaper waits until a record protects each open descriptor.
                let reaped =
                    self.volume().upkeep().reap_now().await.expect("dead blocks are deleted");
                self.counts.reaped += reaped.blocks;
            }
            2 => {
                self.record("repack".to_owned());
                self.gateway.upkeep().repack_now().await.expect("packs are rewritten");
            }
            3 => {
                let mount = self.dice.below(2);
                self.record(format!("mount {mount}: keep read times"));
                self.mounts[mount].files.persist_access_times().await;
            }
            4 => {
                let mode = self.dice.of(&[RetentionMode::Governance, RetentionMode::Compliance]);
                let days = self.dice.of(&[1, 2]);
                let default = (!self.dice.one_in(4)).then_some(RetentionDefault { mode, days });
                self.set_default(default).await;
            }
            5 => {
                let versioning = self.dice.of(&[Versioning::Enabled, Versioning::Suspended]);
                self.set_versioning(KEPT, versioning).await;
            }
            _ => {
                let mount = self.dice.below(2);
                self.flush_all(mount).await;
            }
        }
    }

    async fn reap(&mut self) {
        for volume in self.volumes() {
            self.counts.reaped +=
                volume.upkeep().reap_now().await.expect("dead blocks are deleted").blocks;
        }
    }

    fn volumes(&self) -> [MaintainedVolume; 3] {
        [&self.gateway, &self.mounts[0].volume, &self.mounts[1].volume].map(MaintainedVolume::clone)
    }

    /// Chooses the volume of the gateway or of a mount.
    fn volume(&mut self) -> MaintainedVolume {
        let volume = self.dice.below(3);
        self.volumes()[volume].clone()
    }

    async fn set_versioning(&mut self, bucket: usize, versioning: Versioning) {
        self.record(format!("{}: versioning {versioning:?}", BUCKETS[bucket]));
        let change = BucketChange::Versioning(versioning);
        self.gateway.set_bucket(BUCKETS[bucket], change).await.expect("a setting");
        self.model.buckets[bucket].versioning = versioning;
    }

    async fn set_default(&mut self, default: Option<RetentionDefault>) {
        self.record(format!("held: default retention {default:?}"));
        let text = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>\
                    </ObjectLockConfiguration>";
        let config = BucketConfig { bytes: text.as_bytes().into() };
        let set = self.gateway.set_object_lock(BUCKETS[HELD], &config, default).await;
        set.expect("objects may be locked");
        self.model.buckets[HELD].default = default;
    }

    async fn check(&self) {
        let report = fsck(Arc::clone(&self.store), self.blocks.clone(), &NoProgress).await;
        let report = report.expect("records can be read");
        assert_eq!(report.findings, [], "step {}", self.step);
    }

    /// Closes all descriptors, compares everything with the model, and removes it after all locks
    /// have expired.
    async fn end(mut self) -> Counts {
        self.close_all().await;
        self.check_all().await;
        self.reap().await;
        self.check().await;
        self.check_all().await;
        self.model.now = Timestamp(self.model.now.0 + 10_000 * HOUR);
        self.clock.set(self.model.now);
        self.remove_all().await;
        for bucket in [PLAIN, KEPT, HELD, TRASH] {
            self.remove_directories(bucket).await;
            let removed = self.gateway.delete_bucket(BUCKETS[bucket]).await;
            removed.unwrap_or_else(|error| panic!("{}: {error}", BUCKETS[bucket]));
        }
        for _ in 0..2 {
            self.reap().await;
        }
        self.check().await;
        let remembered = |volume: &MaintainedVolume| volume.counters().session.remembered;
        self.counts.from_cache = self.volumes().iter().map(remembered).sum::<u64>() - self.alone;
        assert!(self.counts.from_cache > self.step, "few reads were answered by leases");
        for volume in self.volumes() {
            volume.close().await;
        }
        let report = fsck(Arc::clone(&self.store), self.blocks.clone(), &NoProgress).await;
        let report = report.expect("records can be read");
        assert_eq!((report.findings, report.counts.blocks), (Vec::new(), 0), "nothing is left");
        self.store.close().await;
        self.counts
    }
}

/// Returns the result or the refusal of a volume. Panics if a store failed.
fn fs<T>(answer: Result<T, VolumeError>) -> Result<T, FsError> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(VolumeError::Fs(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}
