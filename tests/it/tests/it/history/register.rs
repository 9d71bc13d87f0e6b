//! The history of one key: a register, without the metadata of the object.

use std::collections::HashSet;

use super::{Call, Deed, UNSEEN, Value};

/// The value of an empty file.
pub(crate) const EMPTY: Value = Value::MAX;

#[cfg(test)]
mod tests;

/// An operation on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Ask {
    Get,
    Put(Value),
    PutIfAbsent(Value),
    /// Write the second value if the current one is the first.
    PutIfMatch(Value, Value),
    Delete,
    /// Remove the name of a file, which must exist.
    Remove,
    /// Open a file, which must exist, to write this value.
    Open(Value),
    /// Create an empty file under an absent name and open it, to write this value.
    Create(Value),
    /// The truncation of an opened file before its content is written; it need not be visible.
    Cut(Value),
    /// Write the content into the opened file, even if the file has lost its name.
    Fill(Value),
}

/// The state of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    value: Option<Value>,
    /// The values that clients will write who have opened the current file, in ascending order.
    open: Vec<Value>,
}

impl State {
    /// The state after the key was bound to another file, or to none. Open descriptors keep the old
    /// file.
    fn bound(value: Option<Value>) -> State {
        State { value, open: Vec::new() }
    }

    /// The state after a write to the file that was opened to write `by`. If the key is bound to
    /// another file, its content stays.
    fn written(&self, by: Value, content: Value) -> State {
        let is_this = self.open.contains(&by);
        State { value: if is_this { Some(content) } else { self.value }, ..self.clone() }
    }
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Told {
    /// It succeeded.
    Done,
    /// The value that a get returned; `None` if the key is absent.
    Found(Option<Value>),
    /// The condition does not hold for the current object.
    Refused,
    /// An object is required, and there is none.
    Missing,
    /// Unknown: the operation may or may not take effect.
    Nothing,
}

/// An operation and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Asked {
    pub(crate) ask: Ask,
    pub(crate) told: Told,
}

impl Ask {
    /// Returns the value that the operation writes.
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

    /// Returns the state after the operation succeeded; `None` if it cannot succeed in `state`.
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
    /// Returns true unless it is a get with an unknown outcome, which proves nothing.
    fn matters(self) -> bool {
        self.ask != Ask::Get || self.told != Told::Nothing
    }
}

impl Call<Asked> {
    pub(crate) fn new(ask: Ask, told: Told, began: u64, ended: u64) -> Call<Asked> {
        Call { deed: Asked { ask, told }, began, ended }
    }
}

/// Decides if the calls of one key, which was absent at first, are linearizable. If not, returns
/// the call that fits in no order, and the calls around it.
pub(crate) fn check(calls: &[Call<Asked>]) -> Result<(), String> {
    super::check(&unify(calls))
}

/// Returns the calls that matter, and replaces all values that no call returned by one.
fn unify(calls: &[Call<Asked>]) -> Vec<Call<Asked>> {
    let mut seen = HashSet::new();
    for Asked { ask, told } in calls.iter().map(|call| call.deed) {
        match (ask, told) {
            // The steps of one open file share a value, which connects them. So their value stays.
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
