//! `ashlar user`: access keys, their secrets and their policies.

use std::path::PathBuf;

use clap::Subcommand;
use gateway::access::{MasterKey, check_access_key, check_secret};
use record::User;
use s3::Policy;

use super::accounts::Accounts;
use super::say;
use crate::config::VolumeSettings;
use crate::credentials::{self, random};
use crate::environment::{first_secret, secret_file};
use crate::problem::Problem;

/// User and group that files belong to unless told otherwise.
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
        /// The user that its files belong to
        #[arg(long, value_name = "NUMBER", default_value_t = OWNER_DEFAULT)]
        uid: u32,
        /// The group that its files belong to
        #[arg(long, value_name = "NUMBER", default_value_t = OWNER_DEFAULT)]
        gid: u32,
        /// A file with the secret, instead of a random one
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
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
    let accounts = Accounts::open(&settings).await?;
    let done = match command {
        UserCommand::Add { name, policy, uid, gid, secret_file } => {
            add(&settings, &accounts, &name, policy, (uid, gid), secret_file).await
        }
        UserCommand::List => list(&accounts).await,
        UserCommand::Remove { name } => remove(&accounts, &name).await,
        UserCommand::Policy { name, policies } => set_policies(&accounts, &name, policies).await,
    };
    accounts.close().await;
    done
}

async fn add(
    settings: &VolumeSettings,
    accounts: &Accounts,
    name: &str,
    policies: Vec<String>,
    (uid, gid): (u32, u32),
    file: Option<PathBuf>,
) -> Result<(), Problem> {
    let problem = |wrong: String| Problem::new(format!("add the access key {name:?}"), wrong);
    check_access_key(name).map_err(|error| problem(error.to_string()))?;
    let root = first_secret(&["ASHLAR_ROOT_USER", "MINIO_ROOT_USER"])?;
    if root.is_some_and(|root| root.expose() == name) {
        return Err(problem("it is the operator's own, which stands in no record".to_owned()));
    }
    if accounts.user(name).await?.is_some() {
        return Err(problem("it exists".to_owned())
            .remedy("remove it first, or change its policies with `ashlar user policy`"));
    }
    check_policies(accounts, &policies).await?;
    let given = file.is_some();
    let secret = match file {
        Some(file) => secret_file(&file)?,
        None => credentials::random_secret()?,
    };
    check_secret(secret.expose()).map_err(|error| problem(error.to_string()))?;
    let mut nonce = [0; MasterKey::NONCE_BYTES];
    random(&mut nonce)?;
    let master = match credentials::known_master_key(settings)? {
        Some(known) => known,
        None => {
            let others = !accounts.users().await?.is_empty();
            credentials::fresh_master_key(settings, others)?
        }
    };
    let sealed_secret = master.seal(name, &secret, nonce);
    let user = User { sealed_secret, enabled: true, uid, gid, policies };
    accounts.set_user(name, None, Some(&user)).await?;
    say(format_args!("access key  {name}"));
    if given {
        say(format_args!("secret key  (from the file)"));
    } else {
        say(format_args!("secret key  {}", secret.expose()));
    }
    match user.policies.as_slice() {
        [] => say(format_args!("policies    none: it may do nothing yet")),
        policies => say(format_args!("policies    {}", policies.join(" "))),
    }
    Ok(())
}

async fn list(accounts: &Accounts) -> Result<(), Problem> {
    for (name, seen) in accounts.users().await? {
        let user = seen.record;
        let state = if user.enabled { "" } else { "  (disabled)" };
        let policies = user.policies.join(" ");
        say(format_args!("{name}  uid={} gid={}  {policies}{state}", user.uid, user.gid));
    }
    Ok(())
}

async fn remove(accounts: &Accounts, name: &str) -> Result<(), Problem> {
    let seen = existing(accounts, name, "remove").await?;
    accounts.set_user(name, Some(&seen), None).await
}

async fn set_policies(
    accounts: &Accounts,
    name: &str,
    policies: Vec<String>,
) -> Result<(), Problem> {
    let seen = existing(accounts, name, "change the policies of").await?;
    check_policies(accounts, &policies).await?;
    let user = User { policies, ..seen.record.clone() };
    accounts.set_user(name, Some(&seen), Some(&user)).await
}

async fn existing(
    accounts: &Accounts,
    name: &str,
    verb: &str,
) -> Result<super::accounts::Seen<User>, Problem> {
    accounts.user(name).await?.ok_or_else(|| {
        Problem::new(format!("{verb} the access key {name:?}"), "there is none of this name")
            .remedy("`ashlar user list` shows all of them")
    })
}

async fn check_policies(accounts: &Accounts, policies: &[String]) -> Result<(), Problem> {
    for name in policies {
        if Policy::canned(name).is_none() && accounts.policy(name).await?.is_none() {
            let doing = format!("use the policy {name:?}");
            return Err(Problem::new(doing, "there is none of this name").remedy(
                "there are readwrite, readonly, writeonly, and those of `ashlar policy list`",
            ));
        }
    }
    Ok(())
}
