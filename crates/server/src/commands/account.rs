//! `ashlar account`: manages accounts. A gateway may be running.
//!
//! For example, `ashlar account add research` creates an account, and `ashlar user add anna
//! --account research` an access key in it.

use admin::Admin;
use clap::Subcommand;

use super::administration::Administration;
use super::refusal;
use crate::config::VolumeSettings;
use crate::output::say;
use crate::table::{Cell, Printing, Table};
use problem::Problem;

#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Add an account. Its buckets are closed to access keys of other accounts unless it grants
    /// access
    Add {
        /// The name: letters, digits and . _ -
        name: String,
    },
    /// List accounts with their canonical ids, which S3 shows as owners
    List {
        #[command(flatten)]
        printing: Printing,
    },
    /// Remove an account that has neither access keys nor buckets
    Remove {
        /// The name or the number
        name: String,
    },
}

impl AccountCommand {
    /// Returns the action, for error texts.
    pub(super) fn doing(&self) -> String {
        match self {
            AccountCommand::Add { name } => format!("add the account {name:?}"),
            AccountCommand::List { .. } => "list accounts".to_owned(),
            AccountCommand::Remove { name } => format!("remove the account {name:?}"),
        }
    }
}

/// Runs an `ashlar account` command.
pub(crate) async fn run(settings: VolumeSettings, command: AccountCommand) -> Result<(), Problem> {
    let within = async |admin: &Admin| within(admin, command).await;
    Administration::with(&settings, "manage accounts", within).await?
}

async fn within(admin: &Admin, command: AccountCommand) -> Result<(), Problem> {
    match command {
        AccountCommand::Add { name } => add(admin, &name).await,
        AccountCommand::List { printing } => list(admin, printing).await,
        AccountCommand::Remove { name } => {
            let doing = || format!("remove the account {name:?}");
            admin
                .remove_account(&name, None)
                .await
                .map_err(|error| refusal::problem(doing(), error))
        }
    }
}

/// Adds an account, and prints its number and its canonical id.
async fn add(admin: &Admin, name: &str) -> Result<(), Problem> {
    let added = admin.add_account(name).await;
    let (id, account) =
        added.map_err(|error| refusal::problem(format!("add the account {name:?}"), error))?;
    say_added(&id.to_string(), &account.canonical_id.to_string());
    Ok(())
}

/// Prints the number and the canonical id of a new account.
pub(super) fn say_added(number: &str, canonical_id: &str) {
    say(format_args!("account       {number}"));
    say(format_args!("canonical id  {canonical_id}"));
}

/// Prints a line for each account.
async fn list(admin: &Admin, printing: Printing) -> Result<(), Problem> {
    let accounts = admin.accounts().await;
    let accounts = accounts.map_err(|error| refusal::problem("list accounts".to_owned(), error))?;
    let rows = accounts
        .into_iter()
        .map(|(id, account)| [id.to_string(), account.canonical_id.to_string(), account.name]);
    table(rows.collect()).print(printing);
    Ok(())
}

/// Returns the list of accounts, each with its number, its canonical id and its name.
pub(super) fn table(accounts: Vec<[String; 3]>) -> Table {
    let mut table = Table::new(&["number", "canonical_id", "name"]);
    for account in accounts {
        table.add(account.iter().map(|text| Cell::text(text)).collect());
    }
    table
}
