//! `ashlar bucket`: shows and changes the settings of buckets, and forks them, while a gateway may be
//! running.

mod fork;

use admin::{Admin, AdminError, BucketChange, BucketUsage};
use clap::{ArgAction, Subcommand};
use record::{BucketConfigKind, Quota};

use super::administration::Administration;
use super::refusal;
use crate::config::{Size, VolumeSettings};
use crate::output::say;
use crate::problem::Problem;
use crate::safe_name::safe_name;

#[derive(Debug, Subcommand)]
pub(crate) enum BucketCommand {
    /// Print a bucket's settings
    Show {
        /// Its name
        name: String,
    },
    /// Change a bucket's settings; what is in it stays as it is
    Set {
        /// Its name
        name: String,
        /// Whether the entity tag of what is uploaded from now on says nothing of its bytes, so
        /// that no MD5 is computed for it
        #[arg(long, value_name = "true|false", action = ArgAction::Set)]
        opaque_etags: bool,
    },
    /// List buckets, what they hold and what they may hold
    List,
    /// Print or change how much a bucket may hold; what it holds already stays
    Quota {
        /// Its name
        name: String,
        /// Bytes of its objects, such as 500GiB
        #[arg(long, value_name = "SIZE", conflicts_with = "none")]
        bytes: Option<Size>,
        /// Objects
        #[arg(long, value_name = "NUMBER", conflicts_with = "none")]
        objects: Option<u64>,
        /// Let it hold any amount
        #[arg(long)]
        none: bool,
    },
    /// Print or change how long what was deleted or replaced stays in a bucket's trash
    Trash {
        /// Its name
        name: String,
        /// Days that it stays, from now on and for what is in it
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
        trash_days: Option<u32>,
        /// Let what is deleted or replaced be gone at once; the trash has to be empty
        #[arg(long, conflicts_with = "trash_days")]
        none: bool,
    },
    /// Remove a bucket's policy, CORS configuration or access control list
    Clear {
        /// Its name
        name: String,
        /// What of it
        #[arg(value_enum)]
        what: Clearable,
    },
    /// Make a bucket that holds what another one holds now; their blocks are shared, and either can be
    /// changed without the other
    Fork(fork::Fork),
}

/// What keeps people out or lets them in.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Clearable {
    Policy,
    Cors,
    Acl,
}

/// Runs a command.
pub(crate) async fn run(settings: VolumeSettings, command: BucketCommand) -> Result<(), Problem> {
    let doing = match &command {
        BucketCommand::Show { name }
        | BucketCommand::Quota { name, bytes: None, objects: None, none: false }
        | BucketCommand::Trash { name, trash_days: None, none: false } => {
            format!("show the bucket {name:?}")
        }
        BucketCommand::List => "list the buckets".to_owned(),
        BucketCommand::Set { name, .. }
        | BucketCommand::Quota { name, .. }
        | BucketCommand::Trash { name, .. }
        | BucketCommand::Clear { name, .. } => {
            format!("change the bucket {name:?}")
        }
        BucketCommand::Fork(fork) => return fork.run(&settings).await,
    };
    let administration = Administration::open(&settings, &doing).await?;
    let done = match &command {
        BucketCommand::Show { name } => show(&administration.admin, name).await,
        BucketCommand::Set { name, opaque_etags } => {
            administration.admin.set_bucket(name, BucketChange::OpaqueTags(*opaque_etags)).await
        }
        BucketCommand::List => list(&administration.admin).await,
        BucketCommand::Quota { name, bytes, objects, none } => {
            let quota = Quota { bytes: bytes.map(|size| size.0), objects: *objects };
            set_quota(&administration.admin, name, quota, *none).await
        }
        BucketCommand::Trash { name, trash_days, none } => {
            set_trash(&administration.admin, name, *trash_days, *none).await
        }
        BucketCommand::Clear { name, what } => {
            let kind = match what {
                Clearable::Policy => BucketConfigKind::Policy,
                Clearable::Cors => BucketConfigKind::Cors,
                Clearable::Acl => BucketConfigKind::Acl,
            };
            administration.admin.clear_bucket(name, kind).await
        }
        BucketCommand::Fork(_) => unreachable!("it opens the volume itself"),
    };
    administration.close().await;
    done.map_err(|error| refusal::problem(doing, error))
}

async fn show(admin: &Admin, name: &str) -> Result<(), AdminError> {
    let used = admin.bucket_usage(name).await?;
    let found = &used.bucket;
    say(format_args!("bucket        {}", safe_name(&found.name)));
    say(format_args!("owner         {}", found.settings.owner));
    say(format_args!("opaque ETags  {}", found.settings.opaque_tags));
    say_usage(&used);
    Ok(())
}

async fn set_trash(
    admin: &Admin,
    name: &str,
    days: Option<u32>,
    none: bool,
) -> Result<(), AdminError> {
    if none || days.is_some() {
        admin.set_trash(name, days).await?;
    }
    match admin.trash_days(name).await? {
        Some(days) => say(format_args!("trash         {days} days")),
        None => say(format_args!("trash         none")),
    }
    Ok(())
}

async fn set_quota(admin: &Admin, name: &str, quota: Quota, none: bool) -> Result<(), AdminError> {
    if none {
        admin.set_bucket(name, BucketChange::NoQuota).await?;
    } else if quota != Quota::NONE {
        admin.set_bucket(name, BucketChange::Quota(quota)).await?;
    }
    say_usage(&admin.bucket_usage(name).await?);
    Ok(())
}

fn say_usage(used: &BucketUsage) {
    let Quota { bytes, objects } = used.bucket.quota;
    say(format_args!("objects       {}{}", used.objects, of(objects)));
    say(format_args!("bytes         {}{}", used.bytes, of(bytes)));
}

/// How a bound stands behind what there is.
fn of(most: Option<u64>) -> String {
    most.map_or_else(String::new, |most| format!(" of {most}"))
}

async fn list(admin: &Admin) -> Result<(), AdminError> {
    for used in admin.buckets().await? {
        let Quota { bytes, objects } = used.bucket.quota;
        say(format_args!(
            "{}\t{}{} objects\t{}{} bytes",
            String::from_utf8_lossy(&used.bucket.name),
            used.objects,
            of(objects),
            used.bytes,
            of(bytes)
        ));
    }
    Ok(())
}
