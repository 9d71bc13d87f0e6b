//! Programs that are killed while they wait for the stores.
//!
//! The kernel says that a signal has come, and not whether it ends the program. Most programs do not
//! expect that write(2) or close(2) are interrupted, so a signal that they handle must not end their
//! wait. One that is being killed sees no answer: whatever it is told, it goes. What it asked for goes
//! on to its end, unanswered.

use std::fs;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fuse::Reply;
use tokio::sync::{Notify, Semaphore};

/// A request that is answered so soon is not asked after.
const SOON: Duration = Duration::from_millis(500);

/// Threads that may wait for what the kernel says of programs: some of many, as the stores' work needs
/// such threads, too.
static ASKING: Semaphore = Semaphore::const_new(64);

/// The signal that is pending of a program that any signal ends.
const SIGKILL_BIT: u64 = 1 << 8;

/// A flag of a process that has begun to exit.
const EXITING: u64 = 4;

/// Where the flags of a process stand in what `/proc` tells of it, behind the end of its name.
const FLAGS_FIELD: usize = 6;

/// Whether a thread is on its way to its end.
fn is_dying(pid: u32) -> bool {
    let told = |what: &str| fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
    is_killed(&told("status")) || is_exiting(&told("stat"))
}

/// Asks the kernel on a thread that may wait: it tells nothing of a process that begins another
/// program, which closes files first, and so waits for the answer that this is about.
async fn asked_whether_dying(pid: u32) -> bool {
    let Ok(asking) = ASKING.try_acquire() else { return false };
    let asked = tokio::task::spawn_blocking(move || {
        let dying = is_dying(pid);
        drop(asking);
        dying
    });
    asked.await.unwrap_or(false)
}

fn is_killed(status: &str) -> bool {
    let pending = |line: &str| {
        let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    };
    status.lines().filter_map(pending).any(|mask| mask & SIGKILL_BIT != 0)
}

fn is_exiting(stat: &str) -> bool {
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let flags = fields.split_whitespace().nth(FLAGS_FIELD).and_then(|flags| flags.parse().ok());
    flags.is_some_and(|flags: u64| flags & EXITING != 0)
}

/// A program that waits for an answer.
pub(super) struct Waiting {
    /// The thread that waits; 0 if it is not known.
    pub(super) pid: u32,
    /// It closes a file. At the end of a program the kernel does so, and does not say that the request
    /// was interrupted.
    pub(super) closes: bool,
}

impl Waiting {
    /// A thread that waits for anything but the close of a file.
    pub(super) fn of(pid: u32) -> Waiting {
        Waiting { pid, closes: false }
    }

    /// Waits until `work` is done. Returns `None` before that if the program was ended meanwhile: the
    /// caller answers with `EINTR`, and goes on with the work.
    pub(super) async fn until_done<T>(
        &self,
        mut work: Pin<&mut impl Future<Output = T>>,
        reply: &Reply,
    ) -> Option<T> {
        let done = tokio::select! {
            biased;
            done = &mut work => Some(done),
            () = tokio::time::sleep(SOON) => None,
        };
        if done.is_some() {
            return done;
        }
        let interrupted = Arc::new(Notify::new());
        let interrupt = Arc::clone(&interrupted);
        reply.on_interrupt(move || interrupt.notify_one());
        tokio::select! {
            biased;
            done = &mut work => Some(done),
            () = self.ended(&interrupted) => {
                tracing::debug!(self.pid, "a program was ended that waited");
                None
            }
        }
    }

    /// Waits until the program is on its way to its end. The kernel tells of the first signal only. If
    /// the program handles that one, it is silent about a second one that ends the program. So after
    /// the first signal the program is looked at again and again.
    async fn ended(&self, interrupted: &Notify) {
        let mut looks = self.closes;
        loop {
            tokio::select! {
                biased;
                () = interrupted.notified() => looks = true,
                () = tokio::time::sleep(SOON), if looks => {}
            }
            if self.pid != 0 && asked_whether_dying(self.pid).await {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
