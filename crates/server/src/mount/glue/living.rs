//! Answers to programs that may be ended while they wait.

use fuse::{Errno, FileOperation, Reply};

use super::dying::Waiting;
use super::{Answer, Call, errno};

impl Call {
    /// Answers an operation when it is done, or when its caller is gone.
    pub(super) async fn answer_living(&self, operation: FileOperation<'_>, reply: Reply) {
        let closes = matches!(operation, FileOperation::Flush { .. });
        let waiting = Waiting { pid: self.request.pid(), closes };
        let mut work = std::pin::pin!(self.dispatch(operation));
        match waiting.until_done(work.as_mut(), &reply).await {
            Some(done) => send(done, reply),
            None => {
                reply.error(Errno::EINTR);
                let _unheard = work.await;
            }
        }
    }
}

fn send(done: Result<Answer, rustix::io::Errno>, reply: Reply) {
    match done {
        Ok(answer) => answer.send(reply),
        Err(error) => reply.error(errno(error)),
    }
}
