//! The calls, each translated to functions of the administration API.
//!
//! A module has the calls of one resource. For example, `users` turns `list-users` into pages of
//! `AdminApi::users`, and each `UserJson` into MinIO's document of a user.

mod groups;
mod information;
mod keys;
mod policies;
mod quotas;
mod users;

use std::borrow::Cow;

use adminapi::page::{LIMIT_MAX, ListPage, PageQuery};
use adminapi::{Actor, ApiError};
use bytes::Bytes;
use http::StatusCode;
use identity::Secret;
use policy::AdminAction;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::AdminCall;
use crate::error;
use crate::minio_admin::MinioAdmin;
use crate::query::CallQuery;

/// The limit of items of a list. Clients of MinIO know no pages.
const LISTED_MAX: usize = 10_000;

/// A call with its authenticated sender.
#[derive(Debug)]
pub(crate) struct CallRequest<'a> {
    pub(crate) actor: &'a Actor<'a>,
    /// The secret of the sender, with which bodies are encrypted.
    pub(crate) secret: &'a Secret,
    pub(crate) query: CallQuery,
    pub(crate) body: Bytes,
    /// The host that the client named.
    pub(crate) host: &'a str,
}

impl CallRequest<'_> {
    /// Returns the body as a value. Fails with `XMinioAdminConfigBadJSON`.
    fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        parse(&self.body)
    }

    /// Fails with `AccessDenied` if the sender may not do an action. A call checks this before it
    /// decrypts a body, which is expensive.
    fn require(&self, action: AdminAction) -> Result<(), ApiError> {
        if self.actor.may(action, None) { Ok(()) } else { Err(ApiError::denied(action.name())) }
    }

    /// Fails as [`CallRequest::require`], except for an action on the sender itself that nothing
    /// denies.
    fn require_unless_own(&self, action: AdminAction, is_own: bool) -> Result<(), ApiError> {
        if is_own && self.actor.may_for_itself(action) { Ok(()) } else { self.require(action) }
    }

    /// Returns the name of the sender, by which its encrypted bodies take turns.
    fn sender(&self) -> Cow<'_, str> {
        self.actor.identity().person()
    }
}

/// Parses JSON. The error does not repeat the text, which may have a secret.
fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        error::bad_json(format!("The JSON is wrong at line {line}, column {column}."))
    })
}

/// The answer to a call.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Success without a body, status 200.
    Done,
    /// Success without a body, status 204.
    NoContent,
    /// A JSON document.
    Json(Vec<u8>),
    /// A JSON document that is encrypted with the secret of the sender.
    Sealed(Vec<u8>),
}

impl Reply {
    fn json(document: &impl Serialize) -> Result<Reply, ApiError> {
        Ok(Reply::Json(encode(document)?))
    }

    fn sealed(document: &impl Serialize) -> Result<Reply, ApiError> {
        Ok(Reply::Sealed(encode(document)?))
    }
}

fn encode(document: &impl Serialize) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(document).map_err(|error| {
        tracing::error!(%error, "cannot encode an answer of MinIO's administration protocol");
        s3::Code::InternalError.into()
    })
}

/// Returns all items of a list, page by page. Fails with `TooLong` beyond [`LISTED_MAX`] items.
async fn all<T, F: Future<Output = Result<ListPage<T>, ApiError>>>(
    mut page: impl FnMut(PageQuery) -> F,
) -> Result<Vec<T>, ApiError> {
    let mut items = Vec::new();
    let mut next = None;
    loop {
        let query = PageQuery { page: next, limit: Some(LIMIT_MAX), prefix: None };
        let found = page(query).await?;
        items.extend(found.items);
        next = found.next;
        if next.is_none() {
            return Ok(items);
        }
        if items.len() >= LISTED_MAX {
            let why = format!(
                "The list has more than {LISTED_MAX} items, and this protocol knows no pages. Use \
                 `/api/v1` of the administration API."
            );
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "TooLong", why));
        }
    }
}

impl MinioAdmin {
    /// Returns the value in an encrypted body.
    async fn opened<T: DeserializeOwned>(&self, request: &CallRequest<'_>) -> Result<T, ApiError> {
        let (sender, body) = (request.sender(), request.body.clone());
        parse(&self.sealing.open(&sender, request.secret, body).await?)
    }

    /// Returns an encrypted answer to a request.
    pub(crate) async fn sealed(
        &self,
        request: &CallRequest<'_>,
        content: Vec<u8>,
    ) -> Result<Vec<u8>, ApiError> {
        self.sealing.seal(&request.sender(), request.secret, content).await
    }

    /// Carries out a call.
    pub(crate) async fn carry_out(
        &self,
        call: AdminCall,
        request: &CallRequest<'_>,
    ) -> Result<Reply, ApiError> {
        match call {
            AdminCall::ServerInfo => self.server_info(request).await,
            // A trace streams, so `served` begins it.
            AdminCall::Trace => Err(s3::Code::InternalError.into()),
            AdminCall::ListUsers => self.list_users(request).await,
            AdminCall::UserInfo => self.user_info(request).await,
            AdminCall::AddUser => self.add_user(request).await,
            AdminCall::SetUserStatus => self.set_user_status(request).await,
            AdminCall::RemoveUser => self.remove_user(request).await,
            AdminCall::AddKey => self.add_key(request).await,
            AdminCall::UpdateKey => self.update_key(request).await,
            AdminCall::KeyInfo => self.key_info(request).await,
            AdminCall::ListKeys => self.list_keys(request).await,
            AdminCall::ListKeysOfUsers => self.list_keys_of_users(request).await,
            AdminCall::RemoveKey => self.remove_key(request).await,
            AdminCall::UpdateMembers => self.update_members(request).await,
            AdminCall::GroupInfo => self.group_info(request).await,
            AdminCall::ListGroups => self.list_groups(request).await,
            AdminCall::SetGroupStatus => self.set_group_status(request).await,
            AdminCall::AddPolicy => self.add_policy(request).await,
            AdminCall::PolicyInfo => self.policy_info(request).await,
            AdminCall::ListPolicies => self.list_policies(request).await,
            AdminCall::RemovePolicy => self.remove_policy(request).await,
            AdminCall::SetPolicies => self.set_policies(request).await,
            AdminCall::AttachPolicies => self.attach_policies(request).await,
            AdminCall::DetachPolicies => self.detach_policies(request).await,
            AdminCall::PolicyEntities => self.policy_entities(request).await,
            AdminCall::GetQuota => self.get_quota(request).await,
            AdminCall::SetQuota => self.set_quota(request).await,
        }
    }
}

/// Returns the names in a list with commas, as MinIO writes several policies.
fn names(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Returns true for the status `enabled`, and false for `disabled`.
fn is_enabled(status: &str) -> Result<bool, ApiError> {
    match status {
        "enabled" => Ok(true),
        "disabled" => Ok(false),
        _ => Err(error::invalid("A status is enabled or disabled.")),
    }
}

/// Returns the status of a user or a group.
fn status(is_enabled: bool) -> &'static str {
    if is_enabled { "enabled" } else { "disabled" }
}
