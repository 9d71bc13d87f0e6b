//! An administration API over a volume in memory, for tests.
//!
//! For example, `world.user("anna", &["readonly"])` adds a user, and a test calls functions of the
//! API with the [`Actor`] of `world.sender("anna")`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use admin::{Admin, NewUser, Random, Surroundings};
use audit::{Activity, AuditLog, LineFormat, LogSink};
use block::MemoryBlocks;
use bytes::Bytes;
use faulty::Faulty;
use gateway::{Gateway, Settings};
use http::{HeaderMap, Method};
use identity::{Access, Authenticated, Identity, MasterKey, RequestOrigin, Secret};
use maintained::MaintainedVolume;
use record::AccountId;
use runtime::SystemClock;
use s3::auth::Verified;
use tokio::time::Instant;
use volume::VolumeOptions;

use crate::resources::keys::NewTokenJson;
use crate::resources::policies::NewPolicy;
use crate::sealer::Sealer;
use crate::{Actor, AdminApi, IfMatch, Parts, ProcessFacts, S3Call};

/// Draws other bytes each time, and the same in every test.
#[derive(Debug, Default)]
struct Counting(AtomicU8);

impl Random for Counting {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
        bytes.fill_with(|| self.0.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }
}

/// The API, with the store below it.
pub(crate) struct World {
    pub(crate) api: AdminApi,
    pub(crate) store: Arc<Faulty>,
    /// Those of each request.
    headers: HeaderMap,
}

impl World {
    /// Returns an API over a new volume, in which the operator's own key is `root`.
    pub(crate) async fn new() -> World {
        let store = Faulty::new();
        let blocks = Arc::new(MemoryBlocks::new());
        let (meta, options) = (Arc::clone(&store), VolumeOptions::default());
        let volume =
            MaintainedVolume::open_without_tasks(options, None, meta, blocks.clone()).await;
        let volume = volume.unwrap();
        let root = Identity::root("root", Secret::new("a secret"));
        let access = Arc::new(Access::new(root, MasterKey::new([7; MasterKey::BYTES])));
        access.read(&volume).await.unwrap();
        let gateway = Gateway::new(Arc::clone(&volume), Arc::clone(&access), Settings::default());
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(Counting::default()));
        let surroundings = Surroundings { place: "a test".to_owned(), clock, random };
        let api = AdminApi::new(Parts {
            admin: Admin::within(Arc::clone(&volume), store.clone(), surroundings),
            volume,
            meta: store.clone(),
            gateway,
            access,
            blocks,
            activity: Arc::new(Activity::new(Instant::now(), [])),
            log: Arc::new(AuditLog::start(&LogSink::Off, LineFormat::Json).unwrap()),
            facts: ProcessFacts {
                version: String::new(),
                commit: String::new(),
                region: "us-east-1".to_owned(),
                metadata_place: String::new(),
                blocks_place: String::new(),
                durability: Box::new(String::new),
                settings: serde_json::Value::Null,
                dumps: PathBuf::new(),
            },
        });
        World { api, store, headers: HeaderMap::new() }
    }

    /// Adds a user with these policies.
    pub(crate) async fn user(&self, access_key: &str, policies: &[&str]) {
        let policies = &names(policies);
        let (account, secret) = (AccountId::MAIN, Some("a-secret-of-a-user"));
        let (uid, gid, umask) = (0, 0, 0o022);
        let new = NewUser { access_key, account, secret, uid, gid, umask, policies };
        self.api.admin.add_user(&new, &Sealer(&self.api.access)).await.unwrap();
        self.api.follow_access().await;
    }

    /// Adds or replaces a policy with these statements, as the operator.
    pub(crate) async fn policy(&self, name: &str, statements: &str) {
        let root = self.sender("root");
        let new = NewPolicy { document: serde_json::from_str(&document(statements)).unwrap() };
        let put = self.api.put_policy(&self.actor(&root), name, &new, &IfMatch::default()).await;
        put.unwrap();
    }

    /// Returns the proof of the sender with this access key.
    pub(crate) fn sender(&self, access_key: &str) -> Authenticated {
        let now = rules::time(self.api.volume.now());
        let verified = Verified::without_signature(access_key, now);
        Authenticated { verified, identity: Some(self.api.access.lookup(access_key, now).unwrap()) }
    }

    /// Returns the proof of the sender with a new token of a user, for these actions.
    pub(crate) async fn token(&self, user: &str, actions: &[&str]) -> Authenticated {
        let (of, actions) = (self.sender(user), names(actions));
        let new = NewTokenJson { actions, description: String::new(), expires: None };
        let issued = self.api.post_token(&self.actor(&of), &new).await.unwrap();
        let now = rules::time(self.api.volume.now());
        let bearer = self.api.access.token(&issued.token, now).unwrap();
        let verified = Verified::without_signature(issued.name, now);
        Authenticated { verified, identity: Some(Arc::clone(&bearer.identity)) }
    }

    /// Returns the sender of a request.
    pub(crate) fn actor<'a>(&'a self, sender: &'a Authenticated) -> Actor<'a> {
        let now = rules::time(self.api.volume.now());
        let origin = RequestOrigin { headers: &self.headers, client: None, now };
        Actor::new(&self.api.access, &self.api.volume, sender, origin, "a-request").unwrap()
    }

    /// Puts an object with these headers, as the operator.
    pub(crate) async fn put_with(&self, bucket: &str, key: &str, headers: &[(&'static str, &str)]) {
        let root = self.sender("root");
        let mut call = S3Call::on_bucket(Method::PUT, bucket, None);
        call.key = Some(key);
        for (name, value) in headers {
            call.headers.insert(*name, value.parse().unwrap());
        }
        self.api.s3(&self.actor(&root), &call, Bytes::from_static(b"content")).await.unwrap();
    }

    /// Carries out a PUT of S3 as the operator: of a bucket, of one of its documents, or of an
    /// object.
    pub(crate) async fn put(&self, bucket: &str, key: Option<&str>, of: Option<&str>, body: &str) {
        let root = self.sender("root");
        let call = S3Call { key, ..S3Call::on_bucket(Method::PUT, bucket, of) };
        let body = Bytes::copy_from_slice(body.as_bytes());
        self.api.s3(&self.actor(&root), &call, body).await.unwrap();
    }
}

/// Returns a policy document with these statements.
pub(crate) fn document(statements: &str) -> String {
    format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#)
}

pub(crate) fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
