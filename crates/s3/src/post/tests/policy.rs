//! Forms that a policy allows or refuses. Most cases come from versitygw.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use time::macros::datetime;

use crate::post::{FilePart, Form, LengthRange, PostPolicy};
use crate::{BucketName, Code, Fault};

fn parse(json: &str) -> Result<PostPolicy, Fault> {
    PostPolicy::parse(&STANDARD.encode(json))
}

fn with(conditions: &str) -> Result<PostPolicy, Fault> {
    parse(&format!("{{\"expiration\":\"2026-03-28T09:18:22Z\",\"conditions\":[{conditions}]}}"))
}

fn form(fields: &[(&str, &str)]) -> Form {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Form::new(fields.collect(), &FilePart::default()).unwrap()
}

fn check(conditions: &str, fields: &[(&str, &str)]) -> Result<LengthRange, Fault> {
    let mut conditions = conditions.to_owned();
    if !conditions.contains("bucket") {
        conditions.push_str(",{\"bucket\":\"bucket\"}");
    }
    let bucket = BucketName::parse("bucket").unwrap();
    let now = datetime!(2026-03-28 09:18:22 UTC);
    with(conditions.trim_start_matches(','))?.check(&form(fields), &bucket, now)
}

#[track_caller]
fn invalid(outcome: Result<PostPolicy, Fault>, message: &str) {
    let fault = outcome.expect_err("must be refused");
    assert_eq!(fault.code, Code::InvalidPolicyDocument, "{fault}");
    assert_eq!(fault.message, format!("Invalid Policy: {message}"));
}

#[track_caller]
fn denied<T: std::fmt::Debug>(outcome: Result<T, Fault>, message: &str) {
    let fault = outcome.expect_err("must be refused");
    assert_eq!(fault.code, Code::AccessDenied, "{fault}");
    assert_eq!(fault.message, format!("Invalid according to Policy: {message}"));
}

#[test]
fn s3_a9_a_malformed_policy_is_refused() {
    invalid(PostPolicy::parse(""), "Expecting '{' but found End-of-Input");
    invalid(PostPolicy::parse("invalid_base64"), "invalid Base64 encoding.");
    invalid(parse("invalid json"), "Invalid JSON.");
    invalid(parse("[]"), "Invalid JSON.");
    invalid(PostPolicy::parse(&STANDARD.encode(b"{\"\xff\":1}")), "Invalid JSON.");
    invalid(parse(r#"{"conditions": []}"#), "Policy missing expiration.");
    invalid(parse(r#"{"EXPIRATION": "x", "conditions": []}"#), "Policy missing expiration.");
    invalid(parse(r#"{"expiration": true, "conditions": []}"#), "Invalid JSON.");
    invalid(
        parse(r#"{"expiration": "invalid", "conditions": []}"#),
        "Invalid 'expiration' value: 'invalid'",
    );
    let date = r#""expiration": "2144-11-08T04:19:33Z""#;
    invalid(parse(&format!("{{{date}}}")), "Policy missing conditions.");
    invalid(
        parse(&format!("{{{date}, \"conditions\": true}}")),
        "Invalid 'conditions' value: must be a List.",
    );
    invalid(
        parse(&format!("{{{date}, \"conditions\": [], \"extra\": 1}}")),
        "Unexpected: \"extra\"",
    );
}

#[test]
fn s3_a9_a_malformed_condition_is_refused() {
    for (condition, message) in [
        ("true", "Invalid condition test: must be a List or Object."),
        ("[]", "Invalid Condition: missing operation identifier."),
        (r#"["invalid", "$a", "b"]"#, "Invalid Condition: unknown operation 'invalid'."),
        (r#"["eq", "$a", "b", "c"]"#, "Invalid eq: wrong number of arguments."),
        (
            r#"["content-length-range", 0]"#,
            "Invalid content-length-range: wrong number of arguments.",
        ),
        (r#"["eq", false, "a"]"#, "Invalid JSON."),
        (r#"["eq", "$a", true]"#, "Invalid JSON."),
        (r#"["content-length-range", 12, false]"#, "Invalid JSON."),
        (r#"["content-length-range", "invalid", "14"]"#, "Invalid JSON."),
        (r#"["content-length-range", -1, 0]"#, "Invalid JSON."),
        (r#"["content-length-range", 0, 1e3]"#, "Invalid JSON."),
        (
            r#"{"expires": "a", "cache": "b"}"#,
            "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.",
        ),
        (
            "{}",
            "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.",
        ),
        (r#"{"expires": true}"#, "Invalid Simple-Condition: value must be a string."),
    ] {
        invalid(with(condition), message);
    }
    for condition in [r#"["eq","content-type","a"]"#, r#"["eq","$","a"]"#] {
        denied(with(condition), &format!("Policy Condition failed: {condition}"));
    }
}

#[test]
fn s3_a9_a_form_that_satisfies_its_policy_is_allowed() {
    for (conditions, fields) in [
        (r#"["eq","$content-type","text/plain"]"#, &[("content-type", "text/plain")][..]),
        (r#"["starts-with","$x-amz-meta-env","prod"]"#, &[("x-amz-meta-env", "production")]),
        (r#"["starts-with","$x-amz-meta-tag",""]"#, &[("x-amz-meta-tag", "anything")]),
        (r#"{"content-type":"image/png"}"#, &[("Content-Type", "image/png")]),
        (r#"["eq","$bucket","bucket"]"#, &[]),
        (r#"["starts-with","$bucket","buck"]"#, &[("bucket", "bucket")]),
        (
            r#"["starts-with","$content-type","text/"]"#,
            &[("content-type", "text/plain, text/html")],
        ),
        // Names and operators in any case, as s3-tests has them.
        (
            r#"["StArTs-WiTh","$KeY","foo"],{"AcL":"private"}"#,
            &[("kEy", "foo.txt"), ("aCl", "private")],
        ),
        (r#"["eq","$x-amz-meta-n",12]"#, &[("x-amz-meta-n", "12")]),
        (r#"["starts-with","$key","\\$foo"]"#, &[("key", "\\$foo.txt")]),
        (r#"["starts-with","$key","\$foo"]"#, &[("key", "$foo.txt")]),
        ("", &[("x-ignore-a", "b"), ("policy", "p"), ("x-amz-signature", "s"), ("submit", "Go")]),
        ("", &[("AWSAccessKeyId", "a"), ("signature", "s")]),
    ] {
        assert_eq!(check(conditions, fields), Ok(LengthRange::ANY), "{conditions}");
    }
}

#[test]
fn s3_s6_a_field_without_a_condition_is_refused() {
    for name in [
        "key",
        "acl",
        "content-type",
        "x-amz-meta-custom",
        "success_action_redirect",
        "redirect",
        "success_action_status",
        "tagging",
        "x-amz-algorithm",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-security-token",
        "x-amz-storage-class",
        "x-amz-checksum-crc32",
        "unknown",
    ] {
        denied(check("", &[(name, "value")]), &format!("Extra input fields: {name}"));
    }
}

#[test]
fn s3_s6_a_form_that_violates_a_condition_is_refused() {
    for (condition, fields) in [
        (r#"["eq","$content-type","text/plain"]"#, &[("content-type", "image/jpeg")][..]),
        (r#"["eq","$content-type","text/plain"]"#, &[("content-type", "TEXT/plain")]),
        (r#"["starts-with","$x-amz-meta-path","allowed/"]"#, &[("x-amz-meta-path", "other")]),
        (r#"["starts-with","$content-type","text/"]"#, &[("content-type", "text/a, image/b")]),
        (r#"["eq","$bucket","wrong-bucket-name"]"#, &[]),
        (r#"["eq","$bucket","bucket"]"#, &[("bucket", "other")]),
        (r#"["eq","$bucket","other"]"#, &[("bucket", "other")]),
        (r#"["eq","$key","expected-key"]"#, &[("key", "other-key")]),
        // A condition requires that its field is present.
        (r#"["starts-with","$content-type",""]"#, &[]),
        (r#"["eq","$x-amz-meta-a",""]"#, &[]),
    ] {
        denied(check(condition, fields), &format!("Policy Condition failed: {condition}"));
    }
    denied(
        check(r#"{"content-type":"application/xml"}"#, &[("content-type", "text/html")]),
        r#"Policy Condition failed: ["eq", "$content-type", "application/xml"]"#,
    );
}

#[test]
fn s3_s6_a_policy_for_another_bucket_or_an_expired_policy_is_refused() {
    let bucket = BucketName::parse("bucket").unwrap();
    let now = datetime!(2026-03-28 09:18:22 UTC);
    denied(with("").unwrap().check(&form(&[]), &bucket, now), "Extra input fields: bucket");
    let policy = with(r#"{"bucket":"bucket"}"#).unwrap();
    assert!(policy.check(&form(&[]), &bucket, now).is_ok());
    let late = now + time::Duration::NANOSECOND;
    denied(policy.check(&form(&[]), &bucket, late), "Policy expired.");
}

#[test]
fn s3_s6_the_file_length_must_be_within_the_range() {
    let range = check(r#"["content-length-range",2,"5"],["content-length-range",0,9]"#, &[]);
    let range = range.unwrap();
    assert_eq!(range.max(), 5);
    let fault = range.check(10).unwrap_err();
    assert_eq!(fault.code, Code::EntityTooLarge);
    let extra = [("ProposedSize", "10"), ("MaxSizeAllowed", "5")];
    assert_eq!(fault.extra, extra.map(|(name, text)| (name, text.to_owned())));
    let fault = range.check(1).unwrap_err();
    assert_eq!(fault.code, Code::EntityTooSmall);
    let extra = [("ProposedSize", "1"), ("MinSizeAllowed", "2")];
    assert_eq!(fault.extra, extra.map(|(name, text)| (name, text.to_owned())));
    assert!(range.check(2).is_ok() && range.check(5).is_ok() && range.check_so_far(0).is_ok());
    assert_eq!(range.check_so_far(6).unwrap_err().code, Code::EntityTooLarge);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn s3_s16_no_policy_panics(
        conditions in proptest::collection::vec(
            prop_oneof![
                "\\PC{0,12}",
                "\\[\"(eq|starts-with|content-length-range)\"(, ?(\"[$]?[a-z]{0,4}\"|-?[0-9]{0,25}|null|[{}])){0,3}\\]",
                "\\{\"[a-z]{0,4}\": ?(\"\\\\?[$a-z]\"|1)\\}",
            ],
            0..4,
        ),
        raw in "\\PC{0,30}",
    ) {
        let _ = PostPolicy::parse(&raw);
        let _ = parse(&raw);
        if let Ok(policy) = with(&conditions.join(",")) {
            let bucket = BucketName::parse("bucket").unwrap();
            let _ = policy.check(&form(&[("a", "b")]), &bucket, datetime!(2026-01-01 0:00 UTC));
        }
    }
}
