//! Named policies in AWS's JSON format, which access keys refer to.
//!
//! For example, after `put_policy("readers", …)` an access key can have the policy `readers`.

use namespace::{ExpectedPolicy, FindPolicy, ListPolicies, RemovePolicy, SetPolicy};
use policy::{Policy, PolicyKind};
use record::{PolicyRecord, key};
use s3::Operation;

use crate::{Admin, AdminError, Etag, check_policy_name};

/// The names of the built-in policies, in order.
pub const BUILT_IN_POLICIES: [&str; 5] = Policy::CANNED;

/// A policy that access keys can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPolicy {
    /// The name of the policy.
    pub name: String,
    /// True if the policy is built in. It then has no record and cannot be removed.
    pub built_in: bool,
}

/// The document of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPolicy {
    /// The document, in JSON.
    pub document: String,
    /// The version of the record; `None` for a built-in policy, which has no record.
    pub etag: Option<Etag>,
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

    /// Returns the document of a policy, as it was set, or that of a built-in policy.
    ///
    /// # Errors
    /// [`AdminError::NoSuchPolicy`].
    pub async fn policy(&self, name: &str) -> Result<StoredPolicy, AdminError> {
        if let Some(document) = Policy::canned_document(name) {
            return Ok(StoredPolicy { document, etag: None });
        }
        existing(name)?;
        let record = self.look(&FindPolicy { name }).await??;
        let etag = Some(Etag::of(&record.encode(&key::policy(name))));
        Ok(StoredPolicy { document: record.0, etag })
    }

    /// Creates a policy, or replaces the policy of this name.
    ///
    /// # Errors
    /// [`AdminError::Name`], [`AdminError::NameIsBuiltIn`], [`AdminError::Document`],
    /// [`AdminError::Changed`] if the etag is not `expected`, [`AdminError::NoSuchPolicy`] if an
    /// etag is expected and there is no policy, and if the store refuses the change.
    pub async fn put_policy(
        &self,
        name: &str,
        document: &str,
        expected: Option<&Etag>,
    ) -> Result<PolicySet, AdminError> {
        let version = |etag: &Etag| ExpectedPolicy::Version(etag.version());
        let expected = expected.map_or(ExpectedPolicy::Any, version);
        self.set_policy(name, document, expected).await
    }

    /// Creates a policy, or replaces it, if it is still as the caller has seen it: with the etag
    /// `seen`, or missing if that is `None`.
    ///
    /// # Errors
    /// Those of [`Admin::put_policy`], and [`AdminError::PolicyChanged`] instead of
    /// [`AdminError::Changed`] and [`AdminError::NoSuchPolicy`].
    pub async fn put_seen_policy(
        &self,
        name: &str,
        document: &str,
        seen: Option<&Etag>,
    ) -> Result<PolicySet, AdminError> {
        let version = |etag: &Etag| ExpectedPolicy::Version(etag.version());
        let expected = seen.map_or(ExpectedPolicy::Absent, version);
        let set = self.set_policy(name, document, expected).await;
        set.map_err(|error| changed_since(name, error))
    }

    async fn set_policy(
        &self,
        name: &str,
        document: &str,
        expected: ExpectedPolicy,
    ) -> Result<PolicySet, AdminError> {
        check_policy_name(name)?;
        if is_built_in(name) {
            return Err(AdminError::NameIsBuiltIn);
        }
        // The policy is parsed before it is stored: gateways refuse all requests of a key whose
        // policy they cannot parse.
        let policy = Policy::parse_new(document, PolicyKind::User)
            .map_err(|error| AdminError::Document(error.to_string()))?;
        let record = &PolicyRecord(document.to_owned());
        let existed = self.change(&SetPolicy { name, policy: record, expected }).await??;
        Ok(PolicySet { existed, half_denied: policy.half_denied(&Operation::versioned_actions()) })
    }

    /// Removes a policy that no user and no group has. A policy that is in use cannot be removed:
    /// it can contain a Deny, so the users would gain permissions. Gateways refuse all requests of
    /// a user with a missing policy.
    ///
    /// # Errors
    /// [`AdminError::NoSuchPolicy`], [`AdminError::PolicyIsBuiltIn`], [`AdminError::PolicyInUse`],
    /// [`AdminError::PolicyOfGroups`], [`AdminError::Changed`], and if the store refuses the
    /// change.
    pub async fn remove_policy(
        &self,
        name: &str,
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        existing(name)?;
        let expected = Etag::expected(expected);
        Ok(self.change(&RemovePolicy { name, expected }).await??)
    }

    /// As [`Admin::remove_policy`], if the policy still has the etag `seen`.
    ///
    /// # Errors
    /// Those of [`Admin::remove_policy`], and [`AdminError::PolicyChanged`] instead of
    /// [`AdminError::Changed`].
    pub async fn remove_seen_policy(&self, name: &str, seen: &Etag) -> Result<(), AdminError> {
        let removed = self.remove_policy(name, Some(seen)).await;
        removed.map_err(|error| match error {
            AdminError::Changed => changed_since(name, error),
            error => error,
        })
    }
}

/// Returns the error of a change of a policy that is not as the caller has seen it.
fn changed_since(name: &str, error: AdminError) -> AdminError {
    match error {
        AdminError::Changed | AdminError::NoSuchPolicy(_) => {
            AdminError::PolicyChanged(name.to_owned())
        }
        error => error,
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
