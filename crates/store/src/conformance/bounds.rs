//! Bounded counters: [`Guard::AtMost`] compares the counter after the plan's own addition.

use futures::future::join_all;

use super::{
    check_malformed_plans, check_record, counter, decide, decide_one, equals, key, number, plan,
    put, refused, write,
};
use crate::{COUNTER_MAX, Guard, MetaStore, Verdict, Write};

/// The guard holds if the sum equals the bound, and refuses the plan if the sum exceeds it.
pub async fn a_bound_counts_the_plans_addition(store: &dyn MetaStore) {
    let at = counter(1, "n");
    let within = |most| Guard::AtMost(at.clone(), most);
    write(store, [Write::Set(at.clone(), 7)]).await;
    let over = plan([within(9)], [Write::Add(at.clone(), 3), put(key(1, "over"), "")]);
    assert_eq!(decide_one(store, over).await, refused(0, None));
    check_record(store, &key(1, "over"), None).await;
    assert_eq!(number(store, &at).await, 7);
    let full = plan([within(9)], [Write::Add(at.clone(), 2), put(key(1, "full"), "")]);
    assert_eq!(decide_one(store, full).await, Verdict::Committed);
    check_record(store, &key(1, "full"), Some(b"")).await;
    assert_eq!(number(store, &at).await, 9);
    // Without an addition the guard compares the counter itself.
    assert_eq!(decide_one(store, plan([within(9)], [])).await, Verdict::Committed);
    assert_eq!(decide_one(store, plan([within(8)], [])).await, refused(0, None));
    let other = plan([within(8)], [Write::Add(counter(1, "other"), 1)]);
    assert_eq!(decide_one(store, other).await, refused(0, None));
    let last = plan([equals(key(1, "full"), ""), within(9), within(8)], [put(key(1, "last"), "")]);
    assert_eq!(decide_one(store, last).await, refused(2, None), "the guard that fails is named");
}

/// A subtraction can bring a counter below its bound, or not far enough.
pub async fn a_bound_counts_subtractions(store: &dyn MetaStore) {
    let at = counter(1, "n");
    write(store, [Write::Set(at.clone(), 10)]).await;
    let less = |by: i64| plan([Guard::AtMost(at.clone(), 5)], [Write::Add(at.clone(), by)]);
    assert_eq!(decide_one(store, less(-4)).await, refused(0, None));
    assert_eq!(number(store, &at).await, 10);
    assert_eq!(decide_one(store, less(-5)).await, Verdict::Committed);
    assert_eq!(number(store, &at).await, 5);
    let below = plan([Guard::AtMost(at.clone(), -1)], [Write::Add(at.clone(), -5)]);
    assert_eq!(decide_one(store, below).await, refused(0, None));
    let below = plan([Guard::AtMost(at.clone(), -1)], [Write::Add(at.clone(), -6)]);
    assert_eq!(decide_one(store, below).await, Verdict::Committed);
    assert_eq!(number(store, &at).await, -1);
}

/// A counter that was never written is 0.
pub async fn a_bound_counts_a_missing_counter_as_zero(store: &dyn MetaStore) {
    let within = |name: &str, most| Guard::AtMost(counter(1, name), most);
    let verdicts = decide(
        store,
        &[
            plan([within("a", 0)], []),
            plan([within("a", -1)], []),
            plan([within("a", 2)], [Write::Add(counter(1, "a"), 3)]),
            plan([within("b", 3)], [Write::Add(counter(1, "b"), 3)]),
        ],
    )
    .await;
    let expected = [Verdict::Committed, refused(0, None), refused(0, None), Verdict::Committed];
    assert_eq!(verdicts, expected);
    assert_eq!(number(store, &counter(1, "a")).await, 0);
    assert_eq!(number(store, &counter(1, "b")).await, 3);
    // A batch of one plan: engines may have a separate path for it.
    let first = plan([within("c", 1)], [Write::Add(counter(1, "c"), 2)]);
    assert_eq!(decide_one(store, first).await, refused(0, None));
    let first = plan([within("c", 2)], [Write::Add(counter(1, "c"), 2)]);
    assert_eq!(decide_one(store, first).await, Verdict::Committed);
    write(store, [Write::Clear(counter(1, "c"))]).await;
    assert_eq!(decide_one(store, plan([within("c", 0)], [])).await, Verdict::Committed);
    let most = plan([within("d", COUNTER_MAX)], [Write::Add(counter(1, "d"), COUNTER_MAX)]);
    assert_eq!(decide_one(store, most).await, Verdict::Committed);
}

/// Each plan of a batch counts the additions of the committed plans before it.
pub async fn a_bound_sees_earlier_plans(store: &dyn MetaStore) {
    let at = counter(1, "n");
    let add = |by: i64, name: &str| {
        plan([Guard::AtMost(at.clone(), 10)], [Write::Add(at.clone(), by), put(key(1, name), "")])
    };
    let verdicts = decide(store, &[add(6, "a"), add(5, "b"), add(4, "c"), add(1, "d")]).await;
    let expected = [Verdict::Committed, refused(0, None), Verdict::Committed, refused(0, None)];
    assert_eq!(verdicts, expected);
    assert_eq!(number(store, &at).await, 10);
    check_record(store, &key(1, "b"), None).await;
    check_record(store, &key(1, "c"), Some(b"")).await;
    // A subtraction makes capacity for later plans, not for earlier ones.
    let taken = plan([], [Write::Add(at.clone(), -3)]);
    let verdicts = decide(store, &[add(2, "e"), taken, add(2, "f"), add(2, "g")]).await;
    let expected = [refused(0, None), Verdict::Committed, Verdict::Committed, refused(0, None)];
    assert_eq!(verdicts, expected);
    // The same holds for plans that set or raise the counter.
    let set = plan([], [Write::Set(at.clone(), 8)]);
    let raised = plan([], [Write::Max(at.clone(), 9)]);
    let verdicts = decide(store, &[set, add(1, "h"), add(2, "i"), raised, add(1, "j")]).await;
    let holds = [true, true, false, true, true]
        .map(|holds| if holds { Verdict::Committed } else { refused(0, None) });
    assert_eq!(verdicts, holds);
    assert_eq!(number(store, &at).await, 10);
    // A plan that another guard refuses adds nothing. A plan that the bound refuses does not hide
    // the plans after it.
    write(store, [Write::Set(at.clone(), 0)]).await;
    let elsewhere = plan([equals(key(9, "none"), "")], [Write::Add(at.clone(), 9)]);
    let after = plan([equals(key(1, "k"), "")], [put(key(1, "l"), "")]);
    let verdicts = decide(store, &[elsewhere, add(10, "k"), after, add(1, "m")]).await;
    let expected = [refused(0, None), Verdict::Committed, Verdict::Committed, refused(0, None)];
    assert_eq!(verdicts, expected);
}

/// If many plans race for the remaining capacity of a counter, exactly as many are committed as
/// fit. The plans also change other counters, in different orders, and some subtract meanwhile.
pub async fn concurrent_additions_never_exceed_a_bound(store: &dyn MetaStore) {
    check_concurrent_additions(store, store).await;
}

/// The same for callers of two stores over one database.
pub async fn check_concurrent_additions(one: &dyn MetaStore, other: &dyn MetaStore) {
    const RACERS: u8 = 24;
    const ROOM: i64 = 7;
    for round in 0..12_u64 {
        let (at, beside) = (counter(round, "n"), [counter(round, "a"), counter(round, "z")]);
        let most = if round % 2 == 0 { ROOM } else { ROOM + 3 };
        if round % 2 == 1 {
            write(one, [Write::Set(at.clone(), 3)]).await;
        }
        let racers = (0..RACERS).map(|racer| {
            let name = key(round, [racer]);
            let racing = plan(
                [Guard::Absent(name.clone()), Guard::AtMost(at.clone(), most)],
                [
                    put(name, ""),
                    Write::Add(beside[0].clone(), 1),
                    Write::Add(at.clone(), 1),
                    Write::Add(beside[1].clone(), 1),
                ],
            );
            // These plans have no bound and meet the racing plans at the same counters.
            let by = if racer % 2 == 0 { 1 } else { -1 };
            let passing =
                plan([], [Write::Add(beside[1].clone(), by), Write::Add(beside[0].clone(), by)]);
            let store = if racer % 2 == 0 { one } else { other };
            async move {
                let plans = if racer % 3 == 0 { vec![passing, racing] } else { vec![racing] };
                decide(store, &plans).await.pop().expect("a verdict")
            }
        });
        let verdicts = join_all(racers).await;
        let won = verdicts.iter().filter(|verdict| **verdict == Verdict::Committed).count();
        assert_eq!(i64::try_from(won), Ok(ROOM), "round {round}: {verdicts:?}");
        let lost = verdicts.iter().filter(|verdict| **verdict == refused(1, None)).count();
        assert_eq!(won + lost, usize::from(RACERS), "round {round}: {verdicts:?}");
        assert_eq!(number(other, &at).await, most);
    }
}

/// A plan may only add to a counter that it bounds, and the bound is at most `COUNTER_MAX`.
pub async fn a_bounded_counter_that_is_set_is_malformed(store: &dyn MetaStore) {
    let at = counter(1, "n");
    for write in [Write::Set(at.clone(), 1), Write::Max(at.clone(), 1), Write::Clear(at.clone())] {
        check_malformed_plans(store, &[plan([Guard::AtMost(at.clone(), 5)], [write])]).await;
    }
    check_malformed_plans(store, &[plan([Guard::AtMost(at, COUNTER_MAX + 1)], [])]).await;
}
