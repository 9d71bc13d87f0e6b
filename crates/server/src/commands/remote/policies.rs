//! `ashlar policy` over the API.

use http::Method;
use policy::{Policy, PolicyKind};
use problem::Problem;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Nothing;
use crate::commands::policy::{self as command, PolicyCommand};
use crate::endpoint::Endpoint;

/// A policy in a list.
#[derive(Debug, Deserialize)]
struct PolicySummary {
    name: String,
    built_in: bool,
}

/// A policy. Its document keeps its form.
#[derive(Debug, Deserialize)]
struct PolicyDocument {
    document: Box<RawValue>,
}

/// Runs an `ashlar policy` command.
pub(crate) async fn run(endpoint: &Endpoint, command: PolicyCommand) -> Result<(), Problem> {
    let doing = command.doing();
    match command {
        PolicyCommand::Add { name, file } => {
            let text = command::read(&file)?;
            let wrong = |error: &dyn std::fmt::Display| Problem::new(doing.as_str(), error);
            // The same check as over the store, before anything changes.
            let parsed =
                Policy::parse_new(&text, PolicyKind::User).map_err(|error| wrong(&error))?;
            let document: Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
            let body = json!({ "document": document });
            let path = ["policies", name.as_str()];
            let set: Result<Nothing, _> = endpoint.call(Method::PUT, &path, &[], Some(body)).await;
            set.map_err(|error| error.problem(doing.as_str()))?;
            command::say_half_denied(parsed.half_denied(&s3::Operation::versioned_actions()));
            Ok(())
        }
        PolicyCommand::List { printing } => {
            let found: Result<Vec<PolicySummary>, _> = endpoint.list(&["policies"], "").await;
            let found = found.map_err(|error| error.problem(doing))?;
            let rows = found.into_iter().map(|policy| (policy.name, policy.built_in));
            command::table(rows.collect()).print(printing);
            Ok(())
        }
        PolicyCommand::Show { name, printing } => {
            let found = endpoint.call(Method::GET, &["policies", &name], &[], None).await;
            let found: PolicyDocument = found.map_err(|error| error.problem(doing))?;
            command::print(&name, found.document.get(), printing);
            Ok(())
        }
        PolicyCommand::Remove { name } => {
            let removed: Result<Nothing, _> =
                endpoint.call(Method::DELETE, &["policies", &name], &[], None).await;
            removed.map(drop).map_err(|error| error.problem(doing))
        }
    }
}
