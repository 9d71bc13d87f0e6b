//! `ashlar key`: the access keys of users, with descriptions and ends.
//!
//! A user can have several keys. For example, `ashlar key rotate anna --old-expires 7d` prints a
//! new key of `anna`, and her old one is accepted for seven more days.

use std::path::PathBuf;
use std::time::Duration;

use admin::{AccessKey, Admin, AdminError, IssuedKey, KeyChange, NewKey};
use clap::Subcommand;
use identity::Secret;
use problem::Problem;

use super::administration::Administration;
use super::first_secret::{is_root, master_key};
use super::{issued, refusal};
use crate::config::{Expires, VolumeSettings};
use crate::environment::secret_file;
use crate::operator::UnderMasterKey;
use crate::table::{Cell, Printing, Table};

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// List access keys
    List {
        /// The user [default: all users]
        user: Option<String>,
        #[command(flatten)]
        printing: Printing,
    },
    /// Create a further access key of a user, and print its secret. The secret cannot be printed
    /// again
    Add {
        /// The user
        user: String,
        /// The access key: 3 to 128 letters, digits, and . _ - @ + = [default: a random one]
        #[arg(long, value_name = "KEY")]
        access_key: Option<String>,
        /// A note, for example the program that uses the key
        #[arg(long, value_name = "TEXT", default_value = "")]
        description: String,
        /// The time from which the key is refused, such as 90d or 2027-01-31T00:00:00Z
        #[arg(long, value_name = "TIME", default_value = "never")]
        expires: Expires,
        /// A file with the secret [default: a random secret]
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
        #[command(flatten)]
        printing: Printing,
    },
    /// Change the description or the end of an access key
    #[command(arg_required_else_help = true)]
    Set {
        /// The access key
        key: String,
        /// A note, for example the program that uses the key
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// The time from which the key is refused, such as 90d, 2027-01-31T00:00:00Z or never
        #[arg(long, value_name = "TIME")]
        expires: Option<Expires>,
    },
    /// Create an access key in place of another one, which is accepted for some more time
    Rotate {
        /// The old access key
        key: String,
        /// The time for which the old key is still accepted
        #[arg(long, value_name = "TIME", default_value = "7d", value_parser = humantime::parse_duration)]
        old_expires: Duration,
        #[command(flatten)]
        printing: Printing,
    },
    /// Remove a further access key
    Remove {
        /// The access key
        key: String,
    },
    /// Accept a disabled further access key again
    Enable {
        /// The access key
        key: String,
    },
    /// Refuse a further access key until it is enabled again
    Disable {
        /// The access key
        key: String,
    },
}

impl KeyCommand {
    /// Returns the action, for error texts.
    pub(super) fn doing(&self) -> String {
        match self {
            KeyCommand::List { .. } => "list access keys".to_owned(),
            KeyCommand::Add { user, .. } => format!("add an access key to the user {user:?}"),
            KeyCommand::Rotate { key, .. } => format!("rotate the access key {key:?}"),
            KeyCommand::Remove { key } => format!("remove the access key {key:?}"),
            KeyCommand::Set { key, .. }
            | KeyCommand::Enable { key }
            | KeyCommand::Disable { key } => format!("change the access key {key:?}"),
        }
    }
}

/// Runs an `ashlar key` command.
pub(crate) async fn run(settings: VolumeSettings, command: KeyCommand) -> Result<(), Problem> {
    let within = async |admin: &Admin| within(&settings, admin, command).await;
    Administration::with(&settings, "manage access keys", within).await?
}

async fn within(
    settings: &VolumeSettings,
    admin: &Admin,
    command: KeyCommand,
) -> Result<(), Problem> {
    match command {
        KeyCommand::List { user, printing } => list(admin, user.as_deref(), printing).await,
        KeyCommand::Add { user, access_key, description, expires, secret_file: file, printing } => {
            let doing = || format!("add an access key to the user {user:?}");
            if access_key.as_deref().map(is_root).transpose()? == Some(true) {
                return Err(Problem::new(doing(), "it is the root user's access key"));
            }
            let given = file.map(|file| secret_file(&file)).transpose()?;
            let new = NewKey {
                access_key: access_key.as_deref(),
                secret: given.as_ref().map(Secret::expose),
                description: &description,
                expires: expires.at(admin.now()),
            };
            let problem = |error| refusal::problem(doing(), error);
            admin.user(&user).await.map_err(problem)?;
            let sealer = UnderMasterKey(master_key(settings)?);
            let added = admin.add_key(&user, &new, &sealer).await.map_err(problem)?;
            print_issued(&added, given.is_some(), printing);
            Ok(())
        }
        KeyCommand::Set { key, description, expires } => {
            let expires = expires.map(|expires| expires.at(admin.now()));
            let change = KeyChange { description, expires, enabled: None };
            changed(&key, admin.change_key(&key, &change, None).await)
        }
        KeyCommand::Rotate { key, old_expires, printing } => {
            let problem = |error| refusal::problem(format!("rotate the access key {key:?}"), error);
            admin.key(&key).await.map_err(problem)?;
            let sealer = UnderMasterKey(master_key(settings)?);
            let new = admin.rotate_key(&key, old_expires, &sealer).await.map_err(problem)?;
            print_issued(&new, false, printing);
            Ok(())
        }
        KeyCommand::Remove { key } => {
            let doing = || format!("remove the access key {key:?}");
            let removed = admin.remove_key(&key, None).await;
            removed.map_err(|error| refusal::problem(doing(), error))
        }
        KeyCommand::Enable { key } => set_enabled(admin, &key, true).await,
        KeyCommand::Disable { key } => set_enabled(admin, &key, false).await,
    }
}

async fn set_enabled(admin: &Admin, key: &str, enabled: bool) -> Result<(), Problem> {
    let change = KeyChange { enabled: Some(enabled), ..KeyChange::default() };
    changed(key, admin.change_key(key, &change, None).await)
}

fn changed(key: &str, done: Result<(), AdminError>) -> Result<(), Problem> {
    done.map_err(|error| refusal::problem(format!("change the access key {key:?}"), error))
}

/// Prints a new key, and its secret unless it is from a file.
fn print_issued(new: &IssuedKey, from_file: bool, printing: Printing) {
    let secret = if from_file { None } else { Some(new.secret.as_str()) };
    issued::print((&new.key).into(), ("secret key", "secret_key", secret), printing);
}

/// Prints a line for each access key of a user, or of all users.
async fn list(admin: &Admin, user: Option<&str>, printing: Printing) -> Result<(), Problem> {
    let keys = admin.access_keys(user).await;
    let keys = keys.map_err(|error| refusal::problem("list access keys", error))?;
    table(&keys).print(printing);
    Ok(())
}

/// Returns the list of access keys.
pub(super) fn table(keys: &[AccessKey]) -> Table {
    let columns = ["access_key", "user", "enabled", "expires", "last_used", "made", "description"];
    let mut table = Table::new(&columns);
    for key in keys {
        table.add(vec![
            Cell::text(&key.access_key),
            Cell::text(key.parent.as_ref().unwrap_or(&key.access_key)),
            Cell::Flag(key.enabled),
            Cell::time(key.expires),
            Cell::time(key.last_used),
            Cell::Time(key.made),
            Cell::text(&key.description),
        ]);
    }
    table
}
