//! Records of access keys over a volume in memory, whose store can fail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use admin::{Admin, NONCE_BYTES, NewUser, Random, SecretSealer, Surroundings};
use block::MemoryBlocks;
use faulty::Faulty;
use record::AccountId;
use runtime::SystemClock;
use store::StoreErrorKind;
use time::OffsetDateTime;
use volume::VolumeOptions;

use super::*;
use crate::access::{Identity, MasterKey, Secret};

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

#[derive(Debug)]
struct Fixed;

impl Random for Fixed {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
        bytes.fill(3);
        Ok(())
    }
}

struct Sealer<'a>(&'a Access);

impl SecretSealer for Sealer<'_> {
    fn seal(&self, access_key: &str, secret: &str, nonce: [u8; NONCE_BYTES]) -> Vec<u8> {
        self.0.seal(access_key, &Secret::new(secret), nonce)
    }

    fn is_sealed(&self, access_key: &str, secret: &str, sealed: &[u8]) -> bool {
        self.0.is_sealed(access_key, secret, sealed)
    }
}

async fn world(store: &Arc<Faulty>) -> (Admin, Arc<Volume>, Access) {
    let (store, blocks) = (Arc::clone(store), Arc::new(MemoryBlocks::new()));
    let volume = Volume::open(VolumeOptions::default(), store.clone(), blocks).await.unwrap();
    let root = Identity::root("root", Secret::new("a secret"));
    let access = Access::new(root, MasterKey::new([7; MasterKey::BYTES]));
    let (place, clock) = ("a test".to_owned(), Arc::new(SystemClock::new()));
    let admin = Admin::over(store, Surroundings { place, clock, random: Arc::new(Fixed) });
    (admin, volume, access)
}

async fn add(admin: &Admin, access: &Access, access_key: &str) {
    let (account, secret) = (AccountId::MAIN, Some("a-secret-of-anna"));
    let (uid, gid, umask, policies) = (1, 1, 0, &[][..]);
    let new = NewUser { access_key, account, secret, uid, gid, umask, policies };
    admin.add_user(&new, &Sealer(access)).await.unwrap();
}

/// Waits until `reached` is true, for less time than the interval of reads.
async fn eventually(reached: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < REFRESH_INTERVAL / 2 {
        if reached() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_other_processes_are_in_force_before_the_next_interval() {
    let (admin, volume, access) = world(&Faulty::new()).await;
    add(&admin, &access, "anna").await;
    access.read(&volume).await.unwrap();
    assert!(access.lookup("anna", NOW).is_some() && access.lookup("bert", NOW).is_none());
    let stop = CancellationToken::new();
    let change = async {
        add(&admin, &access, "bert").await;
        assert!(eventually(|| access.lookup("bert", NOW).is_some()).await, "it was added");
        admin.remove_user("anna", None).await.unwrap();
        assert!(eventually(|| access.lookup("anna", NOW).is_none()).await, "it was removed");
        stop.cancel();
    };
    tokio::join!(access.follow(&volume, &stop), change);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_before_the_follower_starts_is_in_force_at_once() {
    let (admin, volume, access) = world(&Faulty::new()).await;
    access.read(&volume).await.unwrap();
    let mut changes = volume.access_changes();
    add(&admin, &access, "anna").await;
    // The change feed has notified the session, and sends no further notification.
    tokio::time::timeout(REFRESH_INTERVAL / 2, changes.changed()).await.unwrap().unwrap();
    assert!(access.lookup("anna", NOW).is_none());
    let stop = CancellationToken::new();
    let change = async {
        assert!(eventually(|| access.lookup("anna", NOW).is_some()).await, "it was added");
        stop.cancel();
    };
    tokio::join!(access.follow(&volume, &stop), change);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_known_records_stay_in_force_while_the_volume_cannot_be_read() {
    let store = Faulty::new();
    let (admin, volume, access) = world(&store).await;
    add(&admin, &access, "anna").await;
    access.read(&volume).await.unwrap();
    add(&admin, &access, "bert").await;
    let fail = |with| store.reading.lock().unwrap().fails = with;
    fail(Some(StoreErrorKind::Unavailable));
    assert!(access.read(&volume).await.is_err());
    assert!(access.lookup("anna", NOW).is_some() && access.lookup("bert", NOW).is_none());
    fail(None);
    access.read(&volume).await.unwrap();
    assert!(access.lookup("anna", NOW).is_some() && access.lookup("bert", NOW).is_some());
}
