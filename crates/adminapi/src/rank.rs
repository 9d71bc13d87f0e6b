//! The limit of changes that would give more administrative rights than the sender has.
//!
//! A user who may create users could otherwise create one with the policy `consoleAdmin`, or take
//! the secret of an operator. So a sender may only make, change or join users, keys, groups and
//! policies that give administrative actions which the sender itself may do. The operator's own key
//! may do all. Actions of S3 are not compared: the administration of users includes giving access
//! to data.
//!
//! Nor may a sender change its own policies or groups, because removing one could remove a Deny.
//! For the same reason, and because a new Deny could lock out a user, a sender may only change the
//! policies and groups of users whose administrative actions it may do itself.

use std::collections::BTreeSet;

use admin::{AccessKey, AdminError, Etag, NamedGroup, PolicyGiver};
use policy::{AdminAction, Policy, PolicyKind};

use crate::{Actor, AdminApi, ApiError};

/// The policy whose document [`AdminApi::check_replaced`] has checked. The change must fail if
/// another sender replaces it or creates it before the commit: the new document could have actions
/// that the sender may not do.
#[derive(Debug)]
pub(crate) enum Replaced {
    /// Nothing depends on the document.
    Any,
    /// There was no policy of this name.
    Absent,
    /// The policy with this etag.
    Version(Etag),
}

impl Replaced {
    /// Checks the etag that a request expects of the policy. Fails with `NoSuchPolicy` if there was
    /// no policy, and with `Changed` if the checked policy has another etag.
    pub(crate) fn check(&self, policy: &str, expected: Option<&Etag>) -> Result<(), ApiError> {
        match (self, expected) {
            (Replaced::Any, _) | (Replaced::Absent | Replaced::Version(_), None) => Ok(()),
            (Replaced::Absent, Some(_)) => Err(AdminError::NoSuchPolicy(policy.to_owned()).into()),
            (Replaced::Version(seen), Some(expected)) if seen == expected => Ok(()),
            (Replaced::Version(_), Some(_)) => Err(ApiError::changed()),
        }
    }
}

/// Returns the error of a change that would give `action` to another user.
fn beyond(action: AdminAction) -> ApiError {
    ApiError::denied(action.name())
        .detail("The change would give or take this action, which you may not do.")
}

impl AdminApi {
    /// Fails with `AccessDenied` if one of the policies that a user or a group has could allow an
    /// administrative action that the sender may not do. Conditions and resources are ignored, so
    /// the check is on the safe side. A policy that does not exist allows nothing. For policies
    /// that a sender gives, use [`AdminApi::giver`].
    pub(crate) async fn check_rank(
        &self,
        actor: &Actor<'_>,
        policies: &[String],
    ) -> Result<(), ApiError> {
        if actor.is_root() {
            return Ok(());
        }
        for name in policies {
            match self.admin.policy(name).await {
                Ok(found) => check_document(actor, &found.document)?,
                Err(AdminError::NoSuchPolicy(_)) => {}
                // Without the document the change could give more rights than the sender has.
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns the giver of these policies, in the versions of which the sender may give all
    /// actions. Fails as [`AdminApi::check_rank`], and with `NoSuchPolicy` for a policy that does
    /// not exist: another sender could create it, with more rights, before the change. The giver
    /// refuses a policy that another sender has replaced since this check.
    pub(crate) async fn giver(
        &self,
        actor: &Actor<'_>,
        policies: &[String],
    ) -> Result<PolicyGiver<'_>, ApiError> {
        let mut seen = Vec::new();
        for name in policies {
            // The operator's own key may give all, so nothing depends on the documents.
            if actor.is_root() {
                break;
            }
            let found = self.admin.policy(name).await?;
            check_document(actor, &found.document)?;
            // A built-in policy never changes.
            seen.extend(found.etag.map(|etag| (name.clone(), etag)));
        }
        Ok(self.admin.giver(seen))
    }

    /// Fails as [`AdminApi::check_rank`] for the policies of a user and of its groups.
    pub(crate) async fn check_rank_of_user(
        &self,
        actor: &Actor<'_>,
        user: &str,
    ) -> Result<(), ApiError> {
        if actor.is_root() {
            return Ok(());
        }
        let overview = self.admin.user_overview(user).await?;
        self.check_rank(actor, &overview.effective_policies).await?;
        // A disabled group could be enabled later.
        for group in &overview.groups {
            self.check_rank(actor, &group.policies).await?;
        }
        Ok(())
    }

    /// Fails as [`AdminApi::check_rank`] for the policies of several users, with two reads of all
    /// users and groups.
    pub(crate) async fn check_rank_of_users(
        &self,
        actor: &Actor<'_>,
        is_meant: impl Fn(&AccessKey, &[&NamedGroup]) -> bool,
    ) -> Result<(), ApiError> {
        if actor.is_root() {
            return Ok(());
        }
        let (users, groups) = (self.admin.users().await?, self.admin.groups().await?);
        let mut policies = BTreeSet::new();
        for user in &users {
            let of_user = groups.iter().filter(|group| user.groups.contains(&group.name));
            let of_user: Vec<&NamedGroup> = of_user.collect();
            if is_meant(user, &of_user) {
                policies.extend(user.policies.iter().cloned());
                // A disabled group could be enabled later.
                policies.extend(of_user.iter().flat_map(|group| group.policies.iter().cloned()));
            }
        }
        self.check_rank(actor, &Vec::from_iter(policies)).await
    }

    /// Fails as [`AdminApi::check_rank`] for all users that have a policy, themselves or in a
    /// group, and for the web roles of this gateway that have it. A change of the policy could
    /// remove a Deny that limits them, or add one.
    pub(crate) async fn check_rank_of_holders(
        &self,
        actor: &Actor<'_>,
        policy: &str,
    ) -> Result<(), ApiError> {
        for (_, policies) in self.access.web_holders(policy) {
            self.check_rank(actor, &policies).await?;
        }
        let has = |names: &[String]| names.iter().any(|name| name == policy);
        self.check_rank_of_users(actor, |user, groups| {
            has(&user.policies) || groups.iter().any(|group| has(&group.policies))
        })
        .await
    }

    /// Fails with `AccessDenied` if the policy that the sender replaces or removes could allow an
    /// administrative action that the sender may not do. Web identities can have the policy by a
    /// claim of their tokens, which is not known here. If there are such roles, the same holds for
    /// actions that the policy could deny, because the policy could be the limit of a web identity.
    pub(crate) async fn check_replaced(
        &self,
        actor: &Actor<'_>,
        policy: &str,
    ) -> Result<Replaced, ApiError> {
        if actor.is_root() {
            return Ok(Replaced::Any);
        }
        let known = match self.admin.policy(policy).await {
            Ok(known) => known,
            Err(AdminError::NoSuchPolicy(_)) => return Ok(Replaced::Absent),
            Err(error) => return Err(error.into()),
        };
        check_document(actor, &known.document)?;
        if self.access.has_claimed_policies() {
            check_actions(actor, &known.document, Policy::could_deny)?;
        }
        // A built-in policy never changes.
        Ok(known.etag.map_or(Replaced::Any, Replaced::Version))
    }

    /// Fails with `AccessDenied` if the sender has the policy, itself or in a group.
    pub(crate) async fn check_not_own_policy(
        &self,
        actor: &Actor<'_>,
        policy: &str,
    ) -> Result<(), ApiError> {
        // A session or token of the operator has no policies of users.
        if actor.identity().root {
            return Ok(());
        }
        let own = match self.admin.user_overview(actor.user()).await {
            Ok(own) => own,
            // A web identity has policies of its role, whose names are not known here.
            Err(AdminError::NoSuchUser | AdminError::NotUser(_)) => {
                return Err(own_rights("A web identity cannot change policies."));
            }
            Err(error) => return Err(error.into()),
        };
        // A disabled group could be enabled later.
        let of_groups = own.groups.iter().flat_map(|group| &group.policies);
        if own.effective_policies.iter().chain(of_groups).any(|name| name == policy) {
            return Err(own_rights("A policy that you have cannot be changed by you."));
        }
        Ok(())
    }
}

/// Fails with `AccessDenied` if a policy document could allow an administrative action that the
/// sender may not do, or may do under a condition alone; also if it cannot be parsed.
pub(crate) fn check_document(actor: &Actor<'_>, document: &str) -> Result<(), ApiError> {
    check_actions(actor, document, Policy::could_allow)
}

/// Fails as [`check_document`] for the administrative actions of a document for which `is_named` is
/// true.
fn check_actions(
    actor: &Actor<'_>,
    document: &str,
    is_named: impl Fn(&Policy, &str) -> bool,
) -> Result<(), ApiError> {
    if actor.is_root() {
        return Ok(());
    }
    let policy = Policy::parse(document, PolicyKind::User)
        .map_err(|error| AdminError::Document(error.to_string()))?;
    // Each user may log in without an Allow, so a policy does not give this action.
    let compared = AdminAction::ALL.iter().filter(|action| **action != AdminAction::ConsoleLogin);
    let mut found = compared.filter(|action| is_named(&policy, action.name()));
    found.find(|action| !actor.may_give(**action)).map_or(Ok(()), |action| Err(beyond(*action)))
}

/// Returns the error of a change of the sender's own rights.
pub(crate) fn own_rights(why: &str) -> ApiError {
    ApiError::new(http::StatusCode::FORBIDDEN, "AccessDenied", why)
}

#[cfg(test)]
mod tests;
