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

/// Runs an `ashlar account` command.
pub(crate) async fn run(settings: VolumeSettings, command: AccountCommand) -> Result<(), Problem> {
    let administration = Administration::open(&settings, "manage accounts").await?;
    let admin = &administration.admin;
    let done = match command {
        AccountCommand::Add { name } => add(admin, &name).await,
        AccountCommand::List { printing } => list(admin, printing).await,
        AccountCommand::Remove { name } => {
            let doing = || format!("remove the account {name:?}");
            admin
                .remove_account(&name, None)
                .await
                .map_err(|error| refusal::problem(doing(), error))
        }
    };
    // The store closes also if the command has failed.
    administration.close().await;
    done
}

/// Adds an account, and prints its number and its canonical id.
async fn add(admin: &Admin, name: &str) -> Result<(), Problem> {
    let added = admin.add_account(name).await;
    let (id, account) =
        added.map_err(|error| refusal::problem(format!("add the account {name:?}"), error))?;
    say(format_args!("account       {id}"));
    say(format_args!("canonical id  {}", account.canonical_id));
    Ok(())
}

/// Prints a line for each account.
async fn list(admin: &Admin, printing: Printing) -> Result<(), Problem> {
    let accounts = admin.accounts().await;
    let accounts = accounts.map_err(|error| refusal::problem("list accounts".to_owned(), error))?;
    let mut table = Table::new(&["number", "canonical_id", "name"]);
    for (id, account) in accounts {
        let canonical = account.canonical_id.to_string();
        let (id, name) = (id.to_string(), account.name);
        table.add(vec![Cell::text(&id), Cell::text(&canonical), Cell::text(&name)]);
    }
    table.print(printing);
    Ok(())
}
