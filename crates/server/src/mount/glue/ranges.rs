//! Ranges of open files: allocated, made holes, searched and copied.

use files::HandleId;
use fuse::FileOperation;
use rustix::io::Errno;
use volume::SeekTarget;

use super::{Answer, Call};

/// Modes of fallocate(2).
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 0x10;

/// The user whose programs may change a file and leave it its rights.
const ROOT_USER: u32 = 0;

/// What lseek(2) seeks besides a position.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

impl Call {
    pub(super) async fn range(&self, operation: FileOperation<'_>) -> Result<Answer, Errno> {
        let files = &self.files;
        let changed = match &operation {
            FileOperation::FAllocate { handle, .. } => Some(handle),
            FileOperation::CopyFileRange { target_handle, .. } => Some(target_handle),
            _ => None,
        };
        if let Some(handle) = changed.filter(|_| self.request.uid() != ROOT_USER) {
            files.drop_rights(HandleId(handle.0)).await?;
        }
        Ok(match operation {
            FileOperation::FAllocate { handle, offset, length, mode } => {
                let (handle, keeps) = (HandleId(handle.0), mode & KEEP_SIZE != 0);
                let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
                match mode & !KEEP_SIZE {
                    0 => files.allocate(handle, end, keeps).await?,
                    PUNCH_HOLE if keeps => files.zero(handle, offset, length, true).await?,
                    ZERO_RANGE => files.zero(handle, offset, length, keeps).await?,
                    _ => return Err(Errno::OPNOTSUPP),
                }
                Answer::Ok
            }
            FileOperation::LSeek { handle, offset, whence } => {
                let sought = match whence {
                    SEEK_DATA => SeekTarget::Data,
                    SEEK_HOLE => SeekTarget::Hole,
                    _ => return Err(Errno::INVAL),
                };
                Answer::Position(files.seek(HandleId(handle.0), offset, sought).await?)
            }
            FileOperation::CopyFileRange {
                handle,
                offset,
                target_handle,
                target_offset,
                length,
                ..
            } => {
                let from = (HandleId(handle.0), offset);
                let to = (HandleId(target_handle.0), target_offset);
                Answer::Copied(files.copy(from, to, length).await?)
            }
            _ => return Err(Errno::NOSYS),
        })
    }
}
