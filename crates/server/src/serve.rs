//! `ashlar serve`: starts the parts of a gateway in order, and stops them in the reverse order.
//!
//! All steps that can fail come before the first request. At the end the listener closes, requests
//! in flight finish, and the volume ends its session. For example, at SIGTERM the readiness check
//! answers 503 first, then the listener closes, and access keys and metrics are served until the
//! last response.

mod announce;
mod audited;
mod bucket_logs;
mod console;
mod console_service;
mod minio_admin;
pub(crate) mod observe;
mod open_files;
mod reload;
mod s3_service;
mod settings;
mod shutdown;
mod sockets;

use std::sync::Arc;
use std::time::Duration;

use adminapi::AdminApi;
use audit::AuditLog;
use edge::{
    ConnectionPermits, Edge, Hosts, Lingering, Listener, RELOAD_INTERVAL, ResponseTimeouts,
    Service, Tls, TlsFiles,
};
use futures::FutureExt;
use gateway::Gateway;
use identity::{Access, Identity, MasterKey};
use mountd::{Mounted, check_mountable};
use record::{ObjectOwnership, SessionFacts, SessionKind};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volume::Volume;

use crate::backend::{self, Backend};
use crate::bootstrap::Declared;
use crate::config::{MountSettings, OpenSettings, OwnershipClass, ServeSettings, VolumeSettings};
use crate::credentials::Root;
use crate::founding::{self, Intent};
use crate::metrics::Metrics;
use crate::passes::Passes;
use crate::reports::mount_source;
use crate::{build, credentials, metrics_listener, peer_reads, private, supervisor, web_roles};
use audited::Audited;
use bucket_logs::Deliveries;
use problem::{Cause, Problem};
use reload::Reload;
pub(crate) use reload::SettingsSource;
use s3_service::S3;
pub(crate) use settings::GatewaySettings;
use settings::{count, host_limits};
use shutdown::{Phase, Shutdown};
use sockets::Sockets;

/// Serves until a signal asks the gateway to stop, or its session is lost. Fails if a step of the
/// start fails, or if the session is lost.
///
/// `source` is read again at SIGHUP.
pub(crate) async fn serve(
    settings: GatewaySettings,
    source: SettingsSource,
) -> Result<(), Problem> {
    let GatewaySettings { volume, open, mount, serve } = &settings;
    // A signal during the start is handled at its end, instead of killing an open session.
    let signals = Signals::catch()?;
    // Steps without the volume come first, so that one that fails leaves no session and no volume.
    if let Some(folder) = &serve.mount {
        check_mountable(&mount.parameters(), folder)?;
    }
    let tls = serve.tls.clone().map(load_tls).transpose().map_err(wrong_setting)?;
    let log = access_log(serve).map_err(wrong_setting)?;
    let web_roles = web_roles::from_settings(&serve.openid).map_err(wrong_setting)?;
    let declared = Declared::read(serve).map_err(wrong_setting)?;
    let sockets = Sockets::bind(serve).await?;
    let existing = founding::admit(volume, Intent::Serve { create: serve.create }).await?;
    // After `admit`, which decides by the existence of the data directory.
    credentials::make_data_dir(&volume.data_dir)?;
    let root = credentials::root(&volume.data_dir).map_err(wrong_setting)?;
    let known = credentials::known_master_key(volume).map_err(wrong_setting)?;
    let random = credentials::random_u64()?;

    let facts = session_facts(serve, &sockets);
    let backend = backend::open((volume, open), facts, random, None, existing).await?;
    let master = master_key(known, (volume, open), &backend).await?;
    let (shared, metrics) = (Arc::clone(&backend.volume), Arc::new(Metrics::new()));
    observe::register(&metrics, &backend, serve.bucket_metrics_max);
    let identity = Identity::root(&root.user, root.password.clone());
    let access = Arc::new(Access::new(identity, master).with_web_roles(web_roles));
    // Before the first request, which would otherwise not find its access key.
    access.read(&shared).await.map_err(unreadable)?;
    let audited = Audited::registered(log, &access, &serve.region, &metrics);

    let (gateway, api) =
        bootstrapped(&settings, (&backend, &access, &audited), &declared, &root).await?;
    let mounted = mount_if_set((&backend, &metrics), mount, serve).await?;
    audited.mount_began(serve.mount.as_deref(), shared.now());
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    follow_changes(&tasks, &backend, &access, &stop);
    let passes = passes(&shared, &gateway, &metrics, open);
    let accepting = stop.child_token();
    let minio_admin = minio_admin::over(serve, &api, &audited, &metrics, &accepting);
    let logs = Deliveries::start(&audited.bucket_logs, &gateway, serve, &stop);
    let service = S3::new(gateway, Arc::clone(&shared), Arc::clone(&audited), minio_admin);
    let requests_max = count(serve.requests_max);
    let edge = Arc::new(Edge::new(service, Arc::clone(&metrics.edge), requests_max, random));
    let listener = listener(serve, tls.clone(), &edge, &metrics);
    // The last step that prints: scripts take this line as the sign of a successful start.
    announce::say((volume, serve), &root, &sockets);
    let Sockets { s3, admin, console } = sockets;
    if let Some(socket) = admin {
        let pages = observe::pages(metrics, volume, &backend, observe::is_stopping(&edge));
        let hosts = metrics_listener::Hosts::new(&serve.admin_listen, &serve.admin_hosts);
        let (tasks_of, stop_of) = (tasks.clone(), stop.clone());
        tasks.spawn(metrics_listener::serve(socket, hosts, pages, tasks_of, stop_of));
    }
    if let Some(socket) = console {
        let (tls, limits) = (tls.clone(), console::limits(serve));
        let served = (Arc::clone(&api), console::settings(serve, &s3), Arc::clone(&audited));
        tasks.spawn(console::serve(socket, served, tls, limits, random, stop.clone()));
    }
    // `accepting` is cancelled when the shutdown delay is over, `stop` when no request is in flight
    // any more or the drain timeout is over. Access keys and metrics are served until then.
    let drain = Duration::from_secs(serve.drain_timeout_seconds);
    // Without its session the gateway can only fail requests. It stops, and its service manager
    // starts another one.
    tasks.spawn(stop_when_lost(Arc::clone(&shared), Arc::clone(&edge), accepting.clone()));
    let shutdown = Shutdown { edge, accepting: accepting.clone(), delay: serve.shutdown_delay.0 };
    let reload = Reload::new(source, &settings, tls, access, &audited);
    tasks.spawn(signals.handle(reload, shutdown, tasks.clone(), stop.clone()));
    serve_until_closed(listener, s3, accepting, drain).await;
    stop.cancel();
    end_tasks(&tasks, passes, &api, logs).await;
    // Read before the mount ends, which can take a while.
    let lost = shared.lost().now_or_never().is_some();
    // The mount ends before the backend, because its dirty data needs the session.
    if let Some(mounted) = mounted {
        mounted.end().await;
    }
    backend.close().await;
    audited.end(serve.mount.as_deref(), shared.now()).await;
    tracing::info!("stopped");
    if lost { Err(session_lost()) } else { Ok(()) }
}

/// Starts the lifecycle passes.
fn passes(
    volume: &Arc<Volume>,
    gateway: &Gateway,
    metrics: &Metrics,
    open: &OpenSettings,
) -> Passes {
    let day = Duration::from_secs(open.lifecycle_day_seconds);
    Passes::start(volume, gateway.rules(), metrics, day)
}

/// Waits for the tasks of a gateway after their stop. The log names each step, so that a step which
/// takes long has a name.
async fn end_tasks(tasks: &TaskTracker, passes: Passes, api: &AdminApi, logs: Deliveries) {
    tasks.close();
    api.end().await;
    tracing::info!("stopping: no request is in flight; ending lifecycle passes");
    passes.end().await;
    tracing::info!("stopping: ending the other listeners");
    tasks.wait().await;
    // After the last request, whose line is in the log too.
    tracing::info!("stopping: delivering access logs of buckets");
    logs.end().await;
    tracing::info!("stopping: ending the session");
}

/// Returns the facts about a gateway for the list of sessions.
fn session_facts(serve: &ServeSettings, sockets: &Sockets) -> SessionFacts {
    let folder = serve.mount.as_ref().map(|folder| folder.display().to_string());
    SessionFacts {
        kind: SessionKind::Gateway,
        version: build::VERSION.to_owned(),
        addresses: sockets.urls(serve.tls.is_some()),
        folder: folder.unwrap_or_default(),
        subdirectory: String::new(),
    }
}

/// Returns a problem whose cause is a setting.
fn wrong_setting(problem: Problem) -> Problem {
    problem.because(Cause::Settings)
}

/// Serves requests at `socket` until `accepting` is cancelled and requests in flight have finished,
/// or until the time `drain` after that.
async fn serve_until_closed<S: Service>(
    listener: Listener<S>,
    socket: TcpListener,
    accepting: CancellationToken,
    drain: Duration,
) {
    if !listener.serve(socket, accepting, drain).await {
        tracing::warn!(
            seconds = drain.as_secs(),
            "the drain timeout is over: stopping with requests in flight"
        );
    }
}

/// Returns the problem of a gateway whose session was ended.
fn session_lost() -> Problem {
    let wrong = "its session was ended: it sent no heartbeat for too long, or the metadata store lost \
                 commits";
    let problem = Problem::new("serve the volume", wrong).remedy("start the gateway again");
    problem.because(Cause::Unavailable)
}

/// Returns the settings of the `gateway` crate.
fn gateway_settings(settings: &GatewaySettings) -> gateway::Settings {
    let GatewaySettings { volume, open, serve, mount: _ } = settings;
    gateway::Settings {
        region: serve.region.clone(),
        domains: serve.domains.clone(),
        object_ownership: match serve.default_object_ownership {
            OwnershipClass::BucketOwnerEnforced => ObjectOwnership::BucketOwnerEnforced,
            OwnershipClass::BucketOwnerPreferred => ObjectOwnership::BucketOwnerPreferred,
            OwnershipClass::ObjectWriter => ObjectOwnership::ObjectWriter,
        },
        sigv2_presign: serve.sigv2_presign,
        lifecycle_day: Duration::from_secs(open.lifecycle_day_seconds),
        body_patience: Duration::from_secs(serve.body_timeout_seconds),
        console_url: serve.console_url.clone(),
        kms_default: volume.kms.default.as_ref().map(ToString::to_string),
        sse_c_over_http: serve.sse_c_over_http,
    }
}

/// Returns the gateway and its administration, with the declarations in force. If one is refused,
/// closes the backend, which ends the session.
async fn bootstrapped(
    settings: &GatewaySettings,
    (backend, access, audited): (&Backend, &Arc<Access>, &Audited),
    declared: &Declared,
    root: &Root,
) -> Result<(Arc<Gateway>, Arc<AdminApi>), Problem> {
    let of_gateway = gateway_settings(settings);
    let gateway = Gateway::new(Arc::clone(&backend.volume), Arc::clone(access), of_gateway);
    let api = console::api(settings, backend, &gateway, (access, audited));
    let applied = declared.apply(&api, &root.user).await;
    if applied.is_err() {
        backend.close().await;
    }
    applied.map(|()| (gateway, api))
}

/// Mounts the volume if `--mount` is given. If that fails, closes the backend, which ends the
/// session.
async fn mount_if_set(
    (backend, metrics): (&Backend, &Arc<Metrics>),
    mount: &MountSettings,
    serve: &ServeSettings,
) -> Result<Option<Mounted>, Problem> {
    let Some(folder) = &serve.mount else { return Ok(None) };
    let mounted = Mounted::mount(mount_source(backend, metrics), &mount.parameters(), folder).await;
    match &mounted {
        Ok(mounted) => metrics.show_mount(mounted.meters()),
        Err(_) => backend.close().await,
    }
    mounted.map(Some)
}

/// Opens the access log.
fn access_log(serve: &ServeSettings) -> Result<AuditLog, Problem> {
    AuditLog::start(&serve.access_log, serve.access_log_format.into()).map_err(|error| {
        Problem::new(format!("write the access log to {}", serve.access_log), error)
            .remedy("--access-log must be a file that this user can create or append to, - or off")
    })
}

/// Loads the certificate, and removes permissions of other users from the file of its key.
fn load_tls(files: TlsFiles) -> Result<Tls, Problem> {
    let tls = Tls::load(files)?;
    // After the load, so that the permissions of a wrong file are not changed.
    private::given(&tls.files().key)?;
    Ok(tls)
}

/// Returns the listener of the S3 endpoint, and registers the metric of its queue.
fn listener<S: Service>(
    serve: &ServeSettings,
    tls: Option<Tls>,
    edge: &Arc<Edge<S>>,
    metrics: &Metrics,
) -> Listener<S> {
    observe::queue(metrics, edge);
    let (mut connections_max, mut hosts) = (count(serve.connections_max), host_limits(serve));
    open_files::clamp(&mut connections_max, &mut hosts, open_files::raise());
    Listener {
        tls,
        edge: Arc::clone(edge),
        permits: ConnectionPermits::new(connections_max),
        hosts: Hosts::new(hosts),
        metrics: Arc::clone(&metrics.edge),
        timeouts: ResponseTimeouts {
            download: Duration::from_secs(serve.download_timeout_seconds),
            in_memory: Duration::from_secs(serve.body_timeout_seconds),
        },
        lingering: Lingering::default(),
    }
}

/// Closes the listener if another gateway has ended this gateway's session: it cannot commit any
/// more, but a new process can.
async fn stop_when_lost<S: Service>(
    volume: Arc<Volume>,
    edge: Arc<Edge<S>>,
    accepting: CancellationToken,
) {
    tokio::select! {
        () = volume.lost() => {
            edge.drain();
            accepting.cancel();
        }
        () = accepting.cancelled() => {}
    }
}

/// Returns the master key, which is created for a volume that has none, and connects the session
/// with its peers. If a step fails, closes the backend, which ends the
/// session.
async fn master_key(
    known: Option<MasterKey>,
    (settings, open): (&VolumeSettings, &OpenSettings),
    backend: &Backend,
) -> Result<MasterKey, Problem> {
    let made = async {
        let users = backend.volume.users().await.map_err(unreadable)?;
        let master = match known {
            Some(known) => known,
            None => credentials::fresh_master_key(settings, !users.is_empty())?,
        };
        credentials::check_opens_secrets(&master, &users)?;
        // A gateway with a wrong master key, or with one of two, would refuse each access key.
        backend.rings.open(settings, Some(&master)).await?;
        peer_reads::connect(settings, open, backend, Some(&master)).await?;
        Ok(master)
    };
    let made = made.await;
    if made.is_err() {
        backend.close().await;
    }
    made
}

/// Returns the problem of access keys that cannot be read.
fn unreadable(error: volume::VolumeError) -> Problem {
    Problem::new("read access keys", error)
}

/// Follows changes of access keys until the gateway stops.
async fn follow_access(volume: Arc<Volume>, access: Arc<Access>, stop: CancellationToken) {
    access.follow(&volume, &stop).await;
}

/// Starts the tasks that follow changes of access keys and ring keys, and keep the last uses of
/// access keys, until the gateway stops.
fn follow_changes(
    tasks: &TaskTracker,
    backend: &Backend,
    access: &Arc<Access>,
    stop: &CancellationToken,
) {
    let (volume, rings) = (&backend.volume, Arc::clone(&backend.rings));
    tasks.spawn(follow_access(Arc::clone(volume), Arc::clone(access), stop.clone()));
    tasks.spawn(keep_last_uses(Arc::clone(volume), Arc::clone(access), stop.clone()));
    let (changes, stop) = (volume.access_changes(), stop.clone());
    tasks.spawn(async move { rings.follow(changes, stop).await });
}

/// Writes the last uses of access keys until the gateway stops, and then once more.
async fn keep_last_uses(volume: Arc<Volume>, access: Arc<Access>, stop: CancellationToken) {
    access.keep_last_uses(&volume, &stop).await;
}

/// The signals that a gateway handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Installs the handlers of the signals that a gateway handles. Fails if the system refuses
    /// one.
    fn catch() -> Result<Signals, Problem> {
        let catch = |kind| signal(kind).map_err(|error| Problem::new("catch signals", error));
        Ok(Signals {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
            hangup: catch(SignalKind::hangup())?,
        })
    }

    /// Handles signals until the gateway has stopped: see [`Shutdown`]. SIGHUP loads files again:
    /// see [`Reload`]. A timer loads the certificate again if its files have changed.
    async fn handle<S: Service>(
        mut self,
        reload: Arc<Reload>,
        shutdown: Shutdown<S>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) {
        let mut ticks = tokio::time::interval(RELOAD_INTERVAL);
        let mut phase = Phase::Serving;
        loop {
            tokio::select! {
                _ = self.terminate.recv() => phase = shutdown.signalled(phase),
                _ = self.interrupt.recv() => phase = shutdown.signalled(phase),
                () = phase.delay_over() => phase = shutdown.close(),
                () = stop.cancelled() => return,
                _ = self.hangup.recv() => {
                    let reload = Arc::clone(&reload);
                    // A task, because a stalled disk must not delay a signal to stop.
                    tasks.spawn(async move {
                        supervisor::reloading();
                        reload.all().await;
                        supervisor::ready();
                    });
                }
                _ = ticks.tick() => reload.changed(),
            }
        }
    }
}
