//! The frame of the pages of one bucket: its tabs.

use adminapi::resources::buckets::BucketJson;
use maud::{Markup, html};

use super::buckets::badges;
use crate::layout::{self, Section};
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;

/// A tab of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Objects,
    Access,
    Lifecycle,
    Versions,
    Trash,
    Settings,
}

const TABS: [(Tab, &str, &str); 6] = [
    (Tab::Objects, "objects", "Objects"),
    (Tab::Access, "access", "Access"),
    (Tab::Lifecycle, "lifecycle", "Lifecycle"),
    (Tab::Versions, "versions", "Versions and lock"),
    (Tab::Trash, "trash", "Trash"),
    (Tab::Settings, "settings", "Quota, tags and settings"),
];

/// Returns a page of a bucket.
pub(crate) fn page(visit: &Visit<'_>, bucket: &BucketJson, tab: Tab, content: &Markup) -> Reply {
    let base = format!("/buckets/{}", escape(&bucket.name));
    let framed = html! {
        p.badges { (badges(bucket)) }
        nav.tabs aria-label="Bucket" {
            ul {
                @for (this, path, name) in TABS {
                    li {
                        a href={ (base) "/" (path) } aria-current=[(this == tab).then_some("page")] { (name) }
                    }
                }
            }
        }
        (content)
    };
    layout::show(visit, &bucket.name, Section::Buckets, &framed)
}
