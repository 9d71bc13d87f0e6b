//! Operations on ranges of open files: fallocate(2), lseek(2) for data and holes,
//! `copy_file_range(2)`.
//!
//! For example, fallocate with `PUNCH_HOLE` becomes `Files::zero`, and a copy shares the blocks of
//! its source.

use files::HandleId;
use rustix::io::Errno;
use volume::SeekTarget;

use super::{Answer, Call};

/// Modes of fallocate(2).
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 0x10;

/// The user whose programs keep the set-user-ID bits of a file that they change.
const ROOT_USER: u32 = 0;

/// The values of `whence` of lseek(2) that reach the file system. The kernel handles the others.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

impl Call {
    /// Carries out fallocate(2) with this mode.
    pub(super) async fn allocate(
        &self,
        handle: HandleId,
        offset: u64,
        length: u64,
        mode: u32,
    ) -> Result<Answer, Errno> {
        self.drop_rights(handle).await?;
        let (files, keeps) = (&self.files, mode & KEEP_SIZE != 0);
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        match mode & !KEEP_SIZE {
            0 => files.allocate(handle, end, keeps).await?,
            PUNCH_HOLE if keeps => files.zero(handle, offset, length, true).await?,
            ZERO_RANGE => files.zero(handle, offset, length, keeps).await?,
            _ => return Err(Errno::OPNOTSUPP),
        }
        Ok(Answer::Ok)
    }

    /// Returns the offset of the next data or hole at or after `offset`.
    pub(super) async fn seek(
        &self,
        handle: HandleId,
        offset: u64,
        whence: u32,
    ) -> Result<Answer, Errno> {
        let sought = match whence {
            SEEK_DATA => SeekTarget::Data,
            SEEK_HOLE => SeekTarget::Hole,
            _ => return Err(Errno::INVAL),
        };
        Ok(Answer::Position(self.files.seek(handle, offset, sought).await?))
    }

    /// Copies `length` bytes between two open files, each with an offset. Returns the number of
    /// bytes.
    pub(super) async fn copy_range(
        &self,
        from: (HandleId, u64),
        to: (HandleId, u64),
        length: u64,
    ) -> Result<Answer, Errno> {
        self.drop_rights(to.0).await?;
        Ok(Answer::Copied(self.files.copy(from, to, length).await?))
    }

    /// Clears the set-user-ID and set-group-ID bits and the capabilities of the open file, as a
    /// change of its content must, unless the program runs as root.
    async fn drop_rights(&self, handle: HandleId) -> Result<(), Errno> {
        if self.request.uid() == ROOT_USER {
            return Ok(());
        }
        self.files.drop_rights(handle).await
    }
}
