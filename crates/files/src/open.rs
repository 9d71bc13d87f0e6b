//! Open files and their handles.
//!
//! All handles of a file share one [`FileState`]. It is a stack of layers; a read takes each byte
//! from the topmost layer that has it:
//!
//! ```text
//!   dirty      written since the last flush began           (top)
//!   cut        the layers below are visible up to here only
//!   flushing   taken by the flush that runs now
//!   cut
//!   node       the content as last committed                (bottom)
//! ```
//!
//! The file states and their transitions:
//!
//! ```text
//!   Clean ──write, set──▶ Dirty ──start_flush──▶ Flushing ──commit succeeds──▶ Clean
//!                           ▲                       │
//!                           └──── restore_dirty ────┘   the commit fails
//! ```
//!
//! A write during Flushing makes the file dirty again, next to the flush that runs. For example, a
//! program writes 4 MiB, calls fsync(2) in one thread and goes on writing in another: the first 4
//! MiB are in `flushing`, the later bytes in `dirty`.
//!
//! If the last name of a file is removed, the file stays readable and writable through its handles
//! until the last one is closed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use content::{ByteBudget, Permit};
use record::{Ino, RetainUntil, Timestamp};
use rustix::io::Errno;
use tokio::time::Instant;
use volume::{AttributeChange, FoundNode, Note, OpenNode};

use crate::attributes::NodeStat;
use crate::creation::Creation;
use crate::dirty::{DirtyExtents, FrozenExtents};
use crate::file_log::FileLog;
use crate::life::Life;
use crate::map_claim::MapClaim;
use crate::read_ahead::ReadAhead;
use crate::sequential::SequentialSums;
use crate::tail::AppendedTail;

/// The limit of the dirty data of one deleted file that programs have open, in bytes. It stays in
/// memory, because no flush can commit it.
pub(crate) const DELETED_FILE_BYTES_MAX: u64 = 4 << 20;

/// The number of an open file handle, which the kernel sends with each request that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandleId(pub u64);

/// The purpose and flags of an open, from open(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags of open(2)")]
pub struct OpenMode {
    /// True to open for writing, alone or with reading.
    pub writes: bool,
    /// True to discard the content: `O_TRUNC`.
    pub truncates: bool,
    /// True if the kernel opens the file to execute it.
    pub executes: bool,
    /// With `truncates`: clear the set-user-ID and set-group-ID bits, because the caller has no
    /// privilege to keep them.
    pub drops_rights: bool,
}

/// The result of an open.
#[derive(Clone, Copy, Debug)]
pub struct OpenedFile {
    /// The number of the new handle.
    pub handle: HandleId,
    /// True if the data version (a number that grows with each commit of the content) is that of
    /// the previous open on this mount, so that the kernel may keep its cached pages.
    pub unchanged: bool,
    /// The attributes of the file after the open.
    pub attributes: NodeStat,
}

/// A file with at least one open handle, or one that `VolatileNames` keeps because its name is
/// rebound too fast to be opened.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) ino: Ino,
    /// Keeps the file's record and blocks from being deleted.
    _pin: OpenNode,
    /// The committed file, and the layers of uncommitted data over it.
    pub(crate) state: tokio::sync::Mutex<FileState>,
    /// Held by the flush of the file; only one runs at a time. The value is the running checksums
    /// of the committed content, if the file was written from front to back.
    pub(crate) flush_lock: tokio::sync::Mutex<Option<SequentialSums>>,
    /// This session's claim on the file: its right to have pages of the mapped file in the kernel's
    /// cache. See `maps`.
    pub(crate) maps: MapClaim,
    /// The time at which a program of this mount created the file; unset for all others.
    pub(crate) made_at: OnceLock<Instant>,
    /// True if the background flusher should flush this file soon.
    pub(crate) flush_requested: AtomicBool,
    /// The number of failed flushes, and the error of the last one.
    pub(crate) failures: Mutex<(u64, Option<Errno>)>,
}

/// The state of an open file: the committed file, and the layers of uncommitted data over it. See
/// the module's documentation.
#[derive(Debug)]
pub(crate) struct FileState {
    /// The committed file: its record, as this mount last read or committed it.
    pub(crate) node: Arc<FoundNode>,
    /// The creation of the file, if it is not committed and no flush has taken it.
    pub(crate) creation: Option<Arc<Creation>>,
    /// If the file has a name, and if the store has its record.
    pub(crate) life: Life,
    /// The data that a running flush commits; `None` if no flush runs.
    pub(crate) flushing: Option<Arc<FlushingData>>,
    /// The size up to which the layers below `dirty` are visible, if the file was truncated since
    /// the last flush began.
    pub(crate) cut: Option<u64>,
    /// The dirty data: the bytes that were written and that no flush has taken.
    pub(crate) dirty: DirtyExtents,
    /// The time at which the background flusher first saw this file with dirty data; `None` if it
    /// did not since the last flush.
    pub(crate) dirty_since: Option<Instant>,
    /// The bytes of `dirty` that were appended at the end of the file. They move if another client
    /// appends first. `None` if there are none.
    pub(crate) tail: Option<AppendedTail>,
    /// The permit for the memory that `dirty` takes.
    pub(crate) permit: Option<Permit>,
    /// The size of the file as programs see it, in bytes.
    pub(crate) size: u64,
    /// The attribute changes that no flush has taken.
    pub(crate) change: AttributeChange,
    /// The time of the last write that is not committed.
    pub(crate) write_time: Option<Timestamp>,
    /// The S3 retention (the time until which an object is locked) that the flushes of this file
    /// gave the object by the default of its bucket. Writes by the programs that have the file open
    /// are allowed in spite of it.
    pub(crate) own_retention: Option<RetainUntil>,
    /// The log of the uncommitted changes in the ledger, from which the next worker (process of the
    /// mount) restores them.
    pub(crate) log: FileLog,
    /// The numbers of requests that appended and are not answered yet. If the kernel sends them to
    /// the next worker (process of the mount) again, it must not append again.
    pub(crate) unanswered_appends: Vec<u64>,
}

/// Dirty data and attribute changes that a flush is committing.
#[derive(Debug)]
pub(crate) struct FlushingData {
    /// The creation of the file, if the flush commits it.
    pub(crate) creation: Option<Arc<Creation>>,
    /// The dirty bytes, by their positions in the file.
    pub(crate) extents: FrozenExtents,
    /// The bytes of `extents` that were appended at the end of the file. They move if another
    /// client appends first. `None` if there are none.
    pub(crate) tail: Option<AppendedTail>,
    /// The size up to which the committed file is visible below this data, in bytes, if the file
    /// was truncated; otherwise `None`.
    pub(crate) cut: Option<u64>,
    /// The file size after the flush, in bytes, as programs saw it when the flush began.
    pub(crate) size: u64,
    /// The attribute changes that the flush commits.
    pub(crate) change: AttributeChange,
    /// The time of the last write of this data; `None` if nothing was written.
    pub(crate) write_time: Option<Timestamp>,
    /// The permit for the memory that `extents` take; freed when the flush ends.
    pub(crate) permit: Mutex<Option<Permit>>,
    /// The offset in the ledger's log after the last change of this data. A successful flush trims
    /// the log up to it, that is, removes these changes from it.
    pub(crate) log_end: u64,
    /// The entry of the flush in the ledger's journal, by which the next worker (process of the
    /// mount) knows whether it was committed.
    pub(crate) note: Note,
}

impl FileState {
    fn new(node: FoundNode) -> FileState {
        let size = node.inode.file().map_or(0, |file| file.size);
        FileState {
            node: Arc::new(node),
            creation: None,
            life: Life::default(),
            flushing: None,
            cut: None,
            dirty: DirtyExtents::default(),
            dirty_since: None,
            tail: None,
            permit: None,
            size,
            change: AttributeChange::default(),
            write_time: None,
            own_retention: None,
            log: FileLog::default(),
            unanswered_appends: Vec::new(),
        }
    }

    /// Returns the data version of the committed file, a number that grows with each commit of its
    /// content; `None` if the node is not a file.
    pub(crate) fn data_version(&self) -> Option<u64> {
        self.node.inode.file().map(|file| file.data_version)
    }

    /// Returns the size of the committed file, in bytes.
    pub(crate) fn found_size(&self) -> u64 {
        self.node.inode.file().map_or(0, |file| file.size)
    }

    /// Returns the file size as of the layers below `dirty`, in bytes: that of the running flush,
    /// or otherwise that of the committed file.
    pub(crate) fn base_size(&self) -> u64 {
        self.flushing.as_ref().map_or(self.found_size(), |flushing| flushing.size)
    }

    /// Returns true if there is dirty data or an attribute change that no flush has taken.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
            || self.size != self.base_size()
            || self.cut.is_some()
            || !self.change.is_none()
            || self.write_time.is_some()
            || self.creation.is_some()
    }

    /// Returns true if the creation of the file is not committed, so that the store has no record
    /// of it yet.
    pub(crate) fn is_new(&self) -> bool {
        self.uncommitted().is_some()
    }

    /// Replaces the committed file below the dirty data by `node`, a newer version that was read,
    /// and keeps the dirty data on top. Returns false, and changes nothing, if `node` is older or
    /// the same.
    pub(crate) fn rebase(&mut self, node: &FoundNode) -> bool {
        if is_older(node, &self.node) || node.record == self.node.record {
            return false;
        }
        self.node = Arc::new(node.clone());
        // A flush is rebased by its own commit, which also decides the size.
        if self.cut.is_none() && self.flushing.is_none() {
            self.follow_end();
            self.size = self.size.max(self.found_size());
        }
        true
    }

    /// Replaces the committed file by `node`, which was just read, if there is no dirty data, no
    /// flush runs and `node` is not older. Otherwise does nothing.
    pub(crate) fn refresh(&mut self, node: &FoundNode) {
        if self.flushing.is_none() && !self.is_dirty() && !is_older(node, &self.node) {
            // Most lookups return the same node: compare first, and spare the allocation.
            if *self.node != *node {
                self.node = Arc::new(node.clone());
            }
            self.size = self.found_size();
        }
    }

    /// Adds memory to the permit that this file holds for its dirty data. `None` adds nothing.
    pub(crate) fn add_permit(&mut self, permit: Option<Permit>) {
        match (&mut self.permit, permit) {
            (Some(held), Some(permit)) => held.merge(permit),
            (held @ None, permit) => *held = permit,
            (Some(_), None) => {}
        }
    }

    /// Marks the file as deleted: the store has no record of it any more. The dirty data stays
    /// readable for the open handles if it fits into `memory` and into [`DELETED_FILE_BYTES_MAX`].
    /// Returns false if it did not fit and was dropped.
    pub(crate) fn mark_deleted(&mut self, memory: &ByteBudget) -> bool {
        self.life = self.life.deleted();
        let bytes = self.dirty.bytes();
        // Both limits: one deleted file must not use up the memory of all.
        let permit = memory.try_acquire(bytes).filter(|_| bytes <= DELETED_FILE_BYTES_MAX);
        let kept = permit.is_some();
        self.permit = permit;
        if !kept {
            self.dirty = DirtyExtents::default();
            (self.tail, self.cut, self.size) = (None, None, self.found_size());
        }
        kept
    }

    /// Drops all dirty data and attribute changes that no flush has taken. They are lost.
    pub(crate) fn drop_unflushed(&mut self) {
        self.dirty = DirtyExtents::default();
        (self.tail, self.cut, self.write_time, self.permit) = (None, None, None, None);
        self.change = AttributeChange::default();
        self.size = self.found_size();
        // A file that was never committed does not exist without its creation.
        if self.creation.take().is_some() {
            self.life = self.life.deleted();
        }
    }
}

/// Returns the S3 retention of a file, the time until which its object is locked, if it has one.
pub(crate) fn retention(node: &FoundNode) -> Option<RetainUntil> {
    node.inode.file().and_then(|file| file.object.lock.retention)
}

/// Returns true if `this` has a lower data version (a number that grows with each commit of the
/// content) than `that`. Replies can arrive out of order, so a newly received node can be older
/// than the cached one.
fn is_older(this: &FoundNode, that: &FoundNode) -> bool {
    let version = |node: &FoundNode| node.inode.file().map(|file| file.data_version);
    version(this) < version(that)
}

impl OpenFile {
    /// Returns an open file without dirty data. `pin` keeps its record and blocks from being
    /// deleted.
    pub(crate) fn new(pin: OpenNode, node: FoundNode) -> OpenFile {
        OpenFile {
            ino: node.ino,
            _pin: pin,
            state: tokio::sync::Mutex::new(FileState::new(node)),
            flush_lock: tokio::sync::Mutex::new(None),
            maps: MapClaim::default(),
            made_at: OnceLock::new(),
            flush_requested: AtomicBool::new(false),
            failures: Mutex::new((0, None)),
        }
    }

    /// Returns the attributes of the file as programs see them, with dirty data and pending
    /// changes. `node` is the committed file as just read, if the caller has read it.
    pub(crate) async fn attributes(&self, node: Option<&FoundNode>) -> NodeStat {
        let mut state = self.state.lock().await;
        if let Some(node) = node {
            state.refresh(node);
        }
        state.attributes()
    }

    /// Returns the number of failed flushes of this file so far, and the error of the last one.
    pub(crate) fn last_failure(&self) -> (u64, Option<Errno>) {
        *self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a flush failed. Each open handle returns it once, from its next fsync(2),
    /// close(2) or write(2).
    pub(crate) fn fail(&self, error: Errno) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        *failures = (failures.0 + 1, Some(error));
    }
}

/// An open handle of a file.
#[derive(Debug)]
pub(crate) struct Handle {
    /// The open file, which all handles of the file share.
    pub(crate) file: Arc<OpenFile>,
    /// The read-ahead of this handle: the detection of sequential reads, and the stream that
    /// fetches the next bytes.
    pub(crate) ahead: ReadAhead,
    /// True if reads through this handle do not update the access time (`O_NOATIME`).
    pub(crate) no_atime: AtomicBool,
    /// True if the kernel opened the file to execute it, so it must not be truncated.
    pub(crate) executes: AtomicBool,
    /// True if a program may have mapped the file shared and writable through this handle.
    pub(crate) may_map: AtomicBool,
    /// True if the kernel may read and write through this handle without its page cache, because
    /// another session has the claim on the file.
    pub(crate) uncached: AtomicBool,
    /// True after other sessions may have changed data or locks that the program relies on. Each
    /// operation fails with `EIO` from then on.
    failed: AtomicBool,
    /// The number of failed flushes of the file up to the last one that this handle has returned as
    /// an error.
    reported: AtomicU64,
}

impl Handle {
    fn new(file: Arc<OpenFile>, reported: u64) -> Arc<Handle> {
        let [no_atime, executes, may_map, uncached, failed] = [const { AtomicBool::new(false) }; 5];
        let (ahead, reported) = (ReadAhead::default(), AtomicU64::new(reported));
        Arc::new(Handle { file, ahead, no_atime, executes, may_map, uncached, failed, reported })
    }

    /// Fails with the error of the file's last failed flush, if this handle has not returned it
    /// yet.
    pub(crate) fn failure(&self) -> Result<(), Errno> {
        let (count, error) = self.file.last_failure();
        match error {
            Some(error) if self.reported.swap(count, Ordering::Relaxed) < count => Err(error),
            _ => Ok(()),
        }
    }
}

/// The tables of the open files of the mount and of their handles.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    tables: Mutex<Tables>,
    /// The largest number that an earlier worker (process of the mount) can have given to a handle.
    first: u64,
}

#[derive(Debug, Default)]
struct Tables {
    /// The number of the last handle that was added.
    next: u64,
    /// The open files, each with the number of its handles.
    files: HashMap<Ino, (Arc<OpenFile>, u64)>,
    /// The handles by their numbers.
    handles: HashMap<u64, Arc<Handle>>,
}

impl OpenFiles {
    /// Returns empty tables of open files and handles. The first handle gets the number `first +
    /// 1`.
    pub(crate) fn from(first: u64) -> OpenFiles {
        let tables = Mutex::new(Tables { next: first, ..Tables::default() });
        OpenFiles { tables, first }
    }

    /// Adds a handle that an earlier worker (process of the mount) gave to a program, under the
    /// same number.
    pub(crate) fn adopt(&self, handle: u64, file: &Arc<OpenFile>) {
        let mut tables = self.tables();
        tables.files.entry(file.ino).or_insert_with(|| (Arc::clone(file), 0)).1 += 1;
        tables.handles.insert(handle, Handle::new(Arc::clone(file), 0));
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open file of an inode, if it is open.
    pub(crate) fn get(&self, ino: Ino) -> Option<Arc<OpenFile>> {
        self.tables().files.get(&ino).map(|(file, _)| Arc::clone(file))
    }

    /// Returns the number of handles of a file; 0 if it is not open.
    pub(crate) fn handle_count(&self, ino: Ino) -> u64 {
        self.tables().files.get(&ino).map_or(0, |(_, handles)| *handles)
    }

    /// Returns true if a program is running that was executed from this file through this process.
    pub(crate) fn runs(&self, ino: Ino) -> bool {
        let tables = self.tables();
        let mut handles = tables.handles.values();
        tables.files.contains_key(&ino)
            && handles
                .any(|handle| handle.file.ino == ino && handle.executes.load(Ordering::Relaxed))
    }

    /// Returns all open files of the mount.
    pub(crate) fn all(&self) -> Vec<Arc<OpenFile>> {
        self.tables().files.values().map(|(file, _)| Arc::clone(file)).collect()
    }

    /// Returns all open handles of files of the mount.
    pub(crate) fn handles(&self) -> Vec<Arc<Handle>> {
        self.tables().handles.values().cloned().collect()
    }

    /// Returns an open handle by its number.
    ///
    /// # Errors
    /// `EIO` if the handle has [failed](OpenFiles::fail_adopted); `ESTALE` if an earlier worker
    /// gave it and it could not be restored; `EBADF` if it never existed.
    pub(crate) fn handle(&self, handle: HandleId) -> Result<Arc<Handle>, Errno> {
        // A handle of an earlier worker that is not in the table could not be restored.
        let missing = if handle.0 <= self.first { Errno::STALE } else { Errno::BADF };
        let found = self.tables().handles.get(&handle.0).cloned().ok_or(missing)?;
        if found.failed.load(Ordering::Relaxed) { Err(Errno::IO) } else { Ok(found) }
    }

    /// Makes all handles of a file that earlier workers (processes of the mount) gave to programs
    /// fail with `EIO`. Returns true if any of them did not fail before.
    pub(crate) fn fail_adopted(&self, ino: Ino) -> bool {
        let tables = self.tables();
        let adopted = tables.handles.iter().filter(|(number, _)| **number <= self.first);
        let of_file = adopted.filter(|(_, handle)| handle.file.ino == ino);
        of_file.fold(false, |any, (_, handle)| any | !handle.failed.swap(true, Ordering::Relaxed))
    }

    /// Adds a handle for a file. `new` makes the open file if the inode has no handle yet. Returns
    /// the number of the handle and the open file.
    pub(crate) fn add(
        &self,
        ino: Ino,
        new: impl FnOnce() -> OpenFile,
    ) -> (HandleId, Arc<OpenFile>) {
        self.add_shared(ino, || Arc::new(new()))
    }

    /// Adds a handle for an open file that was restored or kept. If the inode has other handles,
    /// the open file of these is used instead. Returns the number of the handle and the open file.
    pub(crate) fn add_file(&self, ino: Ino, file: Arc<OpenFile>) -> (HandleId, Arc<OpenFile>) {
        self.add_shared(ino, || file)
    }

    fn add_shared(
        &self,
        ino: Ino,
        new: impl FnOnce() -> Arc<OpenFile>,
    ) -> (HandleId, Arc<OpenFile>) {
        let mut tables = self.tables();
        let entry = tables.files.entry(ino).or_insert_with(|| (new(), 0));
        entry.1 += 1;
        let file = Arc::clone(&entry.0);
        tables.next += 1;
        let handle = tables.next;
        let (reported, _) = file.last_failure();
        tables.handles.insert(handle, Handle::new(Arc::clone(&file), reported));
        (HandleId(handle), file)
    }

    /// Removes a handle, and returns it if it was there. Its open file stays in the table until
    /// [`OpenFiles::leave`].
    pub(crate) fn remove(&self, handle: HandleId) -> Option<Arc<Handle>> {
        self.tables().handles.remove(&handle.0)
    }

    /// Removes one handle from the count of a file. If that was its last handle, removes the open
    /// file from the table and returns it; otherwise returns `None`.
    pub(crate) fn leave(&self, ino: Ino) -> Option<Arc<OpenFile>> {
        let mut tables = self.tables();
        let (_, count) = tables.files.get_mut(&ino)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        tables.files.remove(&ino).map(|(file, _)| file)
    }
}
