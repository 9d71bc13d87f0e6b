//! The parser of condition operators. For example, `ForAnyValue:StringNotLikeIfExists`.

use std::cmp::Ordering;

/// A condition operator: it compares the values of a request with the values of a condition in the
/// policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operator {
    pub(crate) quantifier: Quantifier,
    pub(crate) comparison: Comparison,
    /// True for `…Not…`: none of the condition's values may match.
    pub(crate) negated: bool,
    /// True for `…IfExists`: the condition holds if the request has no value.
    pub(crate) if_exists: bool,
}

/// The treatment of several values that a request has for a condition key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantifier {
    /// No prefix: at least one value of the request must match.
    Plain,
    /// `ForAnyValue:`: at least one value of the request must match.
    Any,
    /// `ForAllValues:`: each value of the request must match, and a request without a value
    /// matches.
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

/// The required order of a value of the request, on the left, and a value of the condition, on the
/// right. For example, with `Less` the value of the request must be less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Order {
    /// Returns true if `found`, the request's value compared with the condition's value, has this
    /// order.
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
    /// Parses the name of a condition operator, which is case-sensitive. Returns `None` for an
    /// unknown name and for `NullIfExists`.
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
        // `Null` itself asks if there is a value, so AWS has no `NullIfExists`.
        if if_exists && comparison == Comparison::Null {
            return None;
        }
        Some(Operator { quantifier, comparison, negated, if_exists })
    }
}

/// Returns the comparison that an operator name names, and true if it is negated. `name` has
/// neither the quantifier (`ForAnyValue:`) nor `IfExists`. Returns `None` for an unknown name.
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
