//! The lock table compared with a map from bytes to holders.

use std::collections::BTreeMap;

use proptest::prelude::*;
use record::{RangeLock, RangeLockKind};

use super::{FileTable, WaitState, conflict};

/// The number of bytes of the file.
const BYTES: u64 = 12;

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(RangeLock),
    /// A waiter takes its lock, if it is reserved for it.
    Take(usize),
    /// A waiter takes its lock, and gives it up before the reply.
    Regret(usize),
    /// A waiter gives up.
    Leave(usize),
    /// A waiter that was about to take its lock finds it held by another mount.
    Elsewhere(usize),
    LookAgain(usize),
    Release(RangeLock),
}

fn any_lock() -> impl Strategy<Value = RangeLock> {
    let range = (0..BYTES, 0..BYTES).prop_map(|(a, b)| (a.min(b), a.max(b)));
    let kind = prop_oneof![Just(RangeLockKind::Shared), Just(RangeLockKind::Exclusive)];
    (range, kind, 0_u64..4, any::<bool>()).prop_map(|((start, last), kind, owner, flock)| {
        RangeLock { start, last, kind, owner, pid: 7, flock }
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any_lock().prop_map(Step::Wait),
        4 => any::<usize>().prop_map(Step::Take),
        2 => any::<usize>().prop_map(Step::Regret),
        1 => any::<usize>().prop_map(Step::Leave),
        1 => any::<usize>().prop_map(Step::Elsewhere),
        1 => any::<usize>().prop_map(Step::LookAgain),
        3 => any_lock().prop_map(Step::Release),
    ]
}

/// The holders of each byte, and the modes.
type Model = BTreeMap<(bool, u64, u64), RangeLockKind>;

fn of_table(table: &FileTable) -> Model {
    let mut all = Model::new();
    for held in table.held() {
        for byte in held.start..=held.last.min(BYTES - 1) {
            let twice = all.insert((held.flock, byte, held.owner), held.kind);
            assert_eq!(twice, None, "an owner holds a byte once");
        }
    }
    all
}

fn check(table: &FileTable) {
    let all = of_table(table);
    for ((flock, byte, owner), kind) in &all {
        let others = all.iter().filter(|((f, b, o), _)| (f, b) == (flock, byte) && o != owner);
        for (_, other) in others {
            assert_eq!((kind, other), (&RangeLockKind::Shared, &RangeLockKind::Shared));
        }
    }
    for waiting in &table.waiting {
        let held = table.conflicting_held(&waiting.lock).is_some();
        let reserved = table.waiting.iter().any(|other| {
            other.state == WaitState::Reserved && conflict(&other.lock, &waiting.lock)
        });
        match waiting.state {
            WaitState::BlockedHere => assert!(held || reserved, "a blocked waiter has a conflict"),
            WaitState::Reserved => assert!(!held && !reserved, "a reserved lock has no conflict"),
            WaitState::BlockedElsewhere | WaitState::Granted => {}
        }
    }
}

proptest! {
    #[test]
    fn lock_table_equals_a_map_of_bytes(steps in prop::collection::vec(any_step(), 1..80)) {
        let (mut table, mut model) = (FileTable::default(), Model::new());
        let mut waits: Vec<(u64, RangeLock)> = Vec::new();
        for step in steps {
            let chosen = |index: usize| {
                if waits.is_empty() { None } else { Some(index % waits.len()) }
            };
            match step {
                Step::Wait(lock) => waits.push((table.wait(lock).0, lock)),
                Step::Take(index) => {
                    let Some(index) = chosen(index) else { continue };
                    let (number, lock) = waits[index];
                    if table.wait_state(number) != Some(WaitState::Reserved) {
                        continue;
                    }
                    let after = table.with(&lock);
                    prop_assert!(table.grant(number, after));
                    table.remove_granted(number);
                    waits.remove(index);
                    for byte in lock.start..=lock.last {
                        model.insert((lock.flock, byte, lock.owner), lock.kind);
                    }
                }
                Step::Regret(index) => {
                    let Some(index) = chosen(index) else { continue };
                    let (number, lock) = waits[index];
                    if table.wait_state(number) != Some(WaitState::Reserved) {
                        continue;
                    }
                    prop_assert!(table.grant(number, table.with(&lock)));
                    check(&table);
                    let before = table.give_up(number).expect("it was granted");
                    table.set_held(table.restored(&lock, &before));
                    waits.remove(index);
                    // An owner that held a stronger mode has asked for a weaker one, so it keeps
                    // the weaker one.
                    for byte in lock.start..=lock.last {
                        let at = (lock.flock, byte, lock.owner);
                        model.entry(at).and_modify(|kind| *kind = lock.kind.min(*kind));
                    }
                }
                Step::Leave(index) => {
                    let Some(index) = chosen(index) else { continue };
                    prop_assert_eq!(table.give_up(waits.remove(index).0), None);
                }
                Step::Elsewhere(index) => {
                    let Some(index) = chosen(index) else { continue };
                    if table.wait_state(waits[index].0) == Some(WaitState::Reserved) {
                        table.set_blocked_elsewhere(waits[index].0);
                    }
                }
                Step::LookAgain(index) => {
                    let Some(index) = chosen(index) else { continue };
                    if table.wait_state(waits[index].0) == Some(WaitState::BlockedElsewhere) {
                        table.recheck(waits[index].0);
                    }
                }
                Step::Release(RangeLock { start, last, owner, flock, .. }) => {
                    let after = table.without(owner, flock, start, last);
                    table.set_held(after);
                    model.retain(|(f, byte, o), _| {
                        (*f, *o) != (flock, owner) || !(start..=last).contains(byte)
                    });
                }
            }
            check(&table);
            prop_assert_eq!(of_table(&table), model.clone());
            prop_assert_eq!(table.waiting(), waits.len());
        }
    }

    /// Waiters for the same exclusive range are served in order of arrival.
    #[test]
    fn waiters_are_served_in_order_of_arrival(flocks in prop::collection::vec(any::<bool>(), 1..20)) {
        let mut table = FileTable::default();
        let all = RangeLock {
            start: 0, last: u64::MAX, kind: RangeLockKind::Exclusive, owner: 99, pid: 1, flock: false,
        };
        table.set_held(vec![all, RangeLock { flock: true, ..all }]);
        let locks: Vec<RangeLock> = (0..)
            .zip(flocks)
            .map(|(owner, flock)| RangeLock { owner, flock, last: BYTES, ..all })
            .collect();
        let numbers: Vec<u64> = locks.iter().map(|lock| table.wait(*lock).0).collect();
        table.set_held(Vec::new());
        for next in 0..locks.len() {
            prop_assert_eq!(table.wait_state(numbers[next]), Some(WaitState::Reserved));
            let after = |other: &usize| locks[*other].flock == locks[next].flock;
            for later in (next + 1..locks.len()).filter(after) {
                prop_assert_eq!(table.wait_state(numbers[later]), Some(WaitState::BlockedHere));
            }
            prop_assert_eq!(table.give_up(numbers[next]), None);
        }
    }
}
