//! A batch as arrays: what is locked, what must hold, and what is written, round by round.
//!
//! Two plans conflict if one writes a record that the other one writes or guards. A plan's round is one
//! more than the highest round of the earlier plans that it conflicts with. So the plans of one round may
//! be decided in any order, or all at once, and the rounds in order give the same result as the plans one
//! by one. Counters do not matter here: no decision depends on them, and they are changed at the end, in
//! the order of the plans.
//!
//! This module knows neither SQL nor connections.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use store::feed::compact;
use store::{CounterKey, Guard, Key, Plan, Value, Verdict, Write};

/// The bound, positive and negative, that sums of counters are clamped to, so that the next sum fits the
/// type.
pub(crate) const SUM_MAX: i64 = 1 << 61;

/// Kinds of conditions, as `commit.sql` numbers them.
mod condition {
    pub(super) const EQUALS: i32 = 0;
    pub(super) const ABSENT: i32 = 1;
    pub(super) const PRESENT: i32 = 2;
    pub(super) const EMPTY: i32 = 3;
}

/// Kinds of changes to counters, as `commit.sql` numbers them.
mod change {
    pub(super) const ADD: i32 = 0;
    pub(super) const MAX: i32 = 1;
    pub(super) const SET: i32 = 2;
    pub(super) const CLEAR: i32 = 3;
    /// Added to the kind of a change whose key has changes of several kinds.
    pub(super) const ONE_BY_ONE: i32 = 10;
    /// The bit that says that there are such.
    pub(super) const ONE_BY_ONE_BIT: i32 = 16;
}

/// One guard, or several equal ones of one round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Condition {
    pub(crate) kind: i32,
    pub(crate) key: Bytes,
    /// The value of `Equals`, the end of `Empty`.
    pub(crate) arg: Option<Bytes>,
}

impl Condition {
    fn of(guard: &Guard) -> Condition {
        let (kind, key, arg) = match guard {
            Guard::Equals(key, value) => (condition::EQUALS, key, Some(value.clone())),
            Guard::Absent(key) => (condition::ABSENT, key, None),
            Guard::Present(key) => (condition::PRESENT, key, None),
            Guard::Empty(start, end) => (condition::EMPTY, start, Some(end.to_bytes())),
            Guard::AtMost(..) => unreachable!("a bounded counter is never decided on in rounds"),
        };
        Condition { kind, key: key.to_bytes(), arg }
    }
}

/// A change to a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) plan: i32,
    pub(crate) kind: i32,
    pub(crate) key: CounterKey,
    pub(crate) number: i64,
}

/// A batch, ready to be sent. Plans and conditions are numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// Hashes of keys in ascending order, and whether the key is written.
    pub(crate) locks: Vec<(i32, bool)>,
    /// For each round, where its conditions, members, puts and deletes end.
    pub(crate) ends: Vec<[i32; 4]>,
    pub(crate) conditions: Vec<Condition>,
    /// Which plan depends on which condition.
    pub(crate) members: Vec<(i32, i32)>,
    pub(crate) puts: Vec<(i32, Key, Value)>,
    pub(crate) deletes: Vec<(i32, Key)>,
    pub(crate) changes: Vec<Change>,
    /// A bit for each kind of change that occurs.
    pub(crate) kinds: i32,
    /// What each plan adds to the feed; nothing at all if none does.
    pub(crate) pieces: Vec<Bytes>,
    /// For each plan, the conditions of its guards, in their order.
    guards: Vec<Vec<i32>>,
}

/// Which hash stands for a key among the locks: 64 bits of FNV-1a, folded. All processes that use
/// one database must agree on it, so it belongs to the format.
pub(crate) fn lock_hash(key: &Key) -> i32 {
    let hash = key.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let folded = (hash >> 32) ^ (hash & 0xffff_ffff);
    // Exactly the lower half: the upper one is 0.
    u32::try_from(folded).unwrap_or(u32::MAX).cast_signed()
}

/// The locks that plans need: by hash, and whether a key of it is written.
pub(crate) fn locks(plans: &[Plan]) -> Vec<(i32, bool)> {
    let mut locks = BTreeMap::new();
    for plan in plans {
        for guard in &plan.guards {
            if let Guard::Equals(key, _) | Guard::Absent(key) | Guard::Present(key) = guard {
                locks.entry(lock_hash(key)).or_insert(false);
            }
        }
        for write in &plan.writes {
            if let Write::Put(key, _) | Write::Delete(key) = write {
                locks.insert(lock_hash(key), true);
            }
        }
    }
    locks.into_iter().collect()
}

/// A number that indexes something bounded by `Limits`.
fn small(number: usize) -> i32 {
    i32::try_from(number).expect("a batch within limits has fewer items than 2^31")
}

impl Rounds {
    /// Orders plans, which are within limits, into rounds.
    pub(crate) fn of(plans: &[Plan]) -> Rounds {
        let of_plan = rounds(plans);
        let mut by_round: BTreeMap<usize, Vec<(usize, &Plan)>> = BTreeMap::new();
        for (number, (plan, round)) in plans.iter().zip(of_plan).enumerate() {
            by_round.entry(round).or_default().push((number, plan));
        }
        let mut batch = Rounds { guards: vec![Vec::new(); plans.len()], ..Rounds::default() };
        for members in by_round.into_values() {
            batch.add_round(&members);
        }
        batch.add_changes(plans);
        batch.locks = locks(plans);
        batch.pieces = compact::pieces(plans);
        batch
    }

    fn add_round(&mut self, members: &[(usize, &Plan)]) {
        let mut numbers: HashMap<Condition, i32> = HashMap::new();
        for (number, plan) in members {
            let plan_number = small(*number);
            let mut guards = Vec::with_capacity(plan.guards.len());
            for guard in &plan.guards {
                let next = small(self.conditions.len());
                let condition = Condition::of(guard);
                let at = *numbers.entry(condition.clone()).or_insert_with(|| {
                    self.conditions.push(condition);
                    next
                });
                guards.push(at);
                self.members.push((plan_number, at));
            }
            if let Some(place) = self.guards.get_mut(*number) {
                *place = guards;
            }
            for write in &plan.writes {
                match write {
                    Write::Put(key, value) => {
                        self.puts.push((plan_number, key.clone(), value.clone()));
                    }
                    Write::Delete(key) => self.deletes.push((plan_number, key.clone())),
                    _ => {}
                }
            }
        }
        let lengths =
            [self.conditions.len(), self.members.len(), self.puts.len(), self.deletes.len()];
        self.ends.push(lengths.map(small));
    }

    fn add_changes(&mut self, plans: &[Plan]) {
        // Which kind a key's changes have in common, if they do.
        let mut kinds: HashMap<CounterKey, Option<i32>> = HashMap::new();
        for (number, plan) in plans.iter().enumerate() {
            for write in &plan.writes {
                let (key, kind, number_of) = match write {
                    Write::Add(key, by) => (key, change::ADD, *by),
                    Write::Max(key, least) => (key, change::MAX, *least),
                    Write::Set(key, to) => (key, change::SET, *to),
                    Write::Clear(key) => (key, change::CLEAR, 0),
                    Write::Put(..) | Write::Delete(_) => continue,
                };
                let change =
                    Change { plan: small(number), kind, key: key.clone(), number: number_of };
                // Raising a counter that is not there to less than 0 makes it 0.
                let alone = if kind == change::MAX && number_of < 0 { None } else { Some(kind) };
                let commutes = kind == change::ADD || kind == change::MAX;
                kinds
                    .entry(key.clone())
                    .and_modify(|common| {
                        if *common != alone || !commutes {
                            *common = None;
                        }
                    })
                    .or_insert(alone);
                self.changes.push(change);
            }
        }
        for change in &mut self.changes {
            if kinds.get(&change.key).copied().flatten().is_none() {
                change.kind += change::ONE_BY_ONE;
                self.kinds |= change::ONE_BY_ONE_BIT;
            } else {
                self.kinds |= 1 << change.kind;
            }
        }
    }

    /// The verdicts, from the conditions that did not hold and the records met instead. `None` if
    /// a condition is none of this batch's.
    pub(crate) fn verdicts(
        &self,
        failed: &[i32],
        met: Vec<Option<Vec<u8>>>,
    ) -> Option<Vec<Verdict>> {
        if failed.is_empty() {
            return Some(vec![Verdict::Committed; self.guards.len()]);
        }
        let mut found: Vec<Option<Option<Value>>> = vec![None; self.conditions.len()];
        if failed.len() != met.len() {
            return None;
        }
        for (number, met) in failed.iter().zip(met) {
            *found.get_mut(usize::try_from(*number).ok()?)? = Some(met.map(Bytes::from));
        }
        let failed = |number: &i32| found.get(usize::try_from(*number).ok()?)?.as_ref();
        let verdict = |guards: &Vec<i32>| {
            let refusal = guards.iter().enumerate().find_map(|(at, number)| {
                failed(number).map(|found| Verdict::Refused { guard: at, found: found.clone() })
            });
            refusal.unwrap_or(Verdict::Committed)
        };
        Some(self.guards.iter().map(verdict).collect())
    }
}

/// The round of each plan, from 0.
pub(crate) fn rounds(plans: &[Plan]) -> Vec<usize> {
    // The first round in which a record may be guarded after what came before, and written.
    let mut written: BTreeMap<&Key, usize> = BTreeMap::new();
    let mut guarded: HashMap<&Key, usize> = HashMap::new();
    let mut empty: BTreeMap<(&Key, &Key), usize> = BTreeMap::new();
    let mut answer = Vec::with_capacity(plans.len());
    for plan in plans {
        let mut round = 0;
        for guard in &plan.guards {
            round = round.max(match guard {
                Guard::Equals(key, _) | Guard::Absent(key) | Guard::Present(key) => {
                    written.get(key).copied().unwrap_or(0)
                }
                Guard::Empty(start, end) => {
                    written.range::<&Key, _>(start..end).map(|(_, after)| *after).max().unwrap_or(0)
                }
                Guard::AtMost(..) => 0,
            });
        }
        for write in &plan.writes {
            if let Write::Put(key, _) | Write::Delete(key) = write {
                let ranges = empty.iter().filter(|((start, end), _)| *start <= key && key < *end);
                let after = ranges.map(|(_, after)| *after).max().unwrap_or(0);
                round = round.max(after);
                round = round.max(written.get(key).copied().unwrap_or(0));
                round = round.max(guarded.get(key).copied().unwrap_or(0));
            }
        }
        let next = round + 1;
        for guard in &plan.guards {
            let after = match guard {
                Guard::Equals(key, _) | Guard::Absent(key) | Guard::Present(key) => {
                    guarded.entry(key).or_default()
                }
                Guard::Empty(start, end) => empty.entry((start, end)).or_default(),
                Guard::AtMost(..) => continue,
            };
            *after = (*after).max(next);
        }
        for write in &plan.writes {
            if let Write::Put(key, _) | Write::Delete(key) = write {
                let after = written.entry(key).or_default();
                *after = (*after).max(next);
            }
        }
        answer.push(round);
    }
    answer
}

#[cfg(test)]
mod tests;
