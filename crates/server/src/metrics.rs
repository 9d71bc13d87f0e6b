//! Metrics of the process, in the text format `OpenMetrics`, which Prometheus reads.
//!
//! The HTTP edge counts connections and requests in [`EdgeMetrics`]; [`Metrics::collect_from`] adds
//! the owners of other metrics. For example, `observe` adds the volume.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use edge::EdgeMetrics;
use mountd::MountMeters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use runtime::{Metered, Metric, MetricKind};

use crate::bucket_metrics::BucketMetrics;
use crate::build;
use crate::mount_metrics::MountMetrics;

mod exposition;

/// All metrics of the process: those of the edge, and the registered collectors.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    /// The metrics of connections and requests.
    pub(crate) edge: Arc<EdgeMetrics>,
    /// The usage of buckets; empty if it is not shown.
    buckets: OnceLock<BucketMetrics>,
}

impl Metrics {
    /// Returns new metrics, whose values are 0.
    pub(crate) fn new() -> Metrics {
        let (mut registry, edge) = (Registry::default(), Arc::new(EdgeMetrics::new()));
        let prefixed = registry.sub_registry_with_prefix("ashlar");
        edge.register(prefixed);
        registry.register_collector(Box::new(Process));
        Metrics { registry: Mutex::new(registry), edge, buckets: OnceLock::new() }
    }

    /// Adds an owner of metrics, which are read at each scrape.
    pub(crate) fn collect_from<O: Metered + ?Sized + 'static>(&self, owner: Arc<O>) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(OwnerCollector(owner)));
    }

    /// Adds the metrics of a mount.
    pub(crate) fn show_mount(&self, meters: MountMeters) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(MountMetrics(meters)));
    }

    /// Adds the usage of buckets. A second call has no effect.
    pub(crate) fn show_buckets(&self, buckets: BucketMetrics) {
        let collector = buckets.collector();
        if self.buckets.set(buckets).is_ok() {
            let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
            registry.register_collector(Box::new(collector));
        }
    }

    /// Reads the values that are in a store. Called before a scrape is answered.
    pub(crate) async fn refresh(&self) {
        if let Some(buckets) = self.buckets.get() {
            buckets.refresh().await;
        }
    }

    /// Adds a metric under a name that gets the prefix `ashlar_`.
    pub(crate) fn register(
        &self,
        name: &str,
        help: &str,
        metric: impl prometheus_client::registry::Metric,
    ) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.sub_registry_with_prefix("ashlar").register(name, help, metric);
    }

    /// Returns all metrics in the text format of Prometheus, version 0.0.4.
    pub(crate) fn prometheus_text(&self) -> Result<String, fmt::Error> {
        Ok(exposition::prometheus(&self.text()?))
    }

    /// Returns all metrics in the text format `OpenMetrics`.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// Encodes the metrics of an owner.
struct OwnerCollector<O: ?Sized>(Arc<O>);

impl<O: ?Sized> fmt::Debug for OwnerCollector<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerCollector")
    }
}

impl<O: Metered + ?Sized + 'static> Collector for OwnerCollector<O> {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        // The format wants all values of a name together.
        let mut families = BTreeMap::<&str, Vec<Metric>>::new();
        self.0.visit_metrics(&mut |metric| families.entry(metric.name).or_default().push(metric));
        for (name, values) in families {
            let Some(first) = values.first() else { continue };
            let (help, kind) = (first.help(), first.kind);
            // The encoder appends `_total` to the names of counters.
            let name = name.strip_suffix("_total").unwrap_or(name);
            let described = match kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
            };
            let mut family = encoder.encode_descriptor(name, &help, None, described)?;
            if let [Metric { label: None, value, .. }] = values[..] {
                encode_value(kind, value, family)?;
                continue;
            }
            for Metric { label, value, .. } in values {
                encode_value(kind, value, family.encode_family(&label.as_slice())?)?;
            }
        }
        Ok(())
    }
}

/// Encodes the value of a metric.
fn encode_value(kind: MetricKind, value: u64, encoder: MetricEncoder) -> Result<(), fmt::Error> {
    match kind {
        MetricKind::Counter => ConstCounter::new(value).encode(encoder),
        MetricKind::Gauge => ConstGauge::new(level(value)).encode(encoder),
    }
}

/// Returns a number as the value of a gauge. Numbers above `i64::MAX` become `i64::MAX`.
fn level(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// CPU time, memory and other values of this process, read from `/proc` at each scrape.
#[derive(Debug)]
struct Process;

/// Ticks of CPU time per second: `USER_HZ`, which is 100 on every Linux architecture.
const TICKS_PER_SECOND: f64 = 100.0;
const TICKS_PER_SECOND_WHOLE: u64 = 100;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let build = [("version", build::VERSION), ("commit", build::COMMIT.unwrap_or("unknown"))];
        let (name, help) = ("ashlar_build_info", "The version of the program; the value is 1.");
        let one = ConstGauge::new(1_i64);
        let mut family = encoder.encode_descriptor(name, help, None, one.metric_type())?;
        one.encode(family.encode_family(&build.as_slice())?)?;
        let gauges = [
            ("process_open_fds", "Open file descriptors.", open_files()),
            ("process_max_fds", "Limit of open file descriptors.", open_files_max()),
            ("process_threads", "Threads of this process.", status_field("Threads:")),
            ("process_start_time_seconds", "Start of the process since 1970.", start_seconds()),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let gauge = ConstGauge::new(level(value));
                let kind = gauge.metric_type();
                gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
            }
        }
        if let Some(kibibytes) = resident_kibibytes() {
            let bytes = ConstGauge::new(level(kibibytes << 10));
            let (name, help) =
                ("process_resident_memory_bytes", "Resident memory of this process.");
            let kind = bytes.metric_type();
            bytes.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        // utime and stime, fields 14 and 15 of proc(5).
        if let (Some(user), Some(system)) = (stat(11), stat(12)) {
            #[expect(clippy::cast_precision_loss, reason = "ticks of years fit")]
            let seconds = ConstCounter::new((user + system) as f64 / TICKS_PER_SECOND);
            let (name, help) = ("process_cpu_seconds", "User and system CPU time.");
            let kind = seconds.metric_type();
            seconds.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        Ok(())
    }
}

/// Returns the resident memory of this process in KiB, or `None` if the kernel does not report it.
fn resident_kibibytes() -> Option<u64> {
    status_field("VmRSS:")
}

/// Returns a number in `/proc/self/status`. `name` ends with a colon.
fn status_field(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the number of open file descriptors, without that of this function.
fn open_files() -> Option<u64> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    Some((entries.count() as u64).saturating_sub(1))
}

/// Returns the limit of open file descriptors; `None` without a limit.
fn open_files_max() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the time of the start of this process, in seconds since 1970.
fn start_seconds() -> Option<u64> {
    // Field 22 of proc(5): ticks since the boot.
    let ticks = stat(19)?;
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let boot: u64 =
        text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + ticks / TICKS_PER_SECOND_WHOLE)
}

/// Returns a field of `/proc/self/stat`. Index 0 is the first field after the command's name, the
/// state. The name is in parentheses and may contain blanks, so fields are counted from its end.
fn stat(index: usize) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(index)?.parse().ok()
}

#[cfg(test)]
mod tests;
