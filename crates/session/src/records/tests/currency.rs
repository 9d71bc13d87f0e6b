//! A store behind the cache keeps the contract of a metadata store, also with reads and batches in
//! flight.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use faulty::{Fault, Faulty, get};
use namespace::Hints as _;
use record::{Ino, key};
use runtime::Moment;
use store::{
    Follow, Guard, Key, MemoryStore, MetaStore, Plan, Read, ReadResult, StoreErrorKind, Target,
    Verdict, Write,
};

use super::super::currency::{UNKNOWN_KEYS_MAX, WRITTEN_KEYS_MAX};
use super::super::{Basis, CURRENT_VALUE_BYTES_MAX, RecordCache};
use super::behind;
use crate::cached_store::CachedStore;

/// The suite that every engine passes.
mod conformance {
    use std::sync::Arc;

    use store::{MemoryStore, MetaStore};

    use super::super::super::{Basis, RecordCache};
    use super::behind;

    fn run(case: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().expect("a runtime").block_on(case);
    }

    async fn fresh() -> (Arc<dyn MetaStore>, ()) {
        let cache = RecordCache::new(1 << 20, true);
        cache.extend_authority(super::for_long(), Basis::Alone);
        (Arc::new(behind(&cache, Arc::new(MemoryStore::new()))), ())
    }

    store::conformance!(run, fresh);
}

pub(super) fn for_long() -> Moment {
    Moment::now().after(Duration::from_hours(1))
}

/// A memory that is authoritative, over a store that counts and fails.
fn authoritative() -> (Arc<Faulty>, Arc<RecordCache>, CachedStore) {
    let (store, cache) = (Faulty::new(), RecordCache::new(1 << 20, true));
    cache.extend_authority(for_long(), Basis::Alone);
    let cached = behind(&cache, store.clone());
    (store, cache, cached)
}

fn at(number: u64) -> Key {
    key::inode(Ino(number))
}

fn put(key: &Key, value: &'static str) -> Plan {
    let value = Bytes::from_static(value.as_bytes());
    Plan { guards: Vec::new(), writes: vec![Write::Put(key.clone(), value)] }
}

fn asks(key: &Key) -> [Read; 1] {
    [Read::Record { key: key.clone(), follow: None }]
}

/// Returns true if the record is current.
fn knows(cache: &RecordCache, key: &Key) -> bool {
    cache.answer(&asks(key)).is_some()
}

#[tokio::test(start_paused = true)]
async fn written_and_read_records_are_answered_from_the_cache() {
    let (store, cache, cached) = authoritative();
    cached.commit(&[put(&at(1), "one")]).await.unwrap();
    store.commit_now(&[put(&at(2), "two")]).await;
    assert!(!knows(&cache, &at(2)), "it was not read yet");
    for _ in 0..2 {
        assert_eq!(get(&cached, &at(1)).await.unwrap(), "one");
        assert_eq!(get(&cached, &at(2)).await.unwrap(), "two");
    }
    assert_eq!(store.reads.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn authority_ends_by_itself() {
    let (_store, cache, cached) = authoritative();
    cached.commit(&[put(&at(1), "one")]).await.unwrap();
    cache.extend_authority(Moment::now().after(Duration::from_millis(500)), Basis::Alone);
    assert!(knows(&cache, &at(1)));
    tokio::time::advance(Duration::from_millis(500)).await;
    assert!(!knows(&cache, &at(1)));
    cache.extend_authority(for_long(), Basis::Alone);
    assert!(knows(&cache, &at(1)), "it listened on without a gap");
}

#[tokio::test(start_paused = true)]
async fn peers_make_all_entries_hints() {
    let (store, cache, cached) = authoritative();
    cached.commit(&[put(&at(1), "one")]).await.unwrap();
    cache.end_authority();
    assert!(!knows(&cache, &at(1)));
    assert_eq!(cache.record(&at(1)), Some(Some(Bytes::from_static(b"one"))));
    store.commit_now(&[put(&at(1), "theirs")]).await;
    cache.extend_authority(for_long(), Basis::Alone);
    assert!(!knows(&cache, &at(1)));
    assert_eq!(get(&cached, &at(1)).await.unwrap(), "theirs");
    cache.disable();
    cache.extend_authority(for_long(), Basis::Alone);
    get(&cached, &at(1)).await;
    assert!(!knows(&cache, &at(1)), "its time is over");
}

/// Reads and batches that left while others were there may come back when they no longer are.
#[tokio::test(start_paused = true)]
async fn results_sent_while_peers_existed_are_hints() {
    let (store, cache, cached) = authoritative();
    cache.end_authority();
    let reading = cache.begin_read();
    let found = store.read(&asks(&at(1))).await.unwrap();
    let sending = cache.begin_batch(&[put(&at(2), "ours")]);
    let verdicts = store.commit(&[put(&at(2), "ours")]).await.unwrap();
    store.commit_now(&[put(&at(1), "theirs"), put(&at(2), "theirs")]).await;
    cache.extend_authority(for_long(), Basis::Alone);
    reading.found(&asks(&at(1)), &found);
    sending.decided(&[put(&at(2), "ours")], &verdicts);
    for number in [1, 2] {
        assert_eq!(get(&cached, &at(number)).await.unwrap(), "theirs");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_sent_before_a_commit_is_a_hint() {
    let (store, cache, cached) = authoritative();
    store.commit_now(&[put(&at(1), "old"), put(&at(2), "other")]).await;
    let both = [asks(&at(1)), asks(&at(2))].concat();
    let reading = cache.begin_read();
    let found = store.read(&both).await.unwrap();
    cached.commit(&[put(&at(1), "new")]).await.unwrap();
    // Its place is free again, as if the cache had been full.
    cache.entries.remove(&at(1));
    reading.found(&both, &found);
    assert!(knows(&cache, &at(2)));
    assert!(!knows(&cache, &at(1)), "its result is old");
    assert_eq!(get(&cached, &at(1)).await.unwrap(), "new");
}

#[tokio::test(start_paused = true)]
async fn a_record_is_a_hint_while_a_batch_writes_it() {
    let (store, cache, cached) = authoritative();
    cached.commit(&[put(&at(1), "old")]).await.unwrap();
    let plans = [put(&at(1), "new")];
    let sending = cache.begin_batch(&plans);
    assert!(!knows(&cache, &at(1)));
    assert_eq!(get(&cached, &at(1)).await.unwrap(), "old");
    assert!(!knows(&cache, &at(1)), "it may change at any moment");
    let verdicts = store.commit(&plans).await.unwrap();
    sending.decided(&plans, &verdicts);
    assert!(knows(&cache, &at(1)));
    assert_eq!(get(&cached, &at(1)).await.unwrap(), "new");
}

#[tokio::test(start_paused = true)]
async fn racing_batches_leave_a_hint() {
    let (store, cache, cached) = authoritative();
    let (first, last) = ([put(&at(1), "first")], [put(&at(1), "last")]);
    let (one, other) = (cache.begin_batch(&first), cache.begin_batch(&last));
    let verdicts = store.commit(&first).await.unwrap();
    store.commit(&last).await.unwrap();
    // The answers come in the other order.
    other.decided(&last, &verdicts);
    one.decided(&first, &verdicts);
    assert!(!knows(&cache, &at(1)));
    assert_eq!(get(&cached, &at(1)).await.unwrap(), "last");
    assert!(knows(&cache, &at(1)));
}

#[tokio::test(start_paused = true)]
async fn a_refused_plan_leaves_a_hint() {
    let (store, cache, cached) = authoritative();
    store.commit_now(&[put(&at(1), "old")]).await;
    let mut refused = put(&at(1), "new");
    refused.guards.push(Guard::Absent(at(1)));
    cached.commit(&[refused, put(&at(2), "two")]).await.unwrap();
    assert!(!knows(&cache, &at(1)) && knows(&cache, &at(2)));
    assert_eq!(get(&cached, &at(1)).await.unwrap(), "old");
}

#[tokio::test(start_paused = true)]
async fn a_late_batch_is_seen() {
    let (store, cache, cached) = authoritative();
    cached.commit(&[put(&at(1), "old")]).await.unwrap();
    store.inject(None, Fault::Delayed);
    let error = cached.commit(&[put(&at(1), "late")]).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unknown);
    assert_eq!(get(&cached, &at(1)).await.unwrap(), "old");
    store.deliver().await;
    assert_eq!(store.fired(), 1);
    assert_eq!(get(&cached, &at(1)).await.unwrap(), "late");
    assert!(!knows(&cache, &at(1)), "it is never known again");
    cached.commit(&[put(&at(1), "again")]).await.unwrap();
    assert!(!knows(&cache, &at(1)));
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_a_dropped_caller_is_seen() {
    let (store, cache, cached) = authoritative();
    cached.commit(&[put(&at(1), "old")]).await.unwrap();
    store.inject(None, Fault::Hang);
    let plans = [put(&at(1), "new")];
    let left = tokio::time::timeout(Duration::from_secs(1), cached.commit(&plans)).await;
    left.expect_err("it hangs");
    assert_eq!(store.fired(), 1);
    assert_eq!(get(&cached, &at(1)).await.unwrap(), "new");
    assert!(!knows(&cache, &at(1)));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_never_commits_leaves_a_hint() {
    let (store, cache, cached) = authoritative();
    cached.commit(&[put(&at(1), "old")]).await.unwrap();
    store.inject(None, Fault::Unavailable);
    cached.commit(&[put(&at(1), "new")]).await.unwrap_err();
    assert_eq!(store.fired(), 1);
    assert_eq!(get(&cached, &at(1)).await.unwrap(), "old");
    assert!(knows(&cache, &at(1)), "a later read is current");
}

#[tokio::test(start_paused = true)]
async fn a_followed_record_is_answered_from_the_cache() {
    let (_store, cache, cached) = authoritative();
    let name = key::dentry(Ino::ROOT, b"name");
    let mut bytes = vec![0; usize::from(key::dentry_to_inode().offset)];
    bytes.extend_from_slice(&7_u64.to_be_bytes());
    let bind = Write::Put(name.clone(), bytes.into());
    cached.commit(&[Plan { guards: Vec::new(), writes: vec![bind] }]).await.unwrap();
    let follow = |bytes_max| {
        let follow = Some(Follow { bytes_max, ..key::dentry_to_inode() });
        [Read::Record { key: name.clone(), follow }]
    };
    let target = |found: Option<Vec<ReadResult>>| match found.map(|mut found| found.remove(0)) {
        Some(ReadResult::Record(Some(entry))) => Some(entry.target),
        None => None,
        found => panic!("{found:?}"),
    };
    assert_eq!(target(cache.answer(&follow(None))), None, "the target is not known");
    cached.commit(&[put(&at(7), "target")]).await.unwrap();
    let whole = Target::Whole(Bytes::from_static(b"target"));
    assert_eq!(target(cache.answer(&follow(None))), Some(whole));
    let cut = target(cache.answer(&follow(Some(3)))).unwrap();
    assert_eq!(cut.first_bytes(), Some(&b"tar"[..]));
    assert_eq!(cut.whole(), None);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let (_store, cache, cached) = authoritative();
    let large = Bytes::from(vec![0; usize::try_from(CURRENT_VALUE_BYTES_MAX).unwrap() + 1]);
    let plan = Plan { guards: Vec::new(), writes: vec![Write::Put(at(1), large)] };
    cached.commit(&[plan]).await.unwrap();
    assert!(!knows(&cache, &at(1)), "it is too large");
    for number in 0..20_000 {
        let plans = [put(&at(number), "x")];
        cache.begin_batch(&plans).decided(&plans, &[Verdict::Committed]);
    }
    let known = (0..20_000).filter(|number| knows(&cache, &at(*number))).count();
    assert!(known > 1_000 && known < (1 << 20) / 160, "{known} are known");
}

/// Two batches that write one record have unknown outcomes, and become known one after the other.
#[tokio::test(start_paused = true)]
async fn a_record_is_known_again_when_all_unknown_outcomes_are_known() {
    let (store, cache, cached) = authoritative();
    store.commit_now(&[put(&at(1), "one")]).await;
    for _ in 0..2 {
        drop(cache.begin_batch(&[put(&at(1), "two")]));
    }
    get(&cached, &at(1)).await;
    assert!(!knows(&cache, &at(1)), "it may change at any time");
    cache.unknown_batch_settled(&[at(1)]);
    get(&cached, &at(1)).await;
    assert!(!knows(&cache, &at(1)), "the other batch may still commit");
    let reading = cache.begin_read();
    let found = store.read(&asks(&at(1))).await.unwrap();
    cache.unknown_batch_settled(&[at(1)]);
    reading.found(&asks(&at(1)), &found);
    assert!(!knows(&cache, &at(1)), "the read may have been before the commit");
    get(&cached, &at(1)).await;
    assert!(knows(&cache, &at(1)));
    assert_eq!(cache.currency.in_flight().held().0, 0);
}

#[tokio::test(start_paused = true)]
async fn too_many_unknown_outcomes_disable_current_entries() {
    let (_store, cache, cached) = authoritative();
    cached.commit(&[put(&at(1), "one")]).await.unwrap();
    for number in 0..=UNKNOWN_KEYS_MAX as u64 {
        assert!(knows(&cache, &at(1)), "{number} doubts are bearable");
        drop(cache.begin_batch(&[put(&at(10 + number), "x")]));
    }
    assert!(cache.currency.in_flight().held().0 <= UNKNOWN_KEYS_MAX);
    assert!(!knows(&cache, &at(1)));
    cached.commit(&[put(&at(1), "two")]).await.unwrap();
    get(&cached, &at(1)).await;
    cache.end_authority();
    cache.extend_authority(for_long(), Basis::Alone);
    get(&cached, &at(1)).await;
    assert!(!knows(&cache, &at(1)));
}

#[tokio::test(start_paused = true)]
async fn keys_written_during_reads_are_bounded() {
    let (store, cache, cached) = authoritative();
    store.commit_now(&[put(&at(1), "old")]).await;
    let reading = cache.begin_read();
    let found = store.read(&asks(&at(1))).await.unwrap();
    cached.commit(&[put(&at(1), "new")]).await.unwrap();
    cache.entries.remove(&at(1));
    for number in 0..2 * WRITTEN_KEYS_MAX as u64 {
        let plans = [put(&at(10 + number), "x")];
        cache.begin_batch(&plans).decided(&plans, &[Verdict::Committed]);
    }
    assert!(cache.currency.in_flight().held().1 <= WRITTEN_KEYS_MAX);
    reading.found(&asks(&at(1)), &found);
    assert!(!knows(&cache, &at(1)), "no session remembers the write");
    assert_eq!(cache.currency.in_flight().held().1, 0);
    assert_eq!(get(&cached, &at(1)).await.unwrap(), "new");
}

#[tokio::test(start_paused = true)]
async fn without_a_cache_every_read_asks_the_store() {
    let cache = RecordCache::new(0, true);
    let store = Arc::new(MemoryStore::new());
    let cached = behind(&cache, store);
    cache.extend_authority(for_long(), Basis::Alone);
    cached.commit(&[put(&at(1), "one")]).await.unwrap();
    get(&cached, &at(1)).await.unwrap();
    assert!(!knows(&cache, &at(1)));
}
