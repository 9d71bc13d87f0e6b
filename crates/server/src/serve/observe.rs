//! What operators see of a gateway: its counters as metrics, its state as JSON.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use admin::{Admin, BucketUsage, OpenSession};
use block::{BlockCounters, BlockStore};
use cache::{Cache, CacheCounters};
use futures::FutureExt;
use gateway::Gateway;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use record::Quota;
use serde_json::json;
use store::{Durability, MetaStore};
use tokio::time::Instant;
use volume::{CHECK_DEADLINE, Health, StoreState, Volume};

use crate::backend::Backend;
use crate::config::VolumeSettings;
use crate::engines;
use crate::metrics::{Metrics, gauge};
use crate::metrics_listener::StatusOf;
use crate::operator;

/// Registers the counters of the volume, the block store and the cache.
pub(crate) fn register(metrics: &Metrics, backend: &Backend) {
    let counters = Arc::clone(&backend.blocks.counters);
    metrics.collect_from(VolumeCollector { volume: Arc::clone(&backend.volume), blocks: counters });
    metrics.collect_from(DurabilityCollector(Arc::clone(&backend.meta)));
    if let Some(cache) = &backend.cache {
        metrics.collect_from(CacheCollector(Arc::clone(cache)));
    }
}

/// Registers what a gateway does by lifecycle rules.
pub(crate) fn register_lifecycles(metrics: &Metrics, gateway: &Arc<Gateway>) {
    metrics.collect_from(LifecycleCollector(Arc::clone(gateway)));
}

/// Metrics of lifecycle rules.
#[derive(Debug)]
struct LifecycleCollector(Arc<Gateway>);

impl Collector for LifecycleCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let seen = self.0.lifecycle_counters();
        let ended = [
            ("object", seen.expired),
            ("noncurrent", seen.noncurrent),
            ("marker", seen.markers),
            ("upload", seen.uploads),
            ("trash", seen.trash),
        ];
        let what = "Objects, versions, delete markers and uploads that lifecycle rules ended";
        family(&mut encoder, "ashlar_lifecycle_ended", what, "what", &ended)?;
        let passes = [("page", seen.pages), ("done", seen.passes), ("failure", seen.failures)];
        let what =
            "Pages and passes over buckets by their lifecycle rules, and what failed in them";
        family(&mut encoder, "ashlar_lifecycle_passes", what, "what", &passes)
    }
}

/// Metrics of the cache of blocks.
#[derive(Debug)]
struct CacheCollector(Arc<Cache<Arc<dyn BlockStore>>>);

impl Collector for CacheCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let seen: CacheCounters = self.0.counters();
        let pages = [
            ("memory_hit", seen.memory_hits),
            ("disk_hit", seen.disk_hits),
            ("miss", seen.misses),
            ("joined", seen.joined),
            ("admitted", seen.admitted),
            ("remembered", seen.remembered),
            ("evicted", seen.evicted),
            ("forgotten", seen.forgotten),
            ("disk_dropped", seen.disk_dropped),
            ("corrupt", seen.corrupt),
            ("disk_error", seen.disk_errors),
            ("disk_late", seen.disk_late),
        ];
        let what = "Pages of 64 KiB in the cache of blocks, by what happened to them";
        family(&mut encoder, "ashlar_cache_pages", what, "what", &pages)?;
        let bytes = [("fetched", seen.fetched_bytes), ("disk_written", seen.disk_written_bytes)];
        let what = "Bytes from the block store to the cache, and from there to its disk";
        family(&mut encoder, "ashlar_cache_bytes", what, "what", &bytes)?;
        let level = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let what = "Memory that the cache of blocks uses now";
        gauge(&mut encoder, "ashlar_cache_memory_bytes", what, level(seen.memory_bytes))?;
        let what = "Whether the cache of blocks has a disk";
        gauge(&mut encoder, "ashlar_cache_disk", what, level(seen.disk.into()))
    }
}

/// Whether the metadata store keeps everything that it acknowledges.
#[derive(Debug)]
struct DurabilityCollector(Arc<dyn MetaStore>);

impl Collector for DurabilityCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let strict = self.0.durability() == Durability::Strict;
        let what = "Whether a crash of the metadata store loses nothing that was acknowledged";
        gauge(&mut encoder, "ashlar_store_strict", what, strict.into())
    }
}

/// Metrics of the volume and of its block store.
struct VolumeCollector {
    volume: Arc<Volume>,
    blocks: Arc<dyn Fn() -> (BlockCounters, u64) + Send + Sync>,
}

impl fmt::Debug for VolumeCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeCollector")
    }
}

impl Collector for VolumeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let seen = self.volume.counters();
        let trips = [("read", seen.meta_reads), ("commit", seen.meta_commits)];
        let what = "Round trips to the metadata store";
        family(&mut encoder, "ashlar_store_round_trips", what, "verb", &trips)?;
        let what = "Reads of metadata that needed no round trip: the gateway is the only one";
        let remembered = [("answered", seen.reads_from_cache)];
        family(&mut encoder, "ashlar_volume_record_cache", what, "what", &remembered)?;
        let plans = [
            ("sent", seen.plans),
            ("refused", seen.refused),
            ("in_doubt", seen.in_doubt),
            ("unresolved", seen.unresolved),
        ];
        family(&mut encoder, "ashlar_volume_plans", "Plans, by fate", "fate", &plans)?;
        let feed = [("told", seen.feed_invalidations), ("missed", seen.feed_gaps)];
        let what = "Remembered records that others changed, and how often some were missed";
        family(&mut encoder, "ashlar_volume_feed", what, "what", &feed)?;
        let reclaimed = [
            ("files_reaped", seen.files_reaped),
            ("blocks_reaped", seen.blocks_reaped),
            ("bytes_reaped", seen.bytes_reaped),
            ("blocks_swept", seen.blocks_swept),
            ("damaged_kept", seen.damaged_kept),
            ("blocks_abandoned", seen.blocks_abandoned),
            ("packs_rewritten", seen.packs_rewritten),
            ("packs_left", seen.packs_not_rewritten),
            ("bytes_repacked", seen.bytes_repacked),
            ("files_compacted", seen.files_compacted),
            ("bytes_compacted", seen.bytes_compacted),
            ("compactions_refused", seen.compactions_refused),
            ("bodies_destaged", seen.bodies_destaged),
            ("bytes_destaged", seen.bytes_destaged),
        ];
        let what = "What was deleted or moved behind the scenes";
        family(&mut encoder, "ashlar_volume_reclaimed", what, "what", &reclaimed)?;
        let level = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let what = "Files kept from being deleted for readers that last";
        gauge(&mut encoder, "ashlar_volume_holds", what, level(seen.holds))?;
        let what = "For how long readers have held back every deletion of the volume";
        gauge(
            &mut encoder,
            "ashlar_volume_oldest_pin_seconds",
            what,
            level(seen.oldest_pin.as_secs()),
        )?;
        let panics = [("task", seen.panics)];
        family(&mut encoder, "ashlar_volume_panics", "Tasks that panicked", "what", &panics)?;

        let (blocks, retries) = (self.blocks)();
        let verbs = [
            ("put", blocks.put),
            ("get", blocks.get),
            ("size", blocks.size),
            ("delete", blocks.delete),
            ("sessions", blocks.sessions),
            ("list", blocks.list),
            ("probe", blocks.probe),
        ];
        let requests = verbs.map(|(verb, count)| (verb, count.requests));
        let what = "Requests to the block store";
        family(&mut encoder, "ashlar_blocks_requests", what, "verb", &requests)?;
        let failures = verbs.map(|(verb, count)| (verb, count.failures));
        let what = "Requests to the block store that failed";
        family(&mut encoder, "ashlar_blocks_failures", what, "verb", &failures)?;
        let bytes = verbs.map(|(verb, count)| (verb, count.bytes));
        let what = "Bytes to and from the block store";
        family(&mut encoder, "ashlar_blocks_bytes", what, "verb", &bytes)?;
        let what = "Requests to the block store that were repeated";
        family(&mut encoder, "ashlar_blocks_retries", what, "why", &[("failed", retries)])
    }
}

fn family(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    what: &str,
    label: &str,
    values: &[(&str, u64)],
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, what, None, MetricType::Counter)?;
    for (of, value) in values {
        ConstCounter::new(*value).encode(metric.encode_family(&[(label, *of)])?)?;
    }
    Ok(())
}

/// The detailed status.
pub(super) fn status(settings: &VolumeSettings, backend: &Backend) -> StatusOf {
    let (volume, place) = (Arc::clone(&backend.volume), Arc::clone(&backend.blocks.store));
    let (meta, blocks) = (settings.meta.to_string(), settings.blocks.to_string());
    let store = Arc::clone(&backend.meta);
    let admin = operator::over(Arc::clone(&store));
    let began = Instant::now();
    Arc::new(move || {
        let (volume, meta, blocks) = (Arc::clone(&volume), meta.clone(), blocks.clone());
        let (store, place, admin) = (Arc::clone(&store), Arc::clone(&place), admin.clone());
        let up = began.elapsed().as_secs();
        async move {
            let (health, sessions, buckets) =
                futures::join!(volume.check(), sessions(&admin), buckets(&admin));
            let Health { store: store_health, blocks: block_health, session } = health;
            let ok = || "ok".to_owned();
            let state = |state: StoreState| match state {
                StoreState::Well => ok(),
                StoreState::Full(why) | StoreState::Failing(why) => why,
            };
            let (record, counters) = (volume.record(), volume.counters());
            // Read after the check, which may have found that the store's settings have changed.
            let durability = engines::durability(&*store);
            json!({
                "version": env!("CARGO_PKG_VERSION"),
                "uptime_seconds": up,
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
                    "meta_reads": counters.meta_reads,
                    "meta_commits": counters.meta_commits,
                    "reads_remembered": counters.reads_from_cache,
                    "plans": counters.plans,
                    "refused": counters.refused,
                    "block_puts": counters.block_puts,
                    "block_gets": counters.block_gets,
                },
            })
        }
        .boxed()
    })
}

/// What each bucket holds, and may hold if it has a quota, by their names; `None` while the metadata
/// store does not respond.
async fn buckets(admin: &Admin) -> Option<serde_json::Value> {
    let buckets = tokio::time::timeout(CHECK_DEADLINE, admin.buckets()).await.ok()?.ok()?;
    let shown = |used: BucketUsage| {
        let name = String::from_utf8_lossy(&used.bucket.name).into_owned();
        let Quota { bytes, objects } = used.bucket.quota;
        let mut told = json!({ "objects": used.objects, "bytes": used.bytes });
        if used.bucket.quota != Quota::NONE {
            told["quota"] = json!({ "objects": objects, "bytes": bytes });
        }
        (name, told)
    };
    Some(buckets.into_iter().map(shown).collect())
}

/// The sessions that have the volume open; `None` while the metadata store does not respond.
async fn sessions(admin: &Admin) -> Option<Vec<serde_json::Value>> {
    let status = tokio::time::timeout(CHECK_DEADLINE, admin.status()).await.ok()?.ok()?;
    let shown = |OpenSession { nonce, place, began }: OpenSession| {
        let since = Duration::from_nanos(u64::try_from(began.0).unwrap_or_default());
        let began = humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string();
        json!({ "session": nonce.to_string(), "place": place, "began": began })
    };
    Some(status.sessions.into_iter().map(shown).collect())
}
