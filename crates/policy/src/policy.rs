//! A parsed policy.
//!
//! For example, `Policy::parse(json, PolicyKind::User)` accepts a document without principals, and
//! `decide` answers a question by this policy alone.

use crate::canned;
use crate::document::{self, PolicyKind, Vocabulary};
use crate::error::PolicyError;
use crate::evaluation::{Decision, Evaluated, evaluate};
use crate::keys::ConditionKey;
use crate::principals::{PrincipalName, Principals};
use crate::public;
use crate::question::Question;
use crate::statement::Statement;

/// A parsed access policy: a list of statements. The parser refuses a document with an element that
/// it does not know, so nothing in the document is ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    of_bucket: bool,
    statements: Vec<Statement>,
}

impl Policy {
    /// The names of the built-in policies, in the order of ASCII. They are those of MinIO.
    pub const CANNED: [&'static str; 5] =
        ["consoleAdmin", "diagnostics", "readonly", "readwrite", "writeonly"];

    /// Parses a policy of at most `POLICY_BYTES_MAX` bytes.
    ///
    /// The elements are `Version`, `Id`, and `Statement` with `Sid`, `Effect`, `Principal` or
    /// `NotPrincipal` (required in a bucket policy, refused in others), `Action` or `NotAction`,
    /// `Resource` or `NotResource`, and `Condition` with all operators of AWS and the keys of
    /// `ConditionKey`. Policy variables are replaced in resources and conditions of version
    /// 2012-10-17.
    ///
    /// The policy of a user or session may name unknown actions, and conditions may have keys that
    /// the actions do not have, so that a policy that was stored by an earlier release stays valid;
    /// see `parse_new`.
    pub fn parse(json: &str, kind: PolicyKind<'_>) -> Result<Policy, PolicyError> {
        Policy::read(json, kind, Vocabulary::Any)
    }

    /// Parses a policy that is being added: as `parse`, but each action must be an action of S3 or
    /// of the administration, or a pattern that covers one, because a misspelt action in a Deny
    /// would deny nothing. For the same reason, a statement must cover an action that has the key
    /// of each of its conditions; in a bucket policy, each action without wildcards must have it.
    pub fn parse_new(json: &str, kind: PolicyKind<'_>) -> Result<Policy, PolicyError> {
        Policy::read(json, kind, Vocabulary::Known)
    }

    fn read(
        json: &str,
        kind: PolicyKind<'_>,
        vocabulary: Vocabulary,
    ) -> Result<Policy, PolicyError> {
        let statements = document::parse(json, kind, vocabulary)?;
        Ok(Policy { of_bucket: matches!(kind, PolicyKind::Bucket { .. }), statements })
    }

    /// Returns a built-in policy: one of `Policy::CANNED`. `None` for other names.
    ///
    /// `consoleAdmin` allows everything. `diagnostics` reads the state of the volume, but no
    /// object, user or configuration. `readwrite` allows all actions of S3, and none of the
    /// administration.
    ///
    /// `readonly` reads objects with their versions and tags, and lists buckets, objects and
    /// versions (MinIO's `readonly` does not list). `writeonly` uploads everywhere and lists only
    /// the parts of uploads.
    pub fn canned(name: &str) -> Option<Policy> {
        let statement = canned::statement(name)?;
        Some(Policy { of_bucket: false, statements: vec![statement] })
    }

    /// Returns a document that means the same as [`Policy::canned`]. `None` for other names.
    pub fn canned_document(name: &str) -> Option<String> {
        canned::document(name)
    }

    /// Returns the decision of this policy alone about a question, that is, whether a sender may do
    /// an action on a resource. `authorise` combines several policies.
    pub fn decide(&self, question: &Question<'_>) -> Decision {
        self.evaluate(&question.action.to_ascii_lowercase(), question).decision
    }

    /// Does the same as `decide`, for an action in lower case. The result also has the mention,
    /// that is, the way in which an Allow statement names the sender.
    pub(crate) fn evaluate(&self, action: &str, question: &Question<'_>) -> Evaluated {
        evaluate(&self.statements, action, question)
    }

    /// Returns true if a statement of the policy allows the action on some resource under some
    /// condition. Deny statements are ignored, so the policy may allow less than this.
    pub fn could_allow(&self, action: &str) -> bool {
        let action = action.to_ascii_lowercase();
        self.statements.iter().any(|one| !one.denies && one.covers_action(&action))
    }

    /// Returns true if a statement of the policy allows the action on each resource, without a
    /// condition. Deny statements are ignored. For example, an Allow with `aws:SourceIp` does not
    /// count.
    pub fn always_allows(&self, action: &str) -> bool {
        let action = action.to_ascii_lowercase();
        let mut allowing = self.statements.iter().filter(|one| !one.denies);
        allowing.any(|one| {
            one.covers_action(&action) && one.conditions.is_empty() && one.covers_all_resources()
        })
    }

    /// Returns the policy without the Allow statements that could leave out one of the resources
    /// whose names begin with `prefix`: those with a pattern that does not end in a star, with
    /// `NotResource` below the prefix, and those that depend on the object. All Deny statements
    /// stay. Variables of patterns have the values of the `question`. For example, with the prefix
    /// `photos/` an Allow for `photos*` stays, and those for `photos/?` and `photos/2026/*` do not.
    #[must_use]
    pub fn allowing_all_below(&self, prefix: &str, question: &Question<'_>) -> Policy {
        let stays = |one: &&Statement| one.denies || one.covers_all_below(prefix, question);
        let statements = self.statements.iter().filter(stays).cloned().collect();
        Policy { of_bucket: self.of_bucket, statements }
    }

    /// Returns true if a statement of the policy denies the action on some resource under some
    /// condition.
    pub fn could_deny(&self, action: &str) -> bool {
        let action = action.to_ascii_lowercase();
        self.statements.iter().any(|one| one.denies && one.covers_action(&action))
    }

    /// Returns true if this is the policy of a bucket, and false for the policy of a user or
    /// session.
    pub fn is_of_bucket(&self) -> bool {
        self.of_bucket
    }

    /// Returns true if the policy is public by AWS's definition ("The meaning of public" in S3's
    /// user guide): a statement allows something to everyone, and no condition restricts it to
    /// fixed senders or networks.
    pub fn is_public(&self) -> bool {
        self.statements.iter().any(public::is_public)
    }

    /// Returns the principals (accounts, users and roles) that a bucket policy names. The caller
    /// checks that they exist.
    pub fn principals(&self) -> impl Iterator<Item = &PrincipalName> {
        let principals = self.statements.iter().filter_map(|it| it.principals.as_ref());
        principals.flat_map(Principals::names)
    }

    /// Returns the condition keys, such as `aws:SourceIp`, that the conditions and variables of the
    /// policy name. A key can occur several times.
    pub fn keys(&self) -> impl Iterator<Item = &ConditionKey> {
        self.statements.iter().flat_map(Statement::keys)
    }

    /// Returns true if the policy depends on the tags of the object, which the caller must read
    /// first.
    pub fn asks_existing_tags(&self) -> bool {
        self.keys().any(|key| matches!(key, ConditionKey::ExistingObjectTag(_)))
    }

    /// Returns those of the `pairs` of actions, in either order, of which the policy denies the
    /// first and not the second. S3 checks one action for a request that names a version and
    /// another one for a request that does not. Most objects can be named in both ways, so a Deny
    /// of only one of the two actions is easily evaded. For example, a Deny of `s3:GetObject` does
    /// not deny `?versionId=null`.
    pub fn half_denied<'a>(&self, pairs: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let denied = |action: &str| {
            let action = action.to_ascii_lowercase();
            self.statements.iter().any(|one| one.denies && one.actions.covers(&action))
        };
        // A policy may deny either of the two, so both orders are checked.
        let pairs = pairs.iter().flat_map(|&(one, other)| [(one, other), (other, one)]);
        pairs.filter(|(one, other)| denied(one) && !denied(other)).collect()
    }
}
