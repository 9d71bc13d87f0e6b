//! A pool of threads that hash jobs of many bodies in parallel.
//!
//! A worker is a thread of the pool. It takes jobs from a queue, at most one for each column (the
//! position of a message in the vector registers), and takes more when a column becomes free. While
//! the worker is busy, jobs collect in the queue; the more jobs it then hashes together, the less
//! each costs. A job can also have [`Patience`]: it waits a limited time for other jobs, and stops
//! waiting when all expected jobs are there. For example, with ten uploads in progress a job waits
//! until ten jobs are queued or its time is over.
//!
//! The queue has limits. Beyond [`QUEUED_JOBS_MAX`] jobs or [`QUEUED_BYTES_MAX`] bytes the pool
//! returns the job, and the caller hashes it on its own thread. If a worker ends unexpectedly, each
//! caller of its jobs gets an error. If it was the last worker, the callers of the queued jobs get
//! an error, too.

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

/// The number of processors of the machine for each worker, that is, for each hashing thread.
/// Hashing is about a third of the CPU time of large uploads.
pub const PROCESSORS_PER_WORKER: usize = 3;

/// The largest number of jobs in the queue of the pool. The pool returns further jobs to their
/// callers, who hash them on their own threads.
pub const QUEUED_JOBS_MAX: usize = 1_024;

/// The largest number of bytes of all jobs in the queue. A job that would exceed it is returned to
/// its caller.
pub const QUEUED_BYTES_MAX: usize = 32 << 20;

/// The largest number of queued jobs for which an idle hashing thread waits. The cost per job
/// hardly falls with more jobs, so a thread begins at once if the queue has this number.
pub const AWAITED_JOBS_MAX: usize = 12;

/// The wait of a job in the queue for other jobs, because jobs that are hashed together cost less.
/// It ends when the time is over or when enough jobs are queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// The longest wait after the submission of the job. Zero by default: an idle hashing thread
    /// takes the job at once.
    pub wait: Duration,
    /// The number of jobs that the caller expects in the queue, including this one. The wait ends
    /// when this number of jobs is queued, or `AWAITED_JOBS_MAX` if that is less.
    pub jobs: usize,
}

/// A pool of threads that compute MD5s of jobs. If the pool is dropped, its threads finish all
/// queued jobs and then end.
#[derive(Debug)]
pub struct HashingPool {
    queue: Arc<SharedQueue>,
}

/// The future result of a submitted job: the running MD5 after the last piece of the job.
///
/// If the caller drops it before a hashing thread takes the job from the queue, the job is not
/// hashed. Later a drop has no effect on the job.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<Md5>);

/// The error of a job whose hashing thread ended before the job was done; also of a queued job, if
/// the last thread of the pool ended. This is a bug of this program. The MD5 of the message is
/// lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hashing thread has ended")]
pub struct Gone;

impl HashingPool {
    /// Starts a pool of `workers` threads. If some of them cannot be started, the pool has fewer.
    /// If none can, `submit` returns each job to its caller.
    pub fn start(workers: NonZeroUsize) -> HashingPool {
        let queue = Arc::new(SharedQueue::default());
        for number in 0..workers.get() {
            // The count rises before the spawn, because a failed spawn drops the worker, which
            // lowers it.
            queue.waiting().workers += 1;
            let worker = Worker(Arc::clone(&queue));
            // If the thread cannot be started, the closure with the worker is dropped, and the drop
            // decrements the count.
            let _ =
                thread::Builder::new().name(format!("md5-{number}")).spawn(move || worker.run());
        }
        HashingPool { queue }
    }

    /// Returns the number of hashing threads for a machine with `processors` processors: one for
    /// each `PROCESSORS_PER_WORKER` processors, at least one.
    pub fn workers_for(processors: NonZeroUsize) -> NonZeroUsize {
        NonZeroUsize::new(processors.get() / PROCESSORS_PER_WORKER).unwrap_or(NonZeroUsize::MIN)
    }

    /// Appends a job to the queue. `patience` is the wait that the job allows for other jobs.
    ///
    /// # Errors Returns the job if the queue is full or the pool has no thread. The caller can then
    /// hash it on its own thread with [`Job::run`].
    pub fn submit(&self, job: Job, patience: Patience) -> Result<Pending, Job> {
        let bytes = job.bytes();
        let due = Instant::now() + patience.wait;
        let (answer, pending) = oneshot::channel();
        let mut waiting = self.queue.waiting();
        let full = waiting.jobs.len() >= QUEUED_JOBS_MAX
            || waiting.bytes.saturating_add(bytes) > QUEUED_BYTES_MAX;
        if full || waiting.workers == 0 {
            return Err(job);
        }
        waiting.bytes += bytes;
        waiting.jobs.push_back(QueuedJob { job, bytes, answer });
        let first = waiting.due.is_none();
        waiting.due = Some(waiting.due.map_or(due, |other| other.min(due)));
        // The newest job knows best how many jobs are in progress.
        waiting.awaited = patience.jobs.min(AWAITED_JOBS_MAX);
        // A worker that is busy takes the job at its next step, so only idle ones need a wake-up.
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

/// The queue of jobs, which the pool shares with its threads. `arrived` wakes idle threads.
#[derive(Default)]
struct SharedQueue {
    waiting: Mutex<JobQueue>,
    arrived: Condvar,
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<QueuedJob>,
    /// The number of bytes to hash of all queued jobs together.
    bytes: usize,
    /// The number of hashing threads that have not ended, and the number of those that wait for
    /// jobs.
    workers: usize,
    idle: usize,
    closed: bool,
    /// The time at which the wait of the queued jobs for other jobs ends, and the number of queued
    /// jobs that ends it earlier. `due` is `None` if the queue is empty.
    due: Option<Instant>,
    awaited: usize,
}

impl JobQueue {
    /// Returns true if the queued jobs need not wait for other jobs any longer.
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
    /// Locks the queue. A poisoned lock is safe to use, because no code panics in the middle of a
    /// change.
    fn waiting(&self) -> MutexGuard<'_, JobQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the pool is closed and the queue is empty.
    fn is_over(&self) -> bool {
        let waiting = self.waiting();
        waiting.closed && waiting.jobs.is_empty()
    }

    /// Takes at most `wanted` jobs from the queue. If `wait` is true, the call blocks until the
    /// wait of the queued jobs is over, and returns an empty list only if the pool is closed.
    /// Otherwise it returns at once, and the list may be empty.
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

/// A hashing thread of the pool. When the last thread ends, for any reason, the queued jobs are
/// dropped, so that their callers get the error `Gone`.
struct Worker(Arc<SharedQueue>);

impl Worker {
    fn run(self) {
        let mut columns = Vec::with_capacity(COLUMNS_MAX);
        loop {
            // A worker with jobs in progress does not wait for more jobs: its own would make no
            // progress.
            let taken = self.0.take(COLUMNS_MAX - columns.len(), columns.is_empty());
            // A job whose future was dropped is not worth hashing.
            let wanted = taken.into_iter().filter(|one| !one.answer.is_canceled());
            columns.extend(wanted.map(|one| Column::new(one.job, one.answer)));
            if columns.is_empty() && self.0.is_over() {
                return;
            }
            let done = columns.extract_if(.., |column| column.is_done());
            for (md5, answer) in done.map(Column::into_md5) {
                // The send fails if the caller has dropped the future, which cancels the job.
                let _ = answer.send(md5);
            }
            step(&mut columns);
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
            // The jobs are dropped without the lock, because their drop wakes the callers.
            drop(waiting);
            drop(jobs);
        }
    }
}

#[cfg(test)]
mod tests;
