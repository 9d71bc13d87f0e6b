//! Whether what clients were told of a key could have been told by a single register.
//!
//! A history is linearizable if each call can be given one instant between its beginning and its
//! end such that all of them, done one after another at those instants, answer what they did. A
//! call whose outcome is not known has no end: it may have happened at any time after it began, or
//! never. Keys are independent, so each has a history of its own.
//!
//! The search follows Wing and Gong, with Lowe's two refinements: instants are chosen no sooner
//! than an end demands it, and what was tried is remembered. What is remembered is a
//! [`Configuration`], and there are few, because every write has a value of its own. Values that
//! nobody ever saw are one to the search.
//!
//! Knows nothing of gateways; time is any number that grows.

use std::collections::{BTreeMap, HashMap, HashSet};

#[cfg(test)]
mod tests;

/// What a write wrote. Each has one of its own, which is not [`UNSEEN`].
pub(crate) type Value = u64;

/// Stands for every value that nobody saw.
const UNSEEN: Value = 0;

/// Configurations of one key that are held at a time; more would mean a history that no machine
/// can decide.
const CONFIGURATIONS_MAX: usize = 200_000;

/// What was asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Ask {
    Get,
    Put(Value),
    PutIfAbsent(Value),
    /// If the first value is there, write the second.
    PutIfMatch(Value, Value),
    Delete,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    /// It is done.
    Done,
    /// What a get found.
    Found(Option<Value>),
    /// Another object is there than the condition wants.
    Refused,
    /// The condition wants an object, and none is there.
    Missing,
    /// Nothing that says whether it happened.
    Nothing,
}

/// One call of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) ask: Ask,
    pub(crate) told: Told,
    pub(crate) began: u64,
    /// Of no meaning if nothing was told.
    pub(crate) ended: u64,
}

impl Ask {
    /// The value it writes.
    pub(crate) fn writes(self) -> Option<Value> {
        match self {
            Ask::Put(value) | Ask::PutIfAbsent(value) | Ask::PutIfMatch(_, value) => Some(value),
            Ask::Get | Ask::Delete => None,
        }
    }

    /// What is there after it was done, if it could be done.
    fn done(self, state: Option<Value>) -> Option<Option<Value>> {
        match self {
            Ask::Get => None,
            Ask::Put(value) => Some(Some(value)),
            Ask::PutIfAbsent(value) => state.is_none().then_some(Some(value)),
            Ask::PutIfMatch(wanted, value) => (state == Some(wanted)).then_some(Some(value)),
            Ask::Delete => Some(None),
        }
    }
}

impl Call {
    /// What is there after it happened and was told so, if that is possible.
    fn apply(&self, state: Option<Value>) -> Option<Option<Value>> {
        let possible = match self.told {
            Told::Done | Told::Nothing => return self.ask.done(state),
            Told::Found(found) => found == state,
            Told::Missing => state.is_none(),
            Told::Refused => match self.ask {
                Ask::PutIfMatch(wanted, _) => state.is_some_and(|value| value != wanted),
                _ => state.is_some(),
            },
        };
        possible.then_some(state)
    }

    /// Whether it leaves everything as it is.
    fn only_looks(&self) -> bool {
        !matches!(self.told, Told::Done | Told::Nothing)
    }

    /// Whether it can have done anything, or says anything.
    fn matters(&self) -> bool {
        self.ask != Ask::Get || self.told != Told::Nothing
    }
}

/// Calls under way that have an end, by their place in a mask.
type Slots = [Option<Call>; 64];

/// Calls without an end, counted by what they asked: those that asked the same are the same.
type Doubts = BTreeMap<Ask, u32>;

/// How far one of the possible orders has come.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Configuration {
    state: Option<Value>,
    /// Calls under way that have happened already.
    happened: u64,
    /// Calls without an end that have happened, counted by what they asked.
    doubts: Doubts,
}

impl Configuration {
    /// Lets everything happen that only looks and fits: it must some day, and disturbs nothing.
    fn look(&mut self, slots: &Slots) {
        for (slot, call) in slots.iter().enumerate() {
            let fits = |call: &Call| call.only_looks() && call.apply(self.state).is_some();
            if call.as_ref().is_some_and(fits) {
                self.happened |= 1 << slot;
            }
        }
    }

    /// Every configuration that one more call that changes something leads to.
    fn next(&self, slots: &Slots, doubts: &Doubts) -> Vec<Configuration> {
        let mut next = Vec::new();
        for (slot, call) in slots.iter().enumerate() {
            let Some(call) = call else { continue };
            if call.only_looks() || self.happened & (1 << slot) != 0 {
                continue;
            }
            if let Some(state) = call.apply(self.state) {
                let happened = self.happened | (1 << slot);
                next.push(Configuration { state, happened, doubts: self.doubts.clone() });
            }
        }
        for (ask, &count) in doubts {
            let used = self.doubts.get(ask).copied().unwrap_or(0);
            let Some(state) = ask.done(self.state).filter(|_| used < count) else { continue };
            if state != self.state {
                let mut doubts = self.doubts.clone();
                doubts.insert(*ask, used + 1);
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
#[derive(Debug, Default)]
struct Configurations {
    by_place: HashMap<(Option<Value>, u64), Vec<Doubts>>,
    count: usize,
}

/// Whether `few` uses no more doubts than `many`.
fn is_within(few: &Doubts, many: &Doubts) -> bool {
    few.iter().all(|(ask, count)| many.get(ask).is_some_and(|other| other >= count))
}

impl Configurations {
    /// Adds one, and answers whether it was worth it.
    fn add(&mut self, configuration: &Configuration) -> bool {
        let place = (configuration.state, configuration.happened);
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

    fn into_all(self) -> Vec<Configuration> {
        let all = self.by_place.into_iter().flat_map(|((state, happened), known)| {
            known.into_iter().map(move |doubts| Configuration { state, happened, doubts })
        });
        all.collect()
    }
}

/// Decides whether the calls of one key, which was absent, are linearizable. If not, says which
/// call has no place, and what went on around it.
pub(crate) fn check(calls: &[Call]) -> Result<(), String> {
    let calls = unify(calls);
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        events.push((call.began, false, index));
        if call.told != Told::Nothing {
            events.push((call.ended, true, index));
        }
    }
    events.sort_unstable();
    let mut slots: Slots = [None; 64];
    let mut places: HashMap<usize, usize> = HashMap::new();
    let mut doubts: Doubts = Doubts::new();
    let start = Configuration { state: None, happened: 0, doubts: Doubts::new() };
    let mut configurations = vec![start];
    for (at, ends, index) in events {
        let call = calls[index];
        if call.told == Told::Nothing {
            *doubts.entry(call.ask).or_default() += 1;
        } else if ends {
            let slot = places.remove(&index).expect("what ends has begun");
            let next = end(&configurations, slot, &slots, &doubts);
            if next.is_empty() {
                return Err(explain(&calls, index, at, &configurations));
            }
            configurations = next;
            forget(&mut configurations, &mut doubts);
            slots[slot] = None;
        } else {
            let slot = slots.iter().position(Option::is_none);
            let slot = slot.expect("fewer clients than places");
            places.insert(index, slot);
            slots[slot] = Some(call);
            configurations.iter_mut().for_each(|configuration| configuration.look(&slots));
        }
    }
    Ok(())
}

/// Forgets doubts that every configuration has used: they are settled.
fn forget(configurations: &mut [Configuration], doubts: &mut Doubts) {
    let Some(first) = configurations.first() else { return };
    for (ask, used) in first.doubts.clone() {
        let of = |one: &Configuration| one.doubts.get(&ask).copied().unwrap_or(0);
        let by_all = configurations.iter().map(of).min().unwrap_or(0).min(used);
        if by_all == 0 {
            continue;
        }
        let maps = configurations.iter_mut().map(|one| &mut one.doubts);
        for map in maps.chain([&mut *doubts]) {
            let left = map.get(&ask).copied().unwrap_or(0) - by_all;
            if left == 0 {
                map.remove(&ask);
            } else {
                map.insert(ask, left);
            }
        }
    }
}

/// The configurations in which the call at `slot` has happened, when it ends.
fn end(
    configurations: &[Configuration],
    slot: usize,
    slots: &Slots,
    doubts: &Doubts,
) -> Vec<Configuration> {
    let mut ended = Configurations::default();
    let mut tried = Configurations::default();
    let mut open: Vec<Configuration> = configurations.to_vec();
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

/// The calls that matter, with all values that nobody saw made one.
fn unify(calls: &[Call]) -> Vec<Call> {
    let mut seen = HashSet::new();
    for call in calls {
        match (call.ask, call.told) {
            (Ask::Get, Told::Found(Some(value))) => seen.insert(value),
            (Ask::PutIfMatch(wanted, _), _) => seen.insert(wanted),
            _ => false,
        };
    }
    let unify = |value: Value| if seen.contains(&value) { value } else { UNSEEN };
    let mut calls: Vec<Call> = calls.iter().copied().filter(Call::matters).collect();
    for call in &mut calls {
        call.ask = match call.ask {
            Ask::Put(value) => Ask::Put(unify(value)),
            Ask::PutIfAbsent(value) => Ask::PutIfAbsent(unify(value)),
            Ask::PutIfMatch(wanted, value) => Ask::PutIfMatch(wanted, unify(value)),
            ask @ (Ask::Get | Ask::Delete) => ask,
        };
    }
    calls
}

/// Calls that are shown around the one that has no place.
const SHOWN: usize = 24;

fn explain(calls: &[Call], wrong: usize, at: u64, possible: &[Configuration]) -> String {
    let mut around: Vec<&Call> = calls.iter().filter(|call| call.began <= at).collect();
    around.sort_by_key(|call| if call.told == Told::Nothing { call.began } else { call.ended });
    let shown = &around[around.len().saturating_sub(SHOWN)..];
    let lines: Vec<String> = shown.iter().map(|call| format!("  {call:?}")).collect();
    let states: HashSet<Option<Value>> = possible.iter().map(|one| one.state).collect();
    format!(
        "{:?} has no place; before it there could be {states:?} (0 is what nobody saw)\n{}",
        calls[wrong],
        lines.join("\n")
    )
}
