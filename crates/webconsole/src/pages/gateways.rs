//! The gateways and mounts that have the volume open.

use adminapi::ApiError;
use adminapi::page::PageQuery;
use maud::html;

use crate::layout::{self, Section};
use crate::reply::Reply;
use crate::visit::Visit;

/// The limit of sessions on the page.
const SHOWN_MAX: u32 = 1_000;

/// Shows the page.
pub(crate) async fn list(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let query = PageQuery { limit: Some(SHOWN_MAX), ..PageQuery::default() };
    let sessions = visit.api().sessions(&visit.actor, &query).await?;
    let content = html! {
        div.scroll tabindex="0" role="region" aria-label="Gateways and mounts" {
            table {
                thead {
                    tr {
                        th scope="col" { "Host and process" }
                        th scope="col" { "Session" }
                        th scope="col" { "Began" }
                        th scope="col" { "Reads from memory" }
                        th scope="col" { "Addresses" }
                    }
                }
                tbody {
                    @for session in &sessions.items {
                        tr {
                            th scope="row" { (session.place) }
                            td { code { (session.id) } }
                            td { (layout::time(&session.began)) }
                            td { (session.reads_from_memory) }
                            td { @for address in &session.reach { span.item { (address) } } }
                        }
                    }
                }
            }
        }
    };
    Ok(layout::show(visit, "Gateways and mounts", Section::Gateways, &content))
}
