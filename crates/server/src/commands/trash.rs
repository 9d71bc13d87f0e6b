//! `ashlar trash`: lists, restores and deletes the items of a bucket's trash.
//!
//! An item is an object that was deleted or replaced. For example, after a client has deleted
//! `a/b`, `ashlar trash restore photos a/b` gives the key its object back.

use std::sync::Arc;
use std::time::Duration;

use admin::{AdminError, BucketTrash};
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use record::VersionStamp;

use super::upkeep::Existing;
use super::{refusal, upkeep};
use crate::config::VolumeSettings;
use crate::output::say;
use crate::safe_name::safe_name;
use crate::table::{Cell, Printing, Table};
use crate::{engines, operator};
use problem::Problem;

/// The interval between refreshes of the progress bar.
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug, Subcommand)]
pub(crate) enum TrashCommand {
    /// List the items in the trash of a bucket: key, time of deletion, bytes and id. In JSON, one
    /// object a line
    List {
        /// The bucket
        bucket: String,
        /// List only keys with this prefix
        #[arg(default_value = "")]
        prefix: String,
        #[command(flatten)]
        printing: Printing,
    },
    /// Restore an item to its key. An object that has the key moves to the trash
    Restore {
        /// The bucket
        bucket: String,
        /// The key; with --all, a prefix of keys
        key: String,
        /// The id of the item, from `list` [default: the newest item of the key]
        #[arg(long, conflicts_with = "all")]
        id: Option<VersionStamp>,
        /// Restore all keys that begin with KEY, except those that have an object
        #[arg(long)]
        all: bool,
    },
    /// Delete the items in the trash of a bucket permanently
    Empty {
        /// The bucket
        bucket: String,
        /// Delete only items whose key has this prefix
        #[arg(default_value = "")]
        prefix: String,
    },
}

/// The columns of the list of items.
pub(super) const COLUMNS: [&str; 4] = ["key", "since", "bytes", "id"];

impl TrashCommand {
    /// Returns the bucket, and the action for error texts.
    pub(super) fn doing(&self) -> (String, String) {
        match self {
            TrashCommand::List { bucket, .. } => {
                (bucket.clone(), format!("list the trash of {bucket:?}"))
            }
            TrashCommand::Restore { bucket, key, .. } => {
                (bucket.clone(), format!("restore {key:?} from the trash of {bucket:?}"))
            }
            TrashCommand::Empty { bucket, .. } => {
                (bucket.clone(), format!("empty the trash of {bucket:?}"))
            }
        }
    }
}

/// Runs an `ashlar trash` command. Gateways may be running.
pub(crate) async fn run(settings: VolumeSettings, command: TrashCommand) -> Result<(), Problem> {
    let (bucket, doing) = command.doing();
    // The block store is opened, too, because deleted items free their blocks.
    let Existing { meta, sole, rings } = upkeep::existing(&settings, &doing).await?;
    let blocks = engines::blocks(&settings.blocks, upkeep::seed()?, rings.keys()).await?;
    let admin = operator::over(Arc::clone(&meta));
    let done = match admin.trash(blocks.store, &bucket, sole).await {
        Ok(trash) => {
            let done = within(&trash, &command).await;
            trash.close().await;
            done
        }
        Err(error) => Err(error),
    };
    meta.close().await;
    done.map_err(|error| refusal::problem(doing, error))
}

/// Runs one of the trash commands on the open trash of its bucket.
async fn within(trash: &BucketTrash, command: &TrashCommand) -> Result<(), AdminError> {
    match command {
        TrashCommand::List { prefix, printing, .. } => {
            list(trash, prefix.as_bytes(), *printing).await
        }
        TrashCommand::Restore { key, id, all: false, .. } => {
            trash.restore(key.as_bytes(), *id).await?;
            say_restored_key(key.as_bytes());
            Ok(())
        }
        TrashCommand::Restore { key, .. } => {
            let bar = bar();
            let restored = trash.restore_all(key.as_bytes(), |so_far| {
                bar.set_position(so_far.restored);
            });
            let restored = restored.await;
            bar.finish_and_clear();
            let restored = restored?;
            say_restored(restored.restored, restored.taken);
            Ok(())
        }
        TrashCommand::Empty { prefix, .. } => {
            let removed = trash.empty(prefix.as_bytes()).await?;
            say_emptied(removed);
            Ok(())
        }
    }
}

/// Prints the key that has its object back.
pub(super) fn say_restored_key(key: &[u8]) {
    say(format_args!("restored {}", safe_name(key)));
}

/// Prints the numbers of keys that have their objects back, and of those that have another one.
pub(super) fn say_restored(restored: u64, taken: u64) {
    say(format_args!("restored {restored} keys"));
    if taken > 0 {
        say(format_args!("skipped {taken} keys that have an object"));
    }
}

/// Prints the number of items that were deleted.
pub(super) fn say_emptied(removed: u64) {
    say(format_args!("deleted {removed} items permanently"));
}

/// Prints a line for each item whose key has the prefix.
async fn list(trash: &BucketTrash, prefix: &[u8], printing: Printing) -> Result<(), AdminError> {
    let mut after = None;
    loop {
        // Page by page, because a trash can have millions of items.
        let page = trash.page(prefix, after).await?;
        after = page.last().map(|(key, trashed)| (key.clone(), trashed.id));
        if after.is_none() {
            return Ok(());
        }
        let mut table = Table::new(&COLUMNS);
        for (key, trashed) in page {
            let id = Cell::text(&trashed.id.to_string());
            table.add(vec![
                Cell::Name(key),
                Cell::Time(trashed.since),
                Cell::Bytes(trashed.bytes),
                id,
            ]);
        }
        table.print_page(printing);
    }
}

/// Returns a progress bar. It is shown only if standard error is a terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {human_pos} keys, {per_sec}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(TICK);
    bar
}
