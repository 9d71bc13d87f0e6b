use super::*;
use crate::Space;

fn tally(number: u64) -> TallyKey {
    TallyKey(Key::new(Space(b't'), number, b""))
}

fn apply(was: i64, change: TallyChange) -> i64 {
    match change {
        TallyChange::To(number) => number,
        TallyChange::By { add, floor } => (was + add).max(floor.unwrap_or(i64::MIN)),
    }
}

/// Every sequence of four changes, folded, does what the changes do one after another.
#[test]
fn folded_changes_do_what_the_changes_do() {
    let all = |key: &TallyKey| {
        [
            Write::Add(key.clone(), 5),
            Write::Add(key.clone(), -7),
            Write::Max(key.clone(), 3),
            Write::Max(key.clone(), -3),
            Write::Set(key.clone(), 2),
            Write::Clear(key.clone()),
        ]
    };
    let key = tally(1);
    for number in 0..6_usize.pow(4) {
        let writes = (0..4).map(|place| all(&key)[number / 6_usize.pow(place) % 6].clone());
        let plans: Vec<_> =
            writes.map(|write| Plan { guards: Vec::new(), writes: vec![write] }).collect();
        for was in [-10, 0, 1, 10] {
            let mut expected = was;
            for plan in &plans {
                expected = match plan.writes[0] {
                    Write::Add(_, by) => expected + by,
                    Write::Max(_, least) => expected.max(least),
                    Write::Set(_, number) => number,
                    _ => 0,
                };
            }
            let changes = tally_changes(&plans);
            assert_eq!(apply(was, changes[&key]), expected, "{was}, then {plans:?}");
        }
    }
}

#[test]
fn each_tally_has_its_own_change() {
    let plan = Plan {
        guards: Vec::new(),
        writes: vec![Write::Add(tally(1), 1), Write::Max(tally(2), 9), Write::Delete(tally(3).0)],
    };
    let changes = tally_changes([&plan, &plan]);
    assert_eq!(changes.len(), 2);
    assert_eq!(changes[&tally(1)], TallyChange::By { add: 2, floor: None });
    assert_eq!(changes[&tally(2)], TallyChange::By { add: 0, floor: Some(9) });
}
