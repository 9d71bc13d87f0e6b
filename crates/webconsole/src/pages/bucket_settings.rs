//! The quota and the tags of a bucket, and its deletion.

use adminapi::ApiError;
use adminapi::resources::bucket_documents::BucketDocumentKind;
use adminapi::resources::quota::QuotaJson;
use maud::html;
use policy::AdminAction;
use s3::BucketName;

use super::bucket_frame::{Tab, page};
use super::document_editor::{editor, parse};
use crate::forms::Form;
use crate::layout;
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;

/// Shows the page.
pub(crate) async fn show(visit: &Visit<'_>, bucket: &str) -> Result<Reply, ApiError> {
    let found = visit.api().bucket(&visit.actor, bucket).await?;
    let path = format!("/buckets/{}/settings", escape(bucket));
    let tags = BucketDocumentKind::Tags;
    let tags = visit.api().document_if_set(&visit.actor, bucket, tags).await;
    let name = BucketName::parse(bucket)?;
    let may_set_quota = visit.actor.may(AdminAction::SetBucketQuota, Some(&name));
    let content = html! {
        section.card {
            h2 { "Quota" }
            p { "Used: " (layout::bytes(found.bytes)) " in " (found.objects) " objects." }
            @if may_set_quota {
                form.stack method="post" action=(path) {
                    (layout::token(visit))
                    (layout::seen(&adminapi::etag::of(&found.quota).unwrap_or_default()))
                    label for="bytes" { "Limit of bytes (empty for none)" }
                    input #bytes name="bytes" type="number" min="0" value=[found.quota.bytes];
                    label for="objects" { "Limit of objects (empty for none)" }
                    input #objects name="objects" type="number" min="0" value=[found.quota.objects];
                    button type="submit" name="action" value="quota" { "Save" }
                }
            } @else {
                dl {
                    dt { "Limit of bytes" } dd { (found.quota.bytes.map_or_else(|| "none".to_owned(), layout::bytes)) }
                    dt { "Limit of objects" } dd { (found.quota.objects.map_or_else(|| "none".to_owned(), |objects| objects.to_string())) }
                }
            }
        }
        section.card {
            h2 { "Tags" }
            (editor(visit, &path, "tags", "The tags in the form of the AWS CLI", &tags))
        }
        section.card {
            h2 { "Delete the bucket" }
            p { "A bucket can be deleted when it has no objects and no versions." }
            form.stack method="post" action=(path) {
                (layout::token(visit))
                label for="confirm" { "Type the name of the bucket" }
                input #confirm name="confirm" required autocomplete="off";
                button.danger type="submit" name="action" value="delete" { "Delete the bucket" }
            }
        }
    };
    Ok(page(visit, &found, Tab::Settings, &content))
}

/// Carries out a form of the page.
pub(crate) async fn change(
    visit: &Visit<'_>,
    bucket: &str,
    form: &Form,
) -> Result<Reply, ApiError> {
    let (api, actor, seen) = (visit.api(), &visit.actor, form.seen());
    let path = format!("/buckets/{}/settings", escape(bucket));
    let tags = BucketDocumentKind::Tags;
    let done = match form.text("action") {
        "quota" => {
            let quota =
                QuotaJson { bytes: form.number("bytes")?, objects: form.number("objects")? };
            api.put_quota(actor, bucket, quota, &seen).await?;
            "saved"
        }
        "put-tags" => {
            api.put_document(actor, bucket, tags, &parse(form.text("tags"))?, &seen).await?;
            "saved"
        }
        "delete-tags" => {
            api.delete_document(actor, bucket, tags, &seen).await?;
            "removed"
        }
        "delete" if form.text("confirm") == bucket => {
            api.delete_bucket(actor, bucket, &seen).await?;
            return Ok(Reply::redirect("/buckets?done=bucket-deleted"));
        }
        "delete" => return Err(ApiError::bad_request("The name that you typed is another one.")),
        _ => return Err(ApiError::bad_request("The form has no such action.")),
    };
    Ok(Reply::redirect(&format!("{path}?done={done}")))
}
