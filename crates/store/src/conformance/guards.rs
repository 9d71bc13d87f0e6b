//! Guards: each kind, when it holds and when it fails, and the record that a refusal returns.

use super::{check_record, decide, decide_one, equals, key, plan, point, put, refused, write};
use crate::{Guard, MetaStore, Verdict, Write};

/// `Equals` holds for the same bytes only. Its refusal returns the record that was found.
pub async fn equals_compares_bytes(store: &dyn MetaStore) {
    let at = key(1, "a");
    write(store, [put(at.clone(), "now")]).await;
    write(store, [put(key(1, "empty"), "")]).await;
    for other in ["", "no", "now ", "NOW", "now\0"] {
        let tried = plan([equals(at.clone(), other)], [put(at.clone(), "then")]);
        assert_eq!(decide_one(store, tried).await, refused(0, Some(b"now")), "against {other:?}");
    }
    let missing = plan([equals(key(1, "b"), "now")], [put(at.clone(), "then")]);
    assert_eq!(decide_one(store, missing).await, refused(0, None));
    let nothing = plan([equals(key(1, "b"), "")], [put(at.clone(), "then")]);
    assert_eq!(decide_one(store, nothing).await, refused(0, None), "no record is no empty record");
    let empty = plan([equals(key(1, "empty"), "")], []);
    assert_eq!(decide_one(store, empty).await, Verdict::Committed);
    let same = plan([equals(at.clone(), "now")], [put(at.clone(), "then")]);
    assert_eq!(decide_one(store, same).await, Verdict::Committed);
    check_record(store, &at, Some(b"then")).await;
}

/// `Absent` and `Present` are opposites. The refusal of `Absent` returns the record that was found.
pub async fn absent_and_present_look_for_a_record(store: &dyn MetaStore) {
    let (there, gone) = (point(1), point(2));
    write(store, [put(there.clone(), "there"), put(gone.clone(), "gone")]).await;
    write(store, [Write::Delete(gone.clone())]).await;
    write(store, [put(point(3), "")]).await;
    let verdicts = decide(
        store,
        &[
            plan([Guard::Absent(gone.clone())], []),
            plan([Guard::Absent(there.clone())], []),
            plan([Guard::Absent(point(3))], []),
            plan([Guard::Present(there)], []),
            plan([Guard::Present(gone)], []),
            plan([Guard::Present(point(3))], []),
        ],
    )
    .await;
    let expected = [
        Verdict::Committed,
        refused(0, Some(b"there")),
        refused(0, Some(b"")),
        Verdict::Committed,
        refused(0, None),
        Verdict::Committed,
    ];
    assert_eq!(verdicts, expected);
}

/// `Empty` holds if no record is within its bounds.
pub async fn empty_looks_at_a_range(store: &dyn MetaStore) {
    write(store, [put(key(1, "m"), "m"), put(key(3, "x"), "x")]).await;
    let verdicts = decide(
        store,
        &[
            plan([Guard::Empty(key(1, ""), key(2, ""))], []),
            plan([Guard::Empty(key(2, ""), key(3, ""))], []),
            plan([Guard::Empty(key(1, ""), key(1, "m"))], []),
            plan([Guard::Empty(key(1, "m\0"), key(2, ""))], []),
            plan([Guard::Empty(key(1, "m"), key(1, "m\0"))], []),
            plan([Guard::Empty(key(1, "m"), key(1, "m"))], []),
        ],
    )
    .await;
    let expected = [
        refused(0, None),
        Verdict::Committed,
        Verdict::Committed,
        Verdict::Committed,
        refused(0, None),
        Verdict::Committed,
    ];
    assert_eq!(verdicts, expected);
}

/// A refusal has the index of the first guard, in the plan's order, that did not hold.
pub async fn the_first_guard_that_fails_is_reported(store: &dyn MetaStore) {
    write(store, [put(key(1, "a"), "A"), put(key(1, "b"), "B")]).await;
    let holding = [
        Guard::Present(key(1, "a")),
        equals(key(1, "b"), "B"),
        Guard::Absent(key(1, "c")),
        Guard::Empty(key(2, ""), key(3, "")),
    ];
    let failing = [
        (Guard::Absent(key(1, "b")), refused(4, Some(b"B"))),
        (equals(key(1, "a"), "?"), refused(4, Some(b"A"))),
        (Guard::Present(key(1, "c")), refused(4, None)),
        (Guard::Empty(key(1, ""), key(2, "")), refused(4, None)),
    ];
    for (guard, expected) in &failing {
        let mut guards = holding.to_vec();
        guards.push(guard.clone());
        guards.extend(failing.iter().map(|(guard, _)| guard.clone()));
        let verdict = decide_one(store, plan(guards, [put(key(1, "z"), "")])).await;
        assert_eq!(&verdict, expected, "{guard:?}");
    }
    check_record(store, &key(1, "z"), None).await;
}

/// In a plan with many guards, any of them can refuse the plan.
pub async fn every_guard_of_a_plan_counts(store: &dyn MetaStore) {
    const GUARDS: u64 = 40;
    let writes: Vec<_> = (0..GUARDS).map(|number| put(point(number), [7])).collect();
    write(store, writes).await;
    for wrong in 0..GUARDS {
        let guards: Vec<_> = (0..GUARDS)
            .map(|number| equals(point(number), [if number == wrong { 8 } else { 7 }]))
            .collect();
        let verdict = decide_one(store, plan(guards, [put(point(99), "")])).await;
        assert_eq!(verdict, refused(usize::try_from(wrong).expect("small"), Some(&[7])));
    }
    let guards: Vec<_> = (0..GUARDS).map(|number| equals(point(number), [7])).collect();
    assert_eq!(decide_one(store, plan(guards, [put(point(99), "")])).await, Verdict::Committed);
}
