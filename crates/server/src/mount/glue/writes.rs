//! Writes.

use files::{AcceptedWrite, HandleId, PageAccess};
use fuse::{Errno, FileOperation, Reply};

use super::dying::Waiting;
use super::{Call, errno};

/// A flag of open(2).
const APPEND: u32 = 0o2000;

/// A write whose bytes are taken, with the access to pages that lasts until it is answered.
type Taken = (AcceptedWrite, PageAccess);

impl Call {
    /// Takes the bytes of a write.
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
        // The kernel writes back pages that it has access to. To hand them over waits for that.
        let access = if *from_page_cache {
            self.files.check_written_back(handle)?;
            PageAccess::unlimited()
        } else {
            self.files.access_pages(handle, false).await?
        };
        let taken = self.files.accept_write(handle, *offset, data, appends, *kill_suidgid).await?;
        Ok((taken, access))
    }

    /// Answers a write when there is memory for its bytes. Its request is not kept until then:
    /// the FUSE session has a fixed number of them, and serves no program without one.
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
            match Waiting::of(pid).until_done(settling.as_mut(), &reply).await {
                Some(Ok(bytes)) => reply.written(bytes),
                Some(Err(error)) => reply.error(errno(error)),
                None => {
                    reply.error(Errno::EINTR);
                    let _unheard = settling.await;
                }
            }
        }
        drop(access);
        files.finish_write(taken).await;
    }
}
