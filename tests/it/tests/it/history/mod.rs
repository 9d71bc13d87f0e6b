//! Decides if a history of client calls is linearizable.
//!
//! A history is linearizable if each call can be given one instant between its beginning and its
//! end such that all calls, executed one after another at those instants, return the recorded
//! outcomes. A call with an unknown outcome has no end: it may take effect at any time after its
//! beginning, or never. The trait [`SequentialSpec`] describes the operations and their effects. A
//! [`register`] is one key, which is independent of others. A [`key_group`] is a few keys between
//! which there are copies.
//!
//! For example, if a `put(1)` has ended before a `get` begins, and no other write exists, the `get`
//! must return 1. While the `put` is in flight, a `get` may return either value.
//!
//! The search follows Wing and Gong, with the two refinements of Lowe: it chooses instants only
//! when a call ends, and it remembers the states that it has tried. Such a state is a
//! [`Configuration`]. Their number stays small because each write has its own value; the values
//! that no call returned are treated as equal.
//!
//! The module knows nothing of gateways. Time is any number that grows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;

pub(crate) mod key_group;
pub(crate) mod register;
pub(crate) mod versions;

/// The value of a write. Each write has its own, and none is [`UNSEEN`].
pub(crate) type Value = u64;

/// Replaces each value that no call returned.
const UNSEEN: Value = 0;

/// Limit of the configurations that are held at a time. Beyond it the history takes too long to
/// decide.
const CONFIGURATIONS_MAX: usize = 200_000;

/// An operation and its outcome: a call without its times.
pub(crate) trait SequentialSpec: Copy + Debug + Eq + Hash + Ord {
    /// The state of the object. The default is the initial state.
    type State: Clone + Debug + Default + Eq + Hash;

    /// Returns the state after this operation with this outcome; `None` if the outcome is
    /// impossible in `state`.
    fn apply(&self, state: &Self::State) -> Option<Self::State>;

    /// Returns true if the operation changes nothing.
    fn is_read_only(&self) -> bool;

    /// Returns true if the outcome is unknown: the operation may take effect later, or never.
    fn is_unknown(&self) -> bool;

    /// Returns true if the operation may be left out, although it has an end.
    fn is_optional(&self) -> bool {
        false
    }

    /// Returns true if this operation must take effect before `other`, which is in flight at the
    /// same time.
    fn must_precede(&self, _other: &Self) -> bool {
        false
    }
}

/// One call of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call<D> {
    pub(crate) operation: D,
    pub(crate) began: u64,
    /// Has no meaning if the outcome is unknown.
    pub(crate) ended: u64,
}

/// Calls in flight that have an end. The index is their bit in a mask.
type Slots<D> = [Option<D>; 64];

/// Calls with an unknown outcome, counted by operation, since equal operations are interchangeable.
type UnknownCounts<D> = BTreeMap<D, u32>;

/// The progress of one possible order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Configuration<D: SequentialSpec> {
    state: D::State,
    /// Mask of the calls in flight that have taken effect.
    happened: u64,
    /// Calls with an unknown outcome that have taken effect, counted by operation.
    unknown: UnknownCounts<D>,
}

impl<D: SequentialSpec> Configuration<D> {
    /// Marks each possible read as done. This is always right: a read must take effect at some
    /// time, and it changes nothing for the others.
    fn apply_reads(&mut self, slots: &Slots<D>) {
        for (slot, call) in slots.iter().enumerate() {
            let fits =
                |operation: &D| operation.is_read_only() && operation.apply(&self.state).is_some();
            if call.as_ref().is_some_and(fits) {
                self.happened |= 1 << slot;
            }
        }
    }

    /// Returns true if a call has taken effect that this call had to precede.
    fn has_missed_its_place(&self, call: &D, slots: &Slots<D>) -> bool {
        let happened = |slot: usize| self.happened & (1 << slot) != 0;
        let is_over = |(slot, other): (usize, &Option<D>)| {
            other.as_ref().is_some_and(|other| happened(slot) && call.must_precede(other))
        };
        slots.iter().enumerate().any(is_over)
    }

    /// Returns each configuration after one more operation that changes the state.
    fn next(&self, slots: &Slots<D>, unknown: &UnknownCounts<D>) -> Vec<Configuration<D>> {
        let mut next = Vec::new();
        for (slot, call) in slots.iter().enumerate() {
            let Some(call) = call else { continue };
            if call.is_read_only()
                || self.happened & (1 << slot) != 0
                || self.has_missed_its_place(call, slots)
            {
                continue;
            }
            if let Some(state) = call.apply(&self.state) {
                let happened = self.happened | (1 << slot);
                next.push(Configuration { state, happened, unknown: self.unknown.clone() });
            }
        }
        for (operation, &count) in unknown {
            let used = self.unknown.get(operation).copied().unwrap_or(0);
            let Some(state) = operation.apply(&self.state).filter(|_| used < count) else {
                continue;
            };
            if state != self.state {
                let mut unknown = self.unknown.clone();
                unknown.insert(*operation, used + 1);
                next.push(Configuration { state, happened: self.happened, unknown });
            }
        }
        for configuration in &mut next {
            configuration.apply_reads(slots);
        }
        next
    }
}

/// A set of configurations. It leaves out each one that another one makes unnecessary: the same
/// state with fewer unknown calls used.
#[derive(Debug)]
struct Configurations<D: SequentialSpec> {
    by_place: HashMap<(D::State, u64), Vec<UnknownCounts<D>>>,
    count: usize,
}

/// Returns true if `few` contains no call more often than `many`.
fn is_within<D: SequentialSpec>(few: &UnknownCounts<D>, many: &UnknownCounts<D>) -> bool {
    few.iter().all(|(operation, count)| many.get(operation).is_some_and(|other| other >= count))
}

impl<D: SequentialSpec> Configurations<D> {
    fn new() -> Configurations<D> {
        Configurations { by_place: HashMap::new(), count: 0 }
    }

    /// Adds a configuration. Returns false if it was unnecessary.
    fn add(&mut self, configuration: &Configuration<D>) -> bool {
        let place = (configuration.state.clone(), configuration.happened);
        let known = self.by_place.entry(place).or_default();
        if known.iter().any(|unknown| is_within(unknown, &configuration.unknown)) {
            return false;
        }
        let before = known.len();
        known.retain(|unknown| !is_within(&configuration.unknown, unknown));
        known.push(configuration.unknown.clone());
        self.count = self.count + known.len() - before;
        assert!(self.count <= CONFIGURATIONS_MAX, "a history too entangled to be decided");
        true
    }

    fn into_all(self) -> Vec<Configuration<D>> {
        let mut all = Vec::new();
        for ((state, happened), known) in self.by_place {
            for unknown in known {
                all.push(Configuration { state: state.clone(), happened, unknown });
            }
        }
        all
    }
}

/// Decides if these calls are linearizable. If not, returns the call that fits in no order, and the
/// calls around it.
fn check<D: SequentialSpec>(calls: &[Call<D>]) -> Result<(), String> {
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        events.push((call.began, false, index));
        if !call.operation.is_unknown() {
            events.push((call.ended, true, index));
        }
    }
    events.sort_unstable();
    let mut slots: Slots<D> = [None; 64];
    let mut places: HashMap<usize, usize> = HashMap::new();
    let mut unknown: UnknownCounts<D> = UnknownCounts::new();
    let state = D::State::default();
    let start = Configuration { state, happened: 0, unknown: UnknownCounts::new() };
    let mut configurations = vec![start];
    for (at, ends, index) in events {
        let operation = calls[index].operation;
        if operation.is_unknown() {
            *unknown.entry(operation).or_default() += 1;
        } else if ends {
            let slot = places.remove(&index).expect("a call that ends has begun");
            let next = end(&configurations, slot, &slots, &unknown);
            if next.is_empty() {
                return Err(explain(calls, index, at, &configurations));
            }
            configurations = next;
            drop_settled(&mut configurations, &mut unknown);
            slots[slot] = None;
        } else {
            let slot = slots.iter().position(Option::is_none);
            let slot = slot.expect("fewer clients than places");
            places.insert(index, slot);
            slots[slot] = Some(operation);
            configurations.iter_mut().for_each(|configuration| configuration.apply_reads(&slots));
        }
    }
    Ok(())
}

/// Removes the calls with an unknown outcome that every configuration has used: they have certainly
/// taken effect.
fn drop_settled<D: SequentialSpec>(
    configurations: &mut [Configuration<D>],
    unknown: &mut UnknownCounts<D>,
) {
    let Some(first) = configurations.first() else { return };
    for (operation, used) in first.unknown.clone() {
        let of = |one: &Configuration<D>| one.unknown.get(&operation).copied().unwrap_or(0);
        let by_all = configurations.iter().map(of).min().unwrap_or(0).min(used);
        if by_all == 0 {
            continue;
        }
        let maps = configurations.iter_mut().map(|one| &mut one.unknown);
        for map in maps.chain([&mut *unknown]) {
            let left = map.get(&operation).copied().unwrap_or(0) - by_all;
            if left == 0 {
                map.remove(&operation);
            } else {
                map.insert(operation, left);
            }
        }
    }
}

/// Returns the configurations in which the call at `slot` has taken effect when it ends.
fn end<D: SequentialSpec>(
    configurations: &[Configuration<D>],
    slot: usize,
    slots: &Slots<D>,
    unknown: &UnknownCounts<D>,
) -> Vec<Configuration<D>> {
    let mut ended = Configurations::new();
    let mut tried = Configurations::new();
    let mut open: Vec<Configuration<D>> = configurations.to_vec();
    if slots[slot].as_ref().is_some_and(D::is_optional) {
        for configuration in configurations {
            let happened = configuration.happened & !(1 << slot);
            ended.add(&Configuration { happened, ..configuration.clone() });
        }
    }
    while let Some(mut configuration) = open.pop() {
        if configuration.happened & (1 << slot) != 0 {
            configuration.happened &= !(1 << slot);
            ended.add(&configuration);
        } else if tried.add(&configuration) {
            open.extend(configuration.next(slots, unknown));
        }
    }
    ended.into_all()
}

/// Number of calls that an error shows.
const SHOWN: usize = 24;

fn explain<D: SequentialSpec>(
    calls: &[Call<D>],
    wrong: usize,
    at: u64,
    possible: &[Configuration<D>],
) -> String {
    let mut around: Vec<&Call<D>> = calls.iter().filter(|call| call.began <= at).collect();
    around.sort_by_key(|call| if call.operation.is_unknown() { call.began } else { call.ended });
    let shown = &around[around.len().saturating_sub(SHOWN)..];
    let lines: Vec<String> = shown.iter().map(|call| format!("  {call:?}")).collect();
    let states: HashSet<&D::State> = possible.iter().map(|one| &one.state).collect();
    format!(
        "{:?} has no place; the possible states before it are {states:?} (0 is any unread value)\n{}",
        calls[wrong],
        lines.join("\n")
    )
}
