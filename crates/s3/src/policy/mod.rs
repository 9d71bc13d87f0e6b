//! Policies: who may do what, in the JSON of AWS.
//!
//! Nothing is allowed by default, and an explicit deny wins over any allow. A document with
//! anything that is not evaluated here is refused when it is added, because ignoring a condition
//! would allow more than its author meant. Where policies are stored, and whom they belong to, is
//! not known here.

mod actions;
mod canned;
mod document;
mod statement;
mod wildcard;

#[cfg(test)]
mod tests;

use crate::Fault;
use crate::operation::{Operation, Permission};

use actions::Vocabulary;
pub use document::POLICY_BYTES_MAX;
use document::malformed;
use statement::{Principal, Statement};

/// What a set of policies says about a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A statement allows it and none denies it.
    Allowed,
    /// No statement covers it. It is denied unless something else allows it.
    Unspecified,
    /// A statement denies it; nothing else can allow it.
    Denied,
}

impl Decision {
    /// Whether this alone permits the request.
    pub const fn is_allowed(self) -> bool {
        matches!(self, Decision::Allowed)
    }
}

/// The sender of a request, as a bucket's policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller<'a> {
    /// The request is anonymous.
    Anonymous,
    /// The access key that signed it.
    AccessKey(&'a str),
}

/// A policy that has been understood in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    statements: Vec<Statement>,
}

impl Policy {
    /// Reads a user's policy. Fault: `MalformedPolicy`, also for what is not supported.
    ///
    /// Understood are `Version`, `Id`, and `Statement` with `Sid`, `Effect`, `Action` or
    /// `NotAction`, `Resource` or `NotResource`, and `Condition` with `StringEquals`,
    /// `StringNotEquals`, `StringLike` or `StringNotLike` on `s3:prefix` and `s3:delimiter`.
    /// A `Principal` is refused, because the user is the principal.
    ///
    /// Actions that are not known are accepted, so that a policy stays valid once it was added; see
    /// `parse_new`.
    pub fn parse(json: &str) -> Result<Policy, Fault> {
        Policy::of_user(json, Vocabulary::Any)
    }

    /// Reads a user's policy that is being added. As `parse`, but each action must be an action of
    /// S3 or a pattern that covers one: a misspelt action would deny nothing.
    pub fn parse_new(json: &str) -> Result<Policy, Fault> {
        Policy::of_user(json, Vocabulary::S3)
    }

    fn of_user(json: &str, vocabulary: Vocabulary) -> Result<Policy, Fault> {
        let policy = Policy { statements: document::parse(json, vocabulary)? };
        let implied = |statement: &Statement| statement.principal == Principal::Implied;
        if policy.statements.iter().all(implied) {
            Ok(policy)
        } else {
            Err(malformed("a user's policy names no Principal"))
        }
    }

    /// Reads a bucket's policy: as `parse`, but each statement needs a `Principal`, which is
    /// `"*"`, `{"AWS": "*"}` or `{"AWS": [access keys]}`.
    pub fn parse_for_bucket(json: &str) -> Result<Policy, Fault> {
        let policy = Policy { statements: document::parse(json, Vocabulary::Any)? };
        let implied = |statement: &Statement| statement.principal == Principal::Implied;
        if policy.statements.iter().any(implied) {
            Err(malformed("each statement of a bucket's policy needs a Principal"))
        } else {
            Ok(policy)
        }
    }

    /// Pairs of actions that mean the same here, of which a statement denies the first and not the
    /// second. S3 checks one action if a request names a version and another one if it does not;
    /// here every object is also its version `null`, so denying only one of them denies little.
    pub fn half_denied(&self) -> Vec<(&'static str, &'static str)> {
        let denied = |action: &str| {
            let action = action.to_ascii_lowercase();
            self.statements.iter().any(|one| one.denies && one.actions.cover(&action))
        };
        let actions = |one: &Operation| one.action().zip(one.versioned_action(true));
        let pairs = Operation::VERSIONED.iter().filter_map(actions);
        let pairs = pairs.flat_map(|(plain, versioned)| [(plain, versioned), (versioned, plain)]);
        pairs.filter(|(one, other)| denied(one) && !denied(other)).collect()
    }

    /// The policy of a well-known name: `readwrite`, `readonly` or `writeonly`.
    ///
    /// `readonly` reads and lists everything (MinIO's own does not list), `writeonly` uploads
    /// everywhere and sees nothing but its own uploads' parts.
    pub fn canned(name: &str) -> Option<Policy> {
        canned::statement(name).map(|statement| Policy { statements: vec![statement] })
    }
}

/// Decides by a user's policies.
pub fn evaluate<'a>(
    policies: impl IntoIterator<Item = &'a Policy>,
    permission: &Permission,
) -> Decision {
    decide(policies, permission, |principal| *principal == Principal::Implied)
}

/// Decides by a bucket's policy, which names the principals that it applies to.
pub fn evaluate_for_caller(
    policy: &Policy,
    caller: Caller<'_>,
    permission: &Permission,
) -> Decision {
    decide([policy], permission, |principal| match (principal, caller) {
        (Principal::Everyone, _) => true,
        (Principal::AccessKeys(keys), Caller::AccessKey(caller)) => {
            keys.iter().any(|key| key == caller)
        }
        (Principal::AccessKeys(_), Caller::Anonymous) | (Principal::Implied, _) => false,
    })
}

fn decide<'a>(
    policies: impl IntoIterator<Item = &'a Policy>,
    permission: &Permission,
    speaks_of: impl Fn(&Principal) -> bool,
) -> Decision {
    let mut decision = Decision::Unspecified;
    for statement in policies.into_iter().flat_map(|policy| &policy.statements) {
        if speaks_of(&statement.principal) && statement.covers(permission) {
            if statement.denies {
                return Decision::Denied;
            }
            decision = Decision::Allowed;
        }
    }
    decision
}
