//! Named policies.
//!
//! For example, `PUT /policies/readers` with `{"document": {"Statement": […]}}` creates a policy
//! that users and groups can have.

use admin::{AdminError, Etag, NamedPolicy};
use policy::{AdminAction, Policy, PolicyKind};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::etag::IfMatch;
use crate::page::{ListPage, PageQuery};
use crate::rank::{Replaced, check_document};
use crate::{Actor, AdminApi, ApiError};

/// A policy in a list.
#[derive(Clone, Debug, Serialize, ToSchema, PartialEq, Eq)]
pub struct PolicySummary {
    /// The name.
    pub name: String,
    /// True if the policy is built in and cannot be changed.
    pub built_in: bool,
}

/// A policy with its document.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Policy)]
pub struct PolicyJson {
    /// The name.
    pub name: String,
    /// True if the policy is built in and cannot be changed.
    pub built_in: bool,
    /// The document in the JSON of AWS.
    #[schema(value_type = serde_json::Value)]
    pub document: Box<RawValue>,
    /// The version of the record; `None` for a built-in policy. It becomes the `ETag`.
    #[serde(skip)]
    pub version: Option<Etag>,
}

/// A policy document of a request.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPolicy {
    /// The document in the JSON of AWS.
    #[schema(value_type = serde_json::Value)]
    pub document: Box<RawValue>,
}

/// The result of a check of a policy document.
#[derive(Clone, Debug, Serialize, ToSchema, PartialEq, Eq)]
pub struct Validation {
    /// True if the document is a valid policy.
    pub valid: bool,
    /// The first mistake, if the document is not valid.
    pub problem: Option<String>,
    /// Sentences about statements that probably do not do what their author wanted.
    pub hints: Vec<String>,
}

impl AdminApi {
    /// Returns a page of policies: the built-in ones and the others, in order of name.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:GetPolicy`.
    pub async fn policies(
        &self,
        actor: &Actor<'_>,
        query: &PageQuery,
    ) -> Result<ListPage<PolicySummary>, ApiError> {
        actor.require(AdminAction::GetPolicy)?;
        let mut policies = self.admin.policies().await?;
        policies.sort_by(|one, other| one.name.cmp(&other.name));
        let shown = |NamedPolicy { name, built_in }| PolicySummary { name, built_in };
        Ok(query.range()?.of(policies, |policy| &policy.name, shown))
    }

    /// Returns a policy.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:GetPolicy`, `NoSuchPolicy`.
    pub async fn policy(&self, actor: &Actor<'_>, name: &str) -> Result<PolicyJson, ApiError> {
        actor.require(AdminAction::GetPolicy)?;
        self.known_policy(name).await
    }

    async fn known_policy(&self, name: &str) -> Result<PolicyJson, ApiError> {
        let found = self.admin.policy(name).await?;
        // A document that was stored is JSON, because the parser of policies accepted it. Its
        // members keep their order.
        let document = RawValue::from_string(found.document).map_err(|error| {
            tracing::error!(%error, policy = name, "cannot parse a policy");
            ApiError::from(s3::Code::InternalError)
        })?;
        let (name, version) = (name.to_owned(), found.etag);
        Ok(PolicyJson { name, built_in: version.is_none(), document, version })
    }

    /// Creates or replaces a policy.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:CreatePolicy`, and if the new or the old document gives an
    /// action that the sender may not do; `InvalidName`, `InvalidPolicy`, `BuiltIn`, `Changed`;
    /// `Contended` if another sender changes the policy between the check and the commit.
    pub async fn put_policy(
        &self,
        actor: &Actor<'_>,
        name: &str,
        new: &NewPolicy,
        if_match: &IfMatch,
    ) -> Result<PolicyJson, ApiError> {
        actor.require(AdminAction::CreatePolicy)?;
        check_document(actor, new.document.get())?;
        self.check_not_own_policy(actor, name).await?;
        let (seen, expected) = (self.check_replaced(actor, name).await?, if_match.of_record()?);
        self.check_rank_of_holders(actor, name).await?;
        let document = new.document.get();
        seen.check(name, expected.as_ref())?;
        match seen {
            Replaced::Absent => self.admin.put_seen_policy(name, document, None).await?,
            Replaced::Version(seen) if expected.is_none() => {
                self.admin.put_seen_policy(name, document, Some(&seen)).await?
            }
            Replaced::Any | Replaced::Version(_) => {
                self.admin.put_policy(name, document, expected.as_ref()).await?
            }
        };
        self.follow_access().await;
        self.known_policy(name).await
    }

    /// Removes a policy that no user and no web role of this gateway has.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:DeletePolicy`, and if the document gives an action that the
    /// sender may not do; `NoSuchPolicy`, `InUse`, `BuiltIn`, `Changed`; `Contended` if another
    /// sender changes the policy between the check and the commit.
    pub async fn delete_policy(
        &self,
        actor: &Actor<'_>,
        name: &str,
        if_match: &IfMatch,
    ) -> Result<(), ApiError> {
        actor.require(AdminAction::DeletePolicy)?;
        let (seen, expected) = (self.check_replaced(actor, name).await?, if_match.of_record()?);
        // Each session of the role would be refused.
        if let Some((role, _)) = self.access.web_holders(name).first() {
            let message = format!("The role {role:?} for web identities has the policy.");
            return Err(ApiError::new(http::StatusCode::CONFLICT, "InUse", message));
        }
        seen.check(name, expected.as_ref())?;
        match seen {
            Replaced::Absent => Err(AdminError::NoSuchPolicy(name.to_owned()).into()),
            Replaced::Version(seen) if expected.is_none() => {
                Ok(self.admin.remove_seen_policy(name, &seen).await?)
            }
            Replaced::Any | Replaced::Version(_) => {
                Ok(self.admin.remove_policy(name, expected.as_ref()).await?)
            }
        }
    }

    /// Checks a policy document. Reads and changes nothing.
    pub fn validate_policy(&self, new: &NewPolicy) -> Validation {
        match Policy::parse_new(new.document.get(), PolicyKind::User) {
            Ok(policy) => {
                let half = policy.half_denied(&s3::Operation::versioned_actions());
                let hint = |(denied, other): (&str, &str)| {
                    format!(
                        "The policy denies {denied} and not {other}, which most requests can use \
                         instead."
                    )
                };
                let hints = half.into_iter().map(hint).collect();
                Validation { valid: true, problem: None, hints }
            }
            Err(error) => {
                Validation { valid: false, problem: Some(error.to_string()), hints: Vec::new() }
            }
        }
    }
}
