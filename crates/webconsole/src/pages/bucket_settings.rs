//! The quota and the tags of a bucket, and its deletion.

use adminapi::ApiError;
use adminapi::resources::bucket_documents::BucketDocumentKind;
use adminapi::resources::jobs::NewJobJson;
use adminapi::resources::quota::QuotaJson;
use maud::html;
use policy::AdminAction;
use s3::BucketName;

use super::bucket_frame::{Tab, page};
use super::document_editor::{editor, parse};
use super::jobs;
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
    let may_fork =
        visit.may(AdminAction::StartJob) && visit.actor.may(AdminAction::ForkBucket, Some(&name));
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
        @if may_fork {
            section.card {
                h2 { "Fork" }
                p { "A fork is a new bucket with the current content of this one. The two share blocks, so it takes little space, and changes of one do not reach the other." }
                form.stack method="post" action=(path) {
                    (layout::token(visit))
                    label for="target" { "Name of the new bucket" }
                    input #target name="target" required maxlength="63";
                    button type="submit" name="action" value="fork" { "Fork the bucket" }
                }
            }
        }
        section.card {
            h2 { "Delete the bucket" }
            p { "Without the mark, only an empty bucket is deleted. With it, a job deletes all objects and versions, and nothing brings them back." }
            form.stack method="post" action=(path) {
                (layout::token(visit))
                label for="confirm" { "Type the name of the bucket" }
                input #confirm name="confirm" required autocomplete="off";
                label.check { input type="checkbox" name="content" value="1"; "Delete its content, too" }
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
        "fork" => {
            let (source, target) = (bucket.to_owned(), form.text("target").to_owned());
            return jobs::start(visit, &NewJobJson::Fork { source, target }).await;
        }
        "delete" if form.text("confirm") == bucket && form.is_checked("content") => {
            let (bucket, confirm) = (bucket.to_owned(), bucket.to_owned());
            return jobs::start(visit, &NewJobJson::DeleteBucket { bucket, confirm }).await;
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
