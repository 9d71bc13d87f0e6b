//! A test fixture for changes, deletes and renames: a gateway with a rival gateway, which replaces
//! or changes the object between the check of permissions and the commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use base64::prelude::{BASE64_STANDARD, Engine};
use block::MemoryBlocks;
use bytes::Bytes;
use faulty::{Faulty, Interruption};
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use identity::{Access, Identity, MasterKey, Secret};
use md5::{Digest, Md5};
use record::{
    AccountId, BucketConfig, BucketConfigKind, ObjectHeaders, RetainUntil, RetentionMode, Tag,
    Timestamp, Versioning,
};
use volume::{
    BucketStat, FileOwner, NewBucket, NewObject, Object, ObjectChange, VersionRef, Volume,
    VolumeOptions, WriteCondition,
};

use crate::http::{BoxError, HttpBody, Served};
use crate::{Gateway, Settings};

/// The change that the rival gateway makes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meanwhile {
    /// It replaces the object by one with the tag `team` of this value.
    Replaces(&'static str),
    /// It sets the tag `team` of the object to this value.
    Retags(&'static str),
    /// It replaces the bucket by an empty one without a policy.
    ReplacesBucket,
}

/// A second gateway that changes the object between the check of permissions and the commit of the
/// tested one. Counts its changes.
#[derive(Debug)]
struct Rival {
    volume: Arc<Volume>,
    meanwhile: Meanwhile,
    changes: AtomicU64,
}

#[async_trait]
impl Interruption for Rival {
    async fn act(&self) {
        match self.meanwhile {
            Meanwhile::Replaces(team) => {
                put(&self.volume, team, 1).await;
            }
            Meanwhile::Retags(team) => {
                let tags = tags(team);
                let change = ObjectChange::Tags(&tags);
                self.volume.change_object("bkt", b"k", None, None, change).await.unwrap();
            }
            Meanwhile::ReplacesBucket => {
                empty(&self.volume).await;
                self.volume.delete_bucket("bkt").await.unwrap();
                new_bucket(&self.volume, "bkt").await;
            }
        }
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

pub(super) fn tags(team: &str) -> Vec<(String, String)> {
    vec![("team".to_owned(), team.to_owned())]
}

fn owner() -> FileOwner {
    let (access_key, account) = ("anna".to_owned(), AccountId::MAIN);
    FileOwner { access_key, account, writer: None, uid: 1, gid: 1, umask: 0o022 }
}

/// Puts the object `k` with the tag `team`. `mark` is the value of each byte of the object's entity
/// tag. Returns the version, if the bucket keeps versions.
async fn put(volume: &Volume, team: &str, mark: u8) -> Option<VersionRef> {
    let body = volume.writer(None, Some(0)).finish().await.unwrap();
    let headers = ObjectHeaders { tags: tags(team), ..ObjectHeaders::default() };
    let new = NewObject {
        owner: owner(),
        headers,
        tag: Tag::Md5([mark; 16]),
        sums: Vec::new(),
        encryption: None,
    };
    volume.put("bkt", b"k", body, new, WriteCondition::None).await.unwrap().version
}

/// Creates a bucket, as [`Meanwhile::ReplacesBucket`] does.
async fn new_bucket(volume: &Volume, name: &str) -> BucketStat {
    volume.create_bucket(name, &NewBucket::owned_by(&owner())).await.unwrap();
    volume.bucket(name).await.unwrap()
}

/// Deletes the object `k`, if it exists.
async fn empty(volume: &Volume) {
    volume.delete("bkt", vec![(b"k".to_vec(), None)]).await.unwrap();
}

/// A bucket with the object `k` of team `a`. Anonymous clients may change the bucket, and change
/// and delete all objects except those of team `b`. The rival gateway changes the object or the
/// bucket at a commit.
pub(super) struct World {
    gateway: Arc<Gateway>,
    store: Arc<Faulty>,
    rival: Arc<Rival>,
    /// The version of the object, if the bucket keeps versions.
    pub(super) version: Option<VersionRef>,
}

impl World {
    /// Creates the fixture. A bucket with versions has object lock, too.
    pub(super) async fn new(meanwhile: Meanwhile, versioning: Versioning) -> World {
        let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
        let options = VolumeOptions::default;
        let other = Volume::open(options(), Arc::clone(&store) as _, Arc::clone(&blocks) as _);
        let other = other.await.unwrap();
        let owner = owner();
        let new = NewBucket { versioning, ..NewBucket::owned_by(&owner) };
        other.create_bucket("bkt", &new).await.unwrap();
        if versioning == Versioning::Enabled {
            let lock = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>\
                        </ObjectLockConfiguration>";
            let lock = BucketConfig { bytes: lock.into() };
            other.set_object_lock("bkt", &lock, None).await.unwrap();
        }
        let policy = r#"{"Version":"2012-10-17","Statement":[{
            "Effect":"Allow","Principal":"*","Action":"s3:*",
            "Resource":["arn:aws:s3:::bkt","arn:aws:s3:::bkt/*"]},{
            "Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::bkt/*",
            "Condition":{"StringEquals":{"s3:ExistingObjectTag/team":"b"}}}]}"#;
        let policy = BucketConfig { bytes: policy.into() };
        let set = other.set_bucket_config("bkt", BucketConfigKind::Policy, Some(&policy));
        set.await.unwrap();
        let version = put(&other, "a", 0).await;
        let rival = Arc::new(Rival { volume: other, meanwhile, changes: AtomicU64::new(0) });
        let volume = Volume::open(options(), Arc::clone(&store) as _, blocks).await.unwrap();
        let root = Identity::root("root", Secret::new("a secret"));
        let access = Access::new(root, MasterKey::new([7; MasterKey::BYTES]));
        let gateway = Gateway::new(volume, Arc::new(access), Settings::default());
        World { gateway, store, rival, version }
    }

    /// Locks the object in governance mode.
    pub(super) async fn retain(&self) {
        let until = Timestamp(4_102_444_800_000_000_000);
        let retention = Some(RetainUntil { mode: RetentionMode::Governance, until });
        let change = ObjectChange::Retention { retention, bypasses_governance: false };
        self.rival.volume.change_object("bkt", b"k", None, None, change).await.unwrap();
    }

    /// Sends a request, during whose commit the rival changes the object once. Returns the status,
    /// the error code and the body.
    pub(super) async fn send(
        &self,
        sent: (&str, &str, &str),
    ) -> (u16, Option<&'static str>, String) {
        let body = Full::new(Bytes::copy_from_slice(sent.2.as_bytes()));
        self.arm();
        self.send_body(sent, body.map_err(|never| match never {}).boxed_unsync(), &[]).await
    }

    /// Sends a request whose body arrives after the rival has changed the object.
    pub(super) async fn send_slowly(
        &self,
        sent: (&str, &str, &str),
    ) -> (u16, Option<&'static str>, String) {
        let (rival, bytes) = (Arc::clone(&self.rival), Bytes::copy_from_slice(sent.2.as_bytes()));
        let body = futures::stream::once(async move {
            rival.act().await;
            Ok::<_, BoxError>(Frame::data(bytes))
        });
        self.send_body(sent, StreamBody::new(body).boxed_unsync(), &[]).await
    }

    /// As [`World::send`], with a header.
    pub(super) async fn send_with(
        &self,
        sent: (&str, &str, &str),
        header: (&'static str, &str),
    ) -> (u16, Option<&'static str>, String) {
        let body = Full::new(Bytes::new()).map_err(|never| match never {}).boxed_unsync();
        self.arm();
        self.send_body(sent, body, &[header]).await
    }

    /// Makes the rival gateway change the object at the next commit of the tested gateway.
    fn arm(&self) {
        *self.store.interruption.lock().unwrap() = Some(Arc::clone(&self.rival) as _);
    }

    async fn send_body(
        &self,
        (method, target, body): (&str, &str, &str),
        content: HttpBody,
        headers: &[(&str, &str)],
    ) -> (u16, Option<&'static str>, String) {
        let sum = BASE64_STANDARD.encode(Md5::digest(body));
        let mut request: Request<HttpBody> = Request::new(content);
        *request.method_mut() = method.parse().unwrap();
        *request.uri_mut() = target.parse().unwrap();
        for (name, value) in [
            ("host", "127.0.0.1"),
            ("content-md5", &sum),
            ("content-length", &body.len().to_string()),
            ("x-amz-bypass-governance-retention", self.bypasses()),
        ]
        .iter()
        .chain(headers)
        {
            request.headers_mut().insert(
                http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        let (head, body) = self.gateway.handle(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let code = head.extensions.get::<Served>().unwrap().code;
        (head.status.as_u16(), code, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Returns the value of the header that bypasses a retention. A bucket without locks refuses
    /// `true`.
    fn bypasses(&self) -> &'static str {
        if self.version.is_some() { "true" } else { "false" }
    }

    /// Returns the headers, tags and lock of the current object.
    pub(super) async fn kept(&self) -> ObjectHeaders {
        self.find().await.unwrap().file().object.clone()
    }

    /// Creates a bucket, as [`Meanwhile::ReplacesBucket`] does.
    pub(super) async fn new_bucket(&self, name: &str) -> BucketStat {
        new_bucket(&self.rival.volume, name).await
    }

    /// Deletes the object, so that the bucket can be deleted.
    pub(super) async fn empty(&self) {
        empty(&self.rival.volume).await;
    }

    /// Returns the volume of the rival gateway.
    pub(super) fn volume(&self) -> &Volume {
        &self.rival.volume
    }

    /// Returns the object, if it exists.
    pub(super) async fn find(&self) -> Option<Object> {
        self.rival.volume.stat("bkt", b"k").await.ok()
    }

    /// Returns the number of the rival's changes.
    pub(super) fn changes(&self) -> u64 {
        self.rival.changes.load(Ordering::SeqCst)
    }
}
