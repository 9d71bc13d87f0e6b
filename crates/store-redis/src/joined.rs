//! What the plans of a batch come to if all are committed.
//!
//! Most batches are committed whole, and then it matters little to the server which plan a guard or a
//! write came from: it checks each record once, and writes each once. `joined.lua` does that, and
//! leaves everything else to `commit.lua`. A batch for which it is not plain has no such form.

use std::collections::{BTreeMap, HashMap};

use store::{Guard, Key, Plan, Value, Write};

use crate::commit::code;
use crate::program::{Group, Known, Program, is_long, place};

/// Bytes of the form, at most: Lua unpacks them all at once, and has a limit on that.
const JOINED_BYTES_MAX: usize = 4_000;

/// What a guard of a record expects of it, before the first plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected<'a> {
    Absent,
    Present,
    Equal(&'a Value),
}

/// What becomes of a tally.
#[derive(Clone, Copy, Debug)]
enum Change {
    Add(i64),
    Max(i64),
    Set(i64),
}

/// All guards and all writes of a batch.
#[derive(Debug, Default)]
pub(crate) struct Joined<'a> {
    guards: HashMap<&'a Key, Expected<'a>>,
    writes: BTreeMap<&'a Key, Option<&'a Value>>,
    tallies: HashMap<&'a Key, Change>,
}

/// Where the arguments of a program are that the form refers to.
#[derive(Debug, Default)]
pub(crate) struct Places<'a> {
    /// What guards expect.
    pub(crate) expected: HashMap<&'a [u8], u16>,
    /// What was last put under a key.
    pub(crate) put: HashMap<&'a Key, u16>,
    /// What the feed is told if all plans are committed; 0 if that is nothing.
    pub(crate) told: u16,
}

impl<'a> Joined<'a> {
    /// Joins plans; `None` if they can or may not be committed all, or if it is not plain.
    pub(crate) fn of(plans: &'a [Plan]) -> Option<Joined<'a>> {
        let mut joined = Joined::default();
        for plan in plans {
            for guard in &plan.guards {
                match guard {
                    Guard::Equals(key, value) => joined.expect(key, Expected::Equal(value))?,
                    Guard::Absent(key) => joined.expect(key, Expected::Absent)?,
                    Guard::Present(key) => joined.expect(key, Expected::Present)?,
                    Guard::Empty(..) => return None,
                }
            }
            for write in &plan.writes {
                match write {
                    Write::Put(key, value) => {
                        joined.writes.insert(key, Some(value));
                    }
                    Write::Delete(key) => {
                        joined.writes.insert(key, None);
                    }
                    Write::Add(tally, by) => joined.change(&tally.0, Change::Add(*by))?,
                    Write::Max(tally, least) => joined.change(&tally.0, Change::Max(*least))?,
                    Write::Set(tally, number) => joined.change(&tally.0, Change::Set(*number))?,
                    Write::Clear(tally) => joined.change(&tally.0, Change::Set(0))?,
                }
            }
        }
        Some(joined)
    }

    fn expect(&mut self, key: &'a Key, expected: Expected<'a>) -> Option<()> {
        if let Some(written) = self.writes.get(key) {
            let holds = match (expected, written) {
                (Expected::Absent, None) | (Expected::Present, Some(_)) => true,
                (Expected::Equal(value), Some(written)) => value == *written,
                _ => false,
            };
            return holds.then_some(());
        }
        if matches!(expected, Expected::Equal(value) if is_long(value)) {
            return None;
        }
        let before = *self.guards.entry(key).or_insert(expected);
        match (before, expected) {
            _ if before == expected => Some(()),
            (Expected::Present, Expected::Equal(_)) => {
                self.guards.insert(key, expected);
                Some(())
            }
            (Expected::Equal(_), Expected::Present) => Some(()),
            _ => None,
        }
    }

    fn change(&mut self, tally: &'a Key, change: Change) -> Option<()> {
        let Some(before) = self.tallies.get_mut(tally) else {
            self.tallies.insert(tally, change);
            return Some(());
        };
        *before = match (*before, change) {
            (Change::Add(sum), Change::Add(by)) => Change::Add(sum.checked_add(by)?),
            (Change::Max(one), Change::Max(other)) => Change::Max(one.max(other)),
            (_, Change::Set(number)) => Change::Set(number),
            _ => return None,
        };
        Some(())
    }

    /// The form that `joined.lua` reads, over the arguments of a program that has all keys and values;
    /// `None` if it is too long, or expects too little of what a program fetches.
    pub(crate) fn form(&self, program: &mut Program<'a>, places: &Places<'a>) -> Option<Vec<u8>> {
        let groups = std::mem::take(&mut program.grouped);
        let mut form = self.guards_form(&groups, places)?;
        form.extend(self.tallies_form(&groups, program)?);
        form.extend(self.writes_form(program, places)?);
        form.extend(places.told.to_be_bytes());
        (form.len() <= JOINED_BYTES_MAX).then_some(form)
    }

    fn guards_form(&self, groups: &[Group<'a>], places: &Places<'a>) -> Option<Vec<u8>> {
        let guarded = |group: &&Group<'_>| matches!(group.known, Known::Presence | Known::Record);
        let mut form = count(groups.iter().filter(guarded).count())?;
        for group in groups.iter().filter(guarded) {
            group.head(Some(group.known), &mut form)?;
            for key in &group.keys {
                let index = match (group.known, *self.guards.get(key)?) {
                    (Known::Presence, Expected::Present) => continue,
                    (Known::Record, Expected::Absent) => 0,
                    (Known::Record, Expected::Equal(value)) => *places.expected.get(&value[..])?,
                    _ => return None,
                };
                form.extend(index.to_be_bytes());
            }
        }
        Some(form)
    }

    fn tallies_form(&self, groups: &[Group<'a>], program: &mut Program<'a>) -> Option<Vec<u8>> {
        let told = |group: &&Group<'_>| group.known == Known::Tally;
        let mut form = count(groups.iter().filter(told).count())?;
        for group in groups.iter().filter(told) {
            group.head(None, &mut form)?;
            for key in &group.keys {
                let (code, number) = match *self.tallies.get(key)? {
                    Change::Add(by) => (code::ADD, by),
                    Change::Max(least) => (code::MAX, least),
                    Change::Set(number) => (code::SET, number),
                };
                form.push(code);
                form.extend(program.number(number).to_be_bytes());
            }
        }
        Some(form)
    }

    fn writes_form(&self, program: &mut Program<'a>, places: &Places<'a>) -> Option<Vec<u8>> {
        const NONE: u16 = 0;
        const UNKNOWN: u16 = u16::MAX;
        let (mut groups, mut form) = (0, Vec::new());
        let writes: Vec<(&'a Key, Option<&Value>)> =
            self.writes.iter().map(|(key, value)| (*key, *value)).collect();
        for some in writes.chunk_by(|one, other| place(one.0) == place(other.0)) {
            let (mut puts, mut deletes) = ((0, Vec::new()), (0, Vec::new()));
            for (key, value) in some {
                let was = match self.guards.get(key) {
                    Some(Expected::Equal(was)) => *places.expected.get(&was[..])?,
                    Some(Expected::Absent) if value.is_none() => continue,
                    Some(Expected::Absent) => NONE,
                    Some(Expected::Present) | None => UNKNOWN,
                };
                let (count, list) = if value.is_some() { &mut puts } else { &mut deletes };
                *count += 1;
                list.extend(program.record(key).to_be_bytes());
                if value.is_some() {
                    list.extend(places.put.get(key)?.to_be_bytes());
                }
                list.extend(was.to_be_bytes());
            }
            groups += 1;
            form.extend(program.place(place(some.first()?.0)).to_be_bytes());
            form.extend([count(puts.0)?, count(deletes.0)?].concat());
            form.extend([puts.1, deletes.1].concat());
        }
        Some([count(groups)?, form].concat())
    }
}

fn count(many: usize) -> Option<Vec<u8>> {
    Some(u16::try_from(many).ok()?.to_be_bytes().to_vec())
}

#[cfg(test)]
mod tests;
