use policy::{Policy, PolicyKind};
use record::{AccountId, AclRight, Bucket, Grant, Ino, ObjectOwnership, S3Acl};
use rules::BucketRules;
use s3::bucket_logging::LogSource;
use s3::object_lock::ObjectLockConfiguration;
use time::macros::datetime;

use super::*;

const TLS: &str = r#"{"Effect":"Deny","Principal":"*","Action":"s3:*",
    "Resource":"arn:aws:s3:::logs/*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}"#;

/// The rules of the bucket `logs` of the first account, with these statements.
fn rules(statements: &str) -> BucketRules {
    let settings = Bucket {
        owner: AccountId::MAIN,
        opaque_tags: false,
        ownership: Some(ObjectOwnership::BucketOwnerEnforced),
        public_access: None,
        configs_version: 1,
        default_retention: None,
        default_encryption: None,
    };
    let mut rules = BucketRules::of_settings(Ino(9), settings);
    if !statements.is_empty() {
        let text = format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#);
        let kind = PolicyKind::Bucket { bucket: "logs", exists: &|_| true };
        rules.policy = Some(Policy::parse_new(&text, kind).expect("a policy"));
    }
    rules
}

/// An Allow with this principal, action, resource and condition.
fn allow(principal: &str, action: &str, resource: &str, condition: &str) -> String {
    format!(
        r#"{{"Effect":"Allow","Principal":{principal},"Action":"{action}",
            "Resource":"arn:aws:s3:::{resource}","Condition":{{{condition}}}}}"#
    )
}

fn check(rules: &BucketRules) -> Result<(), LogRefusal> {
    let target = BucketName::parse("logs").unwrap();
    let source = LogSource { account: "000000000001", region: "us-east-1", bucket: "photos" };
    let now = datetime!(2026-03-01 12:00 UTC);
    LogDelivery { source, target: &target, key: "a/2026", now }.check(rules)
}

#[test]
fn the_policy_of_the_target_decides() {
    const SERVICE: &str = r#"{"Service":"logging.s3.amazonaws.com"}"#;
    const PUT: &str = "s3:PutObject";
    const SOURCE: &str = r#""ArnLike":{"aws:SourceArn":"arn:aws:s3:::photos"},
        "StringEquals":{"aws:SourceAccount":"000000000001"}"#;
    const OTHER: &str = r#""ArnLike":{"aws:SourceArn":"arn:aws:s3:::videos"}"#;
    const STRANGER: &str = r#""StringEquals":{"aws:SourceAccount":"000000000002"}"#;
    let good = allow(SERVICE, PUT, "logs/a/*", SOURCE);
    for (statements, allowed) in [
        (String::new(), false),
        (good.clone(), true),
        (allow(SERVICE, PUT, "logs/*", ""), true),
        // A service is among the principals that `*` means.
        (allow("\"*\"", PUT, "logs/*", SOURCE), true),
        (allow(r#"{"AWS":"000000000001"}"#, PUT, "logs/*", ""), false),
        (allow(SERVICE, "s3:GetObject", "logs/*", SOURCE), false),
        (allow(SERVICE, PUT, "logs/b/*", SOURCE), false),
        (allow(SERVICE, PUT, "logs/*", OTHER), false),
        (allow(SERVICE, PUT, "logs/*", STRANGER), false),
        // A Deny of requests without TLS is no Deny of the delivery, and another Deny is.
        (format!("{good},{TLS}"), true),
        (format!("{good},{}", good.replace("Allow", "Deny")), false),
    ] {
        let expected = if allowed { Ok(()) } else { Err(LogRefusal::NoPermission) };
        assert_eq!(check(&rules(&statements)), expected, "{statements}");
    }
}

#[test]
fn a_grant_to_the_log_delivery_group_counts_if_acls_are_enabled() {
    let grant = |permission| Grant { grantee: Grantee::LogDelivery, permission };
    let mut rules = rules("");
    rules.acl = Some(S3Acl { grants: vec![grant(AclRight::Write), grant(AclRight::ReadAcp)] });
    assert_eq!(check(&rules), Err(LogRefusal::NoPermission), "ACLs are disabled");
    rules.settings.ownership = Some(ObjectOwnership::ObjectWriter);
    assert_eq!(check(&rules), Ok(()));
    rules.acl = Some(S3Acl { grants: vec![grant(AclRight::Write)] });
    assert_eq!(check(&rules), Err(LogRefusal::NoPermission), "READ_ACP is missing");
}

#[test]
fn a_foreign_target_and_one_with_a_default_retention_are_refused() {
    let everyone = allow("\"*\"", "s3:PutObject", "logs/*", "");
    let mut of_other = rules(&everyone);
    of_other.account = "000000000002".to_owned();
    assert_eq!(check(&of_other), Err(LogRefusal::OtherOwner));
    let lock = |rule: &str| {
        let document = format!(
            "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>{rule}\
             </ObjectLockConfiguration>"
        );
        ObjectLockConfiguration::parse(document.as_bytes()).unwrap()
    };
    let mut locked = rules(&everyone);
    locked.object_lock = Some(lock(""));
    assert_eq!(check(&locked), Ok(()), "a lock without a default");
    locked.object_lock = Some(lock(
        "<Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule>",
    ));
    assert_eq!(check(&locked), Err(LogRefusal::DefaultRetention));
}
