//! Quiesced files: no dirty data, and no reads or writes through this mount.
//!
//! Some changes are made in the volume directly, not through dirty data: making holes and copying
//! ranges by reference. While a file is quiesced, no read or write of this mount runs, so each
//! program sees the file before such a change or after it. Other mounts can change the file
//! meanwhile. The change then applies to the file as they have left it.
//!
//! For example, `fallocate --punch-hole` flushes the file, holds both of its mutexes, and commits
//! the hole.

use std::sync::Arc;

use record::{Content, Ino};
use rustix::io::Errno;
use tokio::sync::MutexGuard;
use volume::{FileWrite, FoundNode, NodeName};

use crate::files::Files;
use crate::open::{FileState, OpenFile, retention};
use crate::sequential::SequentialSums;

/// The number of times that a file is flushed until no dirty data is left, if programs write to it
/// again before its mutexes are taken.
const ATTEMPTS_MAX: usize = 4;

/// The maximum number of pages of a file's content map (the list of its extents) that one change of
/// a quiesced file touches. The plan of the change lists each of their blocks.
const PAGES_CHANGED_MAX: usize = 64;

/// A quiesced file: it has no dirty data, and both of its mutexes are held, so no read or write of
/// this mount runs.
#[derive(Debug)]
pub(crate) struct Quiesced<'f> {
    _flush_lock: MutexGuard<'f, Option<SequentialSums>>,
    state: MutexGuard<'f, FileState>,
}

impl Files {
    /// Quiesces a file: commits its dirty data, and holds its mutexes so that no read or write of
    /// this mount runs. Returns `None` if programs keep writing to it, or if it is deleted.
    pub(crate) async fn quiesce<'f>(
        &self,
        file: &'f Arc<OpenFile>,
    ) -> Result<Option<Quiesced<'f>>, Errno> {
        for _ in 0..ATTEMPTS_MAX {
            self.flush_file(file).await?;
            // Lock order: the flush lock, then the state, as in a flush.
            let flush_lock = file.flush_lock.lock().await;
            let state = file.state.lock().await;
            if state.life.is_deleted() {
                return Ok(None);
            }
            if !state.is_dirty() {
                return Ok(Some(Quiesced { _flush_lock: flush_lock, state }));
            }
        }
        Ok(None)
    }

    /// Sets the state of a quiesced file (no read or write of this mount runs) to `node`, the file
    /// after a change was committed.
    pub(crate) fn note_changed(&self, quiesced: &mut Quiesced<'_>, node: &FoundNode) {
        self.note_own_version(&quiesced.state.node, node);
        quiesced.state.refresh(node);
        quiesced.state.own_retention = retention(node);
    }
}

impl Quiesced<'_> {
    /// Returns the conditions of a change of the content by the programs that have the file open
    /// here.
    pub(crate) fn write<'w>(&self, ino: Ino, known_name: Option<&'w NodeName>) -> FileWrite<'w> {
        let own_retention = self.state.own_retention;
        FileWrite { own_retention, ..FileWrite::new(ino, known_name) }
    }

    /// Returns the end of a change that begins at `start` and should end at `end`: earlier than
    /// `end` if it would touch more pages of the content map than one plan (one conditional commit)
    /// may.
    pub(crate) fn change_end(&self, start: u64, end: u64) -> u64 {
        let Some(Content::Pages(pages)) = self.state.node.inode.file().map(|file| &file.content)
        else {
            return end;
        };
        let later = pages.partition_point(|page| page.start <= start);
        pages.get(later + PAGES_CHANGED_MAX - 1).map_or(end, |page| page.start.min(end))
    }
}
