//! The trash of a bucket: its setting and its items.

use adminapi::page::PageQuery;
use adminapi::resources::trash::{TrashJson, TrashSelection};
use adminapi::{ApiError, IfMatch};
use maud::{Markup, html};
use policy::AdminAction;
use s3::BucketName;
use serde::Deserialize;

use super::bucket_frame::{Tab, page};
use crate::forms::Form;
use crate::layout;
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;

/// The parameters of the page.
#[derive(Debug, Default, Deserialize)]
struct Query {
    prefix: Option<String>,
    page: Option<String>,
}

/// Shows the page.
pub(crate) async fn show(visit: &Visit<'_>, bucket: &str) -> Result<Reply, ApiError> {
    let Query { prefix, page: token } = visit.query()?;
    let found = visit.api().bucket(&visit.actor, bucket).await?;
    let path = format!("/buckets/{}/trash", escape(bucket));
    let name = BucketName::parse(bucket)?;
    let may = |action| visit.actor.may(action, Some(&name));
    let content = html! {
        @if may(AdminAction::SetBucketTrash) {
            section.card {
                h2 { "Setting" }
                form.stack method="post" action=(path) {
                    (layout::token(visit))
                    label for="days" { "Days for which deleted and replaced objects stay (empty for no trash)" }
                    input #days name="days" type="number" min="1" value=[found.trash_days];
                    button type="submit" name="action" value="set" { "Save" }
                }
            }
        }
        @if found.trash_days.is_none() {
            p.empty { "The bucket has no trash." }
        } @else if may(AdminAction::GetBucketTrash) {
            (items(visit, (bucket, &path), prefix.unwrap_or_default(), token).await?)
        }
    };
    Ok(page(visit, &found, Tab::Trash, &content))
}

async fn items(
    visit: &Visit<'_>,
    (bucket, path): (&str, &str),
    prefix: String,
    token: Option<String>,
) -> Result<Markup, ApiError> {
    let wanted = Some(prefix.clone()).filter(|prefix| !prefix.is_empty());
    let query = PageQuery { page: token, limit: Some(200), prefix: wanted };
    let items = visit.api().trash_items(&visit.actor, bucket, &query).await?;
    let base = format!("{path}?prefix={}", escape(&prefix));
    let name = BucketName::parse(bucket)?;
    let may = |action| visit.actor.may(action, Some(&name));
    Ok(html! {
        form.search method="get" action=(path) role="search" {
            label for="prefix" { "Keys begin with" }
            input #prefix name="prefix" type="search" value=(prefix);
            button type="submit" { "Search" }
        }
        @if items.items.is_empty() {
            p.empty { "There are no such objects in the trash." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Trash" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Key" }
                            th.number scope="col" { "Size" }
                            th scope="col" { "Deleted" }
                            th scope="col" { span.hidden { "Actions" } }
                        }
                    }
                    tbody {
                        @for item in &items.items {
                            tr {
                                th scope="row" { (item.key) }
                                td.number { (layout::bytes(item.bytes)) }
                                td { (layout::time(&item.deleted)) }
                                td {
                                    @if may(AdminAction::RestoreTrash) {
                                        form.inline method="post" action=(path) {
                                            (layout::token(visit))
                                            input type="hidden" name="key" value=(item.key);
                                            input type="hidden" name="id" value=(item.id);
                                            button type="submit" name="action" value="restore" { "Restore" }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            form.inline.actions method="post" action=(path) {
                (layout::token(visit))
                input type="hidden" name="prefix" value=(prefix);
                @if may(AdminAction::RestoreTrash) {
                    button.quiet type="submit" name="action" value="restore-all" { "Restore all with this prefix" }
                }
                @if may(AdminAction::EmptyTrash) {
                    button.danger type="submit" name="action" value="empty" data-confirm="Remove these objects permanently?" { "Remove all with this prefix permanently" }
                }
            }
        }
        (layout::pager(&base, query.page.as_deref(), items.next.as_deref()))
    })
}

/// Carries out a form of the page.
pub(crate) async fn change(
    visit: &Visit<'_>,
    bucket: &str,
    form: &Form,
) -> Result<Reply, ApiError> {
    let (api, actor, any) = (visit.api(), &visit.actor, IfMatch::default());
    let by_prefix = || TrashSelection {
        prefix: Some(form.exact("prefix").to_owned()),
        ..TrashSelection::default()
    };
    let done = match form.text("action") {
        "set" => {
            let days = form.number("days")?.map(u32::try_from).transpose();
            let days =
                days.map_err(|_| ApiError::bad_request("The number of days is too large."))?;
            api.put_trash(actor, bucket, TrashJson { days }, &any).await?;
            "saved"
        }
        "restore" => {
            let selection = TrashSelection {
                key: Some(form.exact("key").to_owned()),
                id: Some(form.text("id").to_owned()),
                prefix: None,
            };
            api.restore_trash(actor, bucket, &selection).await?;
            "restored"
        }
        "restore-all" => {
            api.restore_trash(actor, bucket, &by_prefix()).await?;
            "restored"
        }
        "empty" => {
            api.empty_trash(actor, bucket, &by_prefix()).await?;
            "emptied"
        }
        _ => return Err(ApiError::bad_request("The form has no such action.")),
    };
    Ok(Reply::redirect(&format!("/buckets/{}/trash?done={done}", escape(bucket))))
}
