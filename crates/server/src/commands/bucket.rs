//! `ashlar bucket`: shows and changes the settings of buckets, and forks them. A gateway may be
//! running.
//!
//! For example, `ashlar bucket quota photos --bytes 500GiB` limits a bucket, and `ashlar bucket
//! quota photos` prints its usage and limits.

mod fork;
mod show;

use admin::{Admin, AdminError, BucketChange};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{ArgAction, Subcommand};
use record::{BucketConfigKind, Quota, Timestamp};

use super::administration::Administration;
use super::refusal;
use crate::config::{Size, VolumeSettings};
use crate::output::say;
use crate::table::{Cell, Printing, Table};
use problem::Problem;

#[derive(Debug, Subcommand)]
pub(crate) enum BucketCommand {
    /// Print a bucket's settings and configurations
    Show {
        /// The bucket
        name: String,
        #[command(flatten)]
        printing: Printing,
    },
    /// Change a bucket's settings for future uploads
    Set {
        /// The bucket
        name: String,
        /// Give new objects an opaque entity tag instead of their MD5, which saves the time to
        /// compute it
        #[arg(long, value_name = "true|false", action = ArgAction::Set)]
        opaque_etags: bool,
    },
    /// List buckets with their usage and quotas
    List {
        #[command(flatten)]
        printing: Printing,
    },
    /// Print or change the quota of a bucket. Existing objects stay, even beyond it
    Quota {
        /// The bucket
        name: String,
        /// The limit of bytes of all objects, such as 500GiB
        #[arg(long, value_name = "SIZE", conflicts_with = "none")]
        bytes: Option<Size>,
        /// The limit of the number of objects
        #[arg(long, value_name = "NUMBER", conflicts_with = "none")]
        objects: Option<u64>,
        /// Remove the quota
        #[arg(long)]
        none: bool,
    },
    /// Print or change the number of days for which deleted and replaced objects stay in the trash
    Trash {
        /// The bucket
        name: String,
        /// The number of days, for future items and for those in the trash
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
        trash_days: Option<u32>,
        /// Remove the trash, which must be empty: objects are deleted at once then
        #[arg(long, conflicts_with = "trash_days")]
        none: bool,
    },
    /// Remove a bucket's policy, CORS configuration or access control list
    Clear {
        /// The bucket
        name: String,
        /// The configuration to remove
        #[arg(value_parser = clearable())]
        configuration: BucketConfigKind,
    },
    /// Create a bucket with the current content of another one. The buckets share blocks, and
    /// changes of one do not affect the other
    Fork(fork::Fork),
}

/// Returns the parser of the configurations that control access, which an operator can remove if
/// they lock everyone out.
fn clearable() -> impl clap::builder::TypedValueParser<Value = BucketConfigKind> {
    let words = BucketConfigKind::ALL.iter().filter_map(|kind| kind.clear_word());
    PossibleValuesParser::new(words).try_map(|word| {
        let kind = BucketConfigKind::ALL.iter().find(|kind| kind.clear_word() == Some(&word));
        kind.copied().ok_or("no such configuration")
    })
}

impl BucketCommand {
    /// Returns the action, for error texts.
    pub(super) fn doing(&self) -> String {
        match self {
            BucketCommand::Show { name, .. }
            | BucketCommand::Quota { name, bytes: None, objects: None, none: false }
            | BucketCommand::Trash { name, trash_days: None, none: false } => {
                format!("show the bucket {name:?}")
            }
            BucketCommand::List { .. } => "list the buckets".to_owned(),
            BucketCommand::Set { name, .. }
            | BucketCommand::Quota { name, .. }
            | BucketCommand::Trash { name, .. }
            | BucketCommand::Clear { name, .. } => {
                format!("change the bucket {name:?}")
            }
            BucketCommand::Fork(_) => "fork a bucket".to_owned(),
        }
    }

    /// Returns true if the API has no endpoint for the command.
    pub(crate) fn needs_store(&self) -> bool {
        match self {
            BucketCommand::Show { .. }
            | BucketCommand::Set { .. }
            | BucketCommand::Clear { .. }
            | BucketCommand::Fork(_) => true,
            BucketCommand::List { .. }
            | BucketCommand::Quota { .. }
            | BucketCommand::Trash { .. } => false,
        }
    }
}

/// Runs an `ashlar bucket` command.
pub(crate) async fn run(settings: VolumeSettings, command: BucketCommand) -> Result<(), Problem> {
    let doing = command.doing();
    // A fork opens the volume itself, because it needs the block store, too.
    if let BucketCommand::Fork(fork) = &command {
        return Box::pin(fork.run(&settings)).await;
    }
    let within = async |admin: &Admin| within(admin, &command).await;
    let done = Administration::with(&settings, &doing, within).await?;
    done.map_err(|error| refusal::problem(doing, error))
}

async fn within(admin: &Admin, command: &BucketCommand) -> Result<(), AdminError> {
    match command {
        BucketCommand::Show { name, printing } => show::print(admin, name, *printing).await,
        BucketCommand::Set { name, opaque_etags } => {
            admin.set_bucket(name, BucketChange::OpaqueTags(*opaque_etags)).await
        }
        BucketCommand::List { printing } => list(admin, *printing).await,
        BucketCommand::Quota { name, bytes, objects, none } => {
            let quota = Quota { bytes: bytes.map(|size| size.0), objects: *objects };
            set_quota(admin, name, quota, *none).await
        }
        BucketCommand::Trash { name, trash_days, none } => {
            set_trash(admin, name, *trash_days, *none).await
        }
        BucketCommand::Clear { name, configuration } => {
            admin.clear_bucket(name, *configuration).await
        }
        BucketCommand::Fork(_) => unreachable!("`run` has run the fork"),
    }
}

/// Changes the trash of a bucket if `days` or `none` is given, and prints its setting.
async fn set_trash(
    admin: &Admin,
    name: &str,
    days: Option<u32>,
    none: bool,
) -> Result<(), AdminError> {
    if none || days.is_some() {
        admin.set_trash(name, days).await?;
    }
    say_trash(admin.trash_days(name).await?);
    Ok(())
}

/// Prints the setting of a trash.
pub(super) fn say_trash(days: Option<u32>) {
    match days {
        Some(days) => say(format_args!("trash         {days} days")),
        None => say(format_args!("trash         none")),
    }
}

/// Changes the quota of a bucket if one is given, and prints usage and quota.
async fn set_quota(admin: &Admin, name: &str, quota: Quota, none: bool) -> Result<(), AdminError> {
    if none {
        admin.set_bucket(name, BucketChange::NoQuota).await?;
    } else if quota != Quota::NONE {
        admin.set_bucket(name, BucketChange::Quota(quota)).await?;
    }
    let used = admin.bucket_usage(name).await?;
    say_usage((used.objects, used.bytes), used.bucket.quota);
    Ok(())
}

/// Prints the usage, objects and bytes, and the quota of a bucket.
pub(super) fn say_usage((objects, bytes): (u64, u64), quota: Quota) {
    say(format_args!("objects       {objects}{}", of(quota.objects)));
    say(format_args!("bytes         {bytes}{}", of(quota.bytes)));
}

/// Returns ` of LIMIT` for output after a usage, or nothing without a limit.
fn of(limit: Option<u64>) -> String {
    limit.map_or_else(String::new, |limit| format!(" of {limit}"))
}

/// Prints a line for each bucket.
async fn list(admin: &Admin, printing: Printing) -> Result<(), AdminError> {
    let mut table = Table::new(&COLUMNS);
    for used in admin.buckets().await? {
        table.add(cells(BucketRow {
            name: used.bucket.name.clone(),
            objects: used.objects,
            bytes: used.bytes,
            quota: used.bucket.quota,
            owner: &used.bucket.settings.owner.to_string(),
            versioning: show::versioning(used.bucket.versioning),
            made: used.bucket.made,
        }));
    }
    table.print(printing);
    Ok(())
}

/// The columns of the list of buckets.
pub(super) const COLUMNS: [&str; 6] = ["name", "objects", "bytes", "owner", "versioning", "made"];

/// A bucket, as the list prints it.
#[derive(Debug)]
pub(super) struct BucketRow<'a> {
    pub(super) name: Vec<u8>,
    pub(super) objects: u64,
    pub(super) bytes: u64,
    pub(super) quota: Quota,
    /// The number of the account that owns it.
    pub(super) owner: &'a str,
    pub(super) versioning: &'a str,
    pub(super) made: Timestamp,
}

/// Returns the cells of the columns.
pub(super) fn cells(row: BucketRow<'_>) -> Vec<Cell> {
    vec![
        Cell::Name(row.name),
        Cell::Of(Box::new(Cell::Count(row.objects)), row.quota.objects),
        Cell::Of(Box::new(Cell::Bytes(row.bytes)), row.quota.bytes),
        Cell::text(row.owner),
        Cell::text(row.versioning),
        Cell::Time(row.made),
    ]
}
