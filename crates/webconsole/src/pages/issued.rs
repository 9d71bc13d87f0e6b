//! The page that shows a new secret, once.

use adminapi::resources::keys::IssuedKeyJson;
use maud::html;

use crate::layout::{self, Section};
use crate::reply::Reply;
use crate::visit::Visit;

/// Shows an access key with its secret. `back` is the path of the user.
pub(crate) fn show(visit: &Visit<'_>, title: &str, issued: &IssuedKeyJson, back: &str) -> Reply {
    let content = html! {
        p.caution { "Copy the secret now. It cannot be shown again." }
        section.card {
            dl {
                dt { "Access key" }
                dd { input.link readonly value=(issued.access_key) aria-label="Access key" data-copy; }
                dt { "Secret" }
                dd { input.link readonly value=(issued.secret) aria-label="Secret" data-copy; }
                @if let Some(expires) = &issued.expires { dt { "Expires" } dd { (layout::time(expires)) } }
            }
        }
        p { a href=(back) { "Go on" } }
    };
    layout::show(visit, title, Section::None, &content)
}
