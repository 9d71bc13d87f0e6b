//! Live requests: each request when it ends.

use adminapi::ApiError;
use adminapi::resources::live::StreamQuery;
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use maud::html;

use crate::layout::{self, Section};
use crate::reply::Reply;
use crate::visit::Visit;

/// Shows the page. Its script reads the events and adds a row for each.
pub(crate) fn show(visit: &Visit<'_>) -> Reply {
    let content = html! {
        p { "Each request to this gateway when it ends: of S3 clients, of the API and of the console. The page keeps the last 200." }
        p #trace-state role="status" { "Waiting for requests." }
        div.scroll tabindex="0" role="region" aria-label="Live requests" {
            table data-trace="/events?topics=trace" {
                thead { tr {
                    th scope="col" { "Time" } th scope="col" { "Operation" }
                    th scope="col" { "Bucket and key" } th scope="col" { "By" }
                    th scope="col" { "From" } th scope="col" { "Status" }
                    th scope="col" { "Duration" }
                } }
                tbody {}
            }
        }
    };
    layout::show(visit, "Live requests", Section::Trace, &content)
}

/// Returns the stream of events that the script reads.
pub(crate) fn events(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let query: StreamQuery = visit.query()?;
    let mut response = Response::new(visit.api().stream(&visit.actor, &query)?);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(Reply::Stream(Box::new(response)))
}
