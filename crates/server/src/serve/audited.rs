//! The entries of the access log and the activity of the S3 endpoint.
//!
//! The edge measures a request, and the gateway knows its operation and sender. This module joins
//! both when the response has been sent. For example, for a GET whose client closes the connection
//! early, the entry has the bytes that were sent and `whole` is false. If the client closes it
//! before the response begins, the future of the request is dropped, and the drop records the
//! request.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use audit::{
    Activity, AuditEntry, AuditLog, EntryKind, RequestSample, Requester, TARGET_BYTES_MAX,
    TEXT_BYTES_MAX, redacted, shortened,
};
use edge::{Caller, OnEnd, RequestEnd};
use gateway::{DeletedKey, Served};
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, HOST, REFERER, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, StatusCode, Uri, Version};
use identity::{Access, Identity};
use record::Timestamp;
use runtime::{Metered, Metric};
use s3::Operation;
use s3::auth::AuthKind;
use tokio::time::Instant;

use super::bucket_logs::{BucketLogs, LoggedBucket};
use crate::metrics::Metrics;
use crate::mount_log::{self, moment};

/// The headers of a request that an entry or the operation of a refused request needs.
const HEADERS: [HeaderName; 4] =
    [HOST, REFERER, USER_AGENT, HeaderName::from_static("x-amz-copy-source")];

/// The status of a request whose client disconnected before the response began, in the words of
/// nginx and `MinIO`. No client receives it.
const DISCONNECTED_STATUS: u16 = 499;

/// The error code of such a request.
const DISCONNECTED: &str = "ClientDisconnected";

/// The access log, the activity, and the facts that all entries need.
#[derive(Debug)]
pub(crate) struct Audited {
    pub(crate) log: Arc<AuditLog>,
    pub(crate) activity: Arc<Activity>,
    pub(super) bucket_logs: Arc<BucketLogs>,
    access: Arc<Access>,
    region: String,
}

/// The facts of a request that are known before it is handled.
#[derive(Debug)]
pub(super) struct Begun {
    time: Timestamp,
    started: Instant,
    id: String,
    caller: Caller,
    pub(super) method: Method,
    pub(super) uri: Uri,
    version: Version,
    /// Those of [`HEADERS`] that the request has.
    pub(super) headers: HeaderMap,
    /// True when the service has the request, or has refused it.
    handled: AtomicBool,
    /// True when the request has its line. A request that panics can end twice.
    recorded: AtomicBool,
}

impl Begun {
    /// Returns the facts of a request that arrived at `time`.
    pub(super) fn new(head: &Parts, id: String, caller: Caller, time: Timestamp) -> Begun {
        let mut headers = HeaderMap::with_capacity(HEADERS.len());
        for name in HEADERS {
            if let Some(value) = head.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let (method, uri, version) = (head.method.clone(), head.uri.clone(), head.version);
        let (handled, recorded) = (AtomicBool::new(false), AtomicBool::new(false));
        let started = Instant::now();
        Begun { time, started, id, caller, method, uri, version, headers, handled, recorded }
    }

    /// Returns the end of a request whose response was not sent: because its client disconnected,
    /// or because it panicked. `status` is that of the response, if there was one.
    fn unsent(&self, status: Option<StatusCode>) -> RequestEnd {
        let total = self.started.elapsed();
        let status = status.unwrap_or_else(|| {
            if std::thread::panicking() {
                return StatusCode::INTERNAL_SERVER_ERROR;
            }
            StatusCode::from_u16(DISCONNECTED_STATUS).unwrap_or(StatusCode::BAD_REQUEST)
        });
        let (bytes_in, bytes_out) = (0, 0);
        RequestEnd { status, bytes_in, bytes_out, total, turn_around: total, whole: false }
    }

    /// Notes that the service has the request, has refused it, or answers it without a line, as a
    /// health check. Returns true if that was noted before.
    pub(super) fn set_handled(&self) -> bool {
        self.handled.swap(true, Ordering::Relaxed)
    }

    /// Returns the id of the request.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns a header as text; bytes that are not UTF-8 are replaced.
    fn header(&self, name: HeaderName) -> Option<String> {
        let value = self.headers.get(name)?;
        Some(shortened(String::from_utf8_lossy(value.as_bytes()).into_owned(), TEXT_BYTES_MAX))
    }

    /// Returns the host that the client named: in the URI over HTTP/2, in a header otherwise.
    fn host(&self) -> Option<String> {
        let authority = self.uri.authority().map(|authority| authority.as_str().to_owned());
        authority.or_else(|| self.header(HOST))
    }
}

impl Audited {
    /// Returns the access log and the activity of an endpoint that starts now, and registers their
    /// metrics.
    pub(super) fn registered(
        log: AuditLog,
        access: &Arc<Access>,
        region: &str,
        metrics: &Metrics,
    ) -> Arc<Audited> {
        let operations = Operation::ALL.iter().map(|operation| operation.name());
        let activity = Arc::new(Activity::new(Instant::now(), operations.chain(["Sts"])));
        let log = Arc::new(log);
        let (access, region) = (Arc::clone(access), region.to_owned());
        let bucket_logs = Arc::default();
        let audited = Arc::new(Audited { log, activity, bucket_logs, access, region });
        metrics.collect_from(Arc::clone(&audited));
        audited
    }

    /// Returns the function that records a request when it has ended. `response` are the headers of
    /// its response.
    pub(super) fn on_end(
        self: &Arc<Audited>,
        begun: Arc<Begun>,
        served: Served,
        response: &HeaderMap,
    ) -> OnEnd {
        let size = object_size(&served, response);
        let audited = Arc::clone(self);
        OnEnd::new(move |end| audited.record(&begun, served, size, end))
    }

    /// Records a request of S3 whose response was not made.
    pub(super) fn record_abandoned(&self, begun: &Begun, mut served: Served) {
        let end = begun.unsent(None);
        served.code = served.code.or(unsent_code(end.status));
        self.record(begun, served, None, &end);
    }

    fn record(&self, begun: &Begun, mut served: Served, size: Option<u64>, end: &RequestEnd) {
        if begun.recorded.swap(true, Ordering::Relaxed) {
            return;
        }
        self.activity.record(
            served.operation,
            &RequestSample {
                ended: Instant::now(),
                duration: end.total,
                failed: end.status.is_server_error(),
                refused: end.status.is_client_error(),
                bytes_in: end.bytes_in,
                bytes_out: end.bytes_out,
            },
        );
        if self.log.is_active() || served.logging.is_some() {
            let (deleted, logged) = (served.deleted.take(), LoggedBucket::of(&mut served));
            let entry = self.entry(begun, served, size, end);
            for deleted in deleted.iter().flat_map(|deleted| deleted.take()) {
                self.log_entry(logged.as_ref(), of_key(&entry, deleted));
            }
            self.log_entry(logged.as_ref(), entry);
        }
    }

    /// Records an entry in the access log of the process, and in that of its bucket if it has one.
    fn log_entry(&self, logged: Option<&LoggedBucket>, entry: AuditEntry) {
        if let Some(logged) = logged {
            self.bucket_logs.push(logged, &entry);
        }
        self.log.record(entry);
    }

    fn entry(
        &self,
        begun: &Begun,
        served: Served,
        object_size: Option<u64>,
        end: &RequestEnd,
    ) -> AuditEntry {
        let (signature, authentication) = credentials(served.auth);
        let owner = served.bucket_owner.and_then(|owner| self.access.canonical_id(owner));
        let is_admin = served.log_resource == madmin::LOG_RESOURCE;
        let view = if is_admin { EntryKind::Admin } else { EntryKind::S3 };
        AuditEntry {
            kind: kind(view, end.status),
            requester: served.requester.as_deref().map(|identity| self.requester(identity)),
            operation: served.operation,
            resource: served.log_resource,
            bucket_owner: owner.map(|id| id.to_string()),
            bucket: served.bucket,
            key: served.key,
            // A client chooses the text of a version that does not exist.
            version_id: served.version_id.map(|version| shortened(version, TEXT_BYTES_MAX)),
            code: served.code.map(Cow::Borrowed),
            object_size,
            signature,
            authentication,
            ..self.of_connection(begun, end)
        }
    }

    /// Returns an entry with the facts that the edge knows.
    fn of_connection(&self, begun: &Begun, end: &RequestEnd) -> AuditEntry {
        let path = begun.uri.path_and_query().map_or("/", |target| target.as_str());
        AuditEntry {
            time: moment(begun.time),
            request_id: begun.id.clone(),
            remote: Some(begun.caller.address),
            method: begun.method.to_string(),
            target: shortened(redacted(path).into_owned(), TARGET_BYTES_MAX),
            protocol: protocol(begun.version),
            status: end.status.as_u16(),
            bytes_in: end.bytes_in,
            bytes_out: end.bytes_out,
            total: end.total,
            turn_around: end.turn_around,
            whole: end.whole,
            // The page that led here can be a presigned URL itself.
            referer: begun.header(REFERER).map(|page| redacted(&page).into_owned()),
            user_agent: begun.header(USER_AGENT),
            host: begun.host().map(|host| shortened(host, TEXT_BYTES_MAX)),
            tls: begun.caller.tls.flatten(),
            cipher: begun.caller.cipher,
            region: self.region.clone(),
            ..AuditEntry::default()
        }
    }

    fn requester(&self, identity: &Identity) -> Requester {
        Requester {
            access_key: identity.signing_key.clone(),
            user: identity.user().map(str::to_owned),
            account: identity.account.to_string(),
            session: identity.session_name().map(str::to_owned),
            web_identity: identity
                .web_identity()
                .map(|(issuer, subject)| format!("{issuer} {subject}")),
            arn: self.access.principal(Some(identity)).sender_arn(),
        }
    }

    /// Opens the file of the access log again. Logs the result, unless the log is not a file.
    pub(super) async fn reopen(&self) {
        match self.log.reopen().await {
            Ok(true) => tracing::info!("opened the access log again"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot open the access log again; the previous file stays in use");
            }
        }
    }

    /// Records the begin of the mount on `folder`, if there is one.
    pub(super) fn mount_began(&self, folder: Option<&Path>, now: Timestamp) {
        self.record_mount(EntryKind::MountBegin, folder, now);
    }

    /// Records the end of the mount on `folder`, if there was one. Writes all entries and closes
    /// the log.
    pub(super) async fn end(&self, folder: Option<&Path>, now: Timestamp) {
        self.record_mount(EntryKind::MountEnd, folder, now);
        if let Err(error) = self.log.close().await {
            tracing::warn!(%error, "the last entries of the access log are not written");
        }
    }

    fn record_mount(&self, kind: EntryKind, folder: Option<&Path>, now: Timestamp) {
        if let Some(folder) = folder {
            mount_log::record(&self.log, kind, folder, now);
        }
    }
}

impl Metered for Audited {
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric)) {
        self.log.visit_metrics(visit);
        self.bucket_logs.visit_metrics(visit);
    }
}

/// Returns the entry of one key of a `DeleteObjects`, with the id and the sender of the request.
fn of_key(request: &AuditEntry, deleted: DeletedKey) -> AuditEntry {
    let DeletedKey { key, version_id, status, code } = deleted;
    let status = if status == 0 { request.status } else { status };
    AuditEntry {
        operation: "DeleteObject",
        resource: "BATCH",
        key: Some(key),
        version_id: version_id.map(|version| shortened(version, TEXT_BYTES_MAX)),
        status,
        code: code.map(Cow::Borrowed).or_else(|| request.code.clone()),
        bytes_in: 0,
        bytes_out: 0,
        ..request.clone()
    }
}

/// Returns the kind of a request with this status.
fn kind(kind: EntryKind, status: StatusCode) -> EntryKind {
    let is_denied = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if is_denied { EntryKind::Denied } else { kind }
}

/// Returns the code of a request without a response; `None` if it had one.
fn unsent_code(status: StatusCode) -> Option<&'static str> {
    if status.as_u16() == DISCONNECTED_STATUS {
        return Some(DISCONNECTED);
    }
    status.is_server_error().then_some("InternalError")
}

/// Returns the version of a signature and its place, in the words of S3's server access log.
fn credentials(auth: Option<AuthKind>) -> (Option<&'static str>, Option<&'static str>) {
    match auth {
        None | Some(AuthKind::Anonymous) => (None, None),
        Some(AuthKind::Header) => (Some("SigV4"), Some("AuthHeader")),
        Some(AuthKind::Query) => (Some("SigV4"), Some("QueryString")),
        Some(AuthKind::QueryV2) => (Some("SigV2"), Some("QueryString")),
        Some(AuthKind::Form) => (Some("SigV4"), Some("Form")),
        Some(AuthKind::FormV2) => (Some("SigV2"), Some("Form")),
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}

/// Returns the size of the object that a successful operation read or wrote, if its response says
/// it.
fn object_size(served: &Served, response: &HeaderMap) -> Option<u64> {
    if served.code.is_some() {
        return None;
    }
    let text = |name: &HeaderName| response.get(name)?.to_str().ok();
    let written = text(&HeaderName::from_static("x-amz-object-size"));
    let ranged =
        text(&CONTENT_RANGE).and_then(|range| range.rsplit_once('/')).map(|(_, size)| size);
    let is_read = matches!(served.operation, "GetObject" | "HeadObject");
    let whole = text(&CONTENT_LENGTH).filter(|_| is_read);
    written.or(ranged).or(whole)?.parse().ok()
}

mod views;

pub(super) use views::ViewLine;

#[cfg(test)]
mod tests;
