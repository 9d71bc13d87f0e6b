//! Answers of the console before they become responses.

use bytes::Bytes;
use gateway::{HttpBody, InMemory};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, LOCATION};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use maud::Markup;
use serde_json::Value;

/// An answer.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A page.
    Page(StatusCode, Markup),
    /// A redirect to a path of the console, after a change or a login.
    Redirect(String),
    /// A JSON document for the script.
    Json(Value),
    /// No content, for the script.
    Done,
    /// A response that streams content of an object.
    Stream(Box<Response<HttpBody>>),
}

impl Reply {
    pub(crate) fn page(status: StatusCode, page: Markup) -> Reply {
        Reply::Page(status, page)
    }

    /// Returns a redirect. `to` is a path of this console.
    pub(crate) fn redirect(to: &str) -> Reply {
        Reply::Redirect(to.to_owned())
    }

    pub(crate) fn into_response(self) -> Response<HttpBody> {
        match self {
            Reply::Page(status, page) => {
                with_body(status, "text/html; charset=utf-8", page.into_string().into())
            }
            Reply::Redirect(to) => {
                let mut response = with_body(StatusCode::SEE_OTHER, "text/plain", Bytes::new());
                // A path that no header can hold leads to the first page.
                let to = HeaderValue::from_str(&to).unwrap_or(HeaderValue::from_static("/"));
                response.headers_mut().insert(LOCATION, to);
                response
            }
            Reply::Json(value) => {
                with_body(StatusCode::OK, "application/json", value.to_string().into())
            }
            Reply::Done => with_body(StatusCode::NO_CONTENT, "text/plain", Bytes::new()),
            Reply::Stream(response) => *response,
        }
    }
}

fn with_body(status: StatusCode, kind: &'static str, body: Bytes) -> Response<HttpBody> {
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.extensions_mut().insert(InMemory);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // A page shows what one person may see, so no cache may keep it.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
