//! Commits while the disk is nearly full.
//!
//! Plans that free space may use the reserve. All other plans get the free space of the disk beyond
//! it. So a client can always delete, and its PUTs never use the reserve. For example, a PUT and a
//! DELETE that arrive together on a full disk share a batch: the DELETE is committed, and the PUT
//! fails with `Full`.
//!
//! The writer empties the log after each commit on a nearly full disk. Otherwise the log could hold
//! more new pages than the reserve has space for, and no checkpoint could move them into the
//! database.

use store::{Plan, StoreErrorKind, Verdict, frees_space};

use super::{Job, Writer};
use crate::error::{Shared, full_disk, is_io};
use crate::open::{self, Checkpoint};
use crate::reserve::{CUT_BYTES, PROBE_BYTES};

/// The size of a page of the database.
const PAGE_BYTES: u64 = 4 << 10;

/// Number of pages that a write or a guard may change, including their parents in the tree.
const PAGES_PER_ITEM: u64 = 2;

/// Space that a commit needs beyond the bytes of its plans.
const COMMIT_BYTES: u64 = 64 << 10;

/// With less free space than this, in bytes, the store reports a shortage to operators.
const SPACE_BYTES: u64 = 256 << 10;

/// Number of times that the reserve, the disk space for deletes, is cut for one commit. Each cut is
/// twice as large as the one before; together they are the largest reserve.
const CUTS: u32 = 5;

impl Writer {
    /// Commits the plans of all jobs. If there is no space for all of them, commits those that free
    /// space, and as many of the others as there is space for.
    pub(super) async fn commit_as_space_permits(
        &mut self,
        jobs: &[Job],
    ) -> Result<Vec<Verdict>, Shared> {
        if !self.is_short_of_space && !self.reserve.is_nearly_full() {
            match self.commit(jobs, |_| true).await {
                Err(error) if error.is_full() => {}
                decided => {
                    self.shortage.set(None);
                    return decided;
                }
            }
        }
        // Refill the reserve first, so that other plans cannot take its space.
        if let Err(error) = self.reserve.refill() {
            tracing::debug!(%error, "the reserve for deletes cannot grow");
        }
        let decided = self.commit_admitted(jobs).await;
        self.empty_log().await;
        decided
    }

    /// Commits the plans that free space and, of the others, those that fit into the free space. If
    /// the disk is full, repeats the commit of the plans that free space with more and more of the
    /// reserve, the disk space that is kept for them. All other plans then fail with `Full`.
    async fn commit_admitted(&mut self, jobs: &[Job]) -> Result<Vec<Verdict>, Shared> {
        let plans = || jobs.iter().flat_map(|job| &job.plans);
        let frees: Vec<bool> = plans().map(|plan| frees_space(plan, self.spared)).collect();
        let bytes: u64 = plans().map(needed).sum();
        let mut space = self.space_for(bytes.max(SPACE_BYTES)).await;
        let shortage = (space < SPACE_BYTES).then(|| full_disk(&self.path));
        self.shortage.set(shortage);
        let fits = plans().zip(&frees).map(|(plan, frees)| {
            let fits = *frees || needed(plan) <= space;
            if fits && !*frees {
                space -= needed(plan);
            }
            fits
        });
        let fits: Vec<bool> = fits.collect();
        if fits.contains(&true) && !(self.is_short_of_space && fits == frees) {
            match self.commit(jobs, |number| fits.get(number) == Some(&true)).await {
                Err(error) if error.is_full() => {}
                decided => return decided,
            }
        }
        if !frees.contains(&true) {
            return Err(Shared::full(&self.path, None));
        }
        // Cut in steps that double: most deletes need little, and the rest of the reserve stays for
        // later ones.
        let mut full = Shared::full(&self.path, None);
        for cut in 0..CUTS {
            if !self.use_reserve(CUT_BYTES << cut).await {
                break;
            }
            match self.commit(jobs, |number| frees.get(number) == Some(&true)).await {
                Err(error) if error.is_full() => full = error,
                decided => return decided,
            }
        }
        Err(full)
    }

    /// Returns `bytes` if plans that free no space may use that much, otherwise a part of it. The
    /// space is either free space of the disk, or pages of the database without data. Pages that
    /// replace missing parts of the reserve do not count.
    async fn space_for(&mut self, bytes: u64) -> u64 {
        let space = self.reserve.space_up_to(bytes);
        if space >= bytes {
            self.is_short_of_space = false;
            return space;
        }
        let Ok(connection) = self.connection().await else { return space };
        let Ok(database) = open::database_bytes(connection).await else { return space };
        space.max(database.free.saturating_sub(self.reserve.missing()).min(bytes))
    }

    /// Cuts the reserve, the disk space for deletes, by `bytes` and by the pages that are only in
    /// the write-ahead log, and empties the log. Returns false if the reserve was empty and the log
    /// could not be emptied.
    async fn use_reserve(&mut self, bytes: u64) -> bool {
        let lacking = match self.connection().await {
            Ok(connection) => open::database_bytes(connection).await.map_or(0, |size| size.pages),
            Err(_) => 0,
        };
        let lacking = lacking.saturating_sub(self.path.metadata().map_or(0, |file| file.len()));
        let is_cut = self.reserve.cut(bytes + lacking);
        let Some(connection) = &mut self.connection else { return is_cut };
        match open::checkpoint(connection, Checkpoint::Restart).await {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%error, "the log keeps pages on a full disk");
                is_cut
            }
        }
    }

    /// Moves the pages of the write-ahead log into the database, as far as readers permit, and
    /// refills the reserve.
    async fn empty_log(&mut self) {
        if let Some(connection) = &mut self.connection
            && let Err(error) = open::checkpoint(connection, Checkpoint::Passive).await
        {
            tracing::debug!(%error, "the log keeps pages on a nearly full disk");
        }
        self.reserve.widen_log();
        if let Err(error) = self.reserve.refill() {
            tracing::debug!(%error, "the reserve for deletes cannot grow");
        }
    }

    /// Returns the error for all jobs of a failed transaction. An I/O error caused by a disk
    /// without space becomes [`StoreErrorKind::Full`], unless the outcome is unknown.
    pub(super) fn failed(&mut self, kind: StoreErrorKind, error: sqlx::Error) -> Shared {
        self.is_short_of_space = is_io(&error) && !self.reserve.has_space(PROBE_BYTES);
        let is_full = kind == StoreErrorKind::Full
            || kind == StoreErrorKind::Unavailable && self.is_short_of_space;
        if is_full { Shared::full(&self.path, Some(error)) } else { Shared::new(kind, error) }
    }
}

/// Returns the approximate space that a plan needs in the log and in the database, in bytes.
fn needed(plan: &Plan) -> u64 {
    let items = PAGES_PER_ITEM * PAGE_BYTES * plan.items() as u64;
    COMMIT_BYTES + items + 2 * plan.bytes() as u64
}
