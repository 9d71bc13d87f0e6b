//! `ashlar group` over the API.

use http::Method;
use problem::Problem;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Nothing;
use crate::commands::group::{self, GroupCommand, GroupRow};
use crate::endpoint::{Endpoint, EndpointError};
use crate::table::{Table, print_properties};

/// The limit of members of one request.
const MEMBERS_AT_ONCE_MAX: usize = 100;

/// A group of the API.
#[derive(Debug, Deserialize)]
struct GroupDocument {
    name: String,
    enabled: bool,
    members: Vec<String>,
    policies: Vec<String>,
}

impl GroupDocument {
    fn row(self) -> GroupRow {
        let GroupDocument { name, enabled, members, policies } = self;
        GroupRow { name, enabled, policies, members }
    }
}

/// Runs an `ashlar group` command.
pub(crate) async fn run(endpoint: &Endpoint, command: GroupCommand) -> Result<(), Problem> {
    let doing = command.doing();
    within(endpoint, command).await.map_err(|error| error.problem(doing))
}

async fn within(endpoint: &Endpoint, command: GroupCommand) -> Result<(), EndpointError> {
    let found = |name: String| async move {
        let found = endpoint.call(Method::GET, &["groups", &name], &[], None).await;
        found.map(|group: GroupDocument| group)
    };
    match command {
        GroupCommand::List { printing } => {
            let groups: Vec<GroupDocument> = endpoint.list(&["groups"], "").await?;
            let mut table = Table::new(&group::COLUMNS);
            groups.into_iter().for_each(|group| table.add(group.row().cells()));
            table.print(printing);
        }
        GroupCommand::Show { name, printing } => {
            print_properties(&found(name).await?.row().properties(), printing);
        }
        GroupCommand::Add { name, policy } => {
            // Without this check, a second addition would replace the policies.
            match found(name.clone()).await {
                Ok(_) => {
                    let exists = Problem::new(format!("add the group {name:?}"), "it exists");
                    let exists = exists.remedy("change it with `ashlar group set`");
                    return Err(EndpointError::Broken(exists));
                }
                Err(error) if error.is("NoSuchGroup") => {}
                Err(error) => return Err(error),
            }
            put(endpoint, &name, json!({ "policies": policy })).await?;
        }
        GroupCommand::Set { name, policy, no_policies, enabled } => {
            // Without this check, the change would create a group.
            found(name.clone()).await?;
            let mut change = Map::new();
            change.extend(enabled.map(|enabled| ("enabled".to_owned(), json!(enabled))));
            if no_policies || !policy.is_empty() {
                change.insert("policies".to_owned(), json!(policy));
            }
            put(endpoint, &name, Value::Object(change)).await?;
        }
        GroupCommand::Remove { name } => {
            endpoint.call::<Nothing>(Method::DELETE, &["groups", &name], &[], None).await?;
        }
        GroupCommand::Join { name, users } => patch(endpoint, &name, "add", &users).await?,
        GroupCommand::Leave { name, users } => patch(endpoint, &name, "remove", &users).await?,
    }
    Ok(())
}

async fn put(endpoint: &Endpoint, name: &str, body: Value) -> Result<(), EndpointError> {
    endpoint.call::<Nothing>(Method::PUT, &["groups", name], &[], Some(body)).await.map(drop)
}

/// Changes the members of a group, as many at once as the API takes.
async fn patch(
    endpoint: &Endpoint,
    name: &str,
    change: &str,
    users: &[String],
) -> Result<(), EndpointError> {
    for users in users.chunks(MEMBERS_AT_ONCE_MAX) {
        let body = json!({ change: users });
        endpoint.call::<Nothing>(Method::PATCH, &["groups", name], &[], Some(body)).await?;
    }
    Ok(())
}
