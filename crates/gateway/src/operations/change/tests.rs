//! Objects that another gateway replaces or changes between a permission and the change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use base64::prelude::{BASE64_STANDARD, Engine};
use block::MemoryBlocks;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use md5::{Digest, Md5};
use record::{
    AccountId, BucketConfig, BucketConfigKind, ObjectHeaders, RetainUntil, RetentionMode, Tag,
    Timestamp, Versioning,
};
use store::{
    Changes, CounterPage, Durability, Limits, MemoryStore, MetaStore, Page, Plan, Position, Read,
    ReadResult, Snapshot, Space, StoreError, Verdict,
};
use volume::{
    FileOwner, NewBucket, NewObject, ObjectChange, Volume, VolumeOptions, WriteCondition,
};

use crate::access::{Access, Identity, MasterKey, Secret};
use crate::http::{HttpBody, Served};
use crate::{Gateway, Settings};

/// How another gateway changes the object.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    /// It replaces the object by one with these tags.
    Replaces(&'static str),
    /// It gives the object these tags.
    Retags(&'static str),
}

/// A store that lets another gateway change the object before the next commit. Counts the changes.
#[derive(Debug)]
struct RacingStore {
    inner: Arc<MemoryStore>,
    other: Arc<Volume>,
    meanwhile: Meanwhile,
    is_armed: AtomicBool,
    changes: AtomicU64,
}

impl RacingStore {
    async fn race(&self) {
        match self.meanwhile {
            Meanwhile::Replaces(team) => put(&self.other, team).await,
            Meanwhile::Retags(team) => {
                let tags = tags(team);
                let change = ObjectChange::Tags(&tags);
                self.other.change_object("bkt", b"k", None, None, change).await.unwrap();
            }
        }
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl MetaStore for RacingStore {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn shortage(&self) -> Option<String> {
        self.inner.shortage()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        self.inner.read(reads).await
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        if self.is_armed.swap(false, Ordering::SeqCst) {
            self.race().await;
        }
        self.inner.commit(plans).await
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        self.inner.walk(space, resume, limit).await
    }

    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        self.inner.walk_counters(space, resume, limit).await
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        self.inner.changes(since).await
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.inner.snapshot().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

fn tags(team: &str) -> Vec<(String, String)> {
    vec![("team".to_owned(), team.to_owned())]
}

fn owner() -> FileOwner {
    let (access_key, account) = ("anna".to_owned(), AccountId::MAIN);
    FileOwner { access_key, account, writer: None, uid: 1, gid: 1, umask: 0o022 }
}

async fn put(volume: &Volume, team: &str) {
    let body = volume.writer(Some(0)).finish().await.unwrap();
    let headers = ObjectHeaders { tags: tags(team), ..ObjectHeaders::default() };
    let new = NewObject { owner: owner(), headers, tag: Tag::Md5([0; 16]), sums: Vec::new() };
    volume.put("bkt", b"k", body, new, WriteCondition::None).await.unwrap();
}

/// A bucket with locks whose object `k` is of team `a`. Clients that do not sign may change what S3
/// keeps with the objects of that team. Another gateway changes the object at a commit.
struct World {
    gateway: Arc<Gateway>,
    store: Arc<RacingStore>,
}

impl World {
    async fn new(meanwhile: Meanwhile) -> World {
        let (inner, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
        let options = VolumeOptions::default;
        let other = Volume::open(options(), Arc::clone(&inner) as _, Arc::clone(&blocks) as _);
        let other = other.await.unwrap();
        let owner = owner();
        let new = NewBucket { versioning: Versioning::Enabled, ..NewBucket::of(&owner) };
        other.create_bucket("bkt", &new).await.unwrap();
        let lock = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>\
                    </ObjectLockConfiguration>";
        let lock = BucketConfig { bytes: lock.into() };
        other.set_object_lock("bkt", &lock, None).await.unwrap();
        let policy = r#"{"Version":"2012-10-17","Statement":[{
            "Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::bkt/*",
            "Condition":{"StringEquals":{"s3:ExistingObjectTag/team":"a"}}}]}"#;
        let policy = BucketConfig { bytes: policy.into() };
        let set = other.set_bucket_config("bkt", BucketConfigKind::Policy, Some(&policy));
        set.await.unwrap();
        put(&other, "a").await;
        let (is_armed, changes) = (AtomicBool::new(false), AtomicU64::new(0));
        let store = Arc::new(RacingStore { inner, other, meanwhile, is_armed, changes });
        let volume = Volume::open(options(), Arc::clone(&store) as _, blocks).await.unwrap();
        let root = Identity::root("root", Secret::new("a secret"));
        let access = Access::new(root, MasterKey::new([7; MasterKey::BYTES]));
        let gateway = Gateway::new(volume, Arc::new(access), Settings::default());
        World { gateway, store }
    }

    /// Sends a change during which the other gateway changes the object, once. Returns the status and
    /// the error code.
    async fn send(&self, (method, query, body): Sent) -> (u16, Option<&'static str>) {
        let sum = BASE64_STANDARD.encode(Md5::digest(body));
        let content = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
        let mut request: Request<HttpBody> = Request::new(content);
        *request.method_mut() = method.parse().unwrap();
        *request.uri_mut() = format!("/bkt/k?{query}").parse().unwrap();
        for (name, value) in [
            ("host", "127.0.0.1"),
            ("content-md5", &sum),
            ("content-length", &body.len().to_string()),
        ] {
            request.headers_mut().insert(
                http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        self.store.is_armed.store(true, Ordering::SeqCst);
        let (head, _) = self.gateway.handle(request).await.into_parts();
        (head.status.as_u16(), head.extensions.get::<Served>().unwrap().code)
    }

    /// Returns what S3 keeps with the object now.
    async fn kept(&self) -> ObjectHeaders {
        self.store.other.stat("bkt", b"k").await.unwrap().file().object.clone()
    }

    fn changes(&self) -> u64 {
        self.store.changes.load(Ordering::SeqCst)
    }
}

type Sent = (&'static str, &'static str, &'static str);

const PUT_TAGS: Sent = (
    "PUT",
    "tagging",
    "<Tagging><TagSet><Tag><Key>team</Key><Value>new</Value></Tag></TagSet></Tagging>",
);
const DELETE_TAGS: Sent = ("DELETE", "tagging", "");
const HOLD: Sent = ("PUT", "legal-hold", "<LegalHold><Status>ON</Status></LegalHold>");
const RETAIN: Sent = (
    "PUT",
    "retention",
    "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2100-01-01T00:00:00Z</RetainUntilDate>\
     </Retention>",
);

#[tokio::test(start_paused = true)]
async fn a_change_never_reaches_an_object_that_its_sender_may_not_change() {
    for sent in [PUT_TAGS, DELETE_TAGS, HOLD, RETAIN] {
        for meanwhile in [Meanwhile::Replaces("b"), Meanwhile::Retags("b")] {
            let world = World::new(meanwhile).await;
            let answer = world.send(sent).await;
            assert_eq!(world.changes(), 1, "the object changed meanwhile: {sent:?}");
            assert_eq!(answer, (403, Some("AccessDenied")), "{sent:?}, {meanwhile:?}");
            let untouched = ObjectHeaders { tags: tags("b"), ..ObjectHeaders::default() };
            assert_eq!(world.kept().await, untouched, "{sent:?}, {meanwhile:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_reaches_the_new_object_if_its_sender_may_change_that_too() {
    let lock = |world: ObjectHeaders| world.lock;
    for sent in [PUT_TAGS, DELETE_TAGS, HOLD, RETAIN] {
        let world = World::new(Meanwhile::Replaces("a")).await;
        let (status, code) = world.send(sent).await;
        assert_eq!(world.changes(), 1, "the object changed meanwhile: {sent:?}");
        assert!(matches!(status, 200 | 204), "{sent:?}: {status}, {code:?}");
        let kept = world.kept().await;
        match sent {
            PUT_TAGS => assert_eq!(kept.tags, tags("new")),
            DELETE_TAGS => assert_eq!(kept.tags, []),
            HOLD => assert_eq!(lock(kept).legal_hold, Some(true)),
            _ => {
                let until = Timestamp(4_102_444_800_000_000_000);
                let wanted = RetainUntil { mode: RetentionMode::Governance, until };
                assert_eq!(lock(kept).retention, Some(wanted));
            }
        }
    }
}
