//! Open files: what is shared by those who have one open, and their handles.
//!
//! All handles of a file share one state: the file as it was last found or written, and over it what
//! was written since. A file that has lost its last name is there for them as long as one of them is.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use content::{ByteBudget, Permit};
use record::{Ino, RetainUntil, Timestamp};
use rustix::io::Errno;
use tokio::time::Instant;
use volume::{AttributeChange, FoundNode, Note, OpenNode, SetTime, without_rights};

use crate::attributes::NodeStat;
use crate::dirty::{DirtyExtents, FrozenExtents};
use crate::file_log::FileLog;
use crate::map_claim::MapClaim;
use crate::read_ahead::ReadAhead;
use crate::sequential::SequentialSums;
use crate::tail::AppendedTail;

/// Bytes that may have been written to a file of which nothing is kept any more: they stay in memory.
pub(crate) const DELETED_FILE_BYTES_MAX: u64 = 4 << 20;

/// The number of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandleId(pub u64);

/// What a file is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags of open(2)")]
pub struct OpenMode {
    /// For writing, too.
    pub writes: bool,
    /// Without the content that it has: `O_TRUNC`.
    pub truncates: bool,
    /// To run the program that it is.
    pub executes: bool,
    /// Whether it loses the rights of its set-user-ID and set-group-ID bits with that.
    pub drops_rights: bool,
}

/// A file that was opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenedFile {
    /// The new handle.
    pub handle: HandleId,
    /// Whether the content is the one that was seen at the open before, so that what a program's
    /// machine remembers of it may be used.
    pub unchanged: bool,
    /// The file's attributes.
    pub attributes: NodeStat,
}

/// A file that somebody has open.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) ino: Ino,
    _pin: OpenNode,
    pub(crate) state: tokio::sync::Mutex<FileState>,
    /// Held by whoever makes what was written the file's content: the sums of that, as long as it was
    /// written front to back.
    pub(crate) flush_lock: tokio::sync::Mutex<Option<SequentialSums>>,
    /// The part of this session in the file's shared maps.
    pub(crate) maps: MapClaim,
    /// Whether what was written is wanted to become the file's content soon.
    pub(crate) flush_requested: AtomicBool,
    /// Counts failures, and says which the last one was.
    pub(crate) failures: Mutex<(u64, Option<Errno>)>,
}

/// A file as those see it who have it open, from the bottom up: the file as found, cut; what is
/// becoming its content; cut; what was written since.
#[derive(Debug)]
pub(crate) struct FileState {
    pub(crate) node: Arc<FoundNode>,
    /// Whether the record is gone: nothing is kept of it any more.
    pub(crate) deleted: bool,
    /// Whether its last name is gone.
    pub(crate) unlinked: bool,
    pub(crate) flushing: Option<Arc<FlushingData>>,
    /// Up to where what lies below shows, if it was cut.
    pub(crate) cut: Option<u64>,
    pub(crate) dirty: DirtyExtents,
    /// Since when it has been known to be dirty.
    pub(crate) dirty_since: Option<Instant>,
    /// What of that was appended, if it is the end of the file.
    pub(crate) tail: Option<AppendedTail>,
    pub(crate) permit: Option<Permit>,
    pub(crate) size: u64,
    pub(crate) change: AttributeChange,
    /// When it was last written to, if that is to be kept.
    pub(crate) write_time: Option<Timestamp>,
    /// The retention that writes of this open file gave it by its bucket's default.
    pub(crate) own_retention: Option<RetainUntil>,
    /// What it says of this to the process that may follow.
    pub(crate) log: FileLog,
    /// Requests that have appended to it, and of which the programs have not been told yet.
    pub(crate) unanswered_appends: Vec<u64>,
}

/// What is becoming a file's content.
#[derive(Debug)]
pub(crate) struct FlushingData {
    pub(crate) extents: FrozenExtents,
    /// What of that was appended.
    pub(crate) tail: Option<AppendedTail>,
    /// Up to where the file below shows, if it was cut.
    pub(crate) cut: Option<u64>,
    pub(crate) size: u64,
    pub(crate) change: AttributeChange,
    pub(crate) write_time: Option<Timestamp>,
    /// The memory that it takes.
    pub(crate) permit: Mutex<Option<Permit>>,
    /// Where the log ends that says it.
    pub(crate) log_end: u64,
    /// By which whoever follows knows whether it has become content.
    pub(crate) note: Note,
}

impl FileState {
    fn new(node: FoundNode) -> FileState {
        let size = node.inode.file().map_or(0, |file| file.size);
        FileState {
            node: Arc::new(node),
            deleted: false,
            unlinked: false,
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

    /// The data version of the file as found.
    pub(crate) fn data_version(&self) -> Option<u64> {
        self.node.inode.file().map(|file| file.data_version)
    }

    /// Bytes of the file as found.
    pub(crate) fn found_size(&self) -> u64 {
        self.node.inode.file().map_or(0, |file| file.size)
    }

    /// Bytes of what lies below what was written.
    pub(crate) fn base_size(&self) -> u64 {
        self.flushing.as_ref().map_or(self.found_size(), |flushing| flushing.size)
    }

    /// Whether anything is not the file's yet.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
            || self.size != self.base_size()
            || self.cut.is_some()
            || !self.change.is_none()
            || self.write_time.is_some()
    }

    /// Puts the file as it is now below what was written. Answers whether it is another one.
    pub(crate) fn rebase(&mut self, node: &FoundNode) -> bool {
        if is_older(node, &self.node) || node.record == self.node.record {
            return false;
        }
        self.node = Arc::new(node.clone());
        // What is becoming content is laid over what there is, and says then how long the file is.
        if self.cut.is_none() && self.flushing.is_none() {
            self.follow_end();
            self.size = self.size.max(self.found_size());
        }
        true
    }

    /// Takes note of the file as it is now, if nothing that was written depends on what it was.
    pub(crate) fn refresh(&mut self, node: &FoundNode) {
        if self.flushing.is_none() && !self.is_dirty() && !is_older(node, &self.node) {
            // What is found again most of the time is what was found before.
            if *self.node != *node {
                self.node = Arc::new(node.clone());
            }
            self.size = self.found_size();
        }
    }

    /// Makes the file so long.
    pub(crate) fn resize(&mut self, size: u64) {
        self.note_resize(size);
        self.dirty.cut(size);
        let shown = self.cut.unwrap_or(u64::MAX).min(self.base_size());
        if size < shown {
            self.cut = Some(size);
        }
        self.size = size;
    }

    /// It is written to now.
    pub(crate) fn touch(&mut self, now: Timestamp, drop_rights: bool) {
        self.write_time = Some(now);
        self.change.modified = None;
        if drop_rights {
            self.drop_rights();
        }
    }

    /// Holds memory, too.
    pub(crate) fn hold(&mut self, permit: Option<Permit>) {
        match (&mut self.permit, permit) {
            (Some(held), Some(permit)) => held.merge(permit),
            (held @ None, permit) => *held = permit,
            (Some(_), None) => {}
        }
    }

    /// Nothing is kept of it any more. What was written to it is there for those who have it open, as
    /// far as there is memory for that. Answers whether that is all of it.
    pub(crate) fn mark_deleted(&mut self, memory: &ByteBudget) -> bool {
        self.deleted = true;
        let bytes = self.dirty.bytes();
        let permit = memory.try_acquire(bytes).filter(|_| bytes <= DELETED_FILE_BYTES_MAX);
        let kept = permit.is_some();
        self.permit = permit;
        if !kept {
            self.dirty = DirtyExtents::default();
            (self.tail, self.cut, self.size) = (None, None, self.found_size());
        }
        kept
    }

    /// Drops everything that was written and is not content yet.
    pub(crate) fn drop_unflushed(&mut self) {
        self.dirty = DirtyExtents::default();
        (self.tail, self.cut, self.write_time, self.permit) = (None, None, None, None);
        self.change = AttributeChange::default();
        self.size = self.found_size();
    }

    /// The file loses the rights that its set-user-ID and set-group-ID bits give, those that are yet to
    /// be set, too.
    pub(crate) fn drop_rights(&mut self) {
        self.change.drop_rights = true;
        self.change.mode = self.change.mode.map(without_rights);
    }

    /// Changes attributes together with what was written.
    pub(crate) fn set(&mut self, change: &AttributeChange, now: Timestamp) {
        let at = |time: SetTime| match time {
            SetTime::Now => SetTime::At(now),
            time @ SetTime::At(_) => time,
        };
        if change.drop_rights {
            self.drop_rights();
        }
        self.change.mode = change.mode.or(self.change.mode);
        self.change.uid = change.uid.or(self.change.uid);
        self.change.gid = change.gid.or(self.change.gid);
        self.change.accessed = change.accessed.map(at).or(self.change.accessed);
        self.change.modified = change.modified.map(at).or(self.change.modified);
    }

    /// What a program sees of it.
    pub(crate) fn attributes(&self) -> NodeStat {
        let mut shown = NodeStat::of(&self.node);
        shown.volatile_attributes = self.flushing.is_some() || self.is_dirty();
        let flushing =
            self.flushing.as_ref().map(|flushing| (&flushing.change, flushing.write_time));
        for (change, written) in flushing.into_iter().chain([(&self.change, self.write_time)]) {
            if let Some(written) = written {
                (shown.modified, shown.changed) = (written, written);
            }
            if change.drop_rights {
                shown.mode = without_rights(shown.mode);
            }
            shown.mode = change.mode.unwrap_or(shown.mode);
            shown.uid = change.uid.unwrap_or(shown.uid);
            shown.gid = change.gid.unwrap_or(shown.gid);
            if let Some(SetTime::At(time)) = change.modified {
                shown.modified = time;
            }
            if let Some(SetTime::At(time)) = change.accessed {
                shown.accessed = time;
            }
        }
        if self.unlinked || self.deleted {
            shown.links = 0;
        }
        let flushing = self.flushing.as_ref().map_or(0, |flushing| flushing.extents.bytes());
        shown.written_to(self.size, self.dirty.bytes() + flushing)
    }
}

/// The retention of a file.
pub(crate) fn retention(node: &FoundNode) -> Option<RetainUntil> {
    node.inode.file().and_then(|file| file.object.lock.retention)
}

/// Whether a file was found like this before it was found like that: what is read may be answered
/// late.
fn is_older(this: &FoundNode, that: &FoundNode) -> bool {
    let version = |node: &FoundNode| node.inode.file().map(|file| file.data_version);
    version(this) < version(that)
}

impl OpenFile {
    /// A file as it was found, which `pin` keeps from being deleted.
    pub(crate) fn new(pin: OpenNode, node: FoundNode) -> OpenFile {
        OpenFile {
            ino: node.ino,
            _pin: pin,
            state: tokio::sync::Mutex::new(FileState::new(node)),
            flush_lock: tokio::sync::Mutex::new(None),
            maps: MapClaim::default(),
            flush_requested: AtomicBool::new(false),
            failures: Mutex::new((0, None)),
        }
    }

    /// What a program sees of the file, which was found like this just now.
    pub(crate) async fn attributes(&self, node: Option<&FoundNode>) -> NodeStat {
        let mut state = self.state.lock().await;
        if let Some(node) = node {
            state.refresh(node);
        }
        state.attributes()
    }

    /// How many failures there were, and the last one.
    pub(crate) fn last_failure(&self) -> (u64, Option<Errno>) {
        *self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A failure that every handle is told of, once.
    pub(crate) fn fail(&self, error: Errno) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        *failures = (failures.0 + 1, Some(error));
    }
}

/// A handle of a file.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) file: Arc<OpenFile>,
    /// What is read ahead of whoever reads it.
    pub(crate) ahead: ReadAhead,
    /// Whether reads through it are not to be noted.
    pub(crate) no_atime: AtomicBool,
    /// Whether the program that it is runs.
    pub(crate) executes: AtomicBool,
    /// True if a program may have mapped the file shared through it.
    pub(crate) may_map: AtomicBool,
    /// True if the kernel reads and writes through it without its page cache.
    pub(crate) uncached: AtomicBool,
    /// True if other sessions may have changed what the program relies on: it fails from then on.
    failed: AtomicBool,
    /// Failures that it was told of.
    reported: AtomicU64,
}

impl Handle {
    fn new(file: Arc<OpenFile>, reported: u64) -> Arc<Handle> {
        let [no_atime, executes, may_map, uncached, failed] = [const { AtomicBool::new(false) }; 5];
        let (ahead, reported) = (ReadAhead::default(), AtomicU64::new(reported));
        Arc::new(Handle { file, ahead, no_atime, executes, may_map, uncached, failed, reported })
    }

    /// A failure that this handle has not been told of.
    pub(crate) fn failure(&self) -> Result<(), Errno> {
        let (count, error) = self.file.last_failure();
        match error {
            Some(error) if self.reported.swap(count, Ordering::Relaxed) < count => Err(error),
            _ => Ok(()),
        }
    }
}

/// Files that are open, and handles.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    tables: Mutex<Tables>,
    /// Handles of this process have larger numbers.
    first: u64,
}

#[derive(Debug, Default)]
struct Tables {
    next: u64,
    /// Each with how many handles it has.
    files: HashMap<Ino, (Arc<OpenFile>, u64)>,
    handles: HashMap<u64, Arc<Handle>>,
}

impl OpenFiles {
    /// None is open. Handles have the numbers behind this one.
    pub(crate) fn from(first: u64) -> OpenFiles {
        let tables = Mutex::new(Tables { next: first, ..Tables::default() });
        OpenFiles { tables, first }
    }

    /// A handle that a process before this one gave.
    pub(crate) fn adopt(&self, handle: u64, file: &Arc<OpenFile>) {
        let mut tables = self.tables();
        tables.files.entry(file.ino).or_insert_with(|| (Arc::clone(file), 0)).1 += 1;
        tables.handles.insert(handle, Handle::new(Arc::clone(file), 0));
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of this number, if somebody has it open.
    pub(crate) fn get(&self, ino: Ino) -> Option<Arc<OpenFile>> {
        self.tables().files.get(&ino).map(|(file, _)| Arc::clone(file))
    }

    /// How many handles a file has.
    pub(crate) fn handle_count(&self, ino: Ino) -> u64 {
        self.tables().files.get(&ino).map_or(0, |(_, handles)| *handles)
    }

    /// Whether a program runs that is this file, as far as this process was asked to open it.
    pub(crate) fn runs(&self, ino: Ino) -> bool {
        let tables = self.tables();
        let mut handles = tables.handles.values();
        tables.files.contains_key(&ino)
            && handles
                .any(|handle| handle.file.ino == ino && handle.executes.load(Ordering::Relaxed))
    }

    /// All files that are open.
    pub(crate) fn all(&self) -> Vec<Arc<OpenFile>> {
        self.tables().files.values().map(|(file, _)| Arc::clone(file)).collect()
    }

    /// All handles.
    pub(crate) fn handles(&self) -> Vec<Arc<Handle>> {
        self.tables().handles.values().cloned().collect()
    }

    /// A handle.
    ///
    /// # Errors
    /// `EIO` if the handle is [lost](OpenFiles::lose_adopted).
    pub(crate) fn handle(&self, handle: HandleId) -> Result<Arc<Handle>, Errno> {
        // What a process before this one had open and is not here was lost.
        let missing = if handle.0 <= self.first { Errno::STALE } else { Errno::BADF };
        let found = self.tables().handles.get(&handle.0).cloned().ok_or(missing)?;
        if found.failed.load(Ordering::Relaxed) { Err(Errno::IO) } else { Ok(found) }
    }

    /// Has the handles of a file fail that a process before this one gave. Returns true if any of them
    /// did not fail before.
    pub(crate) fn fail_adopted(&self, ino: Ino) -> bool {
        let tables = self.tables();
        let of_before = tables.handles.iter().filter(|(number, _)| **number <= self.first);
        let of_file = of_before.filter(|(_, handle)| handle.file.ino == ino);
        of_file.fold(false, |any, (_, handle)| any | !handle.failed.swap(true, Ordering::Relaxed))
    }

    /// Adds a handle of a file, which is `new` unless it was open.
    pub(crate) fn add(
        &self,
        ino: Ino,
        new: impl FnOnce() -> OpenFile,
    ) -> (HandleId, Arc<OpenFile>) {
        self.add_shared(ino, || Arc::new(new()))
    }

    /// Adds a handle of a file that is open again, unless another one is.
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

    /// Removes a handle. Its file stays until [`OpenFiles::leave`].
    pub(crate) fn remove(&self, handle: HandleId) -> Option<Arc<Handle>> {
        self.tables().handles.remove(&handle.0)
    }

    /// Lets go of a file. Answers it if this was the last that was said of it.
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
