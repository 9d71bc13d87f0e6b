//! Who was told ESTALE, and may come to open something.
//!
//! The kernel opens nodes by their numbers, also for a program that gave a name which the kernel still
//! remembers and which leads elsewhere by now. Told ESTALE it looks the name up and opens what that
//! leads to, or, for a program that came by a descriptor it has (`/proc/self/fd/3`), asks for the same
//! node once more. So only the thread that was told is given the node the second time: for all others
//! a name may stand behind the number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use record::Ino;

/// Threads of which it is known.
const THREADS_MAX: usize = 1_024;

/// How long a thread is expected to come once more: names are looked up in between.
const RETRY_WITHIN: Duration = Duration::from_secs(5);

/// What a thread was told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StaleReply {
    /// Of which node.
    pub(crate) ino: Ino,
    /// When it had asked: since then its program waits.
    pub(crate) at: Instant,
    /// Whether it has looked a name up since: then it does not come by a descriptor.
    pub(crate) looked_up_name: bool,
}

impl StaleReply {
    pub(crate) fn of(ino: Ino, at: Instant) -> StaleReply {
        StaleReply { ino, at, looked_up_name: false }
    }
}

/// Threads that were told ESTALE a short time ago, by the kernel's numbers for them.
#[derive(Debug, Default)]
pub(crate) struct StaleRetries {
    /// Whether there may be any, so that it costs nothing if there is none.
    any: AtomicBool,
    threads: Mutex<HashMap<u32, StaleReply>>,
}

impl StaleRetries {
    /// This thread is told so of this node.
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

    /// What this thread was told since it last opened something.
    pub(crate) fn take(&self, thread: u32) -> Option<StaleReply> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut threads = self.threads();
        let reply = threads.remove(&thread);
        self.any.store(!threads.is_empty(), Ordering::Relaxed);
        reply.filter(|reply| reply.at.elapsed() < RETRY_WITHIN)
    }

    /// This thread looks a name up. Answers whether it was told something before.
    pub(crate) fn note_lookup(&self, thread: u32) -> bool {
        if !self.any.load(Ordering::Relaxed) {
            return false;
        }
        let mut threads = self.threads();
        let reply = threads.get_mut(&thread);
        reply.map(|reply| reply.looked_up_name = true).is_some()
    }

    fn threads(&self) -> MutexGuard<'_, HashMap<u32, StaleReply>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
