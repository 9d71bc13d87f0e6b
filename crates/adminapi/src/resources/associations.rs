//! Policies of users and groups, added and removed one by one.
//!
//! The other resources replace the list of policies as a whole. For example, `attach readers` to
//! `anna` while another operator detaches `writers` from her: both changes have effect, because
//! each one reads the list again if it has changed.

use policy::AdminAction;

use super::groups::NewGroup;
use super::users::UserPatch;
use crate::etag::IfMatch;
use crate::{Actor, AdminApi, ApiError};

/// The limit of attempts of a change that others overtake.
const ATTEMPTS_MAX: usize = 8;

/// The owner of a list of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyHolder<'a> {
    /// The user of this name.
    User(&'a str),
    /// The group of this name.
    Group(&'a str),
}

/// The change of a list of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Association {
    /// Adds the policies that the list does not have.
    Attach,
    /// Removes the policies that the list has.
    Detach,
}

impl AdminApi {
    /// Adds policies to a user or a group, or removes them. Returns the names by which the list
    /// changed; none if nothing was to do.
    ///
    /// # Errors
    /// Those of [`AdminApi::patch_user`] and [`AdminApi::put_group`], except `Changed`; `Contended`
    /// if others change the list all the time.
    pub async fn associate(
        &self,
        actor: &Actor<'_>,
        holder: PolicyHolder<'_>,
        policies: &[String],
        association: Association,
    ) -> Result<Vec<String>, ApiError> {
        // Before the first read, so that the answer does not reveal the policies of others.
        actor.require(AdminAction::AttachUserOrGroupPolicy)?;
        for _ in 0..ATTEMPTS_MAX {
            let (now, etag) = match holder {
                PolicyHolder::User(name) => {
                    let user = self.admin.user(name).await?;
                    (user.policies, user.etag)
                }
                PolicyHolder::Group(name) => {
                    let group = self.admin.group(name).await?;
                    (group.policies, group.etag)
                }
            };
            let (all, changed) = changed(now, policies, association);
            if changed.is_empty() {
                return Ok(changed);
            }
            let unchanged = IfMatch::record(&etag);
            let outcome = match holder {
                PolicyHolder::User(name) => {
                    let patch = UserPatch { policies: Some(all), ..UserPatch::default() };
                    self.patch_user(actor, name, &patch, &unchanged).await.map(drop)
                }
                PolicyHolder::Group(name) => {
                    let new = NewGroup { policies: Some(all), enabled: None };
                    self.put_group(actor, name, &new, &unchanged).await.map(drop)
                }
            };
            match outcome {
                Ok(()) => return Ok(changed),
                // The list, or a policy that it gets.
                Err(error) if ["Changed", "Contended"].contains(&&*error.code) => {}
                Err(error) => return Err(error),
            }
        }
        Err(admin::AdminError::Contended.into())
    }
}

/// Returns the new list of policies, and the names by which it differs from `now`.
fn changed(
    now: Vec<String>,
    policies: &[String],
    association: Association,
) -> (Vec<String>, Vec<String>) {
    let mut changed: Vec<String> = Vec::new();
    for policy in policies {
        let has = now.contains(policy);
        let wanted = match association {
            Association::Attach => !has,
            Association::Detach => has,
        };
        if wanted && !changed.contains(policy) {
            changed.push(policy.clone());
        }
    }
    let mut all = now;
    match association {
        Association::Attach => all.extend(changed.iter().cloned()),
        Association::Detach => all.retain(|policy| !changed.contains(policy)),
    }
    (all, changed)
}

#[cfg(test)]
mod tests;
