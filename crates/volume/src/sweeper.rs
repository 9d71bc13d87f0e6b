//! Finds the blocks that no record names, and what dead sessions left besides.
//!
//! Only blocks of sessions that have ended are candidates: no plan of theirs can commit any more,
//! so nothing will name them that does not name them now. Their blocks are listed first and all
//! references read after; what is listed and not referenced goes. An enumeration that is not
//! complete deletes nothing, and neither does one that would delete more than its share.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use record::key::{self, space};
use record::{BlockId, Ino, Nonce};
use store::{Guard, Key, Plan, Read, Write};
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use crate::reaper::closing;
use crate::scan::{self, Complete, ino_of, nonce_of};
use crate::session::{named_session, value};
use crate::{Reaped, Volume, VolumeError};

/// How long after the start the sweeper looks for what an earlier session left.
pub const SWEEP_DELAY: Duration = Duration::from_secs(5);

/// Of the blocks that a sweep looks at, the share that it may delete, in percent.
pub const SWEEP_SHARE_PERCENT: u64 = 5;

/// So many blocks may be deleted whatever their share: what a killed session leaves behind.
pub const SWEEP_BLOCKS_ALWAYS: u64 = 1_000;

/// Blocks deleted at the same time.
const DELETES_AT_ONCE: usize = 8;

/// Records that one plan removes.
const REMOVALS_PER_PLAN: usize = 256;

/// Lanes of a session that one round trip asks for.
const LANES_AT_ONCE: usize = 256;

/// Sessions that one range reads.
const SESSIONS_AT_ONCE: u32 = 4_096;

/// How far a sweep may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepOptions {
    /// Only count.
    pub dry_run: bool,
    /// Of the blocks that it looks at, the share that it may delete, in percent.
    pub share_percent: u64,
}

impl Default for SweepOptions {
    fn default() -> SweepOptions {
        SweepOptions { dry_run: false, share_percent: SWEEP_SHARE_PERCENT }
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

impl Volume {
    /// Deletes what records say is dead, then what dead sessions left. A dry run only counts the
    /// latter.
    pub async fn gc(&self, options: SweepOptions) -> Result<Collected, VolumeError> {
        let reaped = if options.dry_run { Reaped::default() } else { self.reap_now().await? };
        Ok(Collected { reaped, swept: self.sweep(options).await? })
    }

    /// Deletes blocks of ended sessions that no record names, and their other records.
    pub async fn sweep(&self, options: SweepOptions) -> Result<Swept, VolumeError> {
        let _one = self.sweeping.lock().await;
        // As a reader: what is alive now is not taken away before the references were read.
        let _reading = self.reading();
        let (ended, with_blocks) = self.ended_sessions().await?;
        let mut swept = Swept { sessions: ended.len() as u64, ..Swept::default() };
        if !options.dry_run {
            self.unstage_dead(&ended).await?;
        }
        let mut sizes: HashMap<BlockId, u64> = HashMap::new();
        for session in with_blocks {
            if self.closing.is_cancelled() {
                return Err(closing());
            }
            let listed = scan::blocks_of(&*self.blocks, session).await?;
            sizes.extend(listed.get().iter().copied());
        }
        swept.listed = sizes.len() as u64;
        if !sizes.is_empty() {
            let candidates: HashSet<BlockId> = sizes.keys().copied().collect();
            let named = scan::named(&*self.store, &candidates).await?;
            self.delete_unnamed(&sizes, &named, options, &mut swept).await?;
        }
        if !options.dry_run && !swept.beyond_share {
            self.forget_sessions(&ended).await?;
        }
        Ok(swept)
    }

    /// The sessions that have ended and left something, and those among them with blocks.
    async fn ended_sessions(&self) -> Result<(BTreeSet<Nonce>, Vec<Nonce>), VolumeError> {
        // A session's record stands before its first block and its first plan. So whoever is seen
        // here and has no record later has ended.
        let mut with_blocks = self.blocks.sessions().await?;
        let mut left: BTreeSet<Nonce> = with_blocks.iter().copied().collect();
        scan::walk(&*self.store, space::FENCED, |key, _| {
            left.extend(named_session(&key));
            Ok(())
        })
        .await?;
        for space in [space::STAGED, space::TOKEN] {
            scan::walk(&*self.store, space, |key, _| {
                left.insert(nonce_of(&key)?);
                Ok(())
            })
            .await?;
        }
        let (start, end) = key::partition(space::SESSION, 0);
        let limit = SESSIONS_AT_ONCE.min(self.store.limits().range_records);
        let alive = self.read_range(start, end, limit).await?;
        if alive.len() >= limit as usize {
            return Err(VolumeError::Unavailable("too many sessions to sweep".to_owned()));
        }
        for session in alive.iter().filter_map(|entry| named_session(&entry.key)) {
            left.remove(&session);
        }
        with_blocks.retain(|session| left.contains(session));
        Ok((left, with_blocks))
    }

    /// Deletes what was listed and is not named, unless it is more than the share.
    async fn delete_unnamed(
        &self,
        sizes: &HashMap<BlockId, u64>,
        named: &Complete<HashSet<BlockId>>,
        options: SweepOptions,
        swept: &mut Swept,
    ) -> Result<(), VolumeError> {
        let unnamed: Vec<(BlockId, u64)> = sizes
            .iter()
            .filter(|(block, _)| !named.get().contains(*block))
            .map(|(block, size)| (*block, *size))
            .collect();
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
            match tokio::time::timeout(self.deadlines.block, deleting).await {
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

    /// Removes what dead sessions laid down ahead of plans that never came. Blocks are left
    /// alone, but for packs: what nobody names after this is swept like any other.
    async fn unstage_dead(&self, ended: &BTreeSet<Nonce>) -> Result<(), VolumeError> {
        let mut marks: HashMap<Ino, Key> = HashMap::new();
        scan::walk(&*self.store, space::STAGED, |key, _| {
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
        for space in [space::MAP, space::PART_SUMS, space::SHARE] {
            scan::walk(&*self.store, space, |key, _| {
                let owner = match key.space() {
                    space::SHARE => ino_of(&key)?,
                    _ => Ino(key.partition()),
                };
                if marks.contains_key(&owner) {
                    let staged = if space == space::MAP { &mut pages } else { &mut others };
                    staged.entry(owner).or_default().push(key);
                }
                Ok(())
            })
            .await?;
        }
        for (ino, mark) in marks {
            // The mark goes in the plan that publishes: while it stands nothing is published.
            let staged = Guard::Present(mark.clone());
            let pages = pages.remove(&ino).unwrap_or_default();
            // What is counted of packs goes while the pages tell how much that is.
            self.leave_packs(&staged, &pages, ino).await?;
            let mut keys = others.remove(&ino).unwrap_or_default();
            keys.extend(pages);
            keys.push(mark);
            for keys in keys.chunks(REMOVALS_PER_PLAN) {
                let writes = keys.iter().cloned().map(Write::Delete).collect();
                let plan = Plan { guards: vec![staged.clone()], writes };
                Result::from(self.commit_plan(plan).await)?;
            }
            debug!(ino = ino.0, "what a dead session had staged is gone");
        }
        Ok(())
    }

    /// The lanes of a session that have a record.
    async fn tokens_of(&self, session: Nonce) -> Result<Vec<Key>, VolumeError> {
        let all: Vec<Key> = (0..crate::LANES_MAX).map(|lane| key::token(session, lane)).collect();
        let mut there = Vec::new();
        for keys in all.chunks(LANES_AT_ONCE.min(self.store.limits().reads).max(1)) {
            let record = |key: &Key| Read::Record { key: key.clone(), follow: None };
            let reads: Vec<Read> = keys.iter().map(record).collect();
            let found = self.store.read(&reads).await?;
            let records = keys.iter().zip(&found);
            there
                .extend(records.filter(|(_, it)| value(Some(it)).is_some()).map(|it| it.0.clone()));
        }
        Ok(there)
    }

    /// Removes the last records of ended sessions: their lanes, and that they were ended.
    async fn forget_sessions(&self, ended: &BTreeSet<Nonce>) -> Result<(), VolumeError> {
        for session in ended {
            let mut keys = self.tokens_of(*session).await?;
            keys.push(key::fenced(*session));
            for keys in keys.chunks(REMOVALS_PER_PLAN) {
                let writes = keys.iter().cloned().map(Write::Delete).collect();
                let guards = vec![Guard::Absent(key::session(*session))];
                Result::from(self.commit_plan(Plan { guards, writes }).await)?;
            }
        }
        Ok(())
    }
}

/// Sweeps some time after the start, and whenever a session was ended.
pub(crate) async fn sweep_always(volume: Weak<Volume>, ended: Arc<Notify>) {
    loop {
        let Some(alive) = volume.upgrade() else { return };
        let closing = alive.closing.clone();
        drop(alive);
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(SWEEP_DELAY) => {}
        }
        let Some(alive) = volume.upgrade() else { return };
        match alive.sweep(SweepOptions::default()).await {
            Ok(_) => {}
            Err(error) if closing.is_cancelled() => debug!(%error, "sweeping ended"),
            Err(error) => warn!(%error, "sweeping failed; nothing was deleted that is named"),
        }
        drop(alive);
        tokio::select! {
            () = closing.cancelled() => return,
            () = ended.notified() => {}
        }
    }
}
