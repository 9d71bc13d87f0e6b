//! One key, without what else is kept with an object: a register.

use std::collections::HashSet;

use super::{Call, Deed, UNSEEN, Value};

/// The value of a file in which nothing is.
pub(crate) const EMPTY: Value = Value::MAX;

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
    /// Take the name away from a file that must be there.
    Remove,
    /// Open the file that must be there, to fill it with this.
    Open(Value),
    /// Make an empty file where none is, and open it, to fill it with this.
    Create(Value),
    /// What may happen to a file that was opened, before it is filled: it is empty.
    Cut(Value),
    /// Write into the file that was opened, whether it has its name still or not.
    Fill(Value),
}

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    value: Option<Value>,
    /// What those will write who have opened the file that is there, in order.
    open: Vec<Value>,
}

impl State {
    /// Another file is there, or none; those who have the other one open keep that.
    fn bound(value: Option<Value>) -> State {
        State { value, open: Vec::new() }
    }

    /// The file that is there has another content, if it is the one that was opened to write this.
    fn written(&self, by: Value, content: Value) -> State {
        let is_this = self.open.contains(&by);
        State { value: if is_this { Some(content) } else { self.value }, ..self.clone() }
    }
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
            Ask::Put(value)
            | Ask::PutIfAbsent(value)
            | Ask::PutIfMatch(_, value)
            | Ask::Fill(value) => Some(value),
            Ask::Create(_) | Ask::Cut(_) => Some(EMPTY),
            Ask::Get | Ask::Delete | Ask::Remove | Ask::Open(_) => None,
        }
    }

    /// What is there after it was done, if it could be done.
    fn done(self, state: &State) -> Option<State> {
        let is_there = state.value.is_some();
        match self {
            Ask::Put(value) => Some(State::bound(Some(value))),
            Ask::PutIfAbsent(value) => (!is_there).then(|| State::bound(Some(value))),
            Ask::PutIfMatch(wanted, value) => {
                (state.value == Some(wanted)).then(|| State::bound(Some(value)))
            }
            Ask::Delete => Some(State::bound(None)),
            Ask::Remove => is_there.then(|| State::bound(None)),
            Ask::Open(value) if is_there => {
                let mut open = [&state.open[..], &[value]].concat();
                open.sort_unstable();
                Some(State { open, ..*state })
            }
            Ask::Create(value) if !is_there => {
                Some(State { value: Some(EMPTY), open: vec![value] })
            }
            Ask::Get | Ask::Open(_) | Ask::Create(_) => None,
            Ask::Cut(value) => Some(state.written(value, EMPTY)),
            Ask::Fill(value) => {
                let mut after = state.written(value, value);
                after.open.retain(|open| *open != value);
                Some(after)
            }
        }
    }
}

impl Deed for Asked {
    type State = State;

    fn apply(&self, state: &State) -> Option<State> {
        let possible = match self.told {
            Told::Done | Told::Nothing => return self.ask.done(state),
            Told::Found(found) => found == state.value,
            Told::Missing => state.value.is_none(),
            Told::Refused => match self.ask {
                Ask::PutIfMatch(wanted, _) => state.value.is_some_and(|value| value != wanted),
                _ => state.value.is_some(),
            },
        };
        possible.then(|| state.clone())
    }

    fn only_looks(&self) -> bool {
        !matches!(self.told, Told::Done | Told::Nothing)
    }

    fn is_in_doubt(&self) -> bool {
        self.told == Told::Nothing
    }

    fn may_be_left_out(&self) -> bool {
        matches!(self.ask, Ask::Cut(_))
    }

    fn comes_before(&self, other: &Asked) -> bool {
        match (self.ask, other.ask) {
            (Ask::Open(one) | Ask::Create(one), Ask::Cut(other) | Ask::Fill(other))
            | (Ask::Cut(one), Ask::Fill(other)) => one == other,
            _ => false,
        }
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
            // Values that steps of one thing have in common say what belongs together.
            (Ask::Fill(value), _) | (Ask::Get, Told::Found(Some(value))) => seen.insert(value),
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
            ask => ask,
        };
    }
    calls
}
