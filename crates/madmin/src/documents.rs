//! The JSON documents of the protocol, with the names of MinIO.
//!
//! Fields that Ashlar does not know are left out, or have the value with which MinIO marks an
//! absent one. For example, the list of drives of a server is absent.
//!
//! The bodies that give or take rights have the members that `mc` sends, and no others. MinIO
//! ignores the case of members, so a body with `Policy` limits a key there. Here it is refused: if
//! the member were ignored, the key would have all rights of its user.

use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A user of `list-users` and `user-info`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserDocument {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) policy_name: String,
    pub(crate) status: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) member_of: Vec<String>,
    pub(crate) updated_at: String,
}

/// The body of `add-user`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddUserBody {
    #[serde(default)]
    pub(crate) secret_key: String,
    #[serde(default)]
    pub(crate) policy: String,
    #[serde(default)]
    pub(crate) status: String,
}

/// The body of `add-service-account`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddKeyBody {
    pub(crate) policy: Option<Box<RawValue>>,
    #[serde(default)]
    pub(crate) target_user: String,
    #[serde(default)]
    pub(crate) access_key: String,
    #[serde(default)]
    pub(crate) secret_key: String,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    /// The description, in requests of older clients.
    #[serde(default)]
    pub(crate) comment: String,
    pub(crate) expiration: Option<String>,
}

/// The body of `update-service-account`. A property that is absent or empty stays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateKeyBody {
    #[serde(rename = "newPolicy")]
    pub(crate) policy: Option<Box<RawValue>>,
    #[serde(rename = "newSecretKey", default)]
    pub(crate) secret_key: String,
    #[serde(rename = "newStatus", default)]
    pub(crate) status: String,
    #[serde(rename = "newName", default)]
    pub(crate) name: String,
    #[serde(rename = "newDescription", default)]
    pub(crate) description: String,
    #[serde(rename = "newExpiration")]
    pub(crate) expiration: Option<String>,
}

macro_rules! debug_without_secrets {
    ($($name:ident)*) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        })*
    };
}

debug_without_secrets! { AddUserBody AddKeyBody UpdateKeyBody NewCredentials CredentialsDocument }

/// The answer of `add-service-account`.
#[derive(Serialize)]
pub(crate) struct NewCredentials {
    pub(crate) credentials: CredentialsDocument,
}

/// A new access key with its secret.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CredentialsDocument {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expiration: Option<String>,
}

/// A further key of a user.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyDocument {
    pub(crate) parent_user: String,
    pub(crate) account_status: &'static str,
    /// Always true: a key has the policies of its user.
    pub(crate) implied_policy: bool,
    pub(crate) access_key: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expiration: Option<String>,
}

/// A further key of a user, with the policies of the user as text.
#[derive(Debug, Serialize)]
pub(crate) struct KeyDetails {
    #[serde(flatten)]
    pub(crate) key: KeyDocument,
    pub(crate) policy: String,
}

/// The answer of `list-service-accounts`.
#[derive(Debug, Serialize)]
pub(crate) struct KeyList {
    pub(crate) accounts: Vec<KeyDocument>,
}

/// The keys of a user in `list-access-keys-bulk`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeysOfUser {
    pub(crate) service_accounts: Vec<KeyDocument>,
    /// Always empty: sessions have no records.
    pub(crate) sts_keys: [KeyDocument; 0],
}

/// The body of `update-group-members`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MembersBody {
    #[serde(default)]
    pub(crate) group: String,
    pub(crate) members: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) is_remove: bool,
    /// The state of the group, which `mc` sends empty. Another call sets it.
    #[serde(rename = "groupStatus", default)]
    _status: IgnoredAny,
}

/// The answer of `group`.
#[derive(Debug, Serialize)]
pub(crate) struct GroupDocument {
    pub(crate) name: String,
    pub(crate) status: &'static str,
    pub(crate) members: Vec<String>,
    pub(crate) policy: String,
}

/// The answer of `info-canned-policy` with `v=2`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PolicyDocument {
    pub(crate) policy_name: String,
    pub(crate) policy: Box<RawValue>,
}

/// The body of `idp/builtin/policy/attach` and `detach`.
#[derive(Debug, Deserialize)]
pub(crate) struct AssociationBody {
    #[serde(default)]
    pub(crate) policies: Vec<String>,
    #[serde(default)]
    pub(crate) user: String,
    #[serde(default)]
    pub(crate) group: String,
}

/// The answer of `idp/builtin/policy/attach` and `detach`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AssociationDocument {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) policies_attached: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) policies_detached: Vec<String>,
    pub(crate) updated_at: String,
}

/// The answer of `idp/builtin/policy-entities`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EntitiesDocument {
    pub(crate) timestamp: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) user_mappings: Vec<UserMapping>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) group_mappings: Vec<GroupMapping>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) policy_mappings: Vec<PolicyMapping>,
}

/// The policies of a user and of its groups.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserMapping {
    pub(crate) user: String,
    pub(crate) policies: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) member_of_mappings: Vec<GroupMapping>,
}

/// The policies of a group.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GroupMapping {
    pub(crate) group: String,
    pub(crate) policies: Vec<String>,
}

/// The users and groups that have a policy.
#[derive(Debug, Serialize)]
pub(crate) struct PolicyMapping {
    pub(crate) policy: String,
    pub(crate) users: Vec<String>,
    pub(crate) groups: Vec<String>,
}

/// The body of `set-bucket-quota`, and the answer of `get-bucket-quota`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) struct QuotaDocument {
    /// The limit of bytes, in requests of older clients.
    #[serde(default)]
    pub(crate) quota: u64,
    /// The limit of bytes; 0 for none.
    #[serde(default)]
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) rate: u64,
    #[serde(default)]
    pub(crate) requests: u64,
}

/// The answer of `info`.
#[derive(Debug, Serialize)]
pub(crate) struct ServerDocument<'a> {
    pub(crate) mode: &'static str,
    pub(crate) region: &'a str,
    #[serde(rename = "deploymentID")]
    pub(crate) deployment_id: String,
    pub(crate) buckets: Count,
    pub(crate) objects: Count,
    pub(crate) usage: Usage,
    pub(crate) backend: Backend,
    pub(crate) servers: [ServerProperties<'a>; 1],
}

/// The number of buckets or of objects.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Count {
    pub(crate) count: u64,
}

/// The used bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Usage {
    pub(crate) size: u64,
}

/// The kind of storage. It is that of MinIO without drives of its own.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Backend {
    pub(crate) backend_type: &'static str,
}

/// A server.
#[derive(Debug, Serialize)]
pub(crate) struct ServerProperties<'a> {
    pub(crate) state: &'static str,
    pub(crate) endpoint: &'a str,
    pub(crate) uptime: u64,
    pub(crate) version: String,
    #[serde(rename = "commitID")]
    pub(crate) commit_id: String,
    pub(crate) edition: &'static str,
}

#[cfg(test)]
mod tests;
