//! `ashlar token`: bearer tokens for the API of administrators.
//!
//! For example, `ashlar token add --action 'admin:List*' --expires 30d` prints a token that lists
//! users and jobs for 30 days, and can do nothing else.

use admin::{AccessKey, Admin, NewToken};
use clap::Subcommand;
use problem::Problem;

use super::administration::Administration;
use super::first_secret::master_key;
use super::{issued, refusal};
use crate::config::{Expires, VolumeSettings};
use crate::operator::UnderMasterKey;
use crate::table::{Cell, Printing, Table};

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// List tokens
    List {
        #[command(flatten)]
        printing: Printing,
    },
    /// Create a token, and print it. It cannot be printed again
    Add {
        /// A permitted action, such as admin:ListUsers or admin:*. Can be repeated
        #[arg(long, value_name = "ACTION", required = true)]
        action: Vec<String>,
        /// The user whose policies must allow the actions, too [default: the operator]
        #[arg(long, value_name = "USER")]
        user: Option<String>,
        /// A note, for example the program that uses the token
        #[arg(long, value_name = "TEXT", default_value = "")]
        description: String,
        /// The time from which the token is refused, such as 30d or 2027-01-31T00:00:00Z
        #[arg(long, value_name = "TIME", default_value = "never")]
        expires: Expires,
        #[command(flatten)]
        printing: Printing,
    },
    /// Remove a token
    Remove {
        /// The access key of the token, from `list`
        token: String,
    },
}

impl TokenCommand {
    /// Returns the action, for error texts.
    pub(super) fn doing(&self) -> String {
        match self {
            TokenCommand::List { .. } => "list tokens".to_owned(),
            TokenCommand::Add { .. } => "add a token".to_owned(),
            TokenCommand::Remove { token } => format!("remove the token {token:?}"),
        }
    }

    /// Returns true if the API has no endpoint for the command: each sender makes tokens of its
    /// own.
    pub(crate) fn needs_store(&self) -> bool {
        matches!(self, TokenCommand::Add { user: Some(_), .. })
    }
}

/// Runs an `ashlar token` command.
pub(crate) async fn run(settings: VolumeSettings, command: TokenCommand) -> Result<(), Problem> {
    let within = async |admin: &Admin| within(&settings, admin, command).await;
    Administration::with(&settings, "manage tokens", within).await?
}

async fn within(
    settings: &VolumeSettings,
    admin: &Admin,
    command: TokenCommand,
) -> Result<(), Problem> {
    match command {
        TokenCommand::List { printing } => {
            let tokens = admin.tokens().await;
            let tokens = tokens.map_err(|error| refusal::problem("list tokens", error))?;
            table(tokens).print(printing);
            Ok(())
        }
        TokenCommand::Add { action, user, description, expires, printing } => {
            let problem = |error| refusal::problem("add a token", error);
            let new = NewToken {
                parent: user.as_deref(),
                actions: &action,
                description: &description,
                expires: expires.at(admin.now()),
            };
            let sealer = UnderMasterKey(master_key(settings)?);
            let added = admin.add_token(&new, &sealer).await.map_err(problem)?;
            issued::print((&added.token).into(), ("token", "token", Some(&added.text)), printing);
            Ok(())
        }
        TokenCommand::Remove { token } => {
            let doing = || format!("remove the token {token:?}");
            let removed = admin.remove_token(&token, None).await;
            removed.map_err(|error| refusal::problem(doing(), error))
        }
    }
}

/// Returns the list of tokens.
pub(super) fn table(tokens: Vec<AccessKey>) -> Table {
    let columns =
        ["access_key", "user", "enabled", "actions", "expires", "last_used", "made", "description"];
    let mut table = Table::new(&columns);
    for token in tokens {
        table.add(vec![
            Cell::text(&token.access_key),
            Cell::text(token.parent.as_deref().unwrap_or_default()),
            Cell::Flag(token.enabled),
            Cell::Names(token.actions.unwrap_or_default()),
            Cell::time(token.expires),
            Cell::time(token.last_used),
            Cell::Time(token.made),
            Cell::text(&token.description),
        ]);
    }
    table
}
