//! The lifecycle rules of a bucket.

use adminapi::ApiError;
use adminapi::resources::bucket_documents::BucketDocumentKind;
use maud::html;
use serde_json::{Value, json};

use super::bucket_frame::{Tab, page};
use super::document_editor::{editor, parse};
use crate::forms::Form;
use crate::layout;
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;

/// Shows the lifecycle rules of a bucket.
pub(crate) async fn show(visit: &Visit<'_>, bucket: &str) -> Result<Reply, ApiError> {
    let found = visit.api().bucket(&visit.actor, bucket).await?;
    let kind = BucketDocumentKind::Lifecycle;
    let rules = visit.api().document_if_set(&visit.actor, bucket, kind).await;
    let path = format!("/buckets/{}/lifecycle", escape(bucket));
    let content = html! {
        section.card {
            h2 { "Add a rule" }
            form.stack method="post" action=(path) {
                (layout::token(visit))
                label for="prefix" { "Keys begin with (empty for all objects)" }
                input #prefix name="prefix";
                label for="days" { "Delete objects after this number of days" }
                input #days name="days" type="number" min="1";
                label for="noncurrent_days" { "Delete noncurrent versions after this number of days" }
                input #noncurrent_days name="noncurrent_days" type="number" min="1";
                label for="abort_days" { "Abort unfinished uploads after this number of days" }
                input #abort_days name="abort_days" type="number" min="1";
                button type="submit" name="action" value="add" { "Add the rule" }
            }
        }
        section.card {
            h2 { "All rules" }
            (editor(visit, &path, "lifecycle", "The rules in the form of the AWS CLI", &rules))
        }
    };
    Ok(page(visit, &found, Tab::Lifecycle, &content))
}

/// Changes the lifecycle rules of a bucket.
pub(crate) async fn change(
    visit: &Visit<'_>,
    bucket: &str,
    form: &Form,
) -> Result<Reply, ApiError> {
    let (api, actor, seen) = (visit.api(), &visit.actor, form.seen());
    let (kind, path) =
        (BucketDocumentKind::Lifecycle, format!("/buckets/{}/lifecycle", escape(bucket)));
    let document = match form.text("action") {
        "delete-lifecycle" => {
            api.delete_document(actor, bucket, kind, &seen).await?;
            return Ok(Reply::redirect(&format!("{path}?done=removed")));
        }
        "put-lifecycle" => parse(form.text("lifecycle"))?,
        "add" => {
            let known = api.document_if_set(actor, bucket, kind).await?;
            let mut known = known.unwrap_or_else(|| json!({ "Rules": [] }));
            let rule = rule(form)?;
            if let Some(rules) = known.get_mut("Rules").and_then(Value::as_array_mut) {
                rules.push(rule);
            }
            known
        }
        _ => return Err(ApiError::bad_request("The form has no such action.")),
    };
    api.put_document(actor, bucket, kind, &document, &seen).await?;
    Ok(Reply::redirect(&format!("{path}?done=saved")))
}

/// Returns the rule of the form.
fn rule(form: &Form) -> Result<Value, ApiError> {
    let mut rule = json!({
        "Status": "Enabled",
        "Filter": { "Prefix": form.exact("prefix") },
    });
    if let Some(days) = form.number("days")? {
        rule["Expiration"] = json!({ "Days": days });
    }
    if let Some(days) = form.number("noncurrent_days")? {
        rule["NoncurrentVersionExpiration"] = json!({ "NoncurrentDays": days });
    }
    if let Some(days) = form.number("abort_days")? {
        rule["AbortIncompleteMultipartUpload"] = json!({ "DaysAfterInitiation": days });
    }
    Ok(rule)
}
