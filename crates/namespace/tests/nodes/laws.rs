//! Laws for each sequence of operations by both kinds of clients: both views equal a model, the
//! volume passes its audit, and hints never change an answer.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Debug;

use namespace::{FindNode, FsError, NoHints, NodeName, Planner, ReadNames, RenameMode};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;
use record::{Ino, Kind};
use store::{Key, Value};

use crate::acts::{Act, LONG, Prepared, What};
use crate::audit::audit;
use crate::memory::Stale;
use crate::model::Model;
use crate::world::{B, C, World, at, objects};

/// Names of file programs. One of them is not UTF-8.
const NAMES: [&[u8]; 5] = [b"a", b"b", b"a.x", b"c", b"\xff"];

/// Modes of renames.
const MODES: [RenameMode; 4] =
    [RenameMode::Replace, RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];

/// Keys of S3 clients.
const KEYS: [&[u8]; 12] = [
    b"a", b"b", b"c", b"a/", b"a/a", b"a/b", b"a/b/a", b"a/b/", b"b/a.x/", b"a.x", b"b//a", b"./a",
];

/// A fixed number of cases, the same in every run, so that a failure need not be stored.
pub(crate) fn seeded(cases: u32) -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(0x00a5_41a2),
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

/// A choice of an operation, made before the possible operands are known.
#[derive(Clone, Debug)]
struct Choice {
    operation: u8,
    picks: [Index; 4],
    /// True to choose an existing name, if there is one.
    known: [bool; 2],
}

fn choice() -> impl Strategy<Value = Choice> {
    (0..100_u8, any::<[Index; 4]>(), any::<[bool; 2]>())
        .prop_map(|(operation, picks, known)| Choice { operation, picks, known })
}

fn pick<T: Clone>(from: &[T], index: Index) -> T {
    from[index.index(from.len())].clone()
}

/// A directory, in most cases an existing one.
fn directory(model: &Model, index: Index) -> Ino {
    let directories = model.nodes.iter().filter(|(_, node)| node.kind() == Kind::Directory);
    let mut from: Vec<Ino> = directories.map(|(ino, _)| *ino).collect();
    from.extend(from.clone());
    from.extend(model.gone.last());
    let file = model.nodes.iter().find(|(_, node)| node.kind() == Kind::File);
    from.extend(file.map(|(ino, _)| *ino));
    pick(&from, index)
}

/// A name; an existing one if `known` is true and there is one.
fn name(model: &Model, known: bool, index: Index, other: Index) -> NodeName {
    let directories = model.nodes.iter().filter(|(_, node)| node.kind() == Kind::Directory);
    let names = directories.flat_map(|(directory, _)| {
        let names = model.names(*directory).into_iter();
        names.map(|(name, ..)| at(*directory, name))
    });
    let names: Vec<NodeName> = names.collect();
    if known && !names.is_empty() {
        return pick(&names, index);
    }
    at(directory(model, index), pick(&NAMES, other))
}

/// A node of a wanted kind, or a removed one.
fn node(model: &Model, index: Index, wanted: impl Fn(Kind) -> bool) -> Option<Ino> {
    let nodes = model.nodes.iter().filter(|(_, node)| wanted(node.kind()));
    let nodes: Vec<Ino> = nodes.map(|(ino, _)| *ino).chain(model.gone.last().copied()).collect();
    if nodes.is_empty() { None } else { Some(pick(&nodes, index)) }
}

impl Choice {
    /// The operation for the state of the model.
    fn act(&self, model: &Model) -> Option<Act> {
        let [a, b, c, d] = self.picks;
        let size = d.index(50);
        let any = |_| true;
        let file = |kind| kind == Kind::File;
        Some(match self.operation {
            0..16 => {
                let (directory, file) = (What::Directory, What::File(size));
                let kinds = [directory, directory, file, file, What::Symlink, What::Fifo];
                Act::Make { name: name(model, false, a, b), what: pick(&kinds, c) }
            }
            16..18 => Act::MakeNameless(directory(model, a)),
            18..26 => Act::Unlink(name(model, self.known[0] || self.known[1], a, b)),
            26..34 => Act::Rmdir(name(model, self.known[0] || self.known[1], a, b)),
            34..54 => {
                let from = name(model, true, a, b);
                let to = name(model, self.known[0], c, d);
                Act::Rename { from, to, mode: pick(&MODES, d) }
            }
            54..64 => {
                let ino = node(model, a, |kind| self.known[0] || kind != Kind::Directory)?;
                let to = name(model, self.known[0] && self.known[1], b, c);
                Act::Link { ino, known_name: model.known_name(ino), to }
            }
            64..66 => Act::Chmod(node(model, a, any)?),
            66..68 => Act::Touch(node(model, a, any)?),
            68..72 => {
                let ino = node(model, a, any)?;
                let length = if self.known[0] { LONG } else { b.index(3) };
                Act::Xattr { ino, known_name: model.known_name(ino), length }
            }
            72..75 => {
                let ino = node(model, a, file)?;
                Act::Write { ino, known_name: model.known_name(ino), size }
            }
            75..78 => {
                let ino = node(model, a, file)?;
                Act::Truncate { ino, known_name: model.known_name(ino), size: size as u64 }
            }
            78..90 => Act::Put { object: pick(&KEYS, a).to_vec(), size },
            _ => {
                let mut keys: Vec<Vec<u8>> =
                    model.objects(B).into_iter().map(|(key, _)| key).collect();
                keys.extend(KEYS.iter().map(|key| key.to_vec()));
                let mut chosen = vec![pick(&keys, a), pick(&keys, b), pick(&keys, c)];
                chosen.truncate(1 + d.index(3));
                chosen.sort();
                chosen.dedup();
                Act::Delete(chosen)
            }
        })
    }
}

fn look<O>(world: &World, operation: &O) -> Result<O::Output, FsError>
where
    O: Planner,
    O::Output: Debug,
{
    world.cold(operation).0
}

/// Compares both views of a volume with those of a model.
#[track_caller]
fn compare(world: &World, model: &Model) {
    for (ino, node) in &model.nodes {
        let found = look(world, &FindNode { ino: *ino }).unwrap();
        let inode = &found.inode;
        assert_eq!((inode.kind(), inode.bucket), (node.kind(), node.bucket), "{ino:?}");
        assert_eq!(inode.file().map_or(0, |file| file.size), node.size(), "{ino:?}");
        let Ok(directory) = model.directory(*ino) else {
            assert!(node.links == 0 || found.links() == u64::from(node.links), "{ino:?}");
            continue;
        };
        assert_eq!(found.links(), 2 + directory.directories.len() as u64, "{ino:?}");
        for limit in [2, 100] {
            let names = names(world, *ino, limit);
            assert_eq!(names, model.names(*ino), "{ino:?} in pages of {limit}");
        }
        for (name, ino, _) in model.names(*ino).into_iter().take(2) {
            let name = NodeName { directory: found.ino, name };
            let found = look(world, &namespace::FindName { name: &name }).unwrap();
            assert_eq!(found.ino, ino, "{name:?}");
        }
    }
    for ino in &model.gone {
        assert_eq!(look(world, &FindNode { ino: *ino }), Err(FsError::Stale));
    }
    for (bucket, ino) in [(b"b", B), (b"c", C)] {
        assert_eq!(objects(&world.store, bucket), model.objects(ino));
    }
}

fn names(world: &World, directory: Ino, limit: u32) -> Vec<(Vec<u8>, Ino, Kind)> {
    let (mut names, mut from) = (Vec::new(), None);
    loop {
        let page =
            look(world, &ReadNames { directory, from: from.as_deref(), limit, whole_inodes: true })
                .unwrap();
        names.extend(page.names.into_iter().map(|name| (name.name, name.ino, name.kind)));
        from = page.next;
        if from.is_none() {
            return names;
        }
    }
}

proptest! {
    #![proptest_config(seeded(192))]

    #[test]
    fn both_views_equal_a_model(choices in prop::collection::vec(choice(), 1..50)) {
        let (world, mut model) = (World::new(), Model::new());
        for (n, choice) in (0..).zip(&choices) {
            let Some(act) = choice.act(&model) else { continue };
            let prepared = Prepared::new(&act, 2_000 + 10 * n);
            let answer = prepared.run(&world.store, &NoHints);
            let expected = model.apply(&prepared);
            prop_assert_eq!(answer.map(drop), expected, "{:?}", act);
            compare(&world, &model);
            audit(&world.state());
        }
    }
}

proptest! {
    #![proptest_config(seeded(64))]

    #[test]
    fn hints_never_change_an_answer(
        choices in prop::collection::vec(choice(), 1..24),
        ways in prop::collection::vec((any::<u64>(), any::<bool>(), any::<bool>()), 3),
    ) {
        let mut model = Model::new();
        let mut state = World::new().state();
        let mut states: Vec<BTreeMap<Key, Value>> = vec![state.records.clone()];
        for (n, choice) in (0..).zip(&choices) {
            let Some(act) = choice.act(&model) else { continue };
            let prepared = Prepared::new(&act, 2_000 + 10 * n);
            let world = World::of(&state);
            let answer = prepared.run(&world.store, &NoHints);
            let after = world.state();
            for (number, (choice, absences, sure)) in ways.iter().enumerate() {
                let stale = Stale {
                    states: &states,
                    choice: *choice,
                    absences: *absences,
                    sure: *sure,
                    fickle: (number > 0).then(Cell::default),
                };
                let world = World::of(&state);
                let found = prepared.run(&world.store, &stale);
                prop_assert_eq!(&found, &answer, "{:?} with stale hints", act);
                prop_assert_eq!(&world.state(), &after, "{:?} with stale hints", act);
            }
            // A refused operation changes nothing, and the model predicts the refusal.
            prop_assert_eq!(answer.map(drop), model.apply(&prepared), "{:?}", act);
            state = after;
            states.push(state.records.clone());
        }
    }
}
