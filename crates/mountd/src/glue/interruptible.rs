//! Execution of operations whose callers may be killed while they wait. For example, a killed
//! program gets `EINTR` from an fsync of an unreachable store, and the fsync still completes.

use fuse::{Errno, FileOperation, Reply};

use super::killed::WaitingCaller;
use super::{Answer, Call, errno};

impl Call {
    /// Replies when the operation is done, or with `EINTR` when its caller is ending.
    pub(super) async fn answer_interruptible(&self, operation: FileOperation<'_>, reply: Reply) {
        let closes = matches!(operation, FileOperation::Flush { .. });
        let waiting = WaitingCaller { pid: self.request.pid(), closes };
        let mut work = std::pin::pin!(self.dispatch(operation));
        match waiting.until_done(work.as_mut(), &reply).await {
            Some(done) => send(done, reply),
            None => {
                reply.error(Errno::EINTR);
                let _unreported = work.await;
            }
        }
    }
}

/// Sends the result of an operation to the kernel as its reply: the answer or the error.
fn send(done: Result<Answer, rustix::io::Errno>, reply: Reply) {
    match done {
        Ok(answer) => answer.send(reply),
        Err(error) => reply.error(errno(error)),
    }
}
