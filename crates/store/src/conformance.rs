//! The conformance suite: functions that check the contract, which the tests of each engine run.
//!
//! Each function gets an empty store of its own, and panics with the difference if an answer is
//! wrong. [`conformance!`](crate::conformance!) makes a test of each function. For example,
//! `equals_compares_bytes` checks that the guard `Equals` holds for the same bytes only.
//!
//! The functions know no runtime: they await futures and start no tasks. Concurrent calls are
//! futures that one task polls together.

mod bounds;
mod commits;
mod counters;
mod feed;
mod guards;
mod limits;
mod model;
mod races;
mod ranges;
mod reads;
mod snapshots;
mod walks;

use crate::{
    CounterKey, Entry, Follow, Guard, Key, MetaStore, Plan, Read, ReadResult, Space,
    StoreErrorKind, Target, Value, Verdict, Write,
};

pub use bounds::*;
pub use commits::*;
pub use counters::*;
pub use feed::*;
pub use guards::*;
pub use limits::*;
pub use model::*;
pub use races::*;
pub use ranges::*;
pub use reads::*;
pub use snapshots::*;
pub use walks::*;

/// Makes one test for each case of the suite, in the module that calls it.
///
/// The first argument is a function or closure that runs a future to its end. The second is an
/// async function that opens an empty engine and returns it in an `Arc`, with a guard that must
/// live as long as the engine, for example a temporary folder.
///
/// ```
/// use std::sync::Arc;
/// async fn fresh() -> (Arc<dyn store::MetaStore>, ()) {
///     (Arc::new(store::MemoryStore::new()), ())
/// }
/// store::conformance!(futures::executor::block_on, fresh);
/// ```
#[macro_export]
macro_rules! conformance {
    ($run:expr, $fresh:path) => {
        $crate::conformance! {
            @cases $run, $fresh =>
            a_whole_partition_is_a_range
            a_range_has_its_bounds_and_its_limit
            ranges_follow_byte_order
            ranges_never_leave_a_partition
            suffixes_may_have_any_bytes
            many_questions_are_answered_in_their_order
            reads_see_acknowledged_commits
            reads_are_snapshots
            point_spaces_hold_records
            a_follow_finds_its_target_or_reports_it_absent
            ranges_follow_each_record
            a_follow_returns_at_most_the_requested_bytes
            ranges_cut_targets_to_the_requested_bytes
            equals_compares_bytes
            absent_and_present_look_for_a_record
            empty_looks_at_a_range
            the_first_guard_that_fails_is_reported
            every_guard_of_a_plan_counts
            refused_plans_write_nothing
            refused_plans_leave_their_neighbours_alone
            later_plans_see_earlier_ones
            empty_sees_earlier_plans
            the_last_write_of_a_batch_wins
            empty_batches_and_plans_are_committed
            counters_add_raise_set_and_clear
            counters_hold_large_and_negative_numbers
            counters_and_records_have_separate_keys
            refused_plans_change_no_counter
            a_bound_counts_the_plans_addition
            a_bound_counts_subtractions
            a_bound_counts_a_missing_counter_as_zero
            a_bound_sees_earlier_plans
            concurrent_additions_never_exceed_a_bound
            a_bounded_counter_that_is_set_is_malformed
            limits_are_large_enough
            values_may_be_empty_or_as_long_as_allowed
            keys_may_be_as_long_as_allowed
            a_full_batch_is_accepted
            a_full_read_is_accepted
            too_large_is_malformed_and_writes_nothing
            a_key_written_twice_is_malformed
            bad_ranges_are_malformed
            bad_follows_are_malformed
            a_walk_returns_the_whole_space
            a_walk_returns_records_that_exist_throughout
            a_walk_over_counters_returns_all_of_them
            changes_are_notified
            refused_plans_and_counters_are_not_notified
            changes_are_notified_once_acknowledged
            a_reader_far_behind_gets_a_gap
            large_batches_are_notified_or_a_gap
            a_foreign_position_is_refused_or_a_gap
            a_snapshot_holds_everything_in_order
            a_snapshot_stays_as_it_was
            a_snapshot_is_of_one_instant
            snapshots_are_independent
            a_tombstone_beats_a_late_original
            a_tombstone_after_the_original_is_refused
            racing_creators_have_one_winner
            empty_ranges_without_an_owner_exclude_each_other
            concurrent_batches_lose_no_increment
            concurrent_readers_see_whole_batches
            a_dropped_commit_is_atomic
            a_closed_store_is_unavailable
            random_batches_agree_with_the_reference
            random_batches_agree_with_their_plans_one_by_one
            follows_return_current_targets
        }
    };
    (@cases $run:expr, $fresh:path => $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                $run(async {
                    let (store, guard) = $fresh().await;
                    $crate::conformance::$case(&*store).await;
                    store.close().await;
                    drop(guard);
                });
            }
        )*
        #[doc(hidden)]
        pub const CONFORMANCE_CASES: &[&str] = &[$(stringify!($case)),*];
    };
}

/// An ordered space.
const ORDERED: Space = Space(b'd');
/// A point space.
const POINT: Space = Space(b'I');

fn key(partition: u64, suffix: impl AsRef<[u8]>) -> Key {
    Key::new(ORDERED, partition, suffix.as_ref())
}

fn point(number: u64) -> Key {
    Key::new(POINT, number, b"")
}

fn counter(partition: u64, suffix: impl AsRef<[u8]>) -> CounterKey {
    CounterKey(key(partition, suffix))
}

fn value(bytes: impl AsRef<[u8]>) -> Value {
    Value::copy_from_slice(bytes.as_ref())
}

fn put(key: Key, bytes: impl AsRef<[u8]>) -> Write {
    Write::Put(key, value(bytes))
}

fn equals(key: Key, bytes: impl AsRef<[u8]>) -> Guard {
    Guard::Equals(key, value(bytes))
}

fn plan(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Plan {
    Plan { guards: guards.into(), writes: writes.into() }
}

fn refused(guard: usize, found: Option<&[u8]>) -> Verdict {
    Verdict::Refused { guard, found: found.map(Value::copy_from_slice) }
}

async fn decide(store: &dyn MetaStore, plans: &[Plan]) -> Vec<Verdict> {
    store.commit(plans).await.expect("a batch within limits is decided")
}

async fn decide_one(store: &dyn MetaStore, plan: Plan) -> Verdict {
    let mut verdicts = decide(store, &[plan]).await;
    assert_eq!(verdicts.len(), 1, "one verdict for each plan");
    verdicts.remove(0)
}

/// Commits writes without guards.
async fn write(store: &dyn MetaStore, writes: impl Into<Vec<Write>>) {
    assert_eq!(decide_one(store, plan([], writes)).await, Verdict::Committed);
}

async fn ask(store: &dyn MetaStore, reads: &[Read]) -> Vec<ReadResult> {
    let found = store.read(reads).await.expect("a read within limits is answered");
    assert_eq!(found.len(), reads.len(), "one answer for each question");
    found
}

async fn ask_one(store: &dyn MetaStore, read: Read) -> ReadResult {
    ask(store, &[read]).await.remove(0)
}

fn get(key: Key) -> Read {
    Read::Record { key, follow: None }
}

fn range(start: Key, end: Key, limit: u32) -> Read {
    Read::Range { start, end, limit, follow: None }
}

fn entry(key: &Key, bytes: impl AsRef<[u8]>) -> Entry {
    Entry { key: key.clone(), value: value(bytes), target: Target::Absent }
}

async fn record(store: &dyn MetaStore, key: &Key) -> Option<Value> {
    match ask_one(store, get(key.clone())).await {
        ReadResult::Record(found) => found.map(|entry| {
            assert_eq!((&entry.key, &entry.target), (key, &Target::Absent));
            entry.value
        }),
        other => panic!("a record was asked for, not {other:?}"),
    }
}

async fn check_record(store: &dyn MetaStore, key: &Key, expected: Option<&[u8]>) {
    assert_eq!(record(store, key).await.as_deref(), expected, "the record {key:?}");
}

async fn number(store: &dyn MetaStore, key: &CounterKey) -> i64 {
    match ask_one(store, Read::Counter(key.clone())).await {
        ReadResult::Counter(number) => number,
        other => panic!("a counter was asked for, not {other:?}"),
    }
}

async fn suffixes(store: &dyn MetaStore, start: Key, end: Key, limit: u32) -> Vec<Vec<u8>> {
    match ask_one(store, range(start, end, limit)).await {
        ReadResult::Range(entries) => {
            entries.iter().map(|entry| entry.key.suffix().to_vec()).collect()
        }
        other => panic!("a range was asked for, not {other:?}"),
    }
}

async fn check_malformed_plans(store: &dyn MetaStore, plans: &[Plan]) {
    let error = store.commit(plans).await.expect_err("the batch is malformed");
    assert_eq!(error.kind(), StoreErrorKind::Malformed, "{error}");
}

async fn check_malformed_reads(store: &dyn MetaStore, reads: &[Read]) {
    let error = store.read(reads).await.expect_err("the read is malformed");
    assert_eq!(error.kind(), StoreErrorKind::Malformed, "{error}");
}

/// A small repeatable random generator (`SplitMix64`): the same seed gives the same numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `sides`, each about equally often.
    fn below(&mut self, sides: u64) -> u64 {
        self.roll() % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let index = usize::try_from(self.below(from.len() as u64)).expect("shorter than memory");
        from[index].clone()
    }
}

/// Returns `Pending` once, so that the other futures of the task make progress. A loop over an
/// engine whose calls never wait would starve them.
async fn give_way() {
    let mut gave = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut gave, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

fn follow(prefix: &[u8], offset: u8, length: u8) -> Follow {
    Follow { prefix: Value::copy_from_slice(prefix), offset, length, bytes_max: None }
}
