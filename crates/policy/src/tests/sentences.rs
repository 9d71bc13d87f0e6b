//! The answers of S3, as versitygw's integration tests for `PutBucketPolicy` have them.

use super::{ACCOUNT, decide, in_bucket, user};
use crate::{AdminAction, Decision, POLICY_BYTES_MAX, Policy, PolicyKind};

const BUCKET: &str = r#""arn:aws:s3:::b""#;
const OBJECTS: &str = r#""arn:aws:s3:::b/*""#;
const BOTH: &str = r#"["arn:aws:s3:::b","arn:aws:s3:::b/*"]"#;

fn document(effect: &str, principal: &str, action: &str, resource: &str) -> String {
    format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"{effect}","Principal":{principal},"Action":{action},"Resource":{resource}}}]}}"#
    )
}

#[track_caller]
fn refused(json: &str, sentence: &str) {
    let error = Policy::parse_new(json, in_bucket()).expect_err(json);
    assert_eq!((error.code(), error.sentence()), ("MalformedPolicy", sentence), "{json}");
}

#[track_caller]
fn accepted(json: &str) {
    if let Err(error) = Policy::parse_new(json, in_bucket()) {
        panic!("{error}: {json}");
    }
}

#[test]
fn an_invalid_document_is_refused() {
    for json in ["{true}", "{asdfsdaf", r#"{"Principal": "*" "#] {
        refused(json, "This policy contains invalid Json");
    }
    for json in ["", "false", "invalid_json", "bucketPolicy", r#""Statement": []}"#, "[]", " {}"] {
        refused(json, "Policies must be valid JSON and the first byte must be '{'");
    }
    refused("{}", "Missing required field Statement");
    refused(r#"{"Statement": []}"#, "Could not parse the policy: Statement is empty!");
    refused(r#"{"Statement":[],"Surprise":1}"#, "Unknown field Surprise");
    let large = format!(r#"{{"Id":"{}"}}"#, "x".repeat(POLICY_BYTES_MAX));
    refused(&large, "Policy exceeds the maximum allowed document size.");
    for version in ["", "invalid", "2000-10-17", "2012-10-16"] {
        let json = document("Allow", r#""*""#, r#""s3:*""#, BOTH).replace("2012-10-17", version);
        refused(&json, "The policy must contain a valid version string");
    }
    accepted(&document("Allow", r#""*""#, r#""s3:*""#, BOTH).replace("2012-10-17", "2008-10-17"));
}

#[test]
fn an_invalid_statement_is_refused() {
    let good = document("Allow", r#""*""#, r#""s3:*""#, BOTH);
    for (field, sentence) in [
        (r#""Effect":"Allow","#, "Missing required field Effect"),
        (r#""Principal":"*","#, "Missing required field Principal"),
        (r#""Action":"s3:*","#, "Missing required field Action"),
    ] {
        refused(&good.replace(field, ""), sentence);
    }
    refused(&good.replace("Resource", "Sid"), "This policy contains invalid Json");
    refused(
        &document("invalid_effect", r#""*""#, r#""s3:*""#, r#""arn:aws:s3:::*""#),
        "Invalid effect: invalid_effect",
    );
    refused(&good.replace("Effect", "effect"), "Unknown field effect");
    let twice = good.replace(r#""Effect":"Allow""#, r#""Effect":"Deny","Effect":"Allow""#);
    refused(&twice, "This policy contains invalid Json");
    let one = r#"{"Statement":{"Sid":"x","Effect":"Deny","NotPrincipal":"alice","NotAction":"s3:Get*","NotResource":"arn:aws:s3:::b/x"}}"#;
    accepted(one);
}

#[test]
fn an_invalid_action_is_refused() {
    for action in [
        r#""""#,
        "[]",
        r#""invalid_action""#,
        r#"["invalid_action"]"#,
        r#""s3""#,
        r#""s3:""#,
        r#""s4:GetObject""#,
        r#""ss3:ListBucket""#,
        r#""s3x:PutBucketAcl""#,
        r#"":GetObject""#,
        r#""s3GetObject""#,
        r#""s3::GetObject""#,
        r#""s3:Put-Object""#,
        r#""s3:GetObject:""#,
        r#""s3:Put(Object)""#,
        r#""s3:*Obj??ect*""#,
        r#""s3:????""#,
        r#""s3:*:""#,
        r#""*GetObject""#,
        r#""???PutObject""#,
        r#""s3:Abort?""#,
        r#""s3:??Abort*""#,
        r#""s3:ListAllMyBuckets""#,
        "7",
        "null",
    ] {
        refused(&document("Allow", r#""alice""#, action, BUCKET), "Policy has invalid action");
    }
}

#[test]
fn an_invalid_resource_is_refused() {
    for resource in [
        r#""""#,
        "[]",
        r#""*""#,
        r#""arn:aws:iam:::b""#,
        r#""arn:aws:s3:::/b""#,
        r#""arn:aws:s3:::prefix-b""#,
        r#""arn:aws:s3:::bb""#,
        r#""arn:aws:s3:::*""#,
        r#""arn:aws:s3:::b?""#,
        r#"["arn:aws:s3:::b","arn:aws:s3:::c"]"#,
        r#""arn:aws:s3:::""#,
        r#""arn:aws:s3:::b/${aws:username""#,
        r#""arn:aws:s3:::b/${aws:nothing}""#,
        r#""arn:aws:s3:::b/${s3:RequestObjectTagKeys}""#,
        r#""arn:aws:s3:::b/${aws:username, x}""#,
    ] {
        refused(
            &document("Allow", r#"["*"]"#, r#""s3:*""#, resource),
            "Policy has invalid resource",
        );
    }
    accepted(&document("Allow", r#"["*"]"#, r#""s3:*""#, &format!("[{BUCKET},{BUCKET}]")));
    accepted(&document("Allow", r#"["*"]"#, r#""*""#, r#""arn:aws:s3:::b*""#));
}

#[test]
fn actions_need_resources_of_their_kind() {
    for (resource, action) in [
        (BUCKET, r#""s3:GetObject""#),
        (BUCKET, r#""s3:PutObjectTagging""#),
        (BUCKET, r#""s3:GetObjec?""#),
        (BUCKET, r#""s3:Abort*""#),
        (BUCKET, r#""s3:*Multipart*""#),
        (BUCKET, r#""s3:???Object""#),
        (OBJECTS, r#""s3:ListBucket""#),
        (OBJECTS, r#""s3:GetBucketTagging""#),
        (OBJECTS, r#""s3:???BucketVersioning""#),
        (OBJECTS, r#""s3:*Bucket*""#),
        (OBJECTS, r#""s3:GetBucket*""#),
        (BUCKET, r#""s3:ObjectOwnerOverrideToBucketOwner""#),
    ] {
        refused(
            &document("Allow", r#"["*"]"#, action, resource),
            "Action does not apply to any resource(s) in statement",
        );
    }
    for (principal, action, resource) in [
        (r#"["alice","bob"]"#, r#"["s3:DeleteBucket","s3:GetBucketAcl"]"#, BUCKET),
        (r#"{"AWS":["alice","bob"]}"#, r#"["s3:DeleteBucket","s3:GetBucketAcl"]"#, BUCKET),
        (
            r#""alice""#,
            r#"["s3:PutBucketVersioning","s3:ListMultipartUploadParts","s3:ListBucket"]"#,
            BOTH,
        ),
        (r#""*""#, r#""s3:*""#, BOTH),
        (r#""*""#, r#""s3:Get*""#, OBJECTS),
        (r#""*""#, r#""s3:Create*""#, BOTH),
        (r#""*""#, r#""s3:*""#, r#""arn:aws:s3:::b/m?-obj/*""#),
        (r#""*""#, r#""s3:*""#, r#"["arn:aws:s3:::b/*/*","arn:aws:s3:::b"]"#),
        (r#""*""#, r#""s3:getobject""#, OBJECTS),
    ] {
        accepted(&document("Allow", principal, action, resource));
    }
}

fn with(action: &str, resource: &str, condition: &str) -> String {
    format!(
        r#"{{"Statement":[{{"Effect":"Allow","Principal":"*","Action":{action},"Resource":{resource},"Condition":{condition}}}]}}"#
    )
}

fn get(condition: &str) -> String {
    with(r#""s3:GetObject""#, OBJECTS, condition)
}

#[test]
fn an_invalid_condition_is_refused() {
    for (condition, name) in [
        (r#"{"NotARealOperator":{"aws:SourceIp":"1.2.3.4/32"}}"#, "NotARealOperator"),
        (r#"{"stringequals":{"aws:UserAgent":"foo"}}"#, "stringequals"),
        (r#"{"NullIfExists":{"aws:UserAgent":"true"}}"#, "NullIfExists"),
        (r#"{"ForSomeValues:StringEquals":{"aws:UserAgent":"foo"}}"#, "ForSomeValues:StringEquals"),
    ] {
        refused(&get(condition), &format!("Invalid Condition type : {name}"));
    }
    for condition in [
        r#"{"StringEquals":{"s3:FakeKeyDoesNotExist":"foo"}}"#,
        r#"{"NumericEquals":{"s3:NotARealKey":"5"}}"#,
        r#"{"IpAddress":{"aws:NotARealIpKey":"10.0.0.0/8"}}"#,
        r#"{"StringEquals":{"aws:NotARealGlobalKey":"foo"}}"#,
        r#"{"StringEquals":{"s3:ExistingObjectTag/":"foo"}}"#,
    ] {
        refused(&get(condition), "Policy has an invalid condition key");
    }
    for (action, condition) in [
        (r#""s3:GetObject""#, r#"{"StringEquals":{"s3:prefix":"foo"}}"#),
        (r#""s3:ListBucketMultipartUploads""#, r#"{"StringEquals":{"s3:prefix":"foo"}}"#),
        (r#""s3:GetObject""#, r#"{"StringEquals":{"s3:x-amz-acl":"public-read"}}"#),
        (r#""s3:GetObject""#, r#"{"StringEquals":{"s3:VersionId":"abc123"}}"#),
        (
            r#"["s3:GetObject","s3:PutObject"]"#,
            r#"{"StringEquals":{"s3:x-amz-acl":"public-read"}}"#,
        ),
    ] {
        refused(
            &with(action, OBJECTS, condition),
            "Conditions do not apply to combination of actions and resources in statement",
        );
    }
}

#[test]
fn an_invalid_value_of_a_condition_is_refused() {
    for condition in [
        r#"{"IpAddress":{"aws:SourceIp":"not-an-ip"}}"#,
        r#"{"IpAddress":{"aws:SourceIp":"300.1.1.1/40"}}"#,
        r#"{"NotIpAddress":{"aws:SourceIp":"not-an-ip"}}"#,
        r#"{"Null":{"aws:SourceIp":"true"}}"#,
        r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/33"}}"#,
        r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/"}}"#,
    ] {
        refused(&get(condition), "Invalid IP address in Conditions");
    }
    for condition in [
        r#"{"NumericEquals":{"aws:EpochTime":"soon"}}"#,
        r#"{"NumericEquals":{"aws:EpochTime":"inf"}}"#,
        r#"{"DateEquals":{"aws:CurrentTime":"2026-13-01"}}"#,
        r#"{"DateEquals":{"aws:CurrentTime":"2026-01-01X12:00Z"}}"#,
        r#"{"DateEquals":{"aws:CurrentTime":"2026-01-01é"}}"#,
        r#"{"Bool":{"aws:SecureTransport":"yes"}}"#,
        r#"{"Null":{"aws:UserAgent":"yes"}}"#,
        r#"{"BinaryEquals":{"aws:UserAgent":"!"}}"#,
        r#"{"ArnEquals":{"aws:FederatedProvider":"arn:aws"}}"#,
        r#"{"StringEquals":{"aws:UserAgent":[]}}"#,
        r#"{"IpAddress":{"aws:UserAgent":[]}}"#,
    ] {
        refused(&get(condition), "Invalid value in Conditions");
    }
    for condition in [
        "7",
        r#"{"StringEquals":7}"#,
        r#"{"StringEquals":{"aws:UserAgent":{}}}"#,
        r#"{"StringEquals":{"aws:UserAgent":null}}"#,
    ] {
        refused(&get(condition), "This policy contains invalid Json");
    }
    accepted(&with(r#""s3:*""#, BOTH, r#"{"StringEquals":{"s3:x-amz-acl":"public-read"}}"#));
    accepted(&with(
        r#""s3:PutObject*""#,
        OBJECTS,
        r#"{"StringEquals":{"s3:x-amz-acl":"public-read"}}"#,
    ));
    accepted(&get("{}"));
}

#[test]
fn a_user_policy_accepts_other_actions_and_resources() {
    let parse = |rest: &str| {
        let json =
            format!(r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Deny",{rest}}}]}}"#);
        (Policy::parse(&json, PolicyKind::User), Policy::parse_new(&json, PolicyKind::Session))
    };
    for good in [
        r#""Action":"*","Resource":"*""#,
        r#""Action":"s3:GetObject","Resource":"arn:aws:s3:::b""#,
        r#""Action":"s3:ListAllMyBuckets","Resource":"*""#,
        r#""Action":"s3express:CreateSession","Resource":"*""#,
        r#""NotAction":"s3:Get*","NotResource":"arn:aws:s3:::*/x""#,
    ] {
        let (old, new) = parse(good);
        assert!(old.is_ok() && new.is_ok(), "{good}");
    }
    // Misspelt actions, and those of other services, only once they were added.
    for unknown in ["s3:GetObjcet", "iam:GetUser", "s3:Frob*"] {
        let (old, new) = parse(&format!(r#""Action":"{unknown}","Resource":"*""#));
        assert!(old.is_ok(), "{unknown}");
        assert_eq!(new.unwrap_err().sentence(), "Policy has invalid action");
    }
    for bad in [
        r#""Principal":"*","Action":"*","Resource":"*""#,
        r#""NotPrincipal":"alice","Action":"*","Resource":"*""#,
        r#""Action":"GetObject","Resource":"*""#,
        r#""Action":"*","NotAction":"s3:Get*","Resource":"*""#,
        r#""Action":"*","Resource":"bucket/*""#,
        r#""Action":"*","Resource":"arn:aws:s3:::""#,
        r#""Action":"*","Resource":"*","Condition":{"StringEquals":{"aws:Nothing":"x"}}"#,
    ] {
        let (old, new) = parse(bad);
        assert!(old.is_err() && new.is_err(), "{bad}");
    }
}

#[test]
fn built_in_policies_allow_the_actions_of_their_names() {
    let may = |name: &str, action: &str| {
        let policy = Policy::canned(name).unwrap();
        decide(&policy, &user(ACCOUNT, "alice"), action, "b/k") == Decision::Allowed
    };
    for (action, read, write) in [
        ("s3:GetObject", true, false),
        ("s3:ListBucket", true, false),
        ("s3:GetBucketLocation", true, true),
        ("s3:PutObject", false, true),
        ("s3:AbortMultipartUpload", false, true),
        ("s3:DeleteObject", false, false),
        ("s3:GetBucketPolicy", false, false),
    ] {
        assert_eq!(may("readonly", action), read, "{action}");
        assert_eq!(may("writeonly", action), write, "{action}");
        assert!(may("readwrite", action), "{action}");
    }
    for (action, console_admin, diagnostics) in [
        ("admin:ListUsers", true, false),
        ("admin:ServerInfo", true, true),
        ("admin:StartJob", true, false),
        ("s3:GetObject", true, false),
    ] {
        assert_eq!(may("consoleAdmin", action), console_admin, "{action}");
        assert_eq!(may("diagnostics", action), diagnostics, "{action}");
    }
    for name in ["readonly", "readwrite", "writeonly"] {
        assert!(AdminAction::ALL.iter().all(|action| !may(name, action.name())), "{name}");
    }
    assert!(Policy::CANNED.iter().all(|name| Policy::canned(name).is_some()));
    assert_eq!(Policy::canned("admin"), None);
}

#[test]
fn administrative_actions_need_no_resource_in_policies_of_users() {
    let policy = super::of_user("Allow", r#""Action":["admin:ListUsers","ADMIN:Get*"]"#);
    let may = |action: &str, resource: &str| {
        decide(&policy, &user(ACCOUNT, "alice"), action, resource) == Decision::Allowed
    };
    assert!(may("admin:ListUsers", "*") && may("admin:GetBucketQuota", "photos"));
    assert!(!may("admin:DeleteUser", "*") && !may("s3:GetObject", "photos/k"));
    let of_bucket = super::of_user(
        "Allow",
        r#""Action":"admin:SetBucketQuota","Resource":"arn:aws:s3:::photos""#,
    );
    let may = |resource| {
        let alice = user(ACCOUNT, "alice");
        decide(&of_bucket, &alice, "admin:SetBucketQuota", resource) == Decision::Allowed
    };
    assert!(may("photos") && !may("*") && !may("other"));
    let refused = |statement: &str| {
        let json =
            format!(r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow",{statement}}}]}}"#);
        Policy::parse_new(&json, PolicyKind::User).is_err()
    };
    // A resource is missing if one action needs it, and a misspelt action is refused.
    assert!(refused(r#""Action":["admin:ListUsers","s3:GetObject"]"#));
    assert!(refused(r#""NotAction":"admin:ListUsers""#));
    assert!(refused(r#""Action":"admin:ListUser""#));
    assert!(!refused(r#""Action":"admin:Heal""#));
    let bucket = r#"{"Statement":[{"Effect":"Allow","Principal":"*","Action":"admin:*","Resource":"arn:aws:s3:::photos"}]}"#;
    assert!(
        Policy::parse(bucket, PolicyKind::Bucket { bucket: "photos", exists: &|_| true }).is_err()
    );
}

#[test]
fn a_half_denied_pair_is_found() {
    let pairs =
        [("s3:GetObject", "s3:GetObjectVersion"), ("s3:DeleteObject", "s3:DeleteObjectVersion")];
    let half = |action: &str| {
        let rest = format!(r#""Action":{action},"Resource":"*""#);
        super::of_user("Deny", &rest).half_denied(&pairs)
    };
    assert_eq!(half(r#""s3:GetObject""#), [("s3:GetObject", "s3:GetObjectVersion")]);
    assert_eq!(
        half(r#""s3:*Version""#),
        [("s3:GetObjectVersion", "s3:GetObject"), ("s3:DeleteObjectVersion", "s3:DeleteObject"),]
    );
    assert_eq!(half(r#""s3:Get*""#), []);
}

#[test]
fn document_of_a_built_in_policy_means_the_same() {
    for name in Policy::CANNED {
        let document = Policy::canned_document(name).unwrap();
        let parsed = Policy::parse_new(&document, PolicyKind::User).unwrap();
        assert_eq!(Some(parsed), Policy::canned(name), "{name}");
    }
    assert_eq!(Policy::canned_document("admin"), None);
}
