//! Further keys of users, which MinIO calls service accounts or access keys.
//!
//! A key of MinIO has a name and a description. Ashlar keeps both in the description of the key: a
//! name is in square brackets before it. For example, the name `ci` and the description `nightly
//! build` become `[ci] nightly build`.

use std::collections::BTreeMap;

use adminapi::resources::keys::{KeyJson, KeyPatch, NewKeyJson};
use adminapi::{ApiError, IfMatch};
use policy::AdminAction;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{CallRequest, Reply, all};
use crate::documents::{
    AddKeyBody, CredentialsDocument, KeyDetails, KeyDocument, KeyList, KeysOfUser, NewCredentials,
    UpdateKeyBody,
};
use crate::error::{self, no_such_key};
use crate::minio_admin::MinioAdmin;

/// The times by which clients of MinIO say that a key does not expire.
const NO_EXPIRY: [&str; 2] = ["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z"];

/// Returns the description of a key with this name and description.
fn described(name: &str, description: &str) -> String {
    match (name, description) {
        ("", description) => description.to_owned(),
        (name, "") => format!("[{name}]"),
        (name, description) => format!("[{name}] {description}"),
    }
}

/// Returns the name and the description of a key.
fn named(description: &str) -> (String, String) {
    let parts = description.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (name, rest) = parts.unwrap_or(("", description));
    (name.to_owned(), rest.strip_prefix(' ').unwrap_or(rest).to_owned())
}

fn shown(key: KeyJson) -> KeyDocument {
    let (name, description) = named(&key.description);
    KeyDocument {
        parent_user: key.user.unwrap_or_default(),
        account_status: if key.enabled { "on" } else { "off" },
        implied_policy: true,
        access_key: key.access_key,
        name,
        description,
        expiration: key.expires,
    }
}

/// Fails with `NotImplemented` if a request gives a key a policy of its own. To ignore it would
/// give the key more rights than the sender wants, so a text that is no policy is refused, too.
fn check_policy(policy: Option<&RawValue>) -> Result<(), ApiError> {
    let parsed = policy.map(|policy| serde_json::from_str::<Value>(policy.get()));
    let is_absent = match &parsed {
        None | Some(Ok(Value::Null)) => true,
        // A policy without statements is none, as in MinIO, which ignores the case of members.
        Some(Ok(Value::Object(members))) => {
            members.iter().all(|(name, value)| match name.as_str() {
                "Version" | "Id" | "ID" => true,
                "Statement" => value.is_null(),
                _ => false,
            })
        }
        Some(_) => false,
    };
    if is_absent {
        return Ok(());
    }
    let why = "Ashlar has no policies of access keys: a key has those of its user; see `ashlar user add` \
               and `ashlar key add`.";
    Err(error::missing(why))
}

impl MinioAdmin {
    /// Returns all further keys of a user. The operator's own key has none.
    async fn keys_of(
        &self,
        request: &CallRequest<'_>,
        user: &str,
    ) -> Result<Vec<KeyDocument>, ApiError> {
        let (api, actor) = (&*self.parts.api, request.actor);
        if api.access().is_root_key(user) {
            let may = actor.is_user(user) || actor.may(AdminAction::ListServiceAccounts, None);
            let action = AdminAction::ListServiceAccounts.name();
            return if may { Ok(Vec::new()) } else { Err(ApiError::denied(action)) };
        }
        let keys = all(|query| async move { api.keys(actor, user, &query).await }).await?;
        Ok(keys.into_iter().map(shown).collect())
    }

    pub(super) async fn add_key(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        // The body names the user, which can be the sender.
        request.require_unless_own(AdminAction::CreateServiceAccount, true)?;
        let body: AddKeyBody = self.opened(request).await?;
        check_policy(body.policy.as_deref())?;
        let given = |text: String| Some(text).filter(|text| !text.is_empty());
        let user = given(body.target_user).unwrap_or_else(|| request.actor.user().to_owned());
        if self.parts.api.access().is_root_key(&user) {
            let why = "Ashlar has no further keys of the operator's own key; see `ashlar user add` and \
                       `ashlar key add`.";
            return Err(error::missing(why));
        }
        let description = given(body.description).unwrap_or(body.comment);
        let new = NewKeyJson {
            // Clients invent a name when their user gives none, and show that of the answer. So a
            // sender that may not choose names gets a random one.
            access_key: given(body.access_key).filter(|_| request.actor.may_name_keys()),
            secret: given(body.secret_key),
            description: described(&body.name, &description),
            expires: body.expiration.filter(|time| !NO_EXPIRY.contains(&time.as_str())),
        };
        let issued = self.parts.api.post_key(request.actor, &user, &new).await?;
        Reply::sealed(&NewCredentials {
            credentials: CredentialsDocument {
                access_key: issued.access_key,
                secret_key: issued.secret,
                expiration: issued.expires,
            },
        })
    }

    /// Returns a further key with its user.
    async fn key_of(&self, request: &CallRequest<'_>) -> Result<(KeyJson, String), ApiError> {
        let name = request.query.one("accessKey")?;
        let key = self.parts.api.key(request.actor, name).await.map_err(no_such_key)?;
        let user = key.user.clone().unwrap_or_default();
        Ok((key, user))
    }

    pub(super) async fn update_key(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let (key, user) = self.key_of(request).await?;
        let is_own = request.actor.is_user(&user);
        request.require_unless_own(AdminAction::UpdateServiceAccount, is_own)?;
        let body: UpdateKeyBody = self.opened(request).await?;
        check_policy(body.policy.as_deref())?;
        let (name, description) = named(&key.description);
        let description = match (body.name.is_empty(), body.description.is_empty()) {
            (true, true) => None,
            (false, true) => Some(described(&body.name, &description)),
            (true, false) => Some(described(&name, &body.description)),
            (false, false) => Some(described(&body.name, &body.description)),
        };
        let enabled = match body.status.as_str() {
            "" => None,
            "on" | "enabled" => Some(true),
            "off" | "disabled" => Some(false),
            _ => return Err(error::invalid("A status is on or off.")),
        };
        let expires = body
            .expiration
            .map(|time| if NO_EXPIRY.contains(&time.as_str()) { String::new() } else { time });
        let secret = Some(body.secret_key).filter(|secret| !secret.is_empty());
        let patch = KeyPatch { description, expires, enabled, secret };
        let of = (user.as_str(), key.access_key.as_str());
        self.parts.api.patch_key(request.actor, of, &patch, &IfMatch::default()).await?;
        Ok(Reply::NoContent)
    }

    pub(super) async fn key_info(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let (key, user) = self.key_of(request).await?;
        let policy = self.policies_of(request, &user).await;
        Reply::sealed(&KeyDetails { key: shown(key), policy: policy.to_string() })
    }

    /// Returns the statements of all policies in force of a user in one document. It has none if
    /// the sender may not read them.
    async fn policies_of(&self, request: &CallRequest<'_>, user: &str) -> Value {
        let (api, actor) = (&self.parts.api, request.actor);
        let names = api.user(actor, user).await.map(|details| details.effective_policies);
        let mut statements = Vec::new();
        for name in names.unwrap_or_default() {
            let Ok(policy) = api.policy(actor, &name).await else { continue };
            let document: Value = serde_json::from_str(policy.document.get()).unwrap_or_default();
            match document.get("Statement") {
                Some(Value::Array(more)) => statements.extend_from_slice(more),
                Some(one) => statements.push(one.clone()),
                None => {}
            }
        }
        json!({ "Version": "2012-10-17", "Statement": statements })
    }

    pub(super) async fn list_keys(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let user = request.query.maybe("user").unwrap_or_else(|| request.actor.user());
        let mut accounts = self.keys_of(request, user).await?;
        for key in &mut accounts {
            // In this list alone clients need a time, also for a key that does not expire.
            key.expiration.get_or_insert_with(|| NO_EXPIRY[1].to_owned());
        }
        Reply::sealed(&KeyList { accounts })
    }

    /// Returns the keys of several users, of all, or of the sender.
    pub(super) async fn list_keys_of_users(
        &self,
        request: &CallRequest<'_>,
    ) -> Result<Reply, ApiError> {
        let query = &request.query;
        let asked: Vec<String> = query.all("users").map(str::to_owned).collect();
        let users = match (query.is_true("all"), asked.is_empty()) {
            (true, false) => return Err(error::invalid("The request names users and all.")),
            (true, true) => {
                self.users_of(request).await?.into_iter().map(|user| user.name).collect()
            }
            (false, true) => vec![request.actor.user().to_owned()],
            (false, false) => asked,
        };
        let with_keys = match query.one("listType")? {
            "all" | "svcacc-only" => true,
            "users-only" | "sts-only" => false,
            _ => return Err(error::invalid("The type of the list is unknown.")),
        };
        let only_with_keys = query.maybe("listType") == Some("svcacc-only");
        let mut found = BTreeMap::new();
        for user in users {
            let mut service_accounts = Vec::new();
            if with_keys {
                match self.keys_of(request, &user).await {
                    // As MinIO: users that do not exist are left out.
                    Err(error) if error.code == "NoSuchUser" => continue,
                    keys => service_accounts = keys?,
                }
            }
            if !only_with_keys || !service_accounts.is_empty() {
                found.insert(user, KeysOfUser { service_accounts, sts_keys: [] });
            }
        }
        if found.is_empty() && query.maybe("listType") == Some("sts-only") {
            return Reply::sealed(&json!({}));
        }
        Reply::sealed(&found)
    }

    pub(super) async fn remove_key(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let (key, user) = self.key_of(request).await?;
        let of = (user.as_str(), key.access_key.as_str());
        self.parts.api.delete_key(request.actor, of, &IfMatch::default()).await?;
        Ok(Reply::NoContent)
    }
}

#[cfg(test)]
mod tests;
