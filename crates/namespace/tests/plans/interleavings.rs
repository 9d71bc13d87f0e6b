//! Every interleaving of two operations equals one of their two orders.

use std::collections::{BTreeMap, HashSet};

use namespace::{Hints, NoHints, WriteCondition};
use record::Ino;
use store::{Key, MemoryStore, Value};

use crate::acts::{
    Act, Actor, Prepared, if_match, put, put_if, remove, remove_all, remove_if, rename,
};
use crate::audit::audit;
use crate::memory::Stale;
use crate::world::{State, World};

/// The answers of two operations, and the state after them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ending {
    answers: [String; 2],
    state: State,
}

fn finish(actor: &mut dyn Actor, store: &MemoryStore) -> String {
    while actor.answer().is_none() {
        actor.step(store);
    }
    actor.answer().expect("just seen").to_owned()
}

/// The hashes of all results that each of two operations has received. Until one of them has
/// committed, and so ended, this is their complete state.
type Standing = [Vec<u64>; 2];

/// The interleavings of two operations that are not tried yet.
struct Interleavings<'a> {
    start: &'a State,
    acts: &'a [Prepared; 2],
    hints: &'a dyn Hints,
    /// Their first turns; `true` is a turn of the second operation.
    left: Vec<Vec<bool>>,
    seen: HashSet<Standing>,
}

impl Interleavings<'_> {
    /// Runs two operations in the order of `schedule`, and then the first until one of them has
    /// ended. Notes each point where the second could take a turn instead. Returns `None` if both
    /// reach a state that was seen before: neither operation can distinguish the two orders.
    fn follow(&mut self, mut schedule: Vec<bool>) -> Option<(Vec<bool>, Ending)> {
        let world = World::of(self.start);
        let store = &world.store;
        let (acts, hints) = (self.acts, self.hints);
        acts[0].begin(hints, |first| {
            acts[1].begin(hints, |second| {
                for turn in &schedule {
                    if *turn { second.step(store) } else { first.step(store) }
                }
                while first.answer().is_none() && second.answer().is_none() {
                    if !self.seen.insert([first.met(), second.met()]) {
                        return None;
                    }
                    self.left.push([&schedule[..], &[true]].concat());
                    first.step(store);
                    schedule.push(false);
                }
                let answers = [finish(first, store), finish(second, store)];
                Some((schedule, Ending { answers, state: world.state().settled() }))
            })
        })
    }
}

fn one_of_two_orders(start: &State, pair: [&Act; 2], hints: &[(&str, &dyn Hints)]) -> usize {
    let acts = [Prepared::new(pair[0], start, 10_000), Prepared::new(pair[1], start, 20_000)];
    let order = |indices: [usize; 2]| {
        let world = World::of(start);
        let mut answers = [String::new(), String::new()];
        for index in indices {
            answers[index] = acts[index].run(&world.store, &NoHints);
        }
        Ending { answers, state: world.state().settled() }
    };
    let orders = [order([0, 1]), order([1, 0])];
    orders.iter().for_each(|ending| audit(&ending.state));
    let mut count = 0;
    for (name, hints) in hints {
        let (left, seen) = (vec![vec![]], HashSet::new());
        let mut interleavings = Interleavings { start, acts: &acts, hints: *hints, left, seen };
        while let Some(schedule) = interleavings.left.pop() {
            let Some((schedule, ending)) = interleavings.follow(schedule) else { continue };
            count += 1;
            assert!(
                orders.contains(&ending),
                "{pair:?}\nby {schedule:?} with {name} hints\n{ending:#?}\nis neither of\n{orders:#?}",
            );
        }
    }
    count
}

/// The initial states.
fn starts() -> Vec<(&'static str, State)> {
    let grown = |acts: &[Act]| {
        let world = World::new();
        for (n, act) in (0..).zip(acts) {
            Prepared::new(act, &world.state(), 2_000 + 100 * n).run(&world.store, &NoHints);
        }
        world.audit();
        world
    };
    let begun = Act::Begin(b"a/b/x");
    let made = grown(&[put(b"c", 9)]);
    made.mkdir(Ino(1_024), &[b"a", b"b"]);
    vec![
        ("no bucket", World::empty().state()),
        ("an empty bucket", World::new().state()),
        ("a bucket with tags", grown(&[Act::Configure(true)]).state()),
        ("one key", grown(&[put(b"a/b/x", 1), begun.clone()]).state()),
        ("two keys", grown(&[put(b"a/b/x", 1), put(b"a/b/y", 2), begun.clone()]).state()),
        ("overlap", grown(&[put(b"a/b", 1), put(b"a/b/x", 1)]).state()),
        ("made directories", made.state()),
        ("an upload", grown(&[begun, Act::Part(b"a/b/x")]).state()),
    ]
}

fn acts() -> Vec<Act> {
    vec![
        put(b"a/b/x", 11),
        put_if(b"a/b/x", 12, WriteCondition::IfAbsent),
        put_if(b"a/b/x", 13, if_match(1)),
        put(b"a/b/", 15),
        put(b"a/c", 16),
        put(b"a/b", 17),
        remove(b"a/b/", &[b"x"]),
        remove(b"a/b/", &[b"y"]),
        remove(b"a/b/", &[b"x", b"y", b""]),
        remove_if(b"a/b/", &[b"x", b"y"], 1),
        remove(b"a/", &[b"c", b"b"]),
        remove_all(&[(b"", &[b"c"]), (b"a/", &[b"b"]), (b"a/b/", &[b"x", b"y"])]),
        Act::Look(b"a/b/x"),
        Act::Tags(b"a/b/x"),
        Act::Copy(b"a/b/x", b"a/b/x"),
        Act::Copy(b"a/b/x", b"a/c"),
        rename(b"a/b/x", b"a/c"),
        rename(b"a/b/x", b"a/b/y"),
        rename(b"c", b"a/b/x"),
        Act::MakeBucket,
        Act::DropBucket,
        Act::Configure(true),
        Act::Begin(b"a/b/x"),
        Act::Part(b"a/b/x"),
        Act::Complete(b"a/b/x"),
        Act::Abort(b"a/b/x"),
    ]
}

/// Runs every pair of operations from the states that `chosen` accepts.
fn every_pair(chosen: impl Fn(usize) -> bool) {
    let mut count = 0;
    for (_, (name, start)) in starts().into_iter().enumerate().filter(|(index, _)| chosen(*index)) {
        let states: [BTreeMap<Key, Value>; 1] = [start.records.clone()];
        let present =
            Stale { states: &states, choice: 0, absences: false, sure: true, fickle: None };
        let acts = acts();
        let before = count;
        for (index, first) in acts.iter().enumerate() {
            for second in &acts[index..] {
                let hints: [(&str, &dyn Hints); 2] = [("fresh", &present), ("no", &NoHints)];
                // An operation without hints takes many round trips, so two initial states are
                // enough for it.
                let cold = ["one key", "made directories"].contains(&name);
                let hints = &hints[..=usize::from(cold)];
                count += one_of_two_orders(&start, [first, second], hints);
            }
        }
        assert!(count - before >= 210, "{name}: {} interleavings", count - before);
    }
    assert!(count > 1_500, "{count} interleavings");
}

#[test]
fn interleaved_operations_equal_one_order() {
    every_pair(|start| start % 2 == 0);
}

#[test]
fn interleaved_operations_from_other_starts_equal_one_order() {
    every_pair(|start| start % 2 == 1);
}
