//! `ashlar bucket`: shows and changes the settings of buckets, and forks them, while a gateway may be
//! running.

mod fork;

use admin::{Admin, AdminError, BucketChange};
use clap::{ArgAction, Subcommand};
use record::BucketConfigKind;

use super::administration::Administration;
use super::refusal;
use crate::config::VolumeSettings;
use crate::output::say;
use crate::problem::Problem;

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
        BucketCommand::Show { name } => format!("show the bucket {name:?}"),
        BucketCommand::Set { name, .. } | BucketCommand::Clear { name, .. } => {
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
    let found = admin.bucket(name).await?;
    say(format_args!("bucket        {}", String::from_utf8_lossy(&found.name)));
    say(format_args!("owner         {}", found.settings.owner));
    say(format_args!("opaque ETags  {}", found.settings.opaque_tags));
    Ok(())
}
