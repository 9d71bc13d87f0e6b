//! Programs that are killed while they wait for a reply.
//!
//! The kernel reports a signal to a waiting program, but not whether the signal ends it. Most
//! programs do not expect `EINTR` from write(2) or close(2), so a signal that a program handles
//! must not end its wait. A killed program must get a reply, because it cannot exit before. So
//! after a signal this module reads `/proc` to see whether the program is ending. If it is, the
//! caller replies `EINTR`, and the operation continues without a reply. For example, `kill -9` of a
//! program that waits for an unreachable database ends it within a second.

use std::fs;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fuse::Reply;
use tokio::sync::{Notify, Semaphore};

/// The time after which a waiting program is checked, and the interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The limit of blocking threads that read `/proc`. The stores need blocking threads, too.
static CHECKS: Semaphore = Semaphore::const_new(64);

/// The bit of SIGKILL in a signal mask. The kernel adds SIGKILL to the pending signals of a program
/// that any signal ends.
const SIGKILL_BIT: u64 = 1 << 8;

/// The kernel's flag `PF_EXITING` of a process that exits.
const EXITING: u64 = 4;

/// The index of the process flags in `/proc/PID/stat`, counted from the end of the name.
const FLAGS_FIELD: usize = 6;

/// Returns true if a thread is being killed or exits.
fn is_ending(pid: u32) -> bool {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    is_killed(&read("status")) || is_exiting(&read("stat"))
}

/// Checks on a blocking thread, because the read of `/proc` can block: a process in execve(2) holds
/// a lock while it closes files, and waits for the reply of this very request.
async fn check_ending(pid: u32) -> bool {
    let Ok(permit) = CHECKS.try_acquire() else { return false };
    let check = tokio::task::spawn_blocking(move || {
        let ending = is_ending(pid);
        drop(permit);
        ending
    });
    check.await.unwrap_or(false)
}

/// Returns true if SIGKILL is pending, from the text of `/proc/PID/status`.
fn is_killed(status: &str) -> bool {
    let pending = |line: &str| {
        let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    };
    status.lines().filter_map(pending).any(|mask| mask & SIGKILL_BIT != 0)
}

/// Returns true if the process exits, from the text of `/proc/PID/stat`.
fn is_exiting(stat: &str) -> bool {
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let flags = fields.split_whitespace().nth(FLAGS_FIELD).and_then(|flags| flags.parse().ok());
    flags.is_some_and(|flags: u64| flags & EXITING != 0)
}

/// A program that waits for a reply.
pub(super) struct WaitingCaller {
    /// The id of the waiting thread; 0 if it is unknown.
    pub(super) pid: u32,
    /// True for the close of a file. When a program exits, the kernel closes its files, and sends
    /// no interrupt for these requests, so the check must not wait for one.
    pub(super) closes: bool,
}

impl WaitingCaller {
    /// Returns a thread that waits for a request other than a close.
    pub(super) fn new(pid: u32) -> WaitingCaller {
        WaitingCaller { pid, closes: false }
    }

    /// Waits until `work` is done. Returns `None` if the program is ending before: then the caller
    /// replies `EINTR`, and completes the work without a reply.
    pub(super) async fn until_done<T>(
        &self,
        mut work: Pin<&mut impl Future<Output = T>>,
        reply: &Reply,
    ) -> Option<T> {
        // Most requests end within the first interval and need no check of their caller. The order
        // of both branches matters: a completed operation must not look interrupted.
        let done = tokio::select! {
            biased;
            done = &mut work => Some(done),
            () = tokio::time::sleep(CHECK_INTERVAL) => None,
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
                tracing::debug!(self.pid, "the waiting program is ending; replying with EINTR");
                None
            }
        }
    }

    /// Waits until the program is ending. The kernel reports the first signal only. If the program
    /// handles that one, a second signal that ends it is not reported. So after the first signal
    /// the program is checked at each interval.
    async fn ended(&self, interrupted: &Notify) {
        let mut checks = self.closes;
        loop {
            tokio::select! {
                biased;
                () = interrupted.notified() => checks = true,
                () = tokio::time::sleep(CHECK_INTERVAL), if checks => {}
            }
            if self.pid != 0 && check_ending(self.pid).await {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
