//! Reads the JSON document of a policy, which is understood in full or refused.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::actions::{self, Vocabulary};
use super::statement::{Attribute, Condition, Patterns, Principal, Statement};
use crate::{Code, Fault};

/// The largest policy document, in bytes.
pub const POLICY_BYTES_MAX: usize = 20 * 1024;

const RESOURCE_PREFIX: &str = "arn:aws:s3:::";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Document {
    version: Option<String>,
    #[serde(rename = "Id")]
    _id: Option<String>,
    statement: Many<RawStatement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct RawStatement {
    #[serde(rename = "Sid")]
    _sid: Option<String>,
    effect: Effect,
    principal: Option<RawPrincipal>,
    action: Option<Many<String>>,
    not_action: Option<Many<String>>,
    resource: Option<Many<String>>,
    not_resource: Option<Many<String>>,
    condition: Option<Pairs<Pairs<Many<String>>>>,
}

#[derive(Deserialize)]
enum Effect {
    Allow,
    Deny,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawPrincipal {
    Word(String),
    Accounts(Accounts),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Accounts {
    #[serde(rename = "AWS")]
    aws: Many<String>,
}

/// One value, or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Many<T> {
    One(T),
    List(Vec<T>),
}

impl<T> Many<T> {
    fn into_vec(self) -> Vec<T> {
        match self {
            Many::One(one) => vec![one],
            Many::List(list) => list,
        }
    }
}

/// An object's members in order, none twice: of two conditions with one name, a map would
/// silently drop the first.
struct Pairs<V>(Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs<V>, D::Error> {
        struct Members<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Members<V> {
            type Value = Pairs<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<V>, A::Error> {
                let mut pairs: Vec<(String, V)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, V>()? {
                    if pairs.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name)) {
                        return Err(serde::de::Error::custom("a name stands twice"));
                    }
                    pairs.push((name, value));
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

/// Reads the statements of a policy. Fault: `MalformedPolicy`.
pub(super) fn parse(json: &str, vocabulary: Vocabulary) -> Result<Vec<Statement>, Fault> {
    if json.len() > POLICY_BYTES_MAX {
        return Err(malformed("it is larger than 20 KiB"));
    }
    let document: Document = serde_json::from_str(json).map_err(malformed)?;
    if !matches!(document.version.as_deref(), None | Some("2012-10-17" | "2008-10-17")) {
        return Err(malformed("its Version is not 2012-10-17"));
    }
    let statements = document.statement.into_vec();
    if statements.is_empty() {
        return Err(malformed("it has no Statement"));
    }
    let understood = |raw| statement(raw, vocabulary);
    statements.into_iter().map(understood).collect()
}

fn statement(raw: RawStatement, vocabulary: Vocabulary) -> Result<Statement, Fault> {
    let mut actions = either(raw.action, raw.not_action, "Action")?;
    for action in &mut actions.list {
        if action != "*" && !action.contains(':') {
            return Err(malformed("an Action is neither service:name nor *"));
        }
        let written = std::mem::take(action);
        *action = written.to_ascii_lowercase();
        if vocabulary == Vocabulary::S3 && !actions::covers_any(action) {
            let why = format_args!("{written:?} is no action of S3, nor a pattern of one");
            return Err(malformed(why));
        }
    }
    let mut resources = either(raw.resource, raw.not_resource, "Resource")?;
    for resource in &mut resources.list {
        *resource = bare_resource(resource)?;
    }
    let conditions = raw.condition.map_or_else(|| Ok(Vec::new()), conditions)?;
    Ok(Statement {
        denies: matches!(raw.effect, Effect::Deny),
        principal: principal(raw.principal)?,
        actions,
        resources,
        conditions,
    })
}

fn either(
    positive: Option<Many<String>>,
    negative: Option<Many<String>>,
    name: &str,
) -> Result<Patterns, Fault> {
    let (negated, list) = match (positive, negative) {
        (Some(list), None) => (false, list.into_vec()),
        (None, Some(list)) => (true, list.into_vec()),
        _ => return Err(malformed(format_args!("a statement needs {name} or Not{name}"))),
    };
    if list.is_empty() {
        return Err(malformed(format_args!("a list of {name} is empty")));
    }
    Ok(Patterns { negated, list })
}

fn bare_resource(resource: &str) -> Result<String, Fault> {
    if resource.contains("${") {
        return Err(malformed("policy variables are not supported"));
    }
    if resource == "*" {
        return Ok(resource.to_owned());
    }
    match resource.strip_prefix(RESOURCE_PREFIX) {
        Some(bare) if !bare.is_empty() && !bare.starts_with('/') => Ok(bare.to_owned()),
        _ => Err(malformed("a Resource is neither arn:aws:s3:::… nor *")),
    }
}

fn principal(raw: Option<RawPrincipal>) -> Result<Principal, Fault> {
    let names = match raw {
        None => return Ok(Principal::Implied),
        Some(RawPrincipal::Word(word)) if word == "*" => return Ok(Principal::Everyone),
        Some(RawPrincipal::Word(_)) => return Err(malformed("a Principal is not supported")),
        Some(RawPrincipal::Accounts(accounts)) => accounts.aws.into_vec(),
    };
    if names.iter().any(|name| name == "*") {
        return Ok(Principal::Everyone);
    }
    if names.is_empty() || names.iter().any(|name| name.contains(['*', '?', ':'])) {
        return Err(malformed("a Principal is neither * nor an access key"));
    }
    Ok(Principal::AccessKeys(names))
}

fn conditions(raw: Pairs<Pairs<Many<String>>>) -> Result<Vec<Condition>, Fault> {
    let mut conditions = Vec::new();
    for (operator, keys) in raw.0 {
        let (like, negated) = match operator.as_str() {
            "StringEquals" => (false, false),
            "StringNotEquals" => (false, true),
            "StringLike" => (true, false),
            "StringNotLike" => (true, true),
            _ => return Err(malformed("a condition's operator is not supported")),
        };
        for (key, values) in keys.0 {
            let attribute = match key.to_ascii_lowercase().as_str() {
                "s3:prefix" => Attribute::Prefix,
                "s3:delimiter" => Attribute::Delimiter,
                _ => return Err(malformed("a condition's key is not supported")),
            };
            let values = values.into_vec();
            if values.is_empty() || values.iter().any(|value| value.contains("${")) {
                return Err(malformed("a condition's values are missing or not supported"));
            }
            conditions.push(Condition { attribute, negated, like, values });
        }
    }
    Ok(conditions)
}

/// The one fault for policies that are not understood.
pub(super) fn malformed(why: impl std::fmt::Display) -> Fault {
    Fault::because(Code::MalformedPolicy, format!("The policy is malformed: {why}."))
}
