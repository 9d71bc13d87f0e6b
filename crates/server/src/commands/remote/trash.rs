//! `ashlar trash` over the API.

use http::Method;
use problem::Problem;
use serde::Deserialize;
use serde_json::json;

use super::moment;
use crate::commands::trash::{self, TrashCommand};
use crate::endpoint::Endpoint;
use crate::table::{Cell, Table};

/// An item of a trash of the API.
#[derive(Debug, Deserialize)]
struct TrashItem {
    key: String,
    id: String,
    deleted: String,
    bytes: u64,
}

/// The result of a change of a trash.
#[derive(Clone, Copy, Debug, Deserialize)]
struct TrashResult {
    restored: u64,
    taken: u64,
    removed: u64,
}

/// Runs an `ashlar trash` command.
pub(crate) async fn run(endpoint: &Endpoint, command: TrashCommand) -> Result<(), Problem> {
    let (bucket, doing) = command.doing();
    let change = |verb: &'static str, body| {
        let bucket = bucket.clone();
        async move {
            let path = ["buckets", bucket.as_str(), "trash", verb];
            endpoint.call::<TrashResult>(Method::POST, &path, &[], Some(body)).await
        }
    };
    match command {
        TrashCommand::List { bucket, prefix, printing } => {
            let (path, mut page) = (["buckets", bucket.as_str(), "trash", "items"], None);
            loop {
                // Page by page, because a trash can have millions of items.
                let found = endpoint.page(&path, &prefix, page.as_deref()).await;
                let (items, next): (Vec<TrashItem>, _) =
                    found.map_err(|error| error.problem(doing.as_str()))?;
                let mut table = Table::new(&trash::COLUMNS);
                for item in items {
                    let since = Cell::Time(moment(&item.deleted)?);
                    let key = Cell::Name(item.key.into_bytes());
                    table.add(vec![key, since, Cell::Bytes(item.bytes), Cell::text(&item.id)]);
                }
                table.print_page(printing);
                page = next;
                if page.is_none() {
                    return Ok(());
                }
            }
        }
        TrashCommand::Restore { key, id, all: false, .. } => {
            let body = json!({ "key": key, "id": id.map(|id| id.to_string()) });
            change("restore", body).await.map_err(|error| error.problem(doing))?;
            trash::say_restored_key(key.as_bytes());
            Ok(())
        }
        TrashCommand::Restore { key, .. } => {
            let restored = change("restore", json!({ "prefix": key })).await;
            let restored = restored.map_err(|error| error.problem(doing))?;
            trash::say_restored(restored.restored, restored.taken);
            Ok(())
        }
        TrashCommand::Empty { prefix, .. } => {
            let emptied = change("empty", json!({ "prefix": prefix })).await;
            trash::say_emptied(emptied.map_err(|error| error.problem(doing))?.removed);
            Ok(())
        }
    }
}
