//! Logins at an OpenID issuer: the way to its page, and the return.
//!
//! For example, a person presses "Log in with Keycloak". The console sets a cookie with the sealed
//! attempt and redirects the browser to the issuer. The issuer redirects it to `/login/callback`
//! with a code and the `state` of the attempt, and the console sets the cookie of the login.
//!
//! The invariant: only the browser that began a login can finish it, within ten minutes and once.
//! So no other site can log a person in as another user, and a code in a log is worth nothing.

use std::borrow::Cow;

use adminapi::{ApiError, RequestNotes};
use gateway::HttpBody;
use http::header::{HeaderValue, REFERRER_POLICY};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use identity::{CodeError, FinishedWebLogin, ProviderError, WebLoginAttempt, WebLoginError};
use maud::{Markup, html};
use serde::Deserialize;

use crate::reply::Reply;
use crate::state::ConsoleState;
use crate::{cookies, layout, login, origin};

/// The path that leads to the page of an issuer.
pub(crate) const BEGIN_PATH: &str = login::WEB_PATH;

/// The path to which the issuer sends the browser back.
pub(crate) const CALLBACK_PATH: &str = "/login/callback";

/// The failed logins of all issuers count together, beside those of the client's address.
const THROTTLE_KEY: &str = "";

#[derive(Debug, Default, Deserialize)]
struct BeginQuery {
    role: Option<String>,
    next: Option<String>,
}

/// The parameters with which a browser returns. Its sender can be any site.
#[derive(Debug, Default, Deserialize)]
struct CallbackQuery {
    state: Option<String>,
    code: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
    /// The URL of the issuer (RFC 9207).
    iss: Option<String>,
}

/// The reason why a login at an issuer is refused.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// The address of the client has too many failed logins.
    Throttled,
    /// The query is malformed.
    Query,
    /// The browser returned with another `state` than that of its attempt.
    State,
    /// The attempt has been used already.
    Used,
    /// The issuer refuses the login.
    Provider(ProviderError),
    /// The login fails for another reason.
    Failed(WebLoginError),
}

impl From<WebLoginError> for Refusal {
    fn from(error: WebLoginError) -> Refusal {
        if let WebLoginError::Issuer(CodeError::Refused(said)) = error {
            return Refusal::Provider(said);
        }
        Refusal::Failed(error)
    }
}

/// Sends a browser to the page of an issuer.
pub(crate) async fn begin(
    state: &ConsoleState,
    head: &Parts,
    notes: &RequestNotes,
) -> Result<Response<HttpBody>, ApiError> {
    check_method(head)?;
    let query = head.uri.query().unwrap_or_default();
    let query: BeginQuery = serde_urlencoded::from_str(query).unwrap_or_default();
    let role = query.role.unwrap_or_default();
    notes.note(|served| served.set_resource("role", &login::shortened(&role)));
    let next = login::local(query.next.as_deref());
    match state.api.access().begin_web_login(&role, next, state.now()).await {
        Ok(begun) => {
            let mut response = Reply::redirect(&begun.location).into_response();
            let is_secure = origin::is_secure(head);
            cookies::set_attempt(response.headers_mut(), begun.cookie.expose(), is_secure);
            Ok(response)
        }
        Err(error) => Ok(refused(&error.into(), notes)),
    }
}

/// Finishes the login of a browser that returns from an issuer.
pub(crate) async fn finish(
    state: &ConsoleState,
    head: &Parts,
    notes: &RequestNotes,
) -> Result<Response<HttpBody>, ApiError> {
    check_method(head)?;
    let mut response = answer(state, head, notes).await?;
    // The path of this request has the code, which the next request must not repeat.
    let policy = HeaderValue::from_static("no-referrer");
    response.headers_mut().insert(REFERRER_POLICY, policy);
    Ok(response)
}

async fn answer(
    state: &ConsoleState,
    head: &Parts,
    notes: &RequestNotes,
) -> Result<Response<HttpBody>, ApiError> {
    let address = origin::client(head);
    if !state.throttle.admits(address) {
        return Ok(refused(&Refusal::Throttled, notes));
    }
    let finished = match returned(state, head, notes).await {
        Ok(finished) => finished,
        Err(refusal) => {
            state.throttle.failed(address, THROTTLE_KEY);
            let mut response = refused(&refusal, notes);
            // Another site can send a browser here with any state, and must not end its login.
            if refusal != Refusal::State {
                cookies::remove_attempt(response.headers_mut());
            }
            return Ok(response);
        }
    };
    let (attempt, finished) = finished;
    notes.note(|served| {
        served.set_resource("subject", &finished.subject);
        served.set_resource("policies", &finished.policies.join(","));
    });
    let ticket = login::ticket(state, &finished.login, notes).map_err(too_large)?;
    let next = login::local(Some(attempt.next()));
    let mut response = Reply::page(StatusCode::OK, layout::leading_to(next)).into_response();
    cookies::remove_attempt(response.headers_mut());
    cookies::set(response.headers_mut(), &ticket, origin::is_secure(head));
    Ok(response)
}

/// Checks the return of a browser, spends its attempt, and exchanges the code.
async fn returned(
    state: &ConsoleState,
    head: &Parts,
    notes: &RequestNotes,
) -> Result<(WebLoginAttempt, FinishedWebLogin), Refusal> {
    let query = head.uri.query().unwrap_or_default();
    // A parameter that is there twice is an error, too.
    let query: CallbackQuery = serde_urlencoded::from_str(query).map_err(|_| Refusal::Query)?;
    let access = state.api.access();
    let cookie = cookies::attempt(&head.headers, origin::is_secure(head));
    let attempt = access.open_web_login(cookie.unwrap_or_default(), state.now())?;
    notes.note(|served| served.set_resource("role", attempt.role()));
    // Before any text of the query is shown, because every site can send a browser here.
    if !attempt.has_state(&query.state.unwrap_or_default()) {
        return Err(Refusal::State);
    }
    if !state.ended_attempts.end(attempt.state().to_owned()) {
        return Err(Refusal::Used);
    }
    if let Some(error) = query.error {
        let said = query.error_description.unwrap_or_default();
        return Err(Refusal::Provider(ProviderError::new(&error, &said)));
    }
    let (code, issuer) = (query.code.unwrap_or_default(), query.iss.as_deref());
    // Boxed, because the future of a fetch is large.
    let finishing = Box::pin(access.finish_web_login(&attempt, &code, issuer, state.now()));
    let finished = finishing.await?;
    Ok((attempt, finished))
}

fn check_method(head: &Parts) -> Result<(), ApiError> {
    if head.method == Method::GET {
        return Ok(());
    }
    Err(ApiError::bad_request("The login at an issuer has the method GET."))
}

/// Adds the remedy to the error `PackedPolicyTooLarge`: the ticket does not fit into a cookie.
/// Returns other errors unchanged.
fn too_large(error: ApiError) -> ApiError {
    if error.code != "PackedPolicyTooLarge" {
        return error;
    }
    let why = "The token has too many claims for a cookie. The operator can keep fewer: see `claims` \
               and `require` of the [[openid]] table.";
    ApiError { detail: Some(why.to_owned()), ..error }
}

/// Returns the page of a refused login.
fn refused(refusal: &Refusal, notes: &RequestNotes) -> Response<HttpBody> {
    if let Refusal::Failed(WebLoginError::Issuer(CodeError::Unreachable(why))) = refusal {
        // The text can name addresses of the operator's network, so the page does not show it.
        tracing::warn!(why, "a login failed because its OpenID issuer cannot be used");
    }
    let code = refusal.code();
    notes.note(|served| served.code = Some(code.clone()));
    let content = html! {
        div.problem role="alert" {
            p { strong { (refusal.sentence()) } }
            (refusal.said())
            p.code { (code) }
        }
        p { (refusal.remedy()) }
        p { a.button href=(login::PATH) { "Go to the login" } }
    };
    Reply::page(refusal.status(), layout::bare("The login failed", &content)).into_response()
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Refusal::Throttled => StatusCode::TOO_MANY_REQUESTS,
            Refusal::State | Refusal::Used | Refusal::Provider(_) => StatusCode::FORBIDDEN,
            Refusal::Query => StatusCode::BAD_REQUEST,
            Refusal::Failed(error) => match error {
                WebLoginError::NoLogin => StatusCode::NOT_FOUND,
                WebLoginError::NotBegun | WebLoginError::Late | WebLoginError::Code => {
                    StatusCode::BAD_REQUEST
                }
                WebLoginError::Issuer(CodeError::Unreachable(_)) => StatusCode::BAD_GATEWAY,
                WebLoginError::OtherIssuer | WebLoginError::Issuer(_) => StatusCode::FORBIDDEN,
                WebLoginError::Refused(fault) => fault.status(),
            },
        }
    }

    /// Returns the code for the page and the access log.
    fn code(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Refusal::Throttled => "SlowDown",
            Refusal::Query => "BadRequest",
            Refusal::State => "WrongState",
            Refusal::Used => "LoginUsed",
            Refusal::Provider(_) => "ProviderRefused",
            Refusal::Failed(error) => match error {
                WebLoginError::NoLogin => "NoSuchLogin",
                WebLoginError::NotBegun => "LoginNotBegun",
                WebLoginError::Late => "LoginExpired",
                WebLoginError::OtherIssuer => "WrongIssuer",
                WebLoginError::Code => "NoCode",
                WebLoginError::Issuer(error) => match error {
                    CodeError::Unreachable(_) => "ProviderUnreachable",
                    CodeError::Refused(_) => "ProviderRefused",
                    CodeError::Token(_) => "InvalidIdentityToken",
                    CodeError::Nonce => "WrongNonce",
                    CodeError::Party => "WrongParty",
                },
                WebLoginError::Refused(fault) => fault.code.as_str(),
            },
        })
    }

    fn sentence(&self) -> &'static str {
        match self {
            Refusal::Throttled => "There were too many failed logins from your address.",
            Refusal::Query => "The answer of the provider is malformed.",
            Refusal::State => "The answer of the provider belongs to another login.",
            Refusal::Used => "This login has been used already.",
            Refusal::Provider(_) => "The provider refused the login.",
            Refusal::Failed(error) => match error {
                WebLoginError::NoLogin => "There is no such login.",
                WebLoginError::NotBegun => "The login was not begun in this browser.",
                WebLoginError::Late => "The login took more than 10 minutes.",
                WebLoginError::OtherIssuer => "The answer comes from another provider.",
                WebLoginError::Code => "The provider sent no usable code.",
                WebLoginError::Issuer(error) => match error {
                    CodeError::Unreachable(_) => "The provider does not answer as it should.",
                    CodeError::Refused(_) => "The provider refused the login.",
                    CodeError::Token(_) => "The token of the provider is refused.",
                    CodeError::Nonce => "The token of the provider belongs to another login.",
                    CodeError::Party => "The token of the provider is for another application.",
                },
                WebLoginError::Refused(_) => "The provider knows you, but this login is refused.",
            },
        }
    }

    /// Returns the words of the provider or of the fault.
    fn said(&self) -> Markup {
        match self {
            Refusal::Provider(said) => html! {
                p { code { (said.code) } }
                @if !said.description.is_empty() { p { (said.description) } }
            },
            Refusal::Failed(WebLoginError::Refused(fault)) => html! {
                p { (fault.message) }
                @if let Some(detail) = &fault.detail { p { (detail) } }
            },
            Refusal::Throttled
            | Refusal::Query
            | Refusal::State
            | Refusal::Used
            | Refusal::Failed(_) => html! {},
        }
    }

    /// Returns the next step of the person.
    fn remedy(&self) -> &'static str {
        match self {
            Refusal::Throttled => "Wait a minute, then log in again.",
            Refusal::State => {
                "If you have not logged in yourself just now, another site has sent you here, and you \
                 can close this page. Otherwise log in again."
            }
            Refusal::Provider(said) => match said.code.as_str() {
                "access_denied" | "interaction_required" | "consent_required" => {
                    "Log in again and confirm the access, or ask the administrator of the provider for \
                     an assignment to this application."
                }
                "invalid_client" | "unauthorized_client" | "invalid_scope" | "invalid_request" => {
                    "The operator must compare client_id, client_secret_file, redirect_url and scopes \
                     of the [[openid]] table with the client at the provider."
                }
                _ => "Log in again. If it fails again, ask the administrator of the provider.",
            },
            Refusal::Failed(WebLoginError::NotBegun) => {
                "Begin at the login page of this console, at the address that the provider sends you \
                 back to, and allow cookies."
            }
            Refusal::Failed(WebLoginError::Issuer(CodeError::Unreachable(_))) => {
                "Try again. If it fails again, the log of the gateway has the reason."
            }
            Refusal::Failed(WebLoginError::Refused(_)) => {
                "Ask the operator of this volume for a role and policies."
            }
            Refusal::Query | Refusal::Used | Refusal::Failed(_) => "Log in again.",
        }
    }
}

#[cfg(test)]
mod tests;
