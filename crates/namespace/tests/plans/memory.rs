//! What tests remember on behalf of planners.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use namespace::Hints;
use record::{Ino, key};
use store::{Key, Plan, Read, ReadResult, Target, Value, Write};

/// Remembers exactly what it was told: records and absences.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    records: RefCell<BTreeMap<Key, Option<Value>>>,
}

impl Memory {
    /// Takes note of what was read.
    pub(crate) fn learn(&self, reads: &[Read], found: &[ReadResult]) {
        let mut records = self.records.borrow_mut();
        for (read, found) in reads.iter().zip(found) {
            let (entries, follow) = match (read, found) {
                (Read::Record { key, follow }, ReadResult::Record(entry)) => {
                    if entry.is_none() {
                        records.insert(key.clone(), None);
                    }
                    (entry.as_slice(), follow)
                }
                (Read::Range { follow, .. }, ReadResult::Range(entries)) => (&entries[..], follow),
                _ => continue,
            };
            for entry in entries {
                records.insert(entry.key.clone(), Some(entry.value.clone()));
                let target = follow.as_ref().and_then(|follow| follow.target(&entry.value));
                match (target, &entry.target) {
                    (None, _) | (_, Target::Cut(_)) => {}
                    (Some(target), found) => {
                        records.insert(target, found.whole().cloned());
                    }
                }
            }
        }
    }

    /// Takes note of what a committed plan wrote.
    pub(crate) fn apply(&self, plan: &Plan) {
        for write in &plan.writes {
            match write {
                Write::Put(key, value) => self.set(key.clone(), Some(value.clone())),
                Write::Delete(key) => self.set(key.clone(), None),
                Write::Add(..) | Write::Max(..) | Write::Set(..) | Write::Clear(..) => {}
            }
        }
    }

    fn set(&self, key: Key, value: Option<Value>) {
        self.records.borrow_mut().insert(key, value);
    }
}

impl Hints for Memory {
    fn record(&self, key: &Key) -> Option<Option<Value>> {
        self.records.borrow().get(key).cloned()
    }

    fn sibling(&self, directory: Ino, not: &[u8]) -> Option<Key> {
        let (start, end) = key::dentries(directory);
        let records = self.records.borrow();
        let mut names = records.range(start..end).filter(|(_, value)| value.is_some());
        names.find(|(key, _)| key.suffix() != not).map(|(key, _)| key.clone())
    }
}

/// Hints from earlier states of a store: each record from one of them, chosen by its key, so that
/// records which never stood together are believed together.
#[derive(Clone, Debug)]
pub(crate) struct Stale<'a> {
    pub(crate) states: &'a [BTreeMap<Key, Value>],
    /// Which state tells of which record.
    pub(crate) choice: u64,
    /// Whether it is also remembered what was absent.
    pub(crate) absences: bool,
    /// Whether something is known of every record.
    pub(crate) sure: bool,
    /// Calls so far, if each tells of another state: hints change while they are asked.
    pub(crate) fickle: Option<Cell<u64>>,
}

impl Stale<'_> {
    fn state(&self, key: &Key) -> Option<&BTreeMap<Key, Value>> {
        let turn = self.fickle.as_ref().map_or(0, |calls| {
            calls.set(calls.get() + 1);
            calls.get()
        });
        let mixed = key.as_bytes().iter().fold(self.choice ^ turn, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
        });
        let count = self.states.len() as u64 + u64::from(!self.sure);
        self.states.get(usize::try_from(mixed % count).unwrap())
    }
}

impl Hints for Stale<'_> {
    fn record(&self, key: &Key) -> Option<Option<Value>> {
        let found = self.state(key)?.get(key).cloned();
        (found.is_some() || self.absences).then_some(found)
    }

    fn sibling(&self, directory: Ino, not: &[u8]) -> Option<Key> {
        let (start, end) = key::dentries(directory);
        let state = self.state(&start)?;
        state.range(start..end).map(|(key, _)| key).find(|key| key.suffix() != not).cloned()
    }
}
