//! Signatures of policies: AWS's example, what boto3 signs, and refusals.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use sigv4::{CredentialScope, SigningKey};
use time::OffsetDateTime;
use time::macros::datetime;

use super::sent_request::{KEY, SECRET, SentRequest};
use crate::auth::{AuthKind, FormCredentials, PayloadMode, SignatureRules, Verified};
use crate::post::{FilePart, Form, LengthRange};
use crate::{BucketName, Code, Fault};

/// The policy of AWS's "Browser-Based Upload using HTTP POST" (SigV4).
const AWS_POLICY: &str = "eyAiZXhwaXJhdGlvbiI6ICIyMDE1LTEyLTMwVDEyOjAwOjAwLjAwMFoiLA0KICAiY29uZGl0aW9ucyI6IFsNCiAg\
     ICB7ImJ1Y2tldCI6ICJzaWd2NGV4YW1wbGVidWNrZXQifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAi\
     dXNlci91c2VyMS8iXSwNCiAgICB7ImFjbCI6ICJwdWJsaWMtcmVhZCJ9LA0KICAgIHsic3VjY2Vzc19hY3Rpb25f\
     cmVkaXJlY3QiOiAiaHR0cDovL3NpZ3Y0ZXhhbXBsZWJ1Y2tldC5zMy5hbWF6b25hd3MuY29tL3N1Y2Nlc3NmdWxf\
     dXBsb2FkLmh0bWwifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0sDQog\
     ICAgeyJ4LWFtei1tZXRhLXV1aWQiOiAiMTQzNjUxMjM2NTEyNzQifSwNCiAgICB7IngtYW16LXNlcnZlci1zaWRl\
     LWVuY3J5cHRpb24iOiAiQUVTMjU2In0sDQogICAgWyJzdGFydHMtd2l0aCIsICIkeC1hbXotbWV0YS10YWciLCAi\
     Il0sDQoNCiAgICB7IngtYW16LWNyZWRlbnRpYWwiOiAiQUtJQUlPU0ZPRE5ON0VYQU1QTEUvMjAxNTEyMjkvdXMt\
     ZWFzdC0xL3MzL2F3czRfcmVxdWVzdCJ9LA0KICAgIHsieC1hbXotYWxnb3JpdGhtIjogIkFXUzQtSE1BQy1TSEEy\
     NTYifSwNCiAgICB7IngtYW16LWRhdGUiOiAiMjAxNTEyMjlUMDAwMDAwWiIgfQ0KICBdDQp9";
const AWS_SIGNATURE: &str = "8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e";

/// From boto3 1.43.11: `generate_presigned_post("photos", "up/${filename}", ExpiresIn=3600)` with
/// these fields and conditions, signed with `s3v4` and with `s3`.
const BOTO3_POLICY: &str = "eyJleHBpcmF0aW9uIjogIjIwMjYtMTEtMjZUMTQ6MDA6MjBaIiwgImNvbmRpdGlvbnMiOiBbeyJhY2wiOiAicHJp\
     dmF0ZSJ9LCBbInN0YXJ0cy13aXRoIiwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0sIFsiZXEiLCAiJHgtYW16\
     LW1ldGEtd2hvIiwgIm1lIl0sIFsiY29udGVudC1sZW5ndGgtcmFuZ2UiLCAxLCAxMF0sIHsiYnVja2V0IjogInBo\
     b3RvcyJ9LCBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAidXAvIl0sIHsieC1hbXotYWxnb3JpdGhtIjogIkFXUzQt\
     SE1BQy1TSEEyNTYifSwgeyJ4LWFtei1jcmVkZW50aWFsIjogIkFLSUFJT1NGT0ROTjdFWEFNUExFLzIwMjYxMTI2\
     L3VzLWVhc3QtMS9zMy9hd3M0X3JlcXVlc3QifSwgeyJ4LWFtei1kYXRlIjogIjIwMjYxMTI2VDEzMDAyMFoifV19";
const BOTO3_SIGNATURE: &str = "e0cd94cf1711fd58f5f6a28f1a3e9c2da7e4c20459089c8173f8325669e86199";
const BOTO3_POLICY_V2: &str = "eyJleHBpcmF0aW9uIjogIjIwMjYtMTEtMjZUMTQ6MDA6MjBaIiwgImNvbmRpdGlvbnMiOiBbeyJhY2wiOiAicHJp\
     dmF0ZSJ9LCBbInN0YXJ0cy13aXRoIiwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0sIFsiZXEiLCAiJHgtYW16\
     LW1ldGEtd2hvIiwgIm1lIl0sIFsiY29udGVudC1sZW5ndGgtcmFuZ2UiLCAxLCAxMF0sIHsiYnVja2V0IjogInBo\
     b3RvcyJ9LCBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAidXAvIl1dfQ==";
const BOTO3_SIGNATURE_V2: &str = "51o0xGScswHA2711yTyNv/3Up70=";
const BOTO3_SIGNED_AT: OffsetDateTime = datetime!(2026-11-26 13:00:20 UTC);

type Field<'a> = (&'a str, &'a str);

fn aws() -> Vec<Field<'static>> {
    vec![
        ("key", "user/user1/${filename}"),
        ("acl", "public-read"),
        (
            "success_action_redirect",
            "http://sigv4examplebucket.s3.amazonaws.com/successful_upload.html",
        ),
        ("Content-Type", "image/jpeg"),
        ("x-amz-meta-uuid", "14365123651274"),
        ("x-amz-server-side-encryption", "AES256"),
        ("X-Amz-Credential", "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request"),
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
        ("X-Amz-Date", "20151229T000000Z"),
        ("x-amz-meta-tag", ""),
        ("Policy", AWS_POLICY),
        ("X-Amz-Signature", AWS_SIGNATURE),
    ]
}

const BOTO3_OWN: [Field<'static>; 4] = [
    ("acl", "private"),
    ("Content-Type", "image/png"),
    ("x-amz-meta-who", "me"),
    ("key", "up/${filename}"),
];

fn boto3() -> Vec<Field<'static>> {
    let mut fields = BOTO3_OWN.to_vec();
    fields.extend([
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", "AKIAIOSFODNN7EXAMPLE/20261126/us-east-1/s3/aws4_request"),
        ("x-amz-date", "20261126T130020Z"),
        ("policy", BOTO3_POLICY),
        ("x-amz-signature", BOTO3_SIGNATURE),
    ]);
    fields
}

fn boto3_v2() -> Vec<Field<'static>> {
    let mut fields = BOTO3_OWN.to_vec();
    fields.extend([
        ("AWSAccessKeyId", KEY),
        ("policy", BOTO3_POLICY_V2),
        ("signature", BOTO3_SIGNATURE_V2),
    ]);
    fields
}

fn changed<'a>(mut fields: Vec<Field<'a>>, name: &str, value: &'a str) -> Vec<Field<'a>> {
    fields.iter_mut().find(|field| field.0 == name).expect("the field is there").1 = value;
    fields
}

fn without<'a>(mut fields: Vec<Field<'a>>, name: &str) -> Vec<Field<'a>> {
    fields.retain(|field| field.0 != name);
    fields
}

fn terms_at(now: OffsetDateTime) -> SignatureRules<'static> {
    SignatureRules {
        region: "us-east-1",
        service: "s3",
        has_session: false,
        sigv2_presign: true,
        accepts_aws_chunked: true,
        now,
    }
}

fn form_of(fields: &[Field<'_>]) -> Form {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let file = FilePart { filename: Some("a.png".to_owned()), content_type: None };
    Form::new(fields.collect(), &file).unwrap()
}

/// Verifies a form. Returns its signer and the length range of its file.
fn verify(
    fields: &[Field<'_>],
    bucket: &str,
    rules: &SignatureRules<'_>,
) -> Result<(Verified, LengthRange), Fault> {
    let form = form_of(fields);
    let sent = SentRequest::new("POST", "/", &[("host", "photos.example")]);
    let credentials = FormCredentials::parse(&sent.head(), &form)?;
    let secret = credentials.access_key().filter(|key| *key == KEY).map(|_| SECRET);
    let form = credentials.verify(secret, &BucketName::parse(bucket).unwrap(), rules)?;
    Ok((form.verified().clone(), form.lengths()))
}

#[track_caller]
fn refused(fields: &[Field<'_>], code: Code) -> Fault {
    let fault = verify(fields, "photos", &terms_at(BOTO3_SIGNED_AT)).expect_err("must be refused");
    assert_eq!(fault.code, code, "{fault}");
    fault
}

#[test]
fn s3_a9_documented_form_is_accepted() {
    let rules = terms_at(datetime!(2015-12-29 0:00 UTC));
    let (verified, _) = verify(&aws(), "sigv4examplebucket", &rules).unwrap();
    assert_eq!(verified.access_key(), Some(KEY));
    assert_eq!(verified.kind(), AuthKind::Form);
    assert_eq!(verified.payload(), PayloadMode::Unsigned);
    assert!(verified.hoisted().is_empty());
    assert_eq!(verified.signed_at(), Some(datetime!(2015-12-29 0:00 UTC)));
    for (name, value) in [("key", "user/other"), ("Content-Type", "text/x"), ("acl", "private")] {
        let fault = verify(&changed(aws(), name, value), "sigv4examplebucket", &rules).unwrap_err();
        assert_eq!(fault.code, Code::AccessDenied, "{name}");
    }
    assert!(verify(&aws(), "other-bucket", &rules).is_err());
}

#[test]
fn s3_a9_a_boto3_form_is_accepted_until_it_expires() {
    for fields in [boto3(), boto3_v2()] {
        for minutes in [0, 59, 60] {
            let now = BOTO3_SIGNED_AT + time::Duration::minutes(minutes);
            let (_, lengths) = verify(&fields, "photos", &terms_at(now)).unwrap();
            assert_eq!(lengths.max(), 10);
            assert!(lengths.check(0).is_err());
        }
        let now = BOTO3_SIGNED_AT + time::Duration::minutes(61);
        let fault = verify(&fields, "photos", &terms_at(now)).unwrap_err();
        assert_eq!(fault.code, Code::AccessDenied);
        assert_eq!(fault.message, "Invalid according to Policy: Policy expired.");
    }
}

#[test]
fn s3_a9_sigv2_is_accepted_only_if_enabled() {
    let rules = SignatureRules { sigv2_presign: false, ..terms_at(BOTO3_SIGNED_AT) };
    assert_eq!(verify(&boto3_v2(), "photos", &rules).unwrap_err().code, Code::InvalidRequest);
    assert!(verify(&boto3(), "photos", &rules).is_ok());
    let (verified, _) = verify(&boto3_v2(), "photos", &terms_at(BOTO3_SIGNED_AT)).unwrap();
    assert_eq!(verified.kind(), AuthKind::FormV2);
    assert_eq!(
        verified.signed_at(),
        None,
        "a signature of version 2 does not say when it was made"
    );
}

#[test]
fn s3_s6_a_form_with_incomplete_credentials_is_refused() {
    for name in ["policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"] {
        let fault = refused(&without(boto3(), name), Code::InvalidArgument);
        assert!(fault.message.contains(&format!("a field named '{name}'.")), "{fault}");
        assert_eq!(fault.extra[0], ("ArgumentName", name.to_owned()));
    }
    for name in ["policy", "AWSAccessKeyId", "signature"] {
        refused(&without(boto3_v2(), name), Code::InvalidArgument);
    }
    // A policy without any signature, and each field alone.
    refused(&[("key", "k"), ("policy", BOTO3_POLICY)], Code::InvalidArgument);
    for name in ["x-amz-algorithm", "x-amz-signature", "signature", "awsaccesskeyid"] {
        refused(&[("key", "k"), (name, "")], Code::InvalidArgument);
    }
    let mut both = boto3();
    both.extend([("AWSAccessKeyId", KEY), ("signature", BOTO3_SIGNATURE_V2)]);
    refused(&both, Code::InvalidArgument);
}

#[test]
fn s3_s6_a_form_without_credentials_is_anonymous() {
    let (verified, lengths) =
        verify(&[("key", "k")], "photos", &terms_at(BOTO3_SIGNED_AT)).unwrap();
    assert_eq!(verified.access_key(), None);
    assert_eq!(verified.kind(), AuthKind::Anonymous);
    assert_eq!(lengths.max(), u64::MAX);
}

#[test]
fn s3_s6_credentials_outside_the_form_are_refused() {
    for (target, headers) in [
        ("/?X-Amz-Signature=a", &[][..]),
        ("/?Signature=a&AWSAccessKeyId=b&Expires=1", &[]),
        ("/", &[("authorization", "AWS4-HMAC-SHA256 Credential=a")]),
    ] {
        let sent = SentRequest::new("POST", target, headers);
        for fields in [boto3(), vec![("key", "k")]] {
            assert!(FormCredentials::parse(&sent.head(), &form_of(&fields)).is_err(), "{target}");
        }
    }
    let sent = SentRequest::new("POST", "/", &[]).with("host", "h");
    let sent = sent.with("x-amz-content-sha256", "UNSIGNED-PAYLOAD").signed();
    let fault = FormCredentials::parse(&sent.head(), &form_of(&boto3())).unwrap_err();
    assert_eq!(fault.code, Code::InvalidArgument);
}

#[test]
fn s3_s6_malformed_credentials_are_refused() {
    fn at(name: &str, value: &str) -> Cow<'static, str> {
        refused(&changed(boto3(), name, value), Code::InvalidArgument).message
    }
    assert_eq!(at("x-amz-algorithm", "invalid"), "Only AWS4-HMAC-SHA256 is supported");
    assert_eq!(
        at("x-amz-date", "invalid_date"),
        "X-Amz-Date must be formated via ISO8601 Long format"
    );
    assert_eq!(
        at("x-amz-credential", "malformed-no-slashes"),
        "the Credential is mal-formed; expecting \
         \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\"."
    );
    for (scope, message) in [
        (
            "20261126/us-west-2/s3/aws4_request",
            "the region \"us-west-2\" is wrong; expecting \"us-east-1\"",
        ),
        (
            "20261126/us-east-1/ec2/aws4_request",
            "incorrect service \"ec2\". This endpoint belongs to \"s3\".",
        ),
        (
            "20261126/us-east-1/s3/aws4",
            "incorrect terminal \"aws4\". This endpoint uses \"aws4_request\".",
        ),
        (
            "2026/us-east-1/s3/aws4_request",
            "incorrect date format \"2026\". This date in the credential must be in the format \"yyyyMMdd\".",
        ),
        (
            "20261125/us-east-1/s3/aws4_request",
            "the credential's date \"20261125\" differs from the date of x-amz-date.",
        ),
    ] {
        assert_eq!(at("x-amz-credential", &format!("{KEY}/{scope}")), message);
    }
}

#[test]
fn s3_s6_a_signature_time_far_from_now_is_refused() {
    let at = |now| verify(&boto3(), "photos", &terms_at(now)).map(|_| ());
    assert!(at(BOTO3_SIGNED_AT - time::Duration::minutes(15)).is_ok());
    let fault = at(BOTO3_SIGNED_AT - time::Duration::minutes(16)).unwrap_err();
    assert_eq!(fault.code, Code::RequestTimeTooSkewed);
    // A policy that is valid for longer than its signature.
    let policy = r#"{"expiration":"2144-01-01T00:00:00Z","conditions":[{"bucket":"photos"},
        ["starts-with","$x-amz-date",""],["starts-with","$x-amz-credential",""],
        ["starts-with","$x-amz-algorithm",""]]}"#;
    let policy = STANDARD.encode(policy);
    let signature = sign(&policy);
    let fields = signed(&policy, &signature);
    let week = time::Duration::days(7);
    assert!(verify(&fields, "photos", &terms_at(BOTO3_SIGNED_AT + week)).is_ok());
    let late = terms_at(BOTO3_SIGNED_AT + week + time::Duration::SECOND);
    let fault = verify(&fields, "photos", &late).unwrap_err();
    assert_eq!(fault.message, "Invalid according to Policy: Policy expired.");
}

#[test]
fn s3_s6_a_wrong_signature_is_refused_and_explained() {
    let fault =
        refused(&changed(boto3(), "x-amz-signature", "incorrect"), Code::SignatureDoesNotMatch);
    let extra: Vec<&str> = fault.extra.iter().map(|(name, _)| *name).collect();
    let names = ["AWSAccessKeyId", "StringToSign", "SignatureProvided", "StringToSignBytes"];
    assert_eq!(extra, names);
    assert_eq!(fault.extra[1].1, BOTO3_POLICY);
    assert!(fault.extra[3].1.starts_with("65 79 4a "));
    let upper = BOTO3_SIGNATURE.to_uppercase();
    refused(&changed(boto3(), "x-amz-signature", &upper), Code::SignatureDoesNotMatch);
    refused(&changed(boto3(), "policy", BOTO3_POLICY_V2), Code::SignatureDoesNotMatch);
    refused(&changed(boto3(), "policy", ""), Code::SignatureDoesNotMatch);
    refused(&changed(boto3_v2(), "signature", "incorrect"), Code::SignatureDoesNotMatch);
    refused(&changed(boto3_v2(), "policy", BOTO3_POLICY), Code::SignatureDoesNotMatch);
    let unpadded = BOTO3_SIGNATURE_V2.trim_end_matches('=');
    refused(&changed(boto3_v2(), "signature", unpadded), Code::SignatureDoesNotMatch);
    refused(&changed(boto3_v2(), "AWSAccessKeyId", "other"), Code::InvalidAccessKeyId);
    let other = "other/20261126/us-east-1/s3/aws4_request";
    refused(&changed(boto3(), "x-amz-credential", other), Code::InvalidAccessKeyId);
    let mut token = boto3();
    token.push(("x-amz-security-token", "t"));
    refused(&token, Code::InvalidToken);
}

fn sign(policy: &str) -> String {
    let scope = CredentialScope::new("20261126", "us-east-1", "s3");
    SigningKey::derive(SECRET, &scope).sign(policy).to_hex()
}

fn signed<'a>(policy: &'a str, signature: &'a str) -> Vec<Field<'a>> {
    let fields = boto3().split_off(BOTO3_OWN.len());
    let fields = fields.into_iter().map(|(name, value)| match name {
        "policy" => (name, policy),
        "x-amz-signature" => (name, signature),
        _ => (name, value),
    });
    fields.collect()
}

#[test]
fn s3_s6_a_signed_malformed_policy_is_refused() {
    for policy in ["", "invalid_base64", "aW52YWxpZCBqc29u"] {
        let signature = sign(policy);
        refused(&signed(policy, &signature), Code::InvalidPolicyDocument);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn s3_s6_any_signed_policy_is_accepted_and_each_changed_byte_refused(
        key in "[ -~äß]{1,20}", place in any::<prop::sample::Index>()
    ) {
        let text = |text: &str| serde_json::to_string(text).unwrap();
        let policy = format!(
            "{{\"expiration\":\"2026-12-01T00:00:00.000Z\",\"conditions\":[{{\"bucket\":\"photos\"}},\
             [\"eq\",\"$key\",{}],[\"starts-with\",\"$x-amz-date\",\"\"],\
             [\"starts-with\",\"$x-amz-credential\",\"\"],\
             [\"starts-with\",\"$x-amz-algorithm\",\"\"]]}}",
            text(&key)
        );
        let policy = STANDARD.encode(policy);
        let signature = sign(&policy);
        let mut fields = signed(&policy, &signature);
        fields.push(("key", &key));
        let rules = terms_at(BOTO3_SIGNED_AT);
        prop_assert!(verify(&fields, "photos", &rules).is_ok());
        for target in [3, 4, 5] {
            let mut bytes = fields[target].1.as_bytes().to_vec();
            let at = place.index(bytes.len());
            bytes[at] ^= 1;
            let Ok(text) = String::from_utf8(bytes) else { continue };
            let mut changed = fields.clone();
            changed[target].1 = &text;
            prop_assert!(verify(&changed, "photos", &rules).is_err());
        }
    }
}
