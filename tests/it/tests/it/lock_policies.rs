//! Bucket policies about object locks: conditions on the lock that a request sets and on the lock
//! of a version, and policies with condition keys that no request has.

use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::client::{Client, Request};
use crate::servers::{Blocks, Setup};

/// A bucket with object lock.
const BUCKET: &str = "/locks";

/// A bucket policy that denies `actions` under one condition.
fn denying(actions: &str, condition: &str) -> String {
    format!(
        r#"{{"Version":"2012-10-17","Statement":[
            {{"Effect":"Deny","Principal":"*","Action":"{actions}",
              "Resource":"arn:aws:s3:::locks/*","Condition":{{{condition}}}}}]}}"#
    )
}

/// Replaces the policy of the bucket.
#[track_caller]
fn set_policy(client: &Client, actions: &str, condition: &str) {
    let request = Request::new("PUT", "/locks?policy").body(denying(actions, condition));
    client.send(&request).expect(204);
}

/// Returns the time in `days` days as requests write it.
fn in_days(days: i64) -> String {
    let until = OffsetDateTime::now_utc() + Duration::days(days);
    until.replace_nanosecond(0).expect("a time").format(&Rfc3339).expect("a text")
}

/// A PUT of `key` with a retention of `days` days.
fn locked_put(key: &str, mode: &str, days: i64) -> Request {
    Request::new("PUT", &format!("{BUCKET}/{key}"))
        .body(*b"a body")
        .header("x-amz-object-lock-mode", mode)
        .header("x-amz-object-lock-retain-until-date", &in_days(days))
}

/// `PutObjectRetention` of `key` for `days` days.
fn retain(key: &str, days: i64) -> Request {
    let document = format!(
        "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>{}</RetainUntilDate></Retention>",
        in_days(days)
    );
    Request::new("PUT", &format!("{BUCKET}/{key}?retention")).body(document)
}

/// `PutObjectLegalHold` of `key`.
fn hold(key: &str, status: &str) -> Request {
    let document = format!("<LegalHold><Status>{status}</Status></LegalHold>");
    Request::new("PUT", &format!("{BUCKET}/{key}?legal-hold")).body(document)
}

#[track_caller]
fn refuses(client: &Client, request: &Request) {
    let answer = client.send(request);
    assert_eq!((answer.status, answer.code().as_str()), (403, "AccessDenied"), "{}", answer.text());
}

#[test]
fn lock_policies_use_the_lock_of_the_request_or_of_the_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Setup::new(folder.path(), Blocks::Folder).start();
    let client = &gateway.client;
    let make = Request::new("PUT", BUCKET).header("x-amz-bucket-object-lock-enabled", "true");
    client.send(&make).expect(200);
    client.put("/locks/k", b"a body").expect(200);

    // Days: the retention that a document or a header requests.
    let condition = r#""NumericGreaterThan":{"s3:object-lock-remaining-retention-days":"10"}"#;
    set_policy(client, "s3:PutObjectRetention", condition);
    refuses(client, &retain("k", 400));
    client.send(&Request::new("GET", "/locks/k?retention")).expect(404);
    client.send(&retain("k", 5)).expect(200);
    set_policy(client, "s3:PutObject", condition);
    refuses(client, &locked_put("days", "GOVERNANCE", 400));
    client.send(&locked_put("days", "GOVERNANCE", 5)).expect(200);

    // Mode: of a write, and of the version that a request reads.
    let condition = r#""StringEquals":{"s3:object-lock-mode":"COMPLIANCE"}"#;
    set_policy(client, "s3:PutObject", condition);
    refuses(client, &locked_put("mode", "COMPLIANCE", 1));
    client.send(&locked_put("mode", "GOVERNANCE", 1)).expect(200);
    let condition = r#""StringEquals":{"s3:object-lock-mode":"GOVERNANCE"}"#;
    set_policy(client, "s3:GetObject", condition);
    refuses(client, &Request::new("GET", "/locks/mode"));
    client.put("/locks/free", b"a body").expect(200);
    client.get("/locks/free").expect(200);

    // Date.
    let condition =
        r#""DateGreaterThan":{"s3:object-lock-retain-until-date":"2900-01-01T00:00:00Z"}"#;
    set_policy(client, "s3:PutObjectRetention", condition);
    let far = "<Retention><Mode>GOVERNANCE</Mode>\
               <RetainUntilDate>2999-01-01T00:00:00Z</RetainUntilDate></Retention>";
    refuses(client, &Request::new("PUT", "/locks/k?retention").body(far));
    client.send(&retain("k", 20)).expect(200);

    // Legal hold: the hold that a request sets, and the hold of the version.
    client.send(&hold("k", "ON")).expect(200);
    set_policy(
        client,
        "s3:PutObjectLegalHold",
        r#""StringEquals":{"s3:object-lock-legal-hold":"OFF"}"#,
    );
    refuses(client, &hold("k", "OFF"));
    client.send(&hold("free", "ON")).expect(200);
    let condition = r#""StringEquals":{"s3:object-lock-legal-hold":"ON"}"#;
    set_policy(client, "s3:GetObject", condition);
    refuses(client, &Request::new("GET", "/locks/k"));
    client.get("/locks/mode").expect(200);

    // A part of the lock that a request does not set is that of the version.
    let condition = r#""Null":{"s3:object-lock-mode":"false"}"#;
    set_policy(client, "s3:PutObjectLegalHold", condition);
    refuses(client, &hold("k", "OFF"));
    client.send(&hold("free", "OFF")).expect(200);
    set_policy(client, "s3:BypassGovernanceRetention", condition);
    let bypass = |request: Request| request.header("x-amz-bypass-governance-retention", "true");
    let none = Request::new("PUT", "/locks/mode?retention").body(*b"<Retention></Retention>");
    refuses(client, &bypass(none));
    client.send(&Request::new("GET", "/locks/mode?retention")).expect(200);

    gateway.check_log();
    gateway.stop();
}

#[test]
fn a_bucket_policy_with_an_unknown_condition_key_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Setup::new(folder.path(), Blocks::Folder).start();
    let client = &gateway.client;
    client.put(BUCKET, b"").expect(200);
    for key in ["aws:SourceVpc", "aws:MultiFactorAuthPresent", "s3:object-lock-colour"] {
        let condition = format!(r#""Null":{{"{key}":"false"}}"#);
        let document = denying("s3:GetObject", &condition);
        let answer = client.send(&Request::new("PUT", "/locks?policy").body(document)).expect(400);
        assert_eq!(answer.code(), "MalformedPolicy");
        assert_eq!(answer.element("Message"), "Policy has an invalid condition key");
        assert!(answer.element("Detail").contains(key), "{}", answer.text());
    }
    let answer = client.send(&Request::new("GET", "/locks?policy")).expect(404);
    assert_eq!(answer.code(), "NoSuchBucketPolicy");
    gateway.check_log();
    gateway.stop();
}
