//! `ashlar group`: groups of users, which have further policies together.
//!
//! For example, `ashlar group add lab --policy photos` and `ashlar group join lab anna bert` give
//! both users the policy `photos`.

use admin::{Admin, AdminError, NamedGroup};
use clap::{ArgAction, Subcommand};
use problem::Problem;

use super::administration::Administration;
use super::refusal;
use crate::config::VolumeSettings;
use crate::table::{Cell, Printing, Properties, Table, print_properties};

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// List groups
    List {
        #[command(flatten)]
        printing: Printing,
    },
    /// Print a group with its members
    Show {
        /// The group
        name: String,
        #[command(flatten)]
        printing: Printing,
    },
    /// Create a group without members
    Add {
        /// The name: 1 to 64 letters, digits, and . _ -
        name: String,
        /// A policy of the members. Can be repeated
        #[arg(long, value_name = "POLICY")]
        policy: Vec<String>,
    },
    /// Replace the policies of a group, or enable or disable it
    #[command(arg_required_else_help = true)]
    Set {
        /// The group
        name: String,
        /// A policy of the members, in place of the present ones. Can be repeated
        #[arg(long, value_name = "POLICY", conflicts_with = "no_policies")]
        policy: Vec<String>,
        /// Remove all policies
        #[arg(long)]
        no_policies: bool,
        /// Give the members the policies of the group. While it is false, the policies have no
        /// effect, also those that deny an action
        #[arg(long, value_name = "true|false", action = ArgAction::Set)]
        enabled: Option<bool>,
    },
    /// Remove a group without members
    Remove {
        /// The group
        name: String,
    },
    /// Add users to a group
    Join {
        /// The group
        name: String,
        /// The users
        #[arg(required = true)]
        users: Vec<String>,
    },
    /// Remove users from a group
    Leave {
        /// The group
        name: String,
        /// The users
        #[arg(required = true)]
        users: Vec<String>,
    },
}

impl GroupCommand {
    /// Returns the action, for error texts.
    pub(super) fn doing(&self) -> String {
        match self {
            GroupCommand::List { .. } => "list groups".to_owned(),
            GroupCommand::Show { name, .. } => format!("show the group {name:?}"),
            GroupCommand::Add { name, .. } => format!("add the group {name:?}"),
            GroupCommand::Remove { name } => format!("remove the group {name:?}"),
            GroupCommand::Set { name, .. }
            | GroupCommand::Join { name, .. }
            | GroupCommand::Leave { name, .. } => format!("change the group {name:?}"),
        }
    }
}

/// Runs an `ashlar group` command.
pub(crate) async fn run(settings: VolumeSettings, command: GroupCommand) -> Result<(), Problem> {
    let doing = command.doing();
    let within = async |admin: &Admin| within(admin, command).await;
    let done = Administration::with(&settings, &doing, within).await?;
    done.map_err(|error| refusal::problem(doing, error))
}

async fn within(admin: &Admin, command: GroupCommand) -> Result<(), AdminError> {
    match command {
        GroupCommand::List { printing } => {
            let mut table = Table::new(&COLUMNS);
            for group in admin.groups().await? {
                table.add(GroupRow::from(group).cells());
            }
            table.print(printing);
            Ok(())
        }
        GroupCommand::Show { name, printing } => {
            print_properties(&GroupRow::from(admin.group(&name).await?).properties(), printing);
            Ok(())
        }
        GroupCommand::Add { name, policy } => {
            // Without this check, a second addition would replace the policies.
            match admin.group(&name).await {
                Ok(_) => return Err(AdminError::GroupExists),
                Err(AdminError::NoSuchGroup) => {}
                Err(error) => return Err(error),
            }
            admin.put_group(&name, None, Some(&policy), None).await?;
            Ok(())
        }
        GroupCommand::Set { name, policy, no_policies, enabled } => {
            let policies = (no_policies || !policy.is_empty()).then_some(&*policy);
            admin.change_group(&name, enabled, policies, None).await
        }
        GroupCommand::Remove { name } => admin.remove_group(&name, None).await,
        GroupCommand::Join { name, users } => admin.add_group_members(&name, &users, None).await,
        GroupCommand::Leave { name, users } => {
            admin.remove_group_members(&name, &users, None).await
        }
    }
}

/// The columns of the list of groups.
pub(super) const COLUMNS: [&str; 4] = ["name", "enabled", "policies", "members"];

/// A group, as the command prints it.
#[derive(Debug)]
pub(super) struct GroupRow {
    pub(super) name: String,
    pub(super) enabled: bool,
    pub(super) policies: Vec<String>,
    pub(super) members: Vec<String>,
}

impl From<NamedGroup> for GroupRow {
    fn from(group: NamedGroup) -> GroupRow {
        let NamedGroup { name, enabled, members, policies, .. } = group;
        GroupRow { name, enabled, policies, members }
    }
}

impl GroupRow {
    /// Returns the cells of the columns.
    pub(super) fn cells(self) -> Vec<Cell> {
        let GroupRow { name, enabled, policies, members } = self;
        vec![Cell::text(&name), Cell::Flag(enabled), Cell::Names(policies), Cell::Names(members)]
    }

    /// Returns the cells with the names of their columns.
    pub(super) fn properties(self) -> Properties {
        COLUMNS.into_iter().zip(self.cells()).collect()
    }
}
