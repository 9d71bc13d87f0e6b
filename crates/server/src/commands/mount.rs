//! `ashlar mount` and `ashlar umount`: a volume as files, without S3.
//!
//! The command that is typed starts a keeper in the background, and ends. The keeper starts a worker,
//! which has the volume open and serves. All three are this program.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use fuse::UnmountMode;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{File, MountSettings, Mounting, OpenSettings, Opening, VolumeSettings};
use crate::founding::{self, Intent};
use crate::keeper::{self, Announcement, EXIT_LEFT, KeeperLink, Keeping, ToWorker};
use crate::metrics::Metrics;
use crate::mount::{Mounted, check_mountable, mount_options};
use crate::problem::Problem;
use crate::serve::observe;
use crate::{backend, credentials, logging};

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command")]
pub(crate) struct Mount {
    /// The folder on which it is mounted: an empty one
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Stay in the foreground, until it is unmounted
    #[arg(long)]
    foreground: bool,
    /// Have a mount that is there served by this program from now on, while programs go on
    #[arg(long)]
    replace: bool,
    /// Keep the mount in the background, for the command that was typed
    #[arg(long, hide = true)]
    detached: bool,
    /// Serve the mount for its keeper
    #[arg(long, hide = true)]
    worker: bool,
    #[command(flatten)]
    opening: Opening,
    #[command(flatten)]
    mounting: Mounting,
}

#[derive(Debug, Args)]
pub(crate) struct Umount {
    /// The folder on which it is mounted
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Take the name away at once; the mount ends when no program uses it any more
    #[arg(long)]
    lazy: bool,
}

/// What a mount is served with.
#[derive(Debug)]
struct Settings {
    folder: PathBuf,
    volume: VolumeSettings,
    open: OpenSettings,
    mount: MountSettings,
}

/// Mounts, as whichever process this is.
pub(crate) fn run(
    command: Mount,
    volume: VolumeSettings,
    file: &File,
    runtime: impl FnOnce() -> Result<Runtime, Problem>,
) -> Result<(), Problem> {
    let Mount { folder, foreground, replace, detached, worker, opening, mounting } = command;
    if replace {
        return keeper::replace(&folder);
    }
    let (open, mount) = (opening.settle(file)?, mounting.settle(file)?);
    let settings = Settings { folder, volume, open, mount };
    if worker {
        logging::start(&settings.volume)?;
        return serve(settings, &runtime()?);
    }
    check_mountable(&settings.mount, &settings.folder)?;
    founding::check_file(&settings.volume, "mount")?;
    credentials::make_data_dir(&settings.volume.data_dir)?;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if !foreground && !detached {
        return keeper::detach(&arguments, &settings.volume.data_dir);
    }
    logging::start(&settings.volume)?;
    let options = mount_options(&settings.mount);
    let announcement = if detached { Announcement::detached() } else { Announcement::Log };
    // A keeper in the background is started with the arguments of the command that was typed, and so
    // are its workers.
    let arguments = arguments.into_iter().filter(|word| word != "--detached").collect();
    let kept = keeper::keep(Keeping { folder: settings.folder, options, arguments, announcement });
    if let (Err(problem), true) = (&kept, detached) {
        Announcement::Command.failed(problem);
    }
    kept
}

/// Serves a mount for its keeper.
fn serve(settings: Settings, runtime: &Runtime) -> Result<(), Problem> {
    let link = KeeperLink::take()?;
    let served = runtime.block_on(work(settings, &link));
    if let Err(problem) = &served {
        link.failed(problem);
    }
    match served {
        Ok(End::Unmounted) => Ok(()),
        // Requests that were read and not answered are for the process that follows. Nothing that is
        // dropped here may answer them.
        Ok(End::Left) => std::process::exit(EXIT_LEFT),
        Err(problem) => {
            tracing::error!(%problem, "this worker ends");
            std::process::exit(1)
        }
    }
}

/// How a worker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With the mount.
    Unmounted,
    /// And the mount is there.
    Left,
}

async fn work(settings: Settings, link: &KeeperLink) -> Result<End, Problem> {
    let Settings { folder, volume, open, mount } = settings;
    let catch = |kind| signal(kind).map_err(|error| Problem::new("catch signals", error));
    let (mut terminate, mut interrupt) =
        (catch(SignalKind::terminate())?, catch(SignalKind::interrupt())?);
    let mut random = [0; 8];
    credentials::random(&mut random)?;
    let seed = u64::from_ne_bytes(random);
    let meta = founding::admit(&volume, Intent::Mount).await?;
    let backend = backend::open(&volume, &open, seed, Some(link.ledger()), meta).await?;
    let metrics = Arc::new(Metrics::new());
    observe::register(&metrics, &backend);
    let begun = match link.mount() {
        Ok(kept) => Mounted::go_on((&backend, &metrics), &mount, &folder, kept).await,
        Err(problem) => Err(problem),
    };
    let mounted = match begun {
        Ok(mounted) => mounted,
        Err(problem) => {
            backend.leave().await;
            return Err(problem);
        }
    };
    link.serving();
    let told = tokio::select! {
        () = mounted.gone() => ToWorker::End,
        _ = terminate.recv() => ToWorker::End,
        _ = interrupt.recv() => ToWorker::End,
        told = link.hear() => told,
        () = backend.volume.lost() => {
            // What was read is answered by the process that follows, in a session of its own.
            let wrong = "its session was ended: it did not show for too long that it lives, or \
                         the metadata store forgot something";
            return Err(Problem::new("go on", wrong));
        }
    };
    if told == ToWorker::Leave {
        mounted.leave().await;
        backend.leave().await;
        return Ok(End::Left);
    }
    mounted.end().await;
    backend.close().await;
    Ok(End::Unmounted)
}

impl Umount {
    /// Takes a mount away.
    pub(crate) fn run(self) -> Result<(), Problem> {
        let mode = if self.lazy { UnmountMode::Lazy } else { UnmountMode::IfUnused };
        let doing = format!("unmount {}", self.folder.display());
        fuse::unmount(&self.folder, mode).map_err(|error| Problem::new(doing, error))
    }
}
