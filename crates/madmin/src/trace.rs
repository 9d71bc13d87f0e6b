//! `mc admin trace`: the requests to the endpoint as a stream of JSON documents.
//!
//! A trace follows the access log. It never delays a request: a client that reads too slowly loses
//! requests, as [`audit::AuditLog::subscribe`] describes. For example, `mc admin trace --errors`
//! shows the requests that fail from now on, until its user ends it.
//!
//! Limits: [`TRACES_MAX`] traces at once. A trace ends when the process stops, and within
//! [`CHECK_INTERVAL`] after its sender loses the permission.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use adminapi::{Actor, AdminApi, ApiError};
use audit::AuditEntry;
use bytes::Bytes;
use futures::stream;
use gateway::{BoxError, HttpBody};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{HeaderName, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use identity::{Authenticated, ClientAddress, RequestOrigin};
use policy::AdminAction;
use s3::auth::Verified;
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::query::CallQuery;
use crate::{duration, error};

/// The limit of traces that run at once.
pub const TRACES_MAX: usize = 8;

/// The time between two spaces that keep an idle connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// The time between two checks of the permission.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The number of a request to S3 among the types of a trace.
const TYPE_S3: u64 = 1 << 2;

const SESSION_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// The requests that a trace shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filter {
    is_s3: bool,
    only_errors: bool,
    threshold: Duration,
}

impl Filter {
    fn parse(query: &CallQuery) -> Result<Filter, ApiError> {
        let threshold = query.maybe("threshold").map_or(Some(Duration::ZERO), duration::parse);
        let wrong = || error::invalid("The threshold has the form of 10ms or 1m30s.");
        let threshold = threshold.ok_or_else(wrong)?;
        let is_s3 = query.is_true("s3");
        Ok(Filter { is_s3, only_errors: query.is_true("err"), threshold })
    }

    fn shows(&self, entry: &AuditEntry) -> bool {
        self.is_s3
            && (!self.only_errors || entry.status >= 400)
            && (self.threshold.is_zero() || entry.total > self.threshold)
    }
}

/// The sender of a trace, with the facts by which its permission is checked again.
#[derive(Debug)]
pub(crate) struct Watched {
    filter: Filter,
    access_key: String,
    token: Option<String>,
    secret: identity::Secret,
    headers: HeaderMap,
    client: Option<ClientAddress>,
    request_id: String,
}

impl Watched {
    /// Fails with `AccessDenied` without `admin:ServerTrace`, and with `XMinioAdminInvalidArgument`
    /// for wrong options.
    pub(crate) fn new(
        actor: &Actor<'_>,
        authenticated: &Authenticated,
        head: &Parts,
        query: &CallQuery,
    ) -> Result<Watched, ApiError> {
        check(actor)?;
        let identity = authenticated.identity.as_ref().ok_or(s3::Code::AccessDenied)?;
        let token = head.headers.get(SESSION_TOKEN).and_then(|token| token.to_str().ok());
        Ok(Watched {
            filter: Filter::parse(query)?,
            access_key: authenticated.verified.access_key().unwrap_or_default().to_owned(),
            token: token.map(str::to_owned),
            secret: identity.secret.clone(),
            headers: head.headers.clone(),
            client: head.extensions.get().copied(),
            request_id: actor.request_id().to_owned(),
        })
    }

    /// Returns true if the sender may still trace: its key exists with the same secret, and its
    /// policies allow it.
    fn may(&self, api: &AdminApi) -> bool {
        let now = rules::time(api.volume().now());
        let found = api.access().identify(Some(&self.access_key), self.token.as_deref(), now);
        let Ok(Some(identity)) = found else { return false };
        if identity.secret != self.secret {
            return false;
        }
        let verified = Verified::without_signature(self.access_key.clone(), now);
        let authenticated = Authenticated { verified, identity: Some(identity) };
        let origin = RequestOrigin { headers: &self.headers, client: self.client, now };
        let (access, volume) = (api.access(), api.volume());
        let actor = Actor::new(access, volume, &authenticated, origin, &self.request_id);
        actor.is_ok_and(|actor| check(&actor).is_ok())
    }
}

fn check(actor: &Actor<'_>) -> Result<(), ApiError> {
    let action = AdminAction::ServerTrace;
    if actor.may(action, None) { Ok(()) } else { Err(ApiError::denied(action.name())) }
}

/// A trace that runs.
#[derive(Debug)]
pub(crate) struct Trace {
    entries: Receiver<Arc<AuditEntry>>,
    watched: Watched,
    api: Arc<AdminApi>,
    stopping: CancellationToken,
    ticks: tokio::time::Interval,
    checked: Instant,
    /// Counts among [`TRACES_MAX`] until the trace ends.
    _turn: OwnedSemaphorePermit,
}

impl Trace {
    pub(crate) fn new(
        entries: Receiver<Arc<AuditEntry>>,
        watched: Watched,
        api: Arc<AdminApi>,
        stopping: CancellationToken,
        turn: OwnedSemaphorePermit,
    ) -> Trace {
        let mut ticks = interval(KEEP_ALIVE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Trace { entries, watched, api, stopping, ticks, checked: Instant::now(), _turn: turn }
    }

    /// Returns the next bytes of the stream; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.checked.elapsed() >= CHECK_INTERVAL {
                if !self.watched.may(&self.api) {
                    return None;
                }
                self.checked = Instant::now();
            }
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return None,
                // A space between documents shows both sides that the connection is open.
                _ = self.ticks.tick() => return Some(Bytes::from_static(b" ")),
                entry = self.entries.recv() => match entry {
                    Ok(entry) if self.watched.filter.shows(&entry) => {
                        return Some(line(&entry));
                    }
                    // Requests that the filter hides, and requests that a late reader has lost.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                },
            }
        }
    }
}

/// Returns the response with the stream of a trace.
pub(crate) fn response(trace: Trace) -> Response<HttpBody> {
    let frames = stream::unfold(trace, |mut trace| async move {
        let bytes = trace.next().await?;
        Some((Ok::<_, BoxError>(Frame::data(bytes)), trace))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// A request in MinIO's form.
#[derive(Debug, Serialize)]
struct TraceDocument<'a> {
    #[serde(rename = "type")]
    kind: u64,
    nodename: &'a str,
    funcname: String,
    time: String,
    path: &'a str,
    dur: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    http: HttpDocument<'a>,
}

#[derive(Debug, Serialize)]
struct HttpDocument<'a> {
    request: RequestDocument<'a>,
    response: ResponseDocument,
    stats: StatsDocument,
}

#[derive(Debug, Serialize)]
struct RequestDocument<'a> {
    time: String,
    proto: &'a str,
    method: &'a str,
    path: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    rawquery: &'a str,
    headers: BTreeMap<&'static str, [&'a str; 1]>,
    client: String,
}

#[derive(Debug, Serialize)]
struct ResponseDocument {
    time: String,
    statuscode: u16,
}

#[derive(Debug, Serialize)]
struct StatsDocument {
    inputbytes: u64,
    outputbytes: u64,
    latency: u64,
    timetofirstbyte: u64,
}

/// Returns the document of a request, with a line end.
fn line(entry: &AuditEntry) -> Bytes {
    let (path, rawquery) = entry.target.split_once('?').unwrap_or((&entry.target, ""));
    let nanoseconds = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let text = |time: OffsetDateTime| time.format(&Rfc3339).unwrap_or_default();
    let named = [("Host", &entry.host), ("User-Agent", &entry.user_agent)];
    let headers = named.into_iter().filter_map(|(name, value)| Some((name, [value.as_deref()?])));
    let ended = entry.time.checked_add(entry.total.try_into().unwrap_or_default());
    let document = TraceDocument {
        kind: TYPE_S3,
        nodename: entry.host.as_deref().unwrap_or_default(),
        funcname: format!("s3.{}", entry.operation),
        time: text(entry.time),
        path,
        dur: nanoseconds(entry.total),
        bytes: entry.bytes_in + entry.bytes_out,
        error: entry.code.as_deref(),
        http: HttpDocument {
            request: RequestDocument {
                time: text(entry.time),
                proto: entry.protocol,
                method: &entry.method,
                path,
                rawquery,
                headers: headers.collect(),
                client: entry.remote.map(|address| address.to_string()).unwrap_or_default(),
            },
            response: ResponseDocument {
                time: text(ended.unwrap_or(entry.time)),
                statuscode: entry.status,
            },
            stats: StatsDocument {
                inputbytes: entry.bytes_in,
                outputbytes: entry.bytes_out,
                latency: nanoseconds(entry.total),
                timetofirstbyte: nanoseconds(entry.turn_around),
            },
        },
    };
    let mut bytes = serde_json::to_vec(&document).unwrap_or_default();
    bytes.push(b'\n');
    bytes.into()
}

#[cfg(test)]
mod tests;
