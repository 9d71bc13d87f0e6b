//! Metrics and the status of a process that has a volume open.
//!
//! Each collector reads counters that another crate keeps and encodes them as metrics for
//! Prometheus. Nothing is counted here. `status` makes the JSON of `/status`.
//!
//! Names follow the conventions of Prometheus: `ashlar_<subsystem>_<noun>_<unit>_total`, base
//! units, and one metric for each quantity. A label splits a quantity of which the sum over all
//! values has a meaning. For example, the round trips of reads and of commits share a metric with
//! the label `operation`, but refused plans are a metric of their own, because `sent` plans include
//! them.

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
use volume::{CHECK_DEADLINE, Counters, Health, StoreState, Volume};

use crate::backend::Backend;
use crate::config::VolumeSettings;
use crate::engines;
use crate::metrics::{Metrics, gauge, sentence};
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

/// Registers the counters of the gateway's lifecycle passes.
pub(crate) fn register_lifecycles(metrics: &Metrics, gateway: &Arc<Gateway>) {
    metrics.collect_from(LifecycleCollector(Arc::clone(gateway)));
}

/// Metrics of lifecycle rules.
#[derive(Debug)]
struct LifecycleCollector(Arc<Gateway>);

impl Collector for LifecycleCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let seen = self.0.lifecycle_counters();
        let removals = [
            ("object", seen.expired),
            ("noncurrent_version", seen.noncurrent),
            ("delete_marker", seen.markers),
            ("upload", seen.uploads),
            ("trash_item", seen.trash),
        ];
        let help = "Objects, versions, delete markers, uploads and trash items that lifecycle rules removed";
        family(&mut encoder, "ashlar_lifecycle_removals", help, "kind", &removals)?;
        counters(
            &mut encoder,
            &[
                ("ashlar_lifecycle_pages", "Listing pages that lifecycle passes read", seen.pages),
                (
                    "ashlar_lifecycle_passes",
                    "Lifecycle passes over a bucket that ended",
                    seen.passes,
                ),
                (
                    "ashlar_lifecycle_failures",
                    "Steps of lifecycle passes that failed",
                    seen.failures,
                ),
            ],
        )
    }
}

/// Metrics of the cache of blocks.
#[derive(Debug)]
struct CacheCollector(Arc<Cache<Arc<dyn BlockStore>>>);

impl Collector for CacheCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let seen: CacheCounters = self.0.counters();
        let lookups = [
            ("memory_hit", seen.memory_hits),
            ("disk_hit", seen.disk_hits),
            ("miss", seen.misses),
            ("joined", seen.joined),
        ];
        let help = "Lookups of 64 KiB pages in the block cache. A joined lookup waited for a fetch that \
                    another reader had started";
        family(&mut encoder, "ashlar_cache_page_lookups", help, "result", &lookups)?;
        let insertions = [("read", seen.admitted), ("write", seen.remembered)];
        let help = "Pages that reads and writes put into the memory of the block cache";
        family(&mut encoder, "ashlar_cache_page_insertions", help, "source", &insertions)?;
        counters(
            &mut encoder,
            &[
                (
                    "ashlar_cache_page_evictions",
                    "Pages evicted from the memory of the block cache to make room",
                    seen.evicted,
                ),
                (
                    "ashlar_cache_page_invalidations",
                    "Pages removed from the memory of the block cache because their block was deleted",
                    seen.forgotten,
                ),
                (
                    "ashlar_cache_disk_dropped_pages",
                    "Pages not written to the cache disk because it was too slow",
                    seen.disk_dropped,
                ),
                (
                    "ashlar_cache_disk_corrupt_pages",
                    "Pages that the cache disk returned damaged, or lost although its index lists them",
                    seen.corrupt,
                ),
                (
                    "ashlar_cache_disk_errors",
                    "Lookups on the cache disk that failed",
                    seen.disk_errors,
                ),
                (
                    "ashlar_cache_disk_timeouts",
                    "Lookups on the cache disk that did not end in time",
                    seen.disk_late,
                ),
                (
                    "ashlar_cache_fetched_bytes",
                    "Bytes fetched from the block store into the block cache",
                    seen.fetched_bytes,
                ),
                (
                    "ashlar_cache_disk_written_bytes",
                    "Bytes written to the cache disk",
                    seen.disk_written_bytes,
                ),
            ],
        )?;
        let help = "Memory that the block cache uses, with 256 bytes of overhead for each page";
        gauge(&mut encoder, "ashlar_cache_memory_bytes", help, level(seen.memory_bytes))?;
        let help = "1 if the block cache uses a disk, else 0";
        gauge(&mut encoder, "ashlar_cache_disk_enabled", help, level(seen.disk.into()))
    }
}

/// The durability of the metadata store, as a metric.
#[derive(Debug)]
struct DurabilityCollector(Arc<dyn MetaStore>);

impl Collector for DurabilityCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let strict = self.0.durability() == Durability::Strict;
        let help = "1 if acknowledged commits survive a crash of the metadata store, else 0";
        // Read at each scrape, because the settings of a database server can change.
        gauge(&mut encoder, "ashlar_metadata_durability_strict", help, strict.into())
    }
}

/// Metrics of the volume and of its block store.
struct VolumeCollector {
    volume: Arc<Volume>,
    /// Returns the counters of the block store, and the number of repeated requests.
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
        metadata(&mut encoder, &seen)?;
        deletions(&mut encoder, &seen)?;
        moves(&mut encoder, &seen)?;
        let (blocks, retries) = (self.blocks)();
        block_store(&mut encoder, &blocks, retries)
    }
}

/// Encodes the counters of the traffic with the metadata store, such as its round trips, plans and
/// refusals.
fn metadata(encoder: &mut DescriptorEncoder<'_>, seen: &Counters) -> Result<(), fmt::Error> {
    // Reads and commits are one metric, because their sum is the load on the metadata store.
    let trips = [("read", seen.meta_reads), ("commit", seen.meta_commits)];
    let help = "Round trips to the metadata store";
    family(encoder, "ashlar_metadata_round_trips", help, "operation", &trips)?;
    counters(
        encoder,
        &[
            (
                "ashlar_metadata_cached_reads",
                "Metadata reads that the record cache answered without a round trip, because the \
                 session was the only one",
                seen.reads_from_cache,
            ),
            ("ashlar_metadata_plans", "Plans sent to the metadata store", seen.plans),
            (
                "ashlar_metadata_plans_refused",
                "Plans that a guard refused. Most of them were planned again",
                seen.refused,
            ),
            (
                "ashlar_metadata_plans_in_doubt",
                "Plans whose outcome was unknown at first",
                seen.in_doubt,
            ),
            (
                "ashlar_metadata_plans_unresolved",
                "Plans whose outcome was still unknown when the caller got its answer",
                seen.unresolved,
            ),
            (
                "ashlar_metadata_feed_invalidations",
                "Cached records that the change feed invalidated",
                seen.feed_invalidations,
            ),
            (
                "ashlar_metadata_feed_gaps",
                "Times that the change feed had lost entries, so the whole record cache was dropped",
                seen.feed_gaps,
            ),
        ],
    )
}

/// Encodes the deletions of files and blocks, and the reads that delay them.
fn deletions(encoder: &mut DescriptorEncoder<'_>, seen: &Counters) -> Result<(), fmt::Error> {
    counters(
        encoder,
        &[
            (
                "ashlar_reaper_deleted_files",
                "Deleted files and parts whose records the reaper removed",
                seen.files_reaped,
            ),
            ("ashlar_reaper_deleted_blocks", "Blocks that the reaper deleted", seen.blocks_reaped),
            (
                "ashlar_reaper_deleted_bytes",
                "Content bytes of the blocks that the reaper deleted",
                seen.bytes_reaped,
            ),
            (
                "ashlar_reaper_damaged_records",
                "Deleted files, parts and uploads that the reaper keeps because a record is damaged",
                seen.damaged_kept,
            ),
            (
                "ashlar_sweeper_deleted_blocks",
                "Blocks without a reference that the sweeper deleted",
                seen.blocks_swept,
            ),
            (
                "ashlar_staging_abandoned_blocks",
                "Staged blocks that were deleted because no commit published them",
                seen.blocks_abandoned,
            ),
        ],
    )?;
    let help = "Files whose deletion waits for long reads";
    gauge(encoder, "ashlar_reaper_held_files", help, level(seen.holds))?;
    let help = "Age of the oldest read that delays all deletions of the volume, 0 if none does";
    gauge(encoder, "ashlar_reaper_oldest_pin_seconds", help, level(seen.oldest_pin.as_secs()))
}

/// Encodes the content that tasks in the background moved, and the panics of such tasks.
fn moves(encoder: &mut DescriptorEncoder<'_>, seen: &Counters) -> Result<(), fmt::Error> {
    counters(
        encoder,
        &[
            (
                "ashlar_repacker_rewritten_packs",
                "Packs that the repacker rewrote because most of their bytes were dead",
                seen.packs_rewritten,
            ),
            (
                "ashlar_repacker_skipped_packs",
                "Packs with mostly dead bytes that the repacker could not rewrite, once for each attempt",
                seen.packs_not_rewritten,
            ),
            (
                "ashlar_repacker_moved_bytes",
                "Content bytes that the repacker moved to new packs",
                seen.bytes_repacked,
            ),
            (
                "ashlar_compactor_compacted_files",
                "Files that the compactor moved out of mostly overwritten blocks",
                seen.files_compacted,
            ),
            (
                "ashlar_compactor_moved_bytes",
                "Content bytes that the compactor moved to new blocks",
                seen.bytes_compacted,
            ),
            (
                "ashlar_compactor_conflicts",
                "Plans of the compactor that were refused because the file had changed",
                seen.compactions_refused,
            ),
            (
                "ashlar_destager_moved_bodies",
                "Bodies that the destager moved from the metadata store into blocks",
                seen.bodies_destaged,
            ),
            (
                "ashlar_destager_moved_bytes",
                "Bytes that the destager moved from the metadata store into blocks",
                seen.bytes_destaged,
            ),
            ("ashlar_volume_task_panics", "Background tasks that ended in a panic", seen.panics),
        ],
    )
}

/// Encodes the requests to the block store.
fn block_store(
    encoder: &mut DescriptorEncoder<'_>,
    blocks: &BlockCounters,
    retries: u64,
) -> Result<(), fmt::Error> {
    let operations = [
        ("put", blocks.put),
        ("get", blocks.get),
        ("size", blocks.size),
        ("delete", blocks.delete),
        ("sessions", blocks.sessions),
        ("list", blocks.list),
        ("probe", blocks.probe),
    ];
    let requests = operations.map(|(name, count)| (name, count.requests));
    let help = "Requests to the block store";
    family(encoder, "ashlar_blocks_requests", help, "operation", &requests)?;
    let failures = operations.map(|(name, count)| (name, count.failures));
    let help = "Requests to the block store that failed";
    family(encoder, "ashlar_blocks_request_failures", help, "operation", &failures)?;
    let bytes = operations.map(|(name, count)| (name, count.bytes));
    let help = "Bytes sent to and received from the block store";
    family(encoder, "ashlar_blocks_bytes", help, "operation", &bytes)?;
    let help = "Requests to the block store that were repeated after a failure";
    counters(encoder, &[("ashlar_blocks_retries", help, retries)])
}

/// Returns a number as the value of a gauge. Numbers above `i64::MAX` become `i64::MAX`.
fn level(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Encodes counters without labels: for each, its name without `_total`, its help text and its
/// value.
fn counters(
    encoder: &mut DescriptorEncoder<'_>,
    all: &[(&str, &str, u64)],
) -> Result<(), fmt::Error> {
    for (name, help, value) in all {
        let counter = ConstCounter::new(*value);
        let help = sentence(help);
        counter.encode(encoder.encode_descriptor(name, &help, None, MetricType::Counter)?)?;
    }
    Ok(())
}

/// Encodes a counter with one label, and a value for each value of the label.
fn family(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: &[(&str, u64)],
) -> Result<(), fmt::Error> {
    let help = sentence(help);
    let mut metric = encoder.encode_descriptor(name, &help, None, MetricType::Counter)?;
    for (label_value, value) in values {
        ConstCounter::new(*value).encode(metric.encode_family(&[(label, *label_value)])?)?;
    }
    Ok(())
}

/// Returns the function that makes the JSON of `/status`.
///
/// Each call checks both stores and reads the sessions and buckets. If the metadata store does not
/// respond within `CHECK_DEADLINE`, those two are `null`.
pub(super) fn status(settings: &VolumeSettings, backend: &Backend) -> StatusOf {
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
                "version": env!("CARGO_PKG_VERSION"),
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
                    "meta_reads": counters.meta_reads,
                    "meta_commits": counters.meta_commits,
                    "cached_reads": counters.reads_from_cache,
                    "plans": counters.plans,
                    "plans_refused": counters.refused,
                    "block_puts": counters.block_puts,
                    "block_gets": counters.block_gets,
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
    let shown = |OpenSession { nonce, place, began }: OpenSession| {
        let since = Duration::from_nanos(u64::try_from(began.0).unwrap_or_default());
        let began = humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string();
        json!({ "session": nonce.to_string(), "place": place, "began": began })
    };
    Some(status.sessions.into_iter().map(shown).collect())
}
