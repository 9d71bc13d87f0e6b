//! A set of tasks that run to their end, also if no caller waits for them.
//!
//! If a client disconnects, the server drops the future of its request. Work that must not stop
//! halfway, for example a commit or the deletion of blocks, runs in a task of this set instead, and
//! shutdown waits for the set. A panic ends only its own task, and is counted.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::error;

/// A set of tasks that run to their end, and that shutdown waits for. Clones are the same set.
#[derive(Clone, Debug)]
pub struct Tasks {
    runtime: Handle,
    tracker: TaskTracker,
    panics: Arc<AtomicU64>,
}

impl Tasks {
    /// Returns an empty set, whose tasks run on the current runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[expect(clippy::new_without_default, reason = "a default does not need a runtime")]
    pub fn new() -> Tasks {
        Tasks { runtime: Handle::current(), tracker: TaskTracker::new(), panics: Arc::default() }
    }

    /// Runs a future to its end in a task. Dropping the handle detaches the task and does not stop
    /// it. Can be called from any thread, also in a `drop` outside of the runtime. `name` appears
    /// in the log.
    pub fn spawn<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let panics = Arc::clone(&self.panics);
        let task = async move {
            // Caught here to be counted and logged, and resumed for a caller that waits for the
            // handle.
            match AssertUnwindSafe(future).catch_unwind().await {
                Ok(output) => output,
                Err(panic) => {
                    panics.fetch_add(1, Ordering::Relaxed);
                    error!(task = name, "a background task panicked; report this with the log");
                    resume_unwind(panic)
                }
            }
        };
        self.tracker.spawn_on(task, &self.runtime)
    }

    /// Returns the number of tasks that have not ended.
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Returns the number of tasks that ended in a panic.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Waits until all tasks have ended, with those that they spawn meanwhile, but no longer than
    /// `timeout`. Returns the number of tasks that still run.
    pub async fn close_and_wait(&self, timeout: Duration) -> usize {
        // A closed tracker still accepts tasks, so tasks can spawn others during the wait.
        self.tracker.close();
        // If the timeout elapses, the count is not 0.
        let _elapsed = tokio::time::timeout(timeout, self.tracker.wait()).await;
        self.tracker.len()
    }
}

#[cfg(test)]
mod tests;
