//! Concurrent calls, and calls whose future is dropped.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::task::Poll;

use futures::future::{FutureExt, join_all};
use futures::pin_mut;

use super::{
    ask, check_record, counter, decide, decide_one, equals, get, key, number, plan, put, range,
    record, refused, suffixes, write,
};
use crate::{Guard, MetaStore, Read, ReadResult, StoreErrorKind, Value, Verdict, Write};

/// After a resolver has marked a slot as aborted, the original plan is refused.
pub async fn a_tombstone_beats_a_late_original(store: &dyn MetaStore) {
    let slot = key(1, "slot");
    write(store, [put(slot.clone(), "v0")]).await;
    let resolver = plan([equals(slot.clone(), "v0")], [put(slot.clone(), "aborted")]);
    let original = plan(
        [equals(slot.clone(), "v0")],
        [
            put(slot.clone(), "v1"),
            put(key(2, "effect"), "happened"),
            Write::Add(counter(2, "n"), 1),
        ],
    );
    assert_eq!(decide_one(store, resolver).await, Verdict::Committed);
    assert_eq!(decide_one(store, original).await, refused(0, Some(b"aborted")));
    check_record(store, &key(2, "effect"), None).await;
    assert_eq!(number(store, &counter(2, "n")).await, 0);
}

/// A resolver that comes after the original plan is refused, and finds that the plan was committed.
/// If both run concurrently, exactly one is committed, and the slot shows which.
pub async fn a_tombstone_after_the_original_is_refused(store: &dyn MetaStore) {
    for turn in 0..50_u64 {
        let slot = key(turn, "slot");
        write(store, [put(slot.clone(), "v0")]).await;
        let original = [plan(
            [equals(slot.clone(), "v0")],
            [put(slot.clone(), "v1"), put(key(turn, "effect"), "")],
        )];
        let resolver = [plan([equals(slot.clone(), "v0")], [put(slot.clone(), "aborted")])];
        let (happened, aborted) = if turn == 0 {
            (decide(store, &original).await, decide(store, &resolver).await)
        } else if turn % 2 == 0 {
            futures::join!(decide(store, &original), decide(store, &resolver))
        } else {
            let (aborted, happened) =
                futures::join!(decide(store, &resolver), decide(store, &original));
            (happened, aborted)
        };
        if happened[0] == Verdict::Committed {
            assert_eq!(aborted, [refused(0, Some(b"v1"))]);
            check_record(store, &slot, Some(b"v1")).await;
            check_record(store, &key(turn, "effect"), Some(b"")).await;
        } else {
            assert!(turn > 0, "the original came first");
            assert_eq!(
                (happened, aborted),
                (vec![refused(0, Some(b"aborted"))], vec![Verdict::Committed])
            );
            check_record(store, &slot, Some(b"aborted")).await;
            check_record(store, &key(turn, "effect"), None).await;
        }
    }
}

/// If many callers create one record concurrently, one succeeds; the others get the record of the
/// winner.
pub async fn racing_creators_have_one_winner(store: &dyn MetaStore) {
    const RACERS: u8 = 32;
    for round in 0..20_u64 {
        let prize = key(round, "prize");
        let verdicts = join_all((0..RACERS).map(|racer| {
            let plan = plan(
                [Guard::Absent(prize.clone())],
                [put(prize.clone(), [racer]), Write::Add(counter(round, "winners"), 1)],
            );
            decide_one(store, plan)
        }))
        .await;
        let winners: Vec<u8> = (0..RACERS)
            .zip(&verdicts)
            .filter(|(_, verdict)| **verdict == Verdict::Committed)
            .map(|(racer, _)| racer)
            .collect();
        assert_eq!(winners.len(), 1, "round {round}");
        check_record(store, &prize, Some(&winners)).await;
        let lost = verdicts.iter().filter(|verdict| **verdict == refused(0, Some(&winners)));
        assert_eq!(lost.count(), usize::from(RACERS) - 1);
        assert_eq!(number(store, &counter(round, "winners")).await, 1);
    }
}

/// The owner of a range may be absent. Plans that rely on the empty range and on the absence of its
/// owner exclude each other. The plan that creates the owner and a plan that guards the absence and
/// writes into the range exclude each other, too.
pub async fn empty_ranges_without_an_owner_exclude_each_other(store: &dyn MetaStore) {
    for round in 0..100_u64 {
        let owner = key(2 * round, "owner");
        let within = |name: &str| key(2 * round + 1, name);
        let absent = Guard::Absent(owner.clone());
        let whole = Guard::Empty(within(""), within("\u{7f}"));
        let relying = [
            plan([absent.clone(), whole.clone()], [put(owner.clone(), "made")]),
            plan([absent.clone(), whole.clone()], [put(within("a"), "first")]),
            plan([absent.clone(), whole], [put(within("b"), "second")]),
        ];
        let writer = plan([absent], [put(within("c"), "any")]);
        let [created, a, b] = relying.map(|plan| decide_one(store, plan));
        let all = futures::join!(created, decide_one(store, writer), a, b);
        let [created, written, a, b] =
            <[Verdict; 4]>::from(all).map(|verdict| verdict == Verdict::Committed);
        let found = suffixes(store, within(""), within("\u{7f}"), 10).await;
        let relied = [created, a, b].into_iter().filter(|committed| *committed).count();
        assert!(relied <= 1 && written != created, "round {round}: {created} {written} {found:?}");
        let there = [(a, b"a"), (b, b"b"), (written, b"c")];
        let there: Vec<_> = there.into_iter().filter(|(there, _)| *there).collect();
        assert_eq!(found, there.into_iter().map(|(_, name)| name).collect::<Vec<_>>());
        assert_eq!(record(store, &owner).await.is_some(), created);
    }
}

/// A number kept by `Equals`, one kept by a counter, and the count of separate records end at the
/// same value.
pub async fn concurrent_batches_lose_no_increment(store: &dyn MetaStore) {
    const TASKS: u8 = 8;
    const EACH: u64 = 25;
    let shared = key(1, "shared");
    write(store, [put(shared.clone(), 0_u64.to_be_bytes())]).await;
    let done: Vec<Vec<u64>> = join_all((0..TASKS).map(|task| {
        let shared = shared.clone();
        async move {
            let mut done = Vec::new();
            let mut seen = record(store, &shared).await.expect("the record is there");
            while (done.len() as u64) < EACH {
                let next = 1 + u64::from_be_bytes(seen[..].try_into().expect("eight bytes"));
                let bytes = next.to_be_bytes();
                let tried = plan(
                    [Guard::Equals(shared.clone(), seen.clone())],
                    [
                        put(shared.clone(), bytes),
                        put(key(2, bytes), [task]),
                        Write::Add(counter(2, "done"), 1),
                    ],
                );
                // The batch also has a plan that is always refused.
                let neighbour = plan([Guard::Absent(shared.clone())], [put(key(3, "never"), "")]);
                match &decide(store, &[neighbour, tried]).await[..] {
                    [Verdict::Refused { .. }, Verdict::Committed] => {
                        done.push(next);
                        seen = Value::copy_from_slice(&bytes);
                    }
                    [
                        Verdict::Refused { .. },
                        Verdict::Refused { guard: 0, found: Some(found) },
                    ] => {
                        seen = found.clone();
                    }
                    other => panic!("not verdicts of these plans: {other:?}"),
                }
            }
            done
        }
    }))
    .await;
    let total = u64::from(TASKS) * EACH;
    let all: BTreeSet<u64> = done.iter().flatten().copied().collect();
    assert_eq!(all, (1..=total).collect(), "each number was given once");
    check_record(store, &shared, Some(&total.to_be_bytes())).await;
    assert_eq!(number(store, &counter(2, "done")).await.unsigned_abs(), total);
    for (task, numbers) in (0..TASKS).zip(&done) {
        for number in numbers {
            check_record(store, &key(2, number.to_be_bytes()), Some(&[task])).await;
        }
    }
    check_record(store, &key(3, "never"), None).await;
}

/// While many callers write pairs of records concurrently, a reader finds only whole pairs, and its
/// own pair at once.
pub async fn concurrent_readers_see_whole_batches(store: &dyn MetaStore) {
    join_all((0..16_u8).map(|task| async move {
        for turn in 0..15_u8 {
            let writes = [put(key(1, [task, turn]), [turn]), put(key(2, [task, turn]), [turn])];
            write(store, [writes[0].clone(), writes[1].clone()]).await;
            let reads = [
                range(key(1, ""), key(2, ""), 1_000),
                range(key(2, ""), key(3, ""), 1_000),
                get(key(2, [task, turn])),
            ];
            let found = ask(store, &reads).await;
            let [ReadResult::Range(left), ReadResult::Range(right), ReadResult::Record(Some(_))] =
                &found[..]
            else {
                panic!("a task does not find its own write: {found:?}")
            };
            let left: Vec<_> = left.iter().map(|entry| entry.key.suffix()).collect();
            let right: Vec<_> = right.iter().map(|entry| entry.key.suffix()).collect();
            assert_eq!(left, right, "half a pair");
        }
    }))
    .await;
}

/// If the future of a commit is dropped, the batch is committed as a whole or not at all, and the
/// store remains usable.
pub async fn a_dropped_commit_is_atomic(store: &dyn MetaStore) {
    for turn in 0..40_u8 {
        let plans =
            [plan([], [put(key(1, [turn]), "left")]), plan([], [put(key(2, [turn]), "right")])];
        {
            let call = store.commit(&plans).fuse();
            let read = [get(key(1, [turn])), Read::Counter(counter(1, "none"))];
            let asked = store.read(&read).fuse();
            pin_mut!(call, asked);
            // Poll the futures a few times, then drop them in the middle of the call.
            for _ in 0..turn % 4 {
                poll_fn(|context| {
                    let _: (Poll<_>, Poll<_>) =
                        (call.as_mut().poll(context), asked.as_mut().poll(context));
                    Poll::Ready(())
                })
                .await;
                if turn % 2 == 0 {
                    break;
                }
            }
        }
        write(store, [put(key(3, [turn]), "after")]).await;
        let found =
            ask(store, &[get(key(1, [turn])), get(key(2, [turn])), get(key(3, [turn]))]).await;
        let there: Vec<bool> =
            found.iter().map(|found| matches!(found, ReadResult::Record(Some(_)))).collect();
        assert_eq!(there[0], there[1], "a batch of one call was torn in turn {turn}");
        assert!(there[2]);
    }
}

/// After `close`, each call fails with `Unavailable`. A second `close` does nothing.
pub async fn a_closed_store_is_unavailable(store: &dyn MetaStore) {
    write(store, [put(key(1, "a"), "")]).await;
    store.close().await;
    let errors = [
        store.read(&[get(key(1, "a"))]).await.expect_err("closed"),
        store.commit(&[plan([], [put(key(1, "b"), "")])]).await.expect_err("closed"),
        store.walk(super::ORDERED, None, 1).await.expect_err("closed"),
        store.walk_counters(super::ORDERED, None, 1).await.expect_err("closed"),
    ];
    for error in errors {
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    }
    store.close().await;
}
