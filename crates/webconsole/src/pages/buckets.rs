//! The list of buckets, and the form that makes one.

use adminapi::ApiError;
use adminapi::page::PageQuery;
use adminapi::resources::buckets::{BucketJson, NewBucketJson, VersioningState};
use maud::{Markup, html};

use crate::forms::Form;
use crate::layout::{self, Section};
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;

/// Shows a page of buckets.
pub(crate) async fn list(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let query: PageQuery = visit.query::<ListQuery>()?.into();
    let buckets = visit.api().buckets(&visit.actor, &query).await?;
    let prefix = query.prefix.clone().unwrap_or_default();
    let base = format!("/buckets?prefix={}", escape(&prefix));
    let content = html! {
        form.search method="get" action="/buckets" role="search" {
            label for="prefix" { "Name begins with" }
            input #prefix name="prefix" type="search" value=(prefix);
            button type="submit" { "Search" }
        }
        @if buckets.items.is_empty() {
            p.empty { "There are no buckets that you may see." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Buckets" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Name" }
                            th.number scope="col" { "Objects" }
                            th.number scope="col" { "Size" }
                            th scope="col" { "Quota" }
                            th scope="col" { "Properties" }
                            th scope="col" { "Created" }
                        }
                    }
                    tbody { @for bucket in &buckets.items { (row(bucket)) } }
                }
            }
        }
        (layout::pager(&base, query.page.as_deref(), buckets.next.as_deref()))
        details.make {
            summary { "Make a bucket" }
            form.stack method="post" action="/buckets" {
                (layout::token(visit))
                label for="name" { "Name" }
                input #name name="name" required minlength="3" maxlength="63" pattern="[a-z0-9][a-z0-9.\\-]+";
                label.check { input type="checkbox" name="versioning" value="1"; "Keep versions of objects" }
                label.check { input type="checkbox" name="object_lock" value="1"; "Object lock (keeps versions, and cannot be removed later)" }
                button type="submit" { "Make the bucket" }
            }
        }
    };
    Ok(layout::show(visit, "Buckets", Section::Buckets, &content))
}

/// The parameters of the page. `done` names the last change.
#[derive(Debug, Default, serde::Deserialize)]
struct ListQuery {
    page: Option<String>,
    prefix: Option<String>,
}

impl From<ListQuery> for PageQuery {
    fn from(query: ListQuery) -> PageQuery {
        let prefix = query.prefix.filter(|prefix| !prefix.is_empty());
        PageQuery { page: query.page, limit: None, prefix }
    }
}

fn row(bucket: &BucketJson) -> Markup {
    html! {
        tr {
            th scope="row" { a href={ "/buckets/" (escape(&bucket.name)) "/objects" } { (bucket.name) } }
            td.number { (bucket.objects) }
            td.number { (layout::bytes(bucket.bytes)) }
            td { (quota(bucket)) }
            td { (badges(bucket)) }
            td { (layout::time(&bucket.created)) }
        }
    }
}

/// Returns the quota of a bucket, with a bar of its use.
fn quota(bucket: &BucketJson) -> Markup {
    html! {
        @if let Some(bytes) = bucket.quota.bytes {
            meter min="0" max=(bytes) value=(bucket.bytes.min(bytes)) high=(bytes / 10 * 9)
                aria-label={ "Used bytes of " (bucket.name) } {}
            " " (layout::bytes(bytes))
        }
        @if let Some(objects) = bucket.quota.objects { " " (objects) " objects" }
    }
}

/// Returns the properties of a bucket as badges.
pub(crate) fn badges(bucket: &BucketJson) -> Markup {
    html! {
        @if bucket.public { span.badge.bad { "public" } " " }
        @match bucket.versioning {
            VersioningState::Enabled => { span.badge { "versions" } " " }
            VersioningState::Suspended => { span.badge { "versions suspended" } " " }
            VersioningState::Trash | VersioningState::Off => {}
        }
        @if bucket.object_lock { span.badge { "object lock" } " " }
        @if let Some(days) = bucket.trash_days { span.badge { "trash " (days) " d" } " " }
        @if bucket.has_policy { span.badge { "policy" } " " }
        @if bucket.has_lifecycle { span.badge { "lifecycle" } " " }
        @if bucket.has_cors { span.badge { "CORS" } " " }
    }
}

/// Makes a bucket.
pub(crate) async fn make(visit: &Visit<'_>, form: &Form) -> Result<Reply, ApiError> {
    let name = form.text("name");
    let new = NewBucketJson {
        versioning: form.is_checked("versioning"),
        object_lock: form.is_checked("object_lock"),
    };
    visit.api().put_bucket(&visit.actor, name, new).await?;
    Ok(Reply::redirect(&format!("/buckets/{}/objects?done=bucket-made", escape(name))))
}
