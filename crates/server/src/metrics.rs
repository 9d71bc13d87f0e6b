//! Metrics of requests and connections, in the text format `OpenMetrics`, which Prometheus reads.
//!
//! The S3 listener counts its requests here; [`Metrics::collect_from`] adds the owners of other
//! metrics. Each label has a bounded number of values: keys and user names
//! are not labels. For example, the first [`BUCKETS_MAX`] buckets that answer a request with
//! success get a label value of their own, and all others share the value `other`.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gateway::Served;
use http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use runtime::{Metered, Metric, MetricKind};

/// The number of buckets with a label value of their own. All others share [`OTHER_BUCKET`].
pub(crate) const BUCKETS_MAX: usize = 100;

/// The label value of buckets beyond the limit, and of buckets without a successful request.
const OTHER_BUCKET: &str = "other";

/// Upper bounds of the histogram buckets in seconds, from half a millisecond to a minute.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    bucket: String,
    status: u16,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Direction {
    direction: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Limit {
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

/// A metric with a histogram of seconds for each S3 operation.
type Seconds = Family<Operation, Histogram, fn() -> Histogram>;

/// The time and the bytes of one request, as its connection measures them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestCost {
    /// The time from the end of the request's head to the end of the response.
    pub(crate) duration: Duration,
    /// The time from the end of the request's head to the first byte of the response's body, or to
    /// the end of a response without a body.
    pub(crate) first_byte: Duration,
    /// Bytes of the request's body that were received.
    pub(crate) received: u64,
    /// Bytes of the response's body that were sent.
    pub(crate) sent: u64,
}

/// All metrics of the process: those of requests and connections, and the registered collectors.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<RequestLabels, Counter>,
    durations: Seconds,
    first_byte: Seconds,
    body_bytes: Family<Direction, Counter>,
    rejections: Family<Limit, Counter>,
    response_timeouts: Counter,
    connection_errors: Family<Kind, Counter>,
    /// Open connections.
    pub(crate) connections: Gauge,
    /// Requests that ended in a panic.
    pub(crate) panics: Counter,
    /// The names of the S3 buckets that have a label value of their own, at most `BUCKETS_MAX`.
    labelled_buckets: Mutex<HashSet<String>>,
}

impl Metrics {
    /// Returns new metrics, whose values are 0.
    pub(crate) fn new() -> Metrics {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        let metrics = Metrics {
            registry: Mutex::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram),
            first_byte: Family::new_with_constructor(histogram),
            body_bytes: Family::default(),
            rejections: Family::default(),
            response_timeouts: Counter::default(),
            connection_errors: Family::default(),
            connections: Gauge::default(),
            panics: Counter::default(),
            labelled_buckets: Mutex::default(),
        };
        metrics.register();
        metrics
    }

    /// Registers the metrics of requests and connections under their names.
    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // The encoder appends `_total` to the names of counters.
        let all = registry.sub_registry_with_prefix("ashlar");
        all.register("s3_requests", "Requests with a response", self.requests.clone());
        let help = "Time from the end of a request's head to the end of its response";
        all.register("s3_request_duration_seconds", help, self.durations.clone());
        let help = "Time from the end of a request's head to the first byte of the response's body";
        all.register("s3_time_to_first_byte_seconds", help, self.first_byte.clone());
        let help = "Bytes of request bodies received (in) and of response bodies sent (out)";
        all.register("s3_body_bytes", help, self.body_bytes.clone());
        let help =
            "Connections and requests refused with 503 SlowDown, by the limit that was reached";
        all.register("s3_rejections", help, self.rejections.clone());
        let help = "Responses abandoned because the client read nothing until the timeout";
        all.register("s3_response_timeouts", help, self.response_timeouts.clone());
        let help = "Connections that ended with an error, by its kind";
        all.register("s3_connection_errors", help, self.connection_errors.clone());
        all.register("s3_connections", "Open connections", self.connections.clone());
        all.register("s3_panics", "Requests that ended in a panic", self.panics.clone());
        registry.register_collector(Box::new(Process));
    }

    /// Adds an owner of metrics, which are read at each scrape.
    pub(crate) fn collect_from<O: Metered + ?Sized + 'static>(&self, owner: Arc<O>) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(OwnerCollector(owner)));
    }

    /// Counts a request and its response.
    pub(crate) fn record_request(&self, served: &Served, status: StatusCode, cost: RequestCost) {
        let operation = if served.operation.is_empty() { "Unknown" } else { served.operation };
        let labels = RequestLabels {
            operation,
            bucket: self.bucket_label(served, status),
            status: status.as_u16(),
            code: served.code.unwrap_or_default(),
        };
        self.requests.get_or_create(&labels).inc();
        let labels = Operation { operation };
        self.durations.get_or_create(&labels).observe(cost.duration.as_secs_f64());
        self.first_byte.get_or_create(&labels).observe(cost.first_byte.as_secs_f64());
        self.body_bytes.get_or_create(&Direction { direction: "in" }).inc_by(cost.received);
        self.body_bytes.get_or_create(&Direction { direction: "out" }).inc_by(cost.sent);
    }

    /// Returns the label value of a request's bucket, or an empty one if the request names no
    /// bucket.
    ///
    /// A bucket gets a value of its own at its first successful response, so requests for buckets
    /// that do not exist cannot use up the limit.
    fn bucket_label(&self, served: &Served, status: StatusCode) -> String {
        let Some(bucket) = &served.bucket else { return String::new() };
        // One lock for the check and the insertion, so that two requests cannot exceed the limit.
        let mut known = self.labelled_buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(bucket) {
            return bucket.clone();
        }
        let succeeded = status.is_success() || status == StatusCode::NOT_MODIFIED;
        if succeeded && known.len() < BUCKETS_MAX {
            known.insert(bucket.clone());
            return bucket.clone();
        }
        OTHER_BUCKET.to_owned()
    }

    /// Counts a connection or request that was refused because the limit with the name `limit` was
    /// reached, for example `host_requests`.
    pub(crate) fn count_rejection(&self, limit: &'static str) {
        self.rejections.get_or_create(&Limit { limit }).inc();
    }

    /// Counts a response that was abandoned because its client did not read it in time.
    pub(crate) fn count_response_timeout(&self) {
        self.response_timeouts.inc();
    }

    /// Counts a connection that ended with an error of this kind.
    pub(crate) fn count_connection_error(&self, kind: &'static str) {
        self.connection_errors.get_or_create(&Kind { kind }).inc();
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

/// CPU time and memory of this process, read from `/proc` at each scrape.
#[derive(Debug)]
struct Process;

/// Ticks of CPU time per second: `USER_HZ`, which is 100 on every Linux architecture.
const TICKS_PER_SECOND: f64 = 100.0;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
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
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim_end().parse().ok()
}

/// Returns a field of `/proc/self/stat`. Index 0 is the first field after the command's name, the
/// state. The name is in parentheses and may contain blanks, so fields are counted from its end.
fn stat(index: usize) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(index)?.parse().ok()
}
