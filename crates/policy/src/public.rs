//! Whether a statement gives something to the public.
//!
//! AWS's definition, "The meaning of public" in S3's user guide: a bucket's policy is not public if
//! each statement that allows "grants access only to fixed values (values that don't contain a
//! wildcard or an IAM policy variable)" of principals, of networks in `aws:SourceIp`, or of one of
//! a few keys. Statements that deny do not make a policy less public.

use crate::addresses::Network;
use crate::conditions::{Condition, Wanted};
use crate::keys::ConditionKey;
use crate::operators::Quantifier;
use crate::pattern::Pattern;
use crate::principals::Principals;
use crate::statement::Statement;

pub(crate) fn is_public(statement: &Statement) -> bool {
    !statement.denies
        && statement.principals == Some(Principals::Everyone)
        && !statement.conditions.iter().any(limits)
}

/// Whether only a few known senders can meet the condition.
fn limits(condition: &Condition) -> bool {
    let operator = condition.operator;
    // These hold for requests that have no value at all.
    if operator.negated || operator.if_exists || operator.quantifier == Quantifier::All {
        return false;
    }
    match &condition.wanted {
        Wanted::Networks(networks) => {
            condition.key == ConditionKey::SourceIp && networks.iter().all(Network::is_narrow)
        }
        Wanted::Texts(patterns) => {
            is_of_sender(&condition.key) && patterns.iter().all(|it| is_fixed(&condition.key, it))
        }
        Wanted::Arns(arns) => {
            is_of_sender(&condition.key)
                && arns.iter().all(|arn| {
                    let components = arn.patterns();
                    let last = components.len().saturating_sub(1);
                    let mut numbered = components.iter().enumerate();
                    numbered.all(|(at, it)| {
                        let any_point = at == last
                            && at > 0
                            && condition.key == ConditionKey::DataAccessPointArn;
                        any_point || it.literal().is_some()
                    })
                })
        }
        _ => false,
    }
}

const fn is_of_sender(key: &ConditionKey) -> bool {
    matches!(
        key,
        ConditionKey::PrincipalArn
            | ConditionKey::PrincipalAccount
            | ConditionKey::PrincipalOrgId
            | ConditionKey::SourceAccount
            | ConditionKey::SourceArn
            | ConditionKey::SourceOwner
            | ConditionKey::SourceVpc
            | ConditionKey::SourceVpce
            | ConditionKey::UserId
            | ConditionKey::KmsKeyId
            | ConditionKey::DataAccessPointArn
            | ConditionKey::DataAccessPointAccount
    )
}

/// Whether the pattern is a fixed value; of access points, those of a fixed account may be all. A
/// fixed value of `aws:userid` counts "outside the pattern `AROLEID:*`" only: who has a role names
/// the session.
fn is_fixed(key: &ConditionKey, pattern: &Pattern) -> bool {
    match pattern.literal() {
        Some(value) => *key != ConditionKey::UserId || !value.contains(':'),
        None => {
            // `arn:aws:s3:region:account:accesspoint/`
            let of_account = |prefix: &str| prefix.split(':').count() == 6;
            *key == ConditionKey::DataAccessPointArn
                && pattern.literal_prefix().is_some_and(of_account)
        }
    }
}
