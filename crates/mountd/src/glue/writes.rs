//! Writes.
//!
//! A write has two steps: its bytes are copied, which frees the request, and then it waits for
//! memory for dirty data. For example, while the stores are unreachable, writers wait in the second
//! step, and other programs still get replies, because the fixed number of request buffers is not
//! used up.

use files::{AcceptedWrite, HandleId, PageAccess};
use fuse::{Errno, FileOperation, Reply};

use super::killed::WaitingCaller;
use super::{Call, errno};

/// A flag of open(2).
const APPEND: u32 = 0o2000;

/// A write whose bytes are copied from the kernel's request, with its access to the file's pages.
/// The access lasts until the reply: a handover of the file's pages to another session waits for
/// it.
type Taken = (AcceptedWrite, PageAccess);

impl Call {
    /// Copies the bytes of a WRITE from the kernel's request, so that the request is free. Returns
    /// them with the access to the file's pages.
    pub(super) async fn accept_write(
        &self,
        operation: &FileOperation<'_>,
    ) -> Result<Taken, rustix::io::Errno> {
        let FileOperation::Write {
            handle, offset, data, flags, from_page_cache, kill_suidgid, ..
        } = operation
        else {
            return Err(rustix::io::Errno::NOSYS);
        };
        let (handle, appends) = (HandleId(handle.0), flags & APPEND != 0);
        // The kernel writes back pages that this session has access to. Their handover to another
        // session waits for that, so no access is needed here.
        let access = if *from_page_cache {
            self.files.check_written_back(handle)?;
            PageAccess::unlimited()
        } else {
            self.files.access_pages(handle, false).await?
        };
        let taken = self.files.accept_write(handle, *offset, data, appends, *kill_suidgid).await?;
        Ok((taken, access))
    }

    /// Replies to a write when there is memory for its bytes. The request is dropped before the
    /// wait, because the FUSE session has a fixed number of them and cannot read others without a
    /// free one.
    pub(super) async fn wait_for_write_memory(
        self,
        taken: Result<Taken, rustix::io::Errno>,
        reply: Reply,
    ) {
        let Call { files, request, .. } = self;
        let pid = request.pid();
        drop(request);
        let (taken, access) = match taken {
            Ok(taken) => taken,
            Err(error) => return reply.error(errno(error)),
        };
        {
            let mut settling = std::pin::pin!(files.wait_for_write_memory(&taken));
            match WaitingCaller::new(pid).until_done(settling.as_mut(), &reply).await {
                Some(Ok(bytes)) => reply.written(bytes),
                Some(Err(error)) => reply.error(errno(error)),
                None => {
                    reply.error(Errno::EINTR);
                    let _unreported = settling.await;
                }
            }
        }
        drop(access);
        files.finish_write(taken).await;
    }
}
