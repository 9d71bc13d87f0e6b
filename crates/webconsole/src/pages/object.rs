//! An object with both sides: that of S3, and that of files.

use adminapi::resources::nodes::{Node, NodeQuery};
use adminapi::{ApiError, S3Call};
use bytes::Bytes;
use http::{HeaderMap, Method};
use maud::{Markup, html};
use policy::AdminAction;
use s3::xml::{Element, XmlLimits};
use serde::Deserialize;

use super::bucket_frame::{Tab, page};
use crate::forms::Form;
use crate::listing::{self, ListedVersion};
use crate::objects::{self, Preview};
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;
use crate::{layout, share};

/// The parameters of the page.
#[derive(Debug, Default, Deserialize)]
struct Query {
    key: String,
    version: Option<String>,
}

/// Shows the page.
pub(crate) async fn show(visit: &Visit<'_>, bucket: &str) -> Result<Reply, ApiError> {
    let Query { key, version } = visit.query()?;
    let found = visit.api().bucket(&visit.actor, bucket).await?;
    let path = format!("/buckets/{}", escape(bucket));
    // An object whose current version is a delete marker has versions and no headers.
    let head = objects::head(visit, bucket, &key, version.as_deref()).await;
    let versions = listing::versions(visit, bucket, &key).await.unwrap_or_default();
    if let Err(error) = &head
        && versions.is_empty()
    {
        return Err(error.clone());
    }
    let of_version = version.as_ref().map(|version| format!("&version={}", escape(version)));
    let download =
        format!("{path}/download?key={}{}", escape(&key), of_version.unwrap_or_default());
    let tags = tags(visit, bucket, &key, version.as_deref()).await;
    let node = node(visit, bucket, &key, version.as_deref()).await;
    let content = html! {
        h2.key { (key) }
        @match &head {
            Ok(head) => {
                div.actions {
                    a.button href=(download) download { "Download" }
                }
                (preview(visit, bucket, &key, version.as_deref(), head, &download).await)
                div.cards {
                    (s3_side(head))
                    @if let Some(node) = &node { (file_side(node)) }
                    @if let Some(tags) = &tags { (tag_card(tags)) }
                }
                (share::form(visit, &path, &key, version.as_deref()))
            }
            Err(error) => (layout::notice(error))
        }
        @if !versions.is_empty() { (version_table(visit, &path, &key, &versions)) }
    };
    Ok(page(visit, &found, Tab::Objects, &content))
}

/// Returns the file side of an object; `None` without the permission, and for an earlier version.
async fn node(visit: &Visit<'_>, bucket: &str, key: &str, version: Option<&str>) -> Option<Node> {
    if version.is_some() || !visit.may(AdminAction::InspectData) {
        return None;
    }
    let query = NodeQuery { path: Some(format!("{bucket}/{key}")), inode: None };
    visit.api().node(&visit.actor, &query).await.ok()
}

/// Returns the tags of an object; `None` without the permission.
async fn tags(
    visit: &Visit<'_>,
    bucket: &str,
    key: &str,
    version: Option<&str>,
) -> Option<Vec<(String, String)>> {
    let mut call = S3Call::on_bucket(Method::GET, bucket, Some("tagging"));
    call.key = Some(key);
    call.query.extend(version.map(|version| ("versionId", Some(version.to_owned()))));
    let reply = visit.api().s3(&visit.actor, &call, Bytes::new()).await.ok()?;
    let root = Element::parse(&reply.body, "Tagging", XmlLimits::SMALL).ok()?;
    let set = root.child("TagSet").ok()??;
    let text =
        |tag: &Element, name: &str| tag.value(name).ok().flatten().unwrap_or_default().to_owned();
    Some(set.children().iter().map(|tag| (text(tag, "Key"), text(tag, "Value"))).collect())
}

/// Returns the content of an object as the page shows it.
async fn preview(
    visit: &Visit<'_>,
    bucket: &str,
    key: &str,
    version: Option<&str>,
    head: &HeaderMap,
    download: &str,
) -> Markup {
    match objects::preview_of(key, head) {
        Preview::Image => html! {
            figure.preview { img src={ (download) "&inline=1" } alt={ "The content of " (key) }; }
        },
        Preview::Pdf => html! {
            p { a href={ (download) "&inline=1" } target="_blank" rel="noopener" { "Open the PDF" } }
        },
        Preview::Text => {
            let text = objects::beginning(visit, bucket, key, version).await;
            html! { @if let Ok(text) = text { pre.preview tabindex="0" { (text) } } }
        }
        Preview::None => html! {},
    }
}

fn s3_side(head: &HeaderMap) -> Markup {
    let text = |name: &str| head.get(name).and_then(|value| value.to_str().ok());
    let size = text("content-length").and_then(|size| size.parse().ok()).unwrap_or(0);
    let rows = [
        ("Type", "content-type"),
        ("Entity tag", "etag"),
        ("Modified", "last-modified"),
        ("Version", "x-amz-version-id"),
        ("Cache-Control", "cache-control"),
        ("Content-Encoding", "content-encoding"),
        ("Lock mode", "x-amz-object-lock-mode"),
        ("Locked until", "x-amz-object-lock-retain-until-date"),
        ("Legal hold", "x-amz-object-lock-legal-hold"),
    ];
    let metadata = head.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix("x-amz-meta-")?;
        Some((name, String::from_utf8_lossy(value.as_bytes()).into_owned()))
    });
    html! {
        section.card {
            h2 { "Object" }
            dl {
                dt { "Size" } dd { (layout::bytes(size)) " (" (size) " bytes)" }
                @for (title, name) in rows {
                    @if let Some(value) = text(name) { dt { (title) } dd { (value) } }
                }
                @for (name, value) in metadata { dt { code { (name) } } dd { (value) } }
            }
        }
    }
}

fn file_side(node: &Node) -> Markup {
    html! {
        section.card {
            h2 { "File" }
            dl {
                dt { "Inode" } dd { (node.inode) }
                dt { "Mode" } dd { code { (node.mode) } }
                dt { "Owner" } dd { (node.uid) ":" (node.gid) }
                dt { "Links" } dd { (node.links) }
                dt { "Modified" } dd { (layout::time(&node.modified)) }
                @if let Some(content) = &node.content { dt { "Content in" } dd { (content) } }
                dt { "Blocks" } dd { (node.blocks_count) " with " (node.slices) " slices" }
                @for block in node.blocks.iter().take(8) {
                    dt { code { (block.block) } }
                    dd { (layout::bytes(block.bytes)) " of " (layout::bytes(block.block_bytes)) }
                }
                dt { "Open at" }
                dd {
                    @if node.holders.is_empty() { "no gateway or mount" }
                    @for holder in &node.holders {
                        span.item { (holder.place.as_deref().unwrap_or("a session that has ended")) }
                    }
                }
            }
        }
    }
}

fn tag_card(tags: &[(String, String)]) -> Markup {
    html! {
        section.card {
            h2 { "Tags" }
            @if tags.is_empty() { p.hint { "The object has no tags." } }
            dl { @for (name, value) in tags { dt { (name) } dd { (value) } } }
        }
    }
}

fn version_table(visit: &Visit<'_>, path: &str, key: &str, versions: &[ListedVersion]) -> Markup {
    let of = |version: &ListedVersion| {
        format!("{path}/object?key={}&version={}", escape(key), escape(&version.id))
    };
    html! {
        h2 { "Versions" }
        div.scroll tabindex="0" role="region" aria-label="Versions" {
            table {
                thead {
                    tr {
                        th scope="col" { "Version" }
                        th scope="col" { "Modified" }
                        th.number scope="col" { "Size" }
                        th scope="col" { span.hidden { "Actions" } }
                    }
                }
                tbody {
                    @for version in versions {
                        tr {
                            th scope="row" {
                                @match version.size {
                                    Some(_) => { a href=(of(version)) { code { (version.id) } } }
                                    None => { code { (version.id) } }
                                }
                                @if version.is_latest { " " span.badge { "current" } }
                            }
                            td { (layout::time(&version.modified)) }
                            td.number {
                                @match version.size {
                                    Some(size) => (layout::bytes(size)),
                                    None => "delete marker",
                                }
                            }
                            td {
                                form.inline method="post" action={ (path) "/object" } {
                                    (layout::token(visit))
                                    input type="hidden" name="key" value=(key);
                                    input type="hidden" name="version" value=(version.id);
                                    @if version.size.is_some() && !version.is_latest {
                                        button type="submit" name="action" value="restore" { "Restore" }
                                    }
                                    button type="submit" name="action" value="delete" data-confirm="Delete this version permanently?" { "Delete" }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Restores or deletes a version.
pub(crate) async fn change(
    visit: &Visit<'_>,
    bucket: &str,
    form: &Form,
) -> Result<Reply, ApiError> {
    let (key, version) = (form.exact("key"), form.exact("version"));
    let page = format!("/buckets/{}/object?key={}", escape(bucket), escape(key));
    let mut call = S3Call::on_bucket(Method::DELETE, bucket, None);
    call.key = Some(key);
    match form.text("action") {
        "restore" => {
            // A copy of the version onto its key becomes the current version.
            call.method = Method::PUT;
            let source =
                format!("{}/{}?versionId={}", escape(bucket), escape(key), escape(version));
            let source = http::HeaderValue::from_str(&source)
                .map_err(|_| ApiError::bad_request("The key is too long."))?;
            call.headers.insert("x-amz-copy-source", source);
            visit.api().s3(&visit.actor, &call, Bytes::new()).await?;
            Ok(Reply::redirect(&format!("{page}&done=restored")))
        }
        "delete" => {
            call.query.push(("versionId", Some(version.to_owned())));
            visit.api().s3(&visit.actor, &call, Bytes::new()).await?;
            let left = listing::versions(visit, bucket, key).await.unwrap_or_default();
            let page = if left.is_empty() {
                format!("/buckets/{}/objects?", escape(bucket))
            } else {
                page + "&"
            };
            Ok(Reply::redirect(&format!("{page}done=deleted")))
        }
        _ => Err(ApiError::bad_request("The form has no such action.")),
    }
}
