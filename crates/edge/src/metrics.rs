//! Metrics of requests and connections.
//!
//! Each label has a bounded number of values: keys and user names
//! are not labels. For example, the first [`BUCKETS_DEFAULT`] buckets that answer a request with
//! success get a label value of their own, and all others share the value `other`.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::service::AccessFacts;

/// The number of S3 buckets with a label value of their own. All others share [`OTHER_BUCKET`].
const BUCKETS_DEFAULT: usize = 100;

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

/// The metrics of requests and connections.
#[derive(Debug)]
pub struct EdgeMetrics {
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
    /// The names of the S3 buckets that have a label value of their own, at most
    /// `buckets_max`.
    labelled_buckets: Mutex<HashSet<String>>,
    buckets_max: AtomicUsize,
}

impl Default for EdgeMetrics {
    fn default() -> EdgeMetrics {
        EdgeMetrics::new()
    }
}

impl EdgeMetrics {
    /// Returns new metrics, whose values are 0.
    pub fn new() -> EdgeMetrics {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        EdgeMetrics {
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
            buckets_max: AtomicUsize::new(BUCKETS_DEFAULT),
        }
    }

    /// Registers the metrics under their names, which begin with `s3_`. The caller chooses the
    /// prefix of the registry.
    pub fn register(&self, all: &mut Registry) {
        // The encoder appends `_total` to the names of counters.
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
    }

    /// Sets the limit of buckets with a label value of their own. Buckets that have one keep it.
    pub fn set_buckets_max(&self, buckets: usize) {
        self.buckets_max.store(buckets, Ordering::Relaxed);
    }

    /// Counts a request and its response.
    pub(crate) fn record_request(
        &self,
        facts: &AccessFacts,
        status: StatusCode,
        cost: RequestCost,
    ) {
        let operation = if facts.operation.is_empty() { "Unknown" } else { facts.operation };
        let labels = RequestLabels {
            operation,
            bucket: self.bucket_label(facts, status),
            status: status.as_u16(),
            code: facts.code.unwrap_or_default(),
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
    fn bucket_label(&self, facts: &AccessFacts, status: StatusCode) -> String {
        let Some(bucket) = &facts.bucket else { return String::new() };
        // One lock for the check and the insertion, so that two requests cannot exceed the limit.
        let mut known = self.labelled_buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(bucket) {
            return bucket.clone();
        }
        let succeeded = status.is_success() || status == StatusCode::NOT_MODIFIED;
        if succeeded && known.len() < self.buckets_max.load(Ordering::Relaxed) {
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
}
