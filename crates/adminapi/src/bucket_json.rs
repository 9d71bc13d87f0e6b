//! The JSON form of the XML documents that configure buckets.
//!
//! The JSON is that of the AWS CLI, so an operator can reuse documents. A list in JSON, such as
//! `{"Rules": [{"ID": "a"}]}`, is a repeated element in XML:
//! `<LifecycleConfiguration><Rule><ID>a</ID></Rule></LifecycleConfiguration>`. The parser of S3
//! checks each document, so this module knows no rules.

use std::fmt::Write;

use s3::xml::Element;
use serde_json::{Map, Number, Value};

use crate::ApiError;

/// The repeated elements: the parent, the element, and the name of the list in JSON.
const LISTS: &[(&str, &str, &str)] = &[
    ("CORSConfiguration", "CORSRule", "CORSRules"),
    ("CORSRule", "AllowedHeader", "AllowedHeaders"),
    ("CORSRule", "AllowedMethod", "AllowedMethods"),
    ("CORSRule", "AllowedOrigin", "AllowedOrigins"),
    ("CORSRule", "ExposeHeader", "ExposeHeaders"),
    ("LifecycleConfiguration", "Rule", "Rules"),
    ("Rule", "Transition", "Transitions"),
    ("Rule", "NoncurrentVersionTransition", "NoncurrentVersionTransitions"),
    ("And", "Tag", "Tags"),
];

/// The elements that contain nothing but a repeated element, which JSON leaves out:
/// `{"TagSet": [{"Key": …}]}`.
const CONTAINERS: &[(&str, &str)] = &[("TagSet", "Tag")];

/// The elements whose text is a number.
const NUMBERS: &[&str] = &[
    "Days",
    "DaysAfterInitiation",
    "MaxAgeSeconds",
    "NewerNoncurrentVersions",
    "NoncurrentDays",
    "ObjectSizeGreaterThan",
    "ObjectSizeLessThan",
    "Years",
];

/// The elements whose text is `true` or `false`.
const SWITCHES: &[&str] = &[
    "BlockPublicAcls",
    "BlockPublicPolicy",
    "ExpiredObjectDeleteMarker",
    "IgnorePublicAcls",
    "RestrictPublicBuckets",
];

/// The deepest nesting of a document.
const DEPTH_MAX: usize = 8;

/// Returns a JSON document as XML with the root element `root`. Fails with `BadRequest` if it is no
/// object, or nested too deeply.
pub(crate) fn to_xml(root: &str, document: &Value) -> Result<String, ApiError> {
    let Value::Object(members) = document else {
        return Err(ApiError::bad_request("The document is not a JSON object."));
    };
    let mut xml = String::new();
    write_members(&mut xml, root, members, DEPTH_MAX)?;
    Ok(xml)
}

fn write_members(
    xml: &mut String,
    name: &str,
    members: &Map<String, Value>,
    depth: usize,
) -> Result<(), ApiError> {
    let _ = write!(xml, "<{name}>");
    for (member, value) in members {
        // The name becomes a part of the XML document as it is.
        if member.is_empty() || !member.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(ApiError::bad_request(format!("There is no setting {member:?}.")));
        }
        if let Some((_, element, _)) =
            LISTS.iter().find(|(parent, _, list)| *parent == name && list == member)
        {
            for item in items(member, value)? {
                write_value(xml, element, item, depth)?;
            }
        } else if let Some((_, element)) = CONTAINERS.iter().find(|(list, _)| list == member) {
            let _ = write!(xml, "<{member}>");
            for item in items(member, value)? {
                write_value(xml, element, item, depth)?;
            }
            let _ = write!(xml, "</{member}>");
        } else {
            write_value(xml, member, value, depth)?;
        }
    }
    let _ = write!(xml, "</{name}>");
    Ok(())
}

fn items<'v>(name: &str, value: &'v Value) -> Result<&'v [Value], ApiError> {
    let list = value.as_array();
    list.map(Vec::as_slice).ok_or_else(|| ApiError::bad_request(format!("{name} is not a list.")))
}

fn write_value(xml: &mut String, name: &str, value: &Value, depth: usize) -> Result<(), ApiError> {
    let text = match value {
        Value::Object(members) => {
            let Some(depth) = depth.checked_sub(1) else {
                return Err(ApiError::bad_request("The document is nested too deeply."));
            };
            return write_members(xml, name, members, depth);
        }
        // A setting that is null is not set.
        Value::Null => return Ok(()),
        Value::Array(_) => {
            return Err(ApiError::bad_request(format!("{name} is a list.")));
        }
        Value::String(text) => text.clone(),
        Value::Bool(on) => on.to_string(),
        Value::Number(number) => number.to_string(),
    };
    let _ = write!(xml, "<{name}>{}</{name}>", escape(&text));
    Ok(())
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // A reader of XML turns a plain carriage return into a line feed.
            '\r' => escaped.push_str("&#13;"),
            char => escaped.push(char),
        }
    }
    escaped
}

/// Returns an XML element as JSON.
pub(crate) fn from_xml(element: &Element) -> Value {
    if let Some((_, item)) = CONTAINERS.iter().find(|(list, _)| *list == element.name()) {
        let items = element.children().iter().filter(|child| child.name() == *item);
        return Value::Array(items.map(from_xml).collect());
    }
    if element.children().is_empty() {
        return leaf(element);
    }
    let mut members = Map::new();
    for child in element.children() {
        let list = LISTS
            .iter()
            .find(|(parent, item, _)| *parent == element.name() && *item == child.name());
        let value = from_xml(child);
        match list {
            Some((_, _, list)) => {
                let entry = members.entry(*list).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(items) = entry {
                    items.push(value);
                }
            }
            None => {
                members.insert(child.name().to_owned(), value);
            }
        }
    }
    Value::Object(members)
}

/// Returns the text of an element without children, as a number or a switch if it is one.
fn leaf(element: &Element) -> Value {
    let (name, text) = (element.name(), element.text());
    let number = || text.trim().parse::<i64>().ok().map(Number::from).map(Value::Number);
    let switch = || text.trim().parse::<bool>().ok().map(Value::Bool);
    let typed = if NUMBERS.contains(&name) {
        number()
    } else if SWITCHES.contains(&name) {
        switch()
    } else {
        None
    };
    typed.unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests;
