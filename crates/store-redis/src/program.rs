//! What a script is told: steps of a few bytes, which refer to its arguments by index.
//!
//! A key stands among the arguments once, however many steps name it: as a place, which it shares with
//! others, and a field. In a point space the place is a chunk, the space and the beginning of the
//! partition, and the field is the rest of the key; in an ordered space it is space and partition, and
//! the field is the suffix as members have it. Keys of one place stand side by side, so that a script
//! can ask for all of them with one command.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use store::Key;

use crate::limits::LIMITS;
use crate::member;

/// Fields that a script asks for with one command, at most. Lua has a limit on arguments.
const GROUP_FIELDS_MAX: usize = 1_000;

/// The index of a script's first argument behind its program and its groups.
const FIRST: usize = 3;

/// Bytes of a long record that stand in its space's hash or its partition's sorted set; `prelude.lua`
/// has the same number. They fill one of the server's pieces of memory, and hold the head of every
/// inode.
const HEAD_BYTES: usize = 252;

/// Bytes of a record from which on it is long, but for those of just [`HEAD_BYTES`].
const LONG_BYTES: usize = 1_025;
const _: () = assert!(HEAD_BYTES < LONG_BYTES);

/// A record as the server keeps it: its bytes, or the head and the rest of a long one.
pub(crate) fn parts(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    match value.split_at_checked(HEAD_BYTES) {
        Some((head, rest)) if rest.is_empty() || value.len() >= LONG_BYTES => (head, Some(rest)),
        _ => (value, None),
    }
}

/// What is to be known of a key before the first step; the more, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Known {
    /// Nothing: the record is only written.
    Nothing,
    /// Whether there is such a record.
    Presence,
    /// A record's bytes.
    Record,
    /// A tally.
    Tally,
}

impl Known {
    /// The same, as scripts name it.
    fn code(self) -> u8 {
        match self {
            Known::Nothing => b'n',
            Known::Presence => b'p',
            Known::Record => b'r',
            Known::Tally => b't',
        }
    }
}

/// Keys that a program will name.
#[derive(Debug, Default)]
pub(crate) struct Keys<'a> {
    records: BTreeMap<&'a Key, Known>,
    tallies: BTreeMap<&'a Key, Known>,
}

impl<'a> Keys<'a> {
    pub(crate) fn record(&mut self, key: &'a Key, known: Known) {
        let slot = self.records.entry(key).or_insert(known);
        *slot = known.max(*slot);
    }

    pub(crate) fn tally(&mut self, key: &'a Key) {
        self.tallies.insert(key, Known::Tally);
    }
}

/// Bytes of a key in a point space that say its chunk. So a chunk has the records of 65,536
/// partitions, which are mostly as many inodes: a hash of that size grows without a hitch, and gives
/// its memory back when they are gone.
pub(crate) const CHUNK_BYTES: usize = 7;
// Scripts tell places by their length.
const _: () = assert!(CHUNK_BYTES < Key::PREFIX_BYTES);

/// Bytes of a key that say its place, where records stand together.
pub(crate) fn place(key: &Key) -> &[u8] {
    let bytes = if key.space().is_ordered() { Key::PREFIX_BYTES } else { CHUNK_BYTES };
    key.as_bytes().get(..bytes).unwrap_or_default()
}

/// The bytes of a tally's key that say its place.
fn tally_place(key: &Key) -> &[u8] {
    key.as_bytes().get(..1).unwrap_or_default()
}

/// A script's arguments, as far as they are known.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    steps: Vec<u8>,
    groups: Vec<u8>,
    arguments: Vec<Cow<'a, [u8]>>,
    places: HashMap<&'a [u8], u16>,
    numbers: HashMap<i64, u16>,
    records: BTreeMap<&'a Key, u16>,
    tallies: BTreeMap<&'a Key, u16>,
}

impl<'a> Program<'a> {
    /// A program that knows its keys, and has no steps yet.
    pub(crate) fn over(keys: Keys<'a>) -> Program<'a> {
        let mut program = Program {
            steps: Vec::new(),
            groups: Vec::new(),
            arguments: Vec::new(),
            places: HashMap::new(),
            numbers: HashMap::new(),
            records: BTreeMap::new(),
            tallies: BTreeMap::new(),
        };
        let mut all: Vec<(Known, &'a [u8], &'a Key)> =
            keys.records.into_iter().map(|(key, known)| (known, place(key), key)).collect();
        all.extend(keys.tallies.into_iter().map(|(key, known)| (known, tally_place(key), key)));
        // Stable, so that keys stay in order within each kind.
        all.sort_by_key(|(known, ..)| *known);
        let groups = all.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1));
        for group in groups.flat_map(|group| group.chunks(GROUP_FIELDS_MAX)) {
            program.group(group);
        }
        program
    }

    /// Adds keys of one place, for the same to be known of.
    fn group(&mut self, group: &[(Known, &'a [u8], &'a Key)]) {
        let Some((known, place, _)) = group.first() else { return };
        let place = self.place(place);
        let first = self.next_index();
        for (known, place, key) in group {
            let indices = match known {
                Known::Tally => &mut self.tallies,
                _ => &mut self.records,
            };
            indices.insert(key, index_of(self.arguments.len()));
            self.arguments.push(if place.len() == Key::PREFIX_BYTES {
                Cow::Owned(member::written(key.suffix()))
            } else {
                Cow::Borrowed(key.as_bytes().get(place.len()..).unwrap_or_default())
            });
        }
        self.groups.push(known.code());
        for index in [place, first, self.next_index() - 1] {
            self.groups.extend(index.to_be_bytes());
        }
    }

    /// The index of a place, which is added if it is not there yet.
    fn place(&mut self, place: &'a [u8]) -> u16 {
        if let Some(index) = self.places.get(place) {
            return *index;
        }
        let index = self.argument(place);
        self.places.insert(place, index);
        index
    }

    /// The index that the next argument will have.
    fn next_index(&self) -> u16 {
        index_of(self.arguments.len())
    }

    /// Adds an argument, and says its index.
    pub(crate) fn argument(&mut self, argument: impl Into<Cow<'a, [u8]>>) -> u16 {
        let index = self.next_index();
        self.arguments.push(argument.into());
        index
    }

    /// The index of a number, which is added if it is not there yet.
    pub(crate) fn number(&mut self, number: i64) -> u16 {
        if let Some(index) = self.numbers.get(&number) {
            return *index;
        }
        let index = self.argument(number.to_string().into_bytes());
        self.numbers.insert(number, index);
        index
    }

    /// Adds a record's bytes, and says their index: of a long one both parts, one after the other.
    pub(crate) fn value(&mut self, value: &'a [u8]) -> u16 {
        match parts(value) {
            (whole, None) => self.argument(whole),
            (head, Some(rest)) => {
                let index = self.argument(head);
                self.argument(rest);
                index
            }
        }
    }

    /// The index of a record's key.
    pub(crate) fn record(&self, key: &Key) -> u16 {
        *self.records.get(key).expect("every record that a step names was announced")
    }

    /// The index of a tally's key.
    pub(crate) fn tally(&self, key: &Key) -> u16 {
        *self.tallies.get(key).expect("every tally that a step names was announced")
    }

    /// Adds arguments for a range: where it lies, and its bounds within the partition. Says the
    /// index of the first.
    pub(crate) fn range(&mut self, start: &'a Key, end: &'a Key) -> u16 {
        let index = self.argument(place(start));
        self.argument([&b"["[..], &member::written(start.suffix())].concat());
        let whole = start.partition() != end.partition();
        self.argument(if whole {
            b"+".to_vec()
        } else {
            [&b"("[..], &member::written(end.suffix())].concat()
        });
        index
    }

    /// Adds a step of five bytes.
    pub(crate) fn step(&mut self, code: u8, first: u16, second: u16) {
        self.steps.push(code);
        self.steps.extend(first.to_be_bytes());
        self.steps.extend(second.to_be_bytes());
    }

    /// Adds more bytes to a step.
    pub(crate) fn more(&mut self, bytes: &[u8]) {
        self.steps.extend(bytes);
    }

    /// Everything that the script is told, in order.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        [&self.steps[..], &self.groups[..]]
            .into_iter()
            .chain(self.arguments.iter().map(|argument| &**argument))
    }
}

fn index_of(position: usize) -> u16 {
    // Every guard, write and question adds at most five arguments.
    const ITEMS: usize =
        if LIMITS.batch_items > LIMITS.reads { LIMITS.batch_items } else { LIMITS.reads };
    const _: () = assert!(5 * ITEMS + LIMITS.batch_plans + FIRST < u16::MAX as usize);
    u16::try_from(position + FIRST).expect("limits keep the number of arguments below 2^16")
}

#[cfg(test)]
mod tests;
