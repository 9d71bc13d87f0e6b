//! Blocks as files in a local folder.
//!
//! A block is written to a temporary file, synced, and then linked to its name. The file system
//! does that atomically and only if the name is free. Then the folders are synced. So a name is
//! either absent or leads to a complete, durable block, and the first content under a name stays.
//! Temporary files that a crash left in `tmp` are removed when the folder is opened next.
//!
//! Files and folders are accessible only to their owner, under every umask of the process.
//!
//! Several processes may share a folder. A process that opens it also removes unfinished files of
//! the others. These notice that and write them again. For example, a second gateway starts while
//! the first one writes a block: the link of the first one fails with `NotFound`, and it writes the
//! file again.

mod files;
mod private;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use record::{BlockId, Nonce};

use self::files::Files;
use crate::store::{READING_MARK, REMOVING_MARK, SETTING_MARK, check_encrypted, check_mark};
use crate::{BlockError, BlockErrorKind, BlockPage, BlockStore, MARK_NAME, SealedBlock, Stored};

/// Blocks as files in a local folder on a file system with hard links.
#[derive(Clone)]
pub struct FolderBlocks {
    files: Arc<Files>,
}

impl FolderBlocks {
    /// Opens a folder. Creates it if it is missing, removes files that a crash left behind, and
    /// checks that blocks can be written.
    ///
    /// # Errors
    /// Fails with `Refused` and a sentence for the operator if the folder cannot be created or
    /// written to, or if its file system has no hard links. A full folder opens, because its blocks
    /// can be read and deleted.
    pub async fn open(root: impl Into<PathBuf>) -> Result<FolderBlocks, BlockError> {
        let root = root.into();
        blocking("opening the block folder", move || {
            let files = Files::open(root)?;
            match files.probe() {
                // Reads and deletes need no free space, and deletes free some.
                Err(error) if error.kind() == BlockErrorKind::Full => {}
                probed => probed?,
            }
            Ok(FolderBlocks { files: Arc::new(files) })
        })
        .await
    }

    /// Returns true if a folder of blocks may contain this name: a session's, or one that the store
    /// itself uses.
    pub fn is_valid_name(name: &str) -> bool {
        [files::TEMPORARY, MARK_NAME, files::PROBE].contains(&name) || name.parse::<Nonce>().is_ok()
    }

    /// The path of the folder.
    pub fn root(&self) -> &Path {
        self.files.root()
    }

    /// Runs file system calls on a thread that may block.
    async fn call<T: Send + 'static>(
        &self,
        doing: &'static str,
        call: impl FnOnce(&Files) -> Result<T, BlockError> + Send + 'static,
    ) -> Result<T, BlockError> {
        let files = Arc::clone(&self.files);
        blocking(doing, move || call(&files)).await
    }
}

impl fmt::Debug for FolderBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FolderBlocks").field(&self.root()).finish()
    }
}

/// Runs `call` on a blocking thread. The thread fails to answer only if the runtime shuts down or
/// the call panics.
async fn blocking<T: Send + 'static>(
    doing: &'static str,
    call: impl FnOnce() -> Result<T, BlockError> + Send + 'static,
) -> Result<T, BlockError> {
    match tokio::task::spawn_blocking(call).await {
        Ok(answer) => answer,
        Err(error) => Err(BlockError::with_cause(BlockErrorKind::Unavailable, doing, error)),
    }
}

#[async_trait]
impl BlockStore for FolderBlocks {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        check_encrypted(block)?;
        // One copy of the block, so that the file is written with one system call.
        let (id, bytes) = (block.id(), block.to_bytes());
        self.call("writing a block", move |files| files.put(id, &bytes)).await?;
        Ok(Stored::default())
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        self.call("reading a block", move |files| files.get(id, bytes)).await
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        self.call("looking for a block", move |files| files.size(id)).await
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.call("deleting a block", move |files| files.delete(id)).await
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        self.call("listing the sessions", Files::sessions).await
    }

    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        self.call("listing a session", move |files| files.list(session, resume.as_deref())).await
    }

    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        self.call(READING_MARK, Files::mark).await
    }

    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        check_mark(&mark)?;
        self.call(SETTING_MARK, move |files| files.set_mark(&mark)).await
    }

    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.call(REMOVING_MARK, move |files| files.remove_mark(&mark)).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        self.call("probing the block folder", Files::probe).await
    }
}

#[cfg(test)]
mod tests;
