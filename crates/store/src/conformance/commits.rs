//! Batches: each plan is atomic, decided by itself, in the order of the batch.

use super::{
    check_record, counter, decide, equals, key, number, plan, put, refused, suffixes, write,
};
use crate::{Guard, MetaStore, Plan, Verdict, Write};

/// A refused plan writes nothing, neither before nor after the guard that failed.
pub async fn refused_plans_write_nothing(store: &dyn MetaStore) {
    write(store, [put(key(1, "old"), "old"), put(key(1, "doomed"), "stays")]).await;
    let tried = plan(
        [Guard::Present(key(1, "old")), Guard::Absent(key(1, "old"))],
        [
            put(key(1, "new"), "new"),
            put(key(1, "old"), "changed"),
            Write::Delete(key(1, "doomed")),
            Write::Add(counter(1, "n"), 5),
        ],
    );
    assert_eq!(decide(store, &[tried]).await, [refused(1, Some(b"old"))]);
    assert_eq!(suffixes(store, key(1, ""), key(2, ""), 9).await, [&b"doomed"[..], b"old"]);
    check_record(store, &key(1, "old"), Some(b"old")).await;
    assert_eq!(number(store, &counter(1, "n")).await, 0);
}

/// The plans before and after a refused plan are committed as if it did not exist.
pub async fn refused_plans_leave_their_neighbours_alone(store: &dyn MetaStore) {
    let plans: Vec<Plan> = (0..20_u8)
        .map(|turn| {
            let guard = if turn % 3 == 1 {
                Guard::Present(key(1, "never"))
            } else {
                Guard::Absent(key(1, "never"))
            };
            plan([guard], [put(key(1, [turn]), [turn]), Write::Add(counter(1, "n"), 1)])
        })
        .collect();
    let verdicts = decide(store, &plans).await;
    for (turn, verdict) in (0..20_u8).zip(&verdicts) {
        let committed = turn % 3 != 1;
        let expected = if committed { Verdict::Committed } else { refused(0, None) };
        assert_eq!(verdict, &expected, "plan {turn}");
        check_record(store, &key(1, [turn]), committed.then_some(&[turn][..])).await;
    }
    assert_eq!(number(store, &counter(1, "n")).await, 13);
}

/// The guards of a plan see the writes of the earlier plans of its batch.
pub async fn later_plans_see_earlier_ones(store: &dyn MetaStore) {
    let at = key(1, "a");
    let verdicts = decide(
        store,
        &[
            plan([Guard::Absent(at.clone())], [put(at.clone(), "1")]),
            plan([Guard::Absent(at.clone())], [put(at.clone(), "lost")]),
            plan([equals(at.clone(), "1")], [put(at.clone(), "2")]),
            plan([equals(at.clone(), "1")], [put(at.clone(), "lost")]),
            plan([Guard::Present(at.clone())], [Write::Delete(at.clone())]),
            plan([equals(at.clone(), "2")], [put(at.clone(), "lost")]),
            plan([Guard::Absent(at.clone())], [put(at.clone(), "3")]),
        ],
    )
    .await;
    let expected = [
        Verdict::Committed,
        refused(0, Some(b"1")),
        Verdict::Committed,
        refused(0, Some(b"2")),
        Verdict::Committed,
        refused(0, None),
        Verdict::Committed,
    ];
    assert_eq!(verdicts, expected);
    check_record(store, &at, Some(b"3")).await;
}

/// `Empty` counts the puts of earlier plans, and not the records that they deleted.
pub async fn empty_sees_earlier_plans(store: &dyn MetaStore) {
    let within = || Guard::Empty(key(1, ""), key(2, ""));
    write(store, ["a", "b", "c"].map(|name| put(key(1, name), name))).await;
    let verdicts = decide(
        store,
        &[
            plan([within()], []),
            plan([], [Write::Delete(key(1, "a")), Write::Delete(key(1, "c"))]),
            plan([within()], []),
            plan([Guard::Present(key(9, "not there"))], [Write::Delete(key(1, "b"))]),
            plan([within()], []),
            plan([], [Write::Delete(key(1, "b"))]),
            plan([within()], []),
            plan([within()], [put(key(1, "d"), "d")]),
            plan([within()], []),
            plan([], [Write::Delete(key(1, "d"))]),
            plan([within()], [put(key(3, "done"), "")]),
        ],
    )
    .await;
    let committed: Vec<bool> =
        verdicts.iter().map(|verdict| *verdict == Verdict::Committed).collect();
    assert_eq!(committed, [false, true, false, false, false, true, true, true, false, true, true]);
    assert!(suffixes(store, key(1, ""), key(2, ""), 9).await.is_empty());
    check_record(store, &key(3, "done"), Some(b"")).await;
}

/// For each record the last write of a batch wins.
pub async fn the_last_write_of_a_batch_wins(store: &dyn MetaStore) {
    write(store, [put(key(1, "a"), "before"), put(key(1, "b"), "before")]).await;
    let plans = [
        plan([], [put(key(1, "a"), "1"), Write::Delete(key(1, "b")), put(key(1, "c"), "1")]),
        plan([], [Write::Delete(key(1, "a")), put(key(1, "b"), "2"), put(key(1, "c"), "2")]),
        plan([], [Write::Delete(key(1, "never"))]),
    ];
    assert_eq!(decide(store, &plans).await, vec![Verdict::Committed; 3]);
    check_record(store, &key(1, "a"), None).await;
    check_record(store, &key(1, "b"), Some(b"2")).await;
    check_record(store, &key(1, "c"), Some(b"2")).await;
}

/// An empty batch has no verdicts; a plan without guards and writes is committed.
pub async fn empty_batches_and_plans_are_committed(store: &dyn MetaStore) {
    assert!(decide(store, &[]).await.is_empty());
    assert_eq!(
        decide(store, &[Plan::default(), Plan::default()]).await,
        vec![Verdict::Committed; 2]
    );
}
