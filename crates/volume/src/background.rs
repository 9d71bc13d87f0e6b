//! The border between a volume and the background work on it.
//!
//! The volume does not know which work runs beside it. It hands out the parts that such work uses,
//! and reports the files that it has written. For example, the relocator gets the session and the
//! block store as [`BackgroundParts`], and each flush of a file arrives at [`WriteObserver`].

use std::fmt;
use std::sync::Arc;

use block::BlockStore;
use content::Staging;
use keyring::Rings;
use record::{Ino, Inode};
use session::Session;

/// The observer of the files whose content the operations of a volume change.
///
/// The upkeep of a volume implements it, through the process that opens both: the relocator looks
/// at a file a moment after a write, because the write may have hidden most bytes of the file's
/// blocks. The trait exists so that the volume need not know its upkeep.
pub trait WriteObserver: fmt::Debug + Send + Sync {
    /// Takes note of a file that was written to, with its present inode. The volume calls this
    /// after each commit of content, on the path of the request, so an implementation must not wait
    /// and must not do I/O.
    fn note_written(&self, ino: Ino, inode: &Inode);
}

/// The parts of a volume that its background work uses beside the operations of views.
///
/// A view has no use for them: its operations are methods of [`crate::Volume`].
#[derive(Clone, Debug)]
pub struct BackgroundParts {
    /// The session. The tasks of background work run in [`Session::tasks`], so that the end of the
    /// session stops them and waits for them.
    pub session: Arc<Session>,
    /// The blocks of the volume, without the cache.
    pub blocks: Arc<dyn BlockStore>,
    /// The resources that all writers of blocks share, such as the memory budget, the source of
    /// block ids and the reader.
    pub staging: Arc<Staging>,
    /// The ring keys, under which content that moves is encrypted.
    pub rings: Arc<dyn Rings>,
    /// The size of a full pack (a block of several files), in bytes.
    pub pack_bytes: u32,
}
