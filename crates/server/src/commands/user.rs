//! `ashlar user`: access keys, their secrets, policies and file owners.
//!
//! For example, `ashlar user add anna --policy readonly --uid 1001` creates the access key `anna`,
//! prints its secret once, and lets it read all buckets of its account.

use std::path::PathBuf;

use admin::{Admin, AdminError, NewUser, check_secret};
use clap::Subcommand;
use identity::{Secret, UMASK_DEFAULT};

use record::AccountId;

use super::administration::Administration;
use super::refusal;
use crate::config::{Umask, VolumeSettings};
use crate::credentials;
use crate::environment::{first_secret, secret_file};
use crate::operator::UnderMasterKey;
use crate::output::say;
use problem::Problem;

/// The default user and group of files that an access key creates.
const OWNER_DEFAULT: u32 = 1000;

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Create an access key, and print its secret. The secret cannot be printed again
    Add {
        /// The access key: 3 to 128 letters, digits, and . _ - @ + =
        name: String,
        /// A policy: readwrite, readonly, writeonly, or a name of `ashlar policy add`. Can be
        /// repeated. Without a policy, the key has no permissions
        #[arg(long, value_name = "POLICY")]
        policy: Vec<String>,
        /// The account of the key, by name or number [default: the first account]
        #[arg(long, value_name = "ACCOUNT")]
        account: Option<String>,
        /// The owner (uid) of files that this key creates
        #[arg(long, value_name = "NUMBER", default_value_t = OWNER_DEFAULT)]
        uid: u32,
        /// The group (gid) of files that this key creates
        #[arg(long, value_name = "NUMBER", default_value_t = OWNER_DEFAULT)]
        gid: u32,
        /// The umask, in octal: permissions to remove from 777 of new directories and 666 of new
        /// files
        #[arg(long, value_name = "OCTAL", default_value_t = Umask(UMASK_DEFAULT))]
        umask: Umask,
        /// A file with the secret [default: a random secret]
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
    },
    /// Set the owner (uid, gid, umask) of files that this access key creates from now on
    #[command(arg_required_else_help = true)]
    Set {
        /// The access key
        name: String,
        /// The owner (uid) of new files
        #[arg(long, value_name = "NUMBER")]
        uid: Option<u32>,
        /// The group (gid) of new files
        #[arg(long, value_name = "NUMBER")]
        gid: Option<u32>,
        /// The umask of new files and directories, in octal
        #[arg(long, value_name = "OCTAL")]
        umask: Option<Umask>,
    },
    /// List access keys and their policies
    List,
    /// Remove an access key
    Remove {
        /// The access key
        name: String,
    },
    /// Replace the policies of an access key
    Policy {
        /// The access key
        name: String,
        /// The new policies. Without any, the key has no permissions
        policies: Vec<String>,
    },
}

/// Runs an `ashlar user` command.
pub(crate) async fn run(settings: VolumeSettings, command: UserCommand) -> Result<(), Problem> {
    let administration = Administration::open(&settings, "manage access keys").await?;
    let admin = &administration.admin;
    let done = match command {
        UserCommand::Add { name, policy, account, uid, gid, umask, secret_file } => {
            let (access_key, umask, policies) = (&*name, umask.0, &*policy);
            match owning_account(admin, account.as_deref()).await {
                Ok(account) => {
                    let secret = None;
                    let new = NewUser { access_key, account, secret, uid, gid, umask, policies };
                    add(&settings, admin, new, secret_file).await
                }
                Err(problem) => Err(problem),
            }
        }
        UserCommand::Set { name, uid, gid, umask } => {
            let doing = || format!("change the access key {name:?}");
            let set =
                admin.set_user_owner(&name, (uid, gid, umask.map(|umask| umask.0)), None).await;
            set.map_err(|error| refusal::problem(doing(), error))
        }
        UserCommand::List => list(admin).await,
        UserCommand::Remove { name } => {
            let doing = || format!("remove the access key {name:?}");
            admin.remove_user(&name, None).await.map_err(|error| refusal::problem(doing(), error))
        }
        UserCommand::Policy { name, policies } => {
            let doing = || format!("change the policies of the access key {name:?}");
            let set = admin.set_user_policies(&name, &policies, None).await;
            set.map_err(|error| refusal::problem(doing(), error))
        }
    };
    // The store closes also if the command has failed.
    administration.close().await;
    done
}

/// Returns the account of a new access key.
async fn owning_account(admin: &Admin, named: Option<&str>) -> Result<AccountId, Problem> {
    let Some(named) = named else { return Ok(AccountId::MAIN) };
    let found = admin.account(named).await;
    found.map_err(|error| refusal::problem(format!("use the account {named:?}"), error))
}

/// Creates an access key, and the master key if it is the first one of the volume. Prints the
/// secret unless it is from a file.
async fn add(
    settings: &VolumeSettings,
    admin: &Admin,
    new: NewUser<'_>,
    file: Option<PathBuf>,
) -> Result<(), Problem> {
    let name = new.access_key;
    let problem =
        |error: AdminError| refusal::problem(format!("add the access key {name:?}"), error);
    // A gateway takes this access key for the root user, so a record of the same name would have no
    // effect.
    let root = first_secret(&["ASHLAR_ROOT_USER", "MINIO_ROOT_USER"])?;
    if root.is_some_and(|root| root.expose() == name) {
        let wrong = "it is the root user's access key";
        return Err(Problem::new(format!("add the access key {name:?}"), wrong));
    }
    // First, so that a refused user does not create a master key.
    admin.check_new_user(&new).await.map_err(problem)?;
    let given = file.map(|file| secret_file(&file)).transpose()?;
    if let Some(given) = &given {
        check_secret(given.expose()).map_err(|error| problem(error.into()))?;
    }
    let master = match credentials::known_master_key(settings)? {
        Some(known) => known,
        None => {
            // Without a key, a new one is created only for the first user: it could not decrypt the
            // secrets of others.
            let others = !admin.users().await.map_err(problem)?.is_empty();
            credentials::fresh_master_key(settings, others)?
        }
    };
    let new = NewUser { secret: given.as_ref().map(Secret::expose), ..new };
    let issued = admin.add_user(&new, &UnderMasterKey(master)).await.map_err(problem)?;
    say(format_args!("access key  {name}"));
    if given.is_some() {
        say(format_args!("secret key  (from the file)"));
    } else {
        say(format_args!("secret key  {}", issued.secret));
    }
    match issued.key.policies.as_slice() {
        [] => say(format_args!("policies    none: the key has no permissions yet")),
        policies => say(format_args!("policies    {}", policies.join(" "))),
    }
    Ok(())
}

/// Prints a line for each access key.
async fn list(admin: &Admin) -> Result<(), Problem> {
    let users = admin.users().await;
    for user in users.map_err(|error| refusal::problem("list access keys", error))? {
        let state = if user.enabled { "" } else { "  (disabled)" };
        let (name, policies) = (user.access_key, user.policies.join(" "));
        let (uid, gid, umask) = (user.uid, user.gid, Umask(user.umask));
        // An operator with a single account does not need its number.
        let account = match user.account {
            AccountId::MAIN => String::new(),
            other => format!("account={other} "),
        };
        say(format_args!("{name}  {account}uid={uid} gid={gid} umask={umask}  {policies}{state}"));
    }
    Ok(())
}
