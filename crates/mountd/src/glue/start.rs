//! The start of operations: on the thread that read the request, or in a task of the runtime.
//!
//! For example, a LOOKUP of a remembered name is answered on the thread, and an UNLINK runs in a
//! task, because it waits for its commit.

use std::task::{Context, Waker};

use files::HandleId;
use fuse::FileOperation;

use super::replay::needs_journal;
use super::{Call, Glue};

impl Glue {
    /// Polls an operation once on this thread. Most operations complete then, because their data is
    /// cached, and a task would cost more than the operation. The others continue in a task.
    pub(super) fn start(&self, answering: impl Future<Output = ()> + Send + 'static) {
        let mut answering = Box::pin(answering);
        let _runtime = self.runtime.enter();
        // No waker is needed: if the operation is pending, the task polls it again with its own.
        let mut context = Context::from_waker(Waker::noop());
        if answering.as_mut().poll(&mut context).is_pending() {
            self.tasks.spawn_on(answering, &self.runtime);
        }
    }

    /// Starts an operation that waits for a commit in a task. A poll on this thread would wake a
    /// thread of the runtime for the commit, and the task another one.
    pub(super) fn start_task(&self, answering: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(answering, &self.runtime);
    }
}

impl Call {
    /// Returns true if the request waits for a commit, as far as known before its execution.
    pub(super) fn commits(&self) -> bool {
        let operation = self.request.operation();
        if let FileOperation::Flush { handle, .. } | FileOperation::FSync { handle, .. } = operation
        {
            return self.files.needs_flush(HandleId(handle.0));
        }
        needs_journal(&operation)
    }
}
