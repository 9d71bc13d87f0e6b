//! `ashlar user`: users, their secrets, policies and file owners.
//!
//! For example, `ashlar user add anna --policy readonly --uid 1001` creates the access key `anna`,
//! prints its secret once, and lets it read all buckets of its account.

use std::path::PathBuf;

use admin::{AccessKey, Admin, AdminError, NewUser, check_secret};
use clap::Subcommand;
use identity::{Secret, UMASK_DEFAULT};

use record::AccountId;

use super::administration::Administration;
use super::first_secret::{is_root, master_key};
use super::{issued, key, refusal};
use crate::config::{Umask, VolumeSettings};
use crate::environment::secret_file;
use crate::operator::UnderMasterKey;
use crate::output::say;
use crate::table::{Cell, Printing, Table, print_with_list};
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
        #[command(flatten)]
        printing: Printing,
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
    /// List users and their policies
    List {
        #[command(flatten)]
        printing: Printing,
    },
    /// Print a user with its keys, its groups and the policies in force
    Show {
        /// The user
        name: String,
        #[command(flatten)]
        printing: Printing,
    },
    /// Accept the keys of a disabled user again
    Enable {
        /// The user
        name: String,
    },
    /// Refuse all keys, tokens and temporary credentials of a user until it is enabled again
    Disable {
        /// The user
        name: String,
    },
    /// Remove a user with all of its keys and tokens
    Remove {
        /// The user
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

impl UserCommand {
    /// Returns the action, for error texts.
    pub(super) fn doing(&self) -> String {
        match self {
            UserCommand::Add { name, .. } => format!("add the access key {name:?}"),
            UserCommand::List { .. } => "list access keys".to_owned(),
            UserCommand::Show { name, .. } => format!("show the user {name:?}"),
            UserCommand::Set { name, .. } => format!("change the access key {name:?}"),
            UserCommand::Enable { name } => format!("enable the user {name:?}"),
            UserCommand::Disable { name } => format!("disable the user {name:?}"),
            UserCommand::Remove { name } => format!("remove the access key {name:?}"),
            UserCommand::Policy { name, .. } => {
                format!("change the policies of the access key {name:?}")
            }
        }
    }
}

/// Runs an `ashlar user` command.
pub(crate) async fn run(settings: VolumeSettings, command: UserCommand) -> Result<(), Problem> {
    let within = async |admin: &Admin| within(&settings, admin, command).await;
    Administration::with(&settings, "manage access keys", within).await?
}

async fn within(
    settings: &VolumeSettings,
    admin: &Admin,
    command: UserCommand,
) -> Result<(), Problem> {
    let doing = command.doing();
    let done = match command {
        UserCommand::Add { name, policy, account, uid, gid, umask, secret_file, printing } => {
            let (access_key, umask, policies) = (&*name, umask.0, &*policy);
            let account = owning_account(admin, account.as_deref()).await?;
            let secret = None;
            let new = NewUser { access_key, account, secret, uid, gid, umask, policies };
            return add(settings, admin, new, (secret_file, printing)).await;
        }
        UserCommand::List { printing } => {
            admin.users().await.map(|users| table(users).print(printing))
        }
        UserCommand::Show { name, printing } => show(admin, &name, printing).await,
        UserCommand::Set { name, uid, gid, umask } => {
            let owner = (uid, gid, umask.map(|umask| umask.0));
            admin.set_user_owner(&name, owner, None).await
        }
        UserCommand::Enable { name } => admin.set_user_enabled(&name, true, None).await,
        UserCommand::Disable { name } => admin.set_user_enabled(&name, false, None).await,
        UserCommand::Remove { name } => admin.remove_user(&name, None).await,
        UserCommand::Policy { name, policies } => {
            admin.set_user_policies(&name, &policies, None).await
        }
    };
    done.map_err(|error| refusal::problem(doing, error))
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
    (file, printing): (Option<PathBuf>, Printing),
) -> Result<(), Problem> {
    let name = new.access_key;
    let problem =
        |error: AdminError| refusal::problem(format!("add the access key {name:?}"), error);
    if is_root(name)? {
        let wrong = "it is the root user's access key";
        return Err(Problem::new(format!("add the access key {name:?}"), wrong));
    }
    admin.check_new_user(&new).await.map_err(problem)?;
    let given = file.map(|file| secret_file(&file)).transpose()?;
    if let Some(given) = &given {
        check_secret(given.expose()).map_err(|error| problem(error.into()))?;
    }
    let master = master_key(settings)?;
    let new = NewUser { secret: given.as_ref().map(Secret::expose), ..new };
    let issued = admin.add_user(&new, &UnderMasterKey(master)).await.map_err(problem)?;
    let secret = given.is_none().then_some(issued.secret.as_str());
    issued::print((&issued.key).into(), ("secret key", "secret_key", secret), printing);
    say_policies(&issued.key.policies, printing);
    Ok(())
}

/// Prints the policies of a new user for people.
pub(super) fn say_policies(policies: &[String], printing: Printing) {
    if !printing.is_json() {
        match policies {
            [] => say(format_args!("policies    none: the key has no permissions yet")),
            policies => say(format_args!("policies    {}", policies.join(" "))),
        }
    }
}

/// Returns the list of users.
pub(super) fn table(users: Vec<AccessKey>) -> Table {
    let columns = [
        "name",
        "account",
        "uid",
        "gid",
        "umask",
        "enabled",
        "policies",
        "groups",
        "keys",
        "last_used",
    ];
    let mut table = Table::new(&columns);
    for user in users {
        table.add(vec![
            Cell::text(&user.access_key),
            Cell::text(&user.account.to_string()),
            Cell::Count(user.uid.into()),
            Cell::Count(user.gid.into()),
            Cell::text(&Umask(user.umask).to_string()),
            Cell::Flag(user.enabled),
            Cell::Names(user.policies),
            Cell::Names(user.groups),
            Cell::Count(user.keys.len() as u64),
            Cell::time(user.last_used),
        ]);
    }
    table
}

/// Prints a user, and a line for each of its keys.
async fn show(admin: &Admin, name: &str, printing: Printing) -> Result<(), AdminError> {
    let overview = admin.user_overview(name).await?;
    let keys: Vec<AccessKey> =
        overview.keys.iter().filter(|key| key.actions.is_none()).cloned().collect();
    let tokens = overview.keys.iter().filter(|key| key.actions.is_some());
    let tokens = tokens.map(|token| token.access_key.clone()).collect();
    let mut user = overview.user;
    user.last_used = overview.last_used;
    print(&user, &keys, tokens, overview.effective_policies, printing);
    Ok(())
}

/// Prints a user with the policies in force, and a line for each of its keys.
pub(super) fn print(
    user: &AccessKey,
    keys: &[AccessKey],
    tokens: Vec<String>,
    effective_policies: Vec<String>,
    printing: Printing,
) {
    let properties = vec![
        ("name", Cell::text(&user.access_key)),
        ("account", Cell::text(&user.account.to_string())),
        ("uid", Cell::Count(user.uid.into())),
        ("gid", Cell::Count(user.gid.into())),
        ("umask", Cell::text(&Umask(user.umask).to_string())),
        ("enabled", Cell::Flag(user.enabled)),
        ("description", Cell::text(&user.description)),
        ("made", Cell::Time(user.made)),
        ("expires", Cell::time(user.expires)),
        ("last_used", Cell::time(user.last_used)),
        ("policies", Cell::Names(user.policies.clone())),
        ("groups", Cell::Names(user.groups.clone())),
        ("effective_policies", Cell::Names(effective_policies)),
        ("tokens", Cell::Names(tokens)),
    ];
    print_with_list(&properties, ("keys", &key::table(keys)), printing);
}
