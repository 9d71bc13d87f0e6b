//! The metrics of a mount: its operations, bytes, open files and dirty data.
//!
//! For example, `ashlar_fuse_operations_total{operation="LOOKUP",errno="ENOENT"}` counts lookups of
//! names that do not exist. A result that has not occurred has no time series.

use std::fmt;

use mountd::{LATENCY_SECONDS, MountCounters, MountMeters};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Encodes the counters of a mount at each scrape.
#[derive(Debug)]
pub(crate) struct MountMetrics(pub(crate) MountMeters);

impl Collector for MountMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        // A mount that has ended has no metrics.
        let Some(counters) = self.0.read() else { return Ok(()) };
        encode_operations(&counters, &mut encoder)?;
        let MountCounters {
            read_bytes, written_bytes, requests_in_flight, files, restarts, ..
        } = counters;
        for (name, help, value) in [
            ("ashlar_fuse_read_bytes", "Bytes that READ returned to the kernel.", read_bytes),
            ("ashlar_fuse_written_bytes", "Bytes that WRITE took from the kernel.", written_bytes),
            (
                "ashlar_mount_worker_restarts",
                "Workers of the mount that ended before this one, by a failure or a replacement.",
                restarts,
            ),
        ] {
            let kind = MetricType::Counter;
            ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        for (name, help, value) in [
            (
                "ashlar_fuse_requests_in_flight",
                "Requests of the kernel that are not answered.",
                requests_in_flight,
            ),
            ("ashlar_files_open_handles", "Handles of open files.", files.open_handles),
            ("ashlar_files_open", "Files that are open or have dirty data.", files.open_files),
            (
                "ashlar_files_dirty",
                "Files with dirty data that wait for a flush.",
                files.dirty_files,
            ),
            ("ashlar_files_dirty_bytes", "Memory of dirty data.", files.dirty_bytes),
            (
                "ashlar_files_dirty_limit_bytes",
                "Limit of the memory of dirty data; writers beyond it wait.",
                files.dirty_bytes_max,
            ),
        ] {
            let value = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            value.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

/// Encodes the results and the latencies of each operation.
fn encode_operations(
    counters: &MountCounters,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let (name, help) = (
        "ashlar_fuse_operations",
        "Operations of the kernel that were answered, by the error; OK for a success.",
    );
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for of in &counters.operations {
        for (errno, count) in &of.results {
            let labels = [("operation", of.operation), ("errno", *errno)];
            ConstCounter::new(*count).encode(family.encode_family(&labels.as_slice())?)?;
        }
    }
    let name = "ashlar_fuse_operation_seconds";
    let help = "Time from the read of an operation to its answer.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for of in &counters.operations {
        let bounds = LATENCY_SECONDS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(of.latencies).collect();
        let (sum, count) = (of.total.as_secs_f64(), of.latencies.iter().sum());
        let labels = [("operation", of.operation)];
        let labels = labels.as_slice();
        let mut metric = family.encode_family(&labels)?;
        metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}
