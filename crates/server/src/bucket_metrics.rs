//! Metrics of the usage and the quota of buckets.
//!
//! The values are read from the metadata store at a scrape, in two round trips for all buckets.
//! They are kept for [`KEPT_FOR`], so that many scrapers do not load the store. For example, with
//! `--bucket-metrics-max 100` the first 100 buckets in order of name have
//! `ashlar_bucket_bytes{bucket="photos"}`, and the others have none. If the store does not answer,
//! the metrics are absent.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use admin::{Admin, BucketUsage};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::{Instant, timeout};
use volume::CHECK_DEADLINE;

/// The lifetime of the values.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// The usage of buckets at the last scrape.
#[derive(Debug)]
pub(crate) struct BucketMetrics {
    admin: Admin,
    buckets_max: u32,
    /// The time of the last read. The lock is held during a read, so that concurrent scrapes wait
    /// for one result.
    read_at: tokio::sync::Mutex<Option<Instant>>,
    usage: Arc<Mutex<Vec<BucketUsage>>>,
}

/// Encodes the usage of buckets.
#[derive(Debug)]
pub(crate) struct UsageCollector(Arc<Mutex<Vec<BucketUsage>>>);

impl BucketMetrics {
    /// Returns the metrics of the first `buckets_max` buckets in order of name; of none if it is 0.
    pub(crate) fn new(admin: Admin, buckets_max: u32) -> BucketMetrics {
        BucketMetrics {
            admin,
            buckets_max,
            read_at: tokio::sync::Mutex::default(),
            usage: Arc::default(),
        }
    }

    /// Returns the collector of the values.
    pub(crate) fn collector(&self) -> UsageCollector {
        UsageCollector(Arc::clone(&self.usage))
    }

    /// Reads the values again if they are older than [`KEPT_FOR`].
    pub(crate) async fn refresh(&self) {
        let mut read_at = self.read_at.lock().await;
        if self.buckets_max == 0 || read_at.is_some_and(|at| at.elapsed() < KEPT_FOR) {
            return;
        }
        let read = async {
            let buckets = self.admin.buckets_after(b"", None, self.buckets_max).await?;
            self.admin.usage_of(buckets).await
        };
        let usage = match timeout(CHECK_DEADLINE, read).await {
            Ok(Ok(usage)) => usage,
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot read the usage of buckets for metrics");
                Vec::new()
            }
            Err(_late) => Vec::new(),
        };
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
        *read_at = Some(Instant::now());
    }
}

/// A metric of one bucket; `None` for a quota that the bucket does not have.
type Value = fn(&BucketUsage) -> Option<u64>;

const METRICS: [(&str, &str, Value); 4] = [
    (
        "ashlar_bucket_bytes",
        "Bytes of the files of a bucket, with deleted files that the reaper has not removed yet.",
        |usage| Some(usage.bytes),
    ),
    ("ashlar_bucket_objects", "Names of files in a bucket.", |usage| Some(usage.objects)),
    ("ashlar_bucket_quota_bytes", "The quota of a bucket in bytes, if it has one.", |usage| {
        usage.bucket.quota.bytes
    }),
    ("ashlar_bucket_quota_objects", "The quota of a bucket in objects, if it has one.", |usage| {
        usage.bucket.quota.objects
    }),
];

impl Collector for UsageCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let usage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, help, value) in METRICS {
            let values = usage.iter().filter_map(|of| Some((of, value(of)?)));
            let mut values = values.peekable();
            // A metric without values has no lines.
            if values.peek().is_none() {
                continue;
            }
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (of, value) in values {
                let bucket = String::from_utf8_lossy(&of.bucket.name).into_owned();
                let labels = [("bucket", bucket)];
                let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
                gauge.encode(family.encode_family(&labels.as_slice())?)?;
            }
        }
        Ok(())
    }
}
