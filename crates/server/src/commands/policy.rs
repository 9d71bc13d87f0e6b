//! `ashlar policy`: named policies, in the JSON that S3's users know.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use gateway::access::check_policy_name;
use record::PolicyRecord;
use s3::Policy;

use super::accounts::Accounts;
use super::say;
use crate::config::VolumeSettings;
use crate::problem::Problem;

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Make or replace a policy
    Add {
        /// Its name: 1 to 64 letters, digits, and . _ -
        name: String,
        /// Its document, in JSON
        file: PathBuf,
    },
    /// List policies
    List,
    /// Print a policy's document
    Show {
        /// Its name
        name: String,
    },
    /// Remove a policy that no access key has
    Remove {
        /// Its name
        name: String,
    },
}

/// Runs a command.
pub(crate) async fn run(settings: VolumeSettings, command: PolicyCommand) -> Result<(), Problem> {
    let accounts = Accounts::open(&settings).await?;
    let done = match command {
        PolicyCommand::Add { name, file } => add(&accounts, &name, &file).await,
        PolicyCommand::List => list(&accounts).await,
        PolicyCommand::Show { name } => show(&accounts, &name).await,
        PolicyCommand::Remove { name } => remove(&accounts, &name).await,
    };
    accounts.close().await;
    done
}

async fn add(accounts: &Accounts, name: &str, file: &Path) -> Result<(), Problem> {
    let doing = || format!("add the policy {name:?}");
    check_policy_name(name).map_err(|error| Problem::new(doing(), error))?;
    if Policy::canned(name).is_some() {
        return Err(Problem::new(doing(), "the name is taken by a policy that is built in"));
    }
    let text = std::fs::read_to_string(file)
        .map_err(|error| Problem::new(format!("read the policy in {}", file.display()), error))?;
    let policy = Policy::parse_new(&text).map_err(|fault| Problem::new(doing(), &fault.message))?;
    let seen = accounts.policy(name).await?;
    accounts.set_policy(name, seen.as_ref(), Some(&PolicyRecord(text))).await?;
    for (denied, open) in policy.half_denied() {
        say(format_args!(
            "note: it denies {denied} and not {open}: S3 asks for one of the two, by whether a \
             request names a version (?versionId=null does)"
        ));
    }
    Ok(())
}

async fn list(accounts: &Accounts) -> Result<(), Problem> {
    for name in ["readonly", "readwrite", "writeonly"] {
        say(format_args!("{name}  (built in)"));
    }
    for (name, _) in accounts.policies().await? {
        say(format_args!("{name}"));
    }
    Ok(())
}

async fn show(accounts: &Accounts, name: &str) -> Result<(), Problem> {
    let seen = existing(accounts, name, "show").await?;
    say(format_args!("{}", seen.record.0.trim_end()));
    Ok(())
}

/// A policy may deny. Taken away from a key that has it, it would leave more allowed than before,
/// or, as the gateway sees it, a key that cannot be used.
async fn remove(accounts: &Accounts, name: &str) -> Result<(), Problem> {
    let seen = existing(accounts, name, "remove").await?;
    let users = accounts.users().await?;
    let has = |user: &record::User| user.policies.iter().any(|policy| policy == name);
    let users: Vec<&str> =
        users.iter().filter(|(_, seen)| has(&seen.record)).map(|(user, _)| user.as_str()).collect();
    if !users.is_empty() {
        let wrong = format!("these access keys have it: {}", users.join(", "));
        return Err(Problem::new(format!("remove the policy {name:?}"), wrong)
            .remedy("give them others with `ashlar user policy` first"));
    }
    accounts.set_policy(name, Some(&seen), None).await
}

async fn existing(
    accounts: &Accounts,
    name: &str,
    verb: &str,
) -> Result<super::accounts::Seen<PolicyRecord>, Problem> {
    accounts.policy(name).await?.ok_or_else(|| {
        let wrong = if Policy::canned(name).is_some() {
            "it is built in"
        } else {
            "there is none of this name"
        };
        Problem::new(format!("{verb} the policy {name:?}"), wrong)
    })
}
