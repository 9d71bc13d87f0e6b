//! Opening files, and closing them.

use record::{Ino, Kind};
use rustix::io::Errno;
use volume::{FoundNode, NodeName};

use crate::files::Files;
use crate::open::{HandleId, OpenFile, OpenMode, OpenedFile};

impl Files {
    /// Opens a file, as it is now: what was acknowledged anywhere before is seen.
    ///
    /// # Errors
    /// `ESTALE` if the name by which it was found leads elsewhere.
    pub async fn open(&self, ino: Ino, mode: OpenMode) -> Result<OpenedFile, Errno> {
        if mode.writes || mode.truncates {
            self.changeable()?;
        }
        let reading = self.volume.reading();
        let node = match (self.names.of(ino), self.open.of(ino)) {
            (Some(name), open) => match self.patiently(|| self.volume.find_name(&name)).await {
                Ok(node) if node.ino == ino => node,
                Ok(_) | Err(Errno::NOENT) => {
                    self.names.gone(ino, &name);
                    match open {
                        Some(file) => file.state.lock().await.node.clone(),
                        None => return Err(Errno::STALE),
                    }
                }
                Err(error) => return Err(error),
            },
            (None, Some(file)) => file.state.lock().await.node.clone(),
            (None, None) => self.patiently(|| self.volume.find_node(ino)).await?,
        };
        let opened = self.add_handle(node, reading).await?;
        if mode.truncates {
            let file = self.open.handle(opened.handle)?;
            let mut state = file.file.state.lock().await;
            state.resize(0);
            state.touch(self.volume.now(), mode.drops_rights);
            return Ok(OpenedFile { attributes: state.attributes(), unchanged: false, ..opened });
        }
        Ok(opened)
    }

    /// A handle of a file that was just found or made.
    pub(crate) async fn add_handle(
        &self,
        node: FoundNode,
        reading: volume::ReaderGuard,
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
        let (handle, file) = self.open.add(ino, new);
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
            file.state.lock().await.nameless = true;
        }
    }

    /// Ends a handle. What was written through it and not made the file's content becomes that.
    pub async fn release(&self, handle: HandleId) {
        let Some(handle) = self.open.remove(handle) else { return };
        let ino = handle.file.ino;
        // Nobody is left to be told, but those who have the file open too.
        let _told = self.flush_file(&handle.file).await;
        self.open.leave(ino);
    }
}
