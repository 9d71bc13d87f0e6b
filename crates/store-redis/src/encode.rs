//! Encodes a decision as conditions and commands that `commit.lua` only has to check and run.
//!
//! In a small commit Lua costs the server more than the commands themselves, because each string
//! and each table that a script creates has a cost. So the client computes as much as possible. The
//! arguments are keys, fields, members and bounds in the form that commands take. The arguments of
//! one command are adjacent, so that the script passes them on without a copy.
//!
//! An *operation* of five bytes describes the use of a range of arguments: an opcode, the position
//! of the first argument, and their number. The operations are the last argument. Their order
//! matters: all operations that may refuse the batch come before the first change.
//!
//! For example, three guards of the kind `Equals` on one chunk become one operation `FIELDS_EQUAL`
//! with the hash, three fields and three values.

use std::collections::HashSet;

use store::feed::FEED_BATCHES;
use store::{Before, CounterChange, CounterKey, DecidedBatch, Key};

use crate::limits::LIMITS;
use crate::overflow::{OUT_OF_BAND_BYTES, Overflow, marker};
use crate::record::{container, name_in_container, range_bounds, split};

/// Limit of the keys of one command. Lua limits the number of arguments.
const COMMAND_KEYS_MAX: usize = 1_000;

/// Limit of the arguments of one guard or write. A long record has this number if it is put without
/// a guard, in a container of its own.
const ITEM_ARGUMENTS_MAX: usize = 13;
/// Limit of the arguments of a batch beyond those of its items.
const BATCH_ARGUMENTS_MAX: usize = 16;
const _: () =
    assert!(ITEM_ARGUMENTS_MAX * LIMITS.batch_items + BATCH_ARGUMENTS_MAX < u16::MAX as usize);

/// The opcodes of `commit_opcodes.lua`. `commit.lua` describes them.
mod opcode {
    pub(super) const FIELDS_EQUAL: u8 = 1;
    pub(super) const FIELDS_ABSENT: u8 = 2;
    pub(super) const FIELDS_PRESENT: u8 = 3;
    pub(super) const MEMBERS_PRESENT: u8 = 4;
    pub(super) const RANGES_EMPTY: u8 = 5;
    pub(super) const RANGES_FILLED: u8 = 6;
    pub(super) const STRINGS_EQUAL: u8 = 7;
    pub(super) const SAVE: u8 = 8;
    pub(super) const COMPUTE_COUNTERS: u8 = 9;
    pub(super) const WRITE_COUNTERS: u8 = 10;
    pub(super) const INDEX: u8 = 11;
    pub(super) const RUN: u8 = 12;
    pub(super) const REPLACE_MEMBER: u8 = 13;
    pub(super) const PUT_FIELDS: u8 = 14;
    pub(super) const REMOVE: u8 = 15;
    pub(super) const COUNTERS_AT_MOST: u8 = 16;
    pub(super) const ADD: u8 = 24;
    pub(super) const MAX: u8 = 25;
    pub(super) const SET: u8 = 26;
    pub(super) const ADD_THEN_MAX: u8 = 27;
}

/// The knowledge, from the conditions of a batch, about the record that a write replaces or
/// deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replaced<'a> {
    Absent,
    Known { head: &'a [u8], is_long: bool },
    Unknown,
}

/// The way in which a batch is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// As one script, with large overflow values beside it in a transaction.
    Alone,
    /// As one script without a transaction, which a server without memory does not accept.
    WithoutMemory,
    /// As one of several in a transaction, which appends one entry for all of them to the feed.
    InSequence,
}

/// The subject of a condition.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    Record(&'a Key),
    /// A counter, and the largest value that it may have.
    Counter(&'a CounterKey, i64),
    Range(&'a Key, &'a Key),
}

/// The write of one record: a put or a deletion.
#[derive(Debug)]
struct RecordWrite<'a> {
    key: &'a Key,
    name: Vec<u8>,
    /// The bytes to put into the record's container, a hash or sorted set; `None` deletes the
    /// record.
    head: Option<&'a [u8]>,
    /// The rest of a long record, which gets a key of its own; `None` for other records and
    /// deletions.
    overflow: Option<&'a [u8]>,
    before: Replaced<'a>,
}

/// A record with a condition: its key, its name in its container, and the head that it must have.
type Named<'a> = (&'a Key, Vec<u8>, &'a [u8]);

/// The arguments of `commit.lua` for one batch, and the values that are sent beside the
/// script.
#[derive(Debug)]
pub(crate) struct EncodedBatch<'a> {
    prefix: &'a [u8],
    /// The arguments, concatenated.
    bytes: Vec<u8>,
    /// The end offset of each argument in `bytes`.
    ends: Vec<usize>,
    operations: Vec<u8>,
    delivery: Delivery,
    /// The subjects of the conditions, each with the position of its argument, in order.
    pub(crate) places: Vec<(usize, Place<'a>)>,
    /// Overflow values (the rest of long records) that are sent in a command beside the script.
    pub(crate) out_of_band: Vec<Overflow<'a>>,
}

impl<'a> EncodedBatch<'a> {
    /// Encodes a decision for a volume whose keys begin with `prefix`. `feed_entry` is added to the
    /// change feed, unless it is empty.
    pub(crate) fn encode<'d: 'a>(
        batch: &'d DecidedBatch<'a>,
        feed_entry: &[u8],
        prefix: &'a str,
        delivery: Delivery,
    ) -> EncodedBatch<'a> {
        let prefix = prefix.as_bytes();
        let mut encoded = EncodedBatch {
            prefix,
            bytes: Vec::new(),
            ends: Vec::new(),
            operations: Vec::new(),
            delivery,
            places: Vec::new(),
            out_of_band: Vec::new(),
        };
        encoded.conditions(batch);
        encoded.bounds(batch);
        // This fails the script if a counter is damaged and not a number. So it comes before the
        // first change.
        encoded.counters(batch);
        let first = encoded.next();
        encoded.argument(&[prefix, b"s"]);
        encoded.operation(opcode::SAVE, first);
        // All operations up to here leave the records unchanged, and no operation after this can
        // fail.
        encoded.operation(opcode::WRITE_COUNTERS, encoded.next());
        let writes = record_writes(batch);
        let groups: Vec<&[RecordWrite<'_>]> = writes
            .chunk_by(|one, other| container(one.key) == container(other.key))
            .flat_map(|group| group.chunks(COMMAND_KEYS_MAX))
            .collect();
        encoded.overflow_values(&writes);
        encoded.index_containers(&groups, batch);
        // All puts come before all removals. So no container becomes empty in between, which would
        // delete it and its entry in the index.
        for group in &groups {
            encoded.puts(group);
        }
        for group in &groups {
            encoded.removals(group);
        }
        if !feed_entry.is_empty() && delivery == Delivery::InSequence {
            encoded.command(b"APPEND", &[prefix, b"w"], [feed_entry]);
        } else if !feed_entry.is_empty() {
            // One entry more than promised: a reader that is behind by the promised number is at
            // the entry before them.
            let entries = (FEED_BATCHES + 1).to_string();
            let entry: [&[u8]; 6] = [b"MAXLEN", b"~", entries.as_bytes(), b"*", b"k", feed_entry];
            encoded.command(b"XADD", &[prefix, b"f"], entry);
        }
        encoded.clear_for_out_of_band();
        encoded
    }

    /// Returns all arguments of the script, in order.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let arguments = starts.zip(&self.ends).filter_map(|(from, to)| self.bytes.get(from..*to));
        arguments.chain([&self.operations[..]])
    }

    /// Adds an argument that consists of several pieces.
    fn argument(&mut self, pieces: &[&[u8]]) {
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
        self.ends.push(self.bytes.len());
    }

    /// Returns the position of the next argument.
    fn next(&self) -> usize {
        self.ends.len()
    }

    /// Adds an operation on all arguments from a position on.
    fn operation(&mut self, opcode: u8, first: usize) {
        let number = |many: usize| {
            u16::try_from(many).expect("limits keep the number of arguments below 2^16")
        };
        self.operations.push(opcode);
        // Lua counts from one.
        self.operations.extend(number(first + 1).to_be_bytes());
        self.operations.extend(number(self.next() - first).to_be_bytes());
    }

    /// Adds an operation on a key and the arguments after it. Adds nothing if there are none.
    fn operation_on<'b>(
        &mut self,
        opcode: u8,
        key: &[&[u8]],
        items: impl IntoIterator<Item = &'b [u8]>,
    ) {
        let first = self.next();
        let mut items = items.into_iter().peekable();
        if items.peek().is_some() {
            self.argument(key);
            items.for_each(|item| self.argument(&[item]));
            self.operation(opcode, first);
        }
    }

    /// Adds a command with one key.
    fn command<'b>(
        &mut self,
        command: &[u8],
        key: &[&[u8]],
        items: impl IntoIterator<Item = &'b [u8]>,
    ) {
        let first = self.next();
        self.argument(&[command]);
        self.argument(key);
        items.into_iter().for_each(|item| self.argument(&[item]));
        self.operation(opcode::RUN, first);
    }

    /// Adds the checks of records and ranges.
    fn conditions<'d: 'a>(&mut self, batch: &'d DecidedBatch<'a>) {
        let all: Vec<(&'a Key, &'d Before)> = batch.conditions().collect();
        // First, because the answer about a head needs the result.
        let overflow: Vec<(Vec<u8>, &[u8])> = all
            .iter()
            .filter_map(|(key, before)| match before {
                Before::Equal(value) => {
                    let value = split(value).1?;
                    Some((overflow_key(self.prefix, key, &name_in_container(key)), value))
                }
                Before::Absent | Before::Present => None,
            })
            .collect();
        for some in overflow.chunks(COMMAND_KEYS_MAX) {
            let first = self.next();
            some.iter().for_each(|(key, _)| self.argument(&[key]));
            self.operation(opcode::STRINGS_EQUAL, first);
            some.iter().for_each(|(_, value)| self.argument(&[value]));
        }
        let groups = all.chunk_by(|one, other| container(one.0) == container(other.0));
        for group in groups.flat_map(|group| group.chunks(COMMAND_KEYS_MAX)) {
            let (mut equal, mut absent, mut present) = (Vec::new(), Vec::new(), Vec::new());
            for (key, before) in group {
                let name = name_in_container(key);
                match before {
                    Before::Equal(value) => equal.push((*key, name, split(value).0)),
                    Before::Absent => absent.push((*key, name, &b""[..])),
                    Before::Present => present.push((*key, name, &b""[..])),
                }
            }
            if group.first().is_some_and(|(key, _)| key.space().is_ordered()) {
                self.member_conditions(&equal, &absent, &present);
            } else {
                self.field_conditions(opcode::FIELDS_EQUAL, &equal);
                equal.iter().for_each(|(.., value)| self.argument(&[value]));
                self.field_conditions(opcode::FIELDS_ABSENT, &absent);
                self.field_conditions(opcode::FIELDS_PRESENT, &present);
            }
        }
        for (start, end) in &batch.ranges {
            let bounds = range_bounds(start, end);
            let set = [self.prefix, b"z", container(start)];
            self.places.push((self.next() + 1, Place::Range(start, end)));
            self.operation_on(opcode::RANGES_EMPTY, &set, bounds.iter().map(|bound| &bound[..]));
        }
    }

    /// Adds a check of the fields of one hash.
    fn field_conditions(&mut self, opcode: u8, named: &[Named<'a>]) {
        let Some((key, ..)) = named.first() else { return };
        let first = self.next() + 1;
        let places = named.iter().zip(first..).map(|((key, ..), at)| (at, Place::Record(key)));
        self.places.extend(places);
        let hash = [self.prefix, b"r", container(key)];
        self.operation_on(opcode, &hash, named.iter().map(|(_, name, _)| &name[..]));
    }

    /// Adds the checks of the members of one sorted set.
    fn member_conditions(
        &mut self,
        equal: &[Named<'a>],
        absent: &[Named<'a>],
        present: &[Named<'a>],
    ) {
        let prefix = self.prefix;
        if let Some((key, ..)) = equal.first() {
            let first = self.next() + 1;
            let places = equal.iter().zip(first..).map(|((key, ..), at)| (at, Place::Record(key)));
            self.places.extend(places);
            let members: Vec<Vec<u8>> =
                equal.iter().map(|(_, suffix, head)| [&suffix[..], head].concat()).collect();
            let members = members.iter().map(|member| &member[..]);
            let set = [prefix, b"z", container(key)];
            self.operation_on(opcode::MEMBERS_PRESENT, &set, members);
        }
        for (opcode, named) in [(opcode::RANGES_EMPTY, absent), (opcode::RANGES_FILLED, present)] {
            let Some((key, ..)) = named.first() else { continue };
            let first = self.next() + 1;
            let places = named.iter().zip((first..).step_by(2));
            self.places.extend(places.map(|((key, ..), at)| (at, Place::Record(key))));
            let bounds: Vec<[Vec<u8>; 2]> =
                named.iter().map(|(_, suffix, _)| bounds(suffix)).collect();
            let bounds = bounds.iter().flatten().map(|bound| &bound[..]);
            self.operation_on(opcode, &[prefix, b"z", container(key)], bounds);
        }
    }

    /// Adds the checks that counters do not exceed the bounds of guards.
    fn bounds<'d: 'a>(&mut self, batch: &'d DecidedBatch<'a>) {
        let all: Vec<(&'a CounterKey, i64)> =
            batch.bounds.iter().map(|(counter, most)| (*counter, *most)).collect();
        let groups = all.chunk_by(|(one, _), (other, _)| one.0.space() == other.0.space());
        for group in groups.flat_map(|group| group.chunks(COMMAND_KEYS_MAX)) {
            let Some((counter, _)) = group.first() else { continue };
            let first = self.next() + 1;
            let places = group.iter().zip(first..);
            self.places.extend(places.map(|((key, most), at)| (at, Place::Counter(key, *most))));
            let fields = group.iter().map(|(counter, _)| counter_field(counter));
            let hash: [&[u8]; 3] = [self.prefix, b"n", &[counter.0.space().0]];
            self.operation_on(opcode::COUNTERS_AT_MOST, &hash, fields);
            group.iter().for_each(|(_, most)| self.argument(&[most.to_string().as_bytes()]));
        }
    }

    /// Adds the operation that reads counters and computes their new values.
    fn counters<'d: 'a>(&mut self, batch: &'d DecidedBatch<'a>) {
        let all: Vec<(&CounterKey, u8, String)> = batch
            .counters
            .iter()
            .filter_map(|(counter, change)| {
                let (opcode, number) = change_code(*change)?;
                Some((*counter, opcode, number))
            })
            .collect();
        let groups = all.chunk_by(|one, other| one.0.0.space() == other.0.0.space());
        for group in groups.flat_map(|group| group.chunks(COMMAND_KEYS_MAX)) {
            let Some((counter, ..)) = group.first() else { continue };
            let first = self.next();
            self.argument(&[self.prefix, b"n", &[counter.0.space().0]]);
            group.iter().for_each(|(counter, ..)| self.argument(&[counter_field(counter)]));
            group.iter().for_each(|(.., number)| self.argument(&[number.as_bytes()]));
            let opcodes: Vec<u8> = group.iter().map(|(_, opcode, _)| *opcode).collect();
            self.argument(&[&opcodes]);
            self.operation(opcode::COMPUTE_COUNTERS, first);
        }
    }

    /// Writes small overflow values (the rest of long records), collects large ones for a command
    /// beside the script, and deletes those that are certainly obsolete.
    fn overflow_values(&mut self, writes: &[RecordWrite<'a>]) {
        let (mut small, mut stale) = (Vec::new(), Vec::new());
        for write in writes {
            let key = || overflow_key(self.prefix, write.key, &write.name);
            let is_deleted = write.head.is_none();
            match (write.overflow, write.before) {
                (Some(value), _)
                    if value.len() >= OUT_OF_BAND_BYTES && self.delivery == Delivery::Alone =>
                {
                    self.out_of_band.push((key(), value));
                }
                (Some(value), _) => small.push((key(), value)),
                (None, Replaced::Known { is_long: true, .. }) => stale.push(key()),
                // In an ordered space, REPLACE_MEMBER finds out if the old record was long.
                (None, Replaced::Unknown) if is_deleted && !write.key.space().is_ordered() => {
                    stale.push(key());
                }
                // There was no overflow value, or PUT_FIELDS and REPLACE_MEMBER find out.
                (None, _) => {}
            }
        }
        for values in small.chunks(COMMAND_KEYS_MAX) {
            let first = self.next();
            self.argument(&[b"MSET"]);
            for (key, value) in values {
                self.argument(&[key]);
                self.argument(&[value]);
            }
            self.operation(opcode::RUN, first);
        }
        for keys in stale.chunks(COMMAND_KEYS_MAX) {
            let first = self.next();
            self.argument(&[b"UNLINK"]);
            keys.iter().for_each(|key| self.argument(&[key]));
            self.operation(opcode::RUN, first);
        }
    }

    /// Deletes the marker and the keys of the values that are sent out of band, which are set only
    /// if none of these keys exists. This comes last: if the marker is gone, the batch is
    /// committed.
    fn clear_for_out_of_band(&mut self) {
        let out_of_band = std::mem::take(&mut self.out_of_band);
        for values in out_of_band.chunks(COMMAND_KEYS_MAX) {
            let marker = marker(self.prefix);
            self.command(b"UNLINK", &[&marker], values.iter().map(|(key, _)| &key[..]));
        }
        self.out_of_band = out_of_band;
    }

    /// Adds new containers (hashes or sorted sets of records) to the indexes of their spaces. If a
    /// condition names a record in a container, the container exists already.
    fn index_containers(&mut self, groups: &[&[RecordWrite<'a>]], batch: &DecidedBatch<'a>) {
        let exists =
            |(key, before): (&'a Key, &Before)| (*before != Before::Absent).then(|| container(key));
        let existing: HashSet<&[u8]> = batch.conditions().filter_map(exists).collect();
        let maybe_new = |group: &&[RecordWrite<'a>]| {
            let key = group.iter().find(|write| write.head.is_some())?.key;
            let kind: &[u8] = if key.space().is_ordered() { b"z" } else { b"r" };
            let container = container(key);
            (!existing.contains(container)).then(|| [self.prefix, kind, container].concat())
        };
        let keys: Vec<Vec<u8>> = groups.iter().filter_map(maybe_new).collect();
        for keys in keys.chunks(COMMAND_KEYS_MAX) {
            let first = self.next();
            keys.iter().for_each(|key| self.argument(&[key]));
            self.operation(opcode::INDEX, first);
        }
    }

    /// Adds the operations that put records into one container, a hash or sorted set of several
    /// records.
    fn puts(&mut self, group: &[RecordWrite<'a>]) {
        let puts = || group.iter().filter_map(|write| Some((write, write.head?)));
        let Some((any, _)) = puts().next() else { return };
        let container = container(any.key);
        if any.key.space().is_ordered() {
            let key = [self.prefix, b"z", container];
            for (write, head) in puts().filter(|(write, _)| write.before == Replaced::Unknown) {
                self.replace_member(&key, &write.name, &[&write.name, head]);
            }
            let first = self.next();
            self.argument(&[b"ZADD"]);
            self.argument(&key);
            for (write, head) in puts() {
                self.argument(&[b"0"]);
                self.argument(&[&write.name, head]);
            }
            return self.operation(opcode::RUN, first);
        }
        let first = self.next();
        self.argument(&[b"HSET"]);
        self.argument(&[self.prefix, b"r", container]);
        for (write, head) in puts() {
            self.argument(&[&write.name]);
            self.argument(&[head]);
        }
        // If a short record replaces an unknown one, the old one may have been long, and its
        // overflow value must be deleted. HSET returns the number of new fields; if all fields are
        // new, there were no old records.
        if puts().all(|(write, _)| write.overflow.is_some() || write.before != Replaced::Unknown) {
            return self.operation(opcode::RUN, first);
        }
        let new_max =
            puts().filter(|(write, _)| !matches!(write.before, Replaced::Known { .. })).count();
        self.argument(&[new_max.to_string().as_bytes()]);
        self.operation(opcode::PUT_FIELDS, first);
    }

    /// Adds the operations that delete records from one container, and the members of a sorted set
    /// that others have replaced.
    fn removals(&mut self, group: &[RecordWrite<'a>]) {
        let Some(any) = group.first() else { return };
        let container = container(any.key);
        let is_ordered = any.key.space().is_ordered();
        // A hash overwrites the value of a field. In a sorted set the value is part of the member,
        // so the old member exists beside the new one until it is removed here.
        let removed = |write: &RecordWrite<'a>| match write.before {
            _ if !is_ordered => write.head.is_none().then(|| write.name.clone()),
            Replaced::Known { head, .. } if write.head != Some(head) => {
                Some([&write.name[..], head].concat())
            }
            _ => None,
        };
        let removed: Vec<Vec<u8>> = group.iter().filter_map(removed).collect();
        if !removed.is_empty() {
            let first = self.next();
            let (command, kind): (&[u8], &[u8]) =
                if is_ordered { (b"ZREM", b"z") } else { (b"HDEL", b"r") };
            self.argument(&[command]);
            self.argument(&[self.prefix, kind, container]);
            removed.iter().for_each(|name| self.argument(&[name]));
            let may_get_empty = group.iter().all(|write| write.head.is_none());
            self.operation(if may_get_empty { opcode::REMOVE } else { opcode::RUN }, first);
        }
        let is_unknown =
            |write: &&RecordWrite<'a>| write.head.is_none() && write.before == Replaced::Unknown;
        for write in group.iter().filter(is_unknown).filter(|_| is_ordered) {
            self.replace_member(&[self.prefix, b"z", container], &write.name, &[]);
        }
    }

    /// Removes the member with an encoded suffix and any value, unless it equals `member`.
    fn replace_member(&mut self, key: &[&[u8]], suffix: &[u8], member: &[&[u8]]) {
        let first = self.next();
        self.argument(key);
        bounds(suffix).iter().for_each(|bound| self.argument(&[bound]));
        self.argument(member);
        self.operation(opcode::REPLACE_MEMBER, first);
    }
}

/// Returns the key under which the server keeps the overflow value, the rest of a long record.
/// `name` is the record's name in its container.
fn overflow_key(prefix: &[u8], key: &Key, name: &[u8]) -> Vec<u8> {
    [prefix, b"l", container(key), name].concat()
}

/// Returns the writes of a batch, in the order of keys.
fn record_writes<'a, 'd: 'a>(batch: &'d DecidedBatch<'a>) -> Vec<RecordWrite<'a>> {
    let mut all = Vec::new();
    for (key, before, value) in batch.writes() {
        let before = match before {
            Some(Before::Equal(value)) => {
                let (head, overflow) = split(value);
                Replaced::Known { head, is_long: overflow.is_some() }
            }
            // A condition requires that the record to delete does not exist, so no write is needed.
            Some(Before::Absent) if value.is_none() => continue,
            Some(Before::Absent) => Replaced::Absent,
            Some(Before::Present) | None => Replaced::Unknown,
        };
        let (head, overflow) = value.map_or((None, None), |value| {
            let (head, overflow) = split(value);
            (Some(head), overflow)
        });
        all.push(RecordWrite { key, name: name_in_container(key), head, overflow, before });
    }
    all
}

/// Returns the opcode and the argument of a counter's change; `None` if the change has no effect.
fn change_code(change: CounterChange) -> Option<(u8, String)> {
    match change {
        CounterChange::To(number) => Some((opcode::SET, number.to_string())),
        CounterChange::By { add: 0, floor: None } => None,
        CounterChange::By { add, floor: None } => Some((opcode::ADD, add.to_string())),
        CounterChange::By { add: 0, floor: Some(least) } => Some((opcode::MAX, least.to_string())),
        CounterChange::By { add, floor: Some(least) } => {
            Some((opcode::ADD_THEN_MAX, format!("{add} {least}")))
        }
    }
}

/// Returns the name of a counter in the hash of its space.
fn counter_field(counter: &CounterKey) -> &[u8] {
    counter.0.as_bytes().get(1..).unwrap_or_default()
}

/// Returns the bounds of all members that begin with an encoded suffix, in the form that commands
/// take.
fn bounds(suffix: &[u8]) -> [Vec<u8>; 2] {
    let mut behind = [b"(", suffix].concat();
    // The last byte of an encoded suffix is at most 127, so this does not overflow.
    if let Some(last) = behind.last_mut() {
        *last += 1;
    }
    [[b"[", suffix].concat(), behind]
}

#[cfg(test)]
mod tests;
