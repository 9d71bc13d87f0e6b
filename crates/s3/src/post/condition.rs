//! A condition of a form's policy.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::length::LengthRange;
use super::refusal::{denied, invalid};
use crate::Fault;

/// A condition of a form's policy, which the signer sets on the fields or on the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// A condition on a field.
    Field(FieldCondition),
    /// A condition on the length of the file: its minimum and maximum.
    Length(LengthRange),
}

/// A condition of a form's policy on the value of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldCondition {
    /// The name of the field, in lower case.
    pub(super) field: String,
    test: Test,
    /// The condition as text, as error messages repeat it.
    text: String,
}

/// The test of a condition in a form's policy, which the value of a field must pass.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Equals(String),
    StartsWith(String),
}

impl Condition {
    /// Parses a condition of a form's policy. Fails with `InvalidPolicyDocument`, or with
    /// `AccessDenied` for a field that no form can have.
    pub(super) fn parse(raw: &RawValue) -> Result<Condition, Fault> {
        let raw = raw.get();
        // A condition is an object with one member, or a list with operator, field and value.
        if let Ok(object) = serde_json::from_str::<BTreeMap<String, Value>>(raw) {
            return FieldCondition::simple(object).map(Condition::Field);
        }
        let list: Vec<&RawValue> = serde_json::from_str(raw)
            .map_err(|_| invalid("Invalid condition test: must be a List or Object."))?;
        let Some((operator, arguments)) = list.split_first() else {
            return Err(invalid("Invalid Condition: missing operation identifier."));
        };
        // Operators are accepted in any case, as s3-tests sends them. Messages repeat them as
        // written.
        let written: String = serde_json::from_str(operator.get()).map_err(|_| not_json())?;
        let operator = written.to_ascii_lowercase();
        if !matches!(operator.as_str(), "eq" | "starts-with" | "content-length-range") {
            return Err(invalid(&format!("Invalid Condition: unknown operation '{written}'.")));
        }
        let [first, second] = arguments else {
            return Err(invalid(&format!("Invalid {operator}: wrong number of arguments.")));
        };
        if operator == "content-length-range" {
            return Ok(Condition::Length(LengthRange::new(length(first)?, length(second)?)));
        }
        let reference: String = serde_json::from_str(first.get()).map_err(|_| not_json())?;
        let value = scalar(second)?;
        let test = match operator.as_str() {
            "eq" => Test::Equals(value),
            _ => Test::StartsWith(value),
        };
        // A condition without a field name can never hold, so it is not malformed but failed.
        match reference.strip_prefix('$').filter(|field| !field.trim().is_empty()) {
            Some(field) => Ok(Condition::Field(FieldCondition {
                field: field.to_ascii_lowercase(),
                test,
                text: raw.to_owned(),
            })),
            None => Err(failed(raw)),
        }
    }
}

impl FieldCondition {
    /// Parses a condition in the form `{"acl": "private"}`.
    fn simple(object: BTreeMap<String, Value>) -> Result<FieldCondition, Fault> {
        let mut properties = object.into_iter();
        let (Some((field, value)), None) = (properties.next(), properties.next()) else {
            return Err(invalid(
                "Invalid Simple-Condition: Simple-Conditions must have exactly one property \
                 specified.",
            ));
        };
        let Value::String(value) = value else {
            return Err(invalid("Invalid Simple-Condition: value must be a string."));
        };
        let field = field.to_ascii_lowercase();
        // S3's message shows the equivalent list form.
        let text = format!("[\"eq\", \"${field}\", \"{value}\"]");
        if field.trim().is_empty() {
            return Err(failed(&text));
        }
        Ok(FieldCondition { field, test: Test::Equals(value), text })
    }

    /// Checks the value of the field. Fails with `AccessDenied` if the condition does not hold or
    /// the field is missing.
    pub(super) fn check(&self, value: Option<&str>) -> Result<(), Fault> {
        let holds = value.is_some_and(|value| match &self.test {
            Test::Equals(expected) => value == expected,
            // A browser that uploads several files lists their types, and each must be allowed.
            Test::StartsWith(start) if self.field == "content-type" && value.contains(',') => {
                value.split(',').all(|part| part.trim().starts_with(start))
            }
            Test::StartsWith(start) => value.starts_with(start),
        });
        if holds { Ok(()) } else { Err(failed(&self.text)) }
    }
}

/// Parses a length in bytes: a JSON number or, as in S3, a string of digits.
fn length(raw: &RawValue) -> Result<u64, Fault> {
    let text = scalar(raw)?;
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(not_json)
}

/// Returns a JSON string or number as text.
fn scalar(raw: &RawValue) -> Result<String, Fault> {
    match serde_json::from_str(raw.get()) {
        Ok(Value::String(text)) => Ok(text),
        Ok(Value::Number(_)) => Ok(raw.get().to_owned()),
        _ => Err(not_json()),
    }
}

fn failed(condition: &str) -> Fault {
    denied(&format!("Policy Condition failed: {condition}"))
}

pub(super) fn not_json() -> Fault {
    invalid("Invalid JSON.")
}
