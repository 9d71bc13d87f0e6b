//! The access to a bucket: the public switch, the policy and the CORS rules.

use adminapi::ApiError;
use adminapi::resources::bucket_documents::BucketDocumentKind;
use adminapi::resources::public::{AnonymousAccess, PublicAccess};
use maud::{Markup, html};

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
    let path = format!("/buckets/{}/access", escape(bucket));
    let public = visit.api().public(&visit.actor, bucket).await;
    let document = |kind| visit.api().document_if_set(&visit.actor, bucket, kind);
    let policy = document(BucketDocumentKind::Policy).await;
    let cors = document(BucketDocumentKind::Cors).await;
    let content = html! {
        section.card {
            h2 { "Anonymous clients" }
            @match &public {
                Ok(public) => (switch(visit, &path, *public)),
                Err(error) => (layout::notice(error)),
            }
        }
        section.card {
            h2 { "Bucket policy" }
            (editor(visit, &path, "policy", "The policy in the JSON of AWS", &policy))
        }
        section.card {
            h2 { "CORS rules" }
            (editor(visit, &path, "cors", "The rules in the form of the AWS CLI", &cors))
        }
    };
    Ok(page(visit, &found, Tab::Access, &content))
}

fn switch(visit: &Visit<'_>, path: &str, public: PublicAccess) -> Markup {
    let sentence = |access| match access {
        AnonymousAccess::Private => "Private: anonymous clients have no access",
        AnonymousAccess::Download => "Download: they list the bucket and read objects",
        AnonymousAccess::Upload => "Upload: they write objects and read none",
        AnonymousAccess::Public => "Public: they list, read, write and delete",
        AnonymousAccess::Custom => "Custom: other statements of the policy decide",
    };
    html! {
        form.stack method="post" action=(path) {
            (layout::token(visit))
            (layout::seen(&adminapi::etag::of(&public).unwrap_or_default()))
            fieldset {
                legend { "Rights" }
                @for access in AnonymousAccess::SETTABLE {
                    label.check {
                        input type="radio" name="access" value=(access.name()) checked[access == public.access] required;
                        (sentence(access))
                    }
                }
            }
            @if public.access == AnonymousAccess::Custom {
                p.caution { (sentence(AnonymousAccess::Custom)) ". They stay when you save." }
            }
            button type="submit" name="action" value="public" { "Save" }
        }
    }
}

/// Carries out a form of the page.
pub(crate) async fn change(
    visit: &Visit<'_>,
    bucket: &str,
    form: &Form,
) -> Result<Reply, ApiError> {
    let (api, actor, seen) = (visit.api(), &visit.actor, form.seen());
    let path = format!("/buckets/{}/access", escape(bucket));
    let kind = match form.text("action") {
        "public" => {
            let named = form.text("access");
            let access = AnonymousAccess::SETTABLE.into_iter().find(|it| it.name() == named);
            let access = access.ok_or_else(|| ApiError::bad_request("Choose the rights."))?;
            api.put_public(actor, bucket, PublicAccess { access }, &seen).await?;
            return Ok(Reply::redirect(&format!("{path}?done=saved")));
        }
        "put-policy" | "delete-policy" => BucketDocumentKind::Policy,
        "put-cors" | "delete-cors" => BucketDocumentKind::Cors,
        _ => return Err(ApiError::bad_request("The form has no such action.")),
    };
    if form.text("action").starts_with("delete-") {
        api.delete_document(actor, bucket, kind, &seen).await?;
        return Ok(Reply::redirect(&format!("{path}?done=removed")));
    }
    let field = if kind == BucketDocumentKind::Policy { "policy" } else { "cors" };
    let document = parse(form.text(field))?;
    api.put_document(actor, bucket, kind, &document, &seen).await?;
    Ok(Reply::redirect(&format!("{path}?done=saved")))
}
