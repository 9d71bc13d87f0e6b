//! The own access of a person.

use adminapi::ApiError;
use maud::html;

use crate::layout::{self, Section};
use crate::reply::Reply;
use crate::visit::Visit;

/// Shows the page.
#[expect(clippy::unnecessary_wraps, reason = "the form of all pages")]
pub(crate) fn show(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let me = visit.api().me(&visit.actor);
    let content = html! {
        section.card {
            h2 { "This login" }
            dl {
                dt { "Access key" } dd { code { (me.access_key) } }
                dt { "Account" } dd { code { (me.account) } }
                @if me.root { dt { "Rights" } dd { "the key of the operator: everything" } }
            }
        }
        section.card {
            h2 { "Administrative actions" }
            @if me.actions.is_empty() {
                p { "Your policies allow none." }
            } @else {
                ul.columns { @for action in &me.actions { li { code { (action) } } } }
            }
        }
    };
    Ok(layout::show(visit, "My access", Section::Me, &content))
}
