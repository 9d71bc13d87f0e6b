//! Operations of operators on a volume over a store in memory: alone, concurrently, and while
//! answers are lost.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod service {
    mod access;
    mod doubt;
    mod group;
    mod job;
    mod key;
    mod node;
    mod whole;
}

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use admin::{Admin, IssuedKey, NewUser, Random, SecretSealer, Surroundings};
use block::{BlockStore, MemoryBlocks};
use record::{Timestamp, User, key};
use store::MetaStore;
use volume::{FileOwner, SetClock, Volume, VolumeOptions};

const PLACE: &str = "host:1";

/// The time of all operations.
const NOW: Timestamp = Timestamp(7_000_000);

/// A policy that allows something.
const DOCUMENT: &str = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow",
    "Action":"s3:GetObject","Resource":"arn:aws:s3:::photos/*"}]}"#;

/// Draws other bytes each time, and the same in every test.
#[derive(Debug, Default)]
struct Counting(AtomicU8);

impl Random for Counting {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
        bytes.fill_with(|| self.0.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }
}

/// The machine has no random bytes.
#[derive(Debug)]
struct Drained;

impl Random for Drained {
    fn fill(&self, _bytes: &mut [u8]) -> Result<(), String> {
        Err("drained".to_owned())
    }
}

/// A sealer without encryption, so that tests can read the secret.
struct Open;

impl SecretSealer for Open {
    fn seal(&self, access_key: &str, secret: &str, nonce: [u8; admin::NONCE_BYTES]) -> Vec<u8> {
        [access_key.as_bytes(), b" ", secret.as_bytes(), b" ", &nonce].concat()
    }

    fn is_sealed(&self, access_key: &str, secret: &str, sealed: &[u8]) -> bool {
        sealed.starts_with(format!("{access_key} {secret} ").as_bytes())
    }
}

fn over(store: Arc<dyn MetaStore>) -> Admin {
    let (clock, random) = (Arc::new(SetClock::new(NOW)), Arc::new(Counting::default()));
    Admin::over(store, Surroundings { place: PLACE.to_owned(), clock, random })
}

/// A closed volume in a store, with a bucket `box`.
async fn make_volume(store: &Arc<dyn MetaStore>) -> Arc<dyn BlockStore> {
    let blocks: Arc<dyn BlockStore> = Arc::new(MemoryBlocks::new());
    let volume = open(store, &blocks).await;
    let owner = FileOwner {
        access_key: "root".to_owned(),
        account: record::AccountId::MAIN,
        writer: None,
        uid: 0,
        gid: 0,
        umask: 0o022,
    };
    volume.create_bucket("box", &volume::NewBucket::owned_by(&owner)).await.unwrap();
    volume.close().await;
    blocks
}

/// This store, with a volume in it.
async fn with_volume(store: impl MetaStore) -> Arc<dyn MetaStore> {
    let store: Arc<dyn MetaStore> = Arc::new(store);
    make_volume(&store).await;
    store
}

/// A gateway's volume.
async fn open(store: &Arc<dyn MetaStore>, blocks: &Arc<dyn BlockStore>) -> Arc<Volume> {
    Volume::open(VolumeOptions::default(), Arc::clone(store), Arc::clone(blocks)).await.unwrap()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

async fn add(admin: &Admin, access_key: &str, policies: &[&str]) -> IssuedKey {
    let policies = &names(policies);
    let new = NewUser {
        access_key,
        account: record::AccountId::MAIN,
        secret: None,
        uid: 1,
        gid: 2,
        umask: 0o022,
        policies,
    };
    admin.add_user(&new, &Open).await.unwrap()
}

/// The record of an access key.
async fn record(store: &dyn MetaStore, access_key: &str) -> Option<User> {
    let at = key::user(access_key);
    let value = faulty::get(store, &at).await?;
    Some(User::decode(&at, &value).unwrap())
}
