use super::*;
use crate::Space;

fn counter(number: u64) -> CounterKey {
    CounterKey(Key::new(Space(b't'), number, b""))
}

fn apply(was: i64, change: CounterChange) -> i64 {
    match change {
        CounterChange::To(number) => number,
        CounterChange::By { add, floor } => (was + add).max(floor.unwrap_or(i64::MIN)),
    }
}

/// For each sequence of four writes, the combined change has the effect of the writes one by one.
#[test]
fn a_combined_change_has_the_effect_of_its_writes() {
    let all = |key: &CounterKey| {
        [
            Write::Add(key.clone(), 5),
            Write::Add(key.clone(), -7),
            Write::Max(key.clone(), 3),
            Write::Max(key.clone(), -3),
            Write::Set(key.clone(), 2),
            Write::Clear(key.clone()),
        ]
    };
    let key = counter(1);
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
            let changes = counter_changes(&plans);
            assert_eq!(apply(was, changes[&key]), expected, "{was}, then {plans:?}");
        }
    }
}

#[test]
fn each_counter_has_its_own_change() {
    let plan = Plan {
        guards: Vec::new(),
        writes: vec![
            Write::Add(counter(1), 1),
            Write::Max(counter(2), 9),
            Write::Delete(counter(3).0),
        ],
    };
    let changes = counter_changes([&plan, &plan]);
    assert_eq!(changes.len(), 2);
    assert_eq!(changes[&counter(1)], CounterChange::By { add: 2, floor: None });
    assert_eq!(changes[&counter(2)], CounterChange::By { add: 0, floor: Some(9) });
}
