//! The link status of open files: is the file still linked?
//!
//! `st_nlink` of an open file is 0 after its last name was removed, by another mount, an S3 request
//! or an operator. Programs that use lock files depend on it. For example, a program waits for the
//! lock of a lock file; after it gets the lock, it checks with fstat(2) whether the file was
//! unlinked meanwhile.

use std::sync::Arc;

use rustix::io::Errno;
use volume::FoundNode;

use crate::attributes::NodeStat;
use crate::file_change::FileChange;
use crate::files::Files;
use crate::open::OpenFile;

impl Files {
    /// Returns the attributes of an open file, with 0 links if its last name was removed.
    pub(crate) async fn attributes_of_open(&self, file: &Arc<OpenFile>) -> Result<NodeStat, Errno> {
        let (node, _) = self.find_open(file).await?;
        Ok(self.with_access_time(file.attributes(node.as_ref()).await))
    }

    /// Reads an open file again from the volume, so that commits of other clients are visible. A
    /// file with dirty data is left as it is. The kernel asks for attributes before it reads
    /// through its page cache, but not before reads that bypass it.
    pub(crate) async fn refresh_open(&self, file: &Arc<OpenFile>) -> Result<(), Errno> {
        if let (Some(node), _) = self.find_open(file).await? {
            file.state.lock().await.refresh(&node);
        }
        Ok(())
    }

    /// Reads the present node of an open file from the volume; `None` if its record is deleted. The
    /// flag is true if this call found out that the last name was removed.
    pub(crate) async fn find_open(
        &self,
        file: &Arc<OpenFile>,
    ) -> Result<(Option<FoundNode>, bool), Errno> {
        let ino = file.ino;
        let was_unlinked = {
            let state = file.state.lock().await;
            if state.is_new() {
                return Ok((None, false));
            }
            state.life.is_unlinked()
        };
        // One round trip, as for the node alone, and the reply also proves that the name exists.
        if let Some(name) = self.names.get(ino) {
            match self.retry_until_deadline(|| self.volume.find_name(&name)).await {
                Ok(node) if node.ino == ino => {
                    Self::note_restored(file, was_unlinked).await;
                    return Ok((Some(node), false));
                }
                // The name leads elsewhere now. The node may still have other names.
                Ok(_) | Err(Errno::NOENT | Errno::STALE) => self.names.remove(ino, &name),
                Err(error) => return Err(error),
            }
        }
        let (node, is_unlinked) =
            match self.retry_until_deadline(|| self.volume.find_unlinked(ino)).await {
                Ok((node, is_unlinked)) => (Some(node), is_unlinked),
                Err(Errno::STALE) => (None, true),
                Err(error) => return Err(error),
            };
        if !is_unlinked {
            Self::note_restored(file, was_unlinked).await;
        }
        let lost_name = is_unlinked && {
            let mut state = file.state.lock().await;
            let was_known = state.life.is_unlinked();
            // Not logged: the next worker finds it out by itself.
            state.apply(&FileChange::Unlinked);
            !was_known
        };
        Ok((node, lost_name))
    }

    /// Notes that a read found a name of the file. A restored file has links again. If the file was
    /// unlinked only after `was_unlinked` was read, it stays unlinked, because its name may have
    /// been removed after the read.
    async fn note_restored(file: &OpenFile, was_unlinked: bool) {
        if was_unlinked {
            let mut state = file.state.lock().await;
            state.life = state.life.named();
        }
    }
}
