//! Policies evaluated straight from their JSON, by AWS's documentation and with no thought for
//! speed. Nothing here is taken from the crate but the types of questions and answers.

use std::collections::BTreeMap;

use policy::{ConditionKey, ConditionValues, Decision, Principal, Values};
use serde_json::Value;

/// A request, with its values by the names of their keys in lower case.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) principal: Principal,
    pub(crate) action: String,
    pub(crate) resource: String,
    pub(crate) values: BTreeMap<String, Vec<String>>,
}

impl ConditionValues for Asked {
    fn values(&self, key: &ConditionKey) -> Values<'_> {
        match self.values.get(&key.name().to_lowercase()) {
            None => Values::Absent,
            Some(values) if values.len() == 1 => Values::One(values[0].as_str().into()),
            Some(values) => Values::Many(values.iter().map(|it| it.as_str().into()).collect()),
        }
    }
}

impl Asked {
    /// Returns the values of the request for a key, including the keys of the sender.
    fn get(&self, key: &str) -> Vec<String> {
        let key = key.to_lowercase();
        let own: Option<String> = match (&self.principal, key.as_str()) {
            (Principal::Anonymous, "aws:principaltype") => Some("Anonymous".to_owned()),
            (Principal::Anonymous, "aws:userid") => Some("anonymous".to_owned()),
            (Principal::Service(_), "aws:principaltype") => Some("Service".to_owned()),
            (Principal::Anonymous | Principal::Service(_), _) => None,
            (Principal::User { account, name, is_root, session, .. }, key) => {
                let role = session.as_ref();
                match key {
                    "aws:principalaccount" => Some(account.clone()),
                    "aws:username" if !*is_root => name.clone(),
                    "aws:userid" => Some(match role {
                        Some(role) => format!("{}:{}", role.role, role.name),
                        None if *is_root => account.clone(),
                        None => name.clone().expect("a user has a name"),
                    }),
                    "aws:principaltype" => Some(
                        match (role, is_root) {
                            (Some(_), _) => "AssumedRole",
                            (None, true) => "Account",
                            (None, false) => "User",
                        }
                        .to_owned(),
                    ),
                    "aws:principalarn" if *is_root => Some(format!("arn:aws:iam::{account}:root")),
                    // A session of a web identity has no user.
                    "aws:principalarn" => Some(match name {
                        Some(name) => format!("arn:aws:iam::{account}:user/{name}"),
                        None => {
                            let role = &role.expect("a user has a name").role;
                            format!("arn:aws:iam::{account}:role/{role}")
                        }
                    }),
                    _ => None,
                }
            }
        };
        own.map_or_else(|| self.values.get(&key).cloned().unwrap_or_default(), |it| vec![it])
    }
}

/// Returns the decision of a document, and true if an Allow names the session itself.
pub(crate) fn decide(document: &Value, asked: &Asked) -> (Decision, bool) {
    let variables = document["Version"] == "2012-10-17";
    let (mut allowed, mut denied, mut to_session) = (false, false, false);
    let own = own_names(&asked.principal);
    let texts = Texts {
        own: &own,
        action: chars(&asked.action.to_lowercase()),
        arn: chars(&format!("arn:aws:s3:::{}", asked.resource)),
    };
    for statement in many(&document["Statement"]) {
        if !applies(statement, asked, &texts, variables) {
            continue;
        }
        if statement["Effect"] == "Deny" {
            denied = true;
        } else {
            allowed = true;
            to_session |= names_session(statement, asked);
        }
    }
    match (denied, allowed) {
        (true, _) => (Decision::Denied, false),
        (false, true) => (Decision::Allowed, to_session),
        (false, false) => (Decision::Unspecified, false),
    }
}

fn many(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        other => vec![other],
    }
}

fn texts(value: &Value) -> Vec<String> {
    let text = |one: &Value| one.as_str().map_or_else(|| one.to_string(), str::to_owned);
    many(value).into_iter().map(text).collect()
}

/// The values for a comparison with a request.
struct Texts<'a> {
    own: &'a [String],
    action: Vec<char>,
    arn: Vec<char>,
}

fn applies(statement: &Value, asked: &Asked, by: &Texts<'_>, variables: bool) -> bool {
    let denies = statement["Effect"] == "Deny";
    let who = if let Some(named) = statement.get("Principal") {
        principal_names(named).iter().any(|name| means(name, by.own))
    } else if let Some(named) = statement.get("NotPrincipal") {
        !principal_names(named).iter().any(|name| excludes(name, by.own, &asked.principal))
    } else {
        true
    };
    if !who {
        return false;
    }
    let one_action =
        |pattern: &String| Some(glob(&marks(&pattern.to_lowercase(), true, None)?, &by.action));
    let what = if let Some(list) = statement.get("Action") {
        is_in(&texts(list), one_action, false, denies)
    } else {
        is_in(&texts(&statement["NotAction"]), one_action, true, denies)
    };
    if !what {
        return false;
    }
    let one_resource = |pattern: &String| {
        let whole = if pattern == "*" { "arn:aws:s3:::*" } else { pattern };
        Some(glob(&marks(whole, true, variables.then_some(asked))?, &by.arn))
    };
    let which = if let Some(list) = statement.get("Resource") {
        is_in(&texts(list), one_resource, false, denies)
    } else {
        is_in(&texts(&statement["NotResource"]), one_resource, true, denies)
    };
    if !which {
        return false;
    }
    let mut when = true;
    if let Some(Value::Object(operators)) = statement.get("Condition") {
        for (operator, keys) in operators {
            for (key, wanted) in keys.as_object().expect("an object") {
                when &= holds(operator, key, &texts(wanted), asked, variables, denies);
            }
        }
    }
    when
}

/// Returns true if a pattern matches, or none if negated. None may be unresolved if that would
/// allow.
fn is_in(
    patterns: &[String],
    fits: impl Fn(&String) -> Option<bool>,
    negated: bool,
    denies: bool,
) -> bool {
    let found: Vec<Option<bool>> = patterns.iter().map(fits).collect();
    let any = found.contains(&Some(true));
    if !negated {
        return any;
    }
    !any && (denies || !found.contains(&None))
}

fn principal_names(value: &Value) -> Vec<String> {
    match value {
        Value::Object(kinds) => kinds.values().flat_map(texts).collect(),
        other => texts(other),
    }
}

fn means(name: &str, own: &[String]) -> bool {
    name == "*" || own.iter().any(|it| it == name)
}

/// All names that mean the sender, first those of the account.
fn own_names(principal: &Principal) -> Vec<String> {
    let Principal::User { account, canonical_id, name: key, is_root, session } = principal else {
        return Vec::new();
    };
    let mut own =
        vec![account.clone(), format!("arn:aws:iam::{account}:root"), canonical_id.clone()];
    if let Some(key) = key {
        own.push(key.clone());
        if !is_root {
            own.push(format!("arn:aws:iam::{account}:user/{key}"));
        }
    }
    if let Some(session) = session {
        let (role, session) = (&session.role, &session.name);
        own.push(format!("arn:aws:iam::{account}:role/{role}"));
        own.push(format!("arn:aws:sts::{account}:assumed-role/{role}/{session}"));
    }
    own
}

fn excludes(name: &str, own: &[String], principal: &Principal) -> bool {
    let only_root = matches!(principal, Principal::User { is_root: true, session: None, .. });
    means(name, own.get(if only_root { 0 } else { 3 }..).unwrap_or_default())
}

fn names_session(statement: &Value, asked: &Asked) -> bool {
    let Principal::User { account, session: Some(session), .. } = &asked.principal else {
        return false;
    };
    let (role, session) = (&session.role, &session.name);
    let own = format!("arn:aws:sts::{account}:assumed-role/{role}/{session}");
    statement.get("Principal").is_some_and(|named| principal_names(named).contains(&own))
}

/// A place of a pattern. Characters that were put in for a variable separate no parts of an ARN.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Star,
    Any,
    Char(char),
    Put(char),
}

fn chars(text: &str) -> Vec<char> {
    text.chars().collect()
}

/// The places of a pattern; `None` if a variable has no value. With no one asked, none is one.
fn marks(pattern: &str, wild: bool, asked: Option<&Asked>) -> Option<Vec<Mark>> {
    let (mut marks, mut rest) = (Vec::new(), pattern);
    while let Some(first) = rest.chars().next() {
        if let (Some(asked), Some(inside)) = (asked, rest.strip_prefix("${")) {
            let (variable, after) = inside.split_once('}').expect("closed");
            rest = after;
            if ["*", "?", "$"].contains(&variable) {
                marks.extend(variable.chars().map(Mark::Put));
                continue;
            }
            let (key, default) = match variable.split_once(',') {
                Some((key, default)) => (key, Some(default.trim().replace('\'', ""))),
                None => (variable, None),
            };
            let mut values = asked.get(key.trim());
            let value = if values.len() == 1 { values.pop() } else { default };
            marks.extend(value?.chars().map(Mark::Put));
            continue;
        }
        rest = &rest[first.len_utf8()..];
        marks.push(match first {
            '*' if wild => Mark::Star,
            '?' if wild => Mark::Any,
            other => Mark::Char(other),
        });
    }
    Some(marks)
}

/// A pattern by its definition.
fn glob(pattern: &[Mark], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((Mark::Star, rest)), _) => {
            glob(rest, text) || text.split_first().is_some_and(|(_, text)| glob(pattern, text))
        }
        (Some((Mark::Any, pattern)), Some((_, text))) => glob(pattern, text),
        (Some((Mark::Char(wanted) | Mark::Put(wanted), pattern)), Some((found, text))) => {
            wanted == found && glob(pattern, text)
        }
        _ => false,
    }
}

fn arn_glob(pattern: &[Mark], text: &str) -> bool {
    let parts: Vec<&[Mark]> = pattern.splitn(6, |it| *it == Mark::Char(':')).collect();
    if parts.len() < 6 {
        return glob(pattern, &chars(text));
    }
    let found: Vec<&str> = text.splitn(6, ':').collect();
    found.len() == 6 && parts.iter().zip(found).all(|(part, found)| glob(part, &chars(found)))
}

fn holds(
    operator: &str,
    key: &str,
    wanted: &[String],
    asked: &Asked,
    variables: bool,
    denies: bool,
) -> bool {
    let found = asked.get(key);
    let (quantifier, rest) = operator.split_once(':').unwrap_or(("", operator));
    if rest == "Null" {
        return wanted.contains(&found.is_empty().to_string());
    }
    let if_exists = rest.ends_with("IfExists");
    let name = rest.trim_end_matches("IfExists");
    let negated = name.contains("Not");
    if found.is_empty() {
        return match quantifier {
            "ForAllValues" => true,
            "ForAnyValue" => if_exists,
            _ => negated || if_exists,
        };
    }
    if quantifier == "ForAllValues" && found == [""] {
        return true;
    }
    let positive = name.replace("Not", "");
    let asked = variables.then_some(asked);
    let fits = |value: &String| {
        let one = |wanted: &String| compare(&positive, wanted, value, asked);
        is_in(wanted, one, negated, denies)
    };
    let fit = found.iter().filter(|value| fits(value)).count();
    match quantifier {
        "ForAllValues" => fit == found.len(),
        "ForAnyValue" => fit > 0,
        _ if negated => fit == found.len(),
        _ => fit > 0,
    }
}

/// Returns true if a value matches a wanted value, by an operator that is not negated.
fn compare(name: &str, wanted: &str, value: &str, asked: Option<&Asked>) -> Option<bool> {
    Some(match name {
        "StringEquals" => glob(&marks(wanted, false, asked)?, &chars(value)),
        "StringEqualsIgnoreCase" => {
            let lower = |mark: &Mark| match mark {
                Mark::Char(it) | Mark::Put(it) => Mark::Char(it.to_ascii_lowercase()),
                other => *other,
            };
            let marks: Vec<Mark> = marks(wanted, false, asked)?.iter().map(lower).collect();
            glob(&marks, &chars(&value.to_ascii_lowercase()))
        }
        "StringLike" => glob(&marks(wanted, true, asked)?, &chars(value)),
        "ArnEquals" | "ArnLike" => arn_glob(&marks(wanted, true, asked)?, value),
        "BinaryEquals" => wanted == value,
        "Bool" => wanted.to_lowercase() == value.to_lowercase(),
        "IpAddress" => within(wanted, value),
        _ if name.starts_with("Numeric") => match (wanted.parse::<f64>(), value.parse::<f64>()) {
            (Ok(wanted), Ok(value)) => ordered(&name[7..], &value, &wanted),
            _ => false,
        },
        _ => match (seconds(wanted), seconds(value)) {
            (Some(wanted), Some(value)) => ordered(&name[4..], &value, &wanted),
            _ => false,
        },
    })
}

fn ordered<T: PartialOrd>(name: &str, value: &T, wanted: &T) -> bool {
    match name {
        "Equals" => value == wanted,
        "LessThan" => value < wanted,
        "LessThanEquals" => value <= wanted,
        "GreaterThan" => value > wanted,
        "GreaterThanEquals" => value >= wanted,
        other => panic!("{other}"),
    }
}

/// The dates of the generator, with their seconds since 1970.
pub(crate) const DATES: [(&str, i64); 6] = [
    ("1970-01-01T00:00:00Z", 0),
    ("2026-01-01T00:00:00Z", 1_767_225_600),
    ("2026-01-01", 1_767_225_600),
    ("2026-01-01T01:00:00+01:00", 1_767_225_600),
    ("2026-01-01T00:01Z", 1_767_225_660),
    ("2027-01-01T00:00:00Z", 1_798_761_600),
];

fn seconds(text: &str) -> Option<i64> {
    let known = DATES.iter().find(|(date, _)| *date == text).map(|(_, seconds)| *seconds);
    known.or_else(|| text.parse().ok())
}

fn within(network: &str, address: &str) -> bool {
    let (network, bits) = network.split_once('/').unwrap_or((network, "128"));
    let bits: usize = bits.parse().expect("a number");
    let digits = |text: &str| -> Option<String> {
        match text.parse().ok()? {
            std::net::IpAddr::V4(it) => Some(format!("{:032b}", u32::from(it))),
            std::net::IpAddr::V6(it) => Some(format!("{:0128b}", u128::from(it))),
        }
    };
    match (digits(network), digits(address)) {
        (Some(network), Some(address)) if network.len() == address.len() => {
            let bits = bits.min(network.len());
            network[..bits] == address[..bits]
        }
        _ => false,
    }
}
