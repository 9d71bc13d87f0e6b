//! Deletes what records say is dead, once nobody can be reading it.
//!
//! Foreground plans never drop a reference to a block: they leave an orphan. A pass collects
//! orphans, moves the volume's epoch on, and waits until every session has let go of what it read
//! before. Then it takes each orphan's references away and names its blocks as *pending* in the
//! same plans, so that a crash at any point leaves a record of what is still to be deleted. Every
//! step may be repeated, and two reapers at once do no harm: each step guards the orphan it is
//! about.
//!
//! What cannot be read is kept, and stops nothing else: see [`crate::damaged`]. Completed uploads
//! that still answer are no orphans once their parts have gone, so they are in nobody's way: see
//! [`uploads`].
//!
//! How an owner lets go of a block, and why that is right for blocks of several owners, stands in
//! `release`.
//!
//! Freed blocks are kept for a while where the store may forget what freed them: see `grace`.
//!
//! It knows nothing of blocks that no record names; those are the sweeper's.

mod files;
mod hidden;
mod moved;
mod owners;
mod release;
mod uploads;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use record::{BlockId, Held, Ino, Orphan, Sequence, key, key::space};
use session::{
    ObservedSession, Outcome, Priority, VolumeError, closing, corrupt, entries, other_sessions,
    value,
};
use store::{Entry, Guard, Key, Plan, Read, Value, Write};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::grace::{self, PendingAges};
use crate::upkeep::{ReaperMemory, Upkeep};

/// The number under which a hold keeps all pages that were replaced: the root's, which has none.
pub(crate) const REPLACED_PAGES: Ino = Ino::ROOT;

/// How often the reaper looks for orphans without a notification.
pub const REAP_INTERVAL: Duration = Duration::from_mins(1);

/// How long it waits after a notification, so that one pass takes what is deleted together.
pub const REAP_DELAY: Duration = Duration::from_millis(500);

/// For how long a completed upload answers again.
pub const UPLOAD_RESULT_KEPT: Duration = Duration::from_hours(24);

/// Orphans that one pass takes.
const ORPHANS_PER_PASS: usize = 30_000;

/// Orphans that one round trip reads.
const ORPHANS_AT_ONCE: u32 = 1_000;

/// A pass that lets go of more bytes than this, which writes have hidden of files, is not throttled:
/// whoever writes over a file at random hides as fast as it writes.
const HIDDEN_BYTES_THROTTLED_MAX: u64 = 64 << 20;

/// Pending blocks that one round trip reads.
const PENDING_AT_ONCE: u32 = 64;

/// Blocks deleted at the same time.
const DELETES_AT_ONCE: usize = 8;

/// How often a pass asks whether every session has let go: at first, and at most.
const PATIENCE_MIN: Duration = Duration::from_millis(10);
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// Passes of one [`Upkeep::reap_now`].
const PASSES_MAX: u32 = 1_000;

/// How many of them in a row may do nothing although something is dead.
const VAIN_PASSES_MAX: u32 = 8;

/// An orphan as collected.
#[derive(Clone, Debug)]
struct Dead {
    ino: Ino,
    key: Key,
    value: Value,
    orphan: Orphan,
}

impl Dead {
    fn decode(entry: &Entry) -> Result<Dead, VolumeError> {
        let orphan = Orphan::decode(&entry.key, &entry.value)
            .map_err(|error| corrupt(&entry.key, &error))?;
        let suffix = <[u8; 8]>::try_from(entry.key.suffix())
            .map_err(|_| VolumeError::Corrupt(format!("no orphan's key: {:?}", entry.key)))?;
        let ino = Ino(u64::from_be_bytes(suffix));
        Ok(Dead { ino, key: entry.key.clone(), value: entry.value.clone(), orphan })
    }

    /// Whether somebody reads on what would be let go of.
    fn is_held(&self, held: &HashMap<Ino, Held>) -> bool {
        let versions = |ino| held.get(ino) == Some(&Held::Versions);
        match &self.orphan {
            Orphan::File { .. } => held.contains_key(&self.ino),
            Orphan::Moved { owner, .. } => versions(owner),
            Orphan::Hidden { owner, pages, .. } => {
                versions(owner) || !pages.is_empty() && versions(&REPLACED_PAGES)
            }
            // Nobody was left who could read it when it was detached.
            Orphan::Detached { .. } | Orphan::Bucket | Orphan::Upload { .. } => false,
        }
    }

    /// Bytes of the blocks that a write has hidden at least some of.
    fn hidden_bytes(&self) -> u64 {
        let Orphan::Hidden { blocks, .. } = &self.orphan else { return 0 };
        blocks.iter().map(|hidden| u64::from(hidden.block_length)).sum()
    }

    /// Guards that nobody took the orphan meanwhile.
    fn guard(&self) -> Guard {
        Guard::Equals(self.key.clone(), self.value.clone())
    }
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Files, parts and uploads that are gone, and what was left of bytes that were moved or hidden.
    pub orphans: u64,
    /// Blocks that are gone.
    pub blocks: u64,
}

impl Upkeep {
    /// Deletes what is dead, until nothing is. Waits for readers that hold on to it, on every
    /// gateway, but for those that last and hold their files, and for as long as freed blocks are
    /// kept; completed uploads that still answer stay.
    pub async fn reap_now(&self) -> Result<Reaped, VolumeError> {
        let (mut all, mut vain) = (Reaped::default(), 0);
        for _ in 0..PASSES_MAX {
            match self.reap_once(Priority::Urgent).await? {
                None => match self.reaping.lock().await.due {
                    None => return Ok(all),
                    Some(due) => self.wait_until(due).await?,
                },
                Some(pass) if pass == Reaped::default() => vain += 1,
                Some(pass) => {
                    all.orphans += pass.orphans;
                    all.blocks += pass.blocks;
                    vain = 0;
                }
            }
            // Something changed under each of these passes, or it is beyond what a reaper knows.
            if vain == VAIN_PASSES_MAX {
                return Ok(all);
            }
        }
        Err(VolumeError::Unavailable("things die faster than they are reaped".to_owned()))
    }

    /// One pass; `None` if nothing was dead.
    pub async fn reap_once(&self, priority: Priority) -> Result<Option<Reaped>, VolumeError> {
        let mut memory = self.reaping.lock().await;
        let epoch = self.read_epoch().await?;
        // What is held now is none of this pass: it must not stand in the way of the rest.
        let mut held = self.session.held_files().await?;
        let (mut dead, more) = self.collect(&held).await?;
        let idle = dead.is_empty();
        let buckets: HashSet<Ino> =
            dead.iter().filter(|dead| dead.orphan == Orphan::Bucket).map(|dead| dead.ino).collect();
        let mut named = HashMap::new();
        let detached = |dead: &Dead| matches!(dead.orphan, Orphan::Detached { .. });
        if dead.iter().any(|dead| !detached(dead)) {
            named = self.still_named(&dead).await?;
            let passed = self.advance_epoch(epoch).await?;
            self.wait_for_readers(passed).await?;
            // Whoever reads on since then holds the one file.
            held = self.session.held_files().await?;
        }
        dead.retain(|dead| !dead.is_held(&held));
        // What dies faster than this is reaped would pile up.
        let hidden: u64 = dead.iter().map(Dead::hidden_bytes).sum();
        let piles_up = more || hidden > HIDDEN_BYTES_THROTTLED_MAX;
        let priority = if piles_up { Priority::Urgent } else { priority };
        let mut reaped = Reaped::default();
        reaped.orphans += self.reap_files(&dead, priority).await?;
        reaped.orphans += self.reap_moved(&dead, priority).await?;
        reaped.orphans += self.reap_hidden(&dead, named, priority).await?;
        reaped.orphans += self.reap_uploads(&dead, &buckets, priority).await?;
        reaped.orphans += self.reap_expired(priority).await?;
        reaped.orphans += self.reap_buckets(&dead, more).await?;
        reaped.blocks = self.delete_pending(&mut memory, priority).await?;
        self.meters.files_reaped.add(reaped.orphans);
        Ok(if idle && reaped == Reaped::default() { None } else { Some(reaped) })
    }

    async fn wait_until(&self, due: Instant) -> Result<(), VolumeError> {
        tokio::select! {
            () = self.session.closing().cancelled() => Err(closing()),
            () = tokio::time::sleep_until(due) => Ok(()),
        }
    }

    /// The orphans that nobody holds, as many as one pass takes, and whether there may be more.
    async fn collect(&self, held: &HashMap<Ino, Held>) -> Result<(Vec<Dead>, bool), VolumeError> {
        let (mut start, end) = key::partition(space::ORPHAN, 0);
        let limit = ORPHANS_AT_ONCE.min(self.session.limits().range_records);
        let mut dead = Vec::new();
        while dead.len() < ORPHANS_PER_PASS {
            let page = self.read_range(start, end.clone(), limit).await?;
            for entry in &page {
                match Dead::decode(entry) {
                    Ok(orphan) if orphan.is_held(held) => {}
                    Ok(orphan) => dead.push(orphan),
                    Err(why) => self.keep_damaged(&entry.key, &why),
                }
            }
            match page.last() {
                Some(last) if page.len() >= limit as usize => start = after(&last.key),
                _ => return Ok((dead, false)),
            }
        }
        Ok((dead, true))
    }

    /// Keeps something dead whose record cannot be read.
    fn keep_damaged(&self, at: &Key, why: &VolumeError) {
        if self.damaged.note(at, why) {
            self.meters.damaged_kept.add(1);
        }
    }

    pub(crate) async fn read_range(
        &self,
        start: Key,
        end: Key,
        limit: u32,
    ) -> Result<Vec<Entry>, VolumeError> {
        let read = Read::Range { start, end, limit, follow: None };
        Ok(entries(self.session.store().read(&[read]).await?.into_iter().next()))
    }

    async fn read_epoch(&self) -> Result<(Sequence, Value), VolumeError> {
        let at = key::epoch();
        let found =
            self.session.store().read(&[Read::Record { key: at.clone(), follow: None }]).await?;
        let missing = || VolumeError::Corrupt("the epoch is missing".to_owned());
        let record = value(found.first()).ok_or_else(missing)?;
        let epoch = Sequence::decode(&at, &record).map_err(|error| corrupt(&at, &error))?;
        Ok((epoch, record))
    }

    /// Moves the epoch on. Readers of the new epoch cannot have seen what was collected before it
    /// began. So an epoch that somebody else began is not enough: it may have begun earlier.
    async fn advance_epoch(&self, seen: (Sequence, Value)) -> Result<u64, VolumeError> {
        let at = key::epoch();
        let (mut epoch, mut record) = seen;
        let others = other_sessions(&**self.session.store(), self.session.nonce()).await?;
        let reached = others
            .iter()
            .map(ObservedSession::passed)
            .fold(self.session.epochs().current(), u64::max);
        loop {
            // A store that was put back may have forgotten an epoch in which somebody reads.
            let next = Sequence(epoch.0.max(reached) + 1);
            let plan = Plan {
                guards: vec![Guard::Equals(at.clone(), record.clone())],
                writes: vec![Write::Put(at.clone(), next.encode(&at))],
            };
            match self.session.commit_plan(plan).await {
                Outcome::Committed => {
                    self.session.epochs().observe(next.0);
                    return Ok(next.0);
                }
                Outcome::Failed(error) => return Err(error),
                Outcome::Refused { .. } | Outcome::Aborted(_) => {
                    (epoch, record) = self.read_epoch().await?;
                }
            }
        }
    }

    /// Waits until nobody anywhere reads in an epoch before this one.
    async fn wait_for_readers(&self, epoch: u64) -> Result<(), VolumeError> {
        let mut pause = PATIENCE_MIN;
        loop {
            let own = self.session.epochs().passed() >= epoch;
            if own {
                let others = other_sessions(&**self.session.store(), self.session.nonce()).await?;
                if others.iter().all(|session| session.passed() >= epoch) {
                    return Ok(());
                }
            }
            tokio::select! {
                () = self.session.closing().cancelled() => return Err(closing()),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PATIENCE_MAX);
        }
    }

    /// Ends buckets of which nothing is left: no upload, and no orphan among all that there are.
    async fn reap_buckets(&self, dead: &[Dead], more: bool) -> Result<u64, VolumeError> {
        let (mut reaped, mut empty) = (0, Vec::new());
        for bucket in dead.iter().filter(|dead| dead.orphan == Orphan::Bucket) {
            let (start, end) = key::uploads(bucket.ino);
            let uploads = self.read_range(start, end, 100).await?;
            if uploads.is_empty() {
                empty.push(bucket);
            } else {
                reaped += self.end_uploads(bucket, uploads).await?;
            }
        }
        if more || empty.is_empty() {
            return Ok(reaped);
        }
        // Nothing can be removed from a bucket that is gone, so no new orphans come. But some may
        // have come after the pass had read past their place.
        let waiting = self.buckets_of_orphans().await?;
        for bucket in empty {
            if waiting.as_ref().is_none_or(|waiting| waiting.contains(&bucket.ino)) {
                continue;
            }
            let plan = Plan {
                guards: vec![bucket.guard()],
                writes: vec![
                    Write::Delete(bucket.key.clone()),
                    Write::Clear(key::counter(bucket.ino, key::CounterKind::Bytes)),
                ],
            };
            reaped += progress(self.session.commit_plan(plan).await)?;
        }
        Ok(reaped)
    }

    /// The buckets whose bytes orphans count among, all of them. `None` if one cannot be read: it
    /// may be of any bucket.
    async fn buckets_of_orphans(&self) -> Result<Option<HashSet<Ino>>, VolumeError> {
        let (mut start, end) = key::partition(space::ORPHAN, 0);
        let limit = ORPHANS_AT_ONCE.min(self.session.limits().range_records);
        let mut buckets = HashSet::new();
        loop {
            let page = self.read_range(start, end.clone(), limit).await?;
            for entry in &page {
                match Orphan::decode(&entry.key, &entry.value) {
                    Ok(Orphan::File { bucket } | Orphan::Detached { bucket, .. }) => {
                        buckets.insert(bucket);
                    }
                    Ok(
                        Orphan::Bucket
                        | Orphan::Upload { .. }
                        | Orphan::Moved { .. }
                        | Orphan::Hidden { .. },
                    ) => {}
                    Err(_) => return Ok(None),
                }
            }
            match page.last() {
                Some(last) if page.len() >= limit as usize => start = after(&last.key),
                _ => return Ok(Some(buckets)),
            }
        }
    }

    /// Deletes pending blocks that have waited for the grace, then the records that name them. A
    /// block that cannot be deleted now stays pending.
    async fn delete_pending(
        &self,
        memory: &mut ReaperMemory,
        priority: Priority,
    ) -> Result<u64, VolumeError> {
        let grace = grace::in_force(self.deletion_grace, self.session.store().durability());
        let deleted = self.delete_those_due(&mut memory.waiting, grace, priority).await;
        match deleted {
            Ok(_) => memory.due = memory.waiting.end_pass(grace),
            Err(_) => memory.waiting.break_off(),
        }
        deleted
    }

    async fn delete_those_due(
        &self,
        waiting: &mut PendingAges,
        grace: Duration,
        priority: Priority,
    ) -> Result<u64, VolumeError> {
        let (mut start, end) = key::partition(space::PENDING, 0);
        let mut deleted = 0;
        loop {
            let step = self.session.throttle().begin_step(priority);
            let found = self.read_range(start, end.clone(), PENDING_AT_ONCE).await?;
            let Some(last) = found.last() else { return Ok(deleted) };
            start = after(&last.key);
            let due = found.into_iter().filter_map(|entry| {
                let block = BlockId(entry.key.suffix().try_into().ok()?);
                waiting.has_waited(block, grace).then_some((entry.key, block))
            });
            let gone: Vec<Key> = stream::iter(due.collect::<Vec<_>>())
                .map(|(key, block)| self.delete_block_of(key, block))
                .buffer_unordered(DELETES_AT_ONCE)
                .filter_map(std::future::ready)
                .collect()
                .await;
            if !gone.is_empty() {
                deleted += gone.len() as u64;
                self.meters.blocks_reaped.add(gone.len() as u64);
                let writes = gone.into_iter().map(Write::Delete).collect();
                progress(self.session.commit_plan(Plan { guards: Vec::new(), writes }).await)?;
            }
            self.session.throttle().pause_after(step).await;
        }
    }

    /// Deletes the block of a pending record; answers the record's key if it is gone.
    async fn delete_block_of(&self, key: Key, id: BlockId) -> Option<Key> {
        let deleting = tokio::time::timeout(self.staging.deadlines.block, self.blocks.delete(id));
        match deleting.await {
            Ok(Ok(())) => Some(key),
            Ok(Err(error)) => {
                warn!(block = %id, %error, "a dead block could not be deleted yet");
                None
            }
            Err(_late) => {
                warn!(block = %id, "a dead block could not be deleted in time");
                None
            }
        }
    }
}

/// Whether a step of the reaper happened. A refusal means that somebody else did it, or that the
/// next pass must look again.
fn progress(outcome: Outcome) -> Result<u64, VolumeError> {
    match outcome {
        Outcome::Committed => Ok(1),
        Outcome::Refused { .. } | Outcome::Aborted(_) => Ok(0),
        Outcome::Failed(error) => Err(error),
    }
}

/// The first key behind this one.
pub(crate) fn after(key: &Key) -> Key {
    Key::from_bytes([key.as_bytes(), &[0]].concat())
}

/// Reaps whenever something died, and now and then, for as long as the volume lives.
pub(crate) async fn reap_always(volume: std::sync::Weak<Upkeep>) {
    loop {
        let Some(alive) = volume.upgrade() else { return };
        let (closing, orphaned) =
            (alive.session.closing().clone(), Arc::clone(alive.session.orphaned()));
        let due = alive.reaping.lock().await.due;
        drop(alive);
        let look = Instant::now() + REAP_INTERVAL;
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep_until(due.map_or(look, |due| due.min(look))) => {}
            () = orphaned.notified() => tokio::time::sleep(REAP_DELAY).await,
        }
        let Some(alive) = volume.upgrade() else { return };
        if alive.session.closing().is_cancelled() || alive.session.is_fenced() {
            return;
        }
        match alive.reap_once(Priority::Background).await {
            Ok(None) => {}
            // What is left was not to be reaped now; it is looked at again in a while.
            Ok(Some(reaped)) if reaped == Reaped::default() => {}
            Ok(Some(reaped)) => {
                debug!(orphans = reaped.orphans, blocks = reaped.blocks, "reaped");
                // There was a notification of what died meanwhile, but maybe none of what this pass
                // left.
                alive.session.orphaned().notify_one();
            }
            Err(error) if alive.session.closing().is_cancelled() => debug!(%error, "reaping ended"),
            Err(error) => {
                warn!(%error, "reaping failed; it is tried again");
                // What is due by now would be tried again at once, and over and over.
                alive.reaping.lock().await.due = None;
            }
        }
    }
}
