//! Zeroing ranges of a file: `fallocate` with `FALLOC_FL_PUNCH_HOLE` or `FALLOC_FL_ZERO_RANGE`.
//!
//! A range of at least 64 KiB becomes a hole by one commit, and no zeros are written. Shorter
//! ranges, and ranges where a hole cannot be made, are written as zeros like other data. For
//! example, punching 1 GiB out of a disk image takes a few commits of metadata.

use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;
use volume::{FsError, Note, VolumeError};

use crate::files::Files;
use crate::open::{HandleId, OpenFile};
use crate::write::FILE_BYTES_MAX;
use crate::zeros::zeros;

/// The shortest range that becomes a hole, in bytes. A shorter one costs less as zeros than as the
/// slices around a hole.
const HOLE_BYTES_MIN: u64 = 64 << 10;

impl Files {
    /// Makes `length` bytes of a file from `position` read as zeros. If the range ends beyond the
    /// end of the file, the file grows, unless `keeps_size` is true.
    pub async fn zero(
        &self,
        handle: HandleId,
        position: u64,
        length: u64,
        keeps_size: bool,
    ) -> Result<(), Errno> {
        self.check_writable()?;
        let end = position.checked_add(length).filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or(Errno::FBIG)?;
        let opened = self.open.handle(handle)?;
        opened.failure()?;
        let size = opened.file.state.lock().await.size;
        let range = position..end.min(size).max(position);
        let is_long = range.end - range.start >= HOLE_BYTES_MIN;
        if !(is_long && self.clear(&opened.file, &range).await?) {
            self.write_zeros(handle, range).await?;
        }
        if end > size && !keeps_size {
            self.allocate(handle, end, false).await?;
        }
        Ok(())
    }

    /// Makes a range of a file a hole. Returns false if another client writes to the file, so that
    /// not all of the range is a hole.
    async fn clear(&self, file: &Arc<OpenFile>, range: &Range<u64>) -> Result<bool, Errno> {
        let known_name = self.names.get(file.ino);
        let mut at = range.start;
        while at < range.end {
            let Some(mut quiesced) = self.quiesce(file).await? else { return Ok(false) };
            // One plan may touch a limited number of content map pages, so go in steps.
            let end = quiesced.change_end(at, range.end);
            let write = quiesced.write(file.ino, known_name.as_ref());
            let clear = async || match self.volume.clear_range(write, at..end).await {
                Ok(node) => Ok(Some(node)),
                Err(VolumeError::Fs(FsError::ContentReplaced | FsError::Stale)) => Ok(None),
                Err(error) => Err(error),
            };
            let Some(node) = self.retry_until_deadline(clear).await? else { return Ok(false) };
            self.note_changed(&mut quiesced, &node);
            at = end;
        }
        Ok(true)
    }

    async fn write_zeros(&self, handle: HandleId, range: Range<u64>) -> Result<(), Errno> {
        // The parts are not logged as this request: if the next worker gets the request again, it
        // must repeat all of it.
        let part = self.for_request(0, Note::none());
        for (at, bytes) in zeros(range) {
            part.write(handle, at, &bytes, false, false).await?;
        }
        Ok(())
    }
}
