//! The console and the administration API as a service behind the edge.
//!
//! Requests below `/api/v1` go to the API, and all others to the console. For example,
//! `GET /api/v1/health` answers without credentials, and `GET /` leads to the login.

use std::sync::Arc;

use adminapi::AdminApi;
use audit::EntryKind;
use bytes::Bytes;
use edge::{AccessFacts, Answer, BodyError, Caller, EdgeBody, Refusal, Service};
use gateway::{InMemory, RequestId};
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use identity::ClientAddress;
use runtime::Tasks;
use serde_json::json;
use webconsole::{Console, ConsoleSettings};

use super::audited::{Audited, Begun, ViewLine};
use super::s3_service::add_place;

/// The headers of all responses. They keep a page of another origin from showing or reading one.
const SECURITY_HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
         object-src 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The service of the console's listener.
#[derive(Debug)]
pub(super) struct ConsoleService {
    views: Arc<Views>,
    /// The changes that run. A change runs to its end and is logged, also if its client
    /// disconnects.
    changes: Tasks,
}

/// The two views behind the listener, with their access log.
#[derive(Debug)]
struct Views {
    api: Arc<AdminApi>,
    console: Console,
    audited: Arc<Audited>,
}

impl Views {
    async fn answer(&self, mut request: Request<EdgeBody>) -> Answer {
        let line = request.extensions_mut().remove::<Arc<ViewLine>>();
        let line = line.expect("`begin` has inserted it");
        request.extensions_mut().insert(line.notes.clone());
        let mut response = if is_api(request.uri().path()) {
            self.api.handle(request).await
        } else {
            self.console.handle(request).await
        };
        // A download streams content; all other answers are in memory.
        let in_memory = response.extensions_mut().remove::<InMemory>().is_some();
        let on_end = Some(line.on_end(response.status()));
        let facts = AccessFacts { operation: "Console", on_end, ..AccessFacts::default() };
        Answer { response, in_memory, facts }
    }

    /// Returns the line of a request in the access log, with the operation that the request names.
    fn line(&self, begun: Begun) -> Arc<ViewLine> {
        let view = if is_api(begun.uri.path()) { EntryKind::Admin } else { EntryKind::Console };
        let line = ViewLine::new(&self.audited, begun, view);
        let path = line.begun.uri.path();
        line.notes.note(|served| {
            if is_api(path) {
                self.api.note_claimed(&line.begun.method, path, served);
            } else {
                self.console.note_claimed(path, served);
            }
        });
        line
    }
}

/// Returns true if a path belongs to the API.
fn is_api(path: &str) -> bool {
    let rest = path.strip_prefix(adminapi::PREFIX);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl ConsoleService {
    /// Returns the service of an API and the console over it. `audited` gets each request that has
    /// ended.
    pub(super) fn new(
        api: Arc<AdminApi>,
        settings: ConsoleSettings,
        audited: Arc<Audited>,
    ) -> ConsoleService {
        let console = Console::new(Arc::clone(&api), settings);
        ConsoleService { views: Arc::new(Views { api, console, audited }), changes: Tasks::new() }
    }
}

impl Service for ConsoleService {
    type Context = Arc<ViewLine>;

    fn begin(&self, head: &mut Parts, id: String, caller: Caller) -> Arc<ViewLine> {
        let now = self.views.api.volume().now();
        let line = self.views.line(Begun::new(head, id.clone(), caller, now));
        head.extensions.insert(RequestId(id));
        let Caller { address, tls, is_local, .. } = caller;
        head.extensions.insert(ClientAddress { address, tls, is_local });
        head.extensions.insert(Arc::clone(&line));
        line
    }

    async fn handle(&self, mut request: Request<EdgeBody>) -> Answer {
        add_place(request.extensions_mut());
        if let Some(line) = request.extensions().get::<Arc<ViewLine>>() {
            line.begun.set_handled();
        }
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            return self.views.answer(request).await;
        }
        let views = Arc::clone(&self.views);
        let change = async move { views.answer(request).await };
        match self.changes.spawn("a request to the console", change).await {
            Ok(answer) => answer,
            // The edge answers for a panic; a task is never cancelled.
            Err(ended) => std::panic::resume_unwind(ended.into_panic()),
        }
    }

    fn refuse(&self, line: &Arc<ViewLine>, refusal: Refusal) -> Answer {
        let (status, code, message) = match refusal {
            Refusal::Busy => {
                (StatusCode::SERVICE_UNAVAILABLE, "SlowDown", "Too many requests. Try again.")
            }
            Refusal::TooManyHeaders(_) | Refusal::TooLongHeaders(_) => (
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "RequestHeaderSectionTooLarge",
                "The request has too many or too long headers.",
            ),
            Refusal::Panicked => {
                (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "The request failed.")
            }
        };
        let document = json!({
            "code": code, "message": message, "detail": null, "request_id": line.begun.id(),
        });
        let body = Full::new(Bytes::from(document.to_string()));
        let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
        *response.status_mut() = status;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        line.begun.set_handled();
        line.notes.note(|served| served.code = Some(code.into()));
        let on_end = Some(Arc::clone(line).on_end(status));
        let code = Some(code);
        let facts = AccessFacts { operation: "Unserved", code, on_end, ..AccessFacts::default() };
        Answer { response, in_memory: true, facts }
    }

    fn finish(&self, line: &Arc<ViewLine>, mut response: Response<EdgeBody>) -> Response<EdgeBody> {
        line.forget_unhandled();
        add_headers(response.headers_mut(), line.begun.id());
        response
    }

    fn slot_lost() -> BodyError {
        "other requests were served first".into()
    }

    /// The console shows why the gateway is not ready, so it is always ready itself.
    async fn ready(&self) -> bool {
        true
    }
}

/// Adds the headers that all responses have. A page may have set a stricter value.
fn add_headers(headers: &mut HeaderMap, id: &str) {
    for (name, value) in SECURITY_HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
}
