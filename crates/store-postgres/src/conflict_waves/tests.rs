use store::{CounterKey, Guard, Key, Plan, Space, Value, Verdict, Write};

use super::{ConflictWaves, lock_hash, locks, waves};

fn key(name: &str) -> Key {
    Key::new(Space(b'd'), 1, name.as_bytes())
}

fn put(name: &str) -> Write {
    Write::Put(key(name), Value::from_static(b"x"))
}

fn absent(name: &str) -> Guard {
    Guard::Absent(key(name))
}

fn plan(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Plan {
    Plan { guards: guards.into(), writes: writes.into() }
}

/// With another hash, processes of two versions would not exclude each other.
#[test]
fn the_lock_hash_of_a_key_never_changes() {
    let hashes = ["", "a", "b"].map(|name| lock_hash(&key(name)));
    assert_eq!(hashes, [1_613_153_622, 1_718_049_629, 1_718_052_360]);
}

#[test]
fn plans_that_share_only_guarded_records_are_one_wave() {
    let shared = Guard::Present(key("parent"));
    let add = |by| Write::Add(CounterKey(key("count")), by);
    let plans =
        ["a", "b", "c"].map(|name| plan([shared.clone(), absent(name)], [put(name), add(1)]));
    assert_eq!(waves(&plans), [0, 0, 0]);
    let batch = ConflictWaves::of(&plans);
    assert_eq!(batch.ends, [[4, 6, 3, 0]], "the shared guard is asked once");
    assert_eq!(batch.locks.len(), 4);
    assert_eq!(batch.locks.iter().filter(|(_, written)| *written).count(), 3);
}

#[test]
fn a_plan_is_in_the_wave_after_its_last_conflict() {
    let range = || Guard::Empty(key("b"), key("d"));
    let plans = [
        plan([absent("a")], [put("a")]),
        plan([absent("a")], [put("b")]),
        plan([], [put("x")]),
        plan([range()], [put("y")]),
        plan([absent("z")], [put("c")]),
        plan([], [put("z")]),
        plan([], [Write::Delete(key("d"))]),
    ];
    assert_eq!(waves(&plans), [0, 1, 0, 2, 3, 4, 0]);
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % sides
    }

    fn name(&mut self) -> Key {
        Key::new(Space(b'd'), 1, &[u8::try_from(self.below(6)).expect("small")])
    }

    fn plan(&mut self) -> Plan {
        let guards = (0..self.below(3)).map(|_| match self.below(3) {
            0 => Guard::Absent(self.name()),
            1 => Guard::Equals(self.name(), Value::new()),
            _ => {
                let (a, b) = (self.name(), self.name());
                Guard::Empty(a.clone().min(b.clone()), a.max(b))
            }
        });
        let guards: Vec<_> = guards.collect();
        let writes: Vec<_> = (0..self.below(2)).map(|_| Write::Delete(self.name())).collect();
        Plan { guards, writes }
    }
}

/// Returns true if one plan writes a record that the other writes or guards.
fn conflict(a: &Plan, b: &Plan) -> bool {
    let written = |plan: &Plan| -> Vec<Key> {
        let keys = plan.writes.iter().map(|write| match write {
            Write::Delete(key) | Write::Put(key, _) => key.clone(),
            other => unreachable!("{other:?}"),
        });
        keys.collect()
    };
    let looks_at = |plan: &Plan, key: &Key| {
        plan.guards.iter().any(|guard| match guard {
            Guard::Equals(at, _) | Guard::Absent(at) | Guard::Present(at) => at == key,
            Guard::Empty(start, end) => start <= key && key < end,
            Guard::AtMost(..) => false,
        })
    };
    let one_way = |a: &Plan, b: &Plan| {
        written(a).iter().any(|key| looks_at(b, key) || written(b).contains(key))
    };
    one_way(a, b) || one_way(b, a)
}

/// Compares with the definition, plan against plan.
#[test]
fn waves_agree_with_their_definition() {
    let mut dice = Dice(7);
    let mut highest = 0;
    for _ in 0..500 {
        let plans: Vec<Plan> = (0..dice.below(12)).map(|_| dice.plan()).collect();
        let mut expected: Vec<usize> = Vec::new();
        for (at, plan) in plans.iter().enumerate() {
            let earlier = plans[..at].iter().zip(&expected);
            let after =
                earlier.filter(|(other, _)| conflict(other, plan)).map(|(_, wave)| wave + 1);
            expected.push(after.max().unwrap_or(0));
        }
        assert_eq!(waves(&plans), expected, "{plans:#?}");
        highest = highest.max(expected.into_iter().max().unwrap_or(0));
    }
    assert!(highest > 2, "plans did conflict");
}

#[test]
fn counter_changes_of_several_kinds_keep_their_order() {
    let at = |name: &str| CounterKey(key(name));
    let batch = ConflictWaves::of(&[
        plan([], [Write::Add(at("n"), 1), Write::Max(at("t"), 5), Write::Set(at("s"), 1)]),
        plan([], [Write::Add(at("n"), 2), Write::Max(at("t"), 4), Write::Clear(at("c"))]),
        plan([], [Write::Add(at("x"), 2), Write::Set(at("y"), 4), Write::Max(at("z"), -1)]),
        plan([], [Write::Max(at("x"), 2), Write::Set(at("y"), 5)]),
    ]);
    let kinds: Vec<i32> = batch.changes.iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [0, 1, 2, 0, 1, 3, 10, 12, 11, 11, 12]);
    assert_eq!(batch.kinds, 0b1_1111);
    assert_eq!(batch.locks, [], "counters are not locked");
}

#[test]
fn a_verdict_names_the_first_guard_that_failed() {
    let plans = [
        plan([absent("a"), absent("b")], [put("c")]),
        plan([absent("b"), absent("a")], [put("d")]),
        plan([], [put("e")]),
        plan([absent("c")], []),
    ];
    let batch = ConflictWaves::of(&plans);
    assert_eq!(batch.conditions.len(), 3);
    let refused = |guard, found: Option<&'static [u8]>| Verdict::Refused {
        guard,
        found: found.map(Value::from_static),
    };
    let verdicts = batch.verdicts(&[1, 0], vec![Some(b"B".to_vec()), Some(b"A".to_vec())]);
    let expected =
        [refused(0, Some(b"A")), refused(0, Some(b"B")), Verdict::Committed, Verdict::Committed];
    assert_eq!(verdicts.as_deref(), Some(&expected[..]));
    let verdicts = batch.verdicts(&[1], vec![None]).expect("verdicts");
    assert_eq!(verdicts[..2], [refused(1, None), refused(0, None)]);
    assert_eq!(batch.verdicts(&[], vec![]), Some(vec![Verdict::Committed; 4]));
    assert_eq!(batch.verdicts(&[9], vec![None]), None);
    assert_eq!(batch.verdicts(&[-1], vec![None]), None);
    assert_eq!(batch.verdicts(&[1], vec![]), None);
}

#[test]
fn locks_are_sorted_and_exclusive_for_written_keys() {
    let plans = [plan([absent("a"), absent("b")], []), plan([], [put("b"), put("c")])];
    let found = locks(&plans);
    let mut expected: Vec<(i32, bool)> =
        [("a", false), ("b", true), ("c", true)].map(|(name, w)| (lock_hash(&key(name)), w)).into();
    expected.sort_unstable();
    assert_eq!(found, expected);
}
