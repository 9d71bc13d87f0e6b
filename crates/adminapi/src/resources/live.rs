//! Live events, as server-sent events (the "event stream" of the HTML standard).
//!
//! ```text
//! GET /stream?topics=stats,trace
//!
//! event: stats
//! data: {"seconds":60,…}
//!
//! event: trace
//! data: {"time":"…","operation":"PutObject",…}
//! ```
//!
//! A browser reads the stream with `EventSource`, and asks again when it ends. A stream ends after
//! ten minutes, so that a change of the sender's rights has effect. A reader that is too slow
//! misses events of `trace`: it gets the number of them as an event `missed`, and never delays a
//! request of S3.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use audit::{Activity, AuditEntry};
use bytes::Bytes;
use futures::stream::{self, Stream};
use gateway::HttpBody;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use policy::AdminAction;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams;

use super::activity;
use crate::streams::STREAMS_MAX;
use crate::{Actor, AdminApi, ApiError};

/// The longest stream.
const STREAM_MAX: Duration = Duration::from_mins(10);

/// The time between two events of `stats`, which also keep the connection alive.
const STATS_INTERVAL: Duration = Duration::from_secs(2);

/// The time that the counts of an event of `stats` cover.
const STATS_SINCE: Duration = Duration::from_mins(1);

/// A topic of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    /// The requests of the last minute, every two seconds.
    Stats,
    /// Each request of S3, of the API and of the console when it ends.
    Trace,
}

impl Topic {
    const ALL: [Topic; 2] = [Topic::Stats, Topic::Trace];

    const fn name(self) -> &'static str {
        match self {
            Topic::Stats => "stats",
            Topic::Trace => "trace",
        }
    }

    const fn action(self) -> AdminAction {
        match self {
            Topic::Stats => AdminAction::ServerInfo,
            Topic::Trace => AdminAction::ServerTrace,
        }
    }
}

/// The parameters of a stream.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StreamQuery {
    /// The topics, separated by commas: `stats` needs `admin:ServerInfo`, `trace` needs
    /// `admin:ServerTrace`. `stats` without it.
    pub topics: Option<String>,
}

/// The state of a stream between two events.
struct Live {
    activity: Arc<Activity>,
    /// The events of `trace`, if they are wanted.
    entries: Option<broadcast::Receiver<Arc<AuditEntry>>>,
    has_stats: bool,
    ticks: Interval,
    until: Instant,
    stopping: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl AdminApi {
    /// Returns a stream of events.
    ///
    /// # Errors
    /// `AccessDenied` without the action of each topic, `BadRequest` for an unknown topic,
    /// `TooManyStreams`.
    pub fn stream(&self, actor: &Actor<'_>, query: &StreamQuery) -> Result<HttpBody, ApiError> {
        let topics = topics(query.topics.as_deref().unwrap_or("stats"))?;
        for topic in &topics {
            actor.require(topic.action())?;
        }
        let permit = self.streams.permit().ok_or_else(|| {
            let why = format!("{STREAMS_MAX} streams are open. Close one, then try again.");
            ApiError::new(http::StatusCode::SERVICE_UNAVAILABLE, "TooManyStreams", why)
        })?;
        let mut ticks = tokio::time::interval(STATS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let live = Live {
            activity: Arc::clone(&self.activity),
            entries: topics.contains(&Topic::Trace).then(|| self.log.subscribe()),
            has_stats: topics.contains(&Topic::Stats),
            ticks,
            until: Instant::now() + STREAM_MAX,
            stopping: self.streams.stopping(),
            _permit: permit,
        };
        let frames = StreamBody::new(events(live));
        Ok(frames.map_err(|never| match never {}).boxed_unsync())
    }
}

/// Parses the topics of a query.
fn topics(text: &str) -> Result<BTreeSet<Topic>, ApiError> {
    let topics = text.split(',').map(|name| {
        let topic = Topic::ALL.into_iter().find(|topic| topic.name() == name);
        topic.ok_or_else(|| ApiError::bad_request(format!("There is no topic {name:?}.")))
    });
    topics.collect()
}

/// Returns the events as the frames of a body.
fn events(live: Live) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
    stream::unfold(live, |mut live| async move {
        let event = next(&mut live).await?;
        Some((Ok(Frame::data(event)), live))
    })
}

/// Waits for the next event. Returns `None` at the end of the stream.
async fn next(live: &mut Live) -> Option<Bytes> {
    let entry = async {
        match &mut live.entries {
            Some(entries) => entries.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = live.stopping.cancelled() => None,
        () = tokio::time::sleep_until(live.until) => None,
        _ = live.ticks.tick() => {
            Some(if live.has_stats {
                event("stats", &activity::of(&live.activity, STATS_SINCE))
            } else {
                // A comment, so that a broken connection is noticed.
                Bytes::from_static(b":\n\n")
            })
        }
        entry = entry => match entry {
            Ok(entry) => Some(event("trace", &*entry)),
            Err(RecvError::Lagged(missed)) => Some(event("missed", &missed)),
            Err(RecvError::Closed) => None,
        },
    }
}

/// Returns an event as text.
fn event(name: &str, data: &impl Serialize) -> Bytes {
    // JSON in one line has no line breaks, which would end the field.
    let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
    format!("event: {name}\ndata: {data}\n\n").into()
}
