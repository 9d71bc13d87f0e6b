//! The HTTP interface: it reads a request, authenticates its sender, calls the function of its
//! endpoint, and writes the JSON of the result.
//!
//! For example, `GET /api/v1/buckets/photos/quota` answers with `{"bytes": null, "objects": null}`
//! and an `ETag`, which the client names in `If-Match` of its change.

use std::time::Duration;

use bytes::Bytes;
use gateway::{HttpBody, InMemory, RequestId};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use identity::RequestOrigin;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::{self, Unread};
use crate::etag::{self, IfMatch};
use crate::routing::{Route, route};
use crate::{
    Actor, AdminApi, ApiError, ApiServed, Endpoint, EndpointPermission, RequestNotes, authenticate,
};

/// The limit of the body of a request, in bytes. A bucket document has at most 1 MiB.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// The limit of time for the arrival of a body.
const BODY_WAIT: Duration = Duration::from_secs(30);

/// A request to an endpoint, before its parts are parsed.
#[derive(Debug)]
pub(crate) struct ApiCall {
    pub(crate) endpoint: Endpoint,
    /// The parameters of the path, in order.
    parameters: Vec<String>,
    query: String,
    body: Bytes,
    pub(crate) if_match: IfMatch,
}

impl ApiCall {
    /// Returns a request to an endpoint.
    fn new(route: Route, head: &Parts, body: Bytes) -> Result<ApiCall, ApiError> {
        let Route { endpoint, parameters } = route;
        let query = head.uri.query().unwrap_or_default().to_owned();
        let if_match = IfMatch::parse(&head.headers)?;
        Ok(ApiCall { endpoint, parameters, query, body, if_match })
    }

    /// Returns the parameter of the path with this position; empty if there is none.
    pub(crate) fn parameter(&self, at: usize) -> &str {
        self.parameters.get(at).map_or("", String::as_str)
    }

    /// Returns the parameters of the query. Fails with `BadRequest` for an unknown or repeated one.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_urlencoded::from_str(&self.query)
            .map_err(|error| ApiError::bad_request(format!("The query is wrong: {error}.")))
    }

    /// Returns the body as a value. Fails with `BadRequest` for anything but JSON of this type.
    pub(crate) fn body<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ApiError::bad_request(format!("The body is wrong: {error}.")))
    }

    /// Returns the body as a value, or the default of the type if there is no body.
    pub(crate) fn body_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, ApiError> {
        if self.body.is_empty() { Ok(T::default()) } else { self.body() }
    }
}

/// The result of an endpoint, before it becomes a response.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: ReplyBody,
}

/// The body of a result.
#[derive(Debug)]
enum ReplyBody {
    /// A body in memory.
    Whole(Bytes),
    /// A body that arrives piece by piece.
    Live(HttpBody),
}

impl Reply {
    /// Returns a response without a body.
    pub(crate) fn empty() -> Reply {
        Reply {
            status: StatusCode::NO_CONTENT,
            headers: HeaderMap::new(),
            body: ReplyBody::Whole(Bytes::new()),
        }
    }

    /// Returns a response with a ZIP file.
    pub(crate) fn zip(body: HttpBody) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/zip"));
        Reply { status: StatusCode::OK, headers, body: ReplyBody::Live(body) }
    }

    /// Returns a response with server-sent events.
    pub(crate) fn events(body: HttpBody) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        // nginx would otherwise gather events before it passes them on.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        Reply { status: StatusCode::OK, headers, body: ReplyBody::Live(body) }
    }

    /// Returns a response with a JSON document.
    pub(crate) fn json(value: &impl Serialize) -> Result<Reply, ApiError> {
        let body = serde_json::to_vec(value).map_err(|error| {
            tracing::error!(%error, "cannot encode a response of the administration API");
            ApiError::from(s3::Code::InternalError)
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Reply { status: StatusCode::OK, headers, body: ReplyBody::Whole(body.into()) })
    }

    /// Returns a response with a JSON document that was made from a record with this version.
    pub(crate) fn of_record(
        value: &impl Serialize,
        version: Option<admin::Etag>,
    ) -> Result<Reply, ApiError> {
        let Some(version) = version else { return Reply::tagged(value) };
        let mut reply = Reply::json(value)?;
        let tag = HeaderValue::from_str(&format!("\"{version}\""));
        reply.headers.insert(ETAG, tag.map_err(|_| s3::Code::InternalError)?);
        Ok(reply)
    }

    /// Returns a response with a JSON document and its entity tag.
    pub(crate) fn tagged(value: &impl Serialize) -> Result<Reply, ApiError> {
        let mut reply = Reply::json(value)?;
        let tag = HeaderValue::from_str(&etag::of(value)?);
        reply.headers.insert(ETAG, tag.map_err(|_| s3::Code::InternalError)?);
        Ok(reply)
    }
}

impl AdminApi {
    /// Responds to a request below `/api/v1`. A failure is a response too, with an error document.
    /// Notes the facts for the access log in the [`RequestNotes`] of the request, if it has them.
    pub async fn handle(&self, request: Request<HttpBody>) -> Response<HttpBody> {
        let (head, body) = request.into_parts();
        let id =
            head.extensions.get().map_or_else(|| "-".to_owned(), |id: &RequestId| id.0.clone());
        let notes: RequestNotes = head.extensions.get().cloned().unwrap_or_default();
        let reply = match route(&head.method, head.uri.path()) {
            Ok(route) => {
                notes.note(|served| route.note(served));
                self.respond(route, &head, body, (&id, &notes)).await
            }
            Err(error) => Err(error),
        };
        reply.map_or_else(
            |error| {
                notes.note(|served| served.code = Some(error.code.clone()));
                refusal(&error, &id)
            },
            into_response,
        )
    }

    /// Notes the endpoint and the names of a request that is not handled.
    pub fn note_claimed(&self, method: &Method, path: &str, served: &mut ApiServed) {
        if let Ok(route) = route(method, path) {
            route.note(served);
        }
    }

    async fn respond(
        &self,
        route: Route,
        head: &Parts,
        body: HttpBody,
        (id, notes): (&str, &RequestNotes),
    ) -> Result<Reply, ApiError> {
        let body = read(body).await?;
        let call = ApiCall::new(route, head, body)?;
        if call.endpoint.permission() == EndpointPermission::Open {
            return self.dispatch(None, &call).await;
        }
        let authenticated = self.authenticate(head, &call.body)?;
        let proof = authenticate::proof(head);
        notes.note(|served| {
            served.requester.clone_from(&authenticated.identity);
            served.proof = Some(proof);
        });
        let origin = RequestOrigin {
            headers: &head.headers,
            client: head.extensions.get().copied(),
            now: rules::time(self.volume.now()),
        };
        let actor = Actor::new(&self.access, &self.volume, &authenticated, origin, id)?;
        self.dispatch(Some(&actor.noting(notes)), &call).await
    }
}

/// Reads the body of a request. The sender is not known yet, so the limits are small.
async fn read(body: HttpBody) -> Result<Bytes, ApiError> {
    let collected = tokio::time::timeout(BODY_WAIT, body::collect(body, BODY_BYTES_MAX)).await;
    let collected = collected.map_err(|_late| ApiError::from(s3::Code::RequestTimeout))?;
    collected.map_err(|unread| match unread {
        Unread::TooLarge => {
            let message = format!("The body has more than {BODY_BYTES_MAX} bytes.");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", message)
        }
        Unread::Broken(error) => ApiError::bad_request(format!("The body ended early: {error}.")),
    })
}

fn into_response(reply: Reply) -> Response<HttpBody> {
    let Reply { status, headers, body } = reply;
    let (body, is_whole) = match body {
        ReplyBody::Whole(body) => {
            (Full::new(body).map_err(|never| match never {}).boxed_unsync(), true)
        }
        ReplyBody::Live(body) => (body, false),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if is_whole {
        response.extensions_mut().insert(InMemory);
    }
    // Answers depend on the sender, so no cache may keep them.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the response of an error.
pub(crate) fn refusal(error: &ApiError, request_id: &str) -> Response<HttpBody> {
    let document = error.document(request_id);
    let mut reply = Reply::json(&document).unwrap_or_else(|_| Reply::empty());
    reply.status = error.status;
    let mut response = into_response(reply);
    if error.status == StatusCode::UNAUTHORIZED {
        let value = HeaderValue::from_static("AWS4-HMAC-SHA256");
        response.headers_mut().insert(WWW_AUTHENTICATE, value);
    }
    if error.status == StatusCode::METHOD_NOT_ALLOWED
        && let Some(methods) = error.message.strip_prefix("This path has the methods ")
        && let Ok(value) = HeaderValue::from_str(methods.trim_end_matches('.'))
    {
        response.headers_mut().insert(ALLOW, value);
    }
    response
}
