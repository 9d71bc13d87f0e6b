//! The sweeper: deletes blocks that no record references, and other remains of ended sessions.
//!
//! Roles:
//!
//! - It *lists* the blocks of sessions that have ended. Only these are candidates: no plan of such
//!   a session can be committed any more, so a block without a reference stays without one.
//! - It then *reads all references*, one record space after the other. Each block that was listed
//!   and not referenced is looked up once more by itself, and then deleted.
//! - It also removes the staged records, the idempotency slots and the fence records of ended
//!   sessions.
//!
//! *Trigger*: [`SWEEP_DELAY`] after the start of this process; about as long after another session
//! has begun or ended; else every [`SWEEP_INTERVAL`]. *Limits*: a sweep deletes at most
//! [`SWEEP_SHARE_PERCENT`] of the blocks that it listed, or [`SWEEP_BLOCKS_ALWAYS`] blocks if that
//! is more. If more are unreferenced, it deletes none and logs a warning. If a scan is incomplete,
//! the sweep deletes nothing.
//!
//! For example, a gateway is killed after it put 300 blocks of an upload. Its session is fenced,
//! and the next sweep of another gateway finds these 300 blocks without a reference and deletes
//! them.
//!
//! **Invariant.** A block is deleted only if no record references it at the end of the scan, and
//! then no record can come to reference it.
//!
//! *Why the sweeper pins no epoch.* The scan may take hours, and files are deleted meanwhile. The
//! sweeper must not miss a block that some record R references at the end. If R existed when the
//! scan began, the scan of its space reads it. If not, one of the following plans wrote R, and each
//! needs a record that references the block at that instant:
//!
//! - *A copy* of a file, or into a part. It writes a share record of the new owner, which exists as
//!   long as R references the block. So shares are read after all other spaces, and only those of
//!   the blocks in question.
//! - *The completion of an upload*, for a part that was sent. (A copied part has a share, which it
//!   hands on.) Parts are read before files. So either the part existed until all parts had been
//!   read, or R existed before any file was read.
//! - *The reaper*, which moves references of files and parts to orphans and from there to pending
//!   blocks, and *the relocator of packs*, which leaves an orphan for the old pack. These spaces
//!   are read in this order. Again, either the source existed until its space had been read, or R
//!   existed before its own space was read. A pending block is looked up once more at the end,
//!   because the reaper has to delete it.
//! - *A write to a file, or the relocator*, which moves references from one page of a content map
//!   to a new page, or from all pages to the file's record. No order of reading covers this. So
//!   during the scan a hold keeps replaced pages from being deleted. A page that existed at the
//!   start of the scan then exists until its end. A page that did not took its references from one
//!   that did, or was written by one of the other plans. The hold delays only these pages and the
//!   blocks that the same writes have hidden.
//!
//! If the source of R did not exist when the scan began, the same argument applies to the plan that
//! wrote the source. A block that a plan puts anew is never a candidate, because its session is
//! alive. And once no record references a block, no plan can create a reference to it. Readers are
//! safe, too: a block loses its last reference by becoming pending, and that happens only after its
//! readers have ended.
//!
//! *Why the blocks of a session are looked at twice and then no more.* A block that loses its last
//! reference after the first look is deleted by the reaper. The only exception is a block whose put
//! a killed process had sent and that the block store executes late. So the second look follows an
//! hour after the first. A wrong clock may cause such a block to be left behind, but never a
//! referenced block to be deleted.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use record::key::{self, space};
use record::{BlockId, Hold, HoldScope, Ino, Nonce, Timestamp};
use session::scan::{self, CompleteScan, block_of, ino_of, nonce_of};
use session::{
    CLOSE_PATIENCE, Outcome, Priority, SESSION_SILENCE, SLOTS_MAX, VolumeError, corrupt,
    session_in_key, value,
};
use store::{Guard, Key, Plan, Read, Value, Write};
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use crate::reaper::{REPLACED_PAGES, Reaped};
use crate::references;
use crate::upkeep::Upkeep;

/// The delay of the first sweep (the deletion of blocks that ended sessions left) after the start,
/// and the least delay of a sweep after another session has begun or ended.
const SWEEP_DELAY: Duration = Duration::from_secs(5);

/// The interval of sweeps without a notification that a session has ended.
const SWEEP_INTERVAL: Duration = Duration::from_hours(1);

/// The delay of the second look at the blocks of an ended session. Puts that were on their way at
/// the first look have been executed or dropped by then.
const SWEEP_SECOND_LOOK_DELAY: Duration = Duration::from_hours(1);

// Between the two looks, a session that still lived at the first one has published its blocks, or
// was fenced.
const _: () = assert!(
    SESSION_SILENCE.as_millis() + CLOSE_PATIENCE.as_millis() < SWEEP_SECOND_LOOK_DELAY.as_millis()
);

/// The pause after the first failed sweep. It doubles with each further failure, up to
/// [`SWEEP_INTERVAL`].
const SWEEP_RETRY: Duration = Duration::from_mins(1);

/// Sweeps that several gateways start for the same notification begin at different times within
/// this span. So usually one of them does the work, and the others find nothing left.
const SPREAD: Duration = Duration::from_secs(10);

/// The share of the listed blocks that a sweep may delete, in percent.
pub const SWEEP_SHARE_PERCENT: u64 = 5;

/// The number of blocks that a sweep may delete even if their share is exceeded: about as many as a
/// killed session leaves behind.
const SWEEP_BLOCKS_ALWAYS: u64 = 1_000;

/// Blocks that a sweep deletes at the same time.
const DELETES_AT_ONCE: usize = 8;

/// The most records of ended sessions that one plan removes.
const REMOVALS_PER_PLAN: usize = 256;

/// Idempotency slots of a session that one round trip reads.
const SLOTS_AT_ONCE: usize = 256;

/// The most session records that one range reads.
const SESSIONS_AT_ONCE: u32 = 4_096;

/// The sessions whose blocks a sweep looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SweepScope {
    /// Ended sessions whose first or second look at their blocks is due.
    Due,
    /// Ended sessions whose blocks were not looked at twice.
    #[default]
    Unswept,
    /// All ended sessions.
    All,
}

/// The scope and the limits of a sweep, the deletion of blocks that ended sessions left without a
/// record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepOptions {
    /// The ended sessions whose blocks are looked at.
    pub scope: SweepScope,
    /// True to count unreferenced blocks only and delete nothing.
    pub dry_run: bool,
    /// The share of the listed blocks that may be deleted, in percent. If more are unreferenced,
    /// none is deleted, unless they are few.
    pub share_percent: u64,
}

impl Default for SweepOptions {
    fn default() -> SweepOptions {
        SweepOptions {
            scope: SweepScope::default(),
            dry_run: false,
            share_percent: SWEEP_SHARE_PERCENT,
        }
    }
}

/// The result of a sweep, the deletion of blocks and records that ended sessions left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Ended sessions that had left blocks or records.
    pub sessions: u64,
    /// Blocks of ended sessions that were listed.
    pub listed: u64,
    /// Listed blocks that no record references, so that they may be deleted.
    pub unreferenced: u64,
    /// The total sealed size (content, header and checksums) of the unreferenced blocks, in bytes.
    pub bytes: u64,
    /// Blocks that were deleted.
    pub deleted: u64,
    /// True if nothing was deleted because more than the permitted share was unreferenced.
    pub beyond_share: bool,
}

/// The result of a garbage collection: of the reaper and then the sweeper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The result of the reaper, which deletes data that records mark as dead; zero in a dry run.
    pub reaped: Reaped,
    /// The result of the sweeper, which deletes blocks that ended sessions left without a record.
    pub swept: Swept,
}

impl Upkeep {
    /// Deletes everything that records mark as dead, and then the remains of ended sessions. A dry
    /// run only counts the latter. Fails as [`Upkeep::reap_now`] and [`Upkeep::sweep`] do.
    pub async fn gc(&self, options: SweepOptions) -> Result<Collected, VolumeError> {
        let reaped = if options.dry_run { Reaped::default() } else { self.reap_now().await? };
        Ok(Collected { reaped, swept: self.sweep(options).await? })
    }

    /// Deletes the unreferenced blocks of ended sessions, and their other records. Fails if a store
    /// fails, if a record cannot be decoded, or if the volume is closing; blocks that were deleted
    /// before stay deleted.
    pub async fn sweep(&self, options: SweepOptions) -> Result<Swept, VolumeError> {
        self.sweep_at(options, Priority::Urgent).await
    }

    async fn sweep_at(
        &self,
        options: SweepOptions,
        priority: Priority,
    ) -> Result<Swept, VolumeError> {
        // Two sweeps of one process would read all references twice for nothing.
        let _one = self.sweeping.lock().await;
        let (throttling, began) = (Some((self.session.throttle(), priority)), self.session.now());
        let ended = self.ended_sessions(options.scope, began).await?;
        let mut swept = Swept { sessions: ended.all.len() as u64, ..Swept::default() };
        if !options.dry_run {
            // First, because staged records reference blocks that are unreferenced without them.
            self.remove_staged_records(&ended.all, priority).await?;
        }
        let mut sizes: HashMap<BlockId, u64> = HashMap::new();
        let mut seen = Vec::with_capacity(ended.with_blocks.len());
        for session in &ended.with_blocks {
            let listed = scan::blocks_throttled(&*self.blocks, throttling, *session).await?;
            if !listed.get().is_empty() {
                seen.push(*session);
            }
            sizes.extend(listed.get().iter().copied());
        }
        swept.listed = sizes.len() as u64;
        if !sizes.is_empty() {
            let candidates: HashSet<BlockId> = sizes.keys().copied().collect();
            // See "Why the sweeper pins no epoch" at the top of this file.
            self.hold_replaced_pages(true).await?;
            let referenced =
                references::find_referenced(&**self.session.store(), throttling, &candidates).await;
            self.hold_replaced_pages(false).await?;
            let referenced = referenced?;
            self.delete_unreferenced(&sizes, &referenced, options, &mut swept).await?;
        }
        // A sweep that deleted nothing for its share must be repeated, so it records no look.
        if !options.dry_run && !swept.beyond_share {
            self.record_sweep(&seen, &ended, began).await?;
            self.forget_sessions(&ended.all).await?;
        }
        Ok(swept)
    }

    /// Starts or ends the hold of this session that keeps replaced pages of content maps from being
    /// deleted: a record that the reaper reads. Starts it if `keep`.
    async fn hold_replaced_pages(&self, keep: bool) -> Result<(), VolumeError> {
        let at = key::hold(REPLACED_PAGES, self.session.nonce());
        let write = if keep {
            let hold = Hold { since: self.session.now(), scope: HoldScope::Versions };
            Write::Put(at.clone(), hold.encode(&at))
        } else {
            Write::Delete(at)
        };
        let plan = Plan { guards: Vec::new(), writes: vec![write] };
        match self.session.commit_plan(plan).await {
            Outcome::Committed => Ok(()),
            Outcome::Failed(error) => Err(error),
            Outcome::Refused { .. } => unreachable!("a plan without guards is not refused"),
            Outcome::Aborted(why) => Err(VolumeError::Unavailable(why)),
        }
    }

    /// Returns the ended sessions that left blocks or records, and those of them whose blocks are
    /// to be looked at in this sweep.
    async fn ended_sessions(
        &self,
        scope: SweepScope,
        now: Timestamp,
    ) -> Result<Ended, VolumeError> {
        // A session writes its record before its first block and its first plan. So a session that
        // is found here and has no record when the records are read later has ended.
        let mut with_blocks = self.blocks.sessions().await?;
        let there: BTreeSet<Nonce> = with_blocks.iter().copied().collect();
        let mut earlier_looks: BTreeMap<Nonce, (Value, record::SweptRecord)> = BTreeMap::new();
        scan::walk(&**self.session.store(), space::SWEPT, |key, value| {
            let swept = record::SweptRecord::decode(&key, &value).map_err(|e| corrupt(&key, &e))?;
            earlier_looks.insert(nonce_of(&key)?, (value, swept));
            Ok(())
        })
        .await?;
        with_blocks.retain(|session| {
            let swept = earlier_looks.get(session).map(|(_, swept)| swept);
            needs_look(swept, scope, now)
        });
        let mut all: BTreeSet<Nonce> = with_blocks.iter().copied().collect();
        scan::walk(&**self.session.store(), space::FENCED, |key, _| {
            all.extend(session_in_key(&key));
            Ok(())
        })
        .await?;
        for space in [space::STAGED, space::IDEMPOTENCY_SLOT] {
            scan::walk(&**self.session.store(), space, |key, _| {
                all.insert(nonce_of(&key)?);
                Ok(())
            })
            .await?;
        }
        let (start, end) = key::partition(space::SESSION, 0);
        let limit = SESSIONS_AT_ONCE.min(self.session.limits().range_records);
        // Session records are read last: a session that starts meanwhile is not mistaken for an
        // ended one.
        let alive = self.read_range(start, end, limit).await?;
        if alive.len() >= limit as usize {
            return Err(VolumeError::Unavailable(
                "more sessions are open than a sweep can read; close unused ones".to_owned(),
            ));
        }
        for session in alive.iter().filter_map(|entry| session_in_key(&entry.key)) {
            all.remove(&session);
        }
        with_blocks.retain(|session| all.contains(session));
        let empty =
            earlier_looks.keys().filter(|session| !there.contains(session)).copied().collect();
        Ok(Ended { all, with_blocks, earlier_looks, empty })
    }

    /// Records that the sweep, which began at `began`, has looked at all blocks of the sessions
    /// `seen`. Removes that record for sessions without blocks.
    async fn record_sweep(
        &self,
        seen: &[Nonce],
        ended: &Ended,
        began: Timestamp,
    ) -> Result<(), VolumeError> {
        for session in seen {
            let at = key::swept(*session);
            let before = ended.earlier_looks.get(session);
            let Some(now) = next_swept_record(before.map(|(_, swept)| *swept), began) else {
                continue;
            };
            let unchanged = match before {
                Some((value, _)) => Guard::Equals(at.clone(), value.clone()),
                None => Guard::Absent(at.clone()),
            };
            let writes = vec![Write::Put(at.clone(), now.encode(&at))];
            // A refusal means that another sweep has recorded its end meanwhile.
            Result::from(self.session.commit_plan(Plan { guards: vec![unchanged], writes }).await)?;
        }
        for empty in ended.empty.chunks(REMOVALS_PER_PLAN) {
            let writes = empty.iter().map(|session| Write::Delete(key::swept(*session))).collect();
            Result::from(self.session.commit_plan(Plan { guards: Vec::new(), writes }).await)?;
        }
        Ok(())
    }

    /// Deletes the listed blocks that no record references, unless they exceed the permitted share.
    async fn delete_unreferenced(
        &self,
        sizes: &HashMap<BlockId, u64>,
        referenced: &CompleteScan<HashSet<BlockId>>,
        options: SweepOptions,
        swept: &mut Swept,
    ) -> Result<(), VolumeError> {
        let mut unreferenced: Vec<(BlockId, u64)> = sizes
            .iter()
            .filter(|(block, _)| !referenced.get().contains(*block))
            .map(|(block, size)| (*block, *size))
            .collect();
        // Shares and pending blocks are read last: see the top of this file.
        let blocks: Vec<BlockId> = unreferenced.iter().map(|(block, _)| *block).collect();
        let still_used =
            references::find_shared_or_pending(&**self.session.store(), &blocks).await?;
        unreferenced.retain(|(block, _)| !still_used.contains(block));
        swept.unreferenced = unreferenced.len() as u64;
        swept.bytes = unreferenced.iter().map(|(_, size)| size).sum();
        let share = swept.listed.saturating_mul(options.share_percent) / 100;
        swept.beyond_share = swept.unreferenced > share.max(SWEEP_BLOCKS_ALWAYS);
        if options.dry_run || unreferenced.is_empty() {
            return Ok(());
        }
        if swept.beyond_share {
            warn!(
                blocks = swept.unreferenced,
                of = swept.listed,
                percent = options.share_percent,
                "more blocks are unreferenced than a sweep may delete; none was deleted; check \
                 that the metadata store and the blocks belong together, then run gc with \
                 --delete-percent-max"
            );
            return Ok(());
        }
        let deleting = stream::iter(unreferenced).map(|(block, _)| async move {
            let deleting = self.blocks.delete(block);
            match tokio::time::timeout(self.staging.deadlines.block, deleting).await {
                Ok(deleted) => deleted.map_err(VolumeError::from),
                Err(_late) => Err(VolumeError::Unavailable(format!(
                    "the block store did not delete block {block} in time"
                ))),
            }
        });
        let mut deleting = deleting.buffer_unordered(DELETES_AT_ONCE);
        while let Some(deleted) = deleting.next().await {
            deleted?;
            swept.deleted += 1;
            self.meters.blocks_swept.add(1);
        }
        info!(blocks = swept.deleted, bytes = swept.bytes, "blocks of ended sessions swept");
        Ok(())
    }

    /// Removes records that ended sessions had staged (written in advance) for plans that were
    /// never committed. Share records of other files' blocks are released as by the reaper, because
    /// the file from which they were copied may be gone.
    async fn remove_staged_records(
        &self,
        ended: &BTreeSet<Nonce>,
        priority: Priority,
    ) -> Result<(), VolumeError> {
        let mut marks: HashMap<Ino, Key> = HashMap::new();
        scan::walk(&**self.session.store(), space::STAGED, |key, _| {
            if ended.contains(&nonce_of(&key)?) {
                marks.insert(ino_of(&key)?, key);
            }
            Ok(())
        })
        .await?;
        if marks.is_empty() {
            return Ok(());
        }
        let mut pages: HashMap<Ino, Vec<Key>> = HashMap::new();
        let mut others: HashMap<Ino, Vec<Key>> = HashMap::new();
        let mut shares: HashMap<Ino, Vec<BlockId>> = HashMap::new();
        for space in [space::MAP, space::PART_SUMS, space::SHARE] {
            scan::walk_throttled(
                &**self.session.store(),
                Some((self.session.throttle(), priority)),
                space,
                |key, _| {
                    let owner = match key.space() {
                        space::SHARE => ino_of(&key)?,
                        _ => Ino(key.partition()),
                    };
                    if !marks.contains_key(&owner) {
                        return Ok(());
                    }
                    if space == space::SHARE && !block_of(&key)?.is_pack() {
                        shares.entry(owner).or_default().push(block_of(&key)?);
                    } else {
                        let staged = if space == space::MAP { &mut pages } else { &mut others };
                        staged.entry(owner).or_default().push(key);
                    }
                    Ok(())
                },
            )
            .await?;
        }
        for (ino, mark) in marks {
            // A plan that publishes staged records removes the mark, so nothing was published while
            // the mark exists.
            let staged = Guard::Present(mark.clone());
            let pages = pages.remove(&ino).unwrap_or_default();
            // The counters of packs are adjusted first, while the pages still show by how many
            // bytes.
            self.release_packs(&staged, &pages, ino).await?;
            let blocks = shares.remove(&ino).unwrap_or_default();
            self.release_shares(&staged, &blocks, ino).await?;
            let mut keys = others.remove(&ino).unwrap_or_default();
            keys.extend(pages);
            keys.push(mark);
            for keys in keys.chunks(REMOVALS_PER_PLAN) {
                let writes = keys.iter().cloned().map(Write::Delete).collect();
                let plan = Plan { guards: vec![staged.clone()], writes };
                Result::from(self.session.commit_plan(plan).await)?;
            }
            debug!(ino = ino.0, "removed the staged records of an ended session");
        }
        Ok(())
    }

    /// Returns the keys of those idempotency slots of a session (records that prove if its plans
    /// were committed) that exist.
    async fn slots_of(&self, session: Nonce) -> Result<Vec<Key>, VolumeError> {
        let all: Vec<Key> =
            (0..SLOTS_MAX).map(|slot| key::idempotency_slot(session, slot)).collect();
        let mut there = Vec::new();
        for keys in all.chunks(SLOTS_AT_ONCE.min(self.session.limits().reads).max(1)) {
            let record = |key: &Key| Read::Record { key: key.clone(), follow: None };
            let reads: Vec<Read> = keys.iter().map(record).collect();
            let found = self.session.store().read(&reads).await?;
            let records = keys.iter().zip(&found);
            there
                .extend(records.filter(|(_, it)| value(Some(it)).is_some()).map(|it| it.0.clone()));
        }
        Ok(there)
    }

    /// Removes the last records of ended sessions: their idempotency slots, which prove if a plan
    /// was committed, and their fence records.
    async fn forget_sessions(&self, ended: &BTreeSet<Nonce>) -> Result<(), VolumeError> {
        for session in ended {
            let mut keys = self.slots_of(*session).await?;
            keys.push(key::fenced(*session));
            for keys in keys.chunks(REMOVALS_PER_PLAN) {
                let writes = keys.iter().cloned().map(Write::Delete).collect();
                let guards = vec![Guard::Absent(key::session(*session))];
                Result::from(self.session.commit_plan(Plan { guards, writes }).await)?;
            }
        }
        Ok(())
    }
}

/// The sessions that have ended, as one sweep has read them.
#[derive(Debug)]
struct Ended {
    /// Ended sessions that left blocks or records.
    all: BTreeSet<Nonce>,
    /// Those of them whose blocks are to be looked at.
    with_blocks: Vec<Nonce>,
    /// The records of earlier looks at the blocks of sessions, for all sessions that have one.
    earlier_looks: BTreeMap<Nonce, (Value, record::SweptRecord)>,
    /// Sessions with a record of earlier looks that have no blocks any more.
    empty: Vec<Nonce>,
}

/// Returns true if [`SWEEP_SECOND_LOOK_DELAY`] has passed since `since`; false if the clock went
/// back.
fn is_due(since: Timestamp, now: Timestamp) -> bool {
    let hour = i64::try_from(SWEEP_SECOND_LOOK_DELAY.as_nanos()).unwrap_or(i64::MAX);
    now.0 >= since.0.saturating_add(hour)
}

fn needs_look(swept: Option<&record::SweptRecord>, scope: SweepScope, now: Timestamp) -> bool {
    match (swept, scope) {
        (None, _) | (_, SweepScope::All) => true,
        (Some(swept), SweepScope::Unswept) => !swept.done,
        (Some(swept), SweepScope::Due) => {
            !swept.done && (is_due(swept.since, now) || swept.since > now)
        }
    }
}

/// Returns the record to write after a look at the blocks of a session, which began at `began`.
/// `before` is the record of earlier looks, if there is one. Returns `None` if the present record
/// stays.
fn next_swept_record(
    before: Option<record::SweptRecord>,
    began: Timestamp,
) -> Option<record::SweptRecord> {
    match before {
        Some(before) if before.done => None,
        Some(before) if is_due(before.since, began) => {
            Some(record::SweptRecord { done: true, ..before })
        }
        Some(before) if before.since <= began => None,
        // There was no look before, or one that was recorded by a wrong clock.
        _ => Some(record::SweptRecord { since: began, done: false }),
    }
}

/// Sweeps after the start, after the end of each session, and every [`SWEEP_INTERVAL`], until the
/// volume is closed.
pub(crate) async fn run_sweeper(upkeep: Weak<Upkeep>, ended: Arc<Notify>) {
    let (mut wait, mut retry) = (SWEEP_DELAY, SWEEP_RETRY);
    let options = SweepOptions { scope: SweepScope::Due, ..SweepOptions::default() };
    loop {
        let Some(alive) = upkeep.upgrade() else { return };
        let closing = alive.session.closing().clone();
        // The first byte of the session's nonce spreads the gateways over the span.
        let spread = SPREAD * u32::from(alive.session.nonce().0[0]) / u32::from(u8::MAX);
        drop(alive);
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
            () = ended.notified() => tokio::select! {
                () = closing.cancelled() => return,
                () = tokio::time::sleep(SWEEP_DELAY + spread) => {}
            }
        }
        let Some(alive) = upkeep.upgrade() else { return };
        if closing.is_cancelled() || alive.session.is_fenced() {
            return;
        }
        match alive.sweep_at(options, Priority::Background).await {
            Ok(_) => (wait, retry) = (SWEEP_INTERVAL, SWEEP_RETRY),
            Err(error) if closing.is_cancelled() => {
                debug!(%error, "sweeping ended");
                return;
            }
            Err(error) => {
                warn!(%error, "a sweep failed; retrying later");
                (wait, retry) = (retry, (retry * 2).min(SWEEP_INTERVAL));
            }
        }
    }
}
