//! `ashlar mount` and `ashlar umount`: a volume as a file system, without S3.
//!
//! Three processes of this program take part. The command that the user types starts a *keeper* in
//! the background, and ends when the mount exists. The keeper holds the FUSE device. It starts a
//! *worker*, which opens the volume and serves the requests of the kernel. For example, if a worker
//! crashes, the keeper starts another one, and programs with open files continue.

use std::convert::Infallible;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use audit::{AuditLog, EntryKind, LogSink};
use clap::Args;
use fuse::UnmountMode;
use identity::MasterKey;
use mountd::{
    Announcement, EXIT_HANDED_OVER, KeeperLink, Keeping, MountParameters, Mounted, ToWorker,
    check_mountable, mount_options,
};
use record::{SessionFacts, SessionKind};
use rules::RulesCache;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::mount_reload::MountReload;
use crate::backend::Backend;
use crate::config::{
    Common, File, ListenAt, Mounting, OpenSettings, Opening, VolumeSettings, WatchSettings,
    Watching,
};
use crate::founding::{self, Intent};
use crate::metrics::Metrics;
use crate::metrics_listener::{self, Pages};
use crate::passes::Passes;
use crate::reports::mount_source;
use crate::safe_name::safe_name;
use crate::serve::observe;
use crate::unknown_variables::Unknown;
use crate::{backend, build, credentials, logging, mount_log, peer_reads, supervisor};
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
    #[command(flatten)]
    watching: Watching,
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
    watch: WatchSettings,
}

/// Runs `ashlar mount` in the role that its flags name: command, keeper or worker. The runtime is
/// created only for a worker: the keeper works with threads alone. The keeper logs the variables
/// `unknown`.
pub(crate) fn run(
    (command, unknown): (Mount, &[Unknown]),
    (volume, config, common): (VolumeSettings, Option<PathBuf>, Common),
    file: &File,
    runtime: impl FnOnce() -> Result<Runtime, Problem>,
) -> Result<(), Problem> {
    let Mount { folder, foreground, replace, detached, worker, opening, mounting, watching } =
        command;
    // A replacement needs no settings: the keeper starts the new worker with its own arguments.
    if replace {
        return mountd::replace(&folder);
    }
    let wrong_setting = |problem: Problem| problem.because(Cause::Settings);
    let open = opening.settle(file).map_err(wrong_setting)?;
    let mount = mounting.settle(file).map_err(wrong_setting)?.parameters();
    let watch = watching.settle(file).map_err(wrong_setting)?;
    let settings = Settings { folder, volume, open, mount, watch };
    let log_in = detached.then(|| settings.volume.data_dir.clone());
    let level = Mutex::new(settings.volume.log.clone());
    let reload = |filter| MountReload { config, common, filter, level, log_in };
    if worker {
        let reload = reload(logging::start(&settings.volume)?);
        return serve(settings, &reload, &runtime()?);
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
    let reload = reload(logging::start(&settings.volume)?);
    unknown.iter().for_each(Unknown::log);
    let options = mount_options(&settings.mount);
    let announcement =
        if detached { Announcement::detached() } else { Announcement::Call(supervisor::ready) };
    // Workers are started with the arguments of the typed command, and `--worker`. In the
    // background they log to the same file as the keeper, as `--detached` says.
    arguments.push(WORKER.into());
    let reload = Box::new(move || reload.again());
    let folder = settings.folder;
    // Before the mount, so that an address in use fails the command.
    let listener = settings.watch.admin_listen.as_deref().map(listener).transpose();
    let ended = listener.and_then(|listener| {
        mountd::keep(Keeping { folder, options, arguments, announcement, listener, reload })
    });
    if let (Err(problem), true) = (&ended, detached) {
        Announcement::Command.failed(problem);
    }
    ended
}

/// Binds the address of metrics and status.
fn listener(address: &str) -> Result<TcpListener, Problem> {
    let listener = TcpListener::bind(address).map_err(|error| {
        let remedy = "choose a free address of this machine in --admin-listen, or off";
        Problem::new(format!("listen on {address}"), error).remedy(remedy)
    })?;
    let address = listener.local_addr().map_or_else(|_| address.to_owned(), |at| at.to_string());
    tracing::info!(admin = format!("http://{address}"), "serving metrics of the mount");
    Ok(listener)
}

/// Serves a mount for its keeper.
fn serve(settings: Settings, reload: &MountReload, runtime: &Runtime) -> Result<(), Problem> {
    let link = KeeperLink::accept()?;
    let served = runtime.block_on(work(settings, reload, &link));
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

/// The signals that a worker handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn catch() -> Result<Signals, Problem> {
        let catch = |kind| signal(kind).map_err(|error| Problem::new("catch signals", error));
        Ok(Signals {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
            hangup: catch(SignalKind::hangup())?,
        })
    }
}

/// Opens the volume, serves the mount, and returns when either ends.
async fn work(settings: Settings, reload: &MountReload, link: &KeeperLink) -> Result<End, Problem> {
    let Settings { folder, volume, open, mount, watch } = settings;
    // Before the volume opens, so that a signal at any time ends the session in order.
    let mut signals = Signals::catch()?;
    let log = Arc::new(access_log(&watch, link)?);
    let seed = credentials::random_u64()?;
    let meta = founding::admit(&volume, Intent::Mount).await?;
    let master = credentials::master_key_of_mount(&volume)?;
    let facts = session_facts(&folder, &mount);
    let backend = backend::open((&volume, &open), facts, seed, Some(link.ledger()), meta).await?;
    if let Err(problem) = use_master_key((&volume, &open), &backend, master.as_ref()).await {
        // The session stays open, because the keeper may start another worker for it.
        backend.hand_over().await;
        return Err(problem);
    }
    let metrics = Arc::new(Metrics::new());
    // The gateways have the metrics of buckets.
    observe::register(&metrics, &backend, 0);
    metrics.collect_from(Arc::clone(&log));
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
    metrics.show_mount(mounted.meters());
    if link.is_new() {
        mount_log::record(&log, EntryKind::MountBegin, &folder, backend.volume.now());
    }
    // The listener of a mount has no load balancer: its pages end with the mount.
    let never = Arc::new(|| false);
    let pages = observe::pages(Arc::clone(&metrics), &volume, &backend, never);
    let listening = Listening::start(link, &watch, pages);
    link.report_serving();
    // A read-only mount removes no objects.
    let passes = (!mount.read_only).then(|| {
        let day = Duration::from_secs(open.lifecycle_day_seconds);
        Passes::start(&backend.volume, Arc::new(RulesCache::new()), &metrics, day)
    });
    let command = tokio::select! {
        command = next_command(&mut signals, (&mounted, link), (reload, &log)) => command,
        never = follow_rings(&backend) => match never {},
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
    listening.end().await;
    let end = end(command, mounted, &backend).await;
    if end == End::Unmounted {
        mount_log::record(&log, EntryKind::MountEnd, &folder, backend.volume.now());
    }
    if let Err(error) = log.close().await {
        tracing::warn!(%error, "the last entries of the access log are not written");
    }
    Ok(end)
}

/// Opens the ring keys with the master key, and connects the session with its peers.
async fn use_master_key(
    (volume, open): (&VolumeSettings, &OpenSettings),
    backend: &Backend,
    master: Option<&MasterKey>,
) -> Result<(), Problem> {
    backend.rings.open(volume, master).await?;
    peer_reads::connect(volume, open, backend, master).await
}

/// Follows changes of the ring keys. For example, a rotation takes effect on the mount within a
/// second.
async fn follow_rings(backend: &Backend) -> Infallible {
    let changes = backend.volume.access_changes();
    backend.rings.follow(changes, CancellationToken::new()).await;
    std::future::pending().await
}

/// Ends the mount and its volume, or hands both over to the next worker.
async fn end(command: ToWorker, mounted: Mounted, backend: &Backend) -> End {
    if command == ToWorker::HandOver {
        mounted.hand_over().await;
        backend.hand_over().await;
        return End::HandedOver;
    }
    // The mount ends first, because its dirty data needs the session.
    mounted.end().await;
    backend.close().await;
    End::Unmounted
}

/// Opens the access log. Fails for a new mount if its file cannot be opened. A mount that exists
/// goes on without the log.
fn access_log(watch: &WatchSettings, link: &KeeperLink) -> Result<AuditLog, Problem> {
    let format = watch.access_log_format.into();
    let wrong = match AuditLog::start(&watch.access_log, format) {
        Ok(log) => return Ok(log),
        Err(error) => Problem::new(format!("write the access log to {}", watch.access_log), error)
            .remedy("--access-log must be a file that this user can create or append to, or off"),
    };
    if link.is_new() {
        return Err(wrong);
    }
    tracing::error!(problem = %wrong, "the mount goes on without an access log");
    AuditLog::start(&LogSink::Off, format).map_err(|_| wrong)
}

/// Waits for the end of the mount, for a signal that ends it, or for a command of the keeper.
/// SIGHUP opens logs again.
async fn next_command(
    signals: &mut Signals,
    (mounted, link): (&Mounted, &KeeperLink),
    (reload, log): (&MountReload, &AuditLog),
) -> ToWorker {
    // Pinned, because a command that has arrived in part must not be lost at a SIGHUP.
    let (mut unmounted, mut command) = (pin!(mounted.unmounted()), pin!(link.next_command()));
    loop {
        tokio::select! {
            () = &mut unmounted => return ToWorker::Unmount,
            _ = signals.terminate.recv() => return ToWorker::Unmount,
            _ = signals.interrupt.recv() => return ToWorker::Unmount,
            command = &mut command => return command,
            _ = signals.hangup.recv() => {
                reload.again();
                match log.reopen().await {
                    Ok(true) => tracing::info!("opened the access log again"),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot open the access log again; the previous file stays in use");
                    }
                }
            }
        }
    }
}

/// The listener of a worker for operators.
struct Listening {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Listening {
    /// Serves metrics, status and health checks at the socket that the keeper holds, if there is
    /// one.
    fn start(link: &KeeperLink, watch: &WatchSettings, pages: Pages) -> Listening {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        match link.listener() {
            Ok(Some(socket)) => {
                let listen = watch.admin_listen.clone().map_or(ListenAt::Off, ListenAt::At);
                let hosts = metrics_listener::Hosts::new(&listen, &watch.admin_hosts);
                let (of_connections, stopped) = (tasks.clone(), stop.clone());
                let serving =
                    metrics_listener::serve(socket, hosts, pages, of_connections, stopped);
                tasks.spawn(serving);
            }
            Ok(None) => {}
            // Programs on the mount need no metrics.
            Err(error) => tracing::warn!(%error, "cannot serve the metrics of the mount"),
        }
        Listening { tasks, stop }
    }

    /// Stops to accept clients. Those that connect later wait for the next worker.
    async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Umount {
    /// Unmounts. Fails if programs use the mount, unless `--lazy` is given.
    pub(crate) fn run(self) -> Result<(), Problem> {
        let mode = if self.lazy { UnmountMode::Lazy } else { UnmountMode::IfUnused };
        let doing = format!("unmount {}", safe_name(self.folder.as_os_str().as_bytes()));
        fuse::unmount(&self.folder, mode).map_err(|error| Problem::new(doing, error))
    }
}
