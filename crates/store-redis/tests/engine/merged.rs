//! Merged batches, which the server gets in another form: the result is the same as in memory, plan
//! by plan.

use std::collections::BTreeSet;

use store::{Changes, CounterKey, Guard, Key, MemoryStore, MetaStore, Plan, Read, Value, Write};

use crate::dice::Dice;
use crate::server::{self, Volume};
use crate::{counter, key, plan, point};

fn places() -> Vec<Key> {
    let ordered = (0..12).map(|number| key(number % 3, &format!("name-{number}")));
    ordered.chain((0..6).map(point)).collect()
}

fn value(numbers: &mut Dice) -> Value {
    const LENGTHS: [usize; 7] = [0, 3, 20, 251, 252, 1_025, 4_200];
    let index = usize::try_from(numbers.below(7)).expect("below 7");
    let byte = u8::try_from(numbers.below(251)).expect("a byte");
    vec![byte; LENGTHS[index]].into()
}

fn counters() -> Vec<CounterKey> {
    (0..4).map(counter).collect()
}

/// Returns a guard that holds in `memory`, except for one of `one_in`.
async fn guard(memory: &MemoryStore, place: &Key, numbers: &mut Dice, one_in: u64) -> Guard {
    let question = Read::Record { key: place.clone(), follow: None };
    let found = memory.read(&[question]).await.expect("a read").remove(0);
    let store::ReadResult::Record(found) = found else { panic!("a record was asked for") };
    match found {
        _ if numbers.below(one_in) == 0 => Guard::Equals(place.clone(), value(numbers)),
        None => Guard::Absent(place.clone()),
        Some(_) if numbers.below(3) == 0 => Guard::Present(place.clone()),
        Some(entry) => Guard::Equals(place.clone(), entry.value),
    }
}

async fn batch(memory: &MemoryStore, numbers: &mut Dice) -> Vec<Plan> {
    let mut plans = Vec::new();
    for _ in 0..=numbers.below(6) {
        let (mut guards, mut writes) = (Vec::new(), Vec::new());
        for place in places() {
            if numbers.below(6) == 0 {
                guards.push(guard(memory, &place, numbers, 40).await);
            }
            match numbers.below(12) {
                0 | 1 => writes.push(Write::Put(place, value(numbers))),
                2 => writes.push(Write::Delete(place)),
                _ => {}
            }
        }
        for counter in counters() {
            let number = i64::try_from(numbers.below(9)).expect("small") - 4;
            match numbers.below(8) {
                0 | 1 => writes.push(Write::Add(counter, number)),
                2 => writes.push(Write::Max(counter, number)),
                3 if number == 0 => writes.push(Write::Clear(counter)),
                3 => writes.push(Write::Set(counter, number)),
                _ => {}
            }
        }
        plans.push(plan(guards, writes));
    }
    plans
}

async fn everything(store: &dyn MetaStore) -> Vec<store::ReadResult> {
    let mut reads: Vec<Read> =
        places().into_iter().map(|key| Read::Record { key, follow: None }).collect();
    reads.extend(counters().into_iter().map(Read::Counter));
    reads.extend((0..3).map(|partition| Read::Range {
        start: key(partition, ""),
        end: key(partition + 1, ""),
        limit: 100,
        follow: None,
    }));
    store.read(&reads).await.expect("a read")
}

fn notified_keys(changes: Changes) -> BTreeSet<Key> {
    match changes {
        Changes::Notified { keys, .. } => keys.into_iter().collect(),
        Changes::Gap { .. } => panic!("there cannot be a gap"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn merged_batches_agree_with_memory() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    let memory = MemoryStore::new();
    let (mut whole, mut numbers) = (0, Dice(7));
    for round in 0..600 {
        let Changes::Notified { next, .. } = store.changes(None).await.expect("a position") else {
            panic!("there cannot be a gap")
        };
        let Changes::Notified { next: next_in_memory, .. } =
            memory.changes(None).await.expect("a position")
        else {
            panic!("there cannot be a gap")
        };
        let plans = batch(&memory, &mut numbers).await;
        let expected = memory.commit(&plans).await.expect("decided");
        let verdicts = store.commit(&plans).await.expect("decided");
        assert_eq!(verdicts, expected, "round {round}: {plans:?}");
        whole += u32::from(verdicts.iter().all(|verdict| *verdict == store::Verdict::Committed));
        assert_eq!(everything(&store).await, everything(&memory).await, "round {round}: {plans:?}");
        let changed = notified_keys(store.changes(Some(&next)).await.expect("the changes"));
        let expected = memory.changes(Some(&next_in_memory)).await.expect("the changes");
        assert_eq!(changed, notified_keys(expected), "round {round}");
    }
    assert!(whole > 100, "only {whole} batches were committed whole");
    crate::long_records::check_no_string_is_left(&server, &volume, &store).await;
}
