//! Random batches, compared with the reference engine and with their plans one by one.

use std::collections::BTreeMap;

use super::{Dice, ORDERED, POINT, ask, decide, follow, key, plan, point, range, value};
use crate::{
    CounterKey, Follow, Guard, Key, MemoryStore, MetaStore, Plan, Read, Space, Value, Verdict,
    Write,
};

/// Batches of one run: enough that each pair of write kinds occurs in one batch.
const BATCHES: u64 = 150;
/// Largest number of plans of a batch.
const PLANS: u64 = 12;

/// Random batches over few keys have the same verdicts and leave the same contents in this engine
/// and in [`MemoryStore`].
pub async fn random_batches_agree_with_the_reference(store: &dyn MetaStore) {
    check_against_the_reference(store, 0x00a5_41a4, BATCHES).await;
}

/// The same check with another seed and number of batches. The store must be empty.
pub async fn check_against_the_reference(store: &dyn MetaStore, seed: u64, batches: u64) {
    let reference = MemoryStore::new();
    let mut dice = Dice(seed);
    let mut committed = [0_usize; 2];
    for turn in 0..batches {
        let plans = random_batch(&mut dice);
        let (expected, found) = (decide(&reference, &plans).await, decide(store, &plans).await);
        assert_eq!(found, expected, "seed {seed:#x}, batch {turn}: {plans:#?}");
        for verdict in &found {
            committed[usize::from(*verdict == Verdict::Committed)] += 1;
        }
        let reads = random_reads(&mut dice);
        let (expected, found) = (ask(&reference, &reads).await, ask(store, &reads).await);
        assert_eq!(found, expected, "seed {seed:#x}, after batch {turn}: {reads:#?}");
    }
    check_same_contents(store, &reference).await;
    assert!(committed.iter().all(|count| *count > 0), "both verdicts occurred: {committed:?}");
}

/// A batch has the same verdicts and the same result as its plans one by one.
pub async fn random_batches_agree_with_their_plans_one_by_one(store: &dyn MetaStore) {
    let one_by_one = MemoryStore::new();
    let mut dice = Dice(0x0bad_5eed);
    for turn in 0..BATCHES {
        let plans = random_batch(&mut dice);
        let mut expected = Vec::new();
        for plan in &plans {
            expected.extend(decide(&one_by_one, std::slice::from_ref(plan)).await);
        }
        assert_eq!(decide(store, &plans).await, expected, "batch {turn}: {plans:#?}");
    }
    check_same_contents(store, &one_by_one).await;
}

/// Lengths of values around the bounds at which an engine may change the way of storing them.
const VALUE_LENGTHS: [usize; 14] =
    [0, 1, 100, 251, 252, 253, 254, 1_023, 1_024, 1_025, 2_000, 4_080, 5_000, 70_000];

/// Records grow, shrink, appear and disappear, with and without guards on their previous bytes.
/// Each follow returns the current target, up to the requested bytes.
pub async fn follows_return_current_targets(store: &dyn MetaStore) {
    const TARGETS: u64 = 3;
    let reference = MemoryStore::new();
    let pointers: Vec<Write> = (0..TARGETS)
        .map(|number| Write::Put(pointer(number), value(number.to_be_bytes())))
        .collect();
    let pointers = [plan([], pointers)];
    assert_eq!(decide(store, &pointers).await, decide(&reference, &pointers).await);
    let mut dice = Dice(0x1057_1e55);
    for turn in 0..2 * BATCHES {
        let plans: Vec<Plan> =
            (0..=dice.below(3)).map(|_| resizing_plan(&mut dice, TARGETS)).collect();
        let (expected, found) = (decide(&reference, &plans).await, decide(store, &plans).await);
        assert!(expected == found, "turn {turn}: other verdicts");
        let most = dice.pick(&[None, Some(0), Some(100), Some(251), Some(252), Some(1_024)]);
        let by = Some(Follow { bytes_max: most, ..follow(&[POINT.0], 0, 8) });
        let record = pointer(dice.below(TARGETS));
        let (start, end) = (key(7, ""), key(8, ""));
        let reads = [
            Read::Record { key: record, follow: by.clone() },
            Read::Range { start, end, limit: 9, follow: by },
        ];
        let (expected, found) = (ask(&reference, &reads).await, ask(store, &reads).await);
        assert!(expected == found, "turn {turn}: other targets, at most {most:?}");
    }
    check_same_contents(store, &reference).await;
}

fn pointer(number: u64) -> Key {
    key(7, number.to_be_bytes())
}

/// Makes targets longer or shorter, or deletes them.
fn resizing_plan(dice: &mut Dice, targets: u64) -> Plan {
    let filled = |dice: &mut Dice| {
        let (length, salt) = (dice.pick(&VALUE_LENGTHS), dice.pick(b"xyz"));
        value(vec![salt; length])
    };
    let at = point(dice.below(targets));
    let guards = match dice.below(8) {
        0 => vec![Guard::Absent(at.clone())],
        1 => vec![Guard::Present(at.clone())],
        2 => vec![Guard::Equals(at.clone(), filled(dice))],
        // This plan is refused. It makes the engine fetch a record that other plans of the batch
        // then use.
        3 => vec![Guard::Equals(at.clone(), value("never"))],
        _ => Vec::new(),
    };
    let write = match dice.below(4) {
        0 => Write::Delete(at),
        _ => Write::Put(at, filled(dice)),
    };
    plan(guards, [write])
}

const SUFFIXES: [&[u8]; 9] =
    [b"", b"\0", b"\0\0", b"\0\xff", b"a", b"a\0", b"b", b"\xff", b"\xff\0"];
const VALUES: [&[u8]; 4] = [b"", b"x", b"y", b"\0\0\0\0\0\0\0\x01"];

fn random_key(dice: &mut Dice) -> Key {
    if dice.below(4) == 0 { point(dice.below(4)) } else { key(dice.below(3), dice.pick(&SUFFIXES)) }
}

fn random_range(dice: &mut Dice) -> (Key, Key) {
    let partition = dice.below(3);
    let one = key(partition, dice.pick(&SUFFIXES));
    let other = match dice.below(3) {
        0 => key(partition + 1, ""),
        _ => key(partition, dice.pick(&SUFFIXES)),
    };
    if one <= other { (one, other) } else { (other, one) }
}

fn random_batch(dice: &mut Dice) -> Vec<Plan> {
    (0..dice.below(PLANS)).map(|_| random_plan(dice)).collect()
}

fn random_plan(dice: &mut Dice) -> Plan {
    let mut guards: Vec<Guard> = (0..dice.below(4))
        .map(|_| match dice.below(5) {
            0 | 1 => Guard::Absent(random_key(dice)),
            2 => Guard::Present(random_key(dice)),
            3 => Guard::Equals(random_key(dice), value(dice.pick(&VALUES))),
            _ => {
                let (start, end) = random_range(dice);
                Guard::Empty(start, end)
            }
        })
        .collect();
    let mut writes: BTreeMap<(bool, Key), Write> = BTreeMap::new();
    for _ in 0..dice.below(6) {
        let at = random_key(dice);
        let on = CounterKey(at.clone());
        let by = i64::try_from(dice.below(20)).expect("small") - 8;
        let write = match dice.below(8) {
            0..3 => Write::Put(at.clone(), value(dice.pick(&VALUES))),
            3 | 4 => Write::Delete(at.clone()),
            5 => Write::Add(on, by),
            6 => Write::Max(on, by),
            _ if by < 0 => Write::Clear(on),
            _ => Write::Set(on, by),
        };
        let record = matches!(write, Write::Put(..) | Write::Delete(_));
        writes.insert((record, at), write);
    }
    let mut writes: Vec<Write> = writes.into_values().collect();
    if dice.below(4) == 0 {
        let bounded = CounterKey(random_key(dice));
        writes.retain(|write| match write {
            Write::Max(key, _) | Write::Set(key, _) | Write::Clear(key) => *key != bounded,
            Write::Put(..) | Write::Delete(_) | Write::Add(..) => true,
        });
        let most = i64::try_from(dice.below(30)).expect("small") - 5;
        let place = usize::try_from(dice.below(guards.len() as u64 + 1)).expect("small");
        guards.insert(place, Guard::AtMost(bounded, most));
    }
    plan(guards, writes)
}

fn random_reads(dice: &mut Dice) -> Vec<Read> {
    (0..dice.below(10))
        .map(|_| {
            let whole = follow(&[POINT.0], 0, 8);
            let cut = Follow { bytes_max: Some(1), ..whole.clone() };
            let by = dice.pick(&[None, Some(whole), Some(cut)]);
            match dice.below(3) {
                0 => Read::Record { key: random_key(dice), follow: by },
                1 => Read::Counter(CounterKey(random_key(dice))),
                _ => {
                    let (start, end) = random_range(dice);
                    let limit = u32::try_from(dice.below(8)).expect("small");
                    Read::Range { start, end, limit, follow: by }
                }
            }
        })
        .collect()
}

async fn contents(
    store: &dyn MetaStore,
    space: Space,
) -> (BTreeMap<Key, Value>, BTreeMap<CounterKey, i64>) {
    let most = store.limits().range_records;
    let page = store.walk(space, None, most).await.expect("a page");
    let counters = store.walk_counters(space, None, most).await.expect("a page");
    assert_eq!((page.resume, counters.resume), (None, None), "a page holds it all");
    let counters = counters.counters.into_iter().filter(|(_, number)| *number != 0);
    (page.records.into_iter().collect(), counters.collect())
}

async fn check_same_contents(store: &dyn MetaStore, reference: &dyn MetaStore) {
    for space in [ORDERED, POINT] {
        assert_eq!(contents(store, space).await, contents(reference, space).await, "{space:?}");
    }
    let reads: Vec<_> =
        (0..3).map(|partition| range(key(partition, ""), key(partition + 1, ""), 100)).collect();
    assert_eq!(ask(store, &reads).await, ask(reference, &reads).await);
}
