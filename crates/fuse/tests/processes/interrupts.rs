//! A program that waits for a lock can be interrupted, and its wait leaves no trace.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::time::Duration;

use fuse::{KernelOptions, KernelSession, MountOptions, UnmountMode};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::files::NullFiles;
use crate::parts::{Part, eventually};

/// The two kinds of locks.
const KINDS: [&str; 2] = ["flock", "fcntl"];

/// A mount with one file. Dropping it unmounts.
struct Stage {
    session: KernelSession,
    folder: TempDir,
}

impl Stage {
    fn new() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let device = fuse::mount(folder.path(), &MountOptions::new("locks", "null")).unwrap();
        let files = Arc::new(NullFiles::new(Duration::from_mins(1)));
        let session = KernelSession::start(device, KernelOptions::default(), files).unwrap();
        let stage = Stage { session, folder };
        std::fs::write(stage.file(), "").unwrap();
        stage
    }

    fn file(&self) -> String {
        self.folder.path().join("file").to_str().unwrap().to_owned()
    }

    /// Starts a program that holds a lock and one that waits for it.
    fn holder_and_waiter(&self, kind: &str, waiter: &str) -> (Part, Part) {
        let holder = Part::start("lock", &[kind, &self.file()]);
        assert_eq!((holder.says(), holder.says()), ("opened".to_owned(), "locked".to_owned()));
        eventually(|| self.session.in_flight() == 0);
        let waiter = Part::start(waiter, &[kind, &self.file()]);
        assert_eq!(waiter.says(), "opened");
        eventually(|| self.session.in_flight() == 1);
        (holder, waiter)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        fuse::unmount(self.folder.path(), UnmountMode::Lazy).unwrap();
        self.session.join();
        let counters = self.session.counters();
        if !std::thread::panicking() {
            assert_eq!((counters.refused, counters.unanswered, counters.panics), (0, 0, 0));
        }
    }
}

pub(crate) fn dies_by_a_signal() {
    let stage = Stage::new();
    for kind in KINDS {
        for (signal, number) in [(Signal::KILL, 9), (Signal::USR1, 10), (Signal::TERM, 15)] {
            let (mut holder, mut waiter) = stage.holder_and_waiter(kind, "lock");
            assert!(waiter.waits());
            waiter.signal(signal);
            assert_eq!(waiter.ends().signal(), Some(number), "{kind}");
            eventually(|| stage.session.in_flight() == 0);
            // The wait left no trace: the next program gets the lock.
            holder.let_go();
            holder.ends();
            let next = Part::start("lock", &[kind, &stage.file()]);
            assert_eq!((next.says(), next.says()), ("opened".to_owned(), "locked".to_owned()));
        }
    }
    assert!(stage.session.counters().interrupts >= 6);
}

pub(crate) fn handles_it_and_waits_on() {
    let stage = Stage::new();
    for kind in KINDS {
        let (mut holder, mut waiter) = stage.holder_and_waiter(kind, "lock-with-handler");
        assert!(waiter.waits());
        let before = stage.session.counters();
        waiter.signal(Signal::INT);
        // The signal handler runs after the wait has ended; the system then requests the lock
        // again.
        assert_eq!(waiter.says(), "handled", "{kind}");
        eventually(|| stage.session.counters().requests >= before.requests + 2);
        eventually(|| stage.session.in_flight() == 1);
        assert!(stage.session.counters().interrupts > before.interrupts);
        assert!(waiter.waits());
        holder.let_go();
        assert_eq!(waiter.says(), "locked", "{kind}");
    }
}

pub(crate) fn goes_to_who_waits() {
    let stage = Stage::new();
    for kind in KINDS {
        let (mut holder, mut waiter) = stage.holder_and_waiter(kind, "lock");
        assert!(waiter.waits());
        holder.signal(Signal::KILL);
        holder.ends();
        assert_eq!(waiter.says(), "locked", "{kind}");
    }
}
