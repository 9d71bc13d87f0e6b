//! Laws for each sequence of operations: hints never change an answer, counters equal a recount, no
//! implied directory stays empty, and no made directory is removed.

use std::cell::Cell;
use std::collections::BTreeMap;

use namespace::{FsError, ListQuery, NoHints, TagMatch, WriteCondition};
use proptest::prelude::*;
use record::Ino;
use store::{Key, Value};

use crate::acts::{Act, Names, Prepared};
use crate::audit::audit;
use crate::memory::Stale;
use crate::world::{State, World, tag};

const OBJECTS: [&[u8]; 12] = [
    b"a", b"b", b"c", b"a/", b"a/b", b"a/b/x", b"a/b/y", b"a//x", b"m/x", b"m/n/x", b"m/", b"c/d/e",
];

/// Directories, sorted by path, and the names that may be in them.
const DIRECTORIES: [(&[u8], [&[u8]; 3]); 7] = [
    (b"", [b"a", b"b", b"c"]),
    (b"a/", [b"", b"b", b"x"]),
    (b"a//", [b"x", b"y", b""]),
    (b"a/b/", [b"x", b"y", b""]),
    (b"c/d/", [b"e", b"f", b""]),
    (b"m/", [b"x", b"n", b""]),
    (b"m/n/", [b"x", b"y", b""]),
];

fn condition() -> impl Strategy<Value = Option<TagMatch>> {
    prop_oneof![
        3 => Just(None),
        1 => Just(Some(TagMatch::Any)),
        1 => (1_u8..4).prop_map(|n| Some(TagMatch::OneOf(vec![tag(n)]))),
    ]
}

/// The chosen names, each with its condition.
fn some(names: [&'static [u8]; 3], chosen: Vec<(bool, Option<TagMatch>)>) -> Names {
    let names = names.into_iter().zip(chosen).filter(|(_, (chosen, _))| *chosen);
    names.map(|(name, (_, condition))| (name, condition)).collect()
}

fn act() -> impl Strategy<Value = Act> {
    let object = || prop::sample::select(OBJECTS.to_vec());
    let uploaded = || prop::sample::select(vec![&b"a/b/x"[..], b"c/d/e"]);
    let condition_of_put = prop_oneof![
        2 => condition().prop_map(|c| c.map_or(WriteCondition::None, WriteCondition::IfMatch)),
        1 => Just(WriteCondition::IfAbsent),
        1 => (1_u8..4).prop_map(|n| WriteCondition::IfNoneMatch(vec![tag(n)])),
    ];
    let directory = prop::sample::select(DIRECTORIES.to_vec());
    let chosen = || prop::collection::vec((any::<bool>(), condition()), 3);
    let removal = (directory, chosen());
    let removals = (
        prop::sample::subsequence(DIRECTORIES.to_vec(), 2..=DIRECTORIES.len()),
        prop::collection::vec(chosen(), DIRECTORIES.len()),
    );
    prop_oneof![
        6 => (object(), 1_u8..4, condition_of_put)
            .prop_map(|(object, n, condition)| Act::Put { object, n, condition }),
        6 => removal.prop_map(|((directory, names), chosen)| {
            Act::Remove { directory, names: some(names, chosen) }
        }),
        4 => removals.prop_map(|(directories, chosen)| {
            let branches = directories.into_iter().zip(chosen);
            let branch = |((directory, names), chosen)| (directory, some(names, chosen));
            Act::RemoveAll(branches.map(branch).collect())
        }),
        3 => object().prop_map(Act::Look),
        1 => object().prop_map(Act::Tags),
        3 => (object(), object()).prop_map(|(from, to)| Act::Copy(from, to)),
        4 => (object(), object(), condition(), any::<bool>())
            .prop_map(|(from, to, tags, alone)| Act::Rename { from, to, tags, alone }),
        1 => Just(Act::MakeBucket),
        1 => Just(Act::DropBucket),
        1 => any::<bool>().prop_map(Act::Configure),
        1 => uploaded().prop_map(Act::Begin),
        1 => uploaded().prop_map(Act::Part),
        1 => uploaded().prop_map(Act::Complete),
        1 => uploaded().prop_map(Act::Abort),
    ]
}

/// Objects by key, each identified by its size: a model of S3, as simple as possible.
#[derive(Clone, Debug, Default)]
struct Model(BTreeMap<Vec<u8>, u8>);

impl Model {
    fn check(&self, object: &[u8], condition: Option<&TagMatch>) -> Result<bool, FsError> {
        match (self.0.get(object), condition) {
            (found, None) => Ok(found.is_some()),
            (None, Some(_)) => Err(FsError::NoSuchKey),
            (Some(n), Some(tags)) if tags.accepts(&tag(*n)) => Ok(true),
            (Some(_), Some(_)) => Err(FsError::PreconditionFailed),
        }
    }

    /// Applies an operation to the model. Returns the expected beginning of its answer.
    fn act(&mut self, act: &Act) -> String {
        match act {
            Act::Put { object, n, condition } => {
                let verdict = match condition {
                    WriteCondition::IfAbsent if self.0.contains_key(*object) => {
                        Err(FsError::PreconditionFailed)
                    }
                    WriteCondition::IfNoneMatch(tags)
                        if self.0.get(*object).is_some_and(|n| tags.contains(&tag(*n))) =>
                    {
                        Err(FsError::PreconditionFailed)
                    }
                    WriteCondition::None
                    | WriteCondition::IfAbsent
                    | WriteCondition::IfNoneMatch(_) => Ok(()),
                    WriteCondition::IfMatch(tags) => self.check(object, Some(tags)).map(drop),
                };
                if verdict.is_ok() {
                    self.0.insert(object.to_vec(), *n);
                }
                verdict.err().map_or("Ok(Published".to_owned(), |e| format!("Err({e:?})"))
            }
            Act::Remove { directory, names } => {
                format!("Ok({:?})", self.remove(directory, names))
            }
            Act::RemoveAll(branches) => {
                let removed = branches.iter().flat_map(|(path, names)| self.remove(path, names));
                format!("Ok({:?})", removed.collect::<Vec<_>>())
            }
            Act::Rename { from, to, tags, alone } => {
                let verdict = self.rename(from, to, tags.as_ref(), *alone);
                verdict.map_or_else(|e| format!("Err({e:?})"), |()| "Ok(Renamed".to_owned())
            }
            _ => String::new(),
        }
    }

    fn rename(
        &mut self,
        from: &[u8],
        to: &[u8],
        tags: Option<&TagMatch>,
        alone: bool,
    ) -> Result<(), FsError> {
        if !self.check(from, tags)? {
            return Err(FsError::NoSuchKey);
        }
        if from == to {
            return Ok(());
        }
        if alone && self.0.contains_key(to) {
            return Err(FsError::PreconditionFailed);
        }
        let moved = self.0.remove(from).expect("just seen");
        self.0.insert(to.to_vec(), moved);
        Ok(())
    }

    fn remove(&mut self, directory: &[u8], names: &Names) -> Vec<Result<bool, FsError>> {
        let removed = names.iter().map(|(name, condition)| {
            let object = [directory, *name].concat();
            let verdict = self.check(&object, condition.as_ref());
            if verdict == Ok(true) {
                self.0.remove(&object);
            }
            verdict
        });
        removed.collect()
    }

    /// The keys of a listing: objects, and the deepest made directory while it is empty.
    fn shown(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = self.0.keys().cloned().collect();
        if !self.0.keys().any(|key| key.starts_with(b"m/n/")) {
            keys.push(b"m/n/".to_vec());
            keys.sort();
        }
        keys
    }
}

/// A bucket with the made directories `m/n`.
fn begin() -> World {
    let world = World::new();
    world.mkdir(Ino(1_024), &[b"m", b"n"]);
    world
}

fn everything() -> ListQuery {
    ListQuery { prefix: Vec::new(), delimiter: None, after: None, limit: 1_000 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn hints_never_change_an_answer(
        acts in prop::collection::vec(act(), 1..24),
        choices in prop::collection::vec((any::<u64>(), any::<bool>(), any::<bool>()), 3),
    ) {
        let mut state = begin().state();
        let mut states: Vec<BTreeMap<Key, Value>> = vec![state.records.clone()];
        for (n, act) in (0..).zip(&acts) {
            let prepared = Prepared::new(act, &state, 2_000 + 100 * n);
            let world = World::of(&state);
            let answer = prepared.run(&world.store, &NoHints);
            let after: State = world.state();
            audit(&after);
            let listing = world.list(b"b", &everything(), &NoHints).0;
            for (number, (choice, absences, sure)) in choices.iter().enumerate() {
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
                prop_assert_eq!(world.state().settled(), after.clone().settled(), "{:?}", act);
                // The driver plans each pass twice and compares the plans, so hints must not change
                // in between.
                let steady = Stale { fickle: None, ..stale };
                prop_assert_eq!(&world.list(b"b", &everything(), &steady).0, &listing);
            }
            state = after;
            states.push(state.records.clone());
        }
    }

    #[test]
    fn objects_equal_a_model(acts in prop::collection::vec(act(), 1..60)) {
        let (world, mut model) = (begin(), Model::default());
        let plain = |act: &&Act| {
            matches!(
                act,
                Act::Put { .. } | Act::Remove { .. } | Act::RemoveAll(_) | Act::Rename { .. }
            )
        };
        for (n, act) in (0..).zip(acts.iter().filter(plain)) {
            let prepared = Prepared::new(act, &World::empty().state(), 2_000 + 100 * n);
            let answer = prepared.run(&world.store, &NoHints);
            let expected = model.act(act);
            prop_assert!(answer.starts_with(&expected), "{:?}: {} not {}", act, answer, expected);
            let listing = world.list(b"b", &everything(), &NoHints).0.unwrap();
            let listed: Vec<Vec<u8>> = listing.entries.iter().map(|e| e.key().to_vec()).collect();
            prop_assert_eq!(listed, model.shown(), "after {:?}", act);
        }
        world.audit();
    }
}
