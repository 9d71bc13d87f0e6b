//! Finds the blocks that no record names, and what dead sessions left besides.
//!
//! Only blocks of sessions that have ended are candidates: no plan of theirs can commit any more,
//! so nothing will name them that does not name them now. Their blocks are listed first and all
//! references are read after that. Each block that is listed and not referenced is looked up once
//! more by itself, and then deleted. An enumeration that is not complete deletes nothing, and
//! neither does one that would delete more than its share.
//!
//! *Why it pins no epoch.* Reading all references may take hours, and files die meanwhile. What
//! matters is that no block is missed that some record R names in the end. If R was there when the
//! reading began, the walk of its space comes to it. If not, one of these made R, and each needs a
//! record that names the block at that instant:
//!
//! - *A copy*, of a file or into a part. It writes a record of the new owner's share, which stays
//!   as long as R names the block. So shares are read after everything else, and only those of the
//!   blocks in question.
//! - *Completing an upload*, of a part that was sent (a copied part has a share, and hands on one).
//!   Parts are read before files. So either the part was there until all parts had been read, or R
//!   was there before any file was.
//! - *The reaper*, which moves what files and parts name to orphans and on to pending blocks, and
//!   those are read in this order; the rewriter of packs, which leaves an orphan for the old pack.
//!   Again, either the source was there until its space had been read, or R was there before its
//!   own space was. A pending block is looked up once more, because it is the reaper's to delete.
//!
//! - *A write to a file*, or the compactor, which moves what one page of its content map names to a new
//!   page, or what all of them name to the file's record. There is no order among these. So while the
//!   references are read, a hold says that pages which were replaced are not to be deleted: a page that was there when the reading began is there until it
//!   has ended, and one that was not took its blocks from one that was, or was made by one of the
//!   others. What is held back are these pages alone, and what the same writes have hidden.
//!
//! If the source of R was not there when the reading began, the same holds of what made that. What
//! a plan puts into a new block is never a candidate, since that plan's session is alive. And once
//! no record names a block, no plan can make one that does. As for readers: a block loses its last
//! record by becoming pending, and does so when nobody can read it any more.
//!
//! *Why a session is looked at twice, and then no more.* Whatever loses its last name after a
//! session's blocks were looked at is deleted by the reaper. The exception is a block that a killed
//! process had sent and that lands late. So the second look comes an hour after the first. A clock
//! that is wrong about that hour may leave such a block behind; it never deletes one that is
//! needed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use record::key::{self, space};
use record::{BlockId, Held, Hold, Ino, Nonce, Timestamp};
use session::scan::{self, CompleteScan, block_of, ino_of, nonce_of};
use session::{Outcome, Priority, SLOTS_MAX, VolumeError, corrupt, session_in_key, value};
use store::{Guard, Key, Plan, Read, Value, Write};
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use crate::naming;
use crate::reaper::{REPLACED_PAGES, Reaped};
use crate::upkeep::Upkeep;

/// How long after the start the sweeper looks for what an earlier session left.
pub const SWEEP_DELAY: Duration = Duration::from_secs(5);

/// How often it looks without a notification that a session ended.
pub const SWEEP_INTERVAL: Duration = Duration::from_hours(1);

/// How long after a session's blocks were looked at first the last look comes: what was on its way
/// to the block store has landed by then.
pub const SWEEP_AGAIN: Duration = Duration::from_hours(1);

/// The pause after the first failure; it doubles from there, up to [`SWEEP_INTERVAL`].
pub const SWEEP_RETRY: Duration = Duration::from_mins(1);

/// Gateways that are notified at the same time begin at different times within this span. So mostly
/// one of them does the work, and the others find it done.
const SPREAD: Duration = Duration::from_secs(10);

/// Of the blocks that a sweep looks at, the share that it may delete, in percent.
pub const SWEEP_SHARE_PERCENT: u64 = 5;

/// So many blocks may be deleted whatever their share: as many as a killed session leaves behind.
pub const SWEEP_BLOCKS_ALWAYS: u64 = 1_000;

/// Blocks deleted at the same time.
const DELETES_AT_ONCE: usize = 8;

/// Records that one plan removes.
const REMOVALS_PER_PLAN: usize = 256;

/// Idempotency slots of a session that one round trip asks for.
const SLOTS_AT_ONCE: usize = 256;

/// Sessions that one range reads.
const SESSIONS_AT_ONCE: u32 = 4_096;

/// Whose blocks a sweep looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Looking {
    /// Those of ended sessions whose next look is due.
    Due,
    /// Those of ended sessions for which one is still to come.
    #[default]
    Unswept,
    /// Those of all ended sessions.
    All,
}

/// How far a sweep may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepOptions {
    /// Whose blocks it looks at.
    pub looking: Looking,
    /// Only count.
    pub dry_run: bool,
    /// Of the blocks that it looks at, the share that it may delete, in percent.
    pub share_percent: u64,
}

impl Default for SweepOptions {
    fn default() -> SweepOptions {
        SweepOptions {
            looking: Looking::default(),
            dry_run: false,
            share_percent: SWEEP_SHARE_PERCENT,
        }
    }
}

/// What a sweep found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Ended sessions that had left something.
    pub sessions: u64,
    /// Blocks of ended sessions.
    pub listed: u64,
    /// Those of them that no record names.
    pub unreferenced: u64,
    /// Their sealed sizes, in bytes.
    pub bytes: u64,
    /// Blocks deleted.
    pub deleted: u64,
    /// Whether nothing was deleted because it would have been more than the share.
    pub beyond_share: bool,
}

/// What one collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// What the reaper did; nothing in a dry run.
    pub reaped: Reaped,
    /// What the sweeper found and did.
    pub swept: Swept,
}

impl Upkeep {
    /// Deletes what records say is dead, then what dead sessions left. A dry run only counts the
    /// latter.
    pub async fn gc(&self, options: SweepOptions) -> Result<Collected, VolumeError> {
        let reaped = if options.dry_run { Reaped::default() } else { self.reap_now().await? };
        Ok(Collected { reaped, swept: self.sweep(options).await? })
    }

    /// Deletes blocks of ended sessions that no record names, and their other records.
    pub async fn sweep(&self, options: SweepOptions) -> Result<Swept, VolumeError> {
        self.sweep_at(options, Priority::Urgent).await
    }

    async fn sweep_at(
        &self,
        options: SweepOptions,
        priority: Priority,
    ) -> Result<Swept, VolumeError> {
        let _one = self.sweeping.lock().await;
        let (beside, began) = (Some((self.session.throttle(), priority)), self.session.now());
        let ended = self.ended_sessions(options.looking, began).await?;
        let mut swept = Swept { sessions: ended.all.len() as u64, ..Swept::default() };
        if !options.dry_run {
            self.unstage_dead(&ended.all, priority).await?;
        }
        let mut sizes: HashMap<BlockId, u64> = HashMap::new();
        let mut looked = Vec::with_capacity(ended.with_blocks.len());
        for session in &ended.with_blocks {
            let listed = scan::blocks_throttled(&*self.blocks, beside, *session).await?;
            if !listed.get().is_empty() {
                looked.push(*session);
            }
            sizes.extend(listed.get().iter().copied());
        }
        swept.listed = sizes.len() as u64;
        if !sizes.is_empty() {
            let candidates: HashSet<BlockId> = sizes.keys().copied().collect();
            self.keep_pages(true).await?;
            let named = naming::named(&**self.session.store(), beside, &candidates).await;
            self.keep_pages(false).await?;
            let named = named?;
            self.delete_unnamed(&sizes, &named, options, &mut swept).await?;
        }
        if !options.dry_run && !swept.beyond_share {
            self.note_swept(&looked, &ended, began).await?;
            self.forget_sessions(&ended.all).await?;
        }
        Ok(swept)
    }

    /// Keeps pages of content maps that were replaced from being deleted, or does so no longer. See
    /// the top of this file.
    async fn keep_pages(&self, keep: bool) -> Result<(), VolumeError> {
        let at = key::hold(REPLACED_PAGES, self.session.nonce());
        let write = if keep {
            let hold = Hold { since: self.session.now(), what: Held::Versions };
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

    /// The sessions that have ended and left something, and those among them whose blocks are to be
    /// looked at.
    async fn ended_sessions(&self, looking: Looking, now: Timestamp) -> Result<Ended, VolumeError> {
        // A session's record stands before its first block and its first plan. So whoever is seen
        // here and has no record later has ended.
        let mut with_blocks = self.blocks.sessions().await?;
        let there: BTreeSet<Nonce> = with_blocks.iter().copied().collect();
        let mut looks: BTreeMap<Nonce, (Value, record::SweptRecord)> = BTreeMap::new();
        scan::walk(&**self.session.store(), space::SWEPT, |key, value| {
            let swept = record::SweptRecord::decode(&key, &value).map_err(|e| corrupt(&key, &e))?;
            looks.insert(nonce_of(&key)?, (value, swept));
            Ok(())
        })
        .await?;
        with_blocks.retain(|session| {
            let swept = looks.get(session).map(|(_, swept)| swept);
            is_to_be_looked_at(swept, looking, now)
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
        let alive = self.read_range(start, end, limit).await?;
        if alive.len() >= limit as usize {
            return Err(VolumeError::Unavailable("too many sessions to sweep".to_owned()));
        }
        for session in alive.iter().filter_map(|entry| session_in_key(&entry.key)) {
            all.remove(&session);
        }
        with_blocks.retain(|session| all.contains(session));
        let empty = looks.keys().filter(|session| !there.contains(session)).copied().collect();
        Ok(Ended { all, with_blocks, looks, empty })
    }

    /// Takes note that all blocks of these sessions were looked at, and forgets it of those that
    /// have none any more.
    async fn note_swept(
        &self,
        looked: &[Nonce],
        ended: &Ended,
        began: Timestamp,
    ) -> Result<(), VolumeError> {
        for session in looked {
            let at = key::swept(*session);
            let before = ended.looks.get(session);
            let Some(now) = look_again(before.map(|(_, swept)| *swept), began) else { continue };
            let unmoved = match before {
                Some((value, _)) => Guard::Equals(at.clone(), value.clone()),
                None => Guard::Absent(at.clone()),
            };
            let writes = vec![Write::Put(at.clone(), now.encode(&at))];
            // If it is refused, another sweep came to its end meanwhile.
            Result::from(self.session.commit_plan(Plan { guards: vec![unmoved], writes }).await)?;
        }
        for empty in ended.empty.chunks(REMOVALS_PER_PLAN) {
            let writes = empty.iter().map(|session| Write::Delete(key::swept(*session))).collect();
            Result::from(self.session.commit_plan(Plan { guards: Vec::new(), writes }).await)?;
        }
        Ok(())
    }

    /// Deletes what was listed and is not named, unless it is more than the share.
    async fn delete_unnamed(
        &self,
        sizes: &HashMap<BlockId, u64>,
        named: &CompleteScan<HashSet<BlockId>>,
        options: SweepOptions,
        swept: &mut Swept,
    ) -> Result<(), VolumeError> {
        let mut unnamed: Vec<(BlockId, u64)> = sizes
            .iter()
            .filter(|(block, _)| !named.get().contains(*block))
            .map(|(block, size)| (*block, *size))
            .collect();
        // After everything else: see above.
        let blocks: Vec<BlockId> = unnamed.iter().map(|(block, _)| *block).collect();
        let spared = naming::shared_or_pending(&**self.session.store(), &blocks).await?;
        unnamed.retain(|(block, _)| !spared.contains(block));
        swept.unreferenced = unnamed.len() as u64;
        swept.bytes = unnamed.iter().map(|(_, size)| size).sum();
        let share = swept.listed.saturating_mul(options.share_percent) / 100;
        swept.beyond_share = swept.unreferenced > share.max(SWEEP_BLOCKS_ALWAYS);
        if options.dry_run || unnamed.is_empty() {
            return Ok(());
        }
        if swept.beyond_share {
            warn!(
                blocks = swept.unreferenced,
                of = swept.listed,
                percent = options.share_percent,
                "more blocks than a sweep may delete are named by no record; none was deleted"
            );
            return Ok(());
        }
        let deleting = stream::iter(unnamed).map(|(block, _)| async move {
            let deleting = self.blocks.delete(block);
            match tokio::time::timeout(self.staging.deadlines.block, deleting).await {
                Ok(deleted) => deleted.map_err(VolumeError::from),
                Err(_late) => Err(VolumeError::Unavailable(format!("deleting block {block}"))),
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

    /// Removes what dead sessions laid down ahead of plans that never came. What they would have
    /// shared with others is let go of as the reaper does: its source may be gone by now.
    async fn unstage_dead(
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
            // The mark goes in the plan that publishes: while it stands nothing is published.
            let staged = Guard::Present(mark.clone());
            let pages = pages.remove(&ino).unwrap_or_default();
            // What is counted of packs goes while the pages tell how much that is.
            self.leave_packs(&staged, &pages, ino).await?;
            let blocks = shares.remove(&ino).unwrap_or_default();
            self.leave_shares(&staged, &blocks, ino).await?;
            let mut keys = others.remove(&ino).unwrap_or_default();
            keys.extend(pages);
            keys.push(mark);
            for keys in keys.chunks(REMOVALS_PER_PLAN) {
                let writes = keys.iter().cloned().map(Write::Delete).collect();
                let plan = Plan { guards: vec![staged.clone()], writes };
                Result::from(self.session.commit_plan(plan).await)?;
            }
            debug!(ino = ino.0, "what a dead session had staged is gone");
        }
        Ok(())
    }

    /// The idempotency slots of a session that have a record.
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

    /// Removes the last records of ended sessions: their slots, and that they were ended.
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

/// Sessions that have ended.
#[derive(Debug)]
struct Ended {
    /// Those that left something that is to be looked at.
    all: BTreeSet<Nonce>,
    /// Those of them with blocks.
    with_blocks: Vec<Nonce>,
    /// What earlier sweeps noted, of whatever session.
    looks: BTreeMap<Nonce, (Value, record::SweptRecord)>,
    /// Sessions of which that was noted and that have no blocks any more.
    empty: Vec<Nonce>,
}

/// Whether an hour has passed since; no, if the clock went back.
fn is_due(since: Timestamp, now: Timestamp) -> bool {
    let hour = i64::try_from(SWEEP_AGAIN.as_nanos()).unwrap_or(i64::MAX);
    now.0 >= since.0.saturating_add(hour)
}

fn is_to_be_looked_at(
    swept: Option<&record::SweptRecord>,
    looking: Looking,
    now: Timestamp,
) -> bool {
    match (swept, looking) {
        (None, _) | (_, Looking::All) => true,
        (Some(swept), Looking::Unswept) => !swept.done,
        (Some(swept), Looking::Due) => {
            !swept.done && (is_due(swept.since, now) || swept.since > now)
        }
    }
}

/// What to note of a session that was looked at, if it is something new.
fn look_again(
    before: Option<record::SweptRecord>,
    began: Timestamp,
) -> Option<record::SweptRecord> {
    match before {
        Some(before) if before.done => None,
        Some(before) if is_due(before.since, began) => {
            Some(record::SweptRecord { done: true, ..before })
        }
        Some(before) if before.since <= began => None,
        // Nobody looked before, or by a clock that was wrong.
        _ => Some(record::SweptRecord { since: began, done: false }),
    }
}

/// Sweeps some time after the start, whenever a session ended, and now and then.
pub(crate) async fn sweep_always(volume: Weak<Upkeep>, ended: Arc<Notify>) {
    let (mut wait, mut retry) = (SWEEP_DELAY, SWEEP_RETRY);
    let options = SweepOptions { looking: Looking::Due, ..SweepOptions::default() };
    loop {
        let Some(alive) = volume.upgrade() else { return };
        let closing = alive.session.closing().clone();
        // One of many, by its name.
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
        let Some(alive) = volume.upgrade() else { return };
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
                warn!(%error, "sweeping failed; it is tried again");
                (wait, retry) = (retry, (retry * 2).min(SWEEP_INTERVAL));
            }
        }
    }
}
