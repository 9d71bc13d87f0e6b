//! Takeover of the open files of a worker that ended.
//!
//! Programs have handles that this process did not give, and have written data that is not
//! committed. The ledger has the handles, the locks and the dirty data. [`Files::take_over`]
//! restores all of it before the first request is served. For example, a worker is killed after a
//! write(2) of 4 KiB was answered: the next worker reads the change from the log, and the next
//! flush commits it.
//!
//! The order matters: first the open files with their dirty data, then the locks, then the handles
//! in the table, then the claims of shared maps. A flush cannot run before its file has its locks
//! again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use futures::{StreamExt, stream};
use ledger::{DirtyLog, HandleEntry, Ledger, LockEntry, LoggedChange};
use record::{Ino, Inode, InodeBody, Kind, RangeLock, RangeLockKind, key};
use rustix::io::Errno;
use tracing::{error, info, warn};
use volume::{FoundNode, Journaled, Note};

use crate::attributes::NodeStat;
use crate::creating::is_same_creation;
use crate::creation::Creation;
use crate::directories::Cursor;
use crate::errno::errno;
use crate::file_change::{FileChange, created_record};
use crate::files::Files;
use crate::locks::LockLedger;
use crate::open::{FileState, HandleId, OpenFile, OpenedFile, retention};
use crate::resent_requests::{EXECUTED_MAX, Inherited};

/// The number of files of the previous worker (process of the mount) that are restored at the same
/// time.
const FILES_AT_ONCE: usize = 64;

/// The log of a file's dirty data that an earlier worker (process of the mount) left: its changes
/// that are not committed, and the offset up to which a flush committed it, with the journal entry
/// that proves it. `flushed` is `None` if no such flush was found.
struct ReadLog {
    log: DirtyLog,
    changes: Vec<LoggedChange>,
    flushed: Option<(u64, Note)>,
}

/// The logs of the files by their inode numbers, and the numbers of the requests that were
/// executed.
type ReadLogs = (HashMap<Ino, Vec<ReadLog>>, BTreeSet<u64>);

impl ReadLog {
    /// Iterates over the changes, in the order in which they were made.
    fn changes(&self) -> impl DoubleEndedIterator<Item = FileChange<'_>> {
        self.changes.iter().filter_map(FileChange::decode)
    }
}

impl Files {
    /// Returns the volume as seen by this request: each change records in the request's journal
    /// entry that it was sent and how it ended, so that the next worker (process of the mount)
    /// knows whether the request was executed.
    pub(crate) fn changing(&self) -> Journaled<'_> {
        self.volume.journaled(&self.note)
    }

    /// Records a handle in the ledger, before it is given to a program, so that the next worker
    /// (process of the mount) can restore it. Fails with `ENFILE` if the ledger is full.
    pub(crate) fn keep_handle(
        &self,
        handle: HandleId,
        ino: Ino,
        directory: bool,
    ) -> Result<(), Errno> {
        let Some(ledger) = &self.options.ledger else { return Ok(()) };
        let entry = HandleEntry { handle: handle.0, ino, request: self.request, directory };
        ledger.insert_handle(entry).map_err(|failure| {
            error!(%failure, "cannot record an open handle in the ledger");
            Errno::NFILE
        })
    }

    /// Removes a handle from the ledger. Call this before the release is answered: after the answer
    /// the kernel does not send the release again, and the next worker would keep the handle for
    /// ever.
    pub fn end_handle(&self, handle: HandleId) {
        if let Some(ledger) = &self.options.ledger {
            ledger.remove_handle(handle.0);
        }
    }

    /// Returns the handle that an earlier worker (process of the mount) opened for this request, if
    /// the kernel has sent the request again and the handle was restored.
    pub(crate) async fn reopened_handle(&self) -> Option<OpenedFile> {
        let handle = self.resent_requests.get_handle(self.request)?;
        let file = Arc::clone(&self.open.handle(handle).ok()?.file);
        let attributes = file.attributes(None).await;
        Some(OpenedFile { handle, unchanged: false, attributes })
    }

    /// Opens the file that an earlier worker (process of the mount) created for this request before
    /// it ended. The kernel has sent the request again.
    pub async fn open_created(&self, ino: Ino) -> Result<OpenedFile, Errno> {
        if let Some(opened) = self.reopened_handle().await {
            return Ok(opened);
        }
        let reading = self.volume.reading();
        let node = self.retry_until_deadline(|| self.volume.find_node(ino)).await?;
        self.add_handle(node, reading).await
    }

    /// Returns the attributes of the node that an earlier worker (process of the mount) created or
    /// linked for this request before it ended. The kernel has sent the request again. `directory`
    /// and `name` are the new name of the node.
    pub async fn created_node(
        &self,
        ino: Ino,
        directory: Ino,
        name: &[u8],
    ) -> Result<NodeStat, Errno> {
        self.names.insert(ino, &volume::NodeName { directory, name: name.to_vec() });
        self.attributes(ino).await
    }

    /// Restores the state of the earlier workers (processes of the mount) from the ledger: open
    /// files and directories, dirty data, locks, and claims (rights to have pages of mapped files
    /// in the kernel's cache). Does nothing without a ledger. Must finish before the first request
    /// is served.
    ///
    /// # Errors
    /// `EIO` if the ledger or the stores cannot be read.
    pub async fn take_over(&self) -> Result<(), Errno> {
        let Some(ledger) = &self.options.ledger else { return Ok(()) };
        let (mut logs, executed) = self.read_logs(ledger)?;
        let (entries, unused): (Vec<HandleEntry>, Vec<HandleEntry>) =
            ledger.inherited_handles().iter().partition(|entry| entry.request != 0);
        // The mount itself opened the handles without a request; no program has them.
        unused.iter().for_each(|entry| ledger.remove_handle(entry.handle));
        let (directories, files): (Vec<HandleEntry>, Vec<HandleEntry>) =
            entries.iter().partition(|entry| entry.directory);
        let inos: BTreeSet<Ino> =
            files.iter().map(|entry| entry.ino).chain(logs.keys().copied()).collect();
        let dirty = logs.len();
        let opening = inos.iter().map(|ino| {
            let logs = logs.remove(ino).unwrap_or_default();
            async move { (*ino, self.reopen_file(*ino, logs).await) }
        });
        let opening: Vec<_> = opening.collect();
        let opened: Vec<_> = stream::iter(opening).buffer_unordered(FILES_AT_ONCE).collect().await;
        let mut reopened: HashMap<Ino, Arc<OpenFile>> = HashMap::new();
        for (ino, opened) in opened {
            reopened.extend(opened?.map(|file| (ino, file)));
        }
        // Before any file is in the table: nothing may be flushed while its locks are not held.
        let lost = self.retake_locks(&reopened).await;
        self.adopt(&files, reopened);
        self.take_over_claims().await;
        self.fail_lost(lost);
        self.commit_inherited_creations().await;
        for entry in &directories {
            self.reopen_directory(entry).await;
        }
        // All open files are restored: inherited pins without an open file can be dropped.
        self.volume.end_inheritance();
        let (files, directories) = (files.len(), directories.len());
        info!(files, directories, dirty, "restored the open files of the previous worker");
        let handles = entries.iter().map(|entry| (entry.request, HandleId(entry.handle))).collect();
        let inherited = Inherited { executed: executed.into_iter().collect(), handles };
        if self.resent_requests.inherited.set(inherited).is_err() {
            warn!("the takeover of open files ran twice");
        }
        Ok(())
    }

    /// Reads the logs that earlier workers (processes of the mount) left, by the inode numbers of
    /// their files, and the numbers of the requests that the logs prove to be executed. Keeps the
    /// logs with a name for a request in progress.
    fn read_logs(&self, ledger: &Ledger) -> Result<ReadLogs, Errno> {
        let mut logs: HashMap<Ino, Vec<ReadLog>> = HashMap::new();
        let mut executed = BTreeSet::new();
        for mut log in ledger.inherited_logs() {
            // A flush can be committed although its log was not trimmed before the worker died: its
            // changes must not be replayed.
            let flushed = ledger.flushed(&log);
            let mut changes = Vec::new();
            while let Some(logged) =
                ledger.next_change(&mut log).map_err(|error| ledger_error(&error))?
            {
                let change = FileChange::decode(&logged);
                // The log has a name before the change of the request, so the name alone proves
                // nothing.
                if change.is_some_and(|change| change.marks_execution()) {
                    executed.insert(logged.request);
                }
                // Request numbers increase, so the first one is the oldest.
                if executed.len() > EXECUTED_MAX {
                    executed.pop_first();
                }
                let is_committed = change.is_some_and(|change| change.is_content_change())
                    && flushed.as_ref().is_some_and(|(end, _)| log.end() <= *end);
                if !is_committed {
                    changes.push(logged);
                }
            }
            let first = changes.first().and_then(FileChange::decode);
            if let Some(name) = first.and_then(|change| change.name_in_use()) {
                self.keep_inherited_name(log.ino(), &name, log);
                continue;
            }
            logs.entry(log.ino()).or_default().push(ReadLog { log, changes, flushed });
        }
        Ok((logs, executed))
    }

    /// Commits the creations that earlier workers have answered and not committed, because requests
    /// may reach them from now on. Errors are reported to the descriptors of each file; such a
    /// creation is tried again.
    async fn commit_inherited_creations(&self) {
        let mut created = Vec::new();
        for file in self.open.all() {
            let state = file.state.lock().await;
            // The close of a file without handles may be committing it already.
            if let Some(creation) = state.uncommitted() {
                self.creations.insert(&creation.name, &file);
                created.push(Arc::clone(&file));
            }
        }
        futures::future::join_all(created.iter().map(|file| self.commit_name(file))).await;
    }

    /// Adds the handles that programs got from earlier workers to the table of open files. Restored
    /// files without handles are flushed and closed.
    fn adopt(&self, handles: &[HandleEntry], mut reopened: HashMap<Ino, Arc<OpenFile>>) {
        let mut open = HashSet::new();
        for entry in handles {
            match reopened.get(&entry.ino) {
                Some(file) => {
                    self.open.adopt(entry.handle, file);
                    open.insert(entry.ino);
                }
                None => warn!(
                    ino = entry.ino.0,
                    "cannot restore an open file: its record was not found, and its handles return ESTALE"
                ),
            }
        }
        reopened.retain(|ino, _| !open.contains(ino));
        for (ino, file) in reopened {
            let (handle, _) = self.open.add_file(ino, file);
            let files = self.for_request(0, Note::none());
            self.spawn(async move { files.release(handle).await });
        }
    }

    /// Restores an open file of an earlier worker (process of the mount): reads it, and replays the
    /// changes in its log over it. Returns `None` if the file does not exist any more and the log
    /// has no copy of its record.
    async fn reopen_file(
        &self,
        ino: Ino,
        mut logs: Vec<ReadLog>,
    ) -> Result<Option<Arc<OpenFile>>, Errno> {
        // A log without changes may be that of a request, which had not logged its name yet.
        logs.sort_by_key(|read| {
            (!read.changes.is_empty() || read.flushed.is_some(), read.log.generation())
        });
        let log = logs.pop();
        // If there are two other logs, the older one is of an earlier open of the file, which was
        // flushed.
        logs.iter().for_each(|read| self.end_inherited_log(&read.log));
        let changes = || log.iter().flat_map(ReadLog::changes);
        // Pin the record first, and read it then: the reaper must not delete it in between.
        let pin = self.volume.open_inherited(ino);
        let reading = self.volume.reading();
        let record = changes().filter_map(|change| change.record()).next_back();
        let name = changes().filter_map(|change| change.name()).next_back();
        let created = created_record(changes());
        let created = created.and_then(|record| node_of(ino, record)).zip(name.clone());
        let (mut creation, mut is_lost) = (None, false);
        let (node, deleted) = match self.retry_until_deadline(|| self.volume.find_node(ino)).await {
            Ok(node) if created.as_ref().is_some_and(|(new, _)| !is_same_creation(&node, new)) => {
                // The store was restored to an earlier state, and the number belongs to another
                // file, which must not be overwritten.
                let Some((new, _)) = created else { return Ok(None) };
                error!(
                    ino = ino.0,
                    "another file has the number of a new file; the new file is lost"
                );
                is_lost = true;
                (new, true)
            }
            Ok(node) if node.inode.kind() == Kind::File => (node, false),
            Ok(_) => return Ok(None),
            Err(Errno::STALE) => {
                let removed = record.and_then(|record| node_of(ino, record));
                match (created, removed) {
                    // The creation was answered, and is not committed.
                    (Some((node, name)), _) => {
                        creation = Some(Arc::new(Creation::new(name)));
                        (node, false)
                    }
                    (None, Some(node)) => (node, true),
                    (None, None) => {
                        log.iter().for_each(|read| self.end_inherited_log(&read.log));
                        return Ok(None);
                    }
                }
            }
            Err(error) => return Err(error),
        };
        name.iter().for_each(|name| self.names.insert(ino, name));
        let file = OpenFile::new(pin.unwrap_or_else(|| self.volume.open_node(ino, reading)), node);
        if is_lost {
            file.fail(Errno::IO);
        }
        {
            let mut state = file.state.lock().await;
            state.creation = creation;
            if deleted {
                state.life = state.life.deleted();
            }
            if let Some(read) = log {
                self.replay(&mut state, read);
            }
        }
        Ok(Some(Arc::new(file)))
    }

    /// Replays the changes in a log on the state of its restored file, and continues the log.
    fn replay(&self, state: &mut FileState, read: ReadLog) {
        // The flushes of the earlier worker gave the object this retention. Otherwise the object
        // was locked before, and that worker had refused to open it for writing.
        state.own_retention = retention(&state.node);
        for change in read.changes() {
            let growth = state.written_range(&change).map_or(0, |range| state.dirty.growth(range));
            // Deleted files have a limit of their own, from which the next write takes memory too.
            let memory = if state.life.is_deleted() { &self.deleted_memory } else { &self.memory };
            // The limit held this data before, so it fits again.
            state.add_permit(memory.try_acquire(growth));
            state.apply(&change);
        }
        state.log.log = Some(read.log);
        if let Some((end, _note_until_trimmed)) = read.flushed {
            self.trim_log(state, end);
        }
    }

    /// Removes a log that an earlier worker left and that is not needed any more.
    fn end_inherited_log(&self, log: &DirtyLog) {
        if let Some(ledger) = &self.options.ledger {
            ledger.end_log(log);
        }
    }

    /// Restores an open directory of an earlier worker under its handle. Its reader begins with the
    /// first page again, and then seeks its position.
    async fn reopen_directory(&self, entry: &HandleEntry) {
        let ino = entry.ino;
        let found = self.volume.find_node(ino).await;
        found.iter().for_each(|node| self.remember_directory(node));
        let parent = match found {
            Ok(FoundNode { inode: Inode { body: InodeBody::Directory(found), .. }, .. })
                if ino != self.options.root =>
            {
                found.parent
            }
            Ok(_) => ino,
            Err(error) => {
                let error = errno(&error);
                if error == Errno::STALE {
                    self.seen_directories.note_lost(ino);
                }
                warn!(ino = ino.0, %error, "cannot restore an open directory: its record was not found");
                ino
            }
        };
        let cursor = Cursor { ino, parent, pages: tokio::sync::Mutex::default() };
        let mut cursors = self.directories.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        cursors.1.insert(entry.handle, Arc::new(cursor));
    }
}

fn ledger_error(error: &std::io::Error) -> Errno {
    error!(%error, "cannot read the mount's ledger");
    Errno::IO
}

/// Returns a deleted file from the copy of its record in its log; `None` if the copy is damaged.
fn node_of(ino: Ino, record: &[u8]) -> Option<FoundNode> {
    let (at, record) = (key::inode(ino), Bytes::copy_from_slice(record));
    let inode = Inode::decode(&at, &record)
        .inspect_err(|error| warn!(ino = ino.0, %error, "the copy of a file's record in the ledger is damaged"))
        .ok()?;
    Some(FoundNode { ino, inode, record, counts: None })
}

impl LockLedger for Ledger {
    fn store(&self, ino: Ino, held: &[RangeLock]) {
        let entry = |lock: &RangeLock| LockEntry {
            start: lock.start,
            last: lock.last,
            owner: lock.owner,
            pid: lock.pid,
            exclusive: lock.kind == RangeLockKind::Exclusive,
            flock: lock.flock,
        };
        let held: Vec<LockEntry> = held.iter().map(entry).collect();
        if let Err(error) = self.set_locks(ino, &held) {
            error!(ino = ino.0, %error, "cannot record locks in the ledger");
        }
    }

    fn load(&self) -> Vec<(Ino, Vec<RangeLock>)> {
        let lock = |entry: LockEntry| RangeLock {
            start: entry.start,
            last: entry.last,
            kind: if entry.exclusive { RangeLockKind::Exclusive } else { RangeLockKind::Shared },
            owner: entry.owner,
            pid: entry.pid,
            flock: entry.flock,
        };
        let locks = |locks: Vec<LockEntry>| locks.into_iter().map(lock).collect();
        self.held_locks().into_iter().map(|(ino, entries)| (ino, locks(entries))).collect()
    }
}
