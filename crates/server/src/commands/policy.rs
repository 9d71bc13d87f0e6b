//! `ashlar policy`: named policies, in the JSON syntax of AWS. For example, `ashlar policy add
//! reports reports.json` creates a policy that `ashlar user policy anna reports` assigns to an
//! access key.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use admin::{Admin, AdminError};
use clap::Subcommand;

use super::administration::Administration;
use super::refusal;
use crate::config::VolumeSettings;
use crate::output::say;
use crate::safe_name::safe_document;
use crate::table::{Cell, Printing, Table, print_properties};
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
        #[command(flatten)]
        printing: Printing,
    },
    /// Remove a policy. It must not be assigned to a user or a group
    Remove {
        /// The name
        name: String,
    },
}

impl PolicyCommand {
    /// Returns the action, for error texts.
    pub(super) fn doing(&self) -> String {
        match self {
            PolicyCommand::Add { name, .. } => format!("add the policy {name:?}"),
            PolicyCommand::List { .. } => "list policies".to_owned(),
            PolicyCommand::Show { name, .. } => format!("show the policy {name:?}"),
            PolicyCommand::Remove { name } => format!("remove the policy {name:?}"),
        }
    }
}

/// Runs an `ashlar policy` command.
pub(crate) async fn run(settings: VolumeSettings, command: PolicyCommand) -> Result<(), Problem> {
    let within = async |admin: &Admin| within(admin, command).await;
    Administration::with(&settings, "manage access keys", within).await?
}

async fn within(admin: &Admin, command: PolicyCommand) -> Result<(), Problem> {
    match command {
        PolicyCommand::Add { name, file } => add(admin, &name, &file).await,
        PolicyCommand::List { printing } => list(admin, printing).await,
        PolicyCommand::Show { name, printing } => show(admin, &name, printing).await,
        PolicyCommand::Remove { name } => {
            let removed = admin.remove_policy(&name, None).await;
            removed.map_err(|error| problem(format!("remove the policy {name:?}"), error))
        }
    }
}

/// Creates or replaces a policy, and prints a note for each action that it denies in part.
async fn add(admin: &Admin, name: &str, file: &Path) -> Result<(), Problem> {
    let text = read(file)?;
    let set = admin.put_policy(name, &text, None).await;
    let set = set.map_err(|error| problem(format!("add the policy {name:?}"), error))?;
    say_half_denied(set.half_denied);
    Ok(())
}

/// Returns the text of a policy in a file.
pub(super) fn read(file: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(file)
        .map_err(|error| Problem::new(format!("read the policy in {}", file.display()), error))
}

/// Prints a note for each action that a policy denies in part.
pub(super) fn say_half_denied<T: Display>(half_denied: Vec<(T, T)>) {
    for (denied, open) in half_denied {
        say(format_args!(
            "note: it denies {denied}, but not {open}. S3 checks one of the two: the action depends on \
             whether the request names a version (?versionId=null does)"
        ));
    }
}

/// Prints a line for each policy.
async fn list(admin: &Admin, printing: Printing) -> Result<(), Problem> {
    let policies = admin.policies().await;
    let policies = policies.map_err(|error| problem("list policies", error))?;
    let rows = policies.into_iter().map(|policy| (policy.name, policy.built_in));
    table(rows.collect()).print(printing);
    Ok(())
}

/// Returns the list of policies, each with its name and true if it is built in.
pub(super) fn table(mut policies: Vec<(String, bool)>) -> Table {
    // The built-in ones first.
    policies.sort_by(|(one, one_is), (other, other_is)| {
        other_is.cmp(one_is).then_with(|| one.cmp(other))
    });
    let mut table = Table::new(&["name", "built_in"]);
    for (name, built_in) in policies {
        table.add(vec![Cell::text(&name), Cell::Flag(built_in)]);
    }
    table
}

/// Prints the document of a policy.
async fn show(admin: &Admin, name: &str, printing: Printing) -> Result<(), Problem> {
    let document = admin.policy(name).await;
    let document = document.map_err(|error| problem(format!("show the policy {name:?}"), error))?;
    print(name, &document.document, printing);
    Ok(())
}

/// Prints the document of a policy alone, or one object with the name and the document.
pub(super) fn print(name: &str, document: &str, printing: Printing) {
    if printing.is_json() {
        let document = Cell::Document(document.to_owned());
        let properties = vec![("name", Cell::text(name)), ("document", document)];
        print_properties(&properties, printing);
    } else {
        say(format_args!("{}", safe_document(document.trim_end())));
    }
}

/// Returns the problem for an error about the policy that the command names.
fn problem(doing: impl Into<String>, error: AdminError) -> Problem {
    match error {
        AdminError::NoSuchPolicy(_) => Problem::new(doing, "there is no policy of this name"),
        error => refusal::problem(doing, error),
    }
}
