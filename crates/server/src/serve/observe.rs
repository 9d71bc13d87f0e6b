//! Metrics and the status of a process that has a volume open.
//!
//! The owners of counters name their metrics (`runtime::counters!`), and `register` names the
//! owners. This module counts nothing. `status` makes the JSON of `/status`.
//!
//! Names follow the conventions of Prometheus: `ashlar_<subsystem>_<noun>_<unit>_total`, base
//! units, and one metric for each quantity. A label splits a quantity of which the sum over all
//! values has a meaning. For example, the round trips of reads and of commits share a metric with
//! the label `operation`, but refused plans are a metric of their own, because `sent` plans include
//! them.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use admin::{Admin, BucketUsage, OpenSession};
use edge::{Edge, Service};
use futures::FutureExt;
use record::Quota;
use runtime::Metric;
use serde_json::json;
use store::Durability;
use tokio::time::Instant;
use volume::{CHECK_DEADLINE, Health, StoreState};

use crate::backend::Backend;
use crate::bucket_metrics::BucketMetrics;
use crate::config::VolumeSettings;
use crate::engines;
use crate::metrics::Metrics;
use crate::metrics_listener::{Pages, StatusOf};
use crate::operator;

/// Registers the metrics of the volume, its upkeep, its stores, the cache, and the usage of the
/// first `buckets_max` buckets. As many buckets have a label of their own in metrics of requests.
pub(crate) fn register(metrics: &Metrics, backend: &Backend, buckets_max: u32) {
    let admin = operator::over(Arc::clone(&backend.meta));
    metrics.edge.set_buckets_max(usize::try_from(buckets_max).unwrap_or(usize::MAX));
    metrics.show_buckets(BucketMetrics::new(admin, buckets_max));
    metrics.collect_from(Arc::new(backend.volume.clone()));
    metrics.collect_from(Arc::clone(&backend.blocks.meters));
    let help = "Latency of calls to the metadata store, by operation";
    metrics.register("metadata_call_seconds", help, backend.meta_latencies.family());
    let help = "Latency of calls to the block store, by operation; each attempt of a retry counts";
    metrics.register("blocks_call_seconds", help, backend.blocks.latencies.family());
    let meta = Arc::clone(&backend.meta);
    metrics.collect_from(Arc::new(move |visit: &mut dyn FnMut(Metric)| {
        let name = "ashlar_metadata_durability_strict";
        let help = "1 if acknowledged commits survive a crash of the metadata store, else 0.";
        // Read at each scrape, because the settings of a database server can change.
        let strict = meta.durability() == Durability::Strict;
        visit(Metric::gauge(name, help, strict.into()));
    }));
    if let Some(cache) = &backend.cache {
        metrics.collect_from(Arc::clone(cache));
    }
}

/// Registers the metric of the requests that wait in the queue of an edge.
pub(super) fn queue<S: Service>(metrics: &Metrics, edge: &Arc<Edge<S>>) {
    // Weak, because the edge has the metrics.
    let edge = Arc::downgrade(edge);
    metrics.collect_from(Arc::new(move |visit: &mut dyn FnMut(Metric)| {
        let Some(edge) = edge.upgrade() else { return };
        let name = "ashlar_s3_requests_queued";
        let help = "Requests that wait until they may be in flight: see --requests-max.";
        visit(Metric::gauge(name, help, edge.waiting()));
    }));
}

/// A function that returns true after the signal to stop.
pub(crate) type IsStopping = Arc<dyn Fn() -> bool + Send + Sync>;

/// Returns the function that returns true when the edge of a gateway fails its readiness check
/// because the gateway stops. A dropped edge serves nothing any more.
pub(super) fn is_stopping<S: Service>(edge: &Arc<Edge<S>>) -> IsStopping {
    // Weak, because the pages can outlive the edge.
    let edge = Arc::downgrade(edge);
    Arc::new(move || edge.upgrade().is_none_or(|edge| edge.is_draining()))
}

/// Returns the sources of the pages for operators. The readiness check fails if `is_stopping`
/// returns true, or if a store or the session does not answer.
pub(crate) fn pages(
    metrics: Arc<Metrics>,
    settings: &VolumeSettings,
    backend: &Backend,
    is_stopping: IsStopping,
) -> Pages {
    let volume = Arc::clone(&backend.volume);
    let ready = Arc::new(move || {
        let (volume, is_stopping) = (Arc::clone(&volume), Arc::clone(&is_stopping));
        // Asked after the check, too, which can take seconds.
        async move { !is_stopping() && volume.check().await.is_ready() && !is_stopping() }.boxed()
    });
    Pages { metrics, status: status(settings, backend), ready }
}

/// Returns the function that makes the JSON of `/status`.
///
/// Each call checks both stores and reads the sessions and buckets. If the metadata store does not
/// respond within `CHECK_DEADLINE`, those two are `null`.
fn status(settings: &VolumeSettings, backend: &Backend) -> StatusOf {
    let (volume, place) = (Arc::clone(&backend.volume), Arc::clone(&backend.blocks.store));
    let (meta, blocks) = (settings.meta.to_string(), settings.blocks.to_string());
    let store = Arc::clone(&backend.meta);
    let admin = operator::over(Arc::clone(&store));
    let started = Instant::now();
    Arc::new(move || {
        // The future outlives this call, so it gets clones of its own.
        let (volume, meta, blocks) = (Arc::clone(&volume), meta.clone(), blocks.clone());
        let (store, place, admin) = (Arc::clone(&store), Arc::clone(&place), admin.clone());
        let uptime = started.elapsed().as_secs();
        async move {
            // Concurrently, so that an unreachable store delays the status by one deadline only.
            let (health, sessions, buckets) =
                futures::join!(volume.check(), sessions(&admin), buckets(&admin));
            let Health { store: store_health, blocks: block_health, session } = health;
            let ok = || "ok".to_owned();
            let state = |state: StoreState| match state {
                StoreState::Well => ok(),
                StoreState::Full(why) | StoreState::Failing(why) => why,
            };
            let (record, counters) = (volume.record(), volume.counters());
            // The check may have found that the database's settings have changed, so this comes
            // after it.
            let durability = engines::durability(&*store);
            json!({
                "version": crate::build::VERSION,
                "uptime_seconds": uptime,
                "volume": {
                    "id": hex::encode(record.id),
                    "format": record.format,
                    "generation": record.generation,
                    "block_bytes": record.block_bytes,
                    "session": session.err().unwrap_or_else(ok),
                },
                "sessions": sessions,
                "buckets": buckets,
                "meta": { "place": meta, "state": state(store_health), "durability": durability },
                "blocks": {
                    "place": blocks,
                    "state": state(block_health),
                    "warnings": place.warnings(),
                },
                "counters": {
                    "meta_reads": counters.session.reads,
                    "meta_commits": counters.session.commits,
                    "cached_reads": counters.session.remembered,
                    "plans": counters.session.plans,
                    "plans_refused": counters.session.refused,
                    "block_puts": counters.traffic.puts,
                    "block_gets": counters.traffic.gets,
                },
            })
        }
        .boxed()
    })
}

/// Returns the usage of each bucket by its name, with its quota if it has one. Returns `None` if
/// the metadata store does not respond within `CHECK_DEADLINE`.
async fn buckets(admin: &Admin) -> Option<serde_json::Value> {
    let buckets = tokio::time::timeout(CHECK_DEADLINE, admin.buckets()).await.ok()?.ok()?;
    let shown = |used: BucketUsage| {
        let name = String::from_utf8_lossy(&used.bucket.name).into_owned();
        let Quota { bytes, objects } = used.bucket.quota;
        let mut usage = json!({ "objects": used.objects, "bytes": used.bytes });
        // A bucket without a quota has no field, instead of limits that are null.
        if used.bucket.quota != Quota::NONE {
            usage["quota"] = json!({ "objects": objects, "bytes": bytes });
        }
        (name, usage)
    };
    Some(buckets.into_iter().map(shown).collect())
}

/// Returns the sessions that have the volume open, or `None` if the metadata store does not respond
/// within `CHECK_DEADLINE`.
async fn sessions(admin: &Admin) -> Option<Vec<serde_json::Value>> {
    let status = tokio::time::timeout(CHECK_DEADLINE, admin.status()).await.ok()?.ok()?;
    let shown = |OpenSession { nonce, place, began, reads, reach, facts }: OpenSession| {
        let since = Duration::from_nanos(u64::try_from(began.0).unwrap_or_default());
        let began = humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string();
        json!({
            "session": nonce.to_string(),
            "place": place,
            "began": began,
            "reads_from_memory": reads,
            "reach": reach,
            "kind": facts.kind.name(),
            "version": facts.version,
            "folder": facts.folder,
        })
    };
    Some(status.sessions.into_iter().map(shown).collect())
}
