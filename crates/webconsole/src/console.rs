//! The path of one request through the console.
//!
//! For example, `POST /buckets` needs a cookie with a valid ticket, a form token of this login, and
//! the `Origin` of this console. Then the API decides if the user may create the bucket.

use std::sync::Arc;

use adminapi::{Actor, AdminApi, ApiError, ApiServed, RequestNotes, SenderProof};
use gateway::{HttpBody, RequestId};
use http::request::Parts;
use http::{Method, Request, Response};
use identity::{Authenticated, Login, LoginError, RequestOrigin};
use serde::Deserialize;
use time::OffsetDateTime;

use crate::reply::Reply;
use crate::routes::Route;
use crate::state::{ConsoleSettings, ConsoleState};
use crate::visit::Visit;
use crate::{assets, cookies, forms, layout, login, origin, routes, web_login};

/// The parameter of the pages about one object.
#[derive(Debug, Deserialize)]
struct ObjectQuery {
    key: Option<String>,
}

/// The header of requests that the script sends without an action of the person.
const REFRESH_HEADER: &str = "x-refresh";

/// The web console of a volume.
#[derive(Debug)]
pub struct Console(ConsoleState);

impl Console {
    /// Returns the console over an API.
    pub fn new(api: Arc<AdminApi>, settings: ConsoleSettings) -> Console {
        Console(ConsoleState::new(api, settings))
    }

    /// Responds to a request. A failure is a page, too. Notes the facts for the access log in the
    /// [`RequestNotes`] of the request, if it has them.
    pub async fn handle(&self, request: Request<HttpBody>) -> Response<HttpBody> {
        let (head, body) = request.into_parts();
        let notes: RequestNotes = head.extensions.get().cloned().unwrap_or_default();
        notes.note(|served| self.note_claimed(head.uri.path(), served));
        if let Some(asset) = assets::find(head.uri.path()) {
            return asset.respond(&head.method);
        }
        self.respond(&head, body, &notes).await.unwrap_or_else(|error| {
            note_error(&notes, &error);
            let page = layout::problem(&error);
            Reply::page(error.status, page).into_response()
        })
    }

    /// Notes the page and the names of a request that is not handled.
    pub fn note_claimed(&self, path: &str, served: &mut ApiServed) {
        if path == login::PATH {
            served.operation = "ConsoleLogin";
        } else if path == web_login::BEGIN_PATH {
            served.operation = "ConsoleWebLoginBegin";
        } else if path == web_login::CALLBACK_PATH {
            served.operation = "ConsoleWebLogin";
        } else if assets::find(path).is_some() {
            served.operation = "ConsoleAsset";
        } else if let Ok(route) = Route::parse(path) {
            route.note(served);
        }
    }

    async fn respond(
        &self,
        head: &Parts,
        body: HttpBody,
        notes: &RequestNotes,
    ) -> Result<Response<HttpBody>, ApiError> {
        let changes = !matches!(head.method, Method::GET | Method::HEAD);
        if changes {
            origin::check(head)?;
        }
        if head.uri.path() == login::PATH {
            return login::respond(&self.0, head, body, notes).await;
        }
        match head.uri.path() {
            web_login::BEGIN_PATH => return web_login::begin(&self.0, head, notes).await,
            web_login::CALLBACK_PATH => return web_login::finish(&self.0, head, notes).await,
            _ => {}
        }
        let now = self.0.now();
        let ticket = cookies::ticket(&head.headers, origin::is_secure(head));
        let resumed = match ticket {
            Some(ticket) => self.resume(ticket, now),
            None => Err(LoginError::Invalid),
        };
        let (login, authenticated) = match resumed {
            Ok(resumed) => resumed,
            Err(error) if changes => return Err(ApiError::unauthenticated(login::sentence(error))),
            Err(error) => {
                notes.note(|served| served.code = Some("Unauthenticated".into()));
                // A first visit has no ticket, and needs no explanation.
                let error = ticket.map(|_| error);
                return Ok(Reply::redirect(&login::location(head, error)).into_response());
            }
        };
        notes.note(|served| {
            served.requester.clone_from(&authenticated.identity);
            served.proof = Some(SenderProof::Login);
        });
        let id =
            head.extensions.get().map_or_else(|| "-".to_owned(), |id: &RequestId| id.0.clone());
        let origin =
            RequestOrigin { headers: &head.headers, client: head.extensions.get().copied(), now };
        let actor =
            Actor::new(self.0.api.access(), self.0.api.volume(), &authenticated, origin, &id)?;
        let visit = Visit::new(&self.0, actor.noting(notes), &login, head);
        let reply = self.answer(&visit, head, body, changes).await;
        let reply = reply.unwrap_or_else(|error| {
            note_error(notes, &error);
            layout::problem_of(&visit, &error)
        });
        // A download does not renew the ticket: it can end long after a logout. Nor does a page
        // that reads a part of itself again while its person may be away.
        let renews =
            !matches!(reply, Reply::Stream(_)) && !head.headers.contains_key(REFRESH_HEADER);
        let response = reply.into_response();
        Ok(if renews { self.with_ticket(response, &login, head) } else { response })
    }

    /// Returns the login of a ticket. Fails with `Expired` after its logout.
    fn resume(
        &self,
        ticket: &str,
        now: OffsetDateTime,
    ) -> Result<(Login, Authenticated), LoginError> {
        let resumed = self.0.api.access().resume(ticket, now)?;
        if self.has_ended(&resumed.0) { Err(LoginError::Expired) } else { Ok(resumed) }
    }

    fn has_ended(&self, login: &Login) -> bool {
        self.0.ended.has(&self.0.api.access().form_token(login))
    }

    /// Returns the answer to a request of a person who is logged in.
    async fn answer(
        &self,
        visit: &Visit<'_>,
        head: &Parts,
        body: HttpBody,
        changes: bool,
    ) -> Result<Reply, ApiError> {
        if !visit.actor.may_for_itself(policy::AdminAction::ConsoleLogin) {
            return Err(ApiError::denied("admin:ConsoleLogin"));
        }
        let route = Route::parse(head.uri.path())?;
        let notes = visit.actor.notes();
        if let Ok(ObjectQuery { key: Some(key) }) = visit.query() {
            notes.note(|served| served.key = Some(key));
        }
        if !changes {
            return routes::get(visit, &route).await;
        }
        // A script sends the token in a header, because its body is the content of a file.
        let by_header = head.headers.get(forms::TOKEN_HEADER).and_then(|value| value.to_str().ok());
        if let Some(token) = by_header {
            visit.check_token(token)?;
            return routes::script(visit, &route, body).await;
        }
        let form = forms::read(&head.headers, body).await?;
        // The secret fields of a form are not noted.
        notes.note(|served| form.note(served));
        visit.check_token(form.text(forms::TOKEN_FIELD))?;
        let reply = routes::post(visit, &route, &form).await;
        Ok(reply.unwrap_or_else(|error| {
            note_error(notes, &error);
            layout::refused(visit, &error, &form)
        }))
    }

    /// Adds the renewed ticket to a response, so that a login lasts while a person works.
    fn with_ticket(
        &self,
        mut response: Response<HttpBody>,
        login: &Login,
        head: &Parts,
    ) -> Response<HttpBody> {
        // A logout has set the cookie already, or has ended the login during this request.
        if response.headers().contains_key(http::header::SET_COOKIE) || self.has_ended(login) {
            return response;
        }
        match self.0.api.access().ticket(login, self.0.now()) {
            Ok(ticket) => cookies::set(response.headers_mut(), &ticket, origin::is_secure(head)),
            Err(fault) => tracing::warn!(message = %fault.message, "cannot renew a login"),
        }
        response
    }
}

fn note_error(notes: &RequestNotes, error: &ApiError) {
    notes.note(|served| served.code = Some(error.code.clone()));
}
