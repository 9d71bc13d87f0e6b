//! The operators of conditions, by their names.

use std::cmp::Ordering;

/// How a condition compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operator {
    pub(crate) quantifier: Quantifier,
    pub(crate) comparison: Comparison,
    /// Whether none of the condition's values may fit.
    pub(crate) negated: bool,
    /// Whether the condition holds if the request has no value.
    pub(crate) if_exists: bool,
}

/// What is asked of a request's several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantifier {
    /// Nothing is said about several.
    Plain,
    /// `ForAnyValue:`
    Any,
    /// `ForAllValues:`
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Text { wildcards: bool, fold: bool },
    Arn,
    Number(Order),
    Date(Order),
    Truth,
    Binary,
    Address,
    Null,
}

/// On which side of the condition's value a request's value must lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Order {
    /// Whether a request's value lies so, given how it compares with the condition's.
    pub(crate) fn holds(self, found: Ordering) -> bool {
        match self {
            Order::Equal => found.is_eq(),
            Order::Less => found.is_lt(),
            Order::LessOrEqual => found.is_le(),
            Order::Greater => found.is_gt(),
            Order::GreaterOrEqual => found.is_ge(),
        }
    }
}

impl Operator {
    /// Reads a name, in which case matters. `Null` has no `IfExists`.
    pub(crate) fn parse(name: &str) -> Option<Operator> {
        let (quantifier, rest) = if let Some(rest) = name.strip_prefix("ForAnyValue:") {
            (Quantifier::Any, rest)
        } else if let Some(rest) = name.strip_prefix("ForAllValues:") {
            (Quantifier::All, rest)
        } else {
            (Quantifier::Plain, name)
        };
        let (rest, if_exists) = match rest.strip_suffix("IfExists") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let (comparison, negated) = comparison(rest)?;
        if if_exists && comparison == Comparison::Null {
            return None;
        }
        Some(Operator { quantifier, comparison, negated, if_exists })
    }
}

/// The comparison of this name, and whether it is negated.
fn comparison(name: &str) -> Option<(Comparison, bool)> {
    if let Some(rest) = name.strip_prefix("String") {
        let text = |wildcards, fold| Comparison::Text { wildcards, fold };
        return Some(match rest {
            "Equals" => (text(false, false), false),
            "NotEquals" => (text(false, false), true),
            "EqualsIgnoreCase" => (text(false, true), false),
            "NotEqualsIgnoreCase" => (text(false, true), true),
            "Like" => (text(true, false), false),
            "NotLike" => (text(true, false), true),
            _ => return None,
        });
    }
    if let Some(rest) = name.strip_prefix("Numeric") {
        return order(rest).map(|(order, negated)| (Comparison::Number(order), negated));
    }
    if let Some(rest) = name.strip_prefix("Date") {
        return order(rest).map(|(order, negated)| (Comparison::Date(order), negated));
    }
    Some(match name {
        "Bool" => (Comparison::Truth, false),
        "BinaryEquals" => (Comparison::Binary, false),
        "IpAddress" => (Comparison::Address, false),
        "NotIpAddress" => (Comparison::Address, true),
        "ArnEquals" | "ArnLike" => (Comparison::Arn, false),
        "ArnNotEquals" | "ArnNotLike" => (Comparison::Arn, true),
        "Null" => (Comparison::Null, false),
        _ => return None,
    })
}

fn order(name: &str) -> Option<(Order, bool)> {
    Some(match name {
        "Equals" => (Order::Equal, false),
        "NotEquals" => (Order::Equal, true),
        "LessThan" => (Order::Less, false),
        "LessThanEquals" => (Order::LessOrEqual, false),
        "GreaterThan" => (Order::Greater, false),
        "GreaterThanEquals" => (Order::GreaterOrEqual, false),
        _ => return None,
    })
}
