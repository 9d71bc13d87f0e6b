//! The evaluation of the statements of one policy.
//!
//! A Deny statement that applies overrides all Allow statements. For example, a policy that allows
//! `s3:*` and denies `s3:DeleteObject` denies a delete and allows a read.

use crate::principals::Mention;
use crate::question::Question;
use crate::statement::Statement;

/// The result of one policy for a question, that is, for a sender, an action and a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A statement allows the request and none denies it.
    Allowed,
    /// No statement applies. The request is denied unless another policy or a list allows it.
    Unspecified,
    /// A statement denies the request. No other policy can allow it.
    Denied,
}

impl Decision {
    /// Returns true for `Allowed`.
    pub const fn is_allowed(self) -> bool {
        matches!(self, Decision::Allowed)
    }
}

/// The decision of one policy. If it is `Allowed`, also the most specific mention, that is, the way
/// in which an Allow statement names the sender. `mention` is `None` otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evaluated {
    pub(crate) decision: Decision,
    pub(crate) mention: Option<Mention>,
}

/// Evaluates the statements of one policy for a question. `action` is the action of the question in
/// lower case.
pub(crate) fn evaluate(
    statements: &[Statement],
    action: &str,
    question: &Question<'_>,
) -> Evaluated {
    let mut closest = None;
    for statement in statements {
        // An Allow that cannot be more specific than the one found changes nothing, so its
        // conditions are not evaluated.
        if closest.is_some() && !statement.denies && closest >= Some(statement.closest()) {
            continue;
        }
        if let Some(mention) = statement.covers(action, question) {
            // No Allow can change an explicit Deny, so the rest is not evaluated.
            if statement.denies {
                return Evaluated { decision: Decision::Denied, mention: None };
            }
            closest = closest.max(Some(mention));
        }
    }
    let decision = if closest.is_some() { Decision::Allowed } else { Decision::Unspecified };
    Evaluated { decision, mention: closest }
}
