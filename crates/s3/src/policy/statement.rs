//! A statement, and whether it covers a permission.

use super::wildcard::matches;
use crate::operation::{Context, Permission};

/// One rule of a policy: for whom it allows or denies which actions, and on which resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) denies: bool,
    pub(super) principal: Principal,
    pub(super) actions: Patterns,
    /// Without their `arn:aws:s3:::`.
    pub(super) resources: Patterns,
    pub(super) conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Principal {
    /// The statement names none, as in a user's own policy.
    Implied,
    Everyone,
    AccessKeys(Vec<String>),
}

/// A list of patterns, which may be negated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Patterns {
    pub(super) negated: bool,
    pub(super) list: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) attribute: Attribute,
    pub(super) negated: bool,
    /// Whether `*` and `?` in the values are wildcards.
    pub(super) like: bool,
    pub(super) values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Prefix,
    Delimiter,
}

impl Statement {
    pub(super) fn covers(&self, permission: &Permission) -> bool {
        let action = permission.action.to_ascii_lowercase();
        self.actions.cover(&action)
            && self.resources.cover(&permission.resource)
            && self.conditions.iter().all(|condition| condition.holds(&permission.context))
    }
}

impl Patterns {
    pub(super) fn cover(&self, text: &str) -> bool {
        self.list.iter().any(|pattern| matches(pattern, text)) != self.negated
    }
}

impl Condition {
    /// A condition on a value that the request does not have holds only if it is negated.
    fn holds(&self, context: &Context) -> bool {
        let text = match self.attribute {
            Attribute::Prefix => context.prefix.as_deref(),
            Attribute::Delimiter => context.delimiter.as_deref(),
        };
        let Some(text) = text else { return self.negated };
        let fits = |value: &String| if self.like { matches(value, text) } else { value == text };
        self.values.iter().any(fits) != self.negated
    }
}
