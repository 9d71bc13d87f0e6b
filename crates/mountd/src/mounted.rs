//! A mount of the volume: its start, its handover to another process, and its end.
//!
//! `Mounted` connects three parts: `fuse` reads the kernel's requests, `glue` translates them, and
//! `files` carries them out on the volume. `ashlar serve --mount` mounts by itself; a worker of
//! `ashlar mount` gets the device from its keeper, and may hand it over. For example, at SIGTERM
//! `Mounted::end` writes dirty data back, unmounts, and waits for operations in flight.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use files::{FULL_REWRITE_BYTES_MAX_DEFAULT, Files, FilesOptions};
use fuse::{
    Device, KernelOptions, KernelSession, MountError, MountOptions, Negotiated, SessionEnd,
    UnmountError, UnmountMode,
};
use problem::Problem;
use record::Ino;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volume::{Ledger, NodeName, Volume, VolumeError};

use crate::context::MountContext;
use crate::glue::Glue;
use crate::meters::MountMeters;
use crate::notices::Notices;
use crate::parameters::MountParameters;
use crate::recent_nodes::RecentNodes;
use crate::reports::Reports;
use crate::shape::ShownAs;
use crate::space::Space;
use crate::stats::Stats;

/// The kernel's read-ahead, in KiB.
const READ_AHEAD_KIB: u32 = 1_024;

/// The limit of concurrent requests with data. A write request does not wait for memory: its bytes
/// are copied first, and the request is freed.
const LARGE_REQUESTS_MAX: usize = 256;

/// The limit of time of each step at the end of a mount.
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(30);

/// The time to wait for the end of the session after the unmount. It does not end while another
/// mount namespace, for example that of a container, has a copy of the mount.
const COPIES_TIMEOUT: Duration = Duration::from_secs(3);

/// The limit of time for requests in flight before a handover of the mount to the next worker
/// process.
pub(crate) const HANDOVER_TIMEOUT: Duration = Duration::from_secs(30);

/// The limit of time to commit access times at the end of a mount and before a handover.
pub(crate) const ACCESS_TIMES_TIMEOUT: Duration = Duration::from_secs(5);

/// The interval at which a handover polls the requests in flight.
const HANDOVER_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The time after which the kernel has resent all requests that the previous worker did not answer.
const RESEND_COMPLETE_AFTER: Duration = Duration::from_mins(1);

/// A mounted volume: its open files, its FUSE session with the kernel, and its background tasks.
#[derive(Debug)]
pub struct Mounted {
    folder: PathBuf,
    files: Arc<Files>,
    session: Arc<KernelSession>,
    /// The number of workers before this one.
    restarts: u64,
    tasks: TaskTracker,
    /// A token that is cancelled when the mount does not exist any more, for example after
    /// `umount`.
    gone: CancellationToken,
}

/// The volume that a mount shows, and the parts of the process that the mount uses.
#[derive(Clone, Debug)]
pub struct MountSource {
    /// The volume.
    pub volume: Arc<Volume>,
    /// The directory of the block store, if it is one. The free space of its file system is that of
    /// the mount.
    pub blocks_folder: Option<PathBuf>,
    /// The source of texts about the process and about nodes.
    pub reports: Arc<dyn Reports>,
}

/// A mount that outlives its worker: the FUSE device and the ledger, the state that passes from one
/// worker to the next. The keeper hands both to each worker.
#[derive(Debug)]
pub struct KeptMount {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) device: Device,
}

/// Returns the options for mount(2). Set-uid programs and device files work only if root mounts.
pub fn mount_options(parameters: &MountParameters) -> MountOptions {
    let mut options = MountOptions::new("ashlar", "ashlar");
    options.read_only = parameters.read_only;
    options.allow_other = parameters.allow_other;
    let is_root = rustix::process::geteuid().is_root();
    (options.allow_suid, options.allow_devices) = (is_root, is_root);
    options
}

/// Fails if the directory cannot be a mount point, or if FUSE is missing. Called before any other
/// step of a start.
pub fn check_mountable(parameters: &MountParameters, folder: &Path) -> Result<(), Problem> {
    let checked = fuse::check_mountable(folder, &mount_options(parameters));
    checked.map_err(|error| not_mounted(folder, &error))
}

/// Returns the problem of a failed mount, with the remedy for its cause.
pub(crate) fn not_mounted(folder: &Path, error: &MountError) -> Problem {
    let problem = Problem::new(format!("mount on {}", folder.display()), error);
    match error {
        MountError::Missing => problem.remedy("create the directory, or give another one"),
        MountError::NotAFolder | MountError::NotEmpty => problem.remedy("give an empty directory"),
        // The texts of these errors contain the remedy.
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

impl Mounted {
    /// Mounts a volume on a directory. Buckets that programs create as directories belong to the
    /// first account.
    pub async fn mount(
        source: MountSource,
        parameters: &MountParameters,
        folder: &Path,
    ) -> Result<Mounted, Problem> {
        let (at, options) = (folder.to_owned(), mount_options(parameters));
        // mount(2) and fusermount can block, so they run on a blocking thread.
        let device = tokio::task::spawn_blocking(move || fuse::mount(&at, &options));
        let device = device.await.map_err(|error| serving(folder, error))?;
        let device = device.map_err(|error| not_mounted(folder, &error))?;
        let mounted = Mounted::serve(source, parameters, folder, (device, None)).await;
        if mounted.is_err() {
            let _unmounted = fuse::unmount(folder, UnmountMode::Lazy);
        }
        mounted
    }

    /// Serves the mount of a keeper, as its first worker or a later one.
    pub async fn resume(
        source: MountSource,
        parameters: &MountParameters,
        folder: &Path,
        KeptMount { ledger, device }: KeptMount,
    ) -> Result<Mounted, Problem> {
        Mounted::serve(source, parameters, folder, (device, Some(ledger))).await
    }

    /// Starts the session with the kernel, and the background tasks of the mount.
    async fn serve(
        MountSource { volume, blocks_folder, reports }: MountSource,
        parameters: &MountParameters,
        folder: &Path,
        (device, ledger): (Device, Option<Arc<Ledger>>),
    ) -> Result<Mounted, Problem> {
        let (root, bucket) = root_of(&volume, parameters).await?;
        let options = FilesOptions {
            root,
            read_only: parameters.read_only,
            updates_atime: parameters.updates_atime,
            // `serve --mount` has no ledger, and its S3 view may show every name.
            defers_creations: ledger.is_some(),
            write_memory: parameters.write_memory,
            full_rewrite_bytes_max: FULL_REWRITE_BYTES_MAX_DEFAULT,
            io_timeout: parameters.io_timeout,
            ledger: ledger.clone(),
        };
        let files = Files::new(Arc::clone(&volume), options);
        // Restores the open files and dirty data of the previous worker from the ledger, before the
        // first request can refer to them.
        files.take_over().await.map_err(|error| serving(folder, error))?;
        // The effective user: a set-user-ID program mounts for that user.
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let shown = ShownAs {
            uid: parameters.uid.number(uid.as_raw(), uid.is_root()),
            gid: parameters.gid.number(gid.as_raw(), uid.is_root()),
            umask: parameters.umask,
        };
        let recent_nodes = Arc::new(RecentNodes::new());
        let context = MountContext {
            space: Space::new(volume, bucket, blocks_folder),
            shown,
            stats: Stats::new(Arc::clone(&reports)),
            reports,
            root: Mutex::default(),
            recent_nodes: Arc::clone(&recent_nodes),
        };
        let (gone, tasks) = (CancellationToken::new(), TaskTracker::new());
        let glue = Arc::new(Glue {
            files: Arc::clone(&files),
            runtime: Handle::current(),
            tasks: tasks.clone(),
            gone: gone.clone(),
            ledger: ledger.clone(),
            context: Arc::new(context),
        });
        let kernel = KernelOptions {
            // The kernel can check access control lists only with the real owners and modes.
            posix_acl: shown.is_unchanged(),
            large_requests_max: LARGE_REQUESTS_MAX,
            ..KernelOptions::default()
        };
        let session = start_session(folder, device, kernel, glue, ledger.clone()).await?;
        let session = Arc::new(session);
        // After the start of the session, which carries the notifications.
        let notices = Notices::start(&session, files.root(), recent_nodes, &tasks);
        let notices = notices.map_err(|error| serving(folder, error))?;
        files.watch(Arc::new(notices), parameters.coherence);
        // Three background tasks: flush of dirty data, commits of access times, handover of pages
        // to other mounts.
        tasks.spawn(Arc::clone(&files).flush_until(gone.clone()));
        tasks.spawn(Arc::clone(&files).persist_access_times_until(gone.clone()));
        tasks.spawn(Arc::clone(&files).hand_over_until(gone.clone()));
        tracing::info!(folder = %folder.display(), "mounted");
        let restarts = ledger.as_ref().map_or(0, |ledger| ledger.worker().saturating_sub(1));
        if let Some(ledger) = ledger {
            tasks.spawn(forget_unclaimed(ledger, Arc::clone(&files), gone.clone()));
        }
        let folder = folder.to_owned();
        // The session ends when the kernel has unmounted, or when reading from the device fails. In
        // both cases the mount has no server any more.
        let (served, end) = (Arc::clone(&session), gone.clone());
        let watching = std::thread::Builder::new().name("mount".to_owned()).spawn(move || {
            served.join();
            end.cancel();
        });
        watching.map_err(|error| serving(&folder, error))?;
        Ok(Mounted { folder, files, session, restarts, tasks, gone })
    }

    /// Returns a reader of the counters of the mount.
    pub fn meters(&self) -> MountMeters {
        MountMeters {
            session: Arc::downgrade(&self.session),
            files: Arc::downgrade(&self.files),
            restarts: self.restarts,
        }
    }

    /// Waits until the mount does not exist any more, for example after `umount`.
    pub async fn unmounted(&self) {
        self.gone.cancelled().await;
    }

    /// Writes dirty data back, unmounts, and waits for operations in flight. Dirty data that cannot
    /// be written within the limits is lost, and an error is logged.
    pub async fn end(self) {
        // Pages that programs have changed in memory maps are in the kernel only, which must still
        // exist.
        if !self.gone.is_cancelled() {
            self.files.write_back_maps().await;
        }
        self.flush().await;
        // If another process has unmounted, the directory may already be the mount point of another
        // file system, which must not be unmounted.
        if self.gone.is_cancelled() && self.session.join() == SessionEnd::Unmounted {
            tracing::info!(folder = %self.folder.display(), "another process has unmounted the mount");
            return self.finish().await;
        }
        // Limited, because a program with open files can make the unmount wait forever.
        match tokio::time::timeout(END_TIMEOUT, self.unmount()).await {
            Ok(Ok(())) => {
                tracing::info!(folder = %self.folder.display(), "unmounted");
                self.leave_copies().await;
            }
            Ok(Err(error)) => tracing::warn!(%error, "cannot unmount"),
            Err(_late) => tracing::warn!("the unmount did not end in time"),
        }
        self.finish().await;
    }

    /// Prepares the handover of the mount to the next worker, the process that serves it after this
    /// one: stops reading requests, and waits for the responses to those that were read, except
    /// requests that wait for locks. The next worker gets the others again from the kernel, so this
    /// process must exit without answering them.
    pub async fn hand_over(&self) {
        self.commit_access_times().await;
        let session = Arc::clone(&self.session);
        let stopped = tokio::task::spawn_blocking(move || session.stop_reading()).await;
        if !matches!(stopped, Ok(Ok(_))) {
            tracing::warn!(?stopped, "reading requests did not stop; some may be lost");
        }
        // Requests that wait for locks are not waited for: they may wait forever, and the next
        // worker takes them over.
        let until = Instant::now() + HANDOVER_TIMEOUT;
        while self.session.in_flight() > self.files.locks().waiting() {
            if Instant::now() >= until {
                tracing::warn!("requests are still in flight; the next worker carries them out");
                break;
            }
            tokio::time::sleep(HANDOVER_POLL_INTERVAL).await;
        }
        // A worker of an earlier release does not know creations that are not committed.
        let committed = tokio::time::timeout_at(until, self.files.commit_names()).await;
        if committed.is_err() {
            tracing::warn!("some new files are not committed; the next worker commits them");
        }
    }

    /// Stops the background tasks, waits for operations in flight, and flushes the data that they
    /// wrote.
    async fn finish(&self) {
        self.gone.cancel();
        self.files.unwatch();
        // The background tasks end with `gone`; operations in flight complete.
        self.tasks.close();
        if tokio::time::timeout(END_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!("operations of the mount are still in flight");
        }
        self.flush().await;
    }

    /// Writes all dirty data to the stores, and commits access times. Logs an error if data is
    /// lost.
    async fn flush(&self) {
        match tokio::time::timeout(END_TIMEOUT, self.files.flush_all()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "cannot write dirty data back; it is lost"),
            Err(_late) => {
                tracing::error!("cannot write dirty data back in time; it is lost");
            }
        }
        self.commit_access_times().await;
    }

    /// Commits the access times of files, unless that takes long.
    async fn commit_access_times(&self) {
        if tokio::time::timeout(ACCESS_TIMES_TIMEOUT, self.files.persist_access_times())
            .await
            .is_err()
        {
            tracing::debug!("some access times are not updated");
        }
    }

    /// Waits for the end of the session, for a short time. A mount namespace that was made while
    /// the mount existed has a copy of it, which this process cannot unmount. Programs that use a
    /// copy get errors when this process ends.
    async fn leave_copies(&self) {
        if tokio::time::timeout(COPIES_TIMEOUT, self.gone.cancelled()).await.is_ok() {
            return;
        }
        tracing::warn!(
            folder = %self.folder.display(),
            "another mount namespace, for example that of a container, has a copy of the mount; its \
             programs get errors from now on"
        );
        // A write that is read after the last flush would be lost.
        let session = Arc::clone(&self.session);
        let stopped = tokio::task::spawn_blocking(move || session.stop_reading()).await;
        if !matches!(stopped, Ok(Ok(_))) {
            tracing::warn!(?stopped, "reading requests of the copy did not stop");
        }
    }

    /// Unmounts. If programs use the mount, their operations are aborted.
    async fn unmount(&self) -> Result<(), UnmountError> {
        let folder = self.folder.clone();
        let (ended, end) = oneshot::channel();
        // A thread instead of a blocking task: unmount(2) can hang, and the runtime would wait for
        // the task at its end.
        let thread = std::thread::Builder::new().name("unmount".to_owned()).spawn(move || {
            let unmounted = match fuse::unmount(&folder, UnmountMode::IfUnused) {
                Err(UnmountError::NotMounted) => Ok(()),
                Err(UnmountError::Busy) => {
                    tracing::warn!(
                        "programs have files open on the mount; aborting their operations"
                    );
                    fuse::unmount(&folder, UnmountMode::Abort)
                        .or_else(|_| fuse::unmount(&folder, UnmountMode::Lazy))
                }
                unmounted => unmounted,
            };
            let _gave_up = ended.send(unmounted);
        });
        let failed = |source| UnmountError::Other { step: "starting a thread", source };
        thread.map_err(failed)?;
        end.await.unwrap_or(Ok(()))
    }
}

/// Starts the FUSE session with the kernel, or continues the one of the previous worker. The
/// features that it negotiated are in the ledger, the state that passes from one worker to the
/// next.
async fn start_session(
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
            // The kernel looks cached names up again, so that this process knows them, too.
            if let Err(error) = session.notifier().increase_epoch() {
                tracing::debug!(%error, "the kernel keeps its cached names");
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
            tracing::debug!(%error, "cannot raise the kernel's read-ahead");
        }
        Ok(session)
    });
    let begun = begun.await.map_err(|error| serving(folder, error))?;
    begun.map_err(|wrong: String| {
        serving(folder, wrong).remedy("the kernel's log may have the reason")
    })
}

/// Returns the problem of a mount on `folder` that cannot be served; `wrong` is the cause.
fn serving(folder: &Path, wrong: impl std::fmt::Display) -> Problem {
    Problem::new(format!("serve the mount on {}", folder.display()), wrong)
}

/// Deletes the journal's entries of requests that the kernel has not resent. The journal is the
/// list, in the mount's ledger, of requests that an earlier worker may have executed without a
/// reply. The callers of these requests do not wait any more.
async fn forget_unclaimed(ledger: Arc<Ledger>, files: Arc<Files>, gone: CancellationToken) {
    tokio::select! {
        () = gone.cancelled() => {}
        () = tokio::time::sleep(RESEND_COMPLETE_AFTER) => {
            ledger.forget_unclaimed();
            files.forget_inherited_names();
        }
    }
}

/// Returns the mounted directory, and its bucket: the root for both if the whole volume is mounted.
async fn root_of(volume: &Volume, parameters: &MountParameters) -> Result<(Ino, Ino), Problem> {
    let (mut at, mut bucket) = (Ino::ROOT, Ino::ROOT);
    for name in &parameters.subdir {
        let name = NodeName { directory: at, name: name.clone().into_bytes() };
        let found = volume.find_name(&name).await;
        let found = found.map_err(|error| not_found(parameters, &error))?;
        (at, bucket) = (found.ino, found.inode.bucket);
    }
    Ok((at, bucket))
}

/// Returns the problem of a mounted directory that does not exist.
fn not_found(parameters: &MountParameters, error: &VolumeError) -> Problem {
    Problem::new(format!("mount the directory {:?}", parameters.subdir.join("/")), error)
        .remedy("create it first, or mount the whole volume")
}
