//! A joined batch as commands that the server's script only has to go through.
//!
//! In a small commit Lua costs the server more than the commands do, by every string and every table
//! that it makes. So what can be said here is said here: names, members and bounds stand among the
//! arguments as commands take them, those of one command side by side, and a step of five bytes says
//! what they are for. `joined.lua` has the list of steps.

use std::collections::HashSet;

use store::Key;
use store::feed::FEED_BATCHES;

use crate::joined::{Change, Expected, Joined};
use crate::limits::LIMITS;
use crate::member;
use crate::program::{parts, place};
use crate::staged::{STAGED_BYTES, taken};

/// Keys that one command names, at most. Lua has a limit on arguments.
const COMMAND_KEYS_MAX: usize = 1_000;

/// Arguments that one guard or write has at most: a long record that is put over something unknown,
/// into a place of its own.
const ITEM_ARGUMENTS_MAX: usize = 13;
/// Arguments of a batch whatever is in it.
const BATCH_ARGUMENTS_MAX: usize = 16;
const _: () =
    assert!(ITEM_ARGUMENTS_MAX * LIMITS.batch_items + BATCH_ARGUMENTS_MAX < u16::MAX as usize);

/// Steps, as `joined.lua` has them.
mod kind {
    pub(super) const RECORDS: u8 = 1;
    pub(super) const ABSENT: u8 = 2;
    pub(super) const PRESENT: u8 = 3;
    pub(super) const MEMBERS: u8 = 4;
    pub(super) const NONE: u8 = 5;
    pub(super) const SOME: u8 = 6;
    pub(super) const UNSAVED: u8 = 7;
    pub(super) const TALLIES: u8 = 8;
    pub(super) const COUNTED: u8 = 9;
    pub(super) const BEGUN: u8 = 10;
    pub(super) const COMMAND: u8 = 11;
    pub(super) const OVER: u8 = 12;
    pub(super) const FIELDS: u8 = 13;
    pub(super) const GONE: u8 = 14;
    pub(super) const RESTS: u8 = 15;
}

/// What is known of the record that stands where one is put or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Was<'a> {
    Absent,
    /// It is one with this head, and is long or not.
    Known {
        head: &'a [u8],
        is_long: bool,
    },
    Unknown,
}

/// What becomes of one record.
#[derive(Debug)]
struct Written<'a> {
    key: &'a Key,
    /// What it is called in its place: its field, or its written suffix.
    name: Vec<u8>,
    /// The bytes that are put there; of a long record, its head.
    head: Option<&'a [u8]>,
    rest: Option<&'a [u8]>,
    was: Was<'a>,
}

/// What a key is called in its place.
fn name_in_place(key: &Key) -> Vec<u8> {
    if key.space().is_ordered() {
        return member::written(key.suffix());
    }
    key.as_bytes().get(place(key).len()..).unwrap_or_default().to_vec()
}

/// The arguments of `joined.lua`.
#[derive(Debug)]
pub(crate) struct Laid<'a> {
    prefix: &'a [u8],
    /// The arguments, one behind the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    steps: Vec<u8>,
    /// Rests of long records that go beside the script, and their names.
    pub(crate) rests: Vec<(Vec<u8>, &'a [u8])>,
}

impl<'a> Laid<'a> {
    /// Lays out a batch in a volume whose keys begin with `prefix`. The feed is told `told`.
    pub(crate) fn out(joined: &Joined<'a>, told: &[u8], prefix: &'a str) -> Laid<'a> {
        let prefix = prefix.as_bytes();
        let mut laid = Laid {
            prefix,
            bytes: Vec::new(),
            ends: Vec::new(),
            steps: Vec::new(),
            rests: Vec::new(),
        };
        laid.guards(joined);
        // Commands that change the volume come after all that may fail.
        laid.tallies(joined);
        laid.step(kind::COUNTED, laid.next());
        let written = written(joined);
        let groups: Vec<&[Written<'_>]> = written
            .chunk_by(|one, other| place(one.key) == place(other.key))
            .flat_map(|group| group.chunks(COMMAND_KEYS_MAX))
            .collect();
        laid.rests(&written);
        laid.begun(&groups, joined);
        // Records are put before others go, so that no place ends in between.
        for group in &groups {
            laid.puts(group);
        }
        for group in &groups {
            laid.removals(group);
        }
        if !told.is_empty() {
            // A reader who is as far behind as is promised stands at the entry before those.
            let entries = (FEED_BATCHES + 1).to_string();
            let entry: [&[u8]; 6] = [b"MAXLEN", b"~", entries.as_bytes(), b"*", b"k", told];
            laid.command(b"XADD", &[prefix, b"f"], entry);
        }
        laid.let_go();
        laid
    }

    /// Everything that the script is told, in order.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let arguments = starts.zip(&self.ends).filter_map(|(from, to)| self.bytes.get(from..*to));
        arguments.chain([&self.steps[..]])
    }

    /// Adds an argument, which may come in pieces.
    fn argument(&mut self, pieces: &[&[u8]]) {
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
        self.ends.push(self.bytes.len());
    }

    /// The position of the next argument.
    fn next(&self) -> usize {
        self.ends.len()
    }

    /// Adds a step over all arguments from a position on.
    fn step(&mut self, kind: u8, first: usize) {
        let number = |many: usize| {
            u16::try_from(many).expect("limits keep the number of arguments below 2^16")
        };
        self.steps.push(kind);
        self.steps.extend(number(first + 1).to_be_bytes());
        self.steps.extend(number(self.next() - first).to_be_bytes());
    }

    /// Adds a step of one name and what follows it, if anything does.
    fn list<'b>(&mut self, kind: u8, name: &[&[u8]], items: impl IntoIterator<Item = &'b [u8]>) {
        let first = self.next();
        let mut items = items.into_iter().peekable();
        if items.peek().is_some() {
            self.argument(name);
            items.for_each(|item| self.argument(&[item]));
            self.step(kind, first);
        }
    }

    /// Adds a command about a key.
    fn command<'b>(
        &mut self,
        command: &[u8],
        name: &[&[u8]],
        items: impl IntoIterator<Item = &'b [u8]>,
    ) {
        let first = self.next();
        self.argument(&[command]);
        self.argument(name);
        items.into_iter().for_each(|item| self.argument(&[item]));
        self.step(kind::COMMAND, first);
    }

    fn guards(&mut self, joined: &Joined<'a>) {
        let all: Vec<(&Key, Expected<'_>)> =
            joined.guards.iter().map(|(key, expected)| (*key, *expected)).collect();
        let groups = all.chunk_by(|one, other| place(one.0) == place(other.0));
        let mut rests = Vec::new();
        for group in groups.flat_map(|group| group.chunks(COMMAND_KEYS_MAX)) {
            let Some((first, _)) = group.first() else { continue };
            let (mut equal, mut absent, mut present) = (Vec::new(), Vec::new(), Vec::new());
            for (key, expected) in group {
                let name = name_in_place(key);
                match expected {
                    Expected::Equal(value) => {
                        let (head, rest) = parts(value);
                        rests.extend(rest.map(|rest| (self.rest_name(key, &name), rest)));
                        equal.push((name, head));
                    }
                    Expected::Absent => absent.push(name),
                    Expected::Present => present.push(name),
                }
            }
            let place = place(first);
            if first.space().is_ordered() {
                self.member_guards(place, &equal, &absent, &present);
            } else {
                let name = [self.prefix, b"r", place];
                self.list(kind::RECORDS, &name, equal.iter().map(|(field, _)| &field[..]));
                equal.iter().for_each(|(_, value)| self.argument(&[value]));
                self.list(kind::ABSENT, &name, absent.iter().map(|field| &field[..]));
                self.list(kind::PRESENT, &name, present.iter().map(|field| &field[..]));
            }
        }
        for rests in rests.chunks(COMMAND_KEYS_MAX) {
            let first = self.next();
            rests.iter().for_each(|(name, _)| self.argument(&[name]));
            self.step(kind::RESTS, first);
            rests.iter().for_each(|(_, rest)| self.argument(&[rest]));
        }
        let first = self.next();
        self.argument(&[self.prefix, b"s"]);
        self.step(kind::UNSAVED, first);
    }

    fn member_guards(
        &mut self,
        place: &[u8],
        equal: &[(Vec<u8>, &[u8])],
        absent: &[Vec<u8>],
        present: &[Vec<u8>],
    ) {
        let name = [self.prefix, b"z", place];
        let members: Vec<Vec<u8>> =
            equal.iter().map(|(suffix, value)| [suffix, *value].concat()).collect();
        self.list(kind::MEMBERS, &name, members.iter().map(|member| &member[..]));
        for (kind, suffixes) in [(kind::NONE, absent), (kind::SOME, present)] {
            let bounds: Vec<[Vec<u8>; 2]> = suffixes.iter().map(|suffix| bounds(suffix)).collect();
            self.list(kind, &name, bounds.iter().flatten().map(|bound| &bound[..]));
        }
    }

    fn tallies(&mut self, joined: &Joined<'a>) {
        let all: Vec<(&Key, Change)> =
            joined.tallies.iter().map(|(key, change)| (*key, *change)).collect();
        let groups = all.chunk_by(|one, other| one.0.space() == other.0.space());
        for group in groups.flat_map(|group| group.chunks(COMMAND_KEYS_MAX)) {
            let Some((key, _)) = group.first() else { continue };
            let first = self.next();
            self.argument(&[self.prefix, b"t", &[key.space().0]]);
            for (key, _) in group {
                self.argument(&[key.as_bytes().get(1..).unwrap_or_default()]);
            }
            let mut codes = Vec::new();
            for (_, change) in group {
                let (code, number) = change.parts();
                codes.push(code);
                self.argument(&[number.to_string().as_bytes()]);
            }
            self.argument(&[&codes]);
            self.step(kind::TALLIES, first);
        }
    }

    /// What the rest of a long record is called, by what the record is called in its place.
    fn rest_name(&self, key: &Key, name: &[u8]) -> Vec<u8> {
        [self.prefix, b"l", place(key), name].concat()
    }

    /// Writes the rests of long records, but for the longer ones, and drops those of which it is known
    /// that they go.
    fn rests(&mut self, written: &[Written<'a>]) {
        let (mut small, mut stale) = (Vec::new(), Vec::new());
        for record in written {
            let name = self.rest_name(record.key, &record.name);
            match (record.rest, record.was) {
                (Some(rest), _) if rest.len() >= STAGED_BYTES => self.rests.push((name, rest)),
                (Some(rest), _) => small.push((name, rest)),
                (None, Was::Known { is_long: true, .. }) => stale.push(name),
                (None, Was::Unknown)
                    if record.head.is_none() && !record.key.space().is_ordered() =>
                {
                    stale.push(name);
                }
                (None, _) => {}
            }
        }
        for rests in small.chunks(COMMAND_KEYS_MAX) {
            let first = self.next();
            self.argument(&[b"MSET"]);
            for (name, rest) in rests {
                self.argument(&[name]);
                self.argument(&[rest]);
            }
            self.step(kind::COMMAND, first);
        }
        for names in stale.chunks(COMMAND_KEYS_MAX) {
            let first = self.next();
            self.argument(&[b"UNLINK"]);
            names.iter().for_each(|name| self.argument(&[name]));
            self.step(kind::COMMAND, first);
        }
    }

    /// Has the names of those rests free that are set behind the script. This comes last: what is done
    /// is done by then.
    fn let_go(&mut self) {
        let rests = std::mem::take(&mut self.rests);
        for names in rests.chunks(COMMAND_KEYS_MAX) {
            let taken = taken(self.prefix);
            self.command(b"UNLINK", &[&taken], names.iter().map(|(name, _)| &name[..]));
        }
        self.rests = rests;
    }

    /// Tells spaces of the places that come into being. Those that guards have seen a record in are
    /// there.
    fn begun(&mut self, groups: &[&[Written<'a>]], joined: &Joined<'a>) {
        let seen = |(key, expected): (&&'a Key, &Expected<'_>)| {
            (*expected != Expected::Absent).then(|| place(key))
        };
        let seen: HashSet<&[u8]> = joined.guards.iter().filter_map(seen).collect();
        let put_into = |group: &&[Written<'a>]| {
            let key = group.iter().find(|record| record.head.is_some())?.key;
            let kind: &[u8] = if key.space().is_ordered() { b"z" } else { b"r" };
            (!seen.contains(place(key))).then(|| [self.prefix, kind, place(key)].concat())
        };
        let names: Vec<Vec<u8>> = groups.iter().filter_map(put_into).collect();
        for names in names.chunks(COMMAND_KEYS_MAX) {
            let first = self.next();
            names.iter().for_each(|name| self.argument(&[name]));
            self.step(kind::BEGUN, first);
        }
    }

    /// Puts records of one place.
    fn puts(&mut self, group: &[Written<'a>]) {
        let puts = || group.iter().filter_map(|record| Some((record, record.head?)));
        let Some((some, _)) = puts().next() else { return };
        let place = place(some.key);
        if some.key.space().is_ordered() {
            let name = [self.prefix, b"z", place];
            for (record, head) in puts().filter(|(record, _)| record.was == Was::Unknown) {
                self.over(&name, &record.name, &[&record.name, head]);
            }
            let first = self.next();
            self.argument(&[b"ZADD"]);
            self.argument(&name);
            for (record, head) in puts() {
                self.argument(&[b"0"]);
                self.argument(&[&record.name, head]);
            }
            return self.step(kind::COMMAND, first);
        }
        let first = self.next();
        self.argument(&[b"HSET"]);
        self.argument(&[self.prefix, b"r", place]);
        for (record, head) in puts() {
            self.argument(&[&record.name]);
            self.argument(&[head]);
        }
        // Of a short one that is put over something unknown, which may have been long, more is known
        // when all are put.
        if puts().all(|(record, _)| record.rest.is_some() || record.was != Was::Unknown) {
            return self.step(kind::COMMAND, first);
        }
        let news = puts().filter(|(record, _)| !matches!(record.was, Was::Known { .. })).count();
        self.argument(&[news.to_string().as_bytes()]);
        self.step(kind::FIELDS, first);
    }

    /// Removes records of one place, and members that others were put for.
    fn removals(&mut self, group: &[Written<'a>]) {
        let Some(some) = group.first() else { return };
        let place = place(some.key);
        let is_ordered = some.key.space().is_ordered();
        let gone = |record: &Written<'a>| match record.was {
            _ if !is_ordered => record.head.is_none().then(|| record.name.clone()),
            Was::Known { head, .. } if record.head != Some(head) => {
                Some([&record.name[..], head].concat())
            }
            _ => None,
        };
        let gone: Vec<Vec<u8>> = group.iter().filter_map(gone).collect();
        if !gone.is_empty() {
            let first = self.next();
            let (command, kind): (&[u8], &[u8]) =
                if is_ordered { (b"ZREM", b"z") } else { (b"HDEL", b"r") };
            self.argument(&[command]);
            self.argument(&[self.prefix, kind, place]);
            gone.iter().for_each(|name| self.argument(&[name]));
            let is_alone = group.iter().all(|record| record.head.is_none());
            self.step(if is_alone { kind::GONE } else { kind::COMMAND }, first);
        }
        let unknown = |record: &&Written<'a>| record.head.is_none() && record.was == Was::Unknown;
        for record in group.iter().filter(unknown).filter(|_| is_ordered) {
            self.over(&[self.prefix, b"z", place], &record.name, &[]);
        }
    }

    /// Removes what stands under a suffix, whatever it is, but for `member`.
    fn over(&mut self, name: &[&[u8]], suffix: &[u8], member: &[&[u8]]) {
        let first = self.next();
        self.argument(name);
        bounds(suffix).iter().for_each(|bound| self.argument(&[bound]));
        self.argument(member);
        self.step(kind::OVER, first);
    }
}

/// What a batch writes, in the order of keys.
fn written<'a>(joined: &Joined<'a>) -> Vec<Written<'a>> {
    let mut all = Vec::with_capacity(joined.writes.len());
    for (key, value) in &joined.writes {
        let was = match joined.guards.get(key) {
            Some(Expected::Equal(was)) => {
                let (head, rest) = parts(was);
                Was::Known { head, is_long: rest.is_some() }
            }
            // It is not there, and that is that.
            Some(Expected::Absent) if value.is_none() => continue,
            Some(Expected::Absent) => Was::Absent,
            Some(Expected::Present) | None => Was::Unknown,
        };
        let (head, rest) = value.map_or((None, None), |value| {
            let (head, rest) = parts(value);
            (Some(head), rest)
        });
        all.push(Written { key, name: name_in_place(key), head, rest, was });
    }
    all
}

/// The bounds of all members that begin with a written suffix, as commands take them.
fn bounds(suffix: &[u8]) -> [Vec<u8>; 2] {
    let mut behind = [b"(", suffix].concat();
    // A written suffix ends with a number that is below this type's greatest.
    if let Some(last) = behind.last_mut() {
        *last += 1;
    }
    [[b"[", suffix].concat(), behind]
}

#[cfg(test)]
mod tests;
