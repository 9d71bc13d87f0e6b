//! The editor of a JSON document that configures a bucket.

use adminapi::ApiError;
use maud::{Markup, html};
use serde_json::Value;

use crate::layout;
use crate::visit::Visit;

/// Returns a document as text for an editor.
fn pretty(document: &Value) -> String {
    serde_json::to_string_pretty(document).unwrap_or_default()
}

/// Parses the text of an editor. Fails with `BadRequest` if it is not JSON.
pub(crate) fn parse(text: &str) -> Result<Value, ApiError> {
    serde_json::from_str(text)
        .map_err(|error| ApiError::bad_request(format!("The document is not JSON: {error}.")))
}

/// Returns the editor of a document. `name` is its field, and the beginning of its actions.
pub(crate) fn editor(
    visit: &Visit<'_>,
    path: &str,
    name: &str,
    label: &str,
    document: &Result<Option<Value>, ApiError>,
) -> Markup {
    match document {
        Err(error) => layout::notice(error),
        Ok(document) => html! {
            form.stack method="post" action=(path) {
                (layout::token(visit))
                (layout::seen(&adminapi::etag::of(document).unwrap_or_default()))
                label for=(name) { (label) }
                textarea #(name) name=(name) rows="12" spellcheck="false" {
                    (document.as_ref().map(pretty).unwrap_or_default())
                }
                div.actions {
                    button type="submit" name="action" value={ "put-" (name) } { "Save" }
                    @if document.is_some() {
                        button.quiet type="submit" name="action" value={ "delete-" (name) } data-confirm="Remove this setting?" { "Remove" }
                    }
                }
            }
        },
    }
}
