//! Threads that hash for many bodies at once.
//!
//! A worker takes jobs from a queue, as many as there are columns, and takes more whenever a column is
//! free. While it is busy or gets no processor, jobs collect in the queue, and the more there are the
//! cheaper each is. A job may also have [`Patience`]: it waits for others, for a limited time, and not
//! once all others that could come are there.
//!
//! The queue is bounded. Beyond [`WAITING_JOBS_MAX`] jobs or [`WAITING_BYTES_MAX`] bytes a job is given
//! back, and its caller hashes it alone. Even if workers die, every job gets a result or an error.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use futures::channel::oneshot;

use crate::job::{Column, Job, step};
use crate::md5::Md5;
use crate::vectors::COLUMNS_MAX;
use crate::ways::Ways;

/// Processors per worker: hashing is about a third of what large uploads cost.
pub const PROCESSORS_PER_WORKER: usize = 3;

/// Jobs that wait for a column at most.
pub const WAITING_JOBS_MAX: usize = 1_024;

/// Bytes of jobs that wait for a column at most.
pub const WAITING_BYTES_MAX: usize = 32 << 20;

/// Waiting jobs at which no worker waits any longer: more of them are hardly cheaper each.
pub const JOBS_WAITING_MAX: usize = 12;

/// How long a job may wait for others, which makes all of them cheaper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// From when it is submitted; none by default.
    pub wait: Duration,
    /// How many jobs may come, this one included. When that many wait, none waits any longer.
    pub jobs: usize,
}

/// Threads that hash. They end when the pool is dropped and all jobs are done.
#[derive(Debug)]
pub struct HashingPool {
    queue: Arc<SharedQueue>,
}

/// The MD5 after a job, as a future.
///
/// Dropping it cancels the job.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<Md5>);

/// A worker ended before its job did, which is a bug. The message's MD5 is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the thread that hashes has ended")]
pub struct Gone;

impl HashingPool {
    /// Starts workers. If some threads cannot be started there are fewer; if none can, every job is
    /// given back.
    pub fn start(workers: NonZeroUsize) -> HashingPool {
        let queue = Arc::new(SharedQueue::default());
        for number in 0..workers.get() {
            queue.waiting().workers += 1;
            let worker = Worker(Arc::clone(&queue));
            // If the thread cannot be started, the worker is dropped, which corrects the count.
            let _ =
                thread::Builder::new().name(format!("md5-{number}")).spawn(move || worker.run());
        }
        HashingPool { queue }
    }

    /// How many workers suit a machine.
    pub fn workers_for(processors: NonZeroUsize) -> NonZeroUsize {
        NonZeroUsize::new(processors.get() / PROCESSORS_PER_WORKER).unwrap_or(NonZeroUsize::MIN)
    }

    /// Puts a job into the queue.
    ///
    /// # Errors
    /// The job itself, if too much waits already or there is no worker: [`Job::run`] does it here.
    pub fn submit(&self, job: Job, patience: Patience) -> Result<Pending, Job> {
        let bytes = job.bytes();
        let due = Instant::now() + patience.wait;
        let (answer, pending) = oneshot::channel();
        let mut waiting = self.queue.waiting();
        let full = waiting.jobs.len() >= WAITING_JOBS_MAX
            || waiting.bytes.saturating_add(bytes) > WAITING_BYTES_MAX;
        if full || waiting.workers == 0 {
            return Err(job);
        }
        waiting.bytes += bytes;
        waiting.jobs.push_back(QueuedJob { job, bytes, answer });
        let first = waiting.due.is_none();
        waiting.due = Some(waiting.due.map_or(due, |other| other.min(due)));
        waiting.awaited = patience.jobs.min(JOBS_WAITING_MAX);
        let wake = waiting.idle > 0 && (first || waiting.is_due(Instant::now()));
        drop(waiting);
        if wake {
            self.queue.arrived.notify_one();
        }
        Ok(Pending(pending))
    }
}

impl Drop for HashingPool {
    fn drop(&mut self) {
        self.queue.waiting().closed = true;
        self.queue.arrived.notify_all();
    }
}

impl Future for Pending {
    type Output = Result<Md5, Gone>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Md5, Gone>> {
        Pin::new(&mut self.0).poll(context).map_err(|oneshot::Canceled| Gone)
    }
}

/// The queue, shared with the workers.
#[derive(Default)]
struct SharedQueue {
    waiting: Mutex<JobQueue>,
    arrived: Condvar,
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<QueuedJob>,
    /// Bytes of all these jobs.
    bytes: usize,
    /// Workers that have not ended, and those of them that are idle.
    workers: usize,
    idle: usize,
    closed: bool,
    /// When the jobs have waited for long enough, and how many they wait for.
    due: Option<Instant>,
    awaited: usize,
}

impl JobQueue {
    /// Whether the jobs have waited for long enough.
    fn is_due(&self, now: Instant) -> bool {
        self.closed || self.jobs.len() >= self.awaited || self.due.is_none_or(|due| due <= now)
    }
}

struct QueuedJob {
    job: Job,
    bytes: usize,
    answer: oneshot::Sender<Md5>,
}

impl SharedQueue {
    /// A poisoned lock is fine: no code can panic in the middle of a change.
    fn waiting(&self) -> MutexGuard<'_, JobQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all is done and no more will come.
    fn is_over(&self) -> bool {
        let waiting = self.waiting();
        waiting.closed && waiting.jobs.is_empty()
    }

    /// Takes at most `wanted` jobs. With `wait`, it waits until jobs are due, and returns none only if
    /// the pool is closed.
    fn take(&self, wanted: usize, wait: bool) -> Vec<QueuedJob> {
        let mut waiting = self.waiting();
        while wait && !(waiting.closed && waiting.jobs.is_empty()) {
            let now = Instant::now();
            if !waiting.jobs.is_empty() && waiting.is_due(now) {
                break;
            }
            waiting.idle += 1;
            waiting = match waiting.due {
                Some(due) => {
                    let left = due.saturating_duration_since(now);
                    let woken = self.arrived.wait_timeout(waiting, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
            waiting.idle -= 1;
        }
        let taken = wanted.min(waiting.jobs.len());
        let taken: Vec<QueuedJob> = waiting.jobs.drain(..taken).collect();
        waiting.bytes -= taken.iter().map(|one| one.bytes).sum::<usize>();
        if waiting.jobs.is_empty() {
            waiting.due = None;
        }
        taken
    }
}

impl fmt::Debug for SharedQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedQueue").finish_non_exhaustive()
    }
}

/// A thread's work. When the last worker ends, for whatever reason, waiting jobs are dropped, which
/// answers them.
struct Worker(Arc<SharedQueue>);

impl Worker {
    fn run(self) {
        let ways = Ways::timed();
        let mut columns = Vec::with_capacity(COLUMNS_MAX);
        loop {
            let taken = self.0.take(COLUMNS_MAX - columns.len(), columns.is_empty());
            let wanted = taken.into_iter().filter(|one| !one.answer.is_canceled());
            columns.extend(wanted.map(|one| Column::new(one.job, one.answer)));
            if columns.is_empty() && self.0.is_over() {
                return;
            }
            let done = columns.extract_if(.., |column| column.is_done());
            for (md5, answer) in done.map(Column::into_md5) {
                // The caller may be gone.
                let _ = answer.send(md5);
            }
            step(ways, &mut columns);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.workers -= 1;
        if waiting.workers == 0 {
            waiting.bytes = 0;
            let jobs = std::mem::take(&mut waiting.jobs);
            drop(waiting);
            drop(jobs);
        }
    }
}

#[cfg(test)]
mod tests;
