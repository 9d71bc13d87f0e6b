//! One key, without what else is kept with an object: a register.

use std::collections::HashSet;

use super::{Call, Deed, UNSEEN, Value};

#[cfg(test)]
mod tests;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

/// What was asked, and what was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Asked {
    pub(crate) ask: Ask,
    pub(crate) told: Told,
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

impl Deed for Asked {
    type State = Option<Value>;

    fn apply(&self, state: &Option<Value>) -> Option<Option<Value>> {
        let state = *state;
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

    fn only_looks(&self) -> bool {
        !matches!(self.told, Told::Done | Told::Nothing)
    }

    fn is_in_doubt(&self) -> bool {
        self.told == Told::Nothing
    }
}

impl Asked {
    /// Whether it can have done anything, or says anything.
    fn matters(self) -> bool {
        self.ask != Ask::Get || self.told != Told::Nothing
    }
}

impl Call<Asked> {
    pub(crate) fn new(ask: Ask, told: Told, began: u64, ended: u64) -> Call<Asked> {
        Call { deed: Asked { ask, told }, began, ended }
    }
}

/// Decides whether the calls of one key, which was absent, are linearizable. If not, says which
/// call has no place, and what went on around it.
pub(crate) fn check(calls: &[Call<Asked>]) -> Result<(), String> {
    super::check(&unify(calls))
}

/// The calls that matter, with all values that nobody saw made one.
fn unify(calls: &[Call<Asked>]) -> Vec<Call<Asked>> {
    let mut seen = HashSet::new();
    for Asked { ask, told } in calls.iter().map(|call| call.deed) {
        match (ask, told) {
            (Ask::Get, Told::Found(Some(value))) => seen.insert(value),
            (Ask::PutIfMatch(wanted, _), _) => seen.insert(wanted),
            _ => false,
        };
    }
    let unify = |value: Value| if seen.contains(&value) { value } else { UNSEEN };
    let mut calls: Vec<_> = calls.iter().copied().filter(|call| call.deed.matters()).collect();
    for call in &mut calls {
        call.deed.ask = match call.deed.ask {
            Ask::Put(value) => Ask::Put(unify(value)),
            Ask::PutIfAbsent(value) => Ask::PutIfAbsent(unify(value)),
            Ask::PutIfMatch(wanted, value) => Ask::PutIfMatch(wanted, unify(value)),
            ask @ (Ask::Get | Ask::Delete) => ask,
        };
    }
    calls
}
