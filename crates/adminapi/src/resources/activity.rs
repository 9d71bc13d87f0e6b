//! The requests of S3 to this gateway: rates, errors and latencies.
//!
//! For example, `GET /activity?seconds=60` shows the requests of the last minute, and for each
//! operation the median and the 99th percentile of its latency over the last hour.

use std::time::Duration;

use audit::{Activity, ActivityCounts, OperationActivity};
use policy::AdminAction;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use crate::{Actor, AdminApi, ApiError};

/// The time of an activity without `seconds`.
const SECONDS_DEFAULT: u64 = 3_600;

/// The longest time of an activity: a day.
const SECONDS_MAX: u64 = 86_400;

/// The limit of points of a series. Steps are joined to have no more.
const POINTS_MAX: usize = 120;

/// The parameters of an activity.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ActivityQuery {
    /// The time before now, in seconds: 1 to 86,400. 3,600 without it.
    pub seconds: Option<u64>,
}

/// Counts of requests.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests that ended.
    pub requests: u64,
    /// Requests that the gateway could not serve (5xx).
    pub failed: u64,
    /// Requests that the gateway refused (4xx).
    pub refused: u64,
    /// Bytes of request bodies.
    pub bytes_in: u64,
    /// Bytes of response bodies.
    pub bytes_out: u64,
}

/// The requests of one operation.
#[derive(Clone, Debug, Serialize, ToSchema, PartialEq, Eq)]
pub struct OperationCounts {
    /// The operation of S3, for example `PutObject`.
    pub operation: String,
    /// The counts over the time of the activity.
    #[serde(flatten)]
    pub counts: RequestCounts,
    /// The median latency over the last hour, in microseconds.
    pub p50_us: u64,
    /// The 99th percentile of the latency over the last hour, in microseconds.
    pub p99_us: u64,
    /// The longest latency of the last hour, in microseconds.
    pub max_us: u64,
}

/// The requests of S3 to this gateway over some time.
#[derive(Clone, Debug, Serialize, ToSchema, PartialEq, Eq)]
#[schema(as = Activity)]
pub struct ActivityJson {
    /// The time that the counts cover, in seconds. It is shorter than requested for a young
    /// process.
    pub seconds: u64,
    /// All requests together.
    pub total: RequestCounts,
    /// The operations with a request since the start, by name.
    pub operations: Vec<OperationCounts>,
    /// The length of a step of the series, in seconds.
    pub step_seconds: u64,
    /// All requests in equal steps of time, the oldest first.
    pub series: Vec<RequestCounts>,
}

impl AdminApi {
    /// Returns the requests of S3 to this gateway.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:ServerInfo`, `BadRequest`.
    pub fn activity(
        &self,
        actor: &Actor<'_>,
        query: ActivityQuery,
    ) -> Result<ActivityJson, ApiError> {
        actor.require(AdminAction::ServerInfo)?;
        let seconds = query.seconds.unwrap_or(SECONDS_DEFAULT);
        if !(1..=SECONDS_MAX).contains(&seconds) {
            return Err(ApiError::bad_request("The time is 1 to 86,400 seconds."));
        }
        Ok(of(&self.activity, Duration::from_secs(seconds)))
    }
}

/// Returns the activity over the time `since` before now.
pub(crate) fn of(activity: &Activity, since: Duration) -> ActivityJson {
    let now = Instant::now();
    let (snapshot, series) = (activity.snapshot(now, since), activity.series(now, since, None));
    let mut total = RequestCounts::default();
    snapshot.operations.iter().for_each(|one| total.add(&one.counts));
    let join = series.points.len().div_ceil(POINTS_MAX).max(1);
    // The newest steps are joined completely; the first point can have fewer.
    let first = series.points.len() % join;
    let (young, rest) = series.points.split_at(first);
    let joined = |steps: &[ActivityCounts]| {
        let mut counts = RequestCounts::default();
        steps.iter().for_each(|step| counts.add(step));
        counts
    };
    let points = [young].into_iter().filter(|steps| !steps.is_empty()).chain(rest.chunks(join));
    ActivityJson {
        seconds: snapshot.over.as_secs(),
        total,
        operations: snapshot.operations.iter().map(shown).collect(),
        step_seconds: series.step.as_secs() * join as u64,
        series: points.map(joined).collect(),
    }
}

impl RequestCounts {
    fn add(&mut self, more: &ActivityCounts) {
        let ActivityCounts { requests, failed, refused, bytes_in, bytes_out } = *more;
        self.requests += requests;
        self.failed += failed;
        self.refused += refused;
        self.bytes_in += bytes_in;
        self.bytes_out += bytes_out;
    }
}

fn shown(one: &OperationActivity) -> OperationCounts {
    let micros = |of: Duration| u64::try_from(of.as_micros()).unwrap_or(u64::MAX);
    let mut counts = RequestCounts::default();
    counts.add(&one.counts);
    OperationCounts {
        operation: one.operation.to_owned(),
        counts,
        p50_us: micros(one.p50),
        p99_us: micros(one.p99),
        max_us: micros(one.max),
    }
}

#[cfg(test)]
mod tests;
