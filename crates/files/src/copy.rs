//! Copying ranges from one open file to another.
//!
//! No byte of a long range moves: the target comes to name the blocks that the source names. What
//! was written to either is its content first. Where blocks cannot be shared, bytes are copied
//! through memory, and fewer than were asked for are copied at once.

use std::sync::Arc;

use std::ops::Range;

use rustix::io::Errno;
use volume::{FileWrite, FoundNode, FsError, Note, VolumeError};

use crate::files::Files;
use crate::open::{HandleId, OpenFile};
use crate::write::FILE_BYTES_MAX;

/// The shortest range that is shared, in bytes. Of a shorter one a copy costs less than what says
/// who owns its block.
const SHARED_BYTES_MIN: u64 = 64 << 10;

/// Bytes that are copied through memory at once, and for one request.
const STEP_BYTES: u64 = 1 << 20;
const COPIED_BYTES_MAX: u64 = 16 << 20;

/// How often a source that changes is looked at before its bytes are copied.
const TRIES: usize = 4;

/// What came of sharing.
enum ShareOutcome {
    /// The target now, and how many bytes it came to share.
    Done(FoundNode, u64),
    /// The source is not as it was found.
    Changed,
    /// Bytes are to be copied.
    Unsupported,
}

impl Files {
    /// Copies from a position of one file to a position of another, or of the same. Answers with
    /// how many bytes were copied: none at the source's end, and maybe fewer than were asked for.
    ///
    /// # Errors
    /// `EINVAL` if both ranges are of one file and overlap.
    pub async fn copy(
        &self,
        from: (HandleId, u64),
        to: (HandleId, u64),
        length: u64,
    ) -> Result<u64, Errno> {
        self.check_writable()?;
        let (source, target) = (self.open.handle(from.0)?, self.open.handle(to.0)?);
        target.failure()?;
        let size = source.file.state.lock().await.size;
        let range = from.1..from.1.saturating_add(length).min(size);
        if range.is_empty() {
            return Ok(0);
        }
        let length = range.end - range.start;
        let end = to.1.checked_add(length).filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or(Errno::FBIG)?;
        let is_same = source.file.ino == target.file.ino;
        if is_same && range.start < end && to.1 < range.end {
            return Err(Errno::INVAL);
        }
        if length >= SHARED_BYTES_MIN
            && let Some(shared) = self.share(&source.file, range, &target.file, to.1).await?
        {
            return Ok(shared);
        }
        self.copy_bytes(from, to, length.min(COPIED_BYTES_MAX)).await
    }

    /// Makes a file name what a range of another names. Answers with how many bytes of it that
    /// were, or with nothing if they are to be copied.
    async fn share(
        &self,
        source: &Arc<OpenFile>,
        range: Range<u64>,
        target: &Arc<OpenFile>,
        position: u64,
    ) -> Result<Option<u64>, Errno> {
        self.flush_file(source).await?;
        let mut found = (*source.state.lock().await.node).clone();
        for _ in 0..TRIES {
            let Some(mut quiesced) = self.quiesce(target).await? else { return Ok(None) };
            let found_size = found.inode.file().map_or(0, |file| file.size);
            let length = range.end.min(found_size).saturating_sub(range.start);
            let end = quiesced.change_end(position, position + length);
            if end == position {
                return Ok(None);
            }
            let range = range.start..range.start + (end - position);
            let known_name = self.names.get(target.ino);
            let write = quiesced.write(target.ino, known_name.as_ref());
            match self.share_once(&found, range, write, position).await? {
                ShareOutcome::Done(node, bytes) => {
                    self.note_changed(&mut quiesced, &node);
                    return Ok(Some(bytes));
                }
                ShareOutcome::Changed => {}
                ShareOutcome::Unsupported => return Ok(None),
            }
            drop(quiesced);
            found = match self.retry_until_deadline(|| self.volume.find_node(source.ino)).await {
                Ok(node) => node,
                Err(Errno::STALE) => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        Ok(None)
    }

    async fn share_once(
        &self,
        source: &FoundNode,
        range: Range<u64>,
        write: FileWrite<'_>,
        position: u64,
    ) -> Result<ShareOutcome, Errno> {
        let share = async || {
            let share = self.volume.share_range(write, source, range.clone(), position);
            match share.await {
                Ok((node, bytes)) => Ok(ShareOutcome::Done(node, bytes)),
                Err(VolumeError::Fs(FsError::SourceChanged)) => Ok(ShareOutcome::Changed),
                Err(VolumeError::Fs(
                    FsError::ContentReplaced | FsError::BlockReleasePending | FsError::Stale,
                )) => Ok(ShareOutcome::Unsupported),
                Err(error) => Err(error),
            }
        };
        self.retry_until_deadline(share).await
    }

    /// Copies bytes through memory.
    async fn copy_bytes(
        &self,
        from: (HandleId, u64),
        to: (HandleId, u64),
        length: u64,
    ) -> Result<u64, Errno> {
        // If it is asked for again, all of it is done again, not the parts that are missing.
        let part = self.for_request(0, Note::none());
        let mut copied = 0;
        while copied < length {
            let step = STEP_BYTES.min(length - copied);
            let bytes = self.read(from.0, from.1 + copied, step).await?.concat();
            if bytes.is_empty() {
                break;
            }
            match part.write(to.0, to.1 + copied, &bytes, false, false).await {
                Ok(written) => copied += u64::from(written),
                Err(error) if copied == 0 => return Err(error),
                // It is told of with what is asked for next.
                Err(_) => break,
            }
        }
        Ok(copied)
    }
}
