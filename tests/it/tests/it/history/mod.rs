//! Whether what clients were told of something could have been told by one that does one thing after
//! the other.
//!
//! A history is linearizable if each call can be given one instant between its beginning and its
//! end such that all of them, done one after another at those instants, answer what they did. A
//! call whose outcome is not known has no end: it may have happened at any time after it began, or
//! never. What there is to ask, and what that does, a [`Deed`] says: a [`register`] is one key,
//! which is independent of others, a [`shelf`] some keys between which there are copies.
//!
//! The search follows Wing and Gong, with Lowe's two refinements: instants are chosen no sooner
//! than an end demands it, and what was tried is remembered. What is remembered is a
//! [`Configuration`], and there are few, because every write has a value of its own. Values that
//! nobody ever saw are one to the search.
//!
//! Knows nothing of gateways; time is any number that grows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;

pub(crate) mod register;
pub(crate) mod shelf;
pub(crate) mod versions;

/// What a write wrote. Each has one of its own, which is not [`UNSEEN`].
pub(crate) type Value = u64;

/// Stands for every value that nobody saw.
const UNSEEN: Value = 0;

/// Configurations that are held at a time; more would mean a history that no machine can decide.
const CONFIGURATIONS_MAX: usize = 200_000;

/// What was asked of something, and what was told: a call but for its time.
pub(crate) trait Deed: Copy + Debug + Eq + Hash + Ord {
    /// What is there; at first its default.
    type State: Clone + Debug + Default + Eq + Hash;

    /// What is there after it happened and was told so, if that is possible.
    fn apply(&self, state: &Self::State) -> Option<Self::State>;

    /// Whether it leaves everything as it is.
    fn only_looks(&self) -> bool;

    /// Whether nothing was told: it may happen later, or never.
    fn is_in_doubt(&self) -> bool;

    /// Whether it may never happen, though it is known when it would have.
    fn may_be_left_out(&self) -> bool {
        false
    }

    /// Whether it can only happen before this other one, which is under way at the same time.
    fn comes_before(&self, _other: &Self) -> bool {
        false
    }
}

/// One call of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call<D> {
    pub(crate) deed: D,
    pub(crate) began: u64,
    /// Of no meaning if nothing was told.
    pub(crate) ended: u64,
}

/// Calls under way that have an end, by their place in a mask.
type Slots<D> = [Option<D>; 64];

/// Calls without an end, counted by what they asked: those that asked the same are the same.
type Doubts<D> = BTreeMap<D, u32>;

/// How far one of the possible orders has come.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Configuration<D: Deed> {
    state: D::State,
    /// Calls under way that have happened already.
    happened: u64,
    /// Calls without an end that have happened, counted by what they asked.
    doubts: Doubts<D>,
}

impl<D: Deed> Configuration<D> {
    /// Lets everything happen that only looks and fits: it must some day, and disturbs nothing.
    fn look(&mut self, slots: &Slots<D>) {
        for (slot, call) in slots.iter().enumerate() {
            let fits = |deed: &D| deed.only_looks() && deed.apply(&self.state).is_some();
            if call.as_ref().is_some_and(fits) {
                self.happened |= 1 << slot;
            }
        }
    }

    /// Whether what a call comes before has happened.
    fn is_too_late(&self, call: &D, slots: &Slots<D>) -> bool {
        let happened = |slot: usize| self.happened & (1 << slot) != 0;
        let is_over = |(slot, other): (usize, &Option<D>)| {
            other.as_ref().is_some_and(|other| happened(slot) && call.comes_before(other))
        };
        slots.iter().enumerate().any(is_over)
    }

    /// Every configuration that one more call that changes something leads to.
    fn next(&self, slots: &Slots<D>, doubts: &Doubts<D>) -> Vec<Configuration<D>> {
        let mut next = Vec::new();
        for (slot, call) in slots.iter().enumerate() {
            let Some(call) = call else { continue };
            if call.only_looks()
                || self.happened & (1 << slot) != 0
                || self.is_too_late(call, slots)
            {
                continue;
            }
            if let Some(state) = call.apply(&self.state) {
                let happened = self.happened | (1 << slot);
                next.push(Configuration { state, happened, doubts: self.doubts.clone() });
            }
        }
        for (deed, &count) in doubts {
            let used = self.doubts.get(deed).copied().unwrap_or(0);
            let Some(state) = deed.apply(&self.state).filter(|_| used < count) else { continue };
            if state != self.state {
                let mut doubts = self.doubts.clone();
                doubts.insert(*deed, used + 1);
                next.push(Configuration { state, happened: self.happened, doubts });
            }
        }
        for configuration in &mut next {
            configuration.look(slots);
        }
        next
    }
}

/// Configurations, without those that can do nothing that another one could not do as well.
#[derive(Debug)]
struct Configurations<D: Deed> {
    by_place: HashMap<(D::State, u64), Vec<Doubts<D>>>,
    count: usize,
}

/// Whether `few` uses no more doubts than `many`.
fn is_within<D: Deed>(few: &Doubts<D>, many: &Doubts<D>) -> bool {
    few.iter().all(|(deed, count)| many.get(deed).is_some_and(|other| other >= count))
}

impl<D: Deed> Configurations<D> {
    fn new() -> Configurations<D> {
        Configurations { by_place: HashMap::new(), count: 0 }
    }

    /// Adds one, and answers whether it was worth it.
    fn add(&mut self, configuration: &Configuration<D>) -> bool {
        let place = (configuration.state.clone(), configuration.happened);
        let known = self.by_place.entry(place).or_default();
        if known.iter().any(|doubts| is_within(doubts, &configuration.doubts)) {
            return false;
        }
        let before = known.len();
        known.retain(|doubts| !is_within(&configuration.doubts, doubts));
        known.push(configuration.doubts.clone());
        self.count = self.count + known.len() - before;
        assert!(self.count <= CONFIGURATIONS_MAX, "a history too entangled to be decided");
        true
    }

    fn into_all(self) -> Vec<Configuration<D>> {
        let mut all = Vec::new();
        for ((state, happened), known) in self.by_place {
            for doubts in known {
                all.push(Configuration { state: state.clone(), happened, doubts });
            }
        }
        all
    }
}

/// Decides whether these calls are linearizable. If not, says which call has no place, and what went
/// on around it.
fn check<D: Deed>(calls: &[Call<D>]) -> Result<(), String> {
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        events.push((call.began, false, index));
        if !call.deed.is_in_doubt() {
            events.push((call.ended, true, index));
        }
    }
    events.sort_unstable();
    let mut slots: Slots<D> = [None; 64];
    let mut places: HashMap<usize, usize> = HashMap::new();
    let mut doubts: Doubts<D> = Doubts::new();
    let state = D::State::default();
    let start = Configuration { state, happened: 0, doubts: Doubts::new() };
    let mut configurations = vec![start];
    for (at, ends, index) in events {
        let deed = calls[index].deed;
        if deed.is_in_doubt() {
            *doubts.entry(deed).or_default() += 1;
        } else if ends {
            let slot = places.remove(&index).expect("what ends has begun");
            let next = end(&configurations, slot, &slots, &doubts);
            if next.is_empty() {
                return Err(explain(calls, index, at, &configurations));
            }
            configurations = next;
            forget(&mut configurations, &mut doubts);
            slots[slot] = None;
        } else {
            let slot = slots.iter().position(Option::is_none);
            let slot = slot.expect("fewer clients than places");
            places.insert(index, slot);
            slots[slot] = Some(deed);
            configurations.iter_mut().for_each(|configuration| configuration.look(&slots));
        }
    }
    Ok(())
}

/// Forgets doubts that every configuration has used: they are settled.
fn forget<D: Deed>(configurations: &mut [Configuration<D>], doubts: &mut Doubts<D>) {
    let Some(first) = configurations.first() else { return };
    for (deed, used) in first.doubts.clone() {
        let of = |one: &Configuration<D>| one.doubts.get(&deed).copied().unwrap_or(0);
        let by_all = configurations.iter().map(of).min().unwrap_or(0).min(used);
        if by_all == 0 {
            continue;
        }
        let maps = configurations.iter_mut().map(|one| &mut one.doubts);
        for map in maps.chain([&mut *doubts]) {
            let left = map.get(&deed).copied().unwrap_or(0) - by_all;
            if left == 0 {
                map.remove(&deed);
            } else {
                map.insert(deed, left);
            }
        }
    }
}

/// The configurations in which the call at `slot` has happened, when it ends.
fn end<D: Deed>(
    configurations: &[Configuration<D>],
    slot: usize,
    slots: &Slots<D>,
    doubts: &Doubts<D>,
) -> Vec<Configuration<D>> {
    let mut ended = Configurations::new();
    let mut tried = Configurations::new();
    let mut open: Vec<Configuration<D>> = configurations.to_vec();
    if slots[slot].as_ref().is_some_and(D::may_be_left_out) {
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
            open.extend(configuration.next(slots, doubts));
        }
    }
    ended.into_all()
}

/// Calls that are shown around the one that has no place.
const SHOWN: usize = 24;

fn explain<D: Deed>(
    calls: &[Call<D>],
    wrong: usize,
    at: u64,
    possible: &[Configuration<D>],
) -> String {
    let mut around: Vec<&Call<D>> = calls.iter().filter(|call| call.began <= at).collect();
    around.sort_by_key(|call| if call.deed.is_in_doubt() { call.began } else { call.ended });
    let shown = &around[around.len().saturating_sub(SHOWN)..];
    let lines: Vec<String> = shown.iter().map(|call| format!("  {call:?}")).collect();
    let states: HashSet<&D::State> = possible.iter().map(|one| &one.state).collect();
    format!(
        "{:?} has no place; before it there could be {states:?} (0 is what nobody saw)\n{}",
        calls[wrong],
        lines.join("\n")
    )
}
