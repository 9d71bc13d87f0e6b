//! A mounted null file system, which is unmounted at the end of each test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use fuse::{
    Device, FileOperation, FileSystem, Forgotten, KernelOptions, KernelSession, MountOptions,
    Reply, Request, SessionCounters, UnmountMode,
};
use tempfile::TempDir;

use crate::files::NullFiles;

/// A mount and its session. Dropping it unmounts, and fails if the kernel refused a reply.
pub(crate) struct Stage {
    pub(crate) files: Arc<NullFiles>,
    watched: Arc<Watched>,
    session: Option<KernelSession>,
    /// Dropped with the stage, which ends the watchdog.
    _stands: Sender<()>,
    // After the session, so that the folder is removed last.
    folder: TempDir,
}

/// The file system, and the number of READ and WRITE requests.
struct Watched {
    files: Arc<NullFiles>,
    transfers: AtomicU64,
}

impl FileSystem for Watched {
    fn handle(&self, request: Request, reply: Reply) {
        let operation = request.operation();
        if matches!(operation, FileOperation::Read { .. } | FileOperation::Write { .. }) {
            self.transfers.fetch_add(1, Ordering::Relaxed);
        }
        self.files.handle(request, reply);
    }

    fn forget(&self, nodes: Forgotten<'_>) {
        self.files.forget(nodes);
    }

    fn destroyed(&self) {
        self.files.destroyed();
    }
}

/// The time limit of a test.
const PATIENCE: Duration = Duration::from_mins(1);

/// A timeout longer than each test.
pub(crate) const LONG: Duration = Duration::from_hours(1);

impl Stage {
    /// How long the kernel caches names and attributes.
    pub(crate) fn new(timeout: Duration) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let files = Arc::new(NullFiles::new(timeout));
        let device = fuse::mount(folder.path(), &options()).unwrap();
        let watched = Arc::new(Watched { files: files.clone(), transfers: AtomicU64::new(0) });
        let session = KernelSession::start(device, KernelOptions::default(), watched.clone());
        Stage {
            files,
            watched,
            session: Some(session.unwrap()),
            _stands: watchdog(folder.path().to_owned()),
            folder,
        }
    }

    /// Returns how often the kernel has asked the first session to read or write.
    pub(crate) fn transfers(&self) -> u64 {
        self.watched.transfers.load(Ordering::Relaxed)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn session(&self) -> &KernelSession {
        self.session.as_ref().unwrap()
    }

    /// Serves the mount with another session from now on.
    pub(crate) fn replace_session(&mut self, with: KernelSession) {
        self.session = Some(with);
    }

    pub(crate) fn device(&self) -> Device {
        self.session().device()
    }
}

pub(crate) fn options() -> MountOptions {
    MountOptions::new("stage", "null")
}

impl Drop for Stage {
    fn drop(&mut self) {
        // It may be unmounted already.
        let _unmounted = fuse::unmount(self.folder.path(), UnmountMode::Lazy);
        let session = self.session.take().unwrap();
        session.join();
        let counters = session.counters();
        if !std::thread::panicking() {
            let fine = SessionCounters {
                requests: counters.requests,
                interrupts: counters.interrupts,
                undelivered: counters.undelivered,
                ..SessionCounters::default()
            };
            assert_eq!(counters, fine, "no reply is missing, late or refused");
        }
    }
}

/// Aborts the mount if a test takes too long. A test that hangs then fails, and leaves no process
/// in an uninterruptible wait.
fn watchdog(folder: PathBuf) -> Sender<()> {
    let (sender, stage) = channel();
    std::thread::Builder::new()
        .spawn(move || {
            if stage.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                // `umount` may report that the mount is in use, and aborts it nevertheless.
                let _busy = fuse::unmount(&folder, UnmountMode::Abort);
            }
        })
        .unwrap();
    sender
}

/// Waits for an event that must come soon.
#[track_caller]
pub(crate) fn eventually(mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !happened() {
        assert!(Instant::now() < deadline, "it did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}
