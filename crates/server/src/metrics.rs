//! Metrics of requests and connections, in the text format of Prometheus.
//!
//! Every label has a bounded set of values. Keys and user names are no labels, and only the first
//! [`BUCKETS_MAX`] buckets that were served have a label of their own.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gateway::Served;
use http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text::encode};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Buckets with a label of their own; the others share one.
pub(crate) const BUCKETS_MAX: usize = 100;

/// The label of all buckets beyond the limit, and of buckets from which nothing was served.
const OTHER_BUCKET: &str = "other";

/// Bounds of the histograms, from half a millisecond to a minute.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    op: &'static str,
    bucket: String,
    status: u16,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    op: &'static str,
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

type Seconds = Family<Operation, Histogram, fn() -> Histogram>;

/// What one request cost, as seen from its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestCost {
    pub(crate) seconds: Duration,
    pub(crate) first_byte: Duration,
    /// Bytes of its body.
    pub(crate) received: u64,
    /// Bytes of its response's body.
    pub(crate) sent: u64,
}

/// All metrics of requests and connections.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<RequestLabels, Counter>,
    seconds: Seconds,
    first_byte: Seconds,
    bytes: Family<Direction, Counter>,
    turned_away: Family<Limit, Counter>,
    given_up: Counter,
    connection_errors: Family<Kind, Counter>,
    /// Connections being served.
    pub(crate) connections: Gauge,
    /// Requests that ended in a panic.
    pub(crate) panics: Counter,
    buckets: Mutex<HashSet<String>>,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        let metrics = Metrics {
            registry: Mutex::default(),
            requests: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            first_byte: Family::new_with_constructor(histogram),
            bytes: Family::default(),
            turned_away: Family::default(),
            given_up: Counter::default(),
            connection_errors: Family::default(),
            connections: Gauge::default(),
            panics: Counter::default(),
            buckets: Mutex::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let all = registry.sub_registry_with_prefix("ashlar");
        let bytes = || Unit::Bytes;
        all.register("s3_requests", "Requests answered", self.requests.clone());
        let what = "Time from a request's head to the end of its answer";
        all.register("s3_request_seconds", what, self.seconds.clone());
        let what = "Time from a request's head to the first byte of its answer's body";
        all.register("s3_first_byte_seconds", what, self.first_byte.clone());
        all.register_with_unit("s3", "Bytes of bodies", bytes(), self.bytes.clone());
        let what = "Connections and requests told to slow down";
        all.register("s3_turned_away", what, self.turned_away.clone());
        let what = "Answers of which the client took nothing for too long";
        all.register("s3_answers_given_up", what, self.given_up.clone());
        let what = "Connections that ended in trouble";
        all.register("s3_connection_errors", what, self.connection_errors.clone());
        all.register("s3_connections", "Connections being served", self.connections.clone());
        all.register("panics", "Requests that ended in a panic", self.panics.clone());
        registry.register_collector(Box::new(Process));
    }

    /// Adds metrics that are kept elsewhere.
    pub(crate) fn collect_from(&self, collector: impl Collector) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(collector));
    }

    /// Counts a request that was served.
    pub(crate) fn note(&self, served: &Served, status: StatusCode, cost: RequestCost) {
        let op = if served.operation.is_empty() { "Unknown" } else { served.operation };
        let labels = RequestLabels {
            op,
            bucket: self.bucket_label(served, status),
            status: status.as_u16(),
            code: served.code.unwrap_or_default(),
        };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&Operation { op }).observe(cost.seconds.as_secs_f64());
        self.first_byte.get_or_create(&Operation { op }).observe(cost.first_byte.as_secs_f64());
        self.bytes.get_or_create(&Direction { direction: "in" }).inc_by(cost.received);
        self.bytes.get_or_create(&Direction { direction: "out" }).inc_by(cost.sent);
    }

    /// The label of a bucket. It gets one of its own only when something has been served from it,
    /// so that requests for buckets that do not exist cannot use up the labels.
    fn bucket_label(&self, served: &Served, status: StatusCode) -> String {
        let Some(bucket) = &served.bucket else { return String::new() };
        let mut known = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(bucket) {
            return bucket.clone();
        }
        let served = status.is_success() || status == StatusCode::NOT_MODIFIED;
        if served && known.len() < BUCKETS_MAX {
            known.insert(bucket.clone());
            return bucket.clone();
        }
        OTHER_BUCKET.to_owned()
    }

    /// Counts a connection or request that was refused because of a limit.
    pub(crate) fn turn_away(&self, limit: &'static str) {
        self.turned_away.get_or_create(&Limit { limit }).inc();
    }

    /// Counts a response that was given up because its client did not take it.
    pub(crate) fn give_up(&self) {
        self.given_up.inc();
    }

    /// Counts a connection that ended with an error.
    pub(crate) fn connection_error(&self, kind: &'static str) {
        self.connection_errors.get_or_create(&Kind { kind }).inc();
    }

    /// All metrics, as text.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// Metrics of this process, from the kernel.
#[derive(Debug)]
struct Process;

/// The kernel counts CPU time in ticks, of which a second has this many on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        if let Some(kibibytes) = resident_kibibytes() {
            let bytes = i64::try_from(kibibytes << 10).unwrap_or(i64::MAX);
            gauge(&mut encoder, "process_resident_memory_bytes", "Resident memory", bytes)?;
        }
        // User and system time. They are counted from the end of the command's name, which is in
        // parentheses and may contain blanks.
        if let (Some(user), Some(system)) = (stat(11), stat(12)) {
            #[expect(clippy::cast_precision_loss, reason = "ticks of years fit")]
            let seconds = ConstCounter::new((user + system) as f64 / TICKS_PER_SECOND);
            let what = "CPU time, user and system";
            let kind = seconds.metric_type();
            seconds.encode(encoder.encode_descriptor(
                "process_cpu_seconds",
                what,
                None,
                kind,
            )?)?;
        }
        Ok(())
    }
}

/// Encodes a gauge.
pub(crate) fn gauge(
    encoder: &mut DescriptorEncoder,
    name: &str,
    what: &str,
    value: i64,
) -> Result<(), fmt::Error> {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, what, None, gauge.metric_type())?)
}

fn resident_kibibytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim_end().parse().ok()
}

/// A field of `/proc/self/stat`, counted from the end of the command's name.
fn stat(index: usize) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(index)?.parse().ok()
}
