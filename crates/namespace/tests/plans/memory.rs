//! Caches of records that tests use as hints.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use namespace::Hints;
use record::{Ino, key};
use store::{Key, Plan, Read, ReadResult, Target, Value, Write};

/// Caches exactly the records and absences that it has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    records: RefCell<BTreeMap<Key, Option<Value>>>,
}

impl Memory {
    /// Caches the results of reads.
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

    /// Caches the writes of a committed plan.
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

/// Hints from earlier states of a store. The key of each record selects the state, so hints combine
/// records that never existed together.
#[derive(Clone, Debug)]
pub(crate) struct Stale<'a> {
    pub(crate) states: &'a [BTreeMap<Key, Value>],
    /// Selects the state for each record.
    pub(crate) choice: u64,
    /// True to cache also absences.
    pub(crate) absences: bool,
    /// True to have a hint for every record.
    pub(crate) sure: bool,
    /// The number of calls so far, if each call uses another state: hints then change during a
    /// pass.
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
