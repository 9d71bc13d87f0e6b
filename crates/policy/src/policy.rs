//! A policy that has been understood.

use crate::canned;
use crate::document::{self, PolicyKind, Vocabulary};
use crate::error::PolicyError;
use crate::evaluation::{Decision, Weighed, weigh};
use crate::keys::ConditionKey;
use crate::principals::{PrincipalName, Principals};
use crate::public;
use crate::question::Question;
use crate::statement::Statement;

/// A policy that has been understood in full.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    of_bucket: bool,
    statements: Vec<Statement>,
}

impl Policy {
    /// Reads a policy of at most `POLICY_BYTES_MAX` bytes.
    ///
    /// Understood are `Version`, `Id`, and `Statement` with `Sid`, `Effect`, `Principal` or
    /// `NotPrincipal` (of a bucket's policy only, and there always), `Action` or `NotAction`,
    /// `Resource` or `NotResource`, and `Condition` with all operators of AWS and the keys of
    /// `ConditionKey`. Policy variables stand in resources and conditions of version 2012-10-17.
    ///
    /// In the policy of a user or session, actions that are not known are accepted, so that a
    /// policy stays valid once it was added; see `parse_new`.
    pub fn parse(json: &str, kind: PolicyKind<'_>) -> Result<Policy, PolicyError> {
        Policy::read(json, kind, Vocabulary::Any)
    }

    /// Reads a policy that is being added. As `parse`, but each action must be an action of S3 or a
    /// pattern that covers one: a misspelt action would deny nothing.
    pub fn parse_new(json: &str, kind: PolicyKind<'_>) -> Result<Policy, PolicyError> {
        Policy::read(json, kind, Vocabulary::S3)
    }

    fn read(
        json: &str,
        kind: PolicyKind<'_>,
        vocabulary: Vocabulary,
    ) -> Result<Policy, PolicyError> {
        let statements = document::parse(json, kind, vocabulary)?;
        Ok(Policy { of_bucket: matches!(kind, PolicyKind::Bucket { .. }), statements })
    }

    /// The policy of a well-known name: `readwrite`, `readonly` or `writeonly`.
    ///
    /// `readonly` reads and lists everything (MinIO's own does not list), `writeonly` uploads
    /// everywhere and sees nothing but its own uploads' parts.
    pub fn canned(name: &str) -> Option<Policy> {
        let statement = canned::statement(name)?;
        Some(Policy { of_bucket: false, statements: vec![statement] })
    }

    /// What this policy alone says. How several decide together is known to `authorise`.
    pub fn decide(&self, question: &Question<'_>) -> Decision {
        self.weigh(&question.action.to_ascii_lowercase(), question).decision
    }

    /// As `decide`, for an action in lower case, and how close the policy comes to the sender.
    pub(crate) fn weigh(&self, action: &str, question: &Question<'_>) -> Weighed {
        weigh(&self.statements, action, question)
    }

    /// Whether it is a bucket's.
    pub fn is_of_bucket(&self) -> bool {
        self.of_bucket
    }

    /// Whether it gives anything to the public, by AWS's definition ("The meaning of public" in
    /// S3's user guide): a statement allows something to everyone, and no condition limits it to
    /// fixed values of who asks or from where.
    pub fn is_public(&self) -> bool {
        self.statements.iter().any(public::is_public)
    }

    /// The principals that it names, for those who check whether they exist.
    pub fn principals(&self) -> impl Iterator<Item = &PrincipalName> {
        let principals = self.statements.iter().filter_map(|it| it.principals.as_ref());
        principals.flat_map(Principals::names)
    }

    /// The keys that its conditions and variables ask for, some maybe more than once.
    pub fn keys(&self) -> impl Iterator<Item = &ConditionKey> {
        self.statements.iter().flat_map(Statement::keys)
    }

    /// Whether it asks for tags that the object has, which must be read first.
    pub fn asks_existing_tags(&self) -> bool {
        self.keys().any(|key| matches!(key, ConditionKey::ExistingObjectTag(_)))
    }

    /// Those of the pairs, in both orders, of which a statement denies the first and not the
    /// second. S3 checks one action if a request names a version and another one if it does not;
    /// where every object is also its version `null`, denying only one of them denies little.
    pub fn half_denied<'a>(&self, pairs: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let denied = |action: &str| {
            let action = action.to_ascii_lowercase();
            self.statements.iter().any(|one| one.denies && one.actions.covers(&action))
        };
        let pairs = pairs.iter().flat_map(|&(one, other)| [(one, other), (other, one)]);
        pairs.filter(|(one, other)| denied(one) && !denied(other)).collect()
    }
}
