//! The records of the ring as one value, as of one read of the store.

use std::collections::BTreeMap;
use std::fmt;

use kms::KmsKeyName;
use record::{
    RewrapRecord, RingKeyRecord, RingKeyState, RingNumber, RingState, RingWrapping, Timestamp, key,
};
use store::{Entry, Guard, Key, MetaStore, Read, ReadResult, Value};

use crate::error::KeyStoreError;
use crate::ring_kind::RingKind;

/// A ring key, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingEntry {
    /// The number.
    pub number: RingNumber,
    /// The time at which the key was made.
    pub made: Timestamp,
    /// The key that wraps this one.
    pub wrapping: RingWrapping,
    /// True if new content of its kind is encrypted under the key.
    pub is_current: bool,
    /// The permitted use of the key.
    pub state: RingKeyState,
}

/// All records of the ring.
#[derive(Clone, Default)]
pub(crate) struct Ring {
    pub(crate) state: RingState,
    /// The bytes of the state's record; `None` if there is none.
    state_bytes: Option<Value>,
    pub(crate) keys: BTreeMap<RingNumber, (RingKeyRecord, Value)>,
    pub(crate) rewrap: Option<(RewrapRecord, Value)>,
}

impl Ring {
    /// Returns the record of a key and its bytes.
    ///
    /// # Errors
    /// Fails with `NoSuchKey`.
    pub(crate) fn known(
        &self,
        number: RingNumber,
    ) -> Result<&(RingKeyRecord, Value), KeyStoreError> {
        self.keys.get(&number).ok_or(KeyStoreError::NoSuchKey(number))
    }

    /// Reads all records: the state first, then the keys up to the highest number.
    pub(crate) async fn read(store: &dyn MetaStore) -> Result<Ring, KeyStoreError> {
        let found = records(store, &[key::ring_state(), key::rewrap()]).await?;
        let [state, rewrap] = <[_; 2]>::try_from(found).unwrap_or_default();
        let mut ring = Ring::default();
        if let Some(entry) = state {
            ring.state = RingState::decode(&entry.key, &entry.value)?;
            ring.state_bytes = Some(entry.value);
        }
        if let Some(entry) = rewrap {
            ring.rewrap = Some((RewrapRecord::decode(&entry.key, &entry.value)?, entry.value));
        }
        let numbers: Vec<RingNumber> = (1..=ring.state.highest).map(RingNumber).collect();
        for page in numbers.chunks(store.limits().reads.max(1)) {
            let keys: Vec<Key> = page.iter().copied().map(key::ring_key).collect();
            for (number, entry) in page.iter().zip(records(store, &keys).await?) {
                if let Some(entry) = entry {
                    let record = RingKeyRecord::decode(&entry.key, &entry.value)?;
                    ring.keys.insert(*number, (record, entry.value));
                }
            }
        }
        Ok(ring)
    }

    /// Returns the guard that holds while the state has not changed since it was read.
    pub(crate) fn unchanged(&self) -> Guard {
        match &self.state_bytes {
            Some(bytes) => Guard::Equals(key::ring_state(), bytes.clone()),
            None => Guard::Absent(key::ring_state()),
        }
    }

    /// Returns the key for new content of a kind.
    pub(crate) fn current_of(&self, kind: &RingKind) -> Option<RingNumber> {
        match kind {
            RingKind::Volume => self.state.volume_key,
            RingKind::Kms(name) => self.newest_of(name),
        }
    }

    fn newest_of(&self, name: &KmsKeyName) -> Option<RingNumber> {
        let is_usable = |record: &RingKeyRecord| match &record.wrapping {
            RingWrapping::Kms(known) => {
                known == name.as_str() && record.state == RingKeyState::Usable
            }
            RingWrapping::Master(_) => false,
        };
        self.keys.iter().rev().find(|(_, (record, _))| is_usable(record)).map(|(number, _)| *number)
    }

    /// Returns true if new content of its kind is encrypted under the key.
    pub(crate) fn is_current(&self, number: RingNumber, record: &RingKeyRecord) -> bool {
        match &record.wrapping {
            RingWrapping::Master(_) => self.state.volume_key == Some(number),
            RingWrapping::Kms(name) => {
                name.parse::<KmsKeyName>().is_ok_and(|name| self.newest_of(&name) == Some(number))
            }
        }
    }

    /// Returns all keys in the order of their numbers.
    pub(crate) fn entries(&self) -> Vec<RingEntry> {
        let entry = |(number, (record, _)): (&RingNumber, &(RingKeyRecord, Value))| RingEntry {
            number: *number,
            made: record.made,
            wrapping: record.wrapping.clone(),
            is_current: self.is_current(*number, record),
            state: record.state,
        };
        self.keys.iter().map(entry).collect()
    }
}

/// Omits the wrapped keys.
impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Ring");
        shown.field("state", &self.state).field("entries", &self.entries());
        shown.finish_non_exhaustive()
    }
}

/// Reads records from one snapshot.
pub(crate) async fn records(
    store: &dyn MetaStore,
    keys: &[Key],
) -> Result<Vec<Option<Entry>>, KeyStoreError> {
    let reads: Vec<Read> =
        keys.iter().map(|key| Read::Record { key: key.clone(), follow: None }).collect();
    let answers = store.read(&reads).await?;
    let record = |answer: ReadResult| match answer {
        ReadResult::Record(entry) => entry,
        ReadResult::Range(_) | ReadResult::Counter(_) => None,
    };
    Ok(answers.into_iter().map(record).collect())
}
