//! `ashlar user`: access keys, their secrets and their policies.

use std::path::PathBuf;

use admin::{Admin, AdminError, NewUser, check_secret};
use clap::Subcommand;
use gateway::access::{Secret, UMASK_DEFAULT};

use record::AccountId;

use super::administration::Administration;
use super::refusal;
use crate::config::{Umask, VolumeSettings};
use crate::credentials;
use crate::environment::{first_secret, secret_file};
use crate::operator::UnderMasterKey;
use crate::output::say;
use crate::problem::Problem;

/// The default user and group of files.
const OWNER_DEFAULT: u32 = 1000;

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Make an access key; prints its secret, once
    Add {
        /// The access key: 3 to 128 letters, digits, and . _ - @ + =
        name: String,
        /// A policy: readwrite, readonly, writeonly, or one made with `ashlar policy add`;
        /// may be repeated. Without one the key may do nothing
        #[arg(long, value_name = "POLICY")]
        policy: Vec<String>,
        /// The account that it belongs to, by name or number; the first one if none is named
        #[arg(long, value_name = "ACCOUNT")]
        account: Option<String>,
        /// The user that its files belong to
        #[arg(long, value_name = "NUMBER", default_value_t = OWNER_DEFAULT)]
        uid: u32,
        /// The group that its files belong to
        #[arg(long, value_name = "NUMBER", default_value_t = OWNER_DEFAULT)]
        gid: u32,
        /// Permissions that they are not made with, in octal: of 777 for directories, of 666 for files
        #[arg(long, value_name = "OCTAL", default_value_t = Umask(UMASK_DEFAULT))]
        umask: Umask,
        /// A file with the secret, instead of a random one
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
    },
    /// Change whom the files belong to that an access key makes from now on
    #[command(arg_required_else_help = true)]
    Set {
        /// The access key
        name: String,
        /// The user
        #[arg(long, value_name = "NUMBER")]
        uid: Option<u32>,
        /// The group
        #[arg(long, value_name = "NUMBER")]
        gid: Option<u32>,
        /// Permissions that they are not made with, in octal
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
    /// Set the policies of an access key, in place of those it had
    Policy {
        /// The access key
        name: String,
        /// Its policies; with none, it may do nothing
        policies: Vec<String>,
    },
}

/// Runs a command.
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
            let set = admin.set_user_owner(&name, (uid, gid, umask.map(|umask| umask.0))).await;
            set.map_err(|error| refusal::problem(doing(), error))
        }
        UserCommand::List => list(admin).await,
        UserCommand::Remove { name } => {
            let doing = || format!("remove the access key {name:?}");
            admin.remove_user(&name).await.map_err(|error| refusal::problem(doing(), error))
        }
        UserCommand::Policy { name, policies } => {
            let doing = || format!("change the policies of the access key {name:?}");
            let set = admin.set_user_policies(&name, &policies).await;
            set.map_err(|error| refusal::problem(doing(), error))
        }
    };
    administration.close().await;
    done
}

/// The account of a new access key.
async fn owning_account(admin: &Admin, named: Option<&str>) -> Result<AccountId, Problem> {
    let Some(named) = named else { return Ok(AccountId::MAIN) };
    let found = admin.account(named).await;
    found.map_err(|error| refusal::problem(format!("use the account {named:?}"), error))
}

async fn add(
    settings: &VolumeSettings,
    admin: &Admin,
    new: NewUser<'_>,
    file: Option<PathBuf>,
) -> Result<(), Problem> {
    let name = new.access_key;
    let problem =
        |error: AdminError| refusal::problem(format!("add the access key {name:?}"), error);
    let root = first_secret(&["ASHLAR_ROOT_USER", "MINIO_ROOT_USER"])?;
    if root.is_some_and(|root| root.expose() == name) {
        let wrong = "it is the operator's own, which stands in no record";
        return Err(Problem::new(format!("add the access key {name:?}"), wrong));
    }
    // Checked first, so that no master key is made for a user that is refused.
    admin.check_new_user(&new).await.map_err(problem)?;
    let given = file.map(|file| secret_file(&file)).transpose()?;
    if let Some(given) = &given {
        check_secret(given.expose()).map_err(|error| problem(error.into()))?;
    }
    let master = match credentials::known_master_key(settings)? {
        Some(known) => known,
        None => {
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
        [] => say(format_args!("policies    none: it may do nothing yet")),
        policies => say(format_args!("policies    {}", policies.join(" "))),
    }
    Ok(())
}

async fn list(admin: &Admin) -> Result<(), Problem> {
    let users = admin.users().await;
    for user in users.map_err(|error| refusal::problem("list access keys", error))? {
        let state = if user.enabled { "" } else { "  (disabled)" };
        let (name, policies) = (user.access_key, user.policies.join(" "));
        let (uid, gid, umask) = (user.uid, user.gid, Umask(user.umask));
        // Whoever has one account needs not see it.
        let account = match user.account {
            AccountId::MAIN => String::new(),
            other => format!("account={other} "),
        };
        say(format_args!("{name}  {account}uid={uid} gid={gid} umask={umask}  {policies}{state}"));
    }
    Ok(())
}
