//! Whether an open file still has a name.
//!
//! `st_nlink` of an open file is 0 once its last name is gone. The name may have been removed by another
//! mount, a PUT or DELETE of S3, or an operator. Programs that use lock files depend on it: they lock
//! the file, and then look whether it was unlinked while they waited.

use std::sync::Arc;

use rustix::io::Errno;
use volume::FoundNode;

use crate::attributes::NodeStat;
use crate::files::Files;
use crate::open::OpenFile;

impl Files {
    /// The attributes of a file that a program has open, with 0 links if its last name is gone.
    pub(crate) async fn attributes_of_open(&self, file: &Arc<OpenFile>) -> Result<NodeStat, Errno> {
        let (node, _) = self.find_open(file).await?;
        Ok(self.with_access_time(file.attributes(node.as_ref()).await))
    }

    /// Takes note of what others have written to an open file. The kernel asks for attributes before it
    /// reads through its page cache, and does not ask before reads that pass by it.
    pub(crate) async fn refresh_open(&self, file: &Arc<OpenFile>) -> Result<(), Errno> {
        if let (Some(node), _) = self.find_open(file).await? {
            file.state.lock().await.refresh(&node);
        }
        Ok(())
    }

    /// Finds an open file as it is now; `None` if its record is gone. Returns with it true if this
    /// look has found out that its last name is gone.
    pub(crate) async fn find_open(
        &self,
        file: &Arc<OpenFile>,
    ) -> Result<(Option<FoundNode>, bool), Errno> {
        let ino = file.ino;
        // One round trip, as a look at the node itself: it shows that there is a name, too.
        if let Some(name) = self.names.get(ino) {
            match self.retry_until_deadline(|| self.volume.find_name(&name)).await {
                Ok(node) if node.ino == ino => return Ok((Some(node), false)),
                Ok(_) | Err(Errno::NOENT | Errno::STALE) => self.names.remove(ino, &name),
                Err(error) => return Err(error),
            }
        }
        let (node, is_unlinked) =
            match self.retry_until_deadline(|| self.volume.find_unlinked(ino)).await {
                Ok((node, left)) => (Some(node), left),
                Err(Errno::STALE) => (None, true),
                Err(error) => return Err(error),
            };
        let lost_name = is_unlinked && {
            // A process that follows this one finds it out by itself.
            let mut state = file.state.lock().await;
            !std::mem::replace(&mut state.unlinked, true)
        };
        Ok((node, lost_name))
    }
}
