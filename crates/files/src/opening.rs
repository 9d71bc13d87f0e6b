//! Opening files, and closing them.

use std::sync::Arc;

use record::{Ino, Kind};
use rustix::io::Errno;
use volume::{FoundNode, NodeName, ReaderGuard};

use crate::files::Files;
use crate::open::{HandleId, OpenFile, OpenMode, OpenedFile};
use crate::telling::FileChange;

impl Files {
    /// Opens a file, as it is now: what was acknowledged anywhere before is seen.
    ///
    /// # Errors
    /// `ESTALE` if the name by which it was found leads elsewhere.
    pub async fn open(&self, ino: Ino, mode: OpenMode) -> Result<OpenedFile, Errno> {
        if mode.writes || mode.truncates {
            self.changeable()?;
        }
        if let Some(opened) = self.opened_before().await {
            return self.as_asked(opened, mode).await;
        }
        let reading = self.volume.reading();
        let fleeting = self.fleeting.of(ino);
        let kept = self.open.of(ino).or_else(|| fleeting.clone());
        let node = match (self.names.of(ino), kept) {
            (Some(name), _) => match self.patiently(|| self.volume.find_name(&name)).await {
                Ok(node) if node.ino == ino => node,
                Ok(_) | Err(Errno::NOENT) => {
                    // Whoever asks by name asks for another file now. Who has this one open and
                    // asks for it by that asks once more, and then no name is known of it.
                    self.names.gone(ino, &name);
                    let Some(file) = &fleeting else {
                        self.fleeting.missed(name);
                        return Err(Errno::STALE);
                    };
                    (*file.state.lock().await.node).clone()
                }
                Err(error) => return Err(error),
            },
            (None, Some(file)) => (*file.state.lock().await.node).clone(),
            (None, None) => self.patiently(|| self.volume.find_node(ino)).await?,
        };
        let opened = self.add_handle_of(node, reading, fleeting).await?;
        self.as_asked(opened, mode).await
    }

    /// A file that was opened, as it was asked for.
    async fn as_asked(&self, opened: OpenedFile, mode: OpenMode) -> Result<OpenedFile, Errno> {
        if !mode.writes && !mode.truncates {
            return Ok(opened);
        }
        let handle = self.open.handle(opened.handle)?;
        let mut state = handle.file.state.lock().await;
        self.log_told_name(&mut state)?;
        if !mode.truncates || self.inheritance.has_made(self.request) {
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
    pub(crate) async fn lost_name(&self, ino: Ino, name: &NodeName, last: bool) {
        self.names.gone(ino, name);
        if last && let Some(file) = self.open.of(ino) {
            let mut state = file.state.lock().await;
            state.nameless = true;
            self.log_nameless(&mut state);
        }
    }

    /// Ends a handle. What was written through it and not made the file's content becomes that.
    pub async fn release(&self, handle: HandleId) {
        self.end_handle(handle);
        let Some(handle) = self.open.remove(handle) else { return };
        let ino = handle.file.ino;
        // Nobody is left to be told, but those who have the file open too.
        let _told = self.flush_file(&handle.file).await;
        if let Some(file) = self.open.leave(ino) {
            self.end_log(&mut *file.state.lock().await);
        }
    }
}
