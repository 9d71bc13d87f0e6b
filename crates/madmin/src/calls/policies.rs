//! Policies, and the users and groups that have them.

use std::collections::BTreeMap;

use adminapi::resources::associations::{Association, PolicyHolder};
use adminapi::resources::groups::NewGroup;
use adminapi::resources::policies::{NewPolicy, PolicySummary};
use adminapi::resources::users::UserPatch;
use adminapi::{ApiError, IfMatch};
use http::StatusCode;
use policy::AdminAction;
use time::format_description::well_known::Rfc3339;

use super::{CallRequest, Reply, all, names};
use crate::documents::{
    AssociationBody, AssociationDocument, EntitiesDocument, GroupMapping, PolicyDocument,
    PolicyMapping, UserMapping,
};
use crate::error;
use crate::minio_admin::MinioAdmin;

impl MinioAdmin {
    pub(super) async fn add_policy(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let name = request.query.one("name")?;
        let new = NewPolicy { document: request.json()? };
        self.parts.api.put_policy(request.actor, name, &new, &IfMatch::default()).await?;
        Ok(Reply::Done)
    }

    pub(super) async fn policy_info(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let name = request.query.one("name")?;
        let policy = self.parts.api.policy(request.actor, name).await?;
        match request.query.maybe("v") {
            None => Reply::json(&policy.document),
            Some("2") => {
                let (policy_name, policy) = (policy.name, policy.document);
                Reply::json(&PolicyDocument { policy_name, policy })
            }
            Some(_) => Err(error::invalid("The version of this call is 2, or absent.")),
        }
    }

    pub(super) async fn list_policies(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let (api, actor) = (&*self.parts.api, request.actor);
        let found: Vec<PolicySummary> =
            all(|query| async move { api.policies(actor, &query).await }).await?;
        let mut documents = BTreeMap::new();
        for PolicySummary { name, .. } in found {
            match api.policy(actor, &name).await {
                Ok(policy) => {
                    documents.insert(name, policy.document);
                }
                // Removed since the list was read.
                Err(error) if error.code == "NoSuchPolicy" => {}
                Err(error) => return Err(error),
            }
        }
        Reply::json(&documents)
    }

    pub(super) async fn remove_policy(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let name = request.query.one("name")?;
        let removed = self.parts.api.delete_policy(request.actor, name, &IfMatch::default()).await;
        removed.map(|()| Reply::Done).map_err(|error| match &*error.code {
            "InUse" => {
                let why = format!("The policy cannot be removed, as it is in use. {error}");
                ApiError::new(StatusCode::BAD_REQUEST, "XMinioIAMPolicyInUse", why)
            }
            _ => error,
        })
    }

    /// Replaces all policies of a user or a group.
    pub(super) async fn set_policies(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let (api, actor, query) = (&self.parts.api, request.actor, &request.query);
        let name = query.one("userOrGroup")?;
        let policies = Some(names(query.maybe("policyName").unwrap_or_default()));
        if query.is_true("isGroup") {
            let new = NewGroup { enabled: None, policies };
            // Fails for a missing group, which `put_group` would create.
            api.group(actor, name).await?;
            api.put_group(actor, name, &new, &IfMatch::default()).await?;
        } else {
            let patch = UserPatch { policies, ..UserPatch::default() };
            api.patch_user(actor, name, &patch, &IfMatch::default()).await?;
        }
        Ok(Reply::Done)
    }

    pub(super) async fn attach_policies(
        &self,
        request: &CallRequest<'_>,
    ) -> Result<Reply, ApiError> {
        let policies_attached = self.associate(request, Association::Attach).await?;
        let (policies_detached, updated_at) = (Vec::new(), self.now_text());
        Reply::sealed(&AssociationDocument { policies_attached, policies_detached, updated_at })
    }

    pub(super) async fn detach_policies(
        &self,
        request: &CallRequest<'_>,
    ) -> Result<Reply, ApiError> {
        let policies_detached = self.associate(request, Association::Detach).await?;
        let (policies_attached, updated_at) = (Vec::new(), self.now_text());
        Reply::sealed(&AssociationDocument { policies_attached, policies_detached, updated_at })
    }

    async fn associate(
        &self,
        request: &CallRequest<'_>,
        association: Association,
    ) -> Result<Vec<String>, ApiError> {
        request.require(AdminAction::AttachUserOrGroupPolicy)?;
        let AssociationBody { policies, user, group } = self.opened(request).await?;
        let holder = match (user.as_str(), group.as_str()) {
            ("", "") => return Err(error::invalid("The request names no user and no group.")),
            (user, "") => PolicyHolder::User(user),
            ("", group) => PolicyHolder::Group(group),
            (_, _) => return Err(error::invalid("The request names a user and a group.")),
        };
        if policies.is_empty() {
            return Err(error::invalid("The request names no policies."));
        }
        let api = &self.parts.api;
        let changed = api.associate(request.actor, holder, &policies, association).await?;
        if changed.is_empty() {
            return Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                "XMinioAdminPolicyChangeAlreadyApplied",
                "The specified policy change is already in effect.",
            ));
        }
        Ok(changed)
    }

    /// Returns the current time.
    fn now_text(&self) -> String {
        rules::time(self.parts.api.volume().now()).format(&Rfc3339).unwrap_or_default()
    }

    /// Returns the users and groups that have policies, all or those that the query names.
    pub(super) async fn policy_entities(
        &self,
        request: &CallRequest<'_>,
    ) -> Result<Reply, ApiError> {
        let (users, groups) = (self.users_of(request).await?, self.groups_of(request).await?);
        let query = &request.query;
        let asked = |name: &'static str| query.all(name).collect::<Vec<_>>();
        let (for_users, for_groups, for_policies) =
            (asked("user"), asked("group"), asked("policy"));
        let everything = for_users.is_empty() && for_groups.is_empty() && for_policies.is_empty();
        let group_mappings: Vec<GroupMapping> = groups
            .into_iter()
            .filter(|group| !group.policies.is_empty())
            .map(|group| GroupMapping { group: group.name, policies: group.policies })
            .collect();
        let mut by_policy: BTreeMap<&str, (Vec<String>, Vec<String>)> = BTreeMap::new();
        for user in &users {
            for policy in &user.policies {
                by_policy.entry(policy).or_default().0.push(user.name.clone());
            }
        }
        for mapping in &group_mappings {
            for policy in &mapping.policies {
                by_policy.entry(policy).or_default().1.push(mapping.group.clone());
            }
        }
        let policy_mappings = by_policy
            .into_iter()
            .filter(|(policy, _)| everything || for_policies.contains(policy))
            .map(|(policy, (users, groups))| PolicyMapping {
                policy: policy.to_owned(),
                users,
                groups,
            })
            .collect();
        let user_mappings = users
            .iter()
            .filter(|user| everything || for_users.contains(&user.name.as_str()))
            .map(|user| UserMapping {
                user: user.name.clone(),
                policies: user.policies.clone(),
                member_of_mappings: group_mappings
                    .iter()
                    .filter(|mapping| user.groups.contains(&mapping.group))
                    .cloned()
                    .collect(),
            })
            .filter(|user| !user.policies.is_empty() || !user.member_of_mappings.is_empty())
            .collect();
        let shown =
            |mapping: &GroupMapping| everything || for_groups.contains(&mapping.group.as_str());
        let timestamp = self.now_text();
        let mut group_mappings = group_mappings;
        group_mappings.retain(shown);
        Reply::sealed(&EntitiesDocument {
            timestamp,
            user_mappings,
            group_mappings,
            policy_mappings,
        })
    }
}
