//! Each condition key has a value in some request, or policies with the key are refused. The tests
//! cover each row of the table of keys, and each action with each key of the table and each key
//! that AWS documents for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use block::MemoryBlocks;
use http::{HeaderMap, HeaderValue, Method};
use policy::{
    Decision, KeySource, Policy, PolicyError, PolicyKind, Principal, Question, RoleSession,
};
use record::{AccountId, ObjectHeaders, ObjectLock, Tag, Timestamp};
use s3::auth::{Credentials, RequestHead, SignatureRules};
use s3::operation::{Demand, RequestFacts, Support};
use s3::request::{DeleteObjects, Fields, Query};
use s3::{BucketName, Operation, S3Resource, Tagged};
use store::MemoryStore;
use volume::{FileOwner, NewBucket, NewObject, Volume, VolumeOptions, WriteCondition};

use super::*;
use crate::access::Secret;
use crate::origin::ClientAddress;

/// Condition keys that AWS documents for all S3 actions ("Actions, resources, and condition keys
/// for Amazon S3").
const ALWAYS: &[&str] = &[
    "s3:ResourceAccount",
    "s3:TlsVersion",
    "s3:authType",
    "s3:signatureAge",
    "s3:signatureversion",
    "s3:x-amz-content-sha256",
];

/// Condition keys that AWS documents for all actions on objects.
const OF_OBJECTS: &[&str] = &[
    "s3:AccessGrantsInstanceArn",
    "s3:AccessPointNetworkOrigin",
    "s3:DataAccessPointAccount",
    "s3:DataAccessPointArn",
];

const GRANTS: &[&str] = &[
    "s3:x-amz-acl",
    "s3:x-amz-grant-full-control",
    "s3:x-amz-grant-read",
    "s3:x-amz-grant-read-acp",
    "s3:x-amz-grant-write",
    "s3:x-amz-grant-write-acp",
];

const OF_NEW_OBJECTS: &[&str] = &[
    "s3:RequestObjectTag/class",
    "s3:RequestObjectTagKeys",
    "s3:object-lock-legal-hold",
    "s3:object-lock-mode",
    "s3:object-lock-remaining-retention-days",
    "s3:object-lock-retain-until-date",
    "s3:x-amz-server-side-encryption",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
    "s3:x-amz-server-side-encryption-customer-algorithm",
    "s3:x-amz-storage-class",
    "s3:x-amz-website-redirect-location",
];

/// Returns the further condition keys that AWS documents for an action.
fn documented(action: &str) -> Vec<&'static str> {
    let mut keys = ALWAYS.to_vec();
    if action.contains("Object") && !action.contains("Bucket") || action.contains("Multipart") {
        keys.extend(OF_OBJECTS);
    }
    keys.extend::<&[&str]>(match action {
        "s3:PutObject" => &["s3:if-match", "s3:if-none-match", "s3:ObjectCreationOperation"],
        "s3:DeleteObject" => &["s3:if-match"],
        "s3:GetObject" | "s3:GetObjectAcl" | "s3:GetObjectTagging" | "s3:DeleteObjectTagging" => {
            &["s3:ExistingObjectTag/class"]
        }
        "s3:PutObjectAcl" => &["s3:ExistingObjectTag/class", "s3:x-amz-storage-class"],
        "s3:PutObjectTagging" => {
            &["s3:ExistingObjectTag/class", "s3:RequestObjectTag/class", "s3:RequestObjectTagKeys"]
        }
        "s3:GetObjectVersion"
        | "s3:GetObjectVersionAcl"
        | "s3:GetObjectVersionTagging"
        | "s3:DeleteObjectVersionTagging"
        | "s3:PutObjectVersionAcl" => &["s3:ExistingObjectTag/class", "s3:VersionId"],
        "s3:DeleteObjectVersion" => &["s3:if-match", "s3:VersionId"],
        "s3:PutObjectVersionTagging" => &[
            "s3:ExistingObjectTag/class",
            "s3:RequestObjectTag/class",
            "s3:RequestObjectTagKeys",
            "s3:VersionId",
        ],
        "s3:PutObjectRetention" => &[
            "s3:object-lock-mode",
            "s3:object-lock-remaining-retention-days",
            "s3:object-lock-retain-until-date",
        ],
        "s3:PutObjectLegalHold" => &["s3:object-lock-legal-hold"],
        "s3:CreateBucket" => &["s3:LocationConstraint", "s3:x-amz-object-ownership"],
        "s3:ListBucket" | "s3:ListBucketVersions" => &["s3:prefix", "s3:delimiter", "s3:max-keys"],
        _ => &[],
    });
    match action {
        "s3:PutObject" | "s3:BypassGovernanceRetention" => {
            keys.extend(GRANTS);
            keys.extend(OF_NEW_OBJECTS);
            keys.extend(["s3:x-amz-copy-source", "s3:x-amz-metadata-directive"]);
        }
        "s3:PutBucketAcl" | "s3:CreateBucket" | "s3:PutObjectAcl" | "s3:PutObjectVersionAcl" => {
            keys.extend(GRANTS);
        }
        _ => {}
    }
    keys
}

/// Headers that one request may have together, and a second set that excludes the first.
const HEADERS: &[&[(&str, &str)]] = &[
    &[
        ("x-amz-acl", "public-read"),
        ("if-match", "*"),
        ("x-amz-copy-source", "/src/from?versionId=null"),
        ("x-amz-rename-source", "/from"),
        ("x-amz-rename-source-if-match", "*"),
        ("x-amz-metadata-directive", "REPLACE"),
        ("x-amz-tagging-directive", "REPLACE"),
        ("x-amz-tagging", "class=secret"),
        ("x-amz-storage-class", "STANDARD"),
        ("x-amz-server-side-encryption", "AES256"),
        ("x-amz-server-side-encryption-aws-kms-key-id", "k"),
        ("x-amz-object-lock-mode", "GOVERNANCE"),
        ("x-amz-object-lock-retain-until-date", "2030-01-01T00:00:00Z"),
        ("x-amz-object-lock-legal-hold", "ON"),
        ("x-amz-object-ownership", "ObjectWriter"),
    ],
    &[
        ("if-none-match", "*"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-copy-source", "/src/from"),
        ("x-amz-rename-source", "/from"),
        ("x-amz-grant-full-control", "id=a"),
        ("x-amz-grant-read", "id=a"),
        ("x-amz-grant-read-acp", "id=a"),
        ("x-amz-grant-write", "id=a"),
        ("x-amz-grant-write-acp", "id=a"),
    ],
];

/// Returns all permissions for which an operation may ask, with each value that a body may have.
fn permissions(operation: Operation) -> Vec<Permission> {
    let line = operation.request_line();
    let target = line.split([' ', '?']).nth(1).unwrap();
    let resource = S3Resource::parse(None, target, &[]).unwrap();
    let mut all = Vec::new();
    for headers in HEADERS {
        let pairs = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        let headers: HeaderMap = pairs.collect();
        for query in ["prefix=a&delimiter=/&max-keys=7", "versionId=null"] {
            let query = Query::parse(query).unwrap();
            let demand = operation.demand(&resource, &query, Fields::new(&headers, &[])).unwrap();
            match demand {
                Demand::Nothing => {}
                Demand::All(permissions) => all.extend(permissions),
                Demand::WithUpload(permissions) => {
                    all.extend(permissions.into_iter().map(|mut permission| {
                        if permission.facts.creates_object.is_some() {
                            let fields = Fields::new(&headers, &[]);
                            let asked = RequestFacts::upload_headers(fields);
                            permission.facts.continue_upload(&asked);
                        }
                        permission
                    }));
                }
                Demand::WithBody(permissions) => {
                    all.extend(permissions.into_iter().map(|one| with_body(operation, one)));
                }
                Demand::FromBody => all.extend(of_deletions()),
            }
        }
    }
    all
}

/// Adds the values of the body of an operation to a permission.
fn with_body(operation: Operation, mut permission: Permission) -> Permission {
    let facts = &mut permission.facts;
    match operation {
        Operation::PutObjectTagging => {
            let tags = vec![("class".to_owned(), "secret".to_owned())];
            facts.tags = TagSet::new(tags, Tagged::Object).ok();
        }
        Operation::CreateBucket => facts.location = Some("us-east-1".to_owned()),
        Operation::PutBucketOwnershipControls => facts.set_ownership("ObjectWriter"),
        Operation::PutObjectRetention => {
            let (mode, until) = (Some(LockMode::Compliance), Some(OffsetDateTime::UNIX_EPOCH));
            facts.lock = Some(LockFacts { mode, until, legal_hold: None });
        }
        Operation::PutObjectLegalHold => {
            facts.lock = Some(LockFacts { legal_hold: Some(false), ..LockFacts::default() });
        }
        other => panic!("{other:?} has no values in its body"),
    }
    permission
}

/// Returns the permissions of `DeleteObjects`, with the one for its bypass header.
fn of_deletions() -> Vec<Permission> {
    let body = b"<Delete><Object><Key>k</Key><ETag>*</ETag></Object>\
                 <Object><Key>k</Key><VersionId>null</VersionId><ETag>*</ETag></Object></Delete>";
    let bucket = BucketName::parse("bucket").unwrap();
    let deletions = DeleteObjects::parse(body).unwrap().deletions;
    let mut all: Vec<Permission> =
        deletions.iter().flat_map(|one| Permission::for_deletion(&bucket, one)).collect();
    let (key, version) = (&deletions[1].key, deletions[1].version.as_ref());
    all.push(Permission::bypass_governance(&bucket, key, version, None));
    all
}

/// Returns a version with a tag and a lock.
async fn tagged_and_locked(volume: &Volume) -> Object {
    let owner = FileOwner {
        access_key: "anna".to_owned(),
        account: AccountId::MAIN,
        writer: None,
        uid: 1,
        gid: 1,
        umask: 0,
    };
    let new = NewBucket { versioning: record::Versioning::Enabled, ..NewBucket::owned_by(&owner) };
    volume.create_bucket("bucket", &new).await.unwrap();
    let lock = ObjectLock {
        retention: Some(RetainUntil { mode: RetentionMode::Governance, until: Timestamp(1) }),
        legal_hold: Some(true),
    };
    let tags = vec![("class".to_owned(), "secret".to_owned())];
    let headers = ObjectHeaders { lock, tags, ..ObjectHeaders::default() };
    let (tag, sums) = (Tag::Md5([0; 16]), Vec::new());
    let body = volume.writer(None, Some(0)).finish().await.unwrap();
    let new = NewObject { owner, headers, tag, sums, encryption: None };
    volume.put("bucket", b"k", body, new, WriteCondition::None).await.unwrap();
    volume.stat("bucket", b"k").await.unwrap()
}

/// Returns true if a policy of a bucket or of a user may deny an action under a condition on a key.
fn is_accepted(action: &str, key: &str) -> bool {
    let parses = |principal: &str, kind| {
        let text = format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Deny",{principal}
                "Action":"{action}","Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"],
                "Condition":{{"Null":{{"{key}":"false"}}}}}}]}}"#
        );
        Policy::parse_new(&text, kind).is_ok()
    };
    let of_bucket = PolicyKind::Bucket { bucket: "bucket", exists: &|_| true };
    let by_user = parses("", PolicyKind::User);
    // A bucket policy also refuses actions that concern no bucket, and `Null` for an address.
    assert!(by_user || !parses(r#""Principal":"*","#, of_bucket), "{action} {key}");
    by_user
}

#[tokio::test]
async fn every_key_has_a_value_for_an_action_or_is_refused() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let volume = Volume::open(VolumeOptions::default(), store, blocks).await.unwrap();
    let object = tagged_and_locked(&volume).await;
    let (headers, now) = (HeaderMap::new(), OffsetDateTime::UNIX_EPOCH);
    let (verified, resolved) = (anonymous(now), ResolvedPatterns::default());

    let served = |one: &&Operation| one.support() == Support::Served;
    let all: Vec<Permission> =
        Operation::ALL.iter().filter(served).flat_map(|&one| permissions(one)).collect();
    let actions: BTreeSet<&str> = all.iter().map(|permission| permission.action).collect();
    assert!(actions.len() > 50, "{actions:?}");
    let (mut with_value, mut refused) = (0, 0);
    for action in actions {
        let with_tags = ["s3:ExistingObjectTag/class", "s3:RequestObjectTag/class"];
        let names = ConditionKey::NAMED.iter().map(|(name, _)| *name).chain(with_tags);
        for name in names.chain(documented(action)) {
            if !is_accepted(action, name) {
                refused += 1;
                continue;
            }
            let key = ConditionKey::parse(name).expect("an accepted key");
            // An anonymous sender has no signature. The test of all rows covers the keys of
            // senders and of connections, whose values do not depend on the action.
            if matches!(
                key.source(),
                KeySource::Sender
                    | KeySource::Principal(_)
                    | KeySource::Service
                    | KeySource::Transport(_)
            ) {
                continue;
            }
            let has_value = |permission: &&Permission| {
                let question = PermissionQuestion {
                    identity: None,
                    verified: &verified,
                    origin: RequestOrigin { headers: &headers, client: None, now },
                    resolved: &resolved,
                    permission,
                    object: Some(&object),
                };
                question.values(&key) != Values::Absent
            };
            let found = all.iter().filter(|one| one.action == action).find(has_value);
            assert!(found.is_some(), "{name} never has a value for {action}");
            with_value += 1;
        }
    }
    assert!(with_value > 100 && refused > 100, "{with_value} have a value, {refused} are refused");
}

fn anonymous(now: OffsetDateTime) -> s3::auth::Verified {
    let headers = HeaderMap::new();
    let head = RequestHead {
        method: &Method::GET,
        path: "/",
        query: "",
        headers: &headers,
        authority: Some("localhost"),
        host_bucket: None,
    };
    let terms = SignatureRules {
        region: "us-east-1",
        service: "s3",
        has_session: false,
        sigv2_presign: false,
        accepts_aws_chunked: false,
        now,
    };
    Credentials::Anonymous.verify(None, &head, &terms).unwrap()
}

#[test]
fn remaining_retention_days_are_rounded_up() {
    let now = OffsetDateTime::UNIX_EPOCH;
    let day = time::Duration::DAY;
    for (rest, days) in [
        (day * 10, 10),
        (day * 10 + time::Duration::NANOSECOND, 11),
        (day * 10 - time::Duration::SECOND, 10),
        (time::Duration::MINUTE, 1),
        (time::Duration::ZERO, 0),
        (-day, 0),
    ] {
        assert_eq!(remaining_days(now + rest, now), days, "{rest}");
    }
}

/// The request line of each signed request in these tests.
const SIGNED: (&str, &str) = ("GET", "/bucket/k");

/// Returns a request of `anna` with a SigV4 signature in a header.
fn signed(now: OffsetDateTime) -> Verified {
    let date = sigv4::format_timestamp(now);
    let scope = sigv4::CredentialScope::new(&date[..8], "us-east-1", "s3");
    let mut canonical = sigv4::CanonicalRequest::builder(SIGNED.0, SIGNED.1, "");
    canonical.header("host", b"localhost");
    canonical.header("x-amz-content-sha256", sigv4::EMPTY_SHA256.as_bytes());
    canonical.header("x-amz-date", date.as_bytes());
    let canonical = canonical.finish(sigv4::EMPTY_SHA256);
    let key = sigv4::SigningKey::derive("secret", &scope);
    let signature = key.sign(&sigv4::string_to_sign(&date, &scope, &canonical)).to_hex();
    let proof = sigv4::authorization("anna", &scope, canonical.signed_headers(), &signature);
    let headers = [
        ("host", "localhost"),
        ("x-amz-content-sha256", sigv4::EMPTY_SHA256),
        ("x-amz-date", &date),
        ("authorization", &proof),
    ];
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()))
        .collect();
    let head = RequestHead {
        method: &Method::GET,
        path: SIGNED.1,
        query: "",
        headers: &headers,
        authority: Some("localhost"),
        host_bucket: None,
    };
    let terms = SignatureRules {
        region: "us-east-1",
        service: "s3",
        has_session: false,
        sigv2_presign: false,
        accepts_aws_chunked: false,
        now,
    };
    Credentials::parse(&head).unwrap().verify(Some("secret"), &head, &terms).unwrap()
}

/// Returns a user, and a session of a web identity.
fn senders(now: OffsetDateTime) -> [(Identity, Principal); 2] {
    let user = Identity { root: false, ..Identity::root("anna", Secret::new("secret")) };
    let web = WebIdentity {
        role: "staff".to_owned(),
        account: AccountId::MAIN.to_string(),
        issuer: "https://idp.example.com".to_owned(),
        audience: "ashlar".to_owned(),
        subject: "anna".to_owned(),
        required: Vec::new(),
        policy_claim: None,
        policies: Vec::new(),
        claims: Vec::new(),
    };
    let session = Session {
        role: "staff".to_owned(),
        name: "nightly".to_owned(),
        policy: None,
        began: now,
        ends: None,
        proof: None,
        web: Some(web),
        of_token: false,
    };
    let principal = |session| Principal::User {
        account: AccountId::MAIN.to_string(),
        canonical_id: "a".repeat(64),
        name: Some("anna".to_owned()),
        is_root: false,
        session,
    };
    let role = RoleSession { role: "staff".to_owned(), name: "nightly".to_owned() };
    let of_session = Identity { session: Some(session), ..user.clone() };
    [(user, principal(None)), (of_session, principal(Some(role)))]
}

#[test]
fn sessions_of_a_web_identity_are_one_person() {
    let [(user, _), (session, _)] = senders(OffsetDateTime::UNIX_EPOCH);
    let again = Identity { access_key: "ASIAANOTHER".to_owned(), ..session.clone() };
    assert_eq!(user.person(), "anna");
    assert_eq!(session.person(), "https://idp.example.com anna");
    assert_eq!(again.person(), session.person());
}

/// Parses a user policy that denies each request in which the key has a value.
fn deny_with(name: &str) -> Result<Policy, PolicyError> {
    let text = format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Deny","Action":"s3:*",
            "Resource":"*","Condition":{{"Null":{{"{name}":"false"}}}}}}]}}"#
    );
    Policy::parse_new(&text, PolicyKind::User)
}

#[tokio::test]
async fn each_row_of_the_table_of_keys_has_a_value_or_is_refused() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let volume = Volume::open(VolumeOptions::default(), store, blocks).await.unwrap();
    let object = tagged_and_locked(&volume).await;
    let now = OffsetDateTime::UNIX_EPOCH;
    let (verified, senders) = (signed(now), senders(now));
    let headers = [("referer", "http://example.com"), ("user-agent", "a test")];
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
        .collect();
    let client =
        ClientAddress { address: [192, 0, 2, 1].into(), tls: Some(Some("1.3")), is_local: false };

    let served = |one: &&Operation| one.support() == Support::Served;
    let all: Vec<Permission> =
        Operation::ALL.iter().filter(served).flat_map(|&one| permissions(one)).collect();
    let with_names = ["s3:ExistingObjectTag/class", "s3:RequestObjectTag/class", "jwt:sub"];
    let with_names = with_names.map(|name| (name, ConditionKey::parse(name).unwrap()));
    let mut denied = 0;
    for (name, key) in ConditionKey::NAMED.iter().chain(&with_names) {
        let policy = match deny_with(name) {
            Err(error) => {
                assert_eq!(key.source(), KeySource::Unsupported, "{error}");
                assert!(error.detail().is_some_and(|why| why.contains(name)), "{error}");
                continue;
            }
            Ok(policy) => policy,
        };
        // The tests of `log_delivery` have the senders with a value.
        if key.source() == KeySource::Service {
            continue;
        }
        let mut questions = senders
            .iter()
            .flat_map(|sender| all.iter().map(move |permission| (sender, permission)));
        let is_denied = questions.any(|((identity, principal), permission)| {
            // Resolved patterns must not be reused for the next question, because its keys differ.
            let resolved = ResolvedPatterns::default();
            let facts = PermissionQuestion {
                identity: Some(identity),
                verified: &verified,
                origin: RequestOrigin { headers: &headers, client: Some(client), now },
                resolved: &resolved,
                permission,
                object: Some(&object),
            };
            let question = Question {
                principal,
                action: permission.action,
                resource: &permission.resource_name(),
                conditions: &facts,
            };
            policy.decide(&question) == Decision::Denied
        });
        assert!(is_denied, "{name} never has a value, so a policy that names it must be refused");
        denied += 1;
    }
    assert!(denied > 40, "{denied}");
}
