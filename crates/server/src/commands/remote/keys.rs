//! `ashlar key` over the API.
//!
//! The API names a key together with its user, and the command by its name alone. So a command
//! looks for a user of this name first, and then for the user that has the key.

use admin::AccessKey;
use http::Method;
use identity::Secret;
use problem::Problem;
use serde_json::{Map, Value, json};

use super::users::UserDetails;
use super::{IssuedDocument, KeyDocument, Nothing, moment, text};
use crate::commands::issued::{self, Issued};
use crate::commands::key::{self, KeyCommand};
use crate::endpoint::{Endpoint, EndpointError};
use crate::environment::secret_file;
use crate::operator;
use crate::table::Printing;

/// Returns the user of a key, which is the key itself for a user's own access key.
async fn user_of(endpoint: &Endpoint, key: &str) -> Result<String, EndpointError> {
    let user: Result<Value, _> = endpoint.call(Method::GET, &["users", key], &[], None).await;
    match user {
        Ok(_) => return Ok(key.to_owned()),
        // A further key is no user.
        Err(error) if error.is("NoSuchUser") || error.is("NotUser") => {}
        Err(error) => return Err(error),
    }
    let users: Vec<KeyDocument> = endpoint.list(&["users"], "").await?;
    let owner = users.into_iter().find(|user| user.keys.iter().any(|name| name == key));
    // Without an owner, the API says that there is no such key.
    Ok(owner.map_or_else(|| key.to_owned(), |user| user.access_key))
}

/// Runs an `ashlar key` command.
pub(crate) async fn run(endpoint: &Endpoint, command: KeyCommand) -> Result<(), Problem> {
    let doing = command.doing();
    let now = operator::now();
    let done = match command {
        KeyCommand::List { user, printing } => {
            let keys = list(endpoint, user).await;
            key::table(&keys.map_err(|error| error.problem(doing))??).print(printing);
            return Ok(());
        }
        KeyCommand::Add { user, access_key, description, expires, secret_file: file, printing } => {
            let given = file.map(|file| secret_file(&file)).transpose()?;
            let body = json!({
                "access_key": access_key,
                "secret": given.as_ref().map(Secret::expose),
                "description": description,
                "expires": expires.at(now).map(text),
            });
            let path = ["users", user.as_str(), "keys"];
            let issued = endpoint.call(Method::POST, &path, &[], Some(body)).await;
            let issued = issued.map_err(|error| error.problem(doing))?;
            return print(&issued, &user, given.is_some(), printing);
        }
        KeyCommand::Rotate { key, old_expires, printing } => {
            let rotated = async {
                let user = user_of(endpoint, &key).await?;
                let path = ["users", user.as_str(), "keys", key.as_str(), "rotate"];
                let body = json!({ "old_expires_seconds": old_expires.as_secs() });
                let issued: IssuedDocument =
                    endpoint.call(Method::POST, &path, &[], Some(body)).await?;
                Ok((issued, user))
            };
            let (issued, user) =
                rotated.await.map_err(|error: EndpointError| error.problem(doing))?;
            return print(&issued, &user, false, printing);
        }
        KeyCommand::Set { key, description, expires } => {
            let mut change = Map::new();
            change.extend(description.map(|text| ("description".to_owned(), json!(text))));
            let expires = expires.map(|expires| expires.at(now).map(text).unwrap_or_default());
            change.extend(expires.map(|time| ("expires".to_owned(), json!(time))));
            patch(endpoint, &key, Value::Object(change)).await
        }
        KeyCommand::Enable { key } => patch(endpoint, &key, json!({ "enabled": true })).await,
        KeyCommand::Disable { key } => patch(endpoint, &key, json!({ "enabled": false })).await,
        KeyCommand::Remove { key } => {
            let removed = async {
                let user = user_of(endpoint, &key).await?;
                let path = ["users", user.as_str(), "keys", key.as_str()];
                endpoint.call::<Nothing>(Method::DELETE, &path, &[], None).await
            };
            removed.await.map(drop)
        }
    };
    done.map_err(|error| error.problem(doing))
}

async fn patch(endpoint: &Endpoint, key: &str, change: Value) -> Result<(), EndpointError> {
    let user = user_of(endpoint, key).await?;
    let path = ["users", user.as_str(), "keys", key];
    endpoint.call::<Nothing>(Method::PATCH, &path, &[], Some(change)).await.map(drop)
}

/// Returns the keys of a user, or of all users, in order of name.
async fn list(
    endpoint: &Endpoint,
    user: Option<String>,
) -> Result<Result<Vec<AccessKey>, Problem>, EndpointError> {
    let one = user.is_some();
    let users = match user {
        Some(user) => vec![user],
        None => {
            let users: Vec<KeyDocument> = endpoint.list(&["users"], "").await?;
            users.into_iter().map(|user| user.access_key).collect()
        }
    };
    let mut keys = Vec::new();
    for user in users {
        let found = endpoint.call(Method::GET, &["users", &user], &[], None).await;
        let UserDetails { user, access_keys, .. } = match found {
            // Another operator has removed the user since the list.
            Err(error) if !one && error.is("NoSuchUser") => continue,
            found => found?,
        };
        keys.push(user);
        keys.extend(access_keys);
    }
    keys.sort_by(|one, other| one.access_key.cmp(&other.access_key));
    Ok(super::access_keys(keys))
}

fn print(
    issued: &IssuedDocument,
    user: &str,
    from_file: bool,
    printing: Printing,
) -> Result<(), Problem> {
    let secret = if from_file { None } else { Some(issued.secret.as_str()) };
    let expires = issued.expires.as_deref().map(moment).transpose()?;
    let key = Issued { access_key: &issued.access_key, user: Some(user), expires };
    issued::print(key, ("secret key", "secret_key", secret), printing);
    Ok(())
}
