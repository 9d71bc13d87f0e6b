//! The overview: the state of the stores, and warnings with their remedies.

use adminapi::ApiError;
use adminapi::resources::activity::ActivityQuery;
use adminapi::resources::status::{Severity, StoreCondition, StoreStatus};
use maud::{Markup, html};

use crate::layout::{self, Section};
use crate::reply::Reply;
use crate::visit::Visit;

/// Shows the page.
pub(crate) async fn show(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let status = visit.api().status(&visit.actor).await?;
    let activity =
        |seconds| visit.api().activity(&visit.actor, ActivityQuery { seconds: Some(seconds) });
    let (hour, minute) = (activity(3_600)?, activity(60)?);
    let content = html! {
        @if status.warnings.is_empty() {
            p.done role="status" { "Both stores answer, and nothing needs your attention." }
        }
        @for warning in &status.warnings {
            div class=(match warning.severity { Severity::Error => "problem", Severity::Warning => "caution" }) {
                p { strong { (warning.problem) } }
                p { (warning.remedy) }
            }
        }
        div.cards {
            section.card {
                h2 { "This gateway" }
                dl {
                    dt { "Version" } dd { (status.version) }
                    dt { "Running for" } dd { (duration(status.uptime_seconds)) }
                    dt { "Session" } dd { (status.volume.session) }
                }
            }
            section.card { h2 { "Metadata store" } (store(&status.metadata)) }
            section.card { h2 { "Block store" } (store(&status.blocks)) }
            section.card {
                h2 { "Volume" }
                dl {
                    dt { "Id" } dd { code { (status.volume.id) } }
                    dt { "Block size" } dd { (crate::layout::bytes(status.volume.block_bytes.into())) }
                }
            }
        }
        (super::activity::card(&hour, &minute))
    };
    Ok(layout::show(visit, "Overview", Section::Overview, &content))
}

fn store(status: &StoreStatus) -> Markup {
    let (class, name) = match status.state {
        StoreCondition::Ok => ("badge good", "ok"),
        StoreCondition::Full => ("badge bad", "full"),
        StoreCondition::Failing => ("badge bad", "not reachable"),
    };
    html! {
        dl {
            dt { "State" } dd { span class=(class) { (name) } }
            dt { "Place" } dd { code { (status.place) } }
            @if let Some(durability) = &status.durability {
                dt { "Durability" } dd { (durability) }
            }
        }
    }
}

/// Returns a duration for people, in its two largest units.
fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}
