use keyring::{ProtectionErrorKind, RingErrorKind, RingKeys};
use record::RingNumber;
use tokio::time::advance;

use super::*;
use crate::{KMS_FAILURE_AGE_MAX, KMS_KEY_AGE_MAX};

const ONE: RingNumber = RingNumber(1);

/// A world in which the first ring key is of the KMS, and a process that has not unwrapped it.
async fn fresh() -> (World, Arc<KeyStore>) {
    let world = World::new();
    let maker = world.open(under(1)).await;
    maker.current(&of_kms("photos").0).await.unwrap();
    let ring = Arc::new(world.open(under(1)).await);
    (world, ring)
}

fn decrypted(world: &World) -> u64 {
    world.kms.decrypted.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn a_key_is_decrypted_again_after_five_minutes() {
    let (world, ring) = fresh().await;
    for _ in 0..3 {
        ring.key(ONE).await.unwrap();
    }
    assert_eq!(decrypted(&world), 1);
    advance(KMS_KEY_AGE_MAX.saturating_sub(Duration::from_millis(1))).await;
    ring.key(ONE).await.unwrap();
    assert_eq!(decrypted(&world), 1);
    advance(Duration::from_millis(1)).await;
    ring.key(ONE).await.unwrap();
    assert_eq!(decrypted(&world), 2);
}

#[tokio::test(start_paused = true)]
async fn the_age_counts_from_the_question_and_not_from_the_answer() {
    let (world, ring) = fresh().await;
    *world.kms.takes.lock().unwrap() = Duration::from_secs(4);
    ring.key(ONE).await.unwrap();
    advance(KMS_KEY_AGE_MAX.saturating_sub(Duration::from_secs(4))).await;
    ring.key(ONE).await.unwrap();
    assert_eq!(decrypted(&world), 2);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_this_process_made_needs_no_decryption_until_it_is_old() {
    let world = World::new();
    let ring = world.open(under(1)).await;
    ring.current(&of_kms("photos").0).await.unwrap();
    ring.key(ONE).await.unwrap();
    assert_eq!(decrypted(&world), 0);
    advance(KMS_KEY_AGE_MAX).await;
    ring.key(ONE).await.unwrap();
    assert_eq!(decrypted(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_make_one_call_and_share_its_failure() {
    let (world, ring) = fresh().await;
    *world.kms.takes.lock().unwrap() = Duration::from_secs(5);
    let all = async |ring: &Arc<KeyStore>| {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let ring = Arc::clone(ring);
            tasks.spawn(async move { ring.key(ONE).await.map(|_| ()).map_err(|error| error.kind) });
        }
        tasks.join_all().await
    };
    world.kms.fail(Some(KmsErrorKind::Unavailable));
    let began = tokio::time::Instant::now();
    assert_eq!(all(&ring).await, [Err(RingErrorKind::Unavailable); 50]);
    assert_eq!(decrypted(&world), 1);
    assert!(began.elapsed() < Duration::from_secs(6), "they did not wait one after the other");
    world.kms.fail(None);
    advance(KMS_FAILURE_AGE_MAX).await;
    assert_eq!(all(&ring).await, [Ok(()); 50]);
    assert_eq!(decrypted(&world), 2);
}

#[tokio::test(start_paused = true)]
async fn a_kms_that_is_away_hurts_only_after_five_minutes() {
    let (world, ring) = fresh().await;
    ring.key(ONE).await.unwrap();
    world.kms.fail(Some(KmsErrorKind::Unavailable));
    advance(KMS_KEY_AGE_MAX.saturating_sub(Duration::from_secs(1))).await;
    ring.key(ONE).await.unwrap();
    advance(Duration::from_secs(1)).await;
    let error = ring.key(ONE).await.unwrap_err();
    assert_eq!(error.kind, RingErrorKind::Unavailable);
    assert_eq!(error.to_string(), "ring key 1 is unavailable: KMS key photos: on purpose");
    // A request per second reaches the KMS, however many arrive.
    for _ in 0..20 {
        ring.key(ONE).await.unwrap_err();
    }
    assert_eq!(decrypted(&world), 2);
    world.kms.fail(None);
    advance(KMS_FAILURE_AGE_MAX).await;
    ring.key(ONE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_refusal_has_its_kind() {
    for (kind, expected) in [
        (KmsErrorKind::Refused, RingErrorKind::Refused),
        (KmsErrorKind::NotFound, RingErrorKind::Refused),
        (KmsErrorKind::Invalid, RingErrorKind::Foreign),
        (KmsErrorKind::Unavailable, RingErrorKind::Unavailable),
    ] {
        let (world, ring) = fresh().await;
        ring.key(ONE).await.unwrap();
        advance(KMS_KEY_AGE_MAX).await;
        world.kms.fail(Some(kind));
        assert_eq!(ring.key(ONE).await.unwrap_err().kind, expected);
        // A new key under the same name fails, too.
        let failed = ring.rotate(&of_kms("photos").1).await;
        assert!(matches!(failed, Err(KeyStoreError::Kms(error)) if error.kind == kind));
    }
}

#[tokio::test]
async fn a_name_without_a_key_and_a_process_without_a_kms_are_errors() {
    let (world, _) = fresh().await;
    let ring = world.open(under(1)).await;
    let error = ring.current(&Protection::Kms("../x".to_owned())).await.unwrap_err();
    assert_eq!(error.kind, ProtectionErrorKind::NoSuchKey);
    match ring.current(&of_kms("unknown").0).await {
        Err(error) => assert_eq!(error.kind, ProtectionErrorKind::NoSuchKey),
        Ok(number) => panic!("{number:?}"),
    }
    let clock = Arc::new(SetClock::new(Timestamp(1)));
    let ring = KeyStore::open(world.store.clone(), Some(under(1)), None, VOLUME, clock);
    let ring = ring.await.unwrap();
    let error = ring.key(ONE).await.unwrap_err();
    assert_eq!(error.kind, RingErrorKind::Refused);
    assert!(error.cause.contains("set --kms"), "{error}");
    assert!(matches!(ring.rotate(&of_kms("photos").1).await, Err(KeyStoreError::NoKms(_))));
}
