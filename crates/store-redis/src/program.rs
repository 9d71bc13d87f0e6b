//! The arguments of `read.lua`: a program of short instructions, which refer to the other arguments
//! by index.
//!
//! A key is an argument only once, for any number of instructions. It is split into its container
//! and its name in the container (see [`crate::record`]). The names of one container are adjacent,
//! as a group, so that a script can fetch all of them with one command before it runs the program.
//! For example, five guards on inodes of one chunk are one `HMGET`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use store::Key;

use crate::limits::LIMITS;
use crate::member;
use crate::record::{container, range_bounds};

/// Limit of the names that a script fetches with one command. Lua limits the number of arguments.
const GROUP_NAMES_MAX: usize = 1_000;

/// The index of a script's first argument after its instructions and its groups of keys.
const FIRST: usize = 3;

/// A kind of key, which decides how the script fetches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fetch {
    Record,
    Counter,
}

impl Fetch {
    /// Returns the code in scripts.
    fn code(self) -> u8 {
        match self {
            Fetch::Record => b'r',
            Fetch::Counter => b'n',
        }
    }
}

/// The keys to which a program refers. The script fetches their records and counters.
#[derive(Debug, Default)]
pub(crate) struct Keys<'a> {
    records: BTreeSet<&'a Key>,
    counters: BTreeSet<&'a Key>,
}

impl<'a> Keys<'a> {
    pub(crate) fn record(&mut self, key: &'a Key) {
        self.records.insert(key);
    }

    pub(crate) fn counter(&mut self, key: &'a Key) {
        self.counters.insert(key);
    }
}

/// Returns the container of a counter: the hash of its space.
fn counter_container(key: &Key) -> &[u8] {
    key.as_bytes().get(..1).unwrap_or_default()
}

/// The arguments of a script while they are collected: instructions, and the keys and values to
/// which these refer.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    instructions: Vec<u8>,
    groups: Vec<u8>,
    arguments: Vec<Cow<'a, [u8]>>,
    containers: HashMap<&'a [u8], u16>,
    records: BTreeMap<&'a Key, u16>,
    counters: BTreeMap<&'a Key, u16>,
}

impl<'a> Program<'a> {
    /// Creates a program that has these keys as arguments, and no instructions yet.
    pub(crate) fn new(keys: Keys<'a>) -> Program<'a> {
        let mut program = Program {
            instructions: Vec::new(),
            groups: Vec::new(),
            arguments: Vec::new(),
            containers: HashMap::new(),
            records: BTreeMap::new(),
            counters: BTreeMap::new(),
        };
        let mut all: Vec<(Fetch, &'a [u8], &'a Key)> =
            keys.records.into_iter().map(|key| (Fetch::Record, container(key), key)).collect();
        all.extend(
            keys.counters.into_iter().map(|key| (Fetch::Counter, counter_container(key), key)),
        );
        // The sort is stable, so keys stay in order within each kind.
        all.sort_by_key(|(fetch, ..)| *fetch);
        let groups = all.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1));
        for group in groups.flat_map(|group| group.chunks(GROUP_NAMES_MAX)) {
            program.group(group);
        }
        program
    }

    /// Adds a group: keys of one container that the script fetches with one command.
    fn group(&mut self, group: &[(Fetch, &'a [u8], &'a Key)]) {
        let Some((fetch, container, _)) = group.first() else { return };
        let container = self.container(container);
        let first = self.next_index();
        for (fetch, container, key) in group {
            let indices = match fetch {
                Fetch::Counter => &mut self.counters,
                Fetch::Record => &mut self.records,
            };
            indices.insert(key, index_of(self.arguments.len()));
            self.arguments.push(if container.len() == Key::PREFIX_BYTES {
                Cow::Owned(member::written(key.suffix()))
            } else {
                Cow::Borrowed(key.as_bytes().get(container.len()..).unwrap_or_default())
            });
        }
        self.groups.push(fetch.code());
        for index in [container, first, self.next_index() - 1] {
            self.groups.extend(index.to_be_bytes());
        }
    }

    /// Returns the index of the argument with the name of a container, a hash or sorted set of
    /// records. Adds the argument if it is new.
    fn container(&mut self, container: &'a [u8]) -> u16 {
        if let Some(index) = self.containers.get(container) {
            return *index;
        }
        let index = self.argument(container);
        self.containers.insert(container, index);
        index
    }

    /// Returns the index of the next argument.
    fn next_index(&self) -> u16 {
        index_of(self.arguments.len())
    }

    /// Adds an argument and returns its index.
    pub(crate) fn argument(&mut self, argument: impl Into<Cow<'a, [u8]>>) -> u16 {
        let index = self.next_index();
        self.arguments.push(argument.into());
        index
    }

    /// Returns the index of a record's key.
    pub(crate) fn record(&self, key: &Key) -> u16 {
        *self.records.get(key).expect("the program was made with every record's key")
    }

    /// Returns the index of a counter's key.
    pub(crate) fn counter(&self, key: &Key) -> u16 {
        *self.counters.get(key).expect("the program was made with every counter's key")
    }

    /// Adds the arguments of a range of records: its container, a sorted set, and its two bounds in
    /// it. Returns the index of the first argument.
    pub(crate) fn range(&mut self, start: &'a Key, end: &'a Key) -> u16 {
        let index = self.argument(container(start));
        for bound in range_bounds(start, end) {
            self.argument(bound);
        }
        index
    }

    /// Adds an instruction of five bytes: an opcode and two numbers, mostly indexes of arguments.
    pub(crate) fn instruction(&mut self, opcode: u8, first: u16, second: u16) {
        self.instructions.push(opcode);
        self.instructions.extend(first.to_be_bytes());
        self.instructions.extend(second.to_be_bytes());
    }

    /// Appends bytes to the last instruction.
    pub(crate) fn extend_instruction(&mut self, bytes: &[u8]) {
        self.instructions.extend(bytes);
    }

    /// Returns all arguments of the script, in order.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        [&self.instructions[..], &self.groups[..]]
            .into_iter()
            .chain(self.arguments.iter().map(|argument| &**argument))
    }
}

fn index_of(position: usize) -> u16 {
    // Each read adds at most five arguments.
    const _: () = assert!(5 * LIMITS.reads + FIRST < u16::MAX as usize);
    u16::try_from(position + FIRST).expect("limits keep the number of arguments below 2^16")
}
