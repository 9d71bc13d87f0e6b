//! The reaper: deletes files, parts, uploads and blocks that records mark as dead, once no reader
//! can be using them.
//!
//! Roles:
//!
//! - A *planner* never drops the last reference to a block. Its plan leaves an *orphan*: a record
//!   that names the dead file, upload or bucket, or the old places of moved or overwritten bytes.
//! - A *pass* of the reaper collects orphans, increments the volume's epoch, and waits until every
//!   session has ended all reads that it began in earlier epochs.
//! - It then removes the references of each orphan. In the same plans it lists the freed blocks as
//!   *pending*, so that after a crash at any point a record shows the blocks that are still to be
//!   deleted.
//! - Last, it deletes pending blocks from the block store, and then their records. Freed blocks are
//!   kept for a while if the metadata store may lose the commit that freed them: see `grace`.
//!
//! *Trigger*: a notification that an orphan was written, [`REAP_DELAY`] later; else every
//! [`REAP_INTERVAL`]. *Limits*: [`ORPHANS_PER_PASS`] orphans per pass, and [`DELETES_AT_ONCE`]
//! deletions at a time.
//!
//! **Invariant.** A block becomes pending only after every read that may have found a reference to
//! it has ended. A reader pins the epoch in which it reads records. The reaper increments the epoch
//! after it has collected the orphans, so readers of the new epoch cannot have seen the references
//! of these orphans, and it waits for all others. For example, a client downloads `a` while another
//! one deletes it. The delete leaves an orphan. The download pins epoch 7, so the pass that began
//! epoch 8 waits until the download has ended, or until the download holds the file by a record of
//! its own. In the latter case the orphan stays for a later pass.
//!
//! Every step may be repeated, and two reapers at once do no harm, because each plan guards the
//! orphan that it processes. [`release`] has the steps by which an owner releases a block, and the
//! reasons why that is safe for blocks of several owners.
//!
//! An orphan whose records cannot be decoded is kept, and does not stop the others: see
//! [`crate::damaged`]. A completed upload that still has to answer repeated requests is no orphan
//! once its parts are gone: see [`uploads`].
//!
//! The reaper does not know blocks that no record references. The sweeper deletes those.

mod files;
mod hidden;
mod owners;
mod release;
mod uploads;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use record::{BlockId, HoldScope, Ino, Orphan, Sequence, key, key::space};
use session::{
    ObservedSession, Outcome, Priority, VolumeError, closing, corrupt, entries, other_sessions,
    value,
};
use store::{Entry, Guard, Key, Plan, Read, Value, Write};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::grace::{self, PendingAges};
use crate::upkeep::{ReaperMemory, Upkeep};

/// The inode number under which a hold keeps all replaced pages of content maps. The root has no
/// content, so its number is free for this.
pub(crate) const REPLACED_PAGES: Ino = Ino::ROOT;

/// The interval of the reaper's passes without a notification.
pub const REAP_INTERVAL: Duration = Duration::from_mins(1);

/// The delay between a notification of a deleted file and the reaper's pass, so that one pass
/// serves several deletes.
const REAP_DELAY: Duration = Duration::from_millis(500);

const _: () = assert!(REAP_DELAY.as_millis() < REAP_INTERVAL.as_millis());

/// The time for which a completed upload answers a repeated completion.
pub const UPLOAD_RESULT_KEPT: Duration = Duration::from_hours(24);

/// The most orphans (records of dead files, uploads or bytes) that one pass processes.
const ORPHANS_PER_PASS: usize = 30_000;

/// Orphans (records of dead files, uploads or bytes) that one round trip reads.
const ORPHANS_AT_ONCE: u32 = 1_000;

/// A pass that releases more hidden bytes than this is not throttled, because a program that
/// overwrites a file at random hides bytes as fast as it writes.
const HIDDEN_BYTES_THROTTLED_MAX: u64 = 64 << 20;

/// Pending blocks, which await deletion, that one round trip reads.
const PENDING_AT_ONCE: u32 = 64;

/// Blocks that the reaper deletes at the same time.
const DELETES_AT_ONCE: usize = 8;

/// The shortest and the longest pause between two checks if all readers have ended.
const READERS_PAUSE_MIN: Duration = Duration::from_millis(10);
const READERS_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The most passes of one [`Upkeep::reap_now`].
const PASSES_MAX: u32 = 1_000;

/// [`Upkeep::reap_now`] ends after this many passes in a row without an effect, although orphans
/// (records of dead data) are left.
const IDLE_PASSES_MAX: u32 = 8;

/// An orphan that a pass has collected: a record of a dead file, upload or bucket, or of old places
/// of bytes.
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
        let suffix = <[u8; 8]>::try_from(entry.key.suffix()).map_err(|_| {
            VolumeError::Corrupt(format!("not the key of an orphan: {:?}", entry.key))
        })?;
        let ino = Ino(u64::from_be_bytes(suffix));
        Ok(Dead { ino, key: entry.key.clone(), value: entry.value.clone(), orphan })
    }

    /// Returns true if a hold record of a session keeps the file, version or page that the orphan
    /// (the record of dead data) would release. `held` has the held files.
    fn is_held(&self, held: &HashMap<Ino, HoldScope>) -> bool {
        let versions = |ino| held.get(ino) == Some(&HoldScope::Versions);
        match &self.orphan {
            Orphan::File { .. } => held.contains_key(&self.ino),
            Orphan::Hidden { owner, pages, .. } => {
                versions(owner) || !pages.is_empty() && versions(&REPLACED_PAGES)
            }
            // No reader was left when the inode was detached.
            Orphan::Detached { .. } | Orphan::Bucket | Orphan::Upload { .. } => false,
        }
    }

    /// Returns the content size in bytes of the blocks, not packs, that the orphan lists because a
    /// write has hidden bytes of them.
    fn hidden_bytes(&self) -> u64 {
        let Orphan::Hidden { blocks, .. } = &self.orphan else { return 0 };
        // The release of one share of a pack frees no bytes by itself.
        let own = blocks.iter().filter(|hidden| !hidden.block.is_pack());
        own.map(|hidden| u64::from(hidden.block_length)).sum()
    }

    /// Returns the guard that no other reaper has processed the orphan, the record of dead data,
    /// meanwhile.
    fn guard(&self) -> Guard {
        Guard::Equals(self.key.clone(), self.value.clone())
    }
}

/// The result of a pass of the reaper, which deletes dead data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Orphans that were processed: records of dead files, parts and uploads, and of old places of
    /// bytes that were moved or overwritten.
    pub orphans: u64,
    /// Blocks that were deleted.
    pub blocks: u64,
}

impl Upkeep {
    /// Deletes everything that is dead. Waits for readers on every gateway, except those that hold
    /// their files by records, and for the deletion grace. Completed uploads that still answer
    /// stay. Orphans that cannot be processed stay as well: it ends after `IDLE_PASSES_MAX` passes
    /// without an effect.
    ///
    /// # Errors
    /// Fails with `Unavailable` if new orphans keep coming for `PASSES_MAX` passes or if the
    /// volume is closing, and with the errors of the metadata store.
    pub async fn reap_now(&self) -> Result<Reaped, VolumeError> {
        let (mut all, mut idle_passes) = (Reaped::default(), 0);
        for _ in 0..PASSES_MAX {
            match self.reap_once(Priority::Urgent).await? {
                None => match self.reaping.lock().await.due {
                    None => return Ok(all),
                    Some(due) => self.wait_until(due).await?,
                },
                Some(pass) if pass == Reaped::default() => idle_passes += 1,
                Some(pass) => {
                    all.orphans += pass.orphans;
                    all.blocks += pass.blocks;
                    idle_passes = 0;
                }
            }
            // In each of these passes something changed before the commit, or the orphans are of a
            // kind that this release does not know.
            if idle_passes == IDLE_PASSES_MAX {
                return Ok(all);
            }
        }
        Err(VolumeError::Unavailable(
            "files are deleted faster than the reaper removes them; run gc again".to_owned(),
        ))
    }

    /// Runs one pass of the reaper: deletes dead data once no reader can be using it. The pass
    /// pauses by `priority` while requests are served. Returns `None` if there was nothing to
    /// process. Fails with `Unavailable` if the volume is closing, and with the errors of the
    /// metadata store.
    pub async fn reap_once(&self, priority: Priority) -> Result<Option<Reaped>, VolumeError> {
        let mut memory = self.reaping.lock().await;
        let epoch = self.read_epoch().await?;
        // Files that are held now are left to a later pass, so that the pass does not wait for
        // their readers.
        let mut held = self.session.held_files().await?;
        let (mut dead, more) = self.collect(&held).await?;
        // Pending blocks and expired uploads may remain even if there are no orphans.
        let idle = dead.is_empty();
        let buckets: HashSet<Ino> =
            dead.iter().filter(|dead| dead.orphan == Orphan::Bucket).map(|dead| dead.ino).collect();
        let mut referenced = HashMap::new();
        let detached = |dead: &Dead| matches!(dead.orphan, Orphan::Detached { .. });
        // Detached inodes were awaited before they were detached, so a pass with only these need
        // not wait.
        if dead.iter().any(|dead| !detached(dead)) {
            // References must be counted before the epoch moves on, and once more after readers
            // have ended: see `hidden`.
            referenced = self.find_still_referenced(&dead).await?;
            let passed = self.advance_epoch(epoch).await?;
            self.wait_for_readers(passed).await?;
            // A long reader may have replaced its pin by a hold on its file meanwhile.
            held = self.session.held_files().await?;
        }
        dead.retain(|dead| !dead.is_held(&held));
        // Orphans would accumulate if the pass were throttled now.
        let hidden: u64 = dead.iter().map(Dead::hidden_bytes).sum();
        let is_behind = more || hidden > HIDDEN_BYTES_THROTTLED_MAX;
        let priority = if is_behind { Priority::Urgent } else { priority };
        let mut reaped = Reaped::default();
        reaped.orphans += self.reap_files(&dead, priority).await?;
        // Hidden blocks are released after files, so that a deleted owner's share is released only
        // once.
        reaped.orphans += self.reap_hidden(&dead, referenced, priority).await?;
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

    /// Reads the orphans (records of dead data) that no hold record of a session keeps, at most
    /// `ORPHANS_PER_PASS`. The second value is true if there may be more.
    async fn collect(
        &self,
        held: &HashMap<Ino, HoldScope>,
    ) -> Result<(Vec<Dead>, bool), VolumeError> {
        let (mut start, end) = key::partition(space::ORPHAN, 0);
        let limit = ORPHANS_AT_ONCE.min(self.session.limits().range_records);
        let mut dead = Vec::new();
        while dead.len() < ORPHANS_PER_PASS {
            let page = self.read_range(start, end.clone(), limit).await?;
            for entry in &page {
                match Dead::decode(entry) {
                    Ok(orphan) if orphan.is_held(held) => {}
                    Ok(orphan) => dead.push(orphan),
                    Err(why) => self.report_damaged(&entry.key, &why),
                }
            }
            match page.last() {
                Some(last) if page.len() >= limit as usize => start = key_after(&last.key),
                _ => return Ok((dead, false)),
            }
        }
        Ok((dead, true))
    }

    /// Keeps an orphan (record of dead data) whose records cannot be decoded, and logs an error the
    /// first time.
    fn report_damaged(&self, at: &Key, why: &VolumeError) {
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
        let missing = || VolumeError::Corrupt("the epoch record is missing".to_owned());
        let record = value(found.first()).ok_or_else(missing)?;
        let epoch = Sequence::decode(&at, &record).map_err(|error| corrupt(&at, &error))?;
        Ok((epoch, record))
    }

    /// Increments the volume's epoch, the counter that separates earlier readers from later ones.
    /// Readers of the new epoch cannot have seen the references that the orphans (records of dead
    /// data) collected before will release. An epoch that another session began meanwhile is not
    /// enough, because it may have begun before the collection. Returns the new epoch.
    async fn advance_epoch(&self, seen: (Sequence, Value)) -> Result<u64, VolumeError> {
        let at = key::epoch();
        let (mut epoch, mut record) = seen;
        let others = other_sessions(&**self.session.store(), self.session.nonce()).await?;
        let reached = others
            .iter()
            .map(ObservedSession::passed)
            .fold(self.session.epochs().current(), u64::max);
        loop {
            // A restored metadata store may have lost an epoch in which a session reads, so the new
            // one exceeds every epoch that any session has reported.
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

    /// Waits until no session has a reader that began in an epoch before this one, so that no
    /// reader can use the data that died before it.
    async fn wait_for_readers(&self, epoch: u64) -> Result<(), VolumeError> {
        let mut pause = READERS_PAUSE_MIN;
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
            pause = (pause * 2).min(READERS_PAUSE_MAX);
        }
    }

    /// Removes deleted buckets that have no upload and no orphan (record of dead data) left.
    /// Returns the number of committed plans.
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
        // No file can be removed from a deleted bucket, so no new orphans of it appear. But some
        // may have been written behind the position of this pass while it collected.
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
            reaped += committed_steps(self.session.commit_plan(plan).await)?;
        }
        Ok(reaped)
    }

    /// Returns the buckets whose byte counters include a file that awaits the reaper. Returns
    /// `None` if an orphan (record of a dead file) cannot be decoded, because it may belong to any
    /// bucket.
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
                    Ok(Orphan::Bucket | Orphan::Upload { .. } | Orphan::Hidden { .. }) => {}
                    Err(_) => return Ok(None),
                }
            }
            match page.last() {
                Some(last) if page.len() >= limit as usize => start = key_after(&last.key),
                _ => return Ok(Some(buckets)),
            }
        }
    }

    /// Deletes pending blocks (those that records list for deletion) which have waited for the
    /// deletion grace, and then their records. A block whose deletion fails stays pending. Returns
    /// the number of deleted blocks.
    async fn delete_pending(
        &self,
        memory: &mut ReaperMemory,
        priority: Priority,
    ) -> Result<u64, VolumeError> {
        let grace = grace::effective_grace(self.deletion_grace, self.session.store().durability());
        let deleted = self.delete_due(&mut memory.waiting, grace, priority).await;
        match deleted {
            Ok(_) => memory.due = memory.waiting.end_pass(grace),
            Err(_) => memory.waiting.keep_incomplete_pass(),
        }
        deleted
    }

    async fn delete_due(
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
            start = key_after(&last.key);
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
                // The record is removed only after the block, so a crash in between leaves a
                // pending record of a missing block, whose deletion succeeds.
                deleted += gone.len() as u64;
                self.meters.blocks_reaped.add(gone.len() as u64);
                let writes = gone.into_iter().map(Write::Delete).collect();
                committed_steps(
                    self.session.commit_plan(Plan { guards: Vec::new(), writes }).await,
                )?;
            }
            self.session.throttle().pause_after(step).await;
        }
    }

    /// Deletes a block that a record lists for deletion. Returns the record's `key` if the block is
    /// gone, and `None` if the deletion failed.
    async fn delete_block_of(&self, key: Key, id: BlockId) -> Option<Key> {
        let deleting = tokio::time::timeout(self.staging.deadlines.block, self.blocks.delete(id));
        match deleting.await {
            Ok(Ok(())) => Some(key),
            Ok(Err(error)) => {
                warn!(block = %id, %error, "deleting a freed block failed; retrying later");
                None
            }
            Err(_late) => {
                warn!(block = %id, "deleting a freed block timed out; retrying later");
                None
            }
        }
    }
}

/// Returns 1 if a plan of the reaper was committed and 0 if it was refused. A refusal means that
/// another reaper did the step, or that the next pass must look again.
fn committed_steps(outcome: Outcome) -> Result<u64, VolumeError> {
    match outcome {
        Outcome::Committed => Ok(1),
        Outcome::Refused { .. } | Outcome::Aborted(_) => Ok(0),
        Outcome::Failed(error) => Err(error),
    }
}

/// Returns the first possible key after this one.
pub(crate) fn key_after(key: &Key) -> Key {
    Key::from_bytes([key.as_bytes(), &[0]].concat())
}

/// Runs a pass after each notification and at least every [`REAP_INTERVAL`], until the volume is
/// closed.
pub(crate) async fn run_reaper(volume: std::sync::Weak<Upkeep>) {
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
            // The remaining orphans are not to be reaped yet. The next regular pass looks at them.
            Ok(Some(reaped)) if reaped == Reaped::default() => {}
            Ok(Some(reaped)) => {
                debug!(orphans = reaped.orphans, blocks = reaped.blocks, "reaped");
                // Orphans that were written during this pass sent a notification, but those that
                // this pass left over did not.
                alive.session.orphaned().notify_one();
            }
            Err(error) if alive.session.closing().is_cancelled() => debug!(%error, "reaping ended"),
            Err(error) => {
                warn!(%error, "a reaper pass failed; retrying later");
                // Otherwise the overdue time would start the next pass at once, in a loop.
                alive.reaping.lock().await.due = None;
            }
        }
    }
}
