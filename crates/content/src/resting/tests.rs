use super::*;

const KIB: u64 = 1 << 10;

fn resting(bytes_max: u64) -> Arc<Resting> {
    Arc::new(Resting::new(bytes_max))
}

/// A body comes to rest.
fn rest(resting: &Arc<Resting>, ino: u64, bytes: u64) {
    resting.admit(bytes, false).expect("a place").give(Ino(ino));
}

fn inos(bodies: &[Rested]) -> Vec<u64> {
    bodies.iter().map(|body| body.ino.0).collect()
}

#[tokio::test(start_paused = true)]
async fn who_meets_others_does_not_rest_and_nobody_does_for_a_while() {
    for packed in [false, true] {
        let resting = resting(100 * KIB);
        let first = resting.admit(20 * KIB, false);
        assert!(first.is_some());
        assert!(resting.admit(20 * KIB, packed).is_none(), "another one arrives");
        drop(first);
        assert!(resting.admit(20 * KIB, packed).is_none());
        tokio::time::sleep(COMPANY_LASTS * 9 / 10).await;
        assert!(resting.admit(20 * KIB, false).is_none(), "they met a moment ago");
        tokio::time::sleep(COMPANY_LASTS / 10).await;
        assert!(resting.admit(20 * KIB, false).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_than_the_limit_rests() {
    let resting = resting(100 * KIB);
    rest(&resting, 1, 60 * KIB);
    assert!(resting.admit(41 * KIB, false).is_none());
    // What no file came to have takes no room.
    drop(resting.admit(40 * KIB, false).expect("room"));
    rest(&resting, 2, 40 * KIB);
    assert!(resting.admit(1, false).is_none());
    for body in resting.take(Instant::now(), 1, u64::MAX) {
        assert!(resting.admit(1, false).is_none(), "it is settled and not gone yet");
        resting.gone(body);
    }
    assert!(resting.admit(60 * KIB, false).is_some());
}

#[test]
fn what_is_too_long_or_has_no_memory_does_not_rest() {
    assert!(resting(u64::MAX).admit(RESTING_BODY_BYTES_MAX + 1, false).is_none());
    assert!(resting(0).admit(1, false).is_none());
}

#[tokio::test(start_paused = true)]
async fn bodies_are_taken_in_their_order_and_together() {
    let resting = resting(1_000 * KIB);
    for ino in 1..=5 {
        rest(&resting, ino, 20 * KIB);
    }
    let old = Instant::now();
    tokio::time::sleep(SETTLE_DELAY).await;
    let until = Instant::now();
    rest(&resting, 6, 20 * KIB);
    assert_eq!(inos(&resting.take(until, 2, u64::MAX)), [1, 2]);
    assert_eq!(inos(&resting.take(until, 9, 1)), [3], "one goes, however long it is");
    assert_eq!(inos(&resting.take(old, 9, 45 * KIB)), [4, 5]);
    assert_eq!(inos(&resting.take(old, 9, u64::MAX)), [], "the last is too young");
    assert_eq!(resting.next_due(), Some(until + SETTLE_DELAY));
}

#[tokio::test(start_paused = true)]
async fn what_is_put_back_rests_for_another_while() {
    let resting = resting(100 * KIB);
    rest(&resting, 1, 20 * KIB);
    tokio::time::sleep(SETTLE_DELAY).await;
    let taken = resting.take(Instant::now(), 9, u64::MAX);
    assert_eq!(resting.next_due(), None);
    taken.into_iter().for_each(|body| resting.put_back(body));
    assert_eq!(resting.next_due(), Some(Instant::now() + SETTLE_DELAY));
    assert!(resting.admit(81 * KIB, false).is_none(), "it takes its room");
}
