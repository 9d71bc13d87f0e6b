use super::*;
use crate::placement::{CONCURRENCY_MEMORY, SizeAndLoad};

const KIB: u64 = 1 << 10;

fn staged_inline(staged_inline_bytes_max: u64) -> Arc<StagedInline> {
    let policy = SizeAndLoad { inline_bytes_max: 4 * KIB, staged_inline_bytes_max };
    Arc::new(StagedInline::new(policy))
}

/// Returns a reservation if the policy stages the body inline.
fn reserve(staged: &Arc<StagedInline>, bytes: u64, packing: bool) -> Option<Reservation> {
    match staged.place(bytes, packing) {
        Placed::StagedInline(reservation) => Some(reservation),
        Placed::Inline | Placed::Block => None,
    }
}

/// Stages a body inline for an inode.
fn add(staged: &Arc<StagedInline>, ino: u64, bytes: u64) {
    reserve(staged, bytes, false).expect("room").assign(Ino(ino));
}

fn inos(bodies: &[StagedBody]) -> Vec<u64> {
    bodies.iter().map(|body| body.ino.0).collect()
}

#[tokio::test(start_paused = true)]
async fn concurrent_bodies_and_those_of_the_next_second_are_not_staged() {
    for packing in [false, true] {
        let staged = staged_inline(100 * KIB);
        let first = reserve(&staged, 20 * KIB, false);
        assert!(first.is_some());
        assert!(reserve(&staged, 20 * KIB, packing).is_none(), "another one arrives");
        drop(first);
        assert!(reserve(&staged, 20 * KIB, packing).is_none());
        tokio::time::sleep(CONCURRENCY_MEMORY * 9 / 10).await;
        assert!(reserve(&staged, 20 * KIB, false).is_none(), "a moment ago there were two");
        tokio::time::sleep(CONCURRENCY_MEMORY / 10).await;
        assert!(reserve(&staged, 20 * KIB, false).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_than_the_limit_is_staged() {
    let staged = staged_inline(100 * KIB);
    add(&staged, 1, 60 * KIB);
    assert!(reserve(&staged, 41 * KIB, false).is_none());
    // A reservation without a file uses no capacity.
    drop(reserve(&staged, 40 * KIB, false).expect("room"));
    add(&staged, 2, 40 * KIB);
    assert!(reserve(&staged, 17 * KIB, false).is_none());
    for body in staged.take(Instant::now(), 1, u64::MAX) {
        assert!(reserve(&staged, 17 * KIB, false).is_none(), "it is taken and not removed yet");
        staged.remove(body);
    }
    assert!(reserve(&staged, 60 * KIB, false).is_some());
}

#[tokio::test(start_paused = true)]
async fn permanently_inline_bodies_use_no_staged_capacity() {
    let staged = staged_inline(20 * KIB);
    add(&staged, 1, 20 * KIB);
    assert!(matches!(staged.place(4 * KIB, false), Placed::Inline));
    assert!(matches!(staged.place(20 * KIB, false), Placed::Block));
}

#[tokio::test(start_paused = true)]
async fn bodies_are_taken_in_their_order_and_together() {
    let staged = staged_inline(1_000 * KIB);
    for ino in 1..=5 {
        add(&staged, ino, 20 * KIB);
    }
    let old = Instant::now();
    tokio::time::sleep(DESTAGE_DELAY).await;
    let until = Instant::now();
    add(&staged, 6, 20 * KIB);
    assert_eq!(inos(&staged.take(until, 2, u64::MAX)), [1, 2]);
    assert_eq!(inos(&staged.take(until, 9, 1)), [3], "one goes, however long it is");
    assert_eq!(inos(&staged.take(old, 9, 45 * KIB)), [4, 5]);
    assert_eq!(inos(&staged.take(old, 9, u64::MAX)), [], "the last is too young");
    assert_eq!(staged.next_due(), Some(until + DESTAGE_DELAY));
}

#[tokio::test(start_paused = true)]
async fn body_that_is_put_back_is_due_one_delay_later() {
    let staged = staged_inline(100 * KIB);
    add(&staged, 1, 20 * KIB);
    tokio::time::sleep(DESTAGE_DELAY).await;
    let taken = staged.take(Instant::now(), 9, u64::MAX);
    assert_eq!(staged.next_due(), None);
    taken.into_iter().for_each(|body| staged.put_back(body));
    assert_eq!(staged.next_due(), Some(Instant::now() + DESTAGE_DELAY));
    assert!(reserve(&staged, 81 * KIB, false).is_none(), "it takes its room");
}
