use std::fmt::Write as _;

use faulty::Fault;
use keyring::{RingErrorKind, RingKeys};
use record::{AccountId, RingNumber, User, key};
use store::{Plan, Read, ReadResult, Write};

use super::*;
use crate::ResealSecret;

/// Secrets whose first byte names the master key.
struct Marked {
    old: u8,
    new: u8,
}

impl ResealSecret for Marked {
    fn reseal(&self, access_key: &str, sealed: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let secret = &sealed[1..];
        assert_eq!(secret, access_key.as_bytes());
        match sealed[0] {
            under if under == self.new => Ok(None),
            under if under == self.old => Ok(Some([&[self.new], secret].concat())),
            _ => Err("it opens under neither master key".to_owned()),
        }
    }
}

fn both(new: u8, old: u8) -> WrapKeys {
    WrapKeys { new: wrap_key(new), old: Some(wrap_key(old)) }
}

async fn add_users(world: &World, count: u32, master: u8) {
    let plans: Vec<Plan> = (0..count)
        .map(|number| {
            let mut name = "user".to_owned();
            write!(name, "{number:04}").unwrap();
            put_user(&name, master)
        })
        .collect();
    world.store.commit_now(&plans).await;
}

fn put_user(name: &str, master: u8) -> Plan {
    let at = key::user(name);
    let user = User::new(AccountId::MAIN, [&[master], name.as_bytes()].concat());
    Plan { guards: Vec::new(), writes: vec![Write::Put(at.clone(), user.encode(&at))] }
}

/// Returns the number of secrets under each of two master keys.
async fn under_each(world: &World, one: u8, other: u8) -> (usize, usize) {
    let (start, end) = key::partition(key::space::USER, 0);
    let read = Read::Range { start, end, limit: 1_000, follow: None };
    let answers = world.store.read(&[read]).await.unwrap();
    let ReadResult::Range(entries) = &answers[0] else { panic!() };
    let count = |master: u8| {
        let users = entries.iter().map(|entry| User::decode(&entry.key, &entry.value).unwrap());
        users.filter(|user| user.sealed_secret[0] == master).count()
    };
    (count(one), count(other))
}

/// A world with a ring of three keys under master key 1, one of the KMS, and 250 users.
async fn world() -> (World, [[u8; 32]; 4]) {
    let world = World::new();
    let ring = world.open(under(1)).await;
    for _ in 0..3 {
        ring.rotate(&RingKind::Volume).await.unwrap();
    }
    ring.rotate(&of_kms("photos").1).await.unwrap();
    add_users(&world, 250, 1).await;
    let proofs = proofs(&ring).await;
    (world, proofs)
}

async fn proofs(ring: &KeyStore) -> [[u8; 32]; 4] {
    [
        proof(ring, RingNumber(1)).await,
        proof(ring, RingNumber(2)).await,
        proof(ring, RingNumber(3)).await,
        proof(ring, RingNumber(4)).await,
    ]
}

#[tokio::test]
async fn a_wrong_master_key_is_named() {
    let (world, _) = world().await;
    let ring = world.open(under(9)).await;
    let error = ring.check().unwrap_err().to_string();
    assert!(error.contains("0101010101010101") && error.contains("0909090909090909"), "{error}");
    let error = ring.key(RingNumber(1)).await.unwrap_err();
    assert_eq!(error.kind, RingErrorKind::Foreign);
    assert!(error.cause.contains("0101010101010101"), "{error}");
    assert!(matches!(
        ring.rotate(&RingKind::Volume).await,
        Err(KeyStoreError::OtherMasterKey { .. })
    ));
    // A process without a master key reads content of the KMS only.
    let ring = world.try_open(None).await.unwrap();
    ring.check().unwrap();
    assert_eq!(ring.key(RingNumber(1)).await.unwrap_err().kind, RingErrorKind::Foreign);
    assert!(ring.key(RingNumber(4)).await.is_ok());
    assert!(matches!(ring.rotate(&RingKind::Volume).await, Err(KeyStoreError::NoMasterKey)));
}

#[tokio::test]
async fn a_change_of_the_master_key_leaves_a_volume_that_needs_the_new_one_only() {
    let (world, before) = world().await;
    let ring = world.open(both(2, 1)).await;
    let done = ring.rewrap(&Marked { old: 1, new: 2 }).await.unwrap();
    assert_eq!((done.sealed_again, done.under), (253, wrap_key(2).fingerprint()));
    assert_eq!(under_each(&world, 1, 2).await, (0, 250));
    let ring = world.open(under(2)).await;
    ring.check().unwrap();
    assert_eq!(proofs(&ring).await, before, "the keys are the same");
    assert!(world.open(under(1)).await.check().is_err());
    // With both keys, nothing is left to do.
    let again = world.open(both(2, 1)).await.rewrap(&Marked { old: 1, new: 2 }).await.unwrap();
    assert_eq!(again.sealed_again, 0);
}

#[tokio::test]
async fn a_change_without_the_old_key_or_between_other_keys_is_refused() {
    let (world, _) = world().await;
    let secrets = Marked { old: 1, new: 2 };
    let failed = world.open(under(2)).await.rewrap(&secrets).await;
    assert!(matches!(failed, Err(KeyStoreError::NoOldKey)));
    let failed = world.open(both(3, 2)).await.rewrap(&Marked { old: 2, new: 3 }).await;
    assert!(matches!(failed, Err(KeyStoreError::OtherMasterKey { .. })));
    assert_eq!(under_each(&world, 1, 2).await, (250, 0), "nothing was changed");
    // A secret under a third key stops the change, which continues after the user is removed.
    world.store.commit_now(&[put_user("stranger", 7)]).await;
    let ring = world.open(both(2, 1)).await;
    let error = ring.rewrap(&secrets).await.unwrap_err().to_string();
    assert!(error.contains("\"stranger\""), "{error}");
    let error = world.open(under(2)).await.check().unwrap_err();
    assert!(matches!(error, KeyStoreError::Rewrapping { .. }), "{error}");
    let failed = world.open(both(3, 1)).await.rewrap(&Marked { old: 1, new: 3 }).await;
    assert!(matches!(failed, Err(KeyStoreError::Rewrapping { .. })));
    let removed = Plan { guards: Vec::new(), writes: vec![Write::Delete(key::user("stranger"))] };
    world.store.commit_now(&[removed]).await;
    ring.rewrap(&secrets).await.unwrap();
    world.open(under(2)).await.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_stops_at_any_commit_is_continued() {
    // Every commit of the change in turn fails, is lost, or is applied without an answer.
    let total = {
        let (world, _) = world().await;
        let before = world.store.commits.load(Ordering::SeqCst);
        world.open(both(2, 1)).await.rewrap(&Marked { old: 1, new: 2 }).await.unwrap();
        world.store.commits.load(Ordering::SeqCst) - before
    };
    assert!(total > 250);
    let secrets = Marked { old: 1, new: 2 };
    for stop in (0..12).chain((12..total).step_by(29)).chain(total - 3..total) {
        let (world, before) = world().await;
        for _ in 0..stop {
            world.store.inject(None, Fault::Pass);
        }
        world.store.inject(None, Fault::Unavailable);
        let ring = world.open(both(2, 1)).await;
        assert!(matches!(ring.rewrap(&secrets).await, Err(KeyStoreError::Store(_))), "{stop}");
        // The volume opens with exactly one key, or asks for both.
        let (old, new) = (world.open(under(1)).await.check(), world.open(under(2)).await.check());
        if stop == 0 {
            assert!(old.is_ok() && new.is_err(), "{stop}");
        } else {
            let asks = |result| matches!(result, Err(KeyStoreError::Rewrapping { .. }));
            assert!(asks(old) && asks(new), "{stop}");
        }
        let ring = world.open(both(2, 1)).await;
        ring.check().unwrap();
        assert_eq!(proofs(&ring).await, before, "{stop}: both keys open everything");
        ring.rewrap(&secrets).await.unwrap();
        assert_eq!(under_each(&world, 1, 2).await, (0, 250), "{stop}");
        let ring = world.open(under(2)).await;
        ring.check().unwrap();
        assert_eq!(proofs(&ring).await, before, "{stop}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_outcomes_do_not_end_a_change_early() {
    for fault in [Fault::LostRequest, Fault::LostAnswer] {
        for stop in [0, 1, 2, 3, 100, 250] {
            let (world, before) = world().await;
            for _ in 0..stop {
                world.store.inject(None, Fault::Pass);
            }
            world.store.inject(None, fault);
            let fired = world.store.fired();
            world.open(both(2, 1)).await.rewrap(&Marked { old: 1, new: 2 }).await.unwrap();
            assert!(world.store.fired() > fired);
            assert_eq!(under_each(&world, 1, 2).await, (0, 250), "{fault:?} {stop}");
            assert_eq!(proofs(&world.open(under(2)).await).await, before);
        }
    }
}

#[tokio::test]
async fn a_user_that_appears_under_the_old_key_meanwhile_is_sealed_again() {
    let (world, _) = world().await;
    let ring = world.open(both(2, 1)).await;
    for _ in 0..200 {
        world.store.inject(None, Fault::Pass);
    }
    world.store.inject(None, Fault::Hang);
    let before = world.store.commits.load(Ordering::SeqCst);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { ring.rewrap(&Marked { old: 1, new: 2 }).await.map(|_| ()) });
    while world.store.commits.load(Ordering::SeqCst) < before + 201 {
        tokio::task::yield_now().await;
    }
    // The walk is behind the name of this user.
    assert!(under_each(&world, 1, 2).await.1 > 100);
    world.store.commit_now(&[put_user("aaaa", 1)]).await;
    let done = loop {
        world.store.release();
        tokio::task::yield_now().await;
        if let Some(done) = tasks.try_join_next() {
            break done;
        }
    };
    done.unwrap().unwrap();
    assert_eq!(under_each(&world, 1, 2).await, (0, 251));
}

#[tokio::test]
async fn no_key_is_made_under_the_old_master_key_during_a_change() {
    let (world, _) = world().await;
    let gateway = world.open(under(1)).await;
    world.store.commit_now(&[put_user("stranger", 7)]).await;
    let ring = world.open(both(2, 1)).await;
    ring.rewrap(&Marked { old: 1, new: 2 }).await.unwrap_err();
    let failed = gateway.rotate(&RingKind::Volume).await;
    assert!(matches!(failed, Err(KeyStoreError::Rewrapping { .. })));
    // With both keys it is made under the new one.
    let number = ring.rotate(&RingKind::Volume).await.unwrap();
    let (record, _) = &ring.ring().keys[&number];
    assert_eq!(record.wrapping, record::RingWrapping::Master(wrap_key(2).fingerprint()));
}
