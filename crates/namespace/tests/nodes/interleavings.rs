//! Every interleaving of two operations equals one of their two orders.
//!
//! Until one of the two operations commits, neither sees the other, and the one that commits first
//! never sees the other. So it is enough to run any number of steps of the first, then all of the
//! second, and then the rest of the first.

use std::collections::BTreeMap;

use namespace::{Hints, NoHints, RenameMode};
use record::Ino;
use store::{Key, Value};

use crate::acts::{Act, Actor, Answer, Prepared, What};
use crate::audit::audit;
use crate::memory::Stale;
use crate::world::{B, C, State, World, at};

/// The answers of two operations, and the state after them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ending {
    answers: [Answer; 2],
    state: State,
}

/// The results of all interleavings in which the second operation commits first.
fn endings(start: &State, acts: [&Prepared; 2], hints: &dyn Hints) -> Vec<Ending> {
    let mut endings = Vec::new();
    for steps in 0..1_000 {
        let world = World::of(start);
        let ending = acts[0].begin(hints, |first| {
            for _ in 0..steps {
                first.step(&world.store);
                if first.answer().is_some() {
                    return None;
                }
            }
            let second = acts[1].run(&world.store, hints);
            let first = finish(first, &world);
            Some(Ending { answers: [first, second], state: world.state() })
        });
        let Some(ending) = ending else { return endings };
        endings.push(ending);
    }
    panic!("an operation does not end by itself");
}

fn finish(actor: &mut dyn Actor, world: &World) -> Answer {
    while actor.answer().is_none() {
        actor.step(&world.store);
    }
    actor.answer().expect("just seen").clone()
}

fn one_of_two_orders(start: &State, pair: [&Act; 2], hints: &dyn Hints) -> usize {
    let acts = [Prepared::new(pair[0], 10_000), Prepared::new(pair[1], 20_000)];
    let order = |[first, second]: [usize; 2]| {
        let world = World::of(start);
        let mut answers = [Ok(String::new()), Ok(String::new())];
        for index in [first, second] {
            answers[index] = acts[index].run(&world.store, &NoHints);
        }
        Ending { answers, state: world.state() }
    };
    let orders = [order([0, 1]), order([1, 0])];
    orders.iter().for_each(|ending| audit(&ending.state));
    let swapped = endings(start, [&acts[1], &acts[0]], hints).into_iter().map(|mut ending| {
        ending.answers.swap(0, 1);
        ending
    });
    let all: Vec<Ending> =
        endings(start, [&acts[0], &acts[1]], hints).into_iter().chain(swapped).collect();
    for ending in &all {
        let found = orders.contains(ending);
        assert!(found, "{pair:?}\n{ending:#?}\nis neither of\n{orders:#?}");
    }
    all.len()
}

/// A volume in which the files and names of the operations below may exist.
struct Start {
    state: State,
    /// The directory `a`, the directory `d`, and the file `f`.
    numbers: [Ino; 3],
}

fn starts() -> Vec<(&'static str, Start)> {
    let made = || {
        let world = World::new();
        let numbers = [world.mkdir(B, "a"), world.mkdir(B, "d"), world.file(B, "f", 5)];
        (world, numbers)
    };
    let implied = || {
        let world = World::new();
        let file = world.put("f", 5);
        world.put("a/x", 1);
        world.put("d/x", 1);
        let find = |name| world.find(&at(B, name)).unwrap();
        let numbers = [find("a"), find("d"), file];
        (world, numbers)
    };
    let start = |(world, numbers): (World, [Ino; 3])| {
        world.audit();
        Start { state: world.state(), numbers }
    };
    let (linked, [a, d, file]) = made();
    linked.link(file, Some(&at(B, "f")), &at(a, "x")).unwrap();
    linked.put("a/", 3);
    let (overlapping, numbers) = implied();
    overlapping.put("a", 9);
    overlapping.put("d", 9);
    let (nested, [above, below, nested_file]) = made();
    nested.rename(&at(B, "d"), &at(above, "d"), RenameMode::Replace).unwrap();
    vec![
        ("made directories", start(made())),
        ("implied directories", start(implied())),
        ("two names of a file", start((linked, [a, d, file]))),
        ("files behind directories", start((overlapping, numbers))),
        ("a directory in another", start((nested, [above, below, nested_file]))),
    ]
}

fn acts([a, d, f]: [Ino; 3]) -> Vec<Act> {
    let f_name = || at(B, "f");
    let known_name = || Some(at(B, "f"));
    let rename = |from, to, mode| Act::Rename { from, to, mode };
    let make = |name, what| Act::Make { name, what };
    let delete = |keys: &[&[u8]]| Act::Delete(keys.iter().map(|key| key.to_vec()).collect());
    let put = |object: &[u8], size| Act::Put { object: object.to_vec(), size };
    vec![
        make(at(a, "x"), What::File(3)),
        make(at(a, "x"), What::Directory),
        make(at(B, "n"), What::Symlink),
        Act::Unlink(f_name()),
        Act::Unlink(at(a, "x")),
        Act::Rmdir(at(B, "a")),
        Act::Rmdir(at(B, "d")),
        rename(at(B, "a"), at(d, "x"), RenameMode::Replace),
        rename(at(B, "d"), at(a, "x"), RenameMode::Replace),
        rename(at(B, "a"), at(B, "d"), RenameMode::Replace),
        rename(at(B, "a"), at(B, "n"), RenameMode::NoReplace),
        rename(f_name(), at(a, "x"), RenameMode::Replace),
        rename(f_name(), at(B, "d"), RenameMode::Exchange),
        rename(at(B, "a"), at(d, "x"), RenameMode::Exchange),
        rename(f_name(), at(C, "f"), RenameMode::Replace),
        Act::Link { ino: f, known_name: known_name(), to: at(a, "y") },
        Act::Link { ino: f, known_name: known_name(), to: at(a, "x") },
        Act::Write { ino: f, known_name: known_name(), size: 9 },
        Act::Truncate { ino: f, known_name: known_name(), size: 2 },
        Act::Xattr { ino: f, known_name: known_name(), length: crate::acts::LONG },
        Act::Xattr { ino: a, known_name: None, length: crate::acts::LONG },
        Act::Chmod(a),
        Act::Touch(a),
        put(b"f", 7),
        put(b"a/x", 6),
        put(b"a", 8),
        put(b"f/x", 4),
        delete(&[b"f"]),
        delete(&[b"a/x", b"f"]),
        delete(&[b"a/x", b"d/x"]),
        delete(&[b"a/"]),
        Act::DropBucket,
    ]
}

/// Reads, which must not disturb any other operation.
fn looks([a, _, f]: [Ino; 3]) -> Vec<Act> {
    vec![Act::Find(at(B, "f")), Act::Find(at(B, "a")), Act::Names(a), Act::Names(B), Act::Look(f)]
}

/// Runs every pair of operations from a start with everything cached; with `cold`, also with
/// nothing cached.
fn every_pair(name: &str, cold: bool) {
    let (_, start) = starts().into_iter().find(|(found, _)| *found == name).unwrap();
    let states: [BTreeMap<Key, Value>; 1] = [start.state.records.clone()];
    let fresh = Stale { states: &states, choice: 0, absences: true, sure: true, fickle: None };
    let (acts, looks) = (acts(start.numbers), looks(start.numbers));
    let hints: [&dyn Hints; 2] = [&fresh, &NoHints];
    let hints = &hints[..=usize::from(cold)];
    let mut count = 0;
    for (index, first) in acts.iter().enumerate() {
        for second in acts[index..].iter().chain(&looks) {
            for hints in hints {
                count += one_of_two_orders(&start.state, [first, second], *hints);
            }
        }
    }
    assert!(count > 1_300, "{count} interleavings");
}

#[test]
fn interleaved_operations_on_made_directories_equal_one_order() {
    every_pair("made directories", false);
}

#[test]
fn interleaved_operations_on_implied_directories_equal_one_order() {
    every_pair("implied directories", true);
}

#[test]
fn interleaved_operations_on_hard_links_equal_one_order() {
    every_pair("two names of a file", false);
}

#[test]
fn interleaved_operations_on_hidden_files_equal_one_order() {
    every_pair("files behind directories", false);
}

#[test]
fn interleaved_operations_on_nested_directories_equal_one_order() {
    every_pair("a directory in another", true);
}
