//! The gateways and mounts that have the volume open.

use adminapi::ApiError;
use adminapi::page::PageQuery;
use adminapi::resources::sessions::SessionJson;
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
    let own = visit.api().version().version;
    let is_other = |session: &SessionJson| !session.version.is_empty() && session.version != own;
    let old_mounts = sessions.items.iter().any(|it| it.kind == "mount" && is_other(it));
    let content = html! {
        @if old_mounts {
            p.caution { "A mount runs another version than this gateway. On its machine, " code { "ashlar mount --replace" } " changes the program without an interruption of its files." }
        }
        div.scroll tabindex="0" role="region" aria-label="Gateways and mounts" {
            table {
                thead {
                    tr {
                        th scope="col" { "Host and process" }
                        th scope="col" { "Kind" }
                        th scope="col" { "Version" }
                        th scope="col" { "Serves" }
                        th scope="col" { "Began" }
                        th scope="col" { "Reads from memory" }
                        th scope="col" { "Session" }
                    }
                }
                tbody {
                    @for session in &sessions.items {
                        tr {
                            th scope="row" { (session.place) }
                            td { (session.kind) }
                            td {
                                (session.version)
                                @if is_other(session) { " " span class="badge" { "another version" } }
                            }
                            td {
                                @for address in &session.addresses { span.item { (address) } }
                                @if !session.folder.is_empty() { span.item { "mount on " code { (session.folder) } } }
                                @if !session.subdirectory.is_empty() { span.item { "of " code { (session.subdirectory) } } }
                            }
                            td { (layout::time(&session.began)) }
                            td { (session.reads_from_memory) }
                            td { code { (session.id) } }
                        }
                    }
                }
            }
        }
    };
    Ok(layout::show(visit, "Gateways and mounts", Section::Gateways, &content))
}
