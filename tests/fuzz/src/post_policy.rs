//! Policies of forms, signed as AWS specifies. A naive evaluation of the same JSON allows each
//! accepted form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Method};
use s3::auth::{AuthKind, FormCredentials, RequestHead};
use s3::post::{FilePart, Form, PostPolicy};
use s3::{BucketName, Code};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::faults;
use crate::framing::terms;
use crate::naive_signer::{ACCESS_KEY, NOW, SCOPE, SECRET, TIME, sign};

/// The bucket of all forms.
const BUCKET: &str = "bucket";

/// The fields of the signature. No field of the input may have these names.
const SIGNING: [&str; 8] = [
    "awsaccesskeyid",
    "policy",
    "signature",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-signature",
];

/// The input: lines of `name=value`, an empty line, and the policy as JSON.
pub(crate) fn check(input: &[u8]) {
    let Some((fields, json)) = read(input) else { return };
    let policy = STANDARD.encode(json);
    let file = FilePart::default();
    let Some(form) = signed(fields, &policy, &file) else { return };
    let head = RequestHead {
        method: &Method::POST,
        path: "/bucket",
        query: "",
        headers: &HeaderMap::new(),
        authority: None,
        host_bucket: None,
    };
    let credentials = FormCredentials::parse(&head, &form).expect("credentials of our own");
    assert_eq!((credentials.kind(), credentials.access_key()), (AuthKind::Form, Some(ACCESS_KEY)));
    let bucket = BucketName::parse(BUCKET).expect("a bucket of our own");
    let parsed = PostPolicy::parse(&policy);
    let allowed = parsed.and_then(|parsed| parsed.check(&form, &bucket, NOW));
    match credentials.verify(Some(SECRET), &bucket, &terms(false)) {
        Ok(verified) => {
            assert_eq!(Some(verified.lengths()), allowed.ok(), "the policy decides");
            assert_eq!(verified.verified().access_key(), Some(ACCESS_KEY));
            naive(json, &form);
        }
        Err(fault) => {
            assert_eq!(allowed.err().as_ref(), Some(&fault), "a signature of our own is right");
            assert!(matches!(fault.code, Code::AccessDenied | Code::InvalidPolicyDocument));
            faults::are_told(&fault, 2 * input.len());
        }
    }
}

fn read(input: &[u8]) -> Option<(Vec<(String, String)>, &str)> {
    let text = std::str::from_utf8(input).ok()?;
    let (head, json) = text.split_once("\n\n")?;
    let fields = head.lines().filter_map(|line| line.split_once('='));
    let mut fields: Vec<(String, String)> =
        fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    fields.retain(|(name, _)| !SIGNING.contains(&name.as_str()));
    Some((fields, json))
}

fn signed(mut fields: Vec<(String, String)>, policy: &str, file: &FilePart) -> Option<Form> {
    for (name, value) in [
        ("policy", policy.to_owned()),
        ("x-amz-algorithm", "AWS4-HMAC-SHA256".to_owned()),
        ("x-amz-credential", format!("{ACCESS_KEY}/{SCOPE}")),
        ("x-amz-date", TIME.to_owned()),
        ("x-amz-signature", sign(policy)),
    ] {
        fields.push((name.to_owned(), value));
    }
    Form::new(fields, file).ok()
}

/// Checks that the policy has not expired and that each of its conditions holds.
fn naive(json: &str, form: &Form) {
    // S3 allows the escape `\$`, which JSON does not have.
    let json = json.replace("\\\\", "\u{e000}").replace("\\$", "$").replace('\u{e000}', "\\\\");
    let document: Value = serde_json::from_str(&json).expect("a policy that passed is JSON");
    let expiration = document["expiration"].as_str().expect("it expires");
    let expiration = OffsetDateTime::parse(expiration, &Rfc3339).expect("it says when");
    assert!(NOW <= expiration);
    let conditions = document["conditions"].as_array().expect("it has conditions");
    let mut names_bucket = false;
    for condition in conditions {
        let (operator, name, value) = match condition {
            Value::Object(members) => {
                let (name, value) = members.iter().next().expect("one member");
                ("eq".to_owned(), name.clone(), value.clone())
            }
            Value::Array(list) => {
                let operator = list[0].as_str().expect("an operator").to_ascii_lowercase();
                if operator == "content-length-range" {
                    continue;
                }
                let name = list[1].as_str().and_then(|name| name.strip_prefix('$'));
                (operator, name.expect("a field").to_owned(), list[2].clone())
            }
            other => panic!("a condition that is none: {other}"),
        };
        let name = name.to_ascii_lowercase();
        names_bucket |= name == "bucket";
        let sent = if name == "bucket" { Some(BUCKET) } else { form.get(&name) };
        let sent = sent.expect("a field that a condition names");
        let Some(wanted) = value.as_str() else { continue };
        let holds = match operator.as_str() {
            "eq" => sent == wanted,
            "starts-with" if name == "content-type" && sent.contains(',') => {
                sent.split(',').all(|one| one.trim().starts_with(wanted))
            }
            "starts-with" => sent.starts_with(wanted),
            other => panic!("an operator that is none: {other}"),
        };
        assert!(holds, "{condition} holds of {sent:?}");
    }
    assert!(names_bucket, "a policy is for one bucket");
}
