//! Making what was written a file's content.
//!
//! One at a time does this for a file, while others go on writing to it. What is on its way stays
//! visible where it was written; when it is committed, it is what lies below.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use record::Ino;
use rustix::io::Errno;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use volume::{AttributeChange, FoundNode, Note};

use crate::files::Files;
use crate::open::{FileState, FlushingData, HandleId, OpenFile};
use crate::read_ahead::STREAM_IDLE;

/// For how long what was written stays dirty, unless it is to become content. Not less: whoever opens
/// a file to empty it and writes it anew makes one change of that, if it does not take long.
const DIRTY_AGE_MAX: Duration = Duration::from_secs(5);

/// How often it is looked for what has been dirty for so long.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Looks from one turn of what is fleeting to the next.
const CHECKS_PER_EXPIRY: u32 = 5;

impl Files {
    /// Makes what was written through a handle, and through others, the file's content: durable, and
    /// seen by everybody. Tells of a failure before.
    pub async fn flush(&self, handle: HandleId) -> Result<(), Errno> {
        let handle = self.open.handle(handle)?;
        let flushed = self.flush_file(&handle.file).await;
        let told = handle.failure();
        flushed.and(told)
    }

    /// Begins to make what was written to a file its content.
    pub(crate) fn flush_soon(&self, file: &Arc<OpenFile>) {
        file.flush_requested.store(true, Ordering::Relaxed);
        self.flushes.notify_one();
    }

    /// Flushes files that were dirty for long, or that are to be, until `end`. Lets go of what was read
    /// ahead and not asked for, too.
    pub async fn flush_until(self: Arc<Self>, end: CancellationToken) {
        let mut ticks = tokio::time::interval(CHECK_INTERVAL);
        let mut checks = 0_u32;
        loop {
            let asked = tokio::select! {
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
            // There may be many handles, and flushes are asked for in quick succession.
            if !asked {
                self.open.handles().iter().for_each(|handle| handle.ahead.end_idle(STREAM_IDLE));
            }
            let (mut dirty, now) = (Vec::new(), Instant::now());
            for file in self.open.all() {
                let dirty_age = file.state.try_lock().ok().and_then(|mut it| it.dirty_age(now));
                let is_wanted = file.flush_requested.load(Ordering::Relaxed);
                if dirty_age.is_some_and(|age| is_wanted || age >= DIRTY_AGE_MAX) {
                    dirty.push(file);
                }
            }
            let flush = dirty.iter().map(|file| self.flush_file(file));
            // Whoever has a file open is told of what fails.
            let _reported: Vec<Result<(), Errno>> = futures::future::join_all(flush).await;
        }
    }

    /// Makes everything that was written the content of its file.
    pub async fn flush_all(&self) -> Result<(), Errno> {
        let files = self.open.all();
        let flushed = futures::future::join_all(files.iter().map(|file| self.flush_file(file)));
        flushed.await.into_iter().collect()
    }

    /// Makes what was written to a file its content. Must run to its end.
    pub(crate) async fn flush_now(&self, file: &OpenFile) -> Result<(), Errno> {
        let mut sums = file.flush_lock.lock().await;
        file.flush_requested.store(false, Ordering::Relaxed);
        let (node, flushing, own_retention) = {
            let mut state = file.state.lock().await;
            if !state.is_dirty() || state.deleted {
                return Ok(());
            }
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
        // What is stale may be the name by which the file was known, not the file.
        let is_deleted = match written {
            Err(Errno::STALE) => self.is_deleted(file.ino).await,
            _ => false,
        };
        let mut state = file.state.lock().await;
        state.flushing = None;
        match written {
            Ok(written) => {
                *sums = written.sums;
                self.note_own_version(&state.node, &written.node);
                state.node = Arc::new(written.node);
                let version = state.data_version();
                version.into_iter().for_each(|it| self.locks.note_version(file.ino, it));
                state.own_retention = written.own_retention;
                if let Some((before, after)) =
                    written.tail.filter(|(before, after)| before != after)
                {
                    state.follow_tail(before, after);
                    self.invalidate_cache_soon(file.ino);
                }
                if state.dirty.is_empty() && state.cut.is_none() && state.size == flushing.size {
                    // Others may have made it longer.
                    state.size = state.found_size();
                }
                self.trim_log(&mut state, flushing.log_end);
                Ok(())
            }
            Err(error) => {
                if matches!(error, Errno::NOSPC | Errno::DQUOT) {
                    self.found_full.fetch_add(1, Ordering::Relaxed);
                }
                state.restore_dirty(&flushing);
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

    /// Whether nothing is left of a file.
    async fn is_deleted(&self, ino: Ino) -> bool {
        self.retry_until_deadline(|| self.volume.find_node(ino)).await.err() == Some(Errno::STALE)
    }

    /// Takes note of a version of a file that was made here: what a program's machine remembers of
    /// the file goes with it, unless others have written to it meanwhile.
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

impl FileState {
    /// For how long it has been known to be dirty.
    fn dirty_age(&mut self, now: Instant) -> Option<Duration> {
        if !self.is_dirty() {
            self.dirty_since = None;
            return None;
        }
        let since = *self.dirty_since.get_or_insert(now);
        Some(now.saturating_duration_since(since))
    }

    /// Takes what was written, to make it the file's content. It lies below from now on.
    fn start_flush(&mut self, note: Note) -> FlushingData {
        self.dirty_since = None;
        FlushingData {
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

    /// Takes back what has not become the file's content: it is to be tried again.
    fn restore_dirty(&mut self, flushing: &FlushingData) {
        self.tail = self.joined_tail(flushing);
        self.dirty.put_under(&flushing.extents, self.cut.unwrap_or(u64::MAX));
        self.cut = [self.cut, flushing.cut].into_iter().flatten().min();
        let permit = flushing.permit.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.hold(permit);
        // A time that was set is not the last one if it was written to since.
        let modified = flushing.change.modified.filter(|_| self.write_time.is_none());
        let first = AttributeChange { modified, ..flushing.change };
        self.write_time = self.write_time.or(flushing.write_time);
        self.change = merged(&first, &self.change);
    }
}

/// Two changes, one after the other.
fn merged(first: &AttributeChange, then: &AttributeChange) -> AttributeChange {
    AttributeChange {
        mode: then.mode.or(first.mode),
        uid: then.uid.or(first.uid),
        gid: then.gid.or(first.gid),
        accessed: then.accessed.or(first.accessed),
        modified: then.modified.or(first.modified),
        drop_rights: first.drop_rights || then.drop_rights,
    }
}
