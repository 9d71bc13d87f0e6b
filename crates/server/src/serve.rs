//! `ashlar serve`: the parts put together, in order, and taken apart again.
//!
//! Whatever can fail fails before the first request is answered. At the end, nothing new is
//! accepted, what is under way finishes, then the volume ends its session.

mod announce;
mod observe;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::{BlockReader, BlockStore};
use cache::Cache;
use futures::FutureExt;
use gateway::access::{Access, Identity, MasterKey};
use gateway::{Body, Gateway};
use http::{Request, Response};
use store::MetaStore;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volume::{SessionOptions, Volume, VolumeOptions};

use crate::config::{ServeSettings, VolumeSettings};
use crate::edge::{Edge, HostLimits, Hosts, Listener, Seats, Service, bind};
use crate::engines::{self, Blocks, Use};
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::tls::{RELOAD_EVERY, Tls};
use crate::{credentials, metrics_listener};

/// How often access keys and policies are read again although nobody said that they changed.
const ACCESS_EVERY: Duration = Duration::from_secs(30);

/// How soon they are read again after that failed.
const ACCESS_RETRY: Duration = Duration::from_secs(1);

/// The exit status of a gateway that was told twice to stop.
const EXIT_IMPATIENT: i32 = 130;

/// Serves until told to stop.
pub(crate) async fn serve(volume: VolumeSettings, serve: ServeSettings) -> Result<(), Problem> {
    let signals = Signals::catch()?;
    credentials::make_data_dir(&volume.data_dir)?;
    let tls = serve.tls.clone().map(Tls::load).transpose()?;
    let socket = bind(&serve.listen).await?;
    let admin = metrics_listener::socket(&serve.admin_listen).await?;
    let root = credentials::root(&volume.data_dir)?;
    let known = credentials::known_master_key(&volume)?;
    let mut random = [0; 8];
    credentials::random(&mut random)?;
    let random = u64::from_ne_bytes(random);

    let opened = open(&volume, &serve, random).await?;
    let master = match known {
        Some(known) => known,
        None => first_master_key(&volume, &opened).await?,
    };
    let (shared, metrics) = (Arc::clone(&opened.volume), Arc::new(Metrics::new()));
    observe::register(&metrics, &opened);
    let identity = Identity::root(&root.user, root.password.clone());
    let access = Arc::new(Access::new(identity, master));
    refresh(&shared, &access).await.map_err(unreadable)?;

    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    tasks.spawn(keep_fresh(Arc::clone(&shared), Arc::clone(&access), stop.clone()));
    let settings = gateway::Settings {
        region: serve.region.clone(),
        domains: serve.domains.clone(),
        sigv2_presign: serve.sigv2_presign,
        body_patience: Duration::from_secs(serve.body_timeout_seconds),
    };
    let gateway = Gateway::new(Arc::clone(&shared), access, settings);
    let service = S3 { gateway, volume: Arc::clone(&shared), well: AtomicBool::new(true) };
    let edge = Edge::new(service, Arc::clone(&metrics), count(serve.requests_max), random);
    let edge = Arc::new(edge);
    let listener = Listener {
        tls: tls.clone(),
        edge: Arc::clone(&edge),
        seats: Seats::new(count(serve.connections_max)),
        hosts: Hosts::new(host_limits(&serve)),
        metrics: Arc::clone(&metrics),
        patience: Duration::from_secs(serve.body_timeout_seconds),
    };
    announce::say(&volume, &serve, &root, &socket, admin.as_ref());
    if let Some(socket) = admin {
        let status = observe::status(&volume, &opened);
        let hosts = metrics_listener::Hosts::new(&serve.admin_listen, &serve.admin_hosts);
        let (tasks_of, stop_of) = (tasks.clone(), stop.clone());
        tasks.spawn(metrics_listener::serve(socket, hosts, metrics, status, tasks_of, stop_of));
    }
    let drain = Duration::from_secs(serve.drain_timeout_seconds);
    let accepting = stop.child_token();
    tasks.spawn(stop_when_lost(Arc::clone(&shared), Arc::clone(&edge), accepting.clone()));
    tasks.spawn(signals.obey(tls, edge, accepting.clone(), stop.clone()));
    if !listener.serve(socket, accepting, drain).await {
        tracing::warn!(seconds = drain.as_secs(), "stopping although requests are under way");
    }
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    let lost = shared.lost().now_or_never().is_some();
    opened.close().await;
    tracing::info!("stopped");
    if lost {
        let wrong = "its session was ended: it did not show for too long that it lives, or the \
                     metadata store forgot something";
        return Err(Problem::new("go on serving", wrong).remedy("start it again"));
    }
    Ok(())
}

/// What one host may take up.
fn host_limits(serve: &ServeSettings) -> HostLimits {
    HostLimits {
        connections_max: count(serve.host_connections_max),
        requests_max: count(serve.host_requests_max),
        proxies: serve.trusted_proxies.clone(),
    }
}

/// Stops a gateway whose session was ended by another one: it can acknowledge nothing any more,
/// and a fresh process can.
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

/// What stands behind a gateway.
#[derive(Debug)]
struct Opened {
    volume: Arc<Volume>,
    meta: Arc<dyn MetaStore>,
    blocks: Blocks,
    cache: Option<Arc<Cache<Arc<dyn BlockStore>>>>,
}

impl Opened {
    /// Ends the session in good order.
    async fn close(&self) {
        self.volume.close().await;
        self.meta.close().await;
        if let Some(cache) = &self.cache {
            cache.close().await;
        }
    }
}

async fn open(
    settings: &VolumeSettings,
    serve: &ServeSettings,
    seed: u64,
) -> Result<Opened, Problem> {
    let meta = engines::meta(settings, Use::Serve).await?;
    let blocks = engines::blocks(&settings.blocks, seed).await?;
    let cache = engines::cache(settings, serve, &blocks).await?;
    let budget = serve.memory_budget.0;
    let session = SessionOptions {
        record_cache_bytes: serve.record_cache_bytes.0,
        authoritative_reads: serve.authoritative_reads,
        sole: engines::serves_one(&settings.meta),
        commits_in_flight: engines::commits_in_flight(&settings.meta),
        reads_in_flight: engines::reads_in_flight(&settings.meta),
        place: place(),
        ..SessionOptions::default()
    };
    let options = VolumeOptions {
        session,
        block_bytes: u32::try_from(serve.block_bytes.0).unwrap_or(u32::MAX),
        write_budget_bytes: budget / 2,
        read_budget_bytes: budget / 2,
        staged_inline_bytes_max: serve.staged_inline_bytes.0,
        deletion_grace: settings.deletion_grace.said(),
        reader: cache.clone().map(|cache| cache as Arc<dyn BlockReader>),
        ..VolumeOptions::default()
    };
    let opened = Volume::open(options, Arc::clone(&meta), Arc::clone(&blocks.store)).await;
    let volume = opened
        .map_err(|error| Problem::new(format!("open the volume in {}", settings.meta), error))?;
    Ok(Opened { volume, meta, blocks, cache })
}

/// The master key of a volume that has none yet; if there cannot be one, the session ends.
async fn first_master_key(
    settings: &VolumeSettings,
    opened: &Opened,
) -> Result<MasterKey, Problem> {
    let users = opened.volume.users().await.map_err(unreadable);
    let made = users.and_then(|users| credentials::fresh_master_key(settings, !users.is_empty()));
    if made.is_err() {
        opened.close().await;
    }
    made
}

fn unreadable(error: volume::VolumeError) -> Problem {
    Problem::new("read access keys", error)
}

/// Where this process runs, for people who see its session.
pub(crate) fn place() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

fn count(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX).min(tokio::sync::Semaphore::MAX_PERMITS)
}

async fn refresh(volume: &Volume, access: &Access) -> Result<(), volume::VolumeError> {
    let (users, policies) = (volume.users().await?, volume.policies().await?);
    for unusable in access.replace(users, policies) {
        tracing::warn!(%unusable, "grants nothing");
    }
    Ok(())
}

/// Reads access keys again when they may have changed, and now and then all the same. While that
/// fails, those known stay in force.
async fn keep_fresh(volume: Arc<Volume>, access: Arc<Access>, stop: CancellationToken) {
    let mut changes = volume.access_changes();
    let mut failing = false;
    loop {
        let wait = if failing { ACCESS_RETRY } else { ACCESS_EVERY };
        tokio::select! {
            _ = changes.changed() => {}
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => return,
        }
        match refresh(&volume, &access).await {
            Ok(()) => failing = false,
            Err(_) if failing => {}
            Err(error) => {
                tracing::warn!(%error, "cannot read access keys; those known stay in force");
                failing = true;
            }
        }
    }
}

/// The gateway, as the edge sees it.
#[derive(Debug)]
struct S3 {
    gateway: Arc<Gateway>,
    volume: Arc<Volume>,
    /// What was last found, so that a change is logged and a state is not.
    well: AtomicBool,
}

impl Service for S3 {
    async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let (mut response, trips) = volume::measured(self.gateway.handle(request)).await;
        response.extensions_mut().insert(trips);
        response
    }

    async fn ready(&self) -> bool {
        let health = self.volume.check().await;
        let ready = health.is_ready();
        if self.well.swap(ready, Ordering::Relaxed) != ready {
            if ready {
                tracing::info!("ready again");
            } else {
                tracing::warn!(?health, "not ready");
            }
        }
        ready
    }
}

/// The signals that a gateway obeys.
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

    /// Until all has stopped: the first request to stop is obeyed in good order, the second at
    /// once. In between the certificate is kept fresh.
    async fn obey<S: Service>(
        mut self,
        tls: Option<Tls>,
        edge: Arc<Edge<S>>,
        accepting: CancellationToken,
        stop: CancellationToken,
    ) {
        let mut ticks = tokio::time::interval(RELOAD_EVERY);
        loop {
            let always = tokio::select! {
                _ = self.terminate.recv() => { told(&*edge, &accepting); continue }
                _ = self.interrupt.recv() => { told(&*edge, &accepting); continue }
                () = stop.cancelled() => return,
                _ = self.hangup.recv() => true,
                _ = ticks.tick() => false,
            };
            match tls.as_ref().map(|tls| tls.reload(always)) {
                Some(Ok(true)) => tracing::info!("the TLS certificate was read again"),
                Some(Err(problem)) => {
                    tracing::warn!(%problem, "the TLS certificate in use stays in use");
                }
                Some(Ok(false)) | None => {}
            }
        }
    }
}

fn told<S: Service>(edge: &Edge<S>, accepting: &CancellationToken) {
    if accepting.is_cancelled() {
        tracing::warn!("told twice to stop: stopping at once");
        std::process::exit(EXIT_IMPATIENT);
    }
    tracing::info!("told to stop: finishing what is under way");
    edge.drain();
    accepting.cancel();
}
