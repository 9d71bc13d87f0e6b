use std::collections::BTreeMap;

use futures::executor::block_on;

use super::{Assumptions, Before, DecidedBatch, Found};
use crate::{
    CounterKey, Guard, Key, MemoryStore, MetaStore as _, Plan, Read, ReadResult, Space, Value,
    Verdict, Write,
};

fn key(name: &str) -> Key {
    Key::new(Space(b'd'), 1, name.as_bytes())
}

fn value(text: &'static str) -> Value {
    Value::from_static(text.as_bytes())
}

fn equals(name: &str, text: &'static str) -> Guard {
    Guard::Equals(key(name), value(text))
}

fn put(name: &str, text: &'static str) -> Write {
    Write::Put(key(name), value(text))
}

fn plan(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Plan {
    Plan { guards: guards.into(), writes: writes.into() }
}

fn refused(guard: usize, found: Option<&'static str>) -> Verdict {
    Verdict::Refused { guard, found: found.map(value) }
}

fn conditions(decision: &DecidedBatch<'_>) -> Vec<(Key, Before)> {
    decision.conditions().map(|(key, before)| (key.clone(), before.clone())).collect()
}

fn found(records: impl IntoIterator<Item = (&'static str, Option<&'static str>)>) -> Found {
    let records = records.into_iter().map(|(name, text)| (key(name), text.map(value)));
    Found { records: records.collect(), ..Found::default() }
}

#[test]
fn later_plans_see_the_writes_of_earlier_ones() {
    let create = |text| plan([Guard::Absent(key("a"))], [put("a", text)]);
    let plans = [create("1"), create("2"), plan([equals("a", "1")], [Write::Delete(key("a"))])];
    let decision = Assumptions::new(&plans).decide().expect("a decision");
    let expected = [Verdict::Committed, refused(0, Some("1")), Verdict::Committed];
    assert_eq!(decision.verdicts, expected);
    assert_eq!(conditions(&decision), [(key("a"), Before::Absent)]);
    let writes: Vec<_> = decision.writes().map(|(key, _, now)| (key.clone(), now)).collect();
    assert_eq!(writes, [(key("a"), None)]);
}

#[test]
fn records_that_refuse_all_plans_need_no_second_commit() {
    let plans = [plan([equals("a", "1")], [put("a", "2")]), plan([equals("a", "1")], [])];
    let mut assumptions = Assumptions::new(&plans);
    let decision = assumptions.decide().expect("a decision");
    assert!(!decision.is_certain());
    let next = assumptions.learn(&decision, found([("a", Some("9"))])).expect("a decision");
    assert!(next.is_certain());
    assert_eq!(next.verdicts, [refused(0, Some("9")), refused(0, Some("9"))]);
}

/// The second plan is refused by the first one's write at first. When that plan is refused, the
/// second one reaches a guard that no commit has checked.
#[test]
fn a_guard_that_was_not_checked_makes_verdicts_uncertain() {
    let plans = [
        plan([equals("a", "1")], [put("b", "2")]),
        plan([equals("b", "1"), equals("c", "1"), equals("a", "1")], []),
    ];
    let mut assumptions = Assumptions::new(&plans);
    let decision = assumptions.decide().expect("a decision");
    assert_eq!(decision.verdicts, [Verdict::Committed, refused(0, Some("2"))]);
    let next = assumptions.learn(&decision, found([("a", None)])).expect("a decision");
    assert_eq!(next.verdicts, [refused(0, None), refused(2, None)]);
    assert!(!next.is_certain());
    let last = assumptions.learn(&next, found([("b", Some("3"))])).expect("a decision");
    assert_eq!(last.verdicts, [refused(0, None), refused(0, Some("3"))]);
    assert!(last.is_certain());
}

#[test]
fn a_record_whose_bytes_are_needed_is_assumed_absent() {
    let plans = [plan([Guard::Present(key("a")), Guard::Absent(key("a"))], [])];
    let mut assumptions = Assumptions::new(&plans);
    let decision = assumptions.decide().expect("a decision");
    assert_eq!(conditions(&decision), [(key("a"), Before::Absent)]);
    assert_eq!(decision.verdicts, [refused(0, None)]);
    let next = assumptions.learn(&decision, found([("a", Some("1"))])).expect("a decision");
    assert_eq!(next.verdicts, [refused(1, Some("1"))]);
    assert!(next.is_certain());
}

#[test]
fn bounds_are_reduced_by_earlier_additions() {
    let counter = CounterKey(key("n"));
    let add = |by| Write::Add(counter.clone(), by);
    let at_most = |most| Guard::AtMost(counter.clone(), most);
    let plans = [plan([at_most(10)], [add(2)]), plan([at_most(11)], [add(4)])];
    let decision = Assumptions::new(&plans).decide().expect("a decision");
    assert_eq!(decision.bounds, BTreeMap::from([(&counter, 5)]));
    let plans = [plan([], [Write::Max(counter.clone(), 1)]), plan([at_most(1)], [])];
    assert!(Assumptions::new(&plans).decide().is_none());
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % sides
    }

    fn name(&mut self) -> Key {
        Key::new(Space(b'd'), 1, &[u8::try_from(self.below(5)).expect("small")])
    }

    fn value(&mut self) -> Value {
        vec![u8::try_from(self.below(3)).expect("small")].into()
    }

    fn counter(&mut self) -> CounterKey {
        CounterKey(Key::new(Space(b'n'), self.below(2), b""))
    }

    fn plan(&mut self) -> Plan {
        let guards = (0..self.below(4)).map(|_| match self.below(5) {
            0 => Guard::Absent(self.name()),
            1 => Guard::Present(self.name()),
            2 => Guard::AtMost(self.counter(), i64::try_from(self.below(9)).expect("small")),
            3 => {
                let (a, b) = (self.name(), self.name());
                Guard::Empty(a.clone().min(b.clone()), a.max(b))
            }
            _ => Guard::Equals(self.name(), self.value()),
        });
        let guards: Vec<_> = guards.collect();
        let write = match self.below(4) {
            0 => Write::Delete(self.name()),
            1 => Write::Add(self.counter(), i64::try_from(self.below(5)).expect("small") - 2),
            _ => Write::Put(self.name(), self.value()),
        };
        Plan { guards, writes: vec![write] }
    }
}

/// Returns the part of the content of `store` that does not meet the conditions of a decision.
fn differing(store: &MemoryStore, decision: &DecidedBatch<'_>) -> Option<Found> {
    let read = |read| block_on(store.read(&[read])).expect("a read").remove(0);
    let mut found = Found::default();
    for (key, before) in decision.conditions() {
        let ReadResult::Record(entry) = read(Read::Record { key: key.clone(), follow: None })
        else {
            panic!("a record was asked for")
        };
        let now = entry.map(|entry| entry.value);
        let holds = match before {
            Before::Absent => now.is_none(),
            Before::Present => now.is_some(),
            Before::Equal(value) => now.as_ref() == Some(value),
        };
        if !holds {
            found.records.insert(key.clone(), now);
        }
    }
    let mut is_exceeded = false;
    for (counter, bound) in &decision.bounds {
        let ReadResult::Counter(now) = read(Read::Counter((*counter).clone())) else {
            panic!("a counter was asked for")
        };
        is_exceeded |= now > *bound;
        found.counters.insert((*counter).clone(), now);
    }
    if !is_exceeded {
        found.counters.clear();
    }
    for (start, end) in &decision.ranges {
        let (start, end) = ((*start).clone(), (*end).clone());
        let range = Read::Range { start: start.clone(), end: end.clone(), limit: 1, follow: None };
        if matches!(read(range), ReadResult::Range(entries) if !entries.is_empty()) {
            found.filled.insert((start, end));
        }
    }
    let is_met = found.records.is_empty() && found.counters.is_empty() && found.filled.is_empty();
    (!is_met).then_some(found)
}

/// Compares the decisions whose conditions hold with the verdicts and records of the in-memory
/// store.
#[test]
fn decisions_agree_with_the_plans_one_by_one() {
    let (store, mut dice) = (MemoryStore::new(), Dice(7));
    let (mut first, mut later, mut certain, mut undecided) = (0, 0, 0, 0);
    for _ in 0..4_000 {
        let plans: Vec<Plan> = (0..=dice.below(4)).map(|_| dice.plan()).collect();
        let mut assumptions = Assumptions::new(&plans);
        let (mut next, mut tries) = (assumptions.decide(), 0);
        let decided = loop {
            let Some(decision) = next else { break None };
            if decision.is_certain() {
                certain += 1;
                break Some(decision);
            }
            let Some(found) = differing(&store, &decision) else { break Some(decision) };
            tries += 1;
            assert!(tries < 20, "each try learns more: {plans:#?}");
            next = assumptions.learn(&decision, found);
        };
        let expected = block_on(store.commit(&plans)).expect("decided");
        let Some(decision) = decided else {
            undecided += 1;
            assert!(plans.len() > 1, "one plan can always be decided: {plans:#?}");
            continue;
        };
        assert_eq!(decision.verdicts, expected, "{plans:#?}");
        for (key, _, now) in decision.writes() {
            let read = [Read::Record { key: key.clone(), follow: None }];
            let ReadResult::Record(entry) = block_on(store.read(&read)).expect("a read").remove(0)
            else {
                panic!("a record was asked for")
            };
            assert_eq!(entry.map(|entry| entry.value).as_ref(), now, "{plans:#?}");
        }
        first += u32::from(tries == 0);
        later += u32::from(tries > 0);
    }
    assert!(first > 100 && later > 100 && certain > 100, "{first} {later} {certain}");
    assert!(undecided > 0, "some batches have no conditions");
}
