//! Threads that got `ESTALE` and are expected to retry.
//!
//! The kernel opens nodes by number, also if the program gave a name that is still in the kernel's
//! cache and is bound to another node in the meantime. After `ESTALE`, the kernel looks up the name
//! and opens the new node. If the program came by a descriptor instead (`/proc/self/fd/3`), the
//! kernel asks for the same node again. So only the thread that got `ESTALE` is given the old node
//! at the second try. For all other threads, a name may be the reason for the open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use record::Ino;

/// The maximum number of threads that are remembered because they got `ESTALE`.
const THREADS_MAX: usize = 1_024;

/// The time for which the retry of a thread that got `ESTALE` is expected. The kernel looks up the
/// path in between, and the process may be stopped for some seconds.
pub(crate) const RETRY_WITHIN: Duration = Duration::from_secs(10);

/// An `ESTALE` that a thread got for a node, after which it is expected to try again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StaleReply {
    /// The node that the thread asked for.
    pub(crate) ino: Ino,
    /// The start of the request: the program has been waiting since then.
    pub(crate) at: Instant,
    /// True if the thread has looked up a name since. Then it did not ask for the node by a
    /// descriptor.
    pub(crate) looked_up_name: bool,
    /// True if the last lookup of the thread found nothing. Then its call may be over, unless it
    /// looks up another name.
    found_nothing: bool,
}

impl StaleReply {
    /// Returns the reply for a request for this node that began at this time.
    pub(crate) fn of(ino: Ino, at: Instant) -> StaleReply {
        StaleReply { ino, at, looked_up_name: false, found_nothing: false }
    }
}

/// The threads that got `ESTALE` a short time ago and are expected to try again, by the kernel's
/// numbers.
#[derive(Debug, Default)]
pub(crate) struct StaleRetries {
    /// False if the table is empty: then no lock is taken.
    any: AtomicBool,
    threads: Mutex<HashMap<u32, StaleReply>>,
}

impl StaleRetries {
    /// Notes that a thread gets `ESTALE` and is expected to try again. If the table is full of
    /// recent ones, does nothing; the thread's retry then may fail too.
    pub(crate) fn insert(&self, thread: u32, reply: StaleReply) {
        let mut threads = self.threads();
        if threads.len() >= THREADS_MAX {
            threads.retain(|_, reply| reply.at.elapsed() < RETRY_WITHIN);
        }
        if threads.len() < THREADS_MAX {
            threads.insert(thread, reply);
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// Removes and returns the `ESTALE` to which this thread reacts with its present request.
    /// Returns `None` if it got no `ESTALE` a short time ago, or if a lookup since then has found
    /// nothing: its program's call may have ended with `ENOENT`, and a later call must not be given
    /// an earlier file.
    pub(crate) fn take(&self, thread: u32) -> Option<StaleReply> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut threads = self.threads();
        let reply = threads.remove(&thread);
        self.any.store(!threads.is_empty(), Ordering::Relaxed);
        reply.filter(|reply| !reply.found_nothing && reply.at.elapsed() < RETRY_WITHIN)
    }

    /// Notes that a thread looks up a name. Returns true if it got `ESTALE` a short time before, so
    /// that the lookup is probably its retry.
    pub(crate) fn note_lookup(&self, thread: u32) -> bool {
        if !self.any.load(Ordering::Relaxed) {
            return false;
        }
        let mut threads = self.threads();
        let Some(reply) = threads.get_mut(&thread) else { return false };
        reply.looked_up_name = true;
        // After a lookup without result this may be a later call. It began before this lookup.
        if std::mem::take(&mut reply.found_nothing) {
            reply.at = Instant::now();
        }
        true
    }

    /// Notes that a lookup of this thread has found nothing. The thread's call may go on all the
    /// same: a kernel that verifies a remembered name after ESTALE looks it up twice if the name
    /// has changed.
    pub(crate) fn note_missing(&self, thread: u32) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        if let Some(reply) = self.threads().get_mut(&thread) {
            reply.found_nothing = true;
        }
    }

    /// Removes the entries of threads whose `ESTALE` is too old: no retry is expected.
    pub(crate) fn expire(&self) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let mut threads = self.threads();
        threads.retain(|_, reply| reply.at.elapsed() < RETRY_WITHIN);
        self.any.store(!threads.is_empty(), Ordering::Relaxed);
    }

    fn threads(&self) -> MutexGuard<'_, HashMap<u32, StaleReply>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
