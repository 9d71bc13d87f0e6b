//! Flushes: committing the dirty data of a file.
//!
//! At most one flush of a file runs at a time, while programs go on writing to it. The flush takes
//! the dirty extents into [`FlushingData`], where reads still see them. If the commit succeeds,
//! they are part of the committed layer. If it fails, they are dirty again, below the newer writes;
//! see the diagram in `open`.
//!
//! For example, a flush fails with `EDQUOT`: fsync(2) returns the error, the data stays in memory,
//! and the next flush tries again.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use record::Ino;
use rustix::io::Errno;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use volume::{AttributeChange, FoundNode, Note};

use crate::creation::Creation;
use crate::files::Files;
use crate::open::{FileState, FlushingData, HandleId, OpenFile};
use crate::read_ahead::STREAM_IDLE;

/// The age at which dirty data (written and not committed) is flushed without a request of a
/// program. A shorter time would split changes: a program that truncates a file and rewrites it
/// within this time makes one commit.
const DIRTY_AGE_MAX: Duration = Duration::from_secs(5);

/// The interval at which the background flusher looks for dirty data that is old enough.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

// Dirty data is at most one check older than its limit, so checks are frequent against the limit.
const _: () = assert!(2 * CHECK_INTERVAL.as_millis() <= DIRTY_AGE_MAX.as_millis());

/// The number of checks after which the flusher also drops expired entries of two tables: names
/// that change too fast to be opened, and threads that got `ESTALE`.
const CHECKS_PER_EXPIRY: u32 = 5;

impl Files {
    /// Flushes the file of a handle, that is, commits its dirty data, also if it was written
    /// through other handles. After that the data is durable and visible to all clients.
    ///
    /// # Errors
    /// The error of this flush, or of an earlier one that this handle has not returned yet.
    pub async fn flush(&self, handle: HandleId) -> Result<(), Errno> {
        let handle = self.open.handle(handle)?;
        let flushed = self.flush_file(&handle.file).await;
        let earlier = handle.failure();
        flushed.and(earlier)
    }

    /// Returns true if [`Files::flush`] of a handle may have to wait for a commit. Does not wait.
    pub fn needs_flush(&self, handle: HandleId) -> bool {
        self.open.handle(handle).is_ok_and(|handle| !handle.file.is_flushed())
    }

    /// Asks the background flusher to commit the dirty data of a file soon. Does not wait.
    pub(crate) fn flush_soon(&self, file: &Arc<OpenFile>) {
        file.flush_requested.store(true, Ordering::Relaxed);
        self.flushes.notify_one();
    }

    /// Runs the background flusher until `end` is cancelled. It flushes files for which a flush was
    /// requested or whose dirty data is 5 seconds old. It also ends idle read-ahead streams and
    /// drops expired entries of names that change too fast to be opened. One task runs this for the
    /// life of a mount.
    pub async fn flush_until(self: Arc<Self>, end: CancellationToken) {
        futures::future::join(self.flush_dirty_until(&end), self.show_names_until(&end)).await;
    }

    async fn flush_dirty_until(&self, end: &CancellationToken) {
        let mut ticks = tokio::time::interval(CHECK_INTERVAL);
        let mut checks = 0_u32;
        loop {
            let requested = tokio::select! {
                biased;
                () = end.cancelled() => return,
                _ = ticks.tick() => {
                    checks = checks.wrapping_add(1);
                    if checks.is_multiple_of(CHECKS_PER_EXPIRY) {
                        self.volatile_names.expire();
                        self.stale_retries.expire();
                    }
                    false
                }
                () = self.flushes.notified() => true,
            };
            // There may be many handles, and flush requests come in quick succession: look for idle
            // streams on timer ticks only.
            if !requested {
                self.open.handles().iter().for_each(|handle| handle.ahead.end_idle(STREAM_IDLE));
            }
            let (mut dirty, now, is_alone) = (Vec::new(), Instant::now(), self.volume.is_alone());
            for file in self.open.all() {
                // A file whose state is locked is in use. The next tick sees it.
                let dirty_age = file.state.try_lock().ok().and_then(|mut state| {
                    Some((state.dirty_age(now)?, changes_rights(&state.change)))
                });
                let is_wanted = file.flush_requested.load(Ordering::Relaxed);
                if dirty_age.is_some_and(|(age, rights)| {
                    is_wanted || age >= DIRTY_AGE_MAX || (rights && !is_alone)
                }) {
                    dirty.push(file);
                }
            }
            let flush = dirty.iter().map(|file| self.flush_file(file));
            // Each open descriptor returns the error of its file.
            let _reported: Vec<Result<(), Errno>> = futures::future::join_all(flush).await;
        }
    }

    /// Flushes all open files, that is, commits their dirty data. If some fail, the others are
    /// flushed nevertheless; returns the first error in the order of the table.
    pub async fn flush_all(&self) -> Result<(), Errno> {
        let files = self.open.all();
        let flushed = futures::future::join_all(files.iter().map(|file| self.flush_file(file)));
        flushed.await.into_iter().collect()
    }

    /// Flushes a file, that is, commits its dirty data. If the commit fails, the data is dirty
    /// again, and each handle returns the error once. The future must run to its end: dropped
    /// halfway, it would leave the data in `flushing`, where no later flush finds it.
    pub(crate) async fn flush_now(&self, file: &OpenFile) -> Result<(), Errno> {
        // Held until the end: a second flush of the file waits here and then finds it clean.
        let mut sums = file.flush_lock.lock().await;
        file.flush_requested.store(false, Ordering::Relaxed);
        let (node, flushing, own_retention) = {
            let mut state = file.state.lock().await;
            if !state.is_dirty() || state.life.is_deleted() {
                return Ok(());
            }
            // Journal first: the next worker must know about this flush if it is committed.
            let note = self.note_flush(&state)?;
            let flushing = Arc::new(state.start_flush(note));
            state.flushing = Some(Arc::clone(&flushing));
            (state.node.clone(), flushing, state.own_retention)
        };
        let before = sums.take();
        let written = self
            .retry_until_deadline(|| {
                self.commit(file, &node, &flushing, (before.as_ref(), own_retention))
            })
            .await;
        // `ESTALE` can mean that only the name by which the file was known is gone.
        let is_deleted = match written {
            // A file that was never committed is not deleted: its directory is.
            Err(Errno::STALE) if flushing.new_file().is_none() => self.is_deleted(file.ino).await,
            _ => false,
        };
        let mut state = file.state.lock().await;
        state.flushing = None;
        match written {
            Ok(written) => {
                *sums = written.sums;
                self.note_own_version(&state.node, &written.node);
                state.node = Arc::new(written.node);
                if let Some(creation) = &flushing.creation {
                    self.creations.remove(&creation.name, file.ino);
                }
                let version = state.data_version();
                version.into_iter().for_each(|version| self.locks.note_version(file.ino, version));
                state.own_retention = written.own_retention;
                if let Some((before, after)) =
                    written.tail.filter(|(before, after)| before != after)
                {
                    state.follow_tail(before, after);
                    self.invalidate_cache_soon(file.ino);
                }
                if state.dirty.is_empty() && state.cut.is_none() && state.size == flushing.size {
                    // Another client may have extended the file.
                    state.size = state.found_size();
                }
                // The changes are committed, so the next worker must not replay them.
                self.trim_log(&mut state, flushing.log_end);
                Ok(())
            }
            Err(error) => {
                // Writes that wait for memory must learn that flushes cannot free any.
                if matches!(error, Errno::NOSPC | Errno::DQUOT) {
                    self.full_flushes.fetch_add(1, Ordering::Relaxed);
                }
                // Put the data back before any read sees the file without it.
                state.restore_dirty(&flushing);
                if let (Some(creation), None) = (&flushing.creation, &state.creation) {
                    self.creations.remove(&creation.name, file.ino);
                }
                if is_deleted {
                    if !state.mark_deleted(&self.deleted_memory) {
                        file.fail(Errno::IO);
                    }
                    return Ok(());
                }
                file.fail(error);
                Err(error)
            }
        }
    }

    /// Returns true if the store has no record of the file any more, so that nothing can be
    /// committed to it.
    async fn is_deleted(&self, ino: Ino) -> bool {
        self.retry_until_deadline(|| self.volume.find_node(ino)).await.err() == Some(Errno::STALE)
    }

    /// Notes that this process has committed a new data version of a file, a number that grows with
    /// each commit of its content. `before` is the file before the commit, `now` the file after it.
    /// The kernel's cached pages stay valid for it, unless another client committed in between:
    /// then the version is higher by more than 1.
    pub(crate) fn note_own_version(&self, before: &FoundNode, now: &FoundNode) {
        let version = |node: &FoundNode| node.inode.file().map(|file| file.data_version);
        if let (Some(before), Some(version)) = (version(before), version(now))
            && version <= before.saturating_add(1)
            && self.seen_versions.get(&now.ino) == Some(before)
        {
            self.seen_versions.insert(now.ino, version);
        }
    }
}

impl OpenFile {
    /// Notes that a program of this mount has created the file now.
    pub(crate) fn note_made(&self) {
        // The file has one creation.
        let _first = self.made_at.set(Instant::now());
    }

    /// Returns true if a program of this mount created the file within the time for which dirty
    /// data may wait. Other clients have hardly begun to rely on its owner and mode.
    pub(crate) fn is_young(&self) -> bool {
        self.made_at.get().is_some_and(|made_at| made_at.elapsed() < DIRTY_AGE_MAX)
    }

    /// Returns true if the file certainly has no dirty data and no flush of it runs. Does not wait:
    /// a file that another request uses now counts as dirty.
    pub(crate) fn is_flushed(&self) -> bool {
        let Ok(_no_flush) = self.flush_lock.try_lock() else { return false };
        let is_clean = self.state.try_lock().is_ok_and(|state| !state.is_dirty());
        if is_clean {
            self.flush_requested.store(false, Ordering::Relaxed);
        }
        is_clean
    }
}

impl FileState {
    /// Returns the time since the background flusher first saw the file with dirty data; `None` if
    /// it has none.
    fn dirty_age(&mut self, now: Instant) -> Option<Duration> {
        if !self.is_dirty() {
            self.dirty_since = None;
            return None;
        }
        let since = *self.dirty_since.get_or_insert(now);
        Some(now.saturating_duration_since(since))
    }

    /// Moves all dirty data and pending attribute changes into the data of a flush. `note` is the
    /// flush's entry in the ledger's journal. The file has no dirty data after that.
    fn start_flush(&mut self, note: Note) -> FlushingData {
        self.dirty_since = None;
        FlushingData {
            creation: self.creation.take(),
            extents: std::mem::take(&mut self.dirty).freeze(),
            tail: self.tail.take(),
            cut: self.cut.take(),
            size: self.size,
            change: std::mem::take(&mut self.change),
            write_time: self.write_time.take(),
            permit: Mutex::new(self.permit.take()),
            log_end: self.log.end(),
            note,
        }
    }

    /// Makes the data of a failed flush dirty again, below the data that was written since, so that
    /// the next flush commits both.
    fn restore_dirty(&mut self, flushing: &FlushingData) {
        self.creation = self.creation.take().or_else(|| flushing.new_file().cloned());
        self.tail = self.joined_tail(flushing);
        self.dirty.insert_below(&flushing.extents, self.cut.unwrap_or(u64::MAX));
        self.cut = [self.cut, flushing.cut].into_iter().flatten().min();
        let permit = flushing.permit.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.add_permit(permit);
        // A modification time that was set before the last write is not the final one.
        let modified = flushing.change.modified.filter(|_| self.write_time.is_none());
        let first = AttributeChange { modified, ..flushing.change };
        self.write_time = self.write_time.or(flushing.write_time);
        self.change = merged(&first, &self.change);
    }
}

impl FlushingData {
    /// Returns the creation that the flush commits, if the file is not known to exist.
    pub(crate) fn new_file(&self) -> Option<&Arc<Creation>> {
        self.creation.as_ref().filter(|creation| !creation.is_made())
    }
}

/// Returns true if a change of attributes can take permissions away: if it changes the mode or an
/// owner.
pub(crate) fn changes_rights(change: &AttributeChange) -> bool {
    change.mode.is_some() || change.uid.is_some() || change.gid.is_some()
}

/// Returns one attribute change with the effect of two: of `first`, and of `then` after it.
pub(crate) fn merged(first: &AttributeChange, then: &AttributeChange) -> AttributeChange {
    AttributeChange {
        mode: then.mode.or(first.mode),
        uid: then.uid.or(first.uid),
        gid: then.gid.or(first.gid),
        accessed: then.accessed.or(first.accessed),
        modified: then.modified.or(first.modified),
        drop_rights: first.drop_rights || then.drop_rights,
    }
}
