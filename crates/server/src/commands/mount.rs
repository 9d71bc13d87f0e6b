//! `ashlar mount` and `ashlar umount`: a volume as a file system, without S3.
//!
//! Three processes of this program take part. The command that the user types starts a *keeper* in
//! the background, and ends when the mount exists. The keeper holds the FUSE device. It starts a
//! *worker*, which opens the volume and serves the requests of the kernel. For example, if a worker
//! crashes, the keeper starts another one, and programs with open files continue.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fuse::UnmountMode;
use mountd::{
    Announcement, EXIT_HANDED_OVER, KeeperLink, Keeping, MountParameters, Mounted, ToWorker,
    check_mountable, mount_options,
};
use record::{SessionFacts, SessionKind};
use rules::RulesCache;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{File, Mounting, OpenSettings, Opening, VolumeSettings};
use crate::founding::{self, Intent};
use crate::metrics::Metrics;
use crate::passes::Passes;
use crate::reports::mount_source;
use crate::serve::observe;
use crate::{backend, build, credentials, logging, peer_reads, supervisor};
use problem::{Cause, Problem};

/// The flags, which no user types, of the keeper in the background and of a worker.
const DETACHED: &str = "--detached";
const WORKER: &str = "--worker";

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command")]
pub(crate) struct Mount {
    /// An empty directory to mount on
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Stay in the foreground until the mount is unmounted
    #[arg(long)]
    foreground: bool,
    /// Replace the program that serves an existing mount by this one, without interrupting programs
    #[arg(long)]
    replace: bool,
    /// Run as the keeper in the background
    #[arg(long, hide = true)]
    detached: bool,
    /// Run as the worker of a keeper
    #[arg(long, hide = true)]
    worker: bool,
    #[command(flatten)]
    opening: Opening,
    #[command(flatten)]
    mounting: Mounting,
}

#[derive(Debug, Args)]
pub(crate) struct Umount {
    /// The mount point
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Detach the mount point at once. The mount ends when no program uses it any more
    #[arg(long)]
    lazy: bool,
}

/// The settings of a worker, the process that opens the volume and serves the mount for its keeper.
#[derive(Debug)]
struct Settings {
    folder: PathBuf,
    volume: VolumeSettings,
    open: OpenSettings,
    mount: MountParameters,
}

/// Runs `ashlar mount` in the role that its flags name: command, keeper or worker. The runtime is
/// created only for a worker: the keeper works with threads alone.
pub(crate) fn run(
    command: Mount,
    volume: VolumeSettings,
    file: &File,
    runtime: impl FnOnce() -> Result<Runtime, Problem>,
) -> Result<(), Problem> {
    let Mount { folder, foreground, replace, detached, worker, opening, mounting } = command;
    // A replacement needs no settings: the keeper starts the new worker with its own arguments.
    if replace {
        return mountd::replace(&folder);
    }
    let wrong_setting = |problem: Problem| problem.because(Cause::Settings);
    let open = opening.settle(file).map_err(wrong_setting)?;
    let mount = mounting.settle(file).map_err(wrong_setting)?.parameters();
    let settings = Settings { folder, volume, open, mount };
    if worker {
        logging::start(&settings.volume)?;
        return serve(settings, &runtime()?);
    }
    // These checks run in the typed command, so that their errors appear on the terminal at once.
    check_mountable(&settings.mount, &settings.folder)?;
    founding::check_file(&settings.volume, "mount")?;
    credentials::make_data_dir(&settings.volume.data_dir)?;
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if !foreground && !detached {
        arguments.push(DETACHED.into());
        return mountd::detach(&arguments, &settings.volume.data_dir);
    }
    logging::start(&settings.volume)?;
    let options = mount_options(&settings.mount);
    let announcement =
        if detached { Announcement::detached() } else { Announcement::Call(supervisor::ready) };
    // Workers are started with the arguments of the typed command, and `--worker`.
    arguments.retain(|word| word != DETACHED);
    arguments.push(WORKER.into());
    let ended = mountd::keep(Keeping { folder: settings.folder, options, arguments, announcement });
    if let (Err(problem), true) = (&ended, detached) {
        Announcement::Command.failed(problem);
    }
    ended
}

/// Serves a mount for its keeper.
fn serve(settings: Settings, runtime: &Runtime) -> Result<(), Problem> {
    let link = KeeperLink::accept()?;
    let served = runtime.block_on(work(settings, &link));
    if let Err(problem) = &served {
        link.report_failure(problem);
    }
    match served {
        Ok(End::Unmounted) => Ok(()),
        // The next worker answers the requests that this one has read and not answered. So the
        // process exits without destructors: a dropped `Reply` would answer its request with an
        // error.
        Ok(End::HandedOver) => std::process::exit(EXIT_HANDED_OVER),
        Err(problem) => {
            tracing::error!(%problem, "the worker ends with an error");
            std::process::exit(1)
        }
    }
}

/// The reason for which a worker, the process that serves the mount, ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The mount ended, too.
    Unmounted,
    /// The mount continues, with the next worker.
    HandedOver,
}

/// Returns the facts about a mount for the list of sessions.
fn session_facts(folder: &Path, mount: &MountParameters) -> SessionFacts {
    SessionFacts {
        kind: SessionKind::Mount,
        version: build::VERSION.to_owned(),
        addresses: Vec::new(),
        folder: folder.display().to_string(),
        subdirectory: mount.subdir.join("/"),
    }
}

/// Opens the volume, serves the mount, and returns when either ends.
async fn work(settings: Settings, link: &KeeperLink) -> Result<End, Problem> {
    let Settings { folder, volume, open, mount } = settings;
    // Before the volume opens, so that a signal at any time ends the session in order.
    let catch = |kind| signal(kind).map_err(|error| Problem::new("catch signals", error));
    let (mut terminate, mut interrupt) =
        (catch(SignalKind::terminate())?, catch(SignalKind::interrupt())?);
    let seed = credentials::random_u64()?;
    let meta = founding::admit(&volume, Intent::Mount).await?;
    let master = credentials::master_key_of_mount(&volume)?;
    let facts = session_facts(&folder, &mount);
    let backend = backend::open((&volume, &open), facts, seed, Some(link.ledger()), meta).await?;
    if let Err(problem) = peer_reads::connect(&volume, &open, &backend, master.as_ref()).await {
        // The session stays open, because the keeper may start another worker for it.
        backend.hand_over().await;
        return Err(problem);
    }
    let metrics = Arc::new(Metrics::new());
    // A mount has no listener for metrics.
    observe::register(&metrics, &backend, 0);
    let mounted = match link.mount() {
        Ok(kept) => Mounted::resume(mount_source(&backend, &metrics), &mount, &folder, kept).await,
        Err(problem) => Err(problem),
    };
    let mounted = match mounted {
        Ok(mounted) => mounted,
        Err(problem) => {
            // The session stays open, because the keeper may start another worker for it.
            backend.hand_over().await;
            return Err(problem);
        }
    };
    link.report_serving();
    // A read-only mount removes no objects.
    let passes = (!mount.read_only).then(|| {
        let day = Duration::from_secs(open.lifecycle_day_seconds);
        Passes::start(&backend.volume, Arc::new(RulesCache::new()), &metrics, day)
    });
    let command = tokio::select! {
        () = mounted.unmounted() => ToWorker::Unmount,
        _ = terminate.recv() => ToWorker::Unmount,
        _ = interrupt.recv() => ToWorker::Unmount,
        command = link.next_command() => command,
        () = backend.volume.lost() => {
            // The next worker answers the requests that this one has read, in a session of its own.
            let wrong = "its session was ended: it sent no heartbeat for too long, or the metadata store lost \
                         commits";
            return Err(Problem::new("serve the mount", wrong));
        }
    };
    // Before the session is closed or handed over, so that passes begin no commit after that. The
    // next process continues them.
    if let Some(passes) = passes {
        passes.end().await;
    }
    if command == ToWorker::HandOver {
        mounted.hand_over().await;
        backend.hand_over().await;
        return Ok(End::HandedOver);
    }
    // The mount ends first, because its dirty data needs the session.
    mounted.end().await;
    backend.close().await;
    Ok(End::Unmounted)
}

impl Umount {
    /// Unmounts. Fails if programs use the mount, unless `--lazy` is given.
    pub(crate) fn run(self) -> Result<(), Problem> {
        let mode = if self.lazy { UnmountMode::Lazy } else { UnmountMode::IfUnused };
        let doing = format!("unmount {}", self.folder.display());
        fuse::unmount(&self.folder, mode).map_err(|error| Problem::new(doing, error))
    }
}
