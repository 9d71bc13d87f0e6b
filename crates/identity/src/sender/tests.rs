//! Permissions of users and anonymous clients in their own and foreign buckets, over a volume in
//! memory.

use std::sync::Arc;

use block::MemoryBlocks;
use http::HeaderMap;
use policy::PolicyKind;
use record::{
    Account, BucketConfig, BucketConfigKind, Grant, ObjectHeaders, ObjectOwnership,
    PublicAccessBlock, RetainUntil, RetentionMode, Tag, User,
};
use rules::RulesCache;
use s3::auth::{Credentials, RequestHead, SignatureRules};
use s3::operation::LockFacts;
use s3::{BucketName, ObjectKey};
use store::MemoryStore;
use time::OffsetDateTime;
use volume::{
    AccessRecords, BucketChange, FileOwner, NewBucket, NewObject, VolumeOptions, WriteCondition,
};

use super::*;
use crate::access::{MasterKey, Secret};

const LAB: AccountId = AccountId(123_456_789_012);
const LAB_ID: CanonicalId = CanonicalId([0xc1; 32]);
const MAIN_ID: CanonicalId = CanonicalId([0xaa; 32]);

fn owner(writer: Option<AccountId>) -> FileOwner {
    let (access_key, account) = ("anna".to_owned(), AccountId::MAIN);
    FileOwner { access_key, account, writer, uid: 1, gid: 1, umask: 0o022 }
}

/// The bucket `bkt` of the first account. In this account, `anna` has all permissions and `bert`
/// none. In the account `lab`, `carl` has all permissions and `dora` none.
struct World {
    volume: Arc<Volume>,
    access: Access,
    rules: RulesCache,
}

fn user(account: AccountId, access_key: &str, policies: &[&str]) -> (String, User) {
    let master = MasterKey::new([7; MasterKey::BYTES]);
    let sealed_secret = master.seal(access_key, &Secret::new("secret"), [1; 12]);
    let policies = policies.iter().map(|&name| name.to_owned()).collect();
    let user = User { uid: 1, gid: 1, policies, ..User::new(account, sealed_secret) };
    (access_key.to_owned(), user)
}

impl World {
    async fn new(ownership: ObjectOwnership) -> World {
        let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
        let volume = Volume::open(VolumeOptions::default(), store, blocks).await.unwrap();
        let root = Identity::root("root", Secret::new("a secret"));
        let access = Access::new(root, MasterKey::new([7; MasterKey::BYTES]));
        let account = |name: &str, canonical_id| Account { name: name.to_owned(), canonical_id };
        let accounts =
            vec![(AccountId::MAIN, account("main", MAIN_ID)), (LAB, account("lab", LAB_ID))];
        let users = vec![
            user(AccountId::MAIN, "anna", &["readwrite"]),
            user(AccountId::MAIN, "bert", &[]),
            user(LAB, "carl", &["readwrite"]),
            user(LAB, "dora", &[]),
        ];
        let records = AccessRecords { accounts, users, ..AccessRecords::default() };
        assert_eq!(access.replace(records), []);
        let owner = owner(None);
        let new = NewBucket { ownership, ..NewBucket::owned_by(&owner) };
        volume.create_bucket("bkt", &new).await.unwrap();
        let world = World { volume, access, rules: RulesCache::new() };
        world.put("k", None, None, &[]).await;
        world
    }

    async fn put(
        &self,
        key: &str,
        writer: Option<AccountId>,
        acl: Option<S3Acl>,
        tags: &[(String, String)],
    ) {
        let body = self.volume.writer(None, Some(0)).finish().await.unwrap();
        let headers = ObjectHeaders { acl, tags: tags.to_vec(), ..ObjectHeaders::default() };
        let (tag, sums) = (Tag::Md5([0; 16]), Vec::new());
        let new = NewObject { owner: owner(writer), headers, tag, sums, encryption: None };
        let put = self.volume.put("bkt", key.as_bytes(), body, new, WriteCondition::None);
        put.await.unwrap();
    }

    async fn policy(&self, statements: &str) {
        let text = format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#);
        let exists = |principal: &_| self.access.exists(principal);
        let kind = PolicyKind::Bucket { bucket: "bkt", exists: &exists };
        Policy::parse_new(&text, kind).expect("a policy");
        let config = BucketConfig { bytes: text.into() };
        let set = self.volume.set_bucket_config("bkt", BucketConfigKind::Policy, Some(&config));
        set.await.unwrap();
    }

    async fn acl(&self, grants: &[Grant]) {
        let config = BucketConfig::of_acl(&S3Acl { grants: grants.to_vec() });
        let set = self.volume.set_bucket_config("bkt", BucketConfigKind::Acl, Some(&config));
        set.await.unwrap();
    }

    async fn change(&self, change: BucketChange) {
        self.volume.set_bucket("bkt", change).await.unwrap();
    }

    /// Returns true if a user, or an anonymous client, has a permission for `bkt` or a key in it.
    async fn may(&self, who: Option<&str>, action: &'static str, key: Option<&str>) -> bool {
        let bucket = BucketName::parse("bkt").unwrap();
        self.has(
            who,
            &match key {
                Some(key) => {
                    Permission::on_object(action, &bucket, &ObjectKey::from_path(key).unwrap())
                }
                None => Permission::on_bucket(action, &bucket),
            },
        )
        .await
    }

    async fn has(&self, who: Option<&str>, permission: &Permission) -> bool {
        let headers = HeaderMap::new();
        let head = RequestHead {
            method: &http::Method::GET,
            path: "/",
            query: "",
            headers: &headers,
            authority: Some("localhost"),
            host_bucket: None,
        };
        let now = OffsetDateTime::UNIX_EPOCH;
        let terms = SignatureRules {
            region: "us-east-1",
            service: "s3",
            has_session: false,
            sigv2_presign: false,
            accepts_aws_chunked: false,
            now,
        };
        let verified = Credentials::Anonymous.verify(None, &head, &terms).unwrap();
        let identity =
            who.map(|who| self.access.lookup(who, OffsetDateTime::UNIX_EPOCH).expect("a user"));
        let authenticated = Authenticated { verified, identity };
        let origin = RequestOrigin { headers: &headers, client: None, now };
        let sender = Sender::new(&self.access, &self.volume, &authenticated, origin);
        let bucket = permission.resource.bucket().unwrap();
        let rules = self.rules.get(&self.volume, bucket).await.unwrap();
        sender.has_permission(permission, Some(&rules)).await.unwrap()
    }
}

const READ: &str = "s3:GetObject";
const LIST: &str = "s3:ListBucket";

#[tokio::test]
async fn user_policies_decide_within_an_account_and_grant_nothing_across_accounts() {
    let world = World::new(ObjectOwnership::BucketOwnerEnforced).await;
    assert!(world.may(Some("root"), READ, Some("k")).await);
    assert!(world.may(Some("anna"), READ, Some("k")).await);
    for sender in [Some("bert"), Some("carl"), Some("dora"), None] {
        assert!(!world.may(sender, READ, Some("k")).await, "{sender:?}");
        assert!(!world.may(sender, LIST, None).await, "{sender:?}");
    }
}

#[tokio::test]
async fn a_bucket_policy_admits_others_and_is_in_force_at_once() {
    let world = World::new(ObjectOwnership::BucketOwnerEnforced).await;
    let everybody = r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",
                        "Resource":"arn:aws:s3:::bkt/*"}"#;
    world.policy(everybody).await;
    for who in [Some("anna"), Some("bert"), Some("carl"), None] {
        assert!(world.may(who, READ, Some("k")).await, "{who:?}");
        assert!(who == Some("anna") || !world.may(who, LIST, None).await, "{who:?}");
    }
    assert!(!world.may(Some("dora"), READ, Some("k")).await, "her own account must allow it, too");
    let deny = r#"{"Effect":"Deny","Principal":{"AWS":"arn:aws:iam::000000000001:user/anna"},
                   "Action":"s3:GetObject","Resource":"arn:aws:s3:::bkt/*"}"#;
    world.policy(&format!("{everybody},{deny}")).await;
    assert!(!world.may(Some("anna"), READ, Some("k")).await);
    assert!(world.may(Some("carl"), READ, Some("k")).await);
    world.volume.set_bucket_config("bkt", BucketConfigKind::Policy, None).await.unwrap();
    assert!(!world.may(Some("carl"), READ, Some("k")).await);
}

#[tokio::test]
async fn a_public_policy_can_be_restricted_to_the_own_account() {
    let world = World::new(ObjectOwnership::BucketOwnerEnforced).await;
    let everybody = r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",
                        "Resource":"arn:aws:s3:::bkt/*"}"#;
    world.policy(everybody).await;
    let block = PublicAccessBlock { restrict_public_buckets: true, ..PublicAccessBlock::default() };
    world.change(BucketChange::PublicAccess(Some(block))).await;
    assert!(world.may(Some("bert"), READ, Some("k")).await);
    assert!(
        !world.may(Some("carl"), READ, Some("k")).await && !world.may(None, READ, Some("k")).await
    );
    world.change(BucketChange::PublicAccess(None)).await;
    assert!(world.may(None, READ, Some("k")).await);
}

fn row(grantee: Grantee, permission: record::AclRight) -> Grant {
    Grant { grantee, permission }
}

#[tokio::test]
async fn acls_have_effect_only_if_the_bucket_enables_them() {
    use record::AclRight::{Read, Write};
    for ownership in ObjectOwnership::ALL {
        let world = World::new(ownership).await;
        world.acl(&[row(Grantee::Account(LAB_ID), Read), row(Grantee::AllUsers, Write)]).await;
        let counts = ownership != ObjectOwnership::BucketOwnerEnforced;
        assert_eq!(world.may(Some("carl"), LIST, None).await, counts, "{ownership:?}");
        assert!(!world.may(Some("dora"), LIST, None).await, "her account does not let her");
        assert!(!world.may(None, LIST, None).await);
        assert_eq!(world.may(None, "s3:PutObject", Some("new")).await, counts);
        assert!(!world.may(Some("carl"), READ, Some("k")).await, "objects have lists of their own");
    }
}

#[tokio::test]
async fn an_object_acl_decides_about_reads_of_the_object() {
    use record::AclRight::{FullControl, Read};
    let world = World::new(ObjectOwnership::ObjectWriter).await;
    let acl = |grants: &[Grant]| Some(S3Acl { grants: grants.to_vec() });
    world.put("public", None, acl(&[row(Grantee::AllUsers, Read)]), &[]).await;
    world.put("signed", None, acl(&[row(Grantee::AuthenticatedUsers, Read)]), &[]).await;
    world.put("lab", None, acl(&[row(Grantee::Account(LAB_ID), FullControl)]), &[]).await;
    let may = async |who, key| world.may(who, READ, Some(key)).await;
    assert!(may(None, "public").await && may(Some("bert"), "public").await);
    assert!(!may(None, "signed").await && may(Some("carl"), "signed").await);
    assert!(may(Some("carl"), "lab").await && !may(None, "lab").await);
    assert!(world.may(Some("carl"), "s3:PutObjectAcl", Some("lab")).await);
    assert!(!world.may(Some("carl"), "s3:DeleteObject", Some("lab")).await, "the bucket decides");
    let block = PublicAccessBlock { ignore_public_acls: true, ..PublicAccessBlock::default() };
    world.change(BucketChange::PublicAccess(Some(block))).await;
    assert!(!may(None, "public").await && !may(Some("carl"), "signed").await);
    assert!(may(Some("carl"), "lab").await);
}

#[tokio::test]
async fn an_object_of_another_account_is_closed_to_the_bucket_owner() {
    use record::AclRight::Read;
    let world = World::new(ObjectOwnership::ObjectWriter).await;
    world.put("theirs", Some(LAB), None, &[]).await;
    let shared = Some(S3Acl { grants: vec![row(Grantee::Account(MAIN_ID), Read)] });
    world.put("shared", Some(LAB), shared, &[]).await;
    for who in ["root", "anna"] {
        assert!(!world.may(Some(who), READ, Some("theirs")).await, "{who}");
        assert!(world.may(Some(who), READ, Some("shared")).await, "{who}");
        assert!(world.may(Some(who), "s3:DeleteObject", Some("theirs")).await, "{who}");
    }
    assert!(world.may(Some("carl"), READ, Some("theirs")).await);
    // When ACLs are disabled, the bucket owner owns all objects.
    world.change(BucketChange::Ownership(Some(ObjectOwnership::BucketOwnerEnforced))).await;
    assert!(world.may(Some("anna"), READ, Some("theirs")).await);
    assert!(!world.may(Some("carl"), READ, Some("theirs")).await);
}

#[tokio::test]
async fn a_policy_can_depend_on_object_tags() {
    let world = World::new(ObjectOwnership::BucketOwnerEnforced).await;
    let tags = |value: &str| [("stage".to_owned(), value.to_owned())];
    world.put("ready", None, None, &tags("ready")).await;
    world.put("draft", None, None, &tags("draft")).await;
    world
        .policy(
            r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",
                "Resource":"arn:aws:s3:::bkt/*",
                "Condition":{"StringEquals":{"s3:ExistingObjectTag/stage":"ready"}}}"#,
        )
        .await;
    assert!(world.may(None, READ, Some("ready")).await);
    assert!(!world.may(None, READ, Some("draft")).await && !world.may(None, READ, Some("k")).await);
}

#[tokio::test]
async fn a_bucket_deny_applies_to_objects_of_other_accounts() {
    use record::AclRight::Read;
    let world = World::new(ObjectOwnership::ObjectWriter).await;
    let public = Some(S3Acl { grants: vec![row(Grantee::AllUsers, Read)] });
    world.put("theirs", Some(LAB), public, &[]).await;
    assert!(world.may(None, READ, Some("theirs")).await);
    let deny = |action: &str| {
        format!(
            r#"{{"Effect":"Deny","Principal":"*","Action":"{action}",
                 "Resource":"arn:aws:s3:::bkt/*"}}"#
        )
    };
    world.policy(&deny("s3:*Object*")).await;
    for who in [None, Some("carl")] {
        assert!(!world.may(who, READ, Some("theirs")).await, "{who:?}");
        assert!(!world.may(who, "s3:DeleteObjectVersion", Some("theirs")).await, "{who:?}");
    }
    // An allow of the bucket policy has no effect on an object of another account.
    let allow = r#"{"Effect":"Allow","Principal":{"AWS":"000000000001"},"Action":"s3:GetObject",
                    "Resource":"arn:aws:s3:::bkt/*"}"#;
    world.policy(allow).await;
    world.put("closed", Some(LAB), None, &[]).await;
    assert!(!world.may(Some("bert"), READ, Some("closed")).await);
}

#[tokio::test]
async fn the_bucket_owner_decides_about_replacement_and_deletion() {
    let world = World::new(ObjectOwnership::ObjectWriter).await;
    world.put("theirs", Some(LAB), None, &[]).await;
    // A policy depends on tags, so that the decision looks the object up.
    world
        .policy(
            r#"{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::bkt/*",
                "Condition":{"StringEquals":{"s3:ExistingObjectTag/never":"set"}}}"#,
        )
        .await;
    for action in
        ["s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:AbortMultipartUpload"]
    {
        assert!(world.may(Some("anna"), action, Some("theirs")).await, "{action}");
        assert!(!world.may(Some("carl"), action, Some("theirs")).await, "{action}");
    }
}

/// Returns the id by which requests name a version.
fn id_of(version: Option<volume::VersionRef>) -> s3::VersionId {
    s3::VersionId::parse(&rules::version_text(version.expect("a version"))).unwrap()
}

impl World {
    /// Enables versions, with a secret version of `k` below a plain one. Returns the ids of both.
    async fn versions(&self) -> [s3::VersionId; 2] {
        self.change(BucketChange::Versioning(record::Versioning::Enabled)).await;
        let mut ids = Vec::new();
        for value in ["secret", "plain"] {
            self.put("k", None, None, &[("class".to_owned(), value.to_owned())]).await;
            ids.push(id_of(self.volume.stat("bkt", b"k").await.unwrap().version));
        }
        ids.try_into().unwrap()
    }

    async fn may_version(&self, action: &'static str, version: &s3::VersionId) -> bool {
        let (bucket, key) = (BucketName::parse("bkt").unwrap(), ObjectKey::parse("k").unwrap());
        let permission = Permission::on_version(action, &bucket, &key, Some(version));
        self.has(Some("anna"), &permission).await
    }
}

#[tokio::test]
async fn markers_and_versions_below_are_removable_with_acls_enabled() {
    for ownership in ObjectOwnership::ALL {
        let world = World::new(ownership).await;
        let [old, new] = world.versions().await;
        let deleted = world.volume.delete("bkt", vec![(b"k".to_vec(), None)]).await.unwrap();
        let marker = id_of(deleted[0].as_ref().unwrap().marker);
        assert!(world.volume.stat("bkt", b"k").await.is_err(), "the key has a marker");
        for version in [&old, &new, &marker, &s3::VersionId::Other("none".to_owned())] {
            let may = world.may_version("s3:DeleteObjectVersion", version).await;
            assert!(may, "{ownership:?} {version:?}");
        }
        assert!(world.may(Some("anna"), "s3:DeleteObject", Some("k")).await, "{ownership:?}");
    }
}

#[tokio::test]
async fn tag_conditions_use_the_named_version() {
    let world = World::new(ObjectOwnership::BucketOwnerEnforced).await;
    let [secret, plain] = world.versions().await;
    world
        .policy(
            r#"{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::bkt/*",
                "Condition":{"StringEquals":{"s3:ExistingObjectTag/class":"secret"}}}"#,
        )
        .await;
    for action in [
        "s3:GetObjectVersion",
        "s3:PutObjectVersionTagging",
        "s3:DeleteObjectVersionTagging",
        "s3:DeleteObjectVersion",
        "s3:PutObjectRetention",
        "s3:PutObjectVersionAcl",
    ] {
        assert!(!world.may_version(action, &secret).await, "{action}");
        assert!(world.may_version(action, &plain).await, "{action}");
    }
    assert!(world.may(Some("anna"), READ, Some("k")).await, "the current version is plain");
}

#[tokio::test]
async fn lock_conditions_use_the_lock_of_the_version_if_the_action_sets_none() {
    let world = World::new(ObjectOwnership::BucketOwnerEnforced).await;
    let [kept, free] = world.versions().await;
    let version = rules::version(&kept);
    let change = volume::ObjectChange::LegalHold(true);
    world.volume.change_object("bkt", b"k", version, None, change).await.unwrap();
    world
        .policy(
            r#"{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::bkt/*",
                "Condition":{"StringEquals":{"s3:object-lock-legal-hold":"ON"}}}"#,
        )
        .await;
    let action = "s3:BypassGovernanceRetention";
    assert!(!world.may_version(action, &kept).await && world.may_version(action, &free).await);
    // For a request that sets a lock, the condition uses this lock; and that of the version for a
    // part that the request does not set, such as the hold of a request for a retention.
    let (bucket, key) = (BucketName::parse("bkt").unwrap(), ObjectKey::parse("k").unwrap());
    for (legal_hold, allowed) in [(Some(true), false), (Some(false), true), (None, false)] {
        let lock = LockFacts { legal_hold, ..LockFacts::default() };
        let sets = Permission::bypass_governance(&bucket, &key, Some(&kept), Some(lock));
        assert_eq!(world.has(Some("anna"), &sets).await, allowed, "{legal_hold:?}");
    }
}

#[tokio::test]
async fn a_bypass_without_a_new_retention_is_judged_by_the_retention_of_the_version() {
    let world = World::new(ObjectOwnership::BucketOwnerEnforced).await;
    let [kept, free] = world.versions().await;
    let until = record::Timestamp(i64::MAX / 2);
    let retention = Some(RetainUntil { mode: RetentionMode::Governance, until });
    let change = volume::ObjectChange::Retention { retention, bypasses_governance: false };
    let version = rules::version(&kept);
    world.volume.change_object("bkt", b"k", version, None, change).await.unwrap();
    let (bucket, key) = (BucketName::parse("bkt").unwrap(), ObjectKey::parse("k").unwrap());
    // The empty document `<Retention/>` sets no part of a lock.
    let empty = Some(LockFacts::default());
    for condition in [
        r#"{"Null":{"s3:object-lock-mode":"false"}}"#,
        r#"{"StringEquals":{"s3:object-lock-mode":"GOVERNANCE"}}"#,
        r#"{"NumericGreaterThan":{"s3:object-lock-remaining-retention-days":"1"}}"#,
    ] {
        world
            .policy(&format!(
                r#"{{"Effect":"Deny","Principal":"*","Action":"s3:BypassGovernanceRetention",
                     "Resource":"arn:aws:s3:::bkt/*","Condition":{condition}}}"#
            ))
            .await;
        for (version, allowed) in [(&kept, false), (&free, true)] {
            let bypass = Permission::bypass_governance(&bucket, &key, Some(version), empty);
            assert_eq!(world.has(Some("anna"), &bypass).await, allowed, "{condition}");
        }
    }
    // A new object has no part of the lock of the object that it replaces.
    let put = Permission::on_version("s3:PutObject", &bucket, &key, Some(&kept));
    let deny = r#"{"Effect":"Deny","Principal":"*","Action":"s3:PutObject",
                   "Resource":"arn:aws:s3:::bkt/*",
                   "Condition":{"Null":{"s3:object-lock-mode":"false"}}}"#;
    world.policy(deny).await;
    for (creates_object, allowed) in [(None, false), (Some(true), true)] {
        let mut put = put.clone();
        put.facts.creates_object = creates_object;
        assert_eq!(world.has(Some("anna"), &put).await, allowed, "{creates_object:?}");
    }
}
