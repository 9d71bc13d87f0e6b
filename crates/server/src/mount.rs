//! A volume as files: a mount from its beginning to its end.

mod beside;
mod glue;
mod notices;
mod shape;
mod space;
mod stats;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use files::{FULL_REWRITE_BYTES_MAX_DEFAULT, Files, FilesOptions};
use fuse::{
    Device, KernelOptions, KernelSession, MountError, MountOptions, Negotiated, SessionEnd,
    UnmountError, UnmountMode,
};
use record::Ino;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volume::{Ledger, NodeName, Volume, VolumeError};

use crate::backend::Backend;
use crate::config::{MountSettings, Owner};
use crate::metrics::Metrics;
use crate::operator;
use crate::problem::Problem;
use beside::Beside;
use glue::Glue;
use notices::Notices;
use shape::ShownAs;
use space::Space;
use stats::Stats;

/// How far the kernel reads ahead of a program, in KiB.
const READ_AHEAD_KIB: u32 = 1_024;

/// Requests with data that may be in this process at a time. None waits for memory: what it brings is
/// taken first.
const LARGE_REQUESTS_MAX: usize = 256;

/// How long the end of a mount waits for what is under way.
const END_PATIENCE: Duration = Duration::from_secs(30);

/// How long a process that leaves its mount to another waits for requests that it has read.
const LEAVE_PATIENCE: Duration = Duration::from_secs(30);

/// How long the end of a mount, or of a process that serves it, waits until it is kept when files were
/// read.
const READS_PATIENCE: Duration = Duration::from_secs(5);

/// How often it looks.
const LEAVE_PAUSE: Duration = Duration::from_millis(5);

/// When the kernel has certainly said again all that the process before this one did not answer.
const UNASKED_AFTER: Duration = Duration::from_mins(1);

/// A volume that is mounted.
#[derive(Debug)]
pub(crate) struct Mounted {
    folder: PathBuf,
    files: Arc<Files>,
    session: Arc<KernelSession>,
    tasks: TaskTracker,
    gone: CancellationToken,
}

/// A mount that outlives the process that serves it.
#[derive(Debug)]
pub(crate) struct KeptMount {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) device: Device,
}

/// How the kernel is told to mount.
pub(crate) fn mount_options(settings: &MountSettings) -> MountOptions {
    let mut options = MountOptions::new("ashlar", "ashlar");
    options.read_only = settings.read_only;
    options.allow_other = settings.allow_other;
    let is_root = rustix::process::geteuid().is_root();
    (options.allow_suid, options.allow_devices) = (is_root, is_root);
    options
}

/// Fails if a folder cannot be mounted on, or FUSE is missing, before anything else is done.
pub(crate) fn check_mountable(settings: &MountSettings, folder: &Path) -> Result<(), Problem> {
    let checked = fuse::check_mountable(folder, &mount_options(settings));
    checked.map_err(|error| not_mounted(folder, &error))
}

/// The problem of a mount that failed, with the remedy for its cause.
pub(crate) fn not_mounted(folder: &Path, error: &MountError) -> Problem {
    let problem = Problem::new(format!("mount on {}", folder.display()), error);
    match error {
        MountError::Missing => problem.remedy("make the folder, or name another one"),
        MountError::NotAFolder | MountError::NotEmpty => problem.remedy("name an empty folder"),
        // These texts say what to do.
        MountError::InUse { .. }
        | MountError::Dead
        | MountError::DeviceMissing
        | MountError::NotPermitted { .. }
        | MountError::NoFusermount
        | MountError::Fusermount { .. }
        | MountError::Options
        | MountError::Other { .. } => problem,
    }
}

/// The owner that a mount shows: the one that is set, or else the user who mounts. Root sees each
/// file's own owner, since it may change all files anyway and sets owners itself.
fn shown_owner(set: Option<Owner>, mounter: u32, is_root: bool) -> Option<u32> {
    match set {
        Some(Owner::Number(number)) => Some(number),
        Some(Owner::Own) => None,
        None => (!is_root).then_some(mounter),
    }
}

impl Mounted {
    /// Mounts a volume. Buckets that are made as directories belong to the first account.
    pub(crate) async fn begin(
        (backend, metrics): (&Backend, &Arc<Metrics>),
        settings: &MountSettings,
        folder: &Path,
    ) -> Result<Mounted, Problem> {
        let (at, options) = (folder.to_owned(), mount_options(settings));
        let device = tokio::task::spawn_blocking(move || fuse::mount(&at, &options));
        let device = device.await.map_err(|error| serving(folder, error))?;
        let device = device.map_err(|error| not_mounted(folder, &error))?;
        let begun = Mounted::serve((backend, metrics), settings, folder, (device, None)).await;
        if begun.is_err() {
            let _unmounted = fuse::unmount(folder, UnmountMode::Lazy);
        }
        begun
    }

    /// Serves a mount that somebody keeps, the first one to do it or the next.
    pub(crate) async fn go_on(
        (backend, metrics): (&Backend, &Arc<Metrics>),
        settings: &MountSettings,
        folder: &Path,
        KeptMount { ledger, device }: KeptMount,
    ) -> Result<Mounted, Problem> {
        Mounted::serve((backend, metrics), settings, folder, (device, Some(ledger))).await
    }

    async fn serve(
        (backend, metrics): (&Backend, &Arc<Metrics>),
        settings: &MountSettings,
        folder: &Path,
        (device, ledger): (Device, Option<Arc<Ledger>>),
    ) -> Result<Mounted, Problem> {
        let volume = &backend.volume;
        let (root, bucket) = root_of(volume, settings).await?;
        let options = FilesOptions {
            root,
            read_only: settings.read_only,
            updates_atime: !settings.noatime,
            write_memory: settings.write_memory.0,
            full_rewrite_bytes_max: FULL_REWRITE_BYTES_MAX_DEFAULT,
            io_timeout: Duration::from_secs(settings.io_timeout_seconds),
            ledger: ledger.clone(),
        };
        let files = Files::new(Arc::clone(volume), options);
        files.take_over().await.map_err(|error| serving(folder, error))?;
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let shown = ShownAs {
            uid: shown_owner(settings.uid, uid.as_raw(), uid.is_root()),
            gid: shown_owner(settings.gid, gid.as_raw(), uid.is_root()),
            umask: settings.umask.map(|umask| umask.0),
        };
        let beside = Beside {
            space: Space::new(volume, bucket, backend.folder.clone()),
            shown,
            stats: Stats::new(metrics),
            admin: operator::over(Arc::clone(&backend.meta)),
            root: Mutex::default(),
        };
        let (gone, tasks) = (CancellationToken::new(), TaskTracker::new());
        let glue = Arc::new(Glue {
            files: Arc::clone(&files),
            runtime: Handle::current(),
            tasks: tasks.clone(),
            gone: gone.clone(),
            ledger: ledger.clone(),
            beside: Arc::new(beside),
        });
        let kernel = KernelOptions {
            posix_acl: shown.is_as_it_is(),
            large_requests_max: LARGE_REQUESTS_MAX,
            ..KernelOptions::default()
        };
        let begun = begin_session(folder, device, kernel, glue, ledger.clone()).await?;
        let session = Arc::new(begun);
        let (queue, _thread) = session.notice_queue().map_err(|error| serving(folder, error))?;
        let notices = Notices { queue, root: files.root() };
        files.watch(Arc::new(notices), settings.coherence.into());
        tasks.spawn(Arc::clone(&files).flush_until(gone.clone()));
        tasks.spawn(Arc::clone(&files).persist_access_times_until(gone.clone()));
        tasks.spawn(Arc::clone(&files).hand_over_until(gone.clone()));
        tracing::info!(folder = %folder.display(), "mounted");
        if let Some(ledger) = ledger {
            tasks.spawn(forget_unclaimed(ledger, gone.clone()));
        }
        let folder = folder.to_owned();
        // Whyever nobody reads requests any more: the mount is at its end.
        let (served, end) = (Arc::clone(&session), gone.clone());
        let watching = std::thread::Builder::new().name("mount".to_owned()).spawn(move || {
            served.join();
            end.cancel();
        });
        watching.map_err(|error| serving(&folder, error))?;
        Ok(Mounted { folder, files, session, tasks, gone })
    }

    /// Waits until somebody has unmounted it.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Makes everything that was written durable, and unmounts it.
    pub(crate) async fn end(self) {
        if !self.gone.is_cancelled() {
            self.files.write_back_maps().await;
        }
        self.flush().await;
        // One that somebody has unmounted is not there, and what is there by now is another's.
        if self.gone.is_cancelled() && self.session.join() == SessionEnd::Unmounted {
            tracing::info!(folder = %self.folder.display(), "it was unmounted");
            return self.finish().await;
        }
        match tokio::time::timeout(END_PATIENCE, self.unmount()).await {
            Ok(Ok(())) => tracing::info!(folder = %self.folder.display(), "unmounted"),
            Ok(Err(error)) => tracing::warn!(%error, "the mount could not be taken away"),
            Err(_late) => tracing::warn!("the mount did not end in time"),
        }
        self.finish().await;
    }

    /// Stops reading requests, and waits until those that were read are answered, but those that wait
    /// for locks. The mount is there for the process that goes on with it. What this one still has to
    /// do must not answer anybody: it is to end at once.
    pub(crate) async fn leave(&self) {
        self.keep_reads().await;
        let session = Arc::clone(&self.session);
        let stopped = tokio::task::spawn_blocking(move || session.stop_reading()).await;
        if !matches!(stopped, Ok(Ok(_))) {
            tracing::warn!(?stopped, "requests may be read still");
        }
        let until = Instant::now() + LEAVE_PATIENCE;
        while self.session.in_flight() > self.files.locks().waiting() {
            if Instant::now() >= until {
                tracing::warn!("requests are under way still; they are left to the next process");
                return;
            }
            tokio::time::sleep(LEAVE_PAUSE).await;
        }
    }

    /// Waits for what is under way, and makes durable what that has written.
    async fn finish(&self) {
        self.gone.cancel();
        self.files.unwatch();
        self.tasks.close();
        if tokio::time::timeout(END_PATIENCE, self.tasks.wait()).await.is_err() {
            tracing::warn!("operations of the mount are still under way");
        }
        self.flush().await;
    }

    async fn flush(&self) {
        match tokio::time::timeout(END_PATIENCE, self.files.flush_all()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "what programs have written last is lost"),
            Err(_late) => {
                tracing::error!("what programs have written last is lost: no answer in time");
            }
        }
        self.keep_reads().await;
    }

    /// Keeps what was read when, unless that takes long.
    async fn keep_reads(&self) {
        if tokio::time::timeout(READS_PATIENCE, self.files.persist_access_times()).await.is_err() {
            tracing::debug!("it is not kept of all files when they were read last");
        }
    }

    /// Takes the mount away, from programs that use it if need be, and waits for its session.
    async fn unmount(&self) -> Result<(), UnmountError> {
        let (folder, session) = (self.folder.clone(), Arc::clone(&self.session));
        let (ended, end) = oneshot::channel();
        // A thread of its own: whoever gives up waiting for it can leave it behind.
        let thread = std::thread::Builder::new().name("unmount".to_owned()).spawn(move || {
            let unmounted = match fuse::unmount(&folder, UnmountMode::IfUnused) {
                Err(UnmountError::NotMounted) => Ok(()),
                Err(UnmountError::Busy) => {
                    tracing::warn!("programs have files open on the mount; it is taken from them");
                    fuse::unmount(&folder, UnmountMode::Abort)
                        .or_else(|_| fuse::unmount(&folder, UnmountMode::Lazy))
                }
                unmounted => unmounted,
            };
            if unmounted.is_ok() {
                session.join();
            }
            let _gave_up = ended.send(unmounted);
        });
        let failed = |source| UnmountError::Other { what: "starting a thread", source };
        thread.map_err(failed)?;
        end.await.unwrap_or(Ok(()))
    }
}

/// Begins the session with the kernel, or goes on with the one of another process.
async fn begin_session(
    folder: &Path,
    device: Device,
    kernel: KernelOptions,
    glue: Arc<Glue>,
    ledger: Option<Arc<Ledger>>,
) -> Result<KernelSession, Problem> {
    let at = folder.to_owned();
    let begun = tokio::task::spawn_blocking(move || {
        let agreed = ledger.as_ref().map_or(Ok(None), |ledger| ledger.negotiated());
        if let Some(agreed) = agreed.map_err(|error| error.to_string())? {
            let agreed = Negotiated::from_bytes(&agreed).map_err(|error| error.to_string())?;
            let session = KernelSession::resume(device, agreed, kernel, glue)
                .map_err(|error| error.to_string())?;
            // Names that the kernel remembers are asked for once more, and so known here, too.
            if let Err(error) = session.notifier().increase_epoch() {
                tracing::debug!(%error, "the kernel goes on with the names that it remembers");
            }
            return Ok(session);
        }
        let session =
            KernelSession::start(device, kernel, glue).map_err(|error| error.to_string())?;
        if let Some(ledger) = ledger {
            let agreed = session.negotiated().to_bytes();
            ledger.set_negotiated(&agreed).map_err(|error| error.to_string())?;
        }
        if let Err(error) = fuse::raise_read_ahead(&at, READ_AHEAD_KIB) {
            tracing::debug!(%error, "the kernel reads ahead no further than usual");
        }
        Ok(session)
    });
    let begun = begun.await.map_err(|error| serving(folder, error))?;
    begun.map_err(|wrong: String| serving(folder, wrong).remedy("see the kernel's log"))
}

fn serving(folder: &Path, wrong: impl std::fmt::Display) -> Problem {
    Problem::new(format!("serve the mount on {}", folder.display()), wrong)
}

/// Forgets requests that the kernel has not said again by now: nobody waits for their answers.
async fn forget_unclaimed(ledger: Arc<Ledger>, gone: CancellationToken) {
    tokio::select! {
        () = gone.cancelled() => {}
        () = tokio::time::sleep(UNASKED_AFTER) => ledger.forget_unclaimed(),
    }
}

/// The directory that is mounted, and the bucket that it is in: the root if it is the root.
async fn root_of(volume: &Volume, settings: &MountSettings) -> Result<(Ino, Ino), Problem> {
    let (mut at, mut bucket) = (Ino::ROOT, Ino::ROOT);
    for name in &settings.subdir {
        let name = NodeName { directory: at, name: name.clone().into_bytes() };
        let found = volume.find_name(&name).await;
        let found = found.map_err(|error| not_found(settings, &error))?;
        (at, bucket) = (found.ino, found.inode.bucket);
    }
    Ok((at, bucket))
}

fn not_found(settings: &MountSettings, error: &VolumeError) -> Problem {
    Problem::new(format!("mount the directory {:?}", settings.subdir.join("/")), error)
        .remedy("make it first, or mount the whole volume")
}

#[cfg(test)]
mod tests;
