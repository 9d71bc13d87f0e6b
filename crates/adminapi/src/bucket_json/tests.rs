use s3::xml::{Element, XmlLimits};
use serde_json::json;

use super::{from_xml, to_xml};

fn round_trip(root: &str, document: &serde_json::Value) -> serde_json::Value {
    let xml = to_xml(root, document).unwrap();
    from_xml(&Element::parse(xml.as_bytes(), root, XmlLimits::SMALL).unwrap())
}

#[test]
fn documents_of_the_aws_cli_keep_their_form() {
    for (root, document) in [
        (
            "CORSConfiguration",
            json!({"CORSRules": [
                {"AllowedMethods": ["GET", "PUT"], "AllowedOrigins": ["*"], "MaxAgeSeconds": 30},
                {"ID": "a & b", "AllowedMethods": ["HEAD"], "AllowedOrigins": ["https://x"]},
            ]}),
        ),
        (
            "LifecycleConfiguration",
            json!({"Rules": [{
                "ID": "old", "Status": "Enabled",
                "Filter": {"And": {"Prefix": "a/", "Tags": [{"Key": "k", "Value": "1"}]}},
                "Expiration": {"ExpiredObjectDeleteMarker": true},
                "NoncurrentVersionExpiration": {"NoncurrentDays": 3},
            }]}),
        ),
        (
            "ObjectLockConfiguration",
            json!({
                "ObjectLockEnabled": "Enabled",
                "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}},
            }),
        ),
        ("Tagging", json!({"TagSet": [{"Key": "<a>", "Value": "x\r\ny"}]})),
    ] {
        assert_eq!(round_trip(root, &document), document, "{root}");
    }
}

#[test]
fn names_that_are_no_elements_are_refused() {
    for name in ["", "a b", "a><b", "/x", "ä"] {
        assert!(to_xml("Tagging", &json!({ name: "x" })).is_err(), "{name:?}");
    }
    assert!(to_xml("Tagging", &json!([])).is_err());
    assert!(to_xml("Tagging", &json!({"TagSet": {"Tag": []}})).is_err());
}

#[test]
fn a_deep_document_is_refused() {
    let mut document = json!({"a": "x"});
    for _ in 0..100 {
        document = json!({ "a": document });
    }
    assert!(to_xml("Tagging", &document).is_err());
}
