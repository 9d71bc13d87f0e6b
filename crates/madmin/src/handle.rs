//! The path of a request: route, signature, body, call, response.
//!
//! Each call runs in a task of its own, so a change runs to its end and is logged also if its
//! client disconnects. A trace is the exception: it ends with its client. For example, a `DELETE`
//! of a user whose client goes away still removes the user.

use std::sync::Arc;

use adminapi::{Actor, ApiError};
use gateway::{HttpBody, InMemory, RequestId, Served};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use identity::{Authenticated, Identity, RequestOrigin};
use s3::auth::AuthKind;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::authenticate::{Signed, authenticate};
use crate::call::{AdminCall, Target, target};
use crate::calls::{CallRequest, Reply};
use crate::minio_admin::MinioAdmin;
use crate::query::CallQuery;
use crate::trace::{self, TRACES_MAX, Watched};
use crate::{body, error, hints, metrics};

/// The limit of the body of a call, in bytes: that of MinIO. A policy document has at most 20 KiB.
pub const BODY_BYTES_MAX: usize = 262_272;

/// The kind of resource in [`Served`], by which the access log knows these requests from those of
/// S3.
pub const LOG_RESOURCE: &str = "ADMIN";

/// The facts of a request for its response and for the access log.
#[derive(Debug, Default)]
struct Facts {
    operation: &'static str,
    requester: Option<Arc<Identity>>,
}

impl MinioAdmin {
    /// Responds to a request for which [`crate::is_ours`] is true. A failure is a response too,
    /// with an error document. The extension [`Served`] has the facts for the access log.
    pub async fn handle(self: &Arc<Self>, request: Request<HttpBody>) -> Response<HttpBody> {
        let (this, (head, body)) = (Arc::clone(self), request.into_parts());
        let call = async move { this.respond(&head, body).await };
        match self.calls.spawn("a request of MinIO's administration protocol", call).await {
            Ok(response) => response,
            // The edge answers for a panic; a task is never cancelled.
            Err(ended) => std::panic::resume_unwind(ended.into_panic()),
        }
    }

    async fn respond(&self, head: &Parts, body: HttpBody) -> Response<HttpBody> {
        let id = head.extensions.get::<RequestId>().map_or("-", |id| id.0.as_str());
        let mut facts = Facts { operation: "MinioAdmin", ..Facts::default() };
        let outcome = self.served(head, body, id, &mut facts).await;
        let code = outcome.as_ref().err().map(error::logged);
        let mut response = outcome.unwrap_or_else(|error| {
            let mut response = error::refusal(&error, head.uri.path(), id);
            response.extensions_mut().insert(InMemory);
            response
        });
        // Answers depend on the sender, so no cache may keep them.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let auth = facts.requester.as_ref().map(|_| AuthKind::Header);
        let Facts { operation, requester } = facts;
        response.extensions_mut().insert(Served {
            operation,
            log_resource: LOG_RESOURCE,
            requester,
            auth,
            code,
            ..Served::default()
        });
        response
    }

    async fn served(
        &self,
        head: &Parts,
        body: HttpBody,
        id: &str,
        facts: &mut Facts,
    ) -> Result<Response<HttpBody>, ApiError> {
        let now = rules::time(self.parts.api.volume().now());
        let target = target(&head.method, head.uri.path());
        if target == Target::Metrics {
            facts.operation = "MinioMetrics";
            let authenticated = metrics::authenticate(self.parts.api.access(), head, now)?;
            facts.requester.clone_from(&authenticated.identity);
            let text = self.metrics(&self.actor(head, &authenticated, now, id)?).await?;
            return Ok(in_memory(StatusCode::OK, metrics::CONTENT_TYPE_TEXT, text.into()));
        }
        let (access, region) = (self.parts.api.access(), self.parts.api.region());
        let Signed { authenticated, body_hash } = authenticate(access, head, region, now)?;
        facts.requester.clone_from(&authenticated.identity);
        let call = match target {
            Target::Call(call) => call,
            Target::Metrics => return Err(hints::not_implemented("metrics")),
            Target::Missing(path) => return Err(hints::not_implemented(path)),
        };
        facts.operation = call.log_name();
        let body = body::read(body, BODY_BYTES_MAX).await?;
        if body_hash != <[u8; 32]>::from(Sha256::digest(&body)) {
            return Err(s3::Code::XAmzContentSHA256Mismatch.into());
        }
        let actor = self.actor(head, &authenticated, now, id)?;
        let query = CallQuery::parse(head.uri.query().unwrap_or_default());
        if call == AdminCall::Trace {
            let watched = Watched::new(&actor, &authenticated, head, &query)?;
            return self.trace(watched);
        }
        let secret = &authenticated.identity.as_ref().ok_or(s3::Code::AccessDenied)?.secret;
        let host = head.uri.authority().map(http::uri::Authority::as_str);
        let named = || head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(named).unwrap_or("localhost");
        let request = CallRequest { actor: &actor, secret, query, body, host };
        let reply = self.carry_out(call, &request).await?;
        self.answer(reply, &request).await
    }

    /// Returns the sender of a request.
    fn actor<'a>(
        &'a self,
        head: &'a Parts,
        authenticated: &'a Authenticated,
        now: OffsetDateTime,
        id: &'a str,
    ) -> Result<Actor<'a>, ApiError> {
        let client = head.extensions.get().copied();
        let origin = RequestOrigin { headers: &head.headers, client, now };
        let (access, volume) = (self.parts.api.access(), self.parts.api.volume());
        Actor::new(access, volume, authenticated, origin, id)
    }

    async fn answer(
        &self,
        reply: Reply,
        request: &CallRequest<'_>,
    ) -> Result<Response<HttpBody>, ApiError> {
        const JSON: &str = "application/json";
        Ok(match reply {
            Reply::Done => in_memory(StatusCode::OK, JSON, Vec::new()),
            Reply::NoContent => in_memory(StatusCode::NO_CONTENT, JSON, Vec::new()),
            Reply::Json(content) => in_memory(StatusCode::OK, JSON, content),
            Reply::Sealed(content) => {
                in_memory(StatusCode::OK, JSON, self.sealed(request, content).await?)
            }
        })
    }

    /// Begins a trace. Fails with `SlowDown` if too many run.
    fn trace(&self, watched: Watched) -> Result<Response<HttpBody>, ApiError> {
        let Ok(turn) = Arc::clone(&self.traces).try_acquire_owned() else {
            let why = format!("{TRACES_MAX} traces run. Try again when one has ended.");
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "SlowDown", why));
        };
        let entries = (self.parts.subscribe)();
        let api = Arc::clone(&self.parts.api);
        let stopping = self.parts.stopping.clone();
        Ok(trace::response(trace::Trace::new(entries, watched, api, stopping, turn)))
    }
}

/// Returns a response with a body in memory.
fn in_memory(
    status: StatusCode,
    content_type: &'static str,
    content: Vec<u8>,
) -> Response<HttpBody> {
    let body = Full::new(content.into()).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.extensions_mut().insert(InMemory);
    response
}
