//! Named policies in AWS's JSON format, which access keys refer to.
//!
//! For example, after `put_policy("readers", …)` an access key can have the policy `readers`.

use namespace::{FindPolicy, ListPolicies, RemovePolicy, SetPolicy};
use policy::{Policy, PolicyKind};
use record::PolicyRecord;
use s3::Operation;

use crate::{Admin, AdminError, check_policy_name};

/// The names of the built-in policies, in order.
pub const BUILT_IN_POLICIES: [&str; 5] = Policy::CANNED;

/// A policy that access keys can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPolicy {
    /// The name of the policy.
    pub name: String,
    /// True if the policy is built in. It then has no document and cannot be removed.
    pub built_in: bool,
}

/// The result of setting a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySet {
    /// True if a policy of this name was replaced.
    pub existed: bool,
    /// Actions that the policy denies, each with the related action that it does not deny. S3
    /// checks one of the two if a request names a version, and the other one if it names none.
    pub half_denied: Vec<(&'static str, &'static str)>,
}

impl Admin {
    /// Returns all policies: the built-in ones, then the others in order of name.
    pub async fn policies(&self) -> Result<Vec<NamedPolicy>, AdminError> {
        let stored = self.look(&ListPolicies).await?;
        let built_in = BUILT_IN_POLICIES.iter().map(|&name| (name.to_owned(), true));
        let all = built_in.chain(stored.into_iter().map(|(name, _)| (name, false)));
        Ok(all.map(|(name, built_in)| NamedPolicy { name, built_in }).collect())
    }

    /// Returns the document of a policy, as it was set.
    ///
    /// # Errors
    /// [`AdminError::NoSuchPolicy`], [`AdminError::PolicyIsBuiltIn`].
    pub async fn policy(&self, name: &str) -> Result<String, AdminError> {
        existing(name)?;
        let PolicyRecord(document) = self.look(&FindPolicy { name }).await??;
        Ok(document)
    }

    /// Creates a policy, or replaces the policy of this name.
    ///
    /// # Errors
    /// [`AdminError::Name`], [`AdminError::NameIsBuiltIn`], [`AdminError::Document`], and if the
    /// store refuses the change.
    pub async fn put_policy(&self, name: &str, document: &str) -> Result<PolicySet, AdminError> {
        check_policy_name(name)?;
        if is_built_in(name) {
            return Err(AdminError::NameIsBuiltIn);
        }
        // The policy is parsed before it is stored: gateways refuse all requests of a key whose
        // policy they cannot parse.
        let policy = Policy::parse_new(document, PolicyKind::User)
            .map_err(|error| AdminError::Document(error.to_string()))?;
        let record = &PolicyRecord(document.to_owned());
        let existed = self.change(&SetPolicy { name, policy: record }).await?;
        Ok(PolicySet { existed, half_denied: policy.half_denied(&Operation::versioned_actions()) })
    }

    /// Removes a policy that no access key has. A policy that access keys have cannot be removed:
    /// it can contain a Deny, so the keys would gain permissions. Gateways refuse all requests of a
    /// key with a missing policy.
    ///
    /// # Errors
    /// [`AdminError::NoSuchPolicy`], [`AdminError::PolicyIsBuiltIn`], [`AdminError::PolicyInUse`],
    /// and if the store refuses the change.
    pub async fn remove_policy(&self, name: &str) -> Result<(), AdminError> {
        existing(name)?;
        Ok(self.change(&RemovePolicy { name }).await??)
    }
}

/// Returns true if the name is that of a built-in policy.
pub(crate) fn is_built_in(name: &str) -> bool {
    Policy::canned(name).is_some()
}

/// Fails with `NoSuchPolicy` if a name is not a valid policy name.
pub(crate) fn check_named(policies: &[String]) -> Result<(), AdminError> {
    let invalid = policies.iter().find(|name| check_policy_name(name).is_err());
    invalid.map_or(Ok(()), |name| Err(AdminError::NoSuchPolicy(name.clone())))
}

fn existing(name: &str) -> Result<(), AdminError> {
    if is_built_in(name) {
        return Err(AdminError::PolicyIsBuiltIn);
    }
    check_policy_name(name).map_err(|_| AdminError::NoSuchPolicy(name.to_owned()))
}
