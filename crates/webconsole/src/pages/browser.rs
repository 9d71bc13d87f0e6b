//! The objects of a bucket, as folders.
//!
//! A page has 200 keys below a prefix, and a token leads to the next one, so a bucket of a million
//! keys takes no longer than a small one. For example, the search for `2026/be` lists the keys that
//! begin with this text.

use adminapi::{ApiError, S3Call};
use bytes::Bytes;
use http::Method;
use maud::{Markup, html};
use serde::Deserialize;

use super::bucket_frame::{Tab, page};
use crate::forms::{Form, TOKEN_HEADER};
use crate::layout;
use crate::listing::{self, ListedObject, Listing};
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;

/// The parameters of the page.
#[derive(Debug, Default, Deserialize)]
struct Query {
    prefix: Option<String>,
    page: Option<String>,
}

/// Shows a page of objects.
pub(crate) async fn show(visit: &Visit<'_>, bucket: &str) -> Result<Reply, ApiError> {
    let query: Query = visit.query()?;
    let prefix = query.prefix.unwrap_or_default();
    let found = visit.api().bucket(&visit.actor, bucket).await?;
    let listing = listing::keys(visit, bucket, &prefix, query.page.as_deref()).await?;
    let path = format!("/buckets/{}", escape(bucket));
    let base = format!("{path}/objects?prefix={}", escape(&prefix));
    let folder = folder_of(&prefix);
    let content = html! {
        (crumbs(&path, &prefix))
        form.search method="get" action={ (path) "/objects" } role="search" {
            label for="search" { "Keys begin with" }
            input #search name="prefix" type="search" value=(prefix);
            button type="submit" { "Search" }
        }
        (upload(visit, &path, folder))
        form method="post" action={ (path) "/objects" } {
            (layout::token(visit))
            input type="hidden" name="prefix" value=(prefix);
            (table(&path, folder, &listing))
            div.actions {
                button type="submit" name="action" value="delete" data-confirm="Delete the selected objects?" { "Delete the selected objects" }
            }
        }
        (layout::pager(&base, query.page.as_deref(), listing.next.as_deref()))
        @if !listing.objects.is_empty() || !listing.folders.is_empty() {
            p { (zip_link(&path, &prefix, "Download all of this as a ZIP file", "all of this")) }
        }
        details.make {
            summary { "Make a folder" }
            form.stack method="post" action={ (path) "/objects" } {
                (layout::token(visit))
                input type="hidden" name="prefix" value=(folder);
                label for="folder" { "Name" }
                input #folder name="folder" required;
                button type="submit" name="action" value="folder" { "Make the folder" }
            }
        }
    };
    Ok(page(visit, &found, Tab::Objects, &content))
}

/// Returns the folder of a prefix, up to its last slash. For example, the search for `2026/be`
/// shows, and uploads to, names in the folder `2026/`.
fn folder_of(prefix: &str) -> &str {
    prefix.rfind('/').map_or("", |slash| &prefix[..=slash])
}

/// Returns the links to the folders above.
fn crumbs(path: &str, prefix: &str) -> Markup {
    let mut above = Vec::new();
    for (at, _) in prefix.match_indices('/') {
        let (folder, start) =
            (&prefix[..=at], above.last().map_or(0, |(whole, _): &(&str, &str)| whole.len()));
        above.push((folder, &prefix[start..at]));
    }
    html! {
        nav.crumbs aria-label="Folders" {
            ol {
                li { a href={ (path) "/objects" } { "All objects" } }
                @for (folder, name) in above {
                    li { a href={ (path) "/objects?prefix=" (escape(folder)) } { (name) } }
                }
            }
        }
    }
}

/// Returns the controls of the upload, which the script drives.
fn upload(visit: &Visit<'_>, path: &str, folder: &str) -> Markup {
    html! {
        section.upload data-upload=(path) data-prefix=(folder) data-token=(visit.form_token)
            data-token-header=(TOKEN_HEADER) hidden {
            label.button { "Upload files" input.file type="file" multiple data-files; }
            label.button { "Upload a folder" input.file type="file" webkitdirectory data-files; }
            p.hint { "Or drop files here. An upload that was interrupted continues if you choose the same file again." }
            ul.progress data-progress aria-live="polite" {}
        }
        noscript { p.hint { "Uploads need a script, which your browser does not run." } }
    }
}

fn table(path: &str, above: &str, listing: &Listing) -> Markup {
    html! {
        @if listing.folders.is_empty() && listing.objects.is_empty() {
            p.empty { "There are no objects below this prefix." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Objects" {
                table {
                    thead {
                        tr {
                            th scope="col" { span.hidden { "Selected" } }
                            th scope="col" { "Name" }
                            th.number scope="col" { "Size" }
                            th scope="col" { "Modified" }
                            th scope="col" { span.hidden { "Download" } }
                        }
                    }
                    tbody {
                        @for folder in &listing.folders {
                            tr {
                                td {}
                                th scope="row" {
                                    a.folder href={ (path) "/objects?prefix=" (escape(folder)) } {
                                        (folder.strip_prefix(above).unwrap_or(folder))
                                    }
                                }
                                td {} td {}
                                td { (zip_link(path, folder, "ZIP", folder.strip_prefix(above).unwrap_or(folder))) }
                            }
                        }
                        @for object in &listing.objects { (row(path, above, object)) }
                    }
                }
            }
        }
    }
}

/// Returns the link that downloads all objects below a prefix.
fn zip_link(path: &str, prefix: &str, text: &str, name: &str) -> Markup {
    html! {
        a href={ (path) "/zip?prefix=" (escape(prefix)) } download aria-label={ "Download " (name) " as a ZIP file" } { (text) }
    }
}

fn row(path: &str, above: &str, object: &ListedObject) -> Markup {
    let name = object.key.strip_prefix(above).unwrap_or(&object.key);
    html! {
        tr {
            td { input type="checkbox" name="key" value=(object.key) aria-label={ "Select " (name) }; }
            th scope="row" { a href={ (path) "/object?key=" (escape(&object.key)) } { (name) } }
            td.number { (layout::bytes(object.size)) }
            td { (layout::time(&object.modified)) }
            td { a href={ (path) "/download?key=" (escape(&object.key)) } download aria-label={ "Download " (name) } { "Download" } }
        }
    }
}

/// Deletes the selected objects, or makes a folder.
pub(crate) async fn change(
    visit: &Visit<'_>,
    bucket: &str,
    form: &Form,
) -> Result<Reply, ApiError> {
    let prefix = form.exact("prefix");
    let base = format!("/buckets/{}/objects?prefix={}", escape(bucket), escape(prefix));
    match form.text("action") {
        "delete" => {
            for key in form.all("key") {
                let mut call = S3Call::on_bucket(Method::DELETE, bucket, None);
                call.key = Some(&key);
                visit.api().s3(&visit.actor, &call, Bytes::new()).await?;
            }
            Ok(Reply::redirect(&format!("{base}&done=deleted")))
        }
        "folder" => {
            let key = format!("{prefix}{}/", form.text("folder").trim_matches('/'));
            let mut call = S3Call::on_bucket(Method::PUT, bucket, None);
            call.key = Some(&key);
            visit.api().s3(&visit.actor, &call, Bytes::new()).await?;
            Ok(Reply::redirect(&format!("{base}&done=folder-made")))
        }
        _ => Err(ApiError::bad_request("The form has no such action.")),
    }
}
