//! `ashlar policy`: named policies, in the JSON syntax of AWS. For example, `ashlar policy add
//! reports reports.json` creates a policy that `ashlar user policy anna reports` assigns to an
//! access key.

use std::path::{Path, PathBuf};

use admin::{Admin, AdminError};
use clap::Subcommand;

use super::administration::Administration;
use super::refusal;
use crate::config::VolumeSettings;
use crate::output::say;
use crate::table::{Cell, Printing, Table};
use problem::Problem;

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Create or replace a policy
    Add {
        /// The name: 1 to 64 letters, digits, and . _ -
        name: String,
        /// The file with the policy document, in JSON
        file: PathBuf,
    },
    /// List policies
    List {
        #[command(flatten)]
        printing: Printing,
    },
    /// Print the document of a policy
    Show {
        /// The name
        name: String,
    },
    /// Remove a policy. It must not be assigned to a user or a group
    Remove {
        /// The name
        name: String,
    },
}

/// Runs an `ashlar policy` command.
pub(crate) async fn run(settings: VolumeSettings, command: PolicyCommand) -> Result<(), Problem> {
    let administration = Administration::open(&settings, "manage access keys").await?;
    let admin = &administration.admin;
    let done = match command {
        PolicyCommand::Add { name, file } => add(admin, &name, &file).await,
        PolicyCommand::List { printing } => list(admin, printing).await,
        PolicyCommand::Show { name } => show(admin, &name).await,
        PolicyCommand::Remove { name } => {
            let removed = admin.remove_policy(&name, None).await;
            removed.map_err(|error| problem(format!("remove the policy {name:?}"), error))
        }
    };
    // The store closes also if the command has failed.
    administration.close().await;
    done
}

/// Creates or replaces a policy, and prints a note for each action that it denies in part.
async fn add(admin: &Admin, name: &str, file: &Path) -> Result<(), Problem> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Problem::new(format!("read the policy in {}", file.display()), error))?;
    let set = admin.put_policy(name, &text, None).await;
    let set = set.map_err(|error| problem(format!("add the policy {name:?}"), error))?;
    for (denied, open) in set.half_denied {
        say(format_args!(
            "note: it denies {denied}, but not {open}. S3 checks one of the two: the action depends on \
             whether the request names a version (?versionId=null does)"
        ));
    }
    Ok(())
}

/// Prints a line for each policy.
async fn list(admin: &Admin, printing: Printing) -> Result<(), Problem> {
    let policies = admin.policies().await;
    let mut table = Table::new(&["name", "built_in"]);
    for policy in policies.map_err(|error| problem("list policies", error))? {
        table.add(vec![Cell::text(&policy.name), Cell::Flag(policy.built_in)]);
    }
    table.print(printing);
    Ok(())
}

/// Prints the document of a policy.
async fn show(admin: &Admin, name: &str) -> Result<(), Problem> {
    let document = admin.policy(name).await;
    let document = document.map_err(|error| problem(format!("show the policy {name:?}"), error))?;
    say(format_args!("{}", document.document.trim_end()));
    Ok(())
}

/// Returns the problem for an error about the policy that the command names.
fn problem(doing: impl Into<String>, error: AdminError) -> Problem {
    match error {
        AdminError::NoSuchPolicy(_) => Problem::new(doing, "there is no policy of this name"),
        error => refusal::problem(doing, error),
    }
}
