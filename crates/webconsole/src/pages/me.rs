//! The own access of a person: the login, the keys and the rights.

use adminapi::ApiError;
use maud::html;

use super::user;
use crate::forms::Form;
use crate::layout::{self, Section};
use crate::reply::Reply;
use crate::visit::Visit;

/// Shows the page.
pub(crate) async fn show(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let me = visit.api().me(&visit.actor);
    // The operator's own key and web identities have no record of a user.
    let details = visit.api().user(&visit.actor, visit.actor.user()).await.ok();
    let content = html! {
        section.card {
            h2 { "This login" }
            dl {
                dt { "Access key" } dd { code { (me.access_key) } }
                dt { "Account" } dd { code { (me.account) } }
                @if me.root { dt { "Rights" } dd { "the key of the operator: everything" } }
                @if let Some(details) = &details {
                    dt { "Policies in force" } dd { (details.effective_policies.join(", ")) }
                }
            }
        }
        @if let Some(details) = &details { (user::keys(visit, "/me", details)) }
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

/// Carries out a form about an own key.
pub(crate) async fn change(visit: &Visit<'_>, form: &Form) -> Result<Reply, ApiError> {
    user::change_key(visit, (visit.actor.user(), "/me"), form).await
}
