//! Named policies, in the JSON of AWS.

use namespace::{FindPolicy, ListPolicies, RemovePolicy, SetPolicy};
use policy::{Policy, PolicyKind};
use record::PolicyRecord;
use s3::Operation;

use crate::{Admin, AdminError, check_policy_name};

/// The policies that need no document, in order.
pub const BUILT_IN_POLICIES: [&str; 3] = ["readonly", "readwrite", "writeonly"];

/// A policy that access keys may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPolicy {
    /// Its name.
    pub name: String,
    /// Whether it is built in. Then it has no document and cannot be removed.
    pub built_in: bool,
}

/// A policy that was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySet {
    /// Whether it took the place of another one.
    pub existed: bool,
    /// Actions that it denies, each with one that it does not deny although it permits the same: S3
    /// checks one of the two if a request names a version, and the other one if not.
    pub half_denied: Vec<(&'static str, &'static str)>,
}

impl Admin {
    /// All policies: those that are built in, then the others, in order.
    pub async fn policies(&self) -> Result<Vec<NamedPolicy>, AdminError> {
        let stored = self.run(&ListPolicies, None).await?;
        let built_in = BUILT_IN_POLICIES.iter().map(|&name| (name.to_owned(), true));
        let all = built_in.chain(stored.into_iter().map(|(name, _)| (name, false)));
        Ok(all.map(|(name, built_in)| NamedPolicy { name, built_in }).collect())
    }

    /// A policy's document, as it was given.
    ///
    /// # Errors
    /// [`AdminError::NoSuchPolicy`], [`AdminError::PolicyIsBuiltIn`].
    pub async fn policy(&self, name: &str) -> Result<String, AdminError> {
        existing(name)?;
        let PolicyRecord(document) = self.run(&FindPolicy { name }, None).await??;
        Ok(document)
    }

    /// Makes a policy, or replaces the one of the same name.
    ///
    /// # Errors
    /// [`AdminError::Name`], [`AdminError::NameIsBuiltIn`], [`AdminError::Document`], and if the
    /// store does not take it.
    pub async fn put_policy(&self, name: &str, document: &str) -> Result<PolicySet, AdminError> {
        check_policy_name(name)?;
        if is_built_in(name) {
            return Err(AdminError::NameIsBuiltIn);
        }
        let policy = Policy::parse_new(document, PolicyKind::User)
            .map_err(|error| AdminError::Document(error.to_string()))?;
        let record = &PolicyRecord(document.to_owned());
        let existed = self.run(&SetPolicy { name, policy: record }, None).await?;
        Ok(PolicySet { existed, half_denied: policy.half_denied(&Operation::versioned_actions()) })
    }

    /// Removes a policy that no access key has. A policy may deny something, so a key that loses
    /// one could be allowed more than before. Gateways refuse a key with a missing policy
    /// altogether.
    ///
    /// # Errors
    /// [`AdminError::NoSuchPolicy`], [`AdminError::PolicyIsBuiltIn`], [`AdminError::PolicyInUse`],
    /// and if the store does not take it.
    pub async fn remove_policy(&self, name: &str) -> Result<(), AdminError> {
        existing(name)?;
        Ok(self.run(&RemovePolicy { name }, None).await??)
    }
}

/// Whether a policy needs no document.
pub(crate) fn is_built_in(name: &str) -> bool {
    Policy::canned(name).is_some()
}

/// Checks that each of these is a valid name of a policy.
pub(crate) fn check_named(policies: &[String]) -> Result<(), AdminError> {
    let absurd = policies.iter().find(|name| check_policy_name(name).is_err());
    absurd.map_or(Ok(()), |name| Err(AdminError::NoSuchPolicy(name.clone())))
}

fn existing(name: &str) -> Result<(), AdminError> {
    if is_built_in(name) {
        return Err(AdminError::PolicyIsBuiltIn);
    }
    check_policy_name(name).map_err(|_| AdminError::NoSuchPolicy(name.to_owned()))
}
