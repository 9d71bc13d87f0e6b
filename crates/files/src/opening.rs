//! Opening and closing files.
//!
//! The kernel opens a file in two steps: it looks up the name, and then opens the inode number that
//! it got. Another client can rebind the name in between. So an open checks that the name still
//! leads to the number, and fails with `ESTALE` if not; the kernel then looks up the name again.
//! For example, a PUT replaces `a` after the lookup of `a`: the first open gets `ESTALE`, the
//! second one opens the new object.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use record::{File, Ino, Kind};
use rustix::io::Errno;
use volume::{FoundNode, NodeName, ReaderGuard};

use crate::file_change::FileChange;
use crate::files::Files;
use crate::open::{HandleId, OpenFile, OpenMode, OpenedFile};
use crate::stale_retries::StaleReply;

/// The time for which an open waits for the end of the program that runs from the file. The kernel
/// closes the file of a program that has ended before it sends the open, but several threads read
/// the kernel's requests, so the open may be handled first.
const PROGRAM_END_WAIT: Duration = Duration::from_millis(500);

/// The interval at which such an open looks again.
const PROGRAM_END_CHECK: Duration = Duration::from_millis(5);

/// The node that an open found for the requested inode number.
struct FoundToOpen {
    node: FoundNode,
    /// The open file that was kept for the node because its name changes too fast. It may be all
    /// that keeps the node from being deleted. `None` if there is none.
    kept: Option<Arc<OpenFile>>,
}

impl Files {
    /// Opens a file in its present state: changes that were acknowledged anywhere before are
    /// visible.
    ///
    /// # Errors
    /// `ESTALE` if the name by which the node was found is bound to another node or unknown, except
    /// to a thread that asks for the same node a second time. `ETXTBSY` if `O_TRUNC` would empty a
    /// program that runs. `EACCES` if the content is encrypted under a key of a client (SSE-C),
    /// which a program does not have. `EPERM` if the open is for writing and the object is locked.
    /// `EISDIR`, `ELOOP` or `ENXIO` if the node is a directory, a symbolic link or a special file.
    /// `EROFS` if the open is for writing and the file system is read-only. `ENFILE` if the ledger
    /// is full.
    pub async fn open(&self, ino: Ino, mode: OpenMode) -> Result<OpenedFile, Errno> {
        if mode.writes || mode.truncates {
            self.check_writable()?;
        }
        // For opens with write access the kernel itself refuses a running program. It sends
        // `O_TRUNC` without write access to us first.
        if mode.truncates && !mode.writes {
            self.check_not_running(ino).await?;
        }
        if let Some(opened) = self.reopened_handle().await {
            return self.applied_mode(opened, mode).await;
        }
        let reading = self.volume.reading();
        let found = self.find_to_open(ino).await?;
        let lock = found.node.inode.file().map(|file| file.object.lock);
        let may_change = mode.writes || mode.truncates;
        // S3 object lock: neither content nor size may change until the retention ends.
        if may_change && lock.is_some_and(|lock| lock.holds(self.volume.passed(), false)) {
            return Err(Errno::PERM);
        }
        // Only a request with the client's key (SSE-C) can read the content, and a program has
        // none.
        if found.node.inode.file().is_some_and(File::needs_customer_key) {
            return Err(Errno::ACCESS);
        }
        let opened = self.add_handle_of(found.node, reading, found.kept).await?;
        self.applied_mode(opened, mode).await
    }

    /// Fails with `ETXTBSY` if a program that was executed from the file still runs after
    /// [`PROGRAM_END_WAIT`].
    async fn check_not_running(&self, ino: Ino) -> Result<(), Errno> {
        let end = tokio::time::Instant::now() + PROGRAM_END_WAIT;
        while self.open.runs(ino) {
            if tokio::time::Instant::now() >= end {
                return Err(Errno::TXTBSY);
            }
            tokio::time::sleep(PROGRAM_END_CHECK).await;
        }
        Ok(())
    }

    /// Applies the flags of an open to its new handle. If that fails, the kernel never sends a
    /// release, so the handle is closed here.
    async fn applied_mode(&self, opened: OpenedFile, mode: OpenMode) -> Result<OpenedFile, Errno> {
        let applied = self.apply_mode(opened, mode).await;
        if applied.is_err() {
            self.release(opened.handle).await;
        }
        applied
    }

    /// Finds the node with number `ino` for an open. Fails with `ESTALE` if its name is bound to
    /// another node, unless the caller does not come by a name: it retries after `ESTALE`, or it
    /// holds a file handle of NFS.
    async fn find_to_open(&self, ino: Ino) -> Result<FoundToOpen, Errno> {
        let (stale_reply, began) = (self.stale_retries.take(self.thread), Instant::now());
        // The thread got `ESTALE` before. If it did not look up a name since, it comes by a
        // descriptor (`/proc/self/fd/3`) and means this very node.
        let is_retry = stale_reply
            .is_some_and(|stale_reply| stale_reply.ino == ino && !stale_reply.looked_up_name);
        let name = self.names.get(ino);
        let _until_done = stale_reply.and_then(|_| self.keep_name(ino, name.as_ref()));
        if let Some(name) = &name {
            match self.retry_until_deadline(|| self.volume.find_name(name)).await {
                Ok(node) if node.ino == ino => return Ok(FoundToOpen { node, kept: None }),
                Ok(_) | Err(Errno::NOENT) => self.names.remove(ino, name),
                Err(error) => return Err(error),
            }
        }
        // The open that follows a lookup: accept any node that the name led to since the thread got
        // `ESTALE`, that is, during its open(2).
        let watched = match stale_reply {
            Some(_) if is_retry => self.volatile_names.get(ino),
            Some(stale_reply) => self.volatile_names.get_since(ino, stale_reply.at),
            None => None,
        };
        let open = self.open.get(ino);
        if let Some(file) = open.filter(|_| is_retry).or_else(|| watched.clone()) {
            let node = (*file.state.lock().await.node).clone();
            return Ok(FoundToOpen { node, kept: watched });
        }
        if is_retry {
            let node = self.retry_until_deadline(|| self.volume.find_node(ino)).await?;
            return Ok(FoundToOpen { node, kept: None });
        }
        // File handles of NFS have no name that could be checked.
        if let Some(node) = self.found_by_number(ino).await? {
            return Ok(FoundToOpen { node, kept: None });
        }
        self.stale_retries.insert(self.thread, StaleReply::of(ino, began));
        name.into_iter().for_each(|name| self.volatile_names.watch(name));
        Err(Errno::STALE)
    }

    /// Applies the flags of an open to its new handle: with `O_TRUNC` the file gets size 0.
    async fn apply_mode(&self, opened: OpenedFile, mode: OpenMode) -> Result<OpenedFile, Errno> {
        let handle = self.open.handle(opened.handle)?;
        handle.executes.store(mode.executes, Ordering::Relaxed);
        if !mode.writes && !mode.truncates {
            return Ok(opened);
        }
        let mut state = handle.file.state.lock().await;
        self.log_self_contained_name(&mut state)?;
        if !mode.truncates || self.resent_requests.has_executed(self.request) {
            return Ok(opened);
        }
        let (now, drop_rights) = (self.volume.now(), mode.drops_rights);
        self.log_and_apply(&mut state, &FileChange::Resize { size: 0, drop_rights, now })?;
        // Also if the file has size 0 here already: the committed file may be longer, because
        // another client has extended it since.
        state.resize(0);
        Ok(OpenedFile { attributes: state.attributes(), unchanged: false, ..opened })
    }

    /// Adds a handle for a node that was just found or created, and records it in the ledger.
    /// `reading` must have begun before the node was read, so that its blocks are not deleted.
    /// Fails with `EISDIR`, `ELOOP` or `ENXIO` if the node is not a file, and with `ENFILE` if the
    /// ledger is full.
    pub(crate) async fn add_handle(
        &self,
        node: FoundNode,
        reading: ReaderGuard,
    ) -> Result<OpenedFile, Errno> {
        self.add_handle_of(node, reading, None).await
    }

    /// As [`Files::add_handle`]; `before` is the open file that was kept for the node, if there is
    /// one.
    async fn add_handle_of(
        &self,
        node: FoundNode,
        reading: ReaderGuard,
        before: Option<Arc<OpenFile>>,
    ) -> Result<OpenedFile, Errno> {
        match node.inode.kind() {
            Kind::File => {}
            Kind::Directory => return Err(Errno::ISDIR),
            Kind::Symlink => return Err(Errno::LOOP),
            Kind::Special => return Err(Errno::NXIO),
        }
        let version = node.inode.file().map(|file| file.data_version);
        let ino = node.ino;
        let new = || OpenFile::new(self.volume.open_node(ino, reading), node.clone());
        let (handle, file) = match before {
            Some(file) => self.open.add_file(ino, file),
            None => self.open.add(ino, new),
        };
        // Recorded before the reply, so that the next worker knows each handle that a program has.
        if let Err(error) = self.keep_handle(handle, ino, false) {
            self.release(handle).await;
            return Err(error);
        }
        let mut state = file.state.lock().await;
        state.refresh(&node);
        let unchanged = self.seen_versions.get(&ino) == version && !state.is_dirty();
        version.into_iter().for_each(|version| self.seen_versions.insert(ino, version));
        Ok(OpenedFile { handle, unchanged, attributes: state.attributes() })
    }

    /// Notes that a name of a file was removed. If it was the last one (`last`), an open file shows
    /// 0 links from then on.
    pub(crate) async fn note_unlinked(&self, ino: Ino, name: &NodeName, last: bool) {
        self.names.remove(ino, name);
        self.note_exists(ino).await;
        if last && let Some(file) = self.open.get(ino) {
            let mut state = file.state.lock().await;
            self.note_last_unlink(&mut state);
        }
    }

    /// Closes a handle, and flushes its file, that is, commits its dirty data. If that fails and
    /// the file has no other handle, the data is lost.
    pub async fn release(&self, handle: HandleId) {
        // Removed from the ledger first: the kernel does not send a release twice.
        self.end_handle(handle);
        let Some(handle) = self.open.remove(handle) else { return };
        let ino = handle.file.ino;
        // A close has no caller that could get the error; other handles of the file return it.
        let _reported = self.flush_file(&handle.file).await;
        // Release the claim before the file leaves the table: a concurrent open must find the same
        // claim, and not take a second one.
        self.end_claim(&handle).await;
        if let Some(file) = self.open.leave(ino) {
            // Another request may be flushing the file, and would make its data dirty again.
            let _no_flush = file.flush_lock.lock().await;
            let mut state = file.state.lock().await;
            self.end_log(&mut state);
            // The creation could not be committed either, and must not be committed later.
            self.drop_creation(&mut state);
            if state.is_dirty() {
                // The data could not be committed, for example because of a quota, and is lost now.
                // The kernel may have cached the size that it would have given the file.
                self.invalidate_cache_soon(ino);
            }
        }
    }
}
