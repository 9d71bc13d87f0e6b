//! The volume's tasks: work that must run to its end, whether or not anybody waits for it.
//!
//! A client that disconnects drops the future that serves it. What may not stop halfway, a commit
//! or the deletion of blocks, runs in a task of this set instead, and shutdown waits for the set.
//! A panic ends its own task only; it is counted.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::error;

/// A set of tasks that shutdown waits for. Clones are the same set.
#[derive(Clone, Debug)]
pub struct Tasks {
    runtime: Handle,
    tracker: TaskTracker,
    panics: Arc<AtomicU64>,
}

impl Tasks {
    /// An empty set, whose tasks run on the runtime that this is called on.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[expect(clippy::new_without_default, reason = "a default does not need a runtime")]
    pub fn new() -> Tasks {
        Tasks { runtime: Handle::current(), tracker: TaskTracker::new(), panics: Arc::default() }
    }

    /// Runs a future to its end. Dropping the handle detaches the task; it does not stop it. May
    /// be called from anywhere, a `drop` outside of the runtime included.
    pub fn spawn<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let panics = Arc::clone(&self.panics);
        let task = async move {
            match AssertUnwindSafe(future).catch_unwind().await {
                Ok(output) => output,
                Err(panic) => {
                    panics.fetch_add(1, Ordering::Relaxed);
                    error!(task = name, "a task panicked");
                    resume_unwind(panic)
                }
            }
        };
        self.tracker.spawn_on(task, &self.runtime)
    }

    /// Tasks that have not ended.
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Tasks that ended in a panic.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Waits until every task has ended, also those that tasks spawn meanwhile, but no longer
    /// than `patience`. Returns how many are still running: 0 if all is done.
    pub async fn close_and_wait(&self, patience: Duration) -> usize {
        self.tracker.close();
        // An elapsed deadline shows in the count.
        let _elapsed = tokio::time::timeout(patience, self.tracker.wait()).await;
        self.tracker.len()
    }
}

#[cfg(test)]
mod tests;
