//! What the statements of one document say together.

use crate::principals::Mention;
use crate::question::Question;
use crate::statement::Statement;

/// What a policy says to a question.
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

/// A decision, and for `Allowed` the closest mention of the sender that allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weighed {
    pub(crate) decision: Decision,
    pub(crate) mention: Option<Mention>,
}

/// Weighs all statements; the action is in lower case.
pub(crate) fn weigh(statements: &[Statement], action: &str, question: &Question<'_>) -> Weighed {
    let mut closest = None;
    for statement in statements {
        // What allows no closer than another statement did changes nothing.
        if closest.is_some() && !statement.denies && closest >= Some(statement.closest()) {
            continue;
        }
        if let Some(mention) = statement.covers(action, question) {
            if statement.denies {
                return Weighed { decision: Decision::Denied, mention: None };
            }
            closest = closest.max(Some(mention));
        }
    }
    let decision = if closest.is_some() { Decision::Allowed } else { Decision::Unspecified };
    Weighed { decision, mention: closest }
}
