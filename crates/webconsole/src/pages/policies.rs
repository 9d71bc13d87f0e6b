//! Policies: the list, the editor, and the check of a document.

use adminapi::page::PageQuery;
use adminapi::resources::policies::{NewPolicy, Validation};
use adminapi::{ApiError, IfMatch};
use maud::{Markup, html};
use policy::AdminAction;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::forms::{Form, SEEN_FIELD};
use crate::layout::{self, Section};
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;

/// The document of the form that makes a policy.
const EXAMPLE: &str = r#"{
  "Version": "2012-10-17",
  "Statement": [
    {
      "Effect": "Allow",
      "Action": ["s3:ListBucket", "s3:GetObject"],
      "Resource": ["arn:aws:s3:::BUCKET", "arn:aws:s3:::BUCKET/*"]
    }
  ]
}"#;

/// The parameters of the list.
#[derive(Debug, Default, Deserialize)]
struct Query {
    page: Option<String>,
}

/// Shows a page of policies.
pub(crate) async fn list(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let Query { page } = visit.query()?;
    let query = PageQuery { page, ..PageQuery::default() };
    let policies = visit.api().policies(&visit.actor, &query).await?;
    let content = html! {
        div.scroll tabindex="0" role="region" aria-label="Policies" {
            table {
                thead { tr { th scope="col" { "Name" } th scope="col" { "Kind" } } }
                tbody {
                    @for policy in &policies.items {
                        tr {
                            th scope="row" { a href={ "/policies/" (escape(&policy.name)) } { (policy.name) } }
                            td { @if policy.built_in { "built in" } @else { "own" } }
                        }
                    }
                }
            }
        }
        p { a href="/simulator" { "Ask the simulator if a user may do an action" } }
        (layout::pager("/policies", query.page.as_deref(), policies.next.as_deref()))
        @if visit.may(AdminAction::CreatePolicy) {
            details.make {
                summary { "Make a policy" }
                form.stack method="post" action="/policies" {
                    (layout::token(visit))
                    label for="name" { "Name" }
                    input #name name="name" required maxlength="64";
                    label for="document" { "The document in the JSON of AWS" }
                    textarea #document name="document" rows="14" spellcheck="false" { (EXAMPLE) }
                    div.actions { button type="submit" { "Save the policy" } }
                }
            }
        }
    };
    Ok(layout::show(visit, "Policies", Section::Policies, &content))
}

/// Shows a policy.
pub(crate) async fn show(visit: &Visit<'_>, name: &str) -> Result<Reply, ApiError> {
    let policy = visit.api().policy(&visit.actor, name).await?;
    let text = policy.document.get();
    let content = if policy.built_in {
        html! {
            p { "The policy is built in and cannot be changed." }
            pre.preview tabindex="0" { (text) }
        }
    } else {
        let seen = adminapi::etag::of_version(policy.version);
        editor(visit, (name, &seen), text, None)
    };
    Ok(layout::show(visit, name, Section::Policies, &content))
}

/// Returns the editor of a policy with this name. `seen` is the entity tag of the state that it
/// shows.
fn editor(
    visit: &Visit<'_>,
    (name, seen): (&str, &str),
    text: &str,
    checked: Option<&Validation>,
) -> Markup {
    html! {
        @if let Some(checked) = checked {
            @match &checked.problem {
                Some(problem) => { p.problem role="alert" { (problem) } }
                None => { p.done role="status" { "The document is a valid policy." } }
            }
            @for hint in &checked.hints { p.caution { (hint) } }
        }
        form.stack method="post" action={ "/policies/" (escape(name)) } {
            (layout::token(visit))
            (layout::seen(seen))
            label for="document" { "The document in the JSON of AWS" }
            textarea #document name="document" rows="20" spellcheck="false" { (text) }
            div.actions {
                @if visit.may(AdminAction::CreatePolicy) {
                    button type="submit" name="action" value="save" { "Save" }
                }
                button.quiet type="submit" name="action" value="check" { "Check" }
                @if visit.may(AdminAction::DeletePolicy) {
                    button.danger type="submit" name="action" value="remove" data-confirm="Remove this policy?" { "Remove" }
                }
            }
        }
    }
}

fn document(form: &Form) -> Result<NewPolicy, ApiError> {
    let document = RawValue::from_string(form.text("document").to_owned());
    let document = document
        .map_err(|error| ApiError::bad_request(format!("The document is not JSON: {error}.")))?;
    Ok(NewPolicy { document })
}

/// Makes a policy.
pub(crate) async fn make(visit: &Visit<'_>, form: &Form) -> Result<Reply, ApiError> {
    let name = form.text("name");
    let (new, any) = (document(form)?, IfMatch::default());
    visit.api().put_policy(&visit.actor, name, &new, &any).await?;
    Ok(Reply::redirect(&format!("/policies/{}?done=policy-saved", escape(name))))
}

/// Saves, checks or removes a policy.
pub(crate) async fn change(visit: &Visit<'_>, name: &str, form: &Form) -> Result<Reply, ApiError> {
    let (api, actor, seen) = (visit.api(), &visit.actor, form.seen());
    match form.text("action") {
        "save" => {
            api.put_policy(actor, name, &document(form)?, &seen).await?;
            Ok(Reply::redirect(&format!("/policies/{}?done=policy-saved", escape(name))))
        }
        "check" => {
            let checked = match document(form) {
                Ok(new) => api.validate_policy(&new),
                Err(error) => {
                    let problem = Some(error.message);
                    Validation { valid: false, problem, hints: Vec::new() }
                }
            };
            let content = editor(
                visit,
                (name, form.text(SEEN_FIELD)),
                form.exact("document"),
                Some(&checked),
            );
            Ok(layout::show(visit, name, Section::Policies, &content))
        }
        "remove" => {
            api.delete_policy(actor, name, &seen).await?;
            Ok(Reply::redirect("/policies?done=policy-removed"))
        }
        _ => Err(ApiError::bad_request("The form has no such action.")),
    }
}
