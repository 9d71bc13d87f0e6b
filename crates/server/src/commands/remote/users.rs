//! `ashlar user` over the API.

use http::Method;
use identity::Secret;
use problem::Problem;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{IssuedDocument, KeyDocument, Nothing, access_keys, moment};
use crate::commands::issued::{self, Issued};
use crate::commands::user::{self, UserCommand};
use crate::endpoint::Endpoint;
use crate::environment::secret_file;
use crate::table::Printing;

/// A user with its keys and the policies in force.
#[derive(Debug, Deserialize)]
pub(super) struct UserDetails {
    #[serde(flatten)]
    pub(super) user: KeyDocument,
    effective_policies: Vec<String>,
    pub(super) access_keys: Vec<KeyDocument>,
}

/// Runs an `ashlar user` command.
pub(crate) async fn run(endpoint: &Endpoint, command: UserCommand) -> Result<(), Problem> {
    let doing = command.doing();
    let patch = |name: String, change: Value| async move {
        let done: Result<Nothing, _> =
            endpoint.call(Method::PATCH, &["users", &name], &[], Some(change)).await;
        done.map(drop)
    };
    let done = match command {
        UserCommand::Add {
            name,
            policy,
            account,
            uid,
            gid,
            umask,
            secret_file: file,
            printing,
        } => {
            let given = file.map(|file| secret_file(&file)).transpose()?;
            let body = json!({
                "account": account,
                "secret": given.as_ref().map(Secret::expose),
                "uid": uid,
                "gid": gid,
                "umask": umask.to_string(),
                "policies": policy,
            });
            let issued: Result<IssuedDocument, _> =
                endpoint.call(Method::PUT, &["users", &name], &[], Some(body)).await;
            let issued = issued.map_err(|error| error.problem(doing))?;
            let secret = given.is_none().then_some(issued.secret.as_str());
            let key = Issued {
                access_key: &issued.access_key,
                user: None,
                expires: issued.expires.as_deref().map(moment).transpose()?,
            };
            issued::print(key, ("secret key", "secret_key", secret), printing);
            user::say_policies(&policy, printing);
            return Ok(());
        }
        UserCommand::List { printing } => {
            let users: Result<Vec<KeyDocument>, _> = endpoint.list(&["users"], "").await;
            let users = access_keys(users.map_err(|error| error.problem(doing))?)?;
            user::table(users).print(printing);
            return Ok(());
        }
        UserCommand::Show { name, printing } => {
            return show(endpoint, &name, doing, printing).await;
        }
        UserCommand::Set { name, uid, gid, umask } => {
            let mut change = Map::new();
            change.extend(uid.map(|uid| ("uid".to_owned(), json!(uid))));
            change.extend(gid.map(|gid| ("gid".to_owned(), json!(gid))));
            change.extend(umask.map(|umask| ("umask".to_owned(), json!(umask.to_string()))));
            patch(name, Value::Object(change)).await
        }
        UserCommand::Enable { name } => patch(name, json!({ "enabled": true })).await,
        UserCommand::Disable { name } => patch(name, json!({ "enabled": false })).await,
        UserCommand::Policy { name, policies } => {
            patch(name, json!({ "policies": policies })).await
        }
        UserCommand::Remove { name } => {
            let done: Result<Nothing, _> =
                endpoint.call(Method::DELETE, &["users", &name], &[], None).await;
            done.map(drop)
        }
    };
    done.map_err(|error| error.problem(doing))
}

/// Prints a user with its keys.
async fn show(
    endpoint: &Endpoint,
    name: &str,
    doing: String,
    printing: Printing,
) -> Result<(), Problem> {
    let found = endpoint.call(Method::GET, &["users", name], &[], None).await;
    let UserDetails { user, effective_policies, access_keys: keys } =
        found.map_err(|error| error.problem(doing))?;
    let (user, keys) = (user.access_key()?, access_keys(keys)?);
    // The names of a user are those of keys and of tokens.
    let is_key = |name: &&String| keys.iter().any(|key| key.access_key == **name);
    let tokens = user.keys.iter().filter(|name| !is_key(name)).cloned().collect();
    user::print(&user, &keys, tokens, effective_policies, printing);
    Ok(())
}
