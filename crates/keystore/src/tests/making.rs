use std::collections::BTreeSet;

use faulty::Fault;
use keyring::{RingErrorKind, RingKeys};
use record::{RingKeyRecord, RingNumber, RingState, key};
use store::{Plan, Write};

use super::*;

/// Another gateway that acts before a commit of the first: it asks for the current key, or rotates.
#[derive(Debug)]
struct Meanwhile {
    ring: Arc<KeyStore>,
    protection: Option<Protection>,
}

#[async_trait]
impl faulty::Interruption for Meanwhile {
    async fn act(&self) {
        match &self.protection {
            Some(protection) => {
                self.ring.current(protection).await.unwrap();
            }
            None => {
                self.ring.rotate(&RingKind::Volume).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn content_is_encrypted_only_if_asked_for_or_if_the_volume_encrypts_everything() {
    let world = World::new();
    let ring = world.open(under(1)).await;
    assert_eq!(ring.current(&Protection::Volume).await.unwrap(), None);
    assert!(!ring.encrypts_everything());
    assert_eq!(ring.current(&Protection::S3).await.unwrap(), Some(RingNumber(1)));
    assert_eq!(ring.current(&Protection::Volume).await.unwrap(), None);
    let (photos, _) = of_kms("photos");
    assert_eq!(ring.current(&photos).await.unwrap(), Some(RingNumber(2)));
    assert_eq!(ring.current(&of_kms("other").0).await.unwrap(), Some(RingNumber(3)));
    assert_eq!(ring.current(&photos).await.unwrap(), Some(RingNumber(2)));
    ring.set_everything(true).await.unwrap();
    assert_eq!(ring.current(&Protection::Volume).await.unwrap(), Some(RingNumber(1)));
    ring.set_everything(false).await.unwrap();
    assert_eq!(ring.current(&Protection::Volume).await.unwrap(), None);
}

#[tokio::test]
async fn the_switch_makes_the_first_key() {
    let world = World::new();
    let ring = world.open(under(1)).await;
    ring.set_everything(true).await.unwrap();
    assert_eq!(ring.current(&Protection::Volume).await.unwrap(), Some(RingNumber(1)));
    assert_eq!(ring.entries().len(), 1);
}

#[tokio::test]
async fn a_rotation_is_used_by_other_processes_and_old_keys_stay() {
    let world = World::new();
    let (one, other) = (world.open(under(1)).await, world.open(under(1)).await);
    let (photos, of_photos) = of_kms("photos");
    assert_eq!(one.current(&Protection::S3).await.unwrap(), Some(RingNumber(1)));
    assert_eq!(one.current(&photos).await.unwrap(), Some(RingNumber(2)));
    let before = (proof(&one, RingNumber(1)).await, proof(&one, RingNumber(2)).await);
    assert_eq!(one.rotate(&RingKind::Volume).await.unwrap(), RingNumber(3));
    assert_eq!(one.rotate(&of_photos).await.unwrap(), RingNumber(4));
    // The other process reads an unknown number itself, and the current ones when it reloads.
    let after = (proof(&one, RingNumber(3)).await, proof(&one, RingNumber(4)).await);
    assert_eq!((proof(&other, RingNumber(3)).await, proof(&other, RingNumber(4)).await), after);
    other.reload().await.unwrap();
    assert_eq!(other.current(&Protection::S3).await.unwrap(), Some(RingNumber(3)));
    assert_eq!(other.current(&photos).await.unwrap(), Some(RingNumber(4)));
    assert_eq!((proof(&other, RingNumber(1)).await, proof(&other, RingNumber(2)).await), before);
    let all = BTreeSet::from([before.0, before.1, after.0, after.1]);
    assert_eq!(all.len(), 4, "no two keys are equal");
    let current: Vec<bool> = other.entries().iter().map(|entry| entry.is_current).collect();
    assert_eq!(current, [false, false, true, true]);
}

#[tokio::test]
async fn gateways_that_make_the_first_key_at_the_same_time_use_one_key() {
    for protection in [Protection::S3, of_kms("photos").0] {
        let world = World::new();
        let (one, other) = (world.open(under(1)).await, Arc::new(world.open(under(1)).await));
        // The other gateway makes its key between the read and the commit of the first.
        let meanwhile =
            Meanwhile { ring: Arc::clone(&other), protection: Some(protection.clone()) };
        *world.store.interruption.lock().unwrap() = Some(Arc::new(meanwhile));
        assert_eq!(one.current(&protection).await.unwrap(), Some(RingNumber(1)));
        assert_eq!(other.current(&protection).await.unwrap(), Some(RingNumber(1)));
        assert_eq!(world.store.commits.load(Ordering::SeqCst), 2, "both sent a plan");
        let first = proof(&one, RingNumber(1)).await;
        assert_eq!(proof(&other, RingNumber(1)).await, first);
        one.reload().await.unwrap();
        assert_eq!(one.entries().len(), 1);
    }
}

#[tokio::test]
async fn rotations_at_the_same_time_make_as_many_keys() {
    let world = World::new();
    let (one, other) = (world.open(under(1)).await, Arc::new(world.open(under(1)).await));
    let meanwhile = Meanwhile { ring: Arc::clone(&other), protection: None };
    *world.store.interruption.lock().unwrap() = Some(Arc::new(meanwhile));
    assert_eq!(one.rotate(&RingKind::Volume).await.unwrap(), RingNumber(2));
    assert_ne!(proof(&one, RingNumber(1)).await, proof(&one, RingNumber(2)).await);
    let third = world.open(under(1)).await;
    assert_eq!(third.current(&Protection::S3).await.unwrap(), Some(RingNumber(2)));
    assert_eq!(third.entries().len(), 2);
}

#[tokio::test]
async fn an_unknown_outcome_is_resolved_by_reading() {
    for fault in [Fault::LostAnswer, Fault::LostRequest] {
        let world = World::new();
        let ring = world.open(under(1)).await;
        world.store.inject(None, fault);
        assert_eq!(ring.current(&Protection::S3).await.unwrap(), Some(RingNumber(1)));
        world.store.inject(None, fault);
        assert_eq!(ring.rotate(&RingKind::Volume).await.unwrap(), RingNumber(2));
        world.store.inject(None, fault);
        ring.set_everything(true).await.unwrap();
        assert_eq!(world.store.fired(), 3);
        let other = world.open(under(1)).await;
        assert_eq!(other.entries().len(), 2, "{fault:?}: no key is made twice");
        assert_eq!(proof(&other, RingNumber(2)).await, proof(&ring, RingNumber(2)).await);
        assert!(other.encrypts_everything());
    }
}

#[tokio::test]
async fn a_commit_that_arrives_late_makes_no_second_key() {
    let world = World::new();
    let ring = world.open(under(1)).await;
    world.store.inject(None, Fault::Delayed);
    assert_eq!(ring.rotate(&RingKind::Volume).await.unwrap(), RingNumber(1));
    let before = proof(&ring, RingNumber(1)).await;
    assert_eq!(world.store.deliver().await.len(), 1);
    let other = world.open(under(1)).await;
    assert_eq!(other.entries().len(), 1);
    assert_eq!(proof(&other, RingNumber(1)).await, before);
}

#[tokio::test]
async fn a_store_that_is_away_is_an_error_and_known_keys_still_work() {
    let world = World::new();
    let ring = world.open(under(1)).await;
    ring.current(&Protection::S3).await.unwrap();
    world.store.reading.lock().unwrap().fails = Some(store::StoreErrorKind::Unavailable);
    assert!(matches!(ring.rotate(&RingKind::Volume).await, Err(KeyStoreError::Store(_))));
    assert_eq!(ring.key(RingNumber(9)).await.unwrap_err().kind, RingErrorKind::Unavailable);
    assert!(ring.key(RingNumber(1)).await.is_ok());
    assert_eq!(ring.current(&Protection::S3).await.unwrap(), Some(RingNumber(1)));
    world.store.reading.lock().unwrap().fails = None;
    assert_eq!(ring.key(RingNumber(9)).await.unwrap_err().kind, RingErrorKind::Unknown);
}

#[tokio::test]
async fn a_key_is_retired_closed_and_removed_in_this_order() {
    let world = World::new();
    let ring = world.open(under(1)).await;
    let one = RingNumber(1);
    assert!(matches!(ring.retire(one).await, Err(KeyStoreError::NoSuchKey(_))));
    ring.current(&Protection::S3).await.unwrap();
    let other = world.open(under(1)).await;
    assert!(matches!(ring.retire(one).await, Err(KeyStoreError::Current(_))));
    assert!(matches!(ring.close(one).await, Err(KeyStoreError::Current(_))));
    assert!(matches!(ring.remove(one).await, Err(KeyStoreError::Current(_))));
    ring.rotate(&RingKind::Volume).await.unwrap();
    ring.retire(one).await.unwrap();
    ring.retire(one).await.unwrap();
    assert!(matches!(ring.remove(one).await, Err(KeyStoreError::Current(_))));
    // Files that are being written keep the key until it is closed.
    assert!(ring.key_to_write(one).await.is_ok());
    ring.close(one).await.unwrap();
    ring.close(one).await.unwrap();
    ring.retire(one).await.unwrap();
    other.reload().await.unwrap();
    for ring in [&ring, &other] {
        assert!(ring.key(one).await.is_ok());
        assert_eq!(ring.key_to_write(one).await.unwrap_err().kind, RingErrorKind::Unavailable);
    }
    ring.remove(one).await.unwrap();
    ring.remove(one).await.unwrap();
    assert_eq!(ring.key(one).await.unwrap_err().kind, RingErrorKind::Unknown);
    // Its number is not used again.
    assert_eq!(ring.rotate(&RingKind::Volume).await.unwrap(), RingNumber(3));
}

#[tokio::test]
async fn the_current_key_of_the_kms_is_rotated_before_it_is_retired() {
    let world = World::new();
    let ring = world.open(under(1)).await;
    let (photos, kind) = of_kms("photos");
    ring.current(&photos).await.unwrap();
    assert!(matches!(ring.retire(RingNumber(1)).await, Err(KeyStoreError::Current(_))));
    ring.rotate(&kind).await.unwrap();
    ring.retire(RingNumber(1)).await.unwrap();
    assert_eq!(ring.current(&photos).await.unwrap(), Some(RingNumber(2)));
}

#[tokio::test]
async fn a_ring_of_many_numbers_is_read_in_pages() {
    let world = World::new();
    let (at, state) = (key::ring_state(), RingState { highest: 3_000, ..RingState::default() });
    let writes = vec![Write::Put(at.clone(), state.encode(&at))];
    let plan = Plan { guards: Vec::new(), writes };
    world.store.commit_now(&[plan]).await;
    let ring = world.open(under(1)).await;
    assert_eq!(ring.current(&Protection::S3).await.unwrap(), Some(RingNumber(3_001)));
    assert_eq!(ring.entries().len(), 1);
}

#[tokio::test]
async fn a_record_that_was_changed_or_moved_does_not_open() {
    let world = World::new();
    let ring = world.open(under(1)).await;
    ring.rotate(&RingKind::Volume).await.unwrap();
    ring.rotate(&RingKind::Volume).await.unwrap();
    let put = async |number, record: RingKeyRecord| {
        let at = key::ring_key(number);
        let writes = vec![Write::Put(at.clone(), record.encode(&at))];
        world.store.commit_now(&[Plan { guards: Vec::new(), writes }]).await;
    };
    let first = ring.ring().keys[&RingNumber(1)].0.clone();
    let second = ring.ring().keys[&RingNumber(2)].0.clone();
    put(RingNumber(2), first.clone()).await;
    let mut changed = first;
    changed.wrapped[20] ^= 1;
    put(RingNumber(1), changed).await;
    let other = world.open(under(1)).await;
    for number in [1, 2].map(RingNumber) {
        let error = other.key(number).await.unwrap_err();
        assert_eq!(error.kind, RingErrorKind::Foreign);
        assert!(error.cause.contains("its record was changed"), "{error}");
    }
    put(RingNumber(2), second).await;
    let elsewhere = KeyStore::open(
        world.store.clone(),
        Some(under(1)),
        None,
        [1; 16],
        Arc::new(SetClock::new(Timestamp(1))),
    );
    let error = elsewhere.await.unwrap().key(RingNumber(2)).await.unwrap_err();
    assert_eq!(error.kind, RingErrorKind::Foreign, "a record of another volume");
}

#[tokio::test]
async fn no_text_shows_a_key() {
    let world = World::new();
    let ring = world.open(under(b'M')).await;
    ring.rotate(&RingKind::Volume).await.unwrap();
    ring.rotate(&of_kms("photos").1).await.unwrap();
    let shown = format!("{ring:?}");
    assert!(!shown.contains("77, 77, 77"), "{shown}");
    for (record, _) in ring.ring().keys.values() {
        let wrapped = format!("{:?}", &record.wrapped[..4]);
        assert!(!shown.contains(wrapped.trim_matches(['[', ']'])), "{shown}");
    }
}
