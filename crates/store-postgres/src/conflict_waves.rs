//! A batch as arrays, in conflict waves: the locks, the conditions and the writes of each wave.
//!
//! Two plans conflict if one writes a record that the other writes or guards. The wave of a plan is
//! one more than the highest wave of the earlier plans with which it conflicts, and 0 if there are
//! none. So the plans of one wave can be decided together, and the waves in order have the result
//! of the plans one by one. Counters are left out: no decision depends on them, and they change at
//! the end, in the order of the plans.
//!
//! For example, plan 0 puts `a`, plan 1 puts `b`, and plan 2 guards `a`. Plans 0 and 1 are wave 0,
//! plan 2 is wave 1.
//!
//! This module knows neither SQL nor connections.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use store::feed::compact;
use store::{CounterKey, Guard, Key, Plan, Value, Verdict, Write};

/// The bound, positive and negative, to which sums of counters are clamped, so that the next sum
/// fits 64 bits.
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
    /// Added to the kind if the key has changes of several kinds, which must be applied one by one.
    pub(super) const ONE_BY_ONE: i32 = 10;
    /// The bit of `kinds` that shows that some changes must be applied one by one.
    pub(super) const ONE_BY_ONE_BIT: i32 = 16;
}

/// One guard, or several equal guards of the plans of one conflict wave, that is, of plans that are
/// decided together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Condition {
    /// The kind of the guard, by its number in `commit.sql`.
    pub(crate) kind: i32,
    /// The key of the guarded record, or the start of the range of `Empty`.
    pub(crate) key: Bytes,
    /// The bytes that `Equals` requires, or the end of the range of `Empty`; `None` for other
    /// guards.
    pub(crate) arg: Option<Bytes>,
}

impl Condition {
    fn of(guard: &Guard) -> Condition {
        let (kind, key, arg) = match guard {
            Guard::Equals(key, value) => (condition::EQUALS, key, Some(value.clone())),
            Guard::Absent(key) => (condition::ABSENT, key, None),
            Guard::Present(key) => (condition::PRESENT, key, None),
            Guard::Empty(start, end) => (condition::EMPTY, start, Some(end.to_bytes())),
            Guard::AtMost(..) => {
                unreachable!("a bounded counter is never decided in conflict waves")
            }
        };
        Condition { kind, key: key.to_bytes(), arg }
    }
}

/// One write to a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) plan: i32,
    pub(crate) kind: i32,
    pub(crate) key: CounterKey,
    pub(crate) number: i64,
}

/// A batch in the form that `commit.sql` takes: its plans, grouped into conflict waves. Plans of
/// one wave do not conflict, so they are decided together. Plans and conditions are numbered from
/// 0.
#[derive(Debug, Default)]
pub(crate) struct ConflictWaves {
    /// The hashes of all guarded and written keys in ascending order, each with true if a key with
    /// this hash is written. The function locks them in this order.
    pub(crate) locks: Vec<(i32, bool)>,
    /// For each wave, the ends of its conditions, members, puts and deletes in the lists.
    pub(crate) ends: Vec<[i32; 4]>,
    pub(crate) conditions: Vec<Condition>,
    /// Pairs of a plan and a condition that must hold for it.
    pub(crate) members: Vec<(i32, i32)>,
    pub(crate) puts: Vec<(i32, Key, Value)>,
    pub(crate) deletes: Vec<(i32, Key)>,
    pub(crate) changes: Vec<Change>,
    /// One bit for each kind of counter change that occurs.
    pub(crate) kinds: i32,
    /// For each plan, the encoded keys of the records that it writes, for the change feed; empty if
    /// no plan writes records.
    pub(crate) pieces: Vec<Bytes>,
    /// For each plan, the numbers of the conditions that its guards became, in the order of the
    /// guards.
    guards: Vec<Vec<i32>>,
}

/// Returns the hash that represents a key among the locks: 64 bits of FNV-1a, folded to 32. All
/// processes that use one database must agree on it, so it is part of the format.
pub(crate) fn lock_hash(key: &Key) -> i32 {
    let hash = key.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let folded = (hash >> 32) ^ (hash & 0xffff_ffff);
    // The folded value fits: its upper half is 0.
    u32::try_from(folded).unwrap_or(u32::MAX).cast_signed()
}

/// Returns the locks that plans need: each hash, with true if a key with this hash is written.
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

/// Converts a number that `Limits` bounds.
fn index(number: usize) -> i32 {
    i32::try_from(number).expect("a batch within limits has fewer items than 2^31")
}

impl ConflictWaves {
    /// Groups plans, which are within limits, into conflict waves: a plan that conflicts with an
    /// earlier one is in a later wave.
    pub(crate) fn of(plans: &[Plan]) -> ConflictWaves {
        let wave_of_plan = waves(plans);
        let mut by_wave: BTreeMap<usize, Vec<(usize, &Plan)>> = BTreeMap::new();
        for (number, (plan, wave)) in plans.iter().zip(wave_of_plan).enumerate() {
            by_wave.entry(wave).or_default().push((number, plan));
        }
        let mut batch =
            ConflictWaves { guards: vec![Vec::new(); plans.len()], ..ConflictWaves::default() };
        for members in by_wave.into_values() {
            batch.add_wave(&members);
        }
        batch.add_changes(plans);
        batch.locks = locks(plans);
        batch.pieces = compact::pieces(plans);
        batch
    }

    fn add_wave(&mut self, members: &[(usize, &Plan)]) {
        let mut numbers: HashMap<Condition, i32> = HashMap::new();
        for (number, plan) in members {
            let plan_number = index(*number);
            let mut guards = Vec::with_capacity(plan.guards.len());
            for guard in &plan.guards {
                let next = index(self.conditions.len());
                let condition = Condition::of(guard);
                // Equal guards of one wave are one condition: many plans guard the same bucket or
                // directory.
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
        self.ends.push(lengths.map(index));
    }

    fn add_changes(&mut self, plans: &[Plan]) {
        // The kind that all changes of a key have in common, or `None`.
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
                    Change { plan: index(number), kind, key: key.clone(), number: number_of };
                // A raise of a missing counter to a negative value must set it to 0, which the
                // statement for all raises does not do.
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

    /// Returns the verdict of each plan, from the numbers of the conditions that did not hold
    /// (`failed`) and the records that were found instead (`met`). Returns `None` if a condition is
    /// not of this batch.
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

/// Returns the conflict wave of each plan, from 0: one more than that of the latest earlier plan
/// with which it conflicts.
pub(crate) fn waves(plans: &[Plan]) -> Vec<usize> {
    // For each record or range, the first wave in which a later plan may write it. `written` also
    // bounds the first wave in which a later plan may guard the record.
    let mut written: BTreeMap<&Key, usize> = BTreeMap::new();
    let mut guarded: HashMap<&Key, usize> = HashMap::new();
    let mut empty: BTreeMap<(&Key, &Key), usize> = BTreeMap::new();
    let mut answer = Vec::with_capacity(plans.len());
    for plan in plans {
        let mut wave = 0;
        for guard in &plan.guards {
            wave = wave.max(match guard {
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
                wave = wave.max(after);
                wave = wave.max(written.get(key).copied().unwrap_or(0));
                wave = wave.max(guarded.get(key).copied().unwrap_or(0));
            }
        }
        // A later plan that conflicts with this one must be at least one wave later.
        let next = wave + 1;
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
        answer.push(wave);
    }
    answer
}

#[cfg(test)]
mod tests;
