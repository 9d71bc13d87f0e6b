//! `ashlar account` over the API.

use http::Method;
use problem::Problem;
use serde::Deserialize;

use super::Nothing;
use crate::commands::account::{self, AccountCommand};
use crate::endpoint::Endpoint;

/// An account of the API.
#[derive(Debug, Deserialize)]
struct AccountDocument {
    name: String,
    number: String,
    canonical_id: String,
}

/// Runs an `ashlar account` command.
pub(crate) async fn run(endpoint: &Endpoint, command: AccountCommand) -> Result<(), Problem> {
    let doing = command.doing();
    match command {
        AccountCommand::Add { name } => {
            let known: Result<Vec<AccountDocument>, _> = endpoint.list(&["accounts"], "").await;
            let known = known.map_err(|error| error.problem(doing.as_str()))?;
            // The API takes a second addition as a success.
            if known.iter().any(|account| account.name == name) {
                return Err(Problem::new(doing, "it exists"));
            }
            let added = endpoint.call(Method::PUT, &["accounts", &name], &[], None).await;
            let added: AccountDocument = added.map_err(|error| error.problem(doing))?;
            account::say_added(&added.number, &added.canonical_id);
            Ok(())
        }
        AccountCommand::List { printing } => {
            let found: Result<Vec<AccountDocument>, _> = endpoint.list(&["accounts"], "").await;
            let mut found = found.map_err(|error| error.problem(doing))?;
            found.sort_by(|one, other| one.number.cmp(&other.number));
            let row =
                |account: AccountDocument| [account.number, account.canonical_id, account.name];
            account::table(found.into_iter().map(row).collect()).print(printing);
            Ok(())
        }
        AccountCommand::Remove { name } => {
            let removed: Result<Nothing, _> =
                endpoint.call(Method::DELETE, &["accounts", &name], &[], None).await;
            removed.map(drop).map_err(|error| error.problem(doing))
        }
    }
}
