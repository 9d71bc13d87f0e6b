//! A volume as files: a mount from its beginning to its end.

mod glue;
mod notices;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use files::{Files, FilesOptions, WHOLE_BYTES_MAX_DEFAULT};
use fuse::{KernelOptions, KernelSession, MountOptions, SessionEnd, UnmountError, UnmountMode};
use record::Ino;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volume::{NodeName, Volume, VolumeError};

use crate::config::MountSettings;
use crate::problem::Problem;
use glue::Glue;
use notices::Notices;

/// How far the kernel reads ahead of a program, in KiB.
const READ_AHEAD_KIB: u32 = 1_024;

/// Requests with data that may be in this process at a time. None waits for memory: what it brings is
/// taken first.
const LARGE_REQUESTS_MAX: usize = 256;

/// How long the end of a mount waits for what is under way.
const END_PATIENCE: Duration = Duration::from_secs(30);

/// A volume that is mounted.
#[derive(Debug)]
pub(crate) struct Mounted {
    folder: PathBuf,
    files: Arc<Files>,
    session: Arc<KernelSession>,
    tasks: TaskTracker,
    gone: CancellationToken,
}

impl Mounted {
    /// Mounts a volume. Buckets that are made as directories belong to `owner`.
    pub(crate) async fn begin(
        volume: &Arc<Volume>,
        settings: &MountSettings,
        owner: &str,
        folder: &Path,
    ) -> Result<Mounted, Problem> {
        let doing = || format!("mount on {}", folder.display());
        let options = FilesOptions {
            root: root_of(volume, settings).await?,
            read_only: settings.read_only,
            write_memory: settings.write_memory.0,
            whole_bytes_max: WHOLE_BYTES_MAX_DEFAULT,
            io_timeout: Duration::from_secs(settings.io_timeout_seconds),
            owner: owner.to_owned(),
        };
        let files = Files::new(Arc::clone(volume), options);
        let (gone, tasks) = (CancellationToken::new(), TaskTracker::new());
        let glue = Arc::new(Glue {
            files: Arc::clone(&files),
            runtime: Handle::current(),
            tasks: tasks.clone(),
            gone: gone.clone(),
        });
        let mut options = MountOptions::new("ashlar", "ashlar");
        options.read_only = settings.read_only;
        options.allow_other = settings.allow_other;
        let is_root = rustix::process::geteuid().is_root();
        (options.allow_suid, options.allow_devices) = (is_root, is_root);
        let kernel = KernelOptions {
            posix_acl: true,
            large_requests_max: LARGE_REQUESTS_MAX,
            ..KernelOptions::default()
        };
        let at = folder.to_owned();
        let begun = tokio::task::spawn_blocking(move || {
            let device = fuse::mount(&at, &options)
                .map_err(|error| (error.to_string(), "choose an empty folder of your own"))?;
            let session = KernelSession::start(device, kernel, glue).map_err(|error| {
                let _unmounted = fuse::unmount(&at, UnmountMode::Lazy);
                (error.to_string(), "see the kernel's log")
            })?;
            if let Err(error) = fuse::raise_read_ahead(&at, READ_AHEAD_KIB) {
                tracing::debug!(%error, "the kernel reads ahead no further than usual");
            }
            Ok(session)
        });
        let session = begun.await.map_err(|error| Problem::new(doing(), error))?.map_err(
            |(wrong, remedy): (String, &str)| Problem::new(doing(), wrong).remedy(remedy),
        )?;
        let (queue, _thread) =
            session.notice_queue().map_err(|error| Problem::new(doing(), error))?;
        let notices = Notices { queue, root: files.root() };
        files.watch(Arc::new(notices), settings.coherence.into());
        tasks.spawn(Arc::clone(&files).flush_until(gone.clone()));
        tracing::info!(folder = %folder.display(), "mounted");
        let (folder, session) = (folder.to_owned(), Arc::new(session));
        // Whyever nobody reads requests any more: the mount is at its end.
        let (served, end) = (Arc::clone(&session), gone.clone());
        let watching = std::thread::Builder::new().name("mount".to_owned()).spawn(move || {
            served.join();
            end.cancel();
        });
        watching.map_err(|error| Problem::new(doing(), error))?;
        Ok(Mounted { folder, files, session, tasks, gone })
    }

    /// Waits until somebody has unmounted it.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Makes everything that was written durable, and unmounts it.
    pub(crate) async fn end(self) {
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

/// The directory that is mounted.
async fn root_of(volume: &Volume, settings: &MountSettings) -> Result<Ino, Problem> {
    let mut at = Ino::ROOT;
    for name in &settings.subdir {
        let name = NodeName { directory: at, name: name.clone().into_bytes() };
        let found = volume.find_name(&name).await;
        at = found.map_err(|error| not_found(settings, &error))?.ino;
    }
    Ok(at)
}

fn not_found(settings: &MountSettings, error: &VolumeError) -> Problem {
    Problem::new(format!("mount the directory {:?}", settings.subdir.join("/")), error)
        .remedy("make it first, or mount the whole volume")
}
