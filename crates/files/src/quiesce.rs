//! A file at rest: nothing that was written to it lies over what the volume has.
//!
//! As long as a file is held like this nobody writes to it here, nor reads it, so a change that
//! the volume makes by itself is seen by everybody or by nobody. Other machines may change the
//! file meanwhile: what the volume answers is the file as it is then.

use std::sync::Arc;

use record::{Content, Ino};
use rustix::io::Errno;
use tokio::sync::MutexGuard;
use volume::{FileWrite, FoundNode, NodeName};

use crate::files::Files;
use crate::open::{FileState, OpenFile, retention};
use crate::sequential::SequentialSums;

/// How often what others write meanwhile is waited for.
const TRIES: usize = 4;

/// Pages of a content map that one change touches: it names each of their blocks.
const PAGES_CHANGED_MAX: usize = 64;

/// A file at rest.
#[derive(Debug)]
pub(crate) struct Quiesced<'f> {
    _flush_lock: MutexGuard<'f, Option<SequentialSums>>,
    state: MutexGuard<'f, FileState>,
}

impl Files {
    /// Brings a file to rest. Nothing if others go on writing to it, or if nothing is kept of it any
    /// more.
    pub(crate) async fn quiesce<'f>(
        &self,
        file: &'f Arc<OpenFile>,
    ) -> Result<Option<Quiesced<'f>>, Errno> {
        for _ in 0..TRIES {
            self.flush_file(file).await?;
            let flush_lock = file.flush_lock.lock().await;
            let state = file.state.lock().await;
            if state.deleted {
                return Ok(None);
            }
            if !state.is_dirty() {
                return Ok(Some(Quiesced { _flush_lock: flush_lock, state }));
            }
        }
        Ok(None)
    }

    /// Takes note of what a file at rest was changed to.
    pub(crate) fn note_changed(&self, quiesced: &mut Quiesced<'_>, node: &FoundNode) {
        self.note_own_version(&quiesced.state.node, node);
        quiesced.state.refresh(node);
        quiesced.state.own_retention = retention(node);
    }
}

impl Quiesced<'_> {
    /// A change of the file's content by the programs that have it open here.
    pub(crate) fn write<'w>(&self, ino: Ino, known_name: Option<&'w NodeName>) -> FileWrite<'w> {
        let own_retention = self.state.own_retention;
        FileWrite { own_retention, ..FileWrite::new(ino, known_name) }
    }

    /// Where a change that begins at a position and is to end at `end` ends, if it is to touch no
    /// more of the content map than one plan may.
    pub(crate) fn change_end(&self, start: u64, end: u64) -> u64 {
        let Some(Content::Pages(pages)) = self.state.node.inode.file().map(|file| &file.content)
        else {
            return end;
        };
        let later = pages.partition_point(|page| page.start <= start);
        pages.get(later + PAGES_CHANGED_MAX - 1).map_or(end, |page| page.start.min(end))
    }
}
