//! Conditions of a statement: comparisons of a request's values with values of the policy.
//!
//! AWS's rules, in short:
//!
//! - All conditions of a statement must hold.
//! - A condition holds if the request's value matches one of the condition's values. With a negated
//!   operator it holds if the value matches none of them.
//! - If the request has no value for the key, the condition does not hold. The exceptions are
//!   operators that end in `IfExists`, and negated operators without `ForAnyValue:`. For example,
//!   `StringNotEquals` for `s3:x-amz-acl` holds for a request without this header.
//! - `ForAllValues:` holds if each value of the request matches. It also holds if there is no
//!   value, or if the only value is empty.
//! - `ForAnyValue:` holds if at least one value of the request matches.
//! - Policy variables are replaced only in the values of string and ARN operators.

// From `core`, because `std::net` also has sockets, and this crate does no I/O.
use core::net::IpAddr;
use std::borrow::Cow;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::addresses::Network;
use crate::arn::ArnPattern;
use crate::error::PolicyError;
use crate::keys::ConditionKey;
use crate::operators::{Comparison, Operator, Order, Quantifier};
use crate::pattern::{MatchResult, Pattern, Syntax, fold};
use crate::question::Question;

/// A condition of a statement. It compares the values that the request has for one key, such as
/// `aws:SourceIp`, with the values of the policy, by one operator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) key: ConditionKey,
    pub(crate) operator: Operator,
    pub(crate) expected: PolicyValues,
}

/// The values of a condition in the policy, parsed for the type of its operator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PolicyValues {
    Texts(Vec<Pattern>),
    Arns(Vec<ArnPattern>),
    Numbers(Order, Vec<f64>),
    /// Dates, in nanoseconds since 1970-01-01T00:00:00Z, and the order that a date of the request
    /// must have to one of them.
    Dates(Order, Vec<i128>),
    Truths(Vec<bool>),
    Networks(Vec<Network>),
    /// Values of the operator `Null`: true if the request must have no value for the key, false if
    /// it must have one.
    Absent(Vec<bool>),
}

impl Condition {
    /// Parses the values of a condition for its operator. Fails with `CONDITION_VALUE` or `ADDRESS`
    /// if a value does not have the operator's type, and with `CONDITION_VALUE` if there is no
    /// value.
    pub(crate) fn parse(
        key: ConditionKey,
        operator: Operator,
        values: &[String],
        variables: bool,
    ) -> Result<Condition, PolicyError> {
        if values.is_empty() {
            let why = format_args!("{} has no values", key.name());
            return Err(PolicyError::CONDITION_VALUE.because(why));
        }
        Ok(Condition {
            key,
            operator,
            expected: PolicyValues::parse(operator.comparison, values, variables)?,
        })
    }

    /// Returns true if the condition holds for the request of the question. `denies` is true in a
    /// Deny statement: a variable without a value then counts in favour of the Deny.
    pub(crate) fn holds(&self, question: &Question<'_>, denies: bool) -> bool {
        let values = question.values(&self.key);
        let values = values.as_slice();
        // `Null` asks if there is a value, so it comes before the comparison of values.
        if let PolicyValues::Absent(expected) = &self.expected {
            return expected.contains(&values.is_empty());
        }
        let Operator { quantifier, negated, if_exists, .. } = self.operator;
        let fits = |value: &str| self.fits(value, question, denies);
        // The order of the arms counts: requests without a value come first, as the rules above
        // say.
        match (quantifier, values) {
            (Quantifier::Plain, []) => negated || if_exists,
            (Quantifier::Any, []) => if_exists,
            (Quantifier::All, [value]) if value.is_empty() => true,
            (Quantifier::All, values) => values.iter().all(|value| fits(value)),
            (Quantifier::Any, values) => values.iter().any(|value| fits(value)),
            (Quantifier::Plain, values) if negated => values.iter().all(|value| fits(value)),
            (Quantifier::Plain, values) => values.iter().any(|value| fits(value)),
        }
    }

    /// Returns true if one of the condition's values matches `value`, one value of the request;
    /// with a negated operator, if none of them does.
    fn fits(&self, value: &str, question: &Question<'_>, denies: bool) -> bool {
        let negated = self.operator.negated;
        let covered = match &self.expected {
            PolicyValues::Texts(patterns) => {
                // The patterns are folded once by the parser. The value is folded here, once for
                // all patterns.
                let folds = matches!(self.operator.comparison, Comparison::Text { fold: true, .. });
                let folded = folds.then(|| fold(value));
                let value = folded.as_deref().unwrap_or(value);
                let hits = patterns.iter().map(|pattern| pattern.covers(value, question));
                return MatchResult::of_list(hits, negated, denies);
            }
            PolicyValues::Arns(patterns) => {
                let hits = patterns.iter().map(|pattern| pattern.covers(value, question));
                return MatchResult::of_list(hits, negated, denies);
            }
            PolicyValues::Numbers(order, numbers) => number(value).is_some_and(|value| {
                let holds =
                    |expected| value.partial_cmp(expected).is_some_and(|it| order.holds(it));
                numbers.iter().any(holds)
            }),
            PolicyValues::Dates(order, dates) => instant(value)
                .is_some_and(|value| dates.iter().any(|expected| order.holds(value.cmp(expected)))),
            PolicyValues::Truths(truths) => {
                truth(value).is_some_and(|value| truths.contains(&value))
            }
            PolicyValues::Networks(networks) => value.parse().is_ok_and(|address: IpAddr| {
                networks.iter().any(|network| network.contains(address))
            }),
            // `holds` has answered `Null` before.
            PolicyValues::Absent(_) => false,
        };
        covered != negated
    }

    /// Returns the key of the condition and the keys of its variables.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &ConditionKey> {
        let (texts, arns): (&[Pattern], &[ArnPattern]) = match &self.expected {
            PolicyValues::Texts(patterns) => (patterns, &[]),
            PolicyValues::Arns(patterns) => (&[], patterns),
            PolicyValues::Numbers(..)
            | PolicyValues::Dates(..)
            | PolicyValues::Truths(_)
            | PolicyValues::Networks(_)
            | PolicyValues::Absent(_) => (&[], &[]),
        };
        let variables = texts.iter().flat_map(Pattern::variables);
        std::iter::once(&self.key)
            .chain(variables)
            .chain(arns.iter().flat_map(ArnPattern::variables))
    }
}

impl PolicyValues {
    fn parse(
        comparison: Comparison,
        values: &[String],
        variables: bool,
    ) -> Result<PolicyValues, PolicyError> {
        let bad = |value: &str, what: &str| {
            PolicyError::CONDITION_VALUE.because(format_args!("{value:?} is not {what}"))
        };
        let texts = |wildcards, fold, variables| {
            let syntax = Syntax { wildcards, variables, fold };
            let pattern = |value: &String| {
                Pattern::parse(value, syntax)
                    .map_err(|why| PolicyError::CONDITION_VALUE.because(why))
            };
            values.iter().map(pattern).collect::<Result<_, _>>().map(PolicyValues::Texts)
        };
        let each = values.iter();
        Ok(match comparison {
            Comparison::Text { wildcards, fold } => texts(wildcards, fold, variables)?,
            Comparison::Binary => {
                if let Some(value) = values.iter().find(|value| !is_base64(value)) {
                    return Err(bad(value, "Base64"));
                }
                texts(false, false, false)?
            }
            Comparison::Arn => {
                let pattern = |value: &String| {
                    ArnPattern::parse(value, variables)
                        .map_err(|why| PolicyError::CONDITION_VALUE.because(why))
                };
                PolicyValues::Arns(each.map(pattern).collect::<Result<_, _>>()?)
            }
            Comparison::Number(order) => {
                let one = |value: &String| number(value).ok_or_else(|| bad(value, "a number"));
                PolicyValues::Numbers(order, each.map(one).collect::<Result<_, _>>()?)
            }
            Comparison::Date(order) => {
                let one = |value: &String| instant(value).ok_or_else(|| bad(value, "a date"));
                PolicyValues::Dates(order, each.map(one).collect::<Result<_, _>>()?)
            }
            Comparison::Truth | Comparison::Null => {
                let one = |value: &String| truth(value).ok_or_else(|| bad(value, "true or false"));
                let truths = each.map(one).collect::<Result<_, _>>()?;
                if comparison == Comparison::Null {
                    PolicyValues::Absent(truths)
                } else {
                    PolicyValues::Truths(truths)
                }
            }
            Comparison::Address => {
                let one = |value: &String| {
                    let why = || PolicyError::ADDRESS.because(format_args!("{value:?}"));
                    Network::parse(value).ok_or_else(why)
                };
                PolicyValues::Networks(each.map(one).collect::<Result<_, _>>()?)
            }
        })
    }
}

/// Parses a finite decimal number. Returns `None` for other text.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Parses `true` or `false`, in upper or lower case.
fn truth(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else {
        text.eq_ignore_ascii_case("false").then_some(false)
    }
}

/// Parses a date and returns its nanoseconds since 1970-01-01T00:00:00Z. AWS accepts "one of the
/// W3C implementations of the ISO 8601 date formats or epoch (UNIX) time". This function accepts
/// those with at least a day: not `2026` and `2026-01`.
fn instant(text: &str) -> Option<i128> {
    const NANOSECONDS: i128 = 1_000_000_000;
    const DAY_CHARACTERS: usize = "2026-01-31".len();
    const MINUTES_CHARACTERS: usize = "12:30".len();
    // A number alone is a Unix time in seconds.
    if let Ok(seconds) = text.parse::<i64>() {
        return Some(i128::from(seconds) * NANOSECONDS);
    }
    let (day, clock) = text.split_at_checked(DAY_CHARACTERS)?;
    let completed = match clock.strip_prefix('T') {
        None if clock.is_empty() => Cow::Owned(format!("{day}T00:00:00Z")),
        None => return None,
        // RFC 3339 needs seconds; `T12:30Z` and `T12:30+01:00` have none.
        Some(clock) if clock.as_bytes().get(MINUTES_CHARACTERS) != Some(&b':') => {
            let (minutes, zone) = clock.split_at_checked(MINUTES_CHARACTERS)?;
            Cow::Owned(format!("{day}T{minutes}:00{zone}"))
        }
        Some(_) => Cow::Borrowed(text),
    };
    OffsetDateTime::parse(&completed, &Rfc3339).ok().map(OffsetDateTime::unix_timestamp_nanos)
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    text.len().is_multiple_of(4)
        && padding <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}
