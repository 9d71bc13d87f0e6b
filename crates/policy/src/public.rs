//! The test whether a policy is public.
//!
//! AWS's definition, "The meaning of public" in S3's user guide: a bucket's policy is not public if
//! each statement that allows "grants access only to fixed values (values that don't contain a
//! wildcard or an IAM policy variable)" of principals, of networks in `aws:SourceIp`, or of one of
//! a few keys. Statements that deny do not make a policy less public.

use crate::addresses::Network;
use crate::conditions::{Condition, PolicyValues};
use crate::keys::ConditionKey;
use crate::operators::Quantifier;
use crate::pattern::Pattern;
use crate::principals::Principals;
use crate::statement::Statement;

/// Returns true if the statement of a bucket policy allows something to everyone and no condition
/// restricts it to fixed senders or networks.
pub(crate) fn is_public(statement: &Statement) -> bool {
    !statement.denies
        && statement.principals == Some(Principals::Everyone)
        && !statement.conditions.iter().any(limits)
}

/// Returns true if the condition restricts the statement to fixed senders or to narrow networks.
fn limits(condition: &Condition) -> bool {
    let operator = condition.operator;
    // Conditions with these operators also hold for requests without a value, so they restrict
    // nothing.
    if operator.negated || operator.if_exists || operator.quantifier == Quantifier::All {
        return false;
    }
    match &condition.expected {
        PolicyValues::Networks(networks) => {
            condition.key == ConditionKey::SourceIp && networks.iter().all(Network::is_narrow)
        }
        PolicyValues::Texts(patterns) => {
            is_of_sender(&condition.key) && patterns.iter().all(|it| is_fixed(&condition.key, it))
        }
        PolicyValues::Arns(arns) => {
            is_of_sender(&condition.key)
                && arns.iter().all(|arn| arn.patterns().iter().all(|it| it.literal().is_some()))
        }
        // A number or a date does not name a sender.
        PolicyValues::Numbers(..)
        | PolicyValues::Dates(..)
        | PolicyValues::Truths(_)
        | PolicyValues::Absent(_) => false,
    }
}

const fn is_of_sender(key: &ConditionKey) -> bool {
    matches!(
        key,
        ConditionKey::PrincipalArn
            | ConditionKey::PrincipalAccount
            | ConditionKey::SourceAccount
            | ConditionKey::SourceArn
            | ConditionKey::UserId
            | ConditionKey::KmsKeyId
    )
}

/// Returns true if the pattern is a fixed value. A value of `aws:userid` counts only "outside the
/// pattern `AROLEID:*`", because the holder of a role chooses the name of the session.
fn is_fixed(key: &ConditionKey, pattern: &Pattern) -> bool {
    let fixed = |value: &str| *key != ConditionKey::UserId || !value.contains(':');
    pattern.literal().is_some_and(fixed)
}
