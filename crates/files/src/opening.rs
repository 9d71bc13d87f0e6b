//! Opening files, and closing them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use record::{Ino, Kind};
use rustix::io::Errno;
use volume::{FoundNode, NodeName, ReaderGuard};

use crate::change_log::FileChange;
use crate::files::Files;
use crate::open::{HandleId, OpenFile, OpenMode, OpenedFile};
use crate::stale_retries::StaleReply;

/// What was found to be opened.
struct FoundToOpen {
    node: FoundNode,
    /// What alone may keep it from being deleted.
    kept: Option<Arc<OpenFile>>,
}

impl Files {
    /// Opens a file, as it is now: what was acknowledged anywhere before is seen.
    ///
    /// # Errors
    /// `ESTALE` if the name by which it was found leads elsewhere or is not known; the thread that
    /// asks for the same node once more is given it. `ETXTBSY` if a program that runs is to be cut;
    /// `EPERM` if what is locked is to be written to.
    pub async fn open(&self, ino: Ino, mode: OpenMode) -> Result<OpenedFile, Errno> {
        if mode.writes || mode.truncates {
            self.check_writable()?;
        }
        // Of what is opened to be written to the kernel knows that it runs. This it asks for first.
        if mode.truncates && !mode.writes && self.open.runs(ino) {
            return Err(Errno::TXTBSY);
        }
        if let Some(opened) = self.reopened_handle().await {
            return self.apply_mode(opened, mode).await;
        }
        let reading = self.volume.reading();
        let found = self.find_to_open(ino).await?;
        let lock = found.node.inode.file().map(|file| file.object.lock);
        let is_changed = mode.writes || mode.truncates;
        if is_changed && lock.is_some_and(|lock| lock.holds(self.volume.passed(), false)) {
            return Err(Errno::PERM);
        }
        let opened = self.add_handle_of(found.node, reading, found.kept).await?;
        self.apply_mode(opened, mode).await
    }

    /// What stands behind a number that is to be opened, if the name by which it was found still leads
    /// to it, or whoever asks does not come by a name.
    async fn find_to_open(&self, ino: Ino) -> Result<FoundToOpen, Errno> {
        let (stale_reply, began) = (self.stale_retries.take(self.thread), Instant::now());
        let is_retry = stale_reply
            .is_some_and(|stale_reply| stale_reply.ino == ino && !stale_reply.looked_up_name);
        let name = self.names.get(ino);
        if let Some(name) = &name {
            match self.retry_until_deadline(|| self.volume.find_name(name)).await {
                Ok(node) if node.ino == ino => return Ok(FoundToOpen { node, kept: None }),
                Ok(_) | Err(Errno::NOENT) => self.names.remove(ino, name),
                Err(error) => return Err(error),
            }
        }
        // What a name led to since its thread was told so is what it led to during its call.
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
        if let Some(node) = self.found_by_number(ino).await? {
            return Ok(FoundToOpen { node, kept: None });
        }
        self.stale_retries.insert(self.thread, StaleReply::of(ino, began));
        name.into_iter().for_each(|name| self.volatile_names.watch(name));
        Err(Errno::STALE)
    }

    /// A file that was opened, as it was asked for.
    async fn apply_mode(&self, opened: OpenedFile, mode: OpenMode) -> Result<OpenedFile, Errno> {
        let handle = self.open.handle(opened.handle)?;
        handle.executes.store(mode.executes, Ordering::Relaxed);
        if !mode.writes && !mode.truncates {
            return Ok(opened);
        }
        let mut state = handle.file.state.lock().await;
        self.log_told_name(&mut state)?;
        if !mode.truncates || self.resent_requests.has_executed(self.request) {
            return Ok(opened);
        }
        let (now, drop_rights) = (self.volume.now(), mode.drops_rights);
        self.log(&mut state, &FileChange::Resize { size: 0, drop_rights, now })?;
        state.resize(0);
        state.touch(now, drop_rights);
        Ok(OpenedFile { attributes: state.attributes(), unchanged: false, ..opened })
    }

    /// A handle of a file that was just found or made.
    pub(crate) async fn add_handle(
        &self,
        node: FoundNode,
        reading: ReaderGuard,
    ) -> Result<OpenedFile, Errno> {
        self.add_handle_of(node, reading, None).await
    }

    /// The same of a file that was found before, which alone may keep it from being deleted.
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

    /// A file has lost its last name.
    pub(crate) async fn note_unlinked(&self, ino: Ino, name: &NodeName, last: bool) {
        self.names.remove(ino, name);
        if last && let Some(file) = self.open.get(ino) {
            let mut state = file.state.lock().await;
            state.unlinked = true;
            self.log_unlinked(&mut state);
        }
    }

    /// Ends a handle. What was written through it and not made the file's content becomes that.
    pub async fn release(&self, handle: HandleId) {
        self.end_handle(handle);
        let Some(handle) = self.open.remove(handle) else { return };
        let ino = handle.file.ino;
        // Nobody is left to be told, but those who have the file open too.
        let _reported = self.flush_file(&handle.file).await;
        // Before the file leaves the table: an open that comes now finds the same claim.
        self.end_claim(&handle).await;
        if let Some(file) = self.open.leave(ino) {
            let mut state = file.state.lock().await;
            self.end_log(&mut state);
            if state.is_dirty() {
                // What was written could not become content, for example because of a quota. It is lost
                // now, and the kernel may remember its size.
                self.invalidate_cache_soon(ino);
            }
        }
    }
}
