//! Copies of ranges from one open file to another (`copy_file_range`(2)).
//!
//! A range of at least 64 KiB is copied by reference: the content map of the target gets the blocks
//! of the source, and no data moves. Both files are flushed first. If blocks cannot be shared, the
//! bytes are copied through memory, at most 16 MiB for one request; the kernel then asks for the
//! rest.

use std::sync::Arc;

use std::ops::Range;

use rustix::io::Errno;
use volume::{FileWrite, FoundNode, FsError, Note, VolumeError};

use crate::files::Files;
use crate::open::{HandleId, OpenFile};
use crate::write::FILE_BYTES_MAX;

/// The shortest range that is copied by reference, in bytes. For a shorter one, a copy of the data
/// costs less than the share records of a shared block.
const SHARED_BYTES_MIN: u64 = 64 << 10;

/// The sizes of one copy step through memory, and of all steps for one request, in bytes.
const STEP_BYTES: u64 = 1 << 20;
const COPIED_BYTES_MAX: u64 = 16 << 20;

/// How often a copy by reference is tried again when the source changes meanwhile.
const ATTEMPTS_MAX: usize = 4;

/// The result of one attempt to copy a range by reference, that is, by sharing blocks instead of
/// copying bytes.
enum ShareOutcome {
    /// The blocks are shared. The values are the target file after the commit, and the number of
    /// bytes copied.
    Done(FoundNode, u64),
    /// The source was changed by another client: find it again and retry.
    Changed,
    /// The blocks cannot be shared: copy the bytes.
    Unsupported,
}

impl Files {
    /// Copies up to `length` bytes from a position of one file to a position of another file, or of
    /// the same. Returns the number of bytes copied: 0 at the end of the source, and maybe fewer
    /// than `length`.
    ///
    /// # Errors
    /// `EINVAL` if both ranges are in one file and overlap; `EFBIG` beyond the largest file size.
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

    /// Copies a range by reference: the target shares the blocks of the source. Returns the number
    /// of bytes, or `None` if the bytes must be copied.
    async fn share(
        &self,
        source: &Arc<OpenFile>,
        range: Range<u64>,
        target: &Arc<OpenFile>,
        position: u64,
    ) -> Result<Option<u64>, Errno> {
        // Only committed content has blocks that the target can refer to.
        self.flush_file(source).await?;
        let mut found = (*source.state.lock().await.node).clone();
        for _ in 0..ATTEMPTS_MAX {
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
            // Release the target while the source is read again.
            drop(quiesced);
            found = match self.retry_until_deadline(|| self.volume.find_node(source.ino)).await {
                Ok(node) => node,
                Err(Errno::STALE) => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        Ok(None)
    }

    /// Makes one attempt to copy a range by reference, from the version of the source that was
    /// read.
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

    /// Copies up to `length` bytes through memory. Returns the number of bytes copied, which is
    /// less at the end of the source or if a write fails after the first ones.
    async fn copy_bytes(
        &self,
        from: (HandleId, u64),
        to: (HandleId, u64),
        length: u64,
    ) -> Result<u64, Errno> {
        // The parts are not logged as this request: if the next worker gets the request again, it
        // must repeat all of it.
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
                // The next write or fsync of the target returns the error.
                Err(_) => break,
            }
        }
        Ok(copied)
    }
}
