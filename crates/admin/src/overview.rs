//! A user with everything that decides about its requests.
//!
//! For example, `user_overview("anna")` shows the policies of `anna` itself and those of her
//! enabled groups, as gateways apply them.

use std::collections::BTreeSet;

use record::Timestamp;

use crate::{AccessKey, Admin, AdminError, NamedGroup};

/// A user with everything that decides about its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserOverview {
    /// The user.
    pub user: AccessKey,
    /// Its further keys and tokens, in order of name.
    pub keys: Vec<AccessKey>,
    /// Its groups, in order of name.
    pub groups: Vec<NamedGroup>,
    /// The names of the policies in force: those of the user, and those of its enabled groups. In
    /// order of name.
    pub effective_policies: Vec<String>,
    /// The time of the last use of the user or one of its keys.
    pub last_used: Option<Timestamp>,
}

impl Admin {
    /// Returns a user with its further keys, tokens and groups. The parts are not of one snapshot.
    ///
    /// # Errors
    /// Those of [`Admin::user`].
    pub async fn user_overview(&self, access_key: &str) -> Result<UserOverview, AdminError> {
        let user = self.user(access_key).await?;
        let keys = self.all_keys(|key| key.parent.as_deref() == Some(access_key)).await?;
        let groups: Vec<NamedGroup> =
            self.groups().await?.into_iter().filter(|it| user.groups.contains(&it.name)).collect();
        let of_groups = groups.iter().filter(|group| group.enabled).flat_map(|it| &it.policies);
        let effective: BTreeSet<String> = user.policies.iter().chain(of_groups).cloned().collect();
        let last_used = keys.iter().chain([&user]).filter_map(|key| key.last_used).max();
        let effective_policies = effective.into_iter().collect();
        Ok(UserOverview { user, keys, groups, effective_policies, last_used })
    }
}
