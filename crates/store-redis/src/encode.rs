//! Encodes a merged batch as commands that `commit_batch.lua` only has to run.
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

use store::Key;
use store::feed::FEED_BATCHES;

use crate::batch::{Change, Expected, MergedBatch};
use crate::limits::LIMITS;
use crate::overflow::{OUT_OF_BAND_BYTES, Overflow, marker};
use crate::record::{container, name_in_container, split};

/// Limit of the keys of one command. Lua limits the number of arguments.
const COMMAND_KEYS_MAX: usize = 1_000;

/// Limit of the arguments of one guard or write. A long record has this number if it is put without
/// a guard, in a container of its own.
const ITEM_ARGUMENTS_MAX: usize = 13;
/// Limit of the arguments of a batch beyond those of its items.
const BATCH_ARGUMENTS_MAX: usize = 16;
const _: () =
    assert!(ITEM_ARGUMENTS_MAX * LIMITS.batch_items + BATCH_ARGUMENTS_MAX < u16::MAX as usize);

/// The opcodes of `commit_batch.lua`, which describes them.
mod opcode {
    pub(super) const FIELDS_EQUAL: u8 = 1;
    pub(super) const FIELDS_ABSENT: u8 = 2;
    pub(super) const FIELDS_PRESENT: u8 = 3;
    pub(super) const MEMBERS_PRESENT: u8 = 4;
    pub(super) const RANGES_EMPTY: u8 = 5;
    pub(super) const RANGES_FILLED: u8 = 6;
    pub(super) const STRINGS_EQUAL: u8 = 7;
    pub(super) const NO_SNAPSHOT: u8 = 8;
    pub(super) const COMPUTE_COUNTERS: u8 = 9;
    pub(super) const WRITE_COUNTERS: u8 = 10;
    pub(super) const INDEX: u8 = 11;
    pub(super) const RUN: u8 = 12;
    pub(super) const REPLACE_MEMBER: u8 = 13;
    pub(super) const PUT_FIELDS: u8 = 14;
    pub(super) const REMOVE: u8 = 15;
    pub(super) const COUNTERS_AT_MOST: u8 = 16;
}

/// The knowledge, from the guards of a batch, about the record that a write replaces or deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before<'a> {
    Absent,
    Known { head: &'a [u8], is_long: bool },
    Unknown,
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
    before: Before<'a>,
}

/// The arguments of `commit_batch.lua` for one batch, and the values that are sent beside the
/// script.
#[derive(Debug)]
pub(crate) struct EncodedBatch<'a> {
    prefix: &'a [u8],
    /// All arguments, concatenated, and the end of each.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    operations: Vec<u8>,
    /// Overflow values (the rest of long records) that are sent in a command beside the script.
    pub(crate) out_of_band: Vec<Overflow<'a>>,
}

impl<'a> EncodedBatch<'a> {
    /// Encodes a batch for a volume whose keys begin with `prefix`. `feed_entry` is appended to the
    /// change feed, unless it is empty.
    pub(crate) fn encode(
        batch: &MergedBatch<'a>,
        feed_entry: &[u8],
        prefix: &'a str,
    ) -> EncodedBatch<'a> {
        let prefix = prefix.as_bytes();
        let mut encoded = EncodedBatch {
            prefix,
            bytes: Vec::new(),
            ends: Vec::new(),
            operations: Vec::new(),
            out_of_band: Vec::new(),
        };
        encoded.guards(batch);
        encoded.bounds(batch);
        // This fails the script if a counter is damaged and not a number. So it comes before the
        // first change.
        encoded.counters(batch);
        // All operations up to here leave the volume unchanged, and no operation after this can
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
        if !feed_entry.is_empty() {
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

    /// Adds the checks of guarded records, and the check that no snapshot is open.
    fn guards(&mut self, batch: &MergedBatch<'a>) {
        let all: Vec<(&Key, Expected<'_>)> =
            batch.guards.iter().map(|(key, expected)| (*key, *expected)).collect();
        let groups = all.chunk_by(|one, other| container(one.0) == container(other.0));
        let mut overflow = Vec::new();
        for group in groups.flat_map(|group| group.chunks(COMMAND_KEYS_MAX)) {
            let Some((first, _)) = group.first() else { continue };
            let (mut equal, mut absent, mut present) = (Vec::new(), Vec::new(), Vec::new());
            for (key, expected) in group {
                let name = name_in_container(key);
                match expected {
                    Expected::Equal(value) => {
                        let (head, value) = split(value);
                        let string = |value| (overflow_key(self.prefix, key, &name), value);
                        overflow.extend(value.map(string));
                        equal.push((name, head));
                    }
                    Expected::Absent => absent.push(name),
                    Expected::Present => present.push(name),
                }
            }
            let container = container(first);
            if first.space().is_ordered() {
                self.member_guards(container, &equal, &absent, &present);
            } else {
                let key = [self.prefix, b"r", container];
                let names = equal.iter().map(|(name, _)| &name[..]);
                self.operation_on(opcode::FIELDS_EQUAL, &key, names);
                equal.iter().for_each(|(_, value)| self.argument(&[value]));
                let names = absent.iter().map(|name| &name[..]);
                self.operation_on(opcode::FIELDS_ABSENT, &key, names);
                let names = present.iter().map(|name| &name[..]);
                self.operation_on(opcode::FIELDS_PRESENT, &key, names);
            }
        }
        for some in overflow.chunks(COMMAND_KEYS_MAX) {
            let first = self.next();
            some.iter().for_each(|(key, _)| self.argument(&[key]));
            self.operation(opcode::STRINGS_EQUAL, first);
            some.iter().for_each(|(_, value)| self.argument(&[value]));
        }
        let first = self.next();
        self.argument(&[self.prefix, b"s"]);
        self.operation(opcode::NO_SNAPSHOT, first);
    }

    fn member_guards(
        &mut self,
        container: &[u8],
        equal: &[(Vec<u8>, &[u8])],
        absent: &[Vec<u8>],
        present: &[Vec<u8>],
    ) {
        let key = [self.prefix, b"z", container];
        let members: Vec<Vec<u8>> =
            equal.iter().map(|(suffix, head)| [suffix, *head].concat()).collect();
        let members = members.iter().map(|member| &member[..]);
        self.operation_on(opcode::MEMBERS_PRESENT, &key, members);
        for (opcode, suffixes) in [(opcode::RANGES_EMPTY, absent), (opcode::RANGES_FILLED, present)]
        {
            let bounds: Vec<[Vec<u8>; 2]> = suffixes.iter().map(|suffix| bounds(suffix)).collect();
            self.operation_on(opcode, &key, bounds.iter().flatten().map(|bound| &bound[..]));
        }
    }

    /// Adds the checks that counters do not exceed the bounds of guards.
    fn bounds(&mut self, batch: &MergedBatch<'a>) {
        let all: Vec<(&Key, i64)> = batch.bounds.iter().map(|(key, most)| (*key, *most)).collect();
        let groups = all.chunk_by(|one, other| one.0.space() == other.0.space());
        for group in groups.flat_map(|group| group.chunks(COMMAND_KEYS_MAX)) {
            let Some((key, _)) = group.first() else { continue };
            let fields = group.iter().map(|(key, _)| key.as_bytes().get(1..).unwrap_or_default());
            let counters: [&[u8]; 3] = [self.prefix, b"n", &[key.space().0]];
            self.operation_on(opcode::COUNTERS_AT_MOST, &counters, fields);
            group.iter().for_each(|(_, most)| self.argument(&[most.to_string().as_bytes()]));
        }
    }

    /// Adds the operation that reads counters and computes their new values.
    fn counters(&mut self, batch: &MergedBatch<'a>) {
        let all: Vec<(&Key, Change)> =
            batch.counters.iter().map(|(key, change)| (*key, *change)).collect();
        let groups = all.chunk_by(|one, other| one.0.space() == other.0.space());
        for group in groups.flat_map(|group| group.chunks(COMMAND_KEYS_MAX)) {
            let Some((key, _)) = group.first() else { continue };
            let first = self.next();
            self.argument(&[self.prefix, b"n", &[key.space().0]]);
            for (key, _) in group {
                self.argument(&[key.as_bytes().get(1..).unwrap_or_default()]);
            }
            let mut opcodes = Vec::new();
            for (_, change) in group {
                let (opcode, number) = change.encoded();
                opcodes.push(opcode);
                self.argument(&[number.to_string().as_bytes()]);
            }
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
                (Some(value), _) if value.len() >= OUT_OF_BAND_BYTES => {
                    self.out_of_band.push((key(), value));
                }
                (Some(value), _) => small.push((key(), value)),
                (None, Before::Known { is_long: true, .. }) => stale.push(key()),
                // In an ordered space, REPLACE_MEMBER finds out if the old record was long.
                (None, Before::Unknown) if is_deleted && !write.key.space().is_ordered() => {
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
    /// guard has found a record in a container, the container exists already.
    fn index_containers(&mut self, groups: &[&[RecordWrite<'a>]], batch: &MergedBatch<'a>) {
        let exists = |(key, expected): (&&'a Key, &Expected<'_>)| {
            (*expected != Expected::Absent).then(|| container(key))
        };
        let existing: HashSet<&[u8]> = batch.guards.iter().filter_map(exists).collect();
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
            for (write, head) in puts().filter(|(write, _)| write.before == Before::Unknown) {
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
        if puts().all(|(write, _)| write.overflow.is_some() || write.before != Before::Unknown) {
            return self.operation(opcode::RUN, first);
        }
        let new_max =
            puts().filter(|(write, _)| !matches!(write.before, Before::Known { .. })).count();
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
            Before::Known { head, .. } if write.head != Some(head) => {
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
            |write: &&RecordWrite<'a>| write.head.is_none() && write.before == Before::Unknown;
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
fn record_writes<'a>(batch: &MergedBatch<'a>) -> Vec<RecordWrite<'a>> {
    let mut all = Vec::with_capacity(batch.writes.len());
    for (key, value) in &batch.writes {
        let before = match batch.guards.get(key) {
            Some(Expected::Equal(value)) => {
                let (head, overflow) = split(value);
                Before::Known { head, is_long: overflow.is_some() }
            }
            // A guard requires that the record to delete does not exist, so no write is needed.
            Some(Expected::Absent) if value.is_none() => continue,
            Some(Expected::Absent) => Before::Absent,
            Some(Expected::Present) | None => Before::Unknown,
        };
        let (head, overflow) = value.map_or((None, None), |value| {
            let (head, overflow) = split(value);
            (Some(head), overflow)
        });
        all.push(RecordWrite { key, name: name_in_container(key), head, overflow, before });
    }
    all
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
