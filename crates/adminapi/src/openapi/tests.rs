use std::collections::BTreeSet;

use serde_json::Value;

use super::document;
use crate::Endpoint;

/// Calls `found` with each `$ref` of a document.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(to)) = members.get("$ref") {
                found.insert(to.clone());
            }
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn each_reference_names_a_schema() {
    let document = document("1.2.3");
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 5, "{found:?}");
    for to in found {
        let pointer = to.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{to}");
    }
}

#[test]
fn each_endpoint_is_in_the_document() {
    let document = document("1.2.3");
    for endpoint in Endpoint::ALL {
        let method = endpoint.method().as_str().to_ascii_lowercase();
        let operation = &document["paths"][format!("/api/v1{}", endpoint.path())][method];
        assert_eq!(operation["operationId"], endpoint.name());
    }
}
