//! The page of the login, and the end of one.
//!
//! For example, a person who opens `/buckets/photos` without a login is sent to
//! `/login?next=%2Fbuckets%2Fphotos` and comes back after the login.

use adminapi::{ApiError, RequestNotes, SenderProof};
use gateway::{HttpBody, Place};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use identity::{Login, LoginError};
use maud::{Markup, html};
use serde::Deserialize;

use crate::paths::escape;
use crate::reply::Reply;
use crate::state::ConsoleState;
use crate::visit::Visit;
use crate::{cookies, forms, layout, origin};

/// The path of the page.
pub(crate) const PATH: &str = "/login";

/// The path that leads to the page of an OpenID issuer.
pub(crate) const WEB_PATH: &str = "/login/openid";

/// The limit of the form of a login in bytes. Its sender is not known yet.
const FORM_BYTES_MAX: usize = 4 << 10;

/// The parameters of the page.
#[derive(Debug, Default, Deserialize)]
struct Query {
    /// The path to open after the login.
    next: Option<String>,
    /// The reason for which the last login ended.
    ended: Option<String>,
}

/// Returns the path of the page for a person who opens another one without a login. `error` is the
/// reason why its ticket is refused.
pub(crate) fn location(head: &Parts, error: Option<LoginError>) -> String {
    let wanted = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let mut location = format!("{PATH}?next={}", escape(wanted));
    match error {
        None | Some(LoginError::Invalid) => {}
        Some(LoginError::Expired) => location.push_str("&ended=expired"),
        Some(LoginError::Changed) => location.push_str("&ended=changed"),
    }
    location
}

/// Returns the sentence about a refused ticket.
pub(crate) fn sentence(error: LoginError) -> &'static str {
    match error {
        LoginError::Invalid => "You are not logged in.",
        LoginError::Expired => "Your login has expired. Log in again.",
        LoginError::Changed => "Your access key has changed or was disabled. Log in again.",
    }
}

/// Answers a request for the page: shows it, or begins a login.
pub(crate) async fn respond(
    state: &ConsoleState,
    head: &Parts,
    body: HttpBody,
    notes: &RequestNotes,
) -> Result<Response<HttpBody>, ApiError> {
    let query = head.uri.query().unwrap_or_default();
    let query: Query = serde_urlencoded::from_str(query).unwrap_or_default();
    match head.method {
        Method::GET | Method::HEAD => {
            let ended = match query.ended.as_deref() {
                Some("expired") => Some(sentence(LoginError::Expired)),
                Some("changed") => Some(sentence(LoginError::Changed)),
                Some(_) | None => None,
            };
            let page = page(state, query.next.as_deref(), ended);
            Ok(Reply::page(StatusCode::OK, page).into_response())
        }
        Method::POST => begin(state, head, body, &query, notes).await,
        _ => Err(ApiError::bad_request("The login page has the methods GET and POST.")),
    }
}

async fn begin(
    state: &ConsoleState,
    head: &Parts,
    body: HttpBody,
    query: &Query,
    notes: &RequestNotes,
) -> Result<Response<HttpBody>, ApiError> {
    let address = origin::client(head);
    let next = query.next.as_deref();
    let refused = |status, code: &'static str, why: &str| {
        notes.note(|served| served.code = Some(code.into()));
        Reply::page(status, page(state, next, Some(why))).into_response()
    };
    // Before the body is read and a secret compared.
    if !state.throttle.admits(address) {
        let why = "There were too many failed logins from your address. Wait a minute.";
        return Ok(refused(StatusCode::TOO_MANY_REQUESTS, "SlowDown", why));
    }
    // The sender is not known yet, so it holds no place among the requests in flight.
    let fields = forms::read_within(&head.headers, body, FORM_BYTES_MAX);
    let form = Place::without(head.extensions.get(), fields).await.map_err(|_slow_down| {
        let message = "Too many requests. Try again.";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "SlowDown", message)
    })??;
    let (key, secret) = (form.text("access_key"), form.exact("secret"));
    // Once more, because many logins could have waited for their bodies.
    if !state.throttle.admits_key(address, key) {
        notes.note(|served| served.claimed_key = Some(shortened(key)));
        let why = "There were too many failed logins with this access key. Wait a minute.";
        return Ok(refused(StatusCode::TOO_MANY_REQUESTS, "SlowDown", why));
    }
    let access = state.api.access();
    let login = access.log_in(key, secret, state.now()).map_err(ApiError::from)?;
    let Some(login) = login else {
        state.throttle.failed(address, key);
        notes.note(|served| served.claimed_key = Some(shortened(key)));
        let why = "The access key or the secret is wrong.";
        return Ok(refused(StatusCode::FORBIDDEN, "WrongLogin", why));
    };
    let ticket = ticket(state, &login, notes)?;
    let mut response = Reply::redirect(local(next)).into_response();
    cookies::set(response.headers_mut(), &ticket, origin::is_secure(head));
    Ok(response)
}

/// Returns the ticket of a new login, and notes its sender as that of this request.
pub(crate) fn ticket(
    state: &ConsoleState,
    login: &Login,
    notes: &RequestNotes,
) -> Result<String, ApiError> {
    let access = state.api.access();
    let ticket = access.ticket(login, state.now()).map_err(ApiError::from)?;
    if let Ok((_, authenticated)) = access.resume(&ticket, state.now()) {
        notes.note(|served| {
            served.requester = authenticated.identity;
            served.proof = Some(SenderProof::Login);
        });
    }
    Ok(ticket)
}

/// Returns the beginning of a text of a client for the log.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(128).collect()
}

/// Ends the login of a person.
pub(crate) fn end(visit: &Visit<'_>) -> Reply {
    visit.state.ended.end(visit.form_token.clone());
    let mut response = Reply::redirect(PATH).into_response();
    cookies::remove(response.headers_mut());
    Reply::Stream(Box::new(response))
}

/// Returns the path to open after the login. A path of another host, such as `//evil.example`, is
/// the first page instead.
pub(crate) fn local(next: Option<&str>) -> &str {
    // Browsers drop tabs and line ends of a path, so `/<tab>/evil.example` is refused, too.
    let is_plain = |next: &&str| next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    next.filter(|next| next.starts_with('/') && !next.starts_with("//"))
        .filter(is_plain)
        .unwrap_or("/")
}

fn page(state: &ConsoleState, next: Option<&str>, problem: Option<&str>) -> Markup {
    let action =
        next.map_or_else(|| PATH.to_owned(), |next| format!("{PATH}?next={}", escape(next)));
    layout::bare(
        "Log in",
        &html! {
            @if let Some(problem) = problem {
                p.problem role="alert" { (problem) }
            }
            form.stack method="post" action=(action) {
                label for="access_key" { "Access key" }
                input #access_key name="access_key" required autocomplete="username" autofocus;
                label for="secret" { "Secret" }
                input #secret name="secret" type="password" required autocomplete="current-password";
                button type="submit" { "Log in" }
            }
            p.hint { "The access key and the secret are those of S3 clients." }
            (web_logins(state, next))
        },
    )
}

/// Returns the links to the issuers at which people can log in. They are links and no form, because
/// the policy of the pages allows forms to lead to this console alone.
fn web_logins(state: &ConsoleState, next: Option<&str>) -> Markup {
    let offered = state.api.access().web_logins();
    html! {
        @for offer in &offered {
            @let role = escape(&offer.role);
            p {
                a.button href={ (WEB_PATH) "?role=" (role) "&next=" (escape(local(next))) } {
                    "Log in with " (offer.label)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
