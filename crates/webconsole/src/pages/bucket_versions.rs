//! The versions and the object lock of a bucket.

use adminapi::resources::bucket_documents::BucketDocumentKind;
use adminapi::resources::buckets::{BucketPatch, VersioningState};
use adminapi::{ApiError, IfMatch};
use maud::html;
use serde_json::{Value, json};

use super::bucket_frame::{Tab, page};
use crate::forms::Form;
use crate::layout;
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;

/// Shows the page.
pub(crate) async fn show(visit: &Visit<'_>, bucket: &str) -> Result<Reply, ApiError> {
    let found = visit.api().bucket(&visit.actor, bucket).await?;
    let path = format!("/buckets/{}/versions", escape(bucket));
    let lock = BucketDocumentKind::ObjectLock;
    let lock = visit.api().document_if_set(&visit.actor, bucket, lock).await.unwrap_or_default();
    let retention = lock.as_ref().map(|lock| &lock["Rule"]["DefaultRetention"]);
    let of = |name: &str| retention.and_then(|retention| retention.get(name));
    let mode = of("Mode").and_then(Value::as_str).unwrap_or_default();
    let days = of("Days").and_then(Value::as_u64);
    let content = html! {
        section.card {
            h2 { "Versions" }
            @match found.versioning {
                VersioningState::Trash => p { "The bucket has a trash instead of versions." },
                VersioningState::Off => p { "The bucket keeps no versions." },
                VersioningState::Enabled => p { "The bucket keeps a version of each object that is replaced or deleted." },
                VersioningState::Suspended => p { "The bucket keeps the versions that it has, and makes no new ones." },
            }
            @if found.versioning != VersioningState::Trash {
                form.inline method="post" action=(path) {
                    (layout::token(visit))
                    @if found.versioning == VersioningState::Enabled {
                        @if !found.object_lock {
                            button type="submit" name="action" value="suspend" { "Suspend versions" }
                        }
                    } @else {
                        button type="submit" name="action" value="enable" { "Keep versions" }
                    }
                }
            }
        }
        section.card {
            h2 { "Object lock" }
            @if found.object_lock {
                form.stack method="post" action=(path) {
                    (layout::token(visit))
                    label for="mode" { "Default retention of new objects" }
                    select #mode name="mode" {
                        option value="" selected[mode.is_empty()] { "None" }
                        option value="GOVERNANCE" selected[mode == "GOVERNANCE"] { "Governance: users with the permission may end it" }
                        option value="COMPLIANCE" selected[mode == "COMPLIANCE"] { "Compliance: no user can end it" }
                    }
                    label for="days" { "Days" }
                    input #days name="days" type="number" min="1" value=[days];
                    button type="submit" name="action" value="lock" { "Save" }
                }
            } @else {
                p { "The bucket has no object lock. It can be chosen only when a bucket is made." }
            }
        }
    };
    Ok(page(visit, &found, Tab::Versions, &content))
}

/// Carries out a form of the page.
pub(crate) async fn change(
    visit: &Visit<'_>,
    bucket: &str,
    form: &Form,
) -> Result<Reply, ApiError> {
    let (api, actor, any) = (visit.api(), &visit.actor, IfMatch::default());
    let state = match form.text("action") {
        "enable" => Some(VersioningState::Enabled),
        "suspend" => Some(VersioningState::Suspended),
        "lock" => None,
        _ => return Err(ApiError::bad_request("The form has no such action.")),
    };
    if state.is_some() {
        api.patch_bucket(actor, bucket, BucketPatch { versioning: state }, &any).await?;
    } else {
        let mut document = json!({ "ObjectLockEnabled": "Enabled" });
        let mode = form.text("mode");
        if !mode.is_empty() {
            let days = form.number("days")?;
            document["Rule"] = json!({ "DefaultRetention": { "Mode": mode, "Days": days } });
        }
        let kind = BucketDocumentKind::ObjectLock;
        api.put_document(actor, bucket, kind, &document, &any).await?;
    }
    Ok(Reply::redirect(&format!("/buckets/{}/versions?done=saved", escape(bucket))))
}
