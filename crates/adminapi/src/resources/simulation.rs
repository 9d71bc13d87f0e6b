//! Simulations of permissions: "may anna read photos/a.jpg?"
//!
//! A simulation makes the same decision as a request of the user, with the tags, the lock and the
//! ACL of the object and with the public access block of the bucket. Conditions see a request
//! without headers, from no address, so a statement with such a condition may decide otherwise for
//! a real request. The decisions of the single policies see no object. For example, the answer
//! names the policy whose Deny applies.

use http::HeaderMap;
use identity::{Authenticated, RequestOrigin, Sender};
use policy::{AdminAction, Decision, NoValues, Question, Ruling};
use s3::auth::Verified;
use s3::operation::Permission;
use s3::{BucketName, ObjectKey};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Actor, AdminApi, ApiError};

/// A question about the permission of a user.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Simulation {
    /// The name of the user.
    pub user: String,
    /// The action, for example `s3:GetObject` or `admin:ListUsers`.
    pub action: String,
    /// The bucket, or the bucket and the key: `photos` or `photos/a.jpg`. Absent or empty for an
    /// action that concerns no bucket.
    pub resource: Option<String>,
}

/// The answer to a question about a permission.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SimulationResult {
    /// True if the user may do the action.
    pub allowed: bool,
    /// The reason, as a sentence.
    pub reason: String,
    /// The decision of each policy in force of the user.
    pub policies: Vec<PolicyDecision>,
}

/// The decision of one policy.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PolicyDecision {
    /// The name of the policy.
    pub policy: String,
    /// `allow`, `deny` or `none`.
    pub decision: String,
}

impl AdminApi {
    /// Answers a question about the permission of a user.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:GetUser` and `admin:GetPolicy`, except for the sender itself;
    /// `NoSuchUser` for an unknown, disabled or expired user, `NoSuchBucket`, `BadRequest`.
    pub async fn simulate(
        &self,
        actor: &Actor<'_>,
        asked: &Simulation,
    ) -> Result<SimulationResult, ApiError> {
        actor.require_of(&asked.user, AdminAction::GetUser)?;
        actor.require_of(&asked.user, AdminAction::GetPolicy)?;
        let now = rules::time(self.volume.now());
        let identity = self.access.lookup(&asked.user, now);
        let identity = identity.filter(|known| known.signing_key == asked.user);
        let identity = identity
            .ok_or_else(|| ApiError::not_found(format!("enabled user {:?}", asked.user)))?;
        let permission = permission(asked)?;
        let rules = match permission.resource.bucket() {
            Some(bucket) => Some(
                self.gateway
                    .rules()
                    .get(&self.volume, bucket)
                    .await
                    .map_err(|_| s3::Code::NoSuchBucket)?,
            ),
            None => None,
        };
        let verified = Verified::without_signature(asked.user.as_str(), now);
        let authenticated = Authenticated { verified, identity: Some(identity) };
        let headers = HeaderMap::new();
        let origin = RequestOrigin { headers: &headers, client: None, now };
        let sender = Sender::new(&self.access, &self.volume, &authenticated, origin);
        let is_admin = asked.action.to_ascii_lowercase().starts_with("admin:");
        // Administrative actions are for the account of the operators.
        let in_account = !is_admin || sender.account() == record::AccountId::MAIN;
        let of_bucket = rules.as_deref().filter(|_| !is_admin);
        let ruling = sender.explain(&permission, of_bucket).await;
        let ruling = ruling.map_err(admin::AdminError::Volume)?;
        Ok(SimulationResult {
            allowed: ruling.is_allowed() && in_account,
            reason: if in_account {
                sentence(ruling, &sender)
            } else {
                "Administrative actions are for users of the account main.".to_owned()
            },
            policies: self.decisions(&asked.user, &permission, &sender).await,
        })
    }

    /// Returns the decision of each policy of a user. The operator's own key has none.
    async fn decisions(
        &self,
        user: &str,
        permission: &Permission,
        sender: &Sender<'_>,
    ) -> Vec<PolicyDecision> {
        let Ok(overview) = self.admin.user_overview(user).await else { return Vec::new() };
        let principal = self.access.principal(sender.identity.as_deref());
        let resource = permission.resource_name();
        let mut decisions = Vec::new();
        for policy in overview.effective_policies {
            let Ok(found) = self.admin.policy(&policy).await else { continue };
            let parsed = policy::Policy::parse(&found.document, policy::PolicyKind::User);
            let Ok(parsed) = parsed else { continue };
            let question = Question {
                principal: &principal,
                action: permission.action,
                resource: &resource,
                conditions: &NoValues,
            };
            let decision = match parsed.decide(&question) {
                Decision::Allowed => "allow",
                Decision::Denied => "deny",
                Decision::Unspecified => "none",
            };
            decisions.push(PolicyDecision { policy, decision: decision.to_owned() });
        }
        decisions
    }
}

/// Returns the permission of a question.
fn permission(asked: &Simulation) -> Result<Permission, ApiError> {
    let action = known_action(&asked.action)?;
    let resource = asked.resource.as_deref().unwrap_or_default().trim();
    if resource.is_empty() {
        return Ok(Permission::on_service(action));
    }
    match resource.split_once('/') {
        None => Ok(Permission::on_bucket(action, &BucketName::parse(resource)?)),
        Some((bucket, key)) => {
            let (bucket, key) = (BucketName::parse(bucket)?, ObjectKey::parse(key)?);
            Ok(Permission::on_object(action, &bucket, &key))
        }
    }
}

/// Returns the name of an action that requests have. Fails with `BadRequest` for another text.
fn known_action(text: &str) -> Result<&'static str, ApiError> {
    let of_s3 = s3::Operation::ALL.iter().filter_map(|operation| operation.action());
    let versioned = s3::Operation::versioned_actions().into_iter().map(|(_, versioned)| versioned);
    let of_admin = AdminAction::ALL.iter().map(|action| action.name());
    let mut all = of_s3.chain(versioned).chain(of_admin);
    all.find(|known| known.eq_ignore_ascii_case(text.trim()))
        .ok_or_else(|| ApiError::bad_request(format!("No request has the action {text:?}.")))
}

/// Returns the reason for a decision.
fn sentence(ruling: Ruling, sender: &Sender<'_>) -> String {
    match ruling {
        Ruling::Allowed if sender.identity.as_ref().is_some_and(|it| it.root) => {
            "The operator's own key may do everything in its account.".to_owned()
        }
        Ruling::Allowed => "A policy allows the action, and none denies it.".to_owned(),
        Ruling::Denied(source) => {
            format!("A statement of the {} denies the action.", source.words())
        }
        Ruling::NotAllowed(source) => format!("No {} allows the action.", source.words()),
    }
}

#[cfg(test)]
mod tests;
