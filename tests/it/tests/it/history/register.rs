//! The history of one key: a register, without the metadata of the object.

use std::collections::HashSet;

use super::{Call, SequentialSpec, UNSEEN, Value};

/// The value of an empty file.
pub(crate) const EMPTY: Value = Value::MAX;

#[cfg(test)]
mod tests;

/// The invocation of an operation on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Invocation {
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
    Truncate(Value),
    /// Write the content into the opened file, even if the file has lost its name.
    Write(Value),
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

/// The response, that is, the outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Response {
    /// It succeeded.
    Done,
    /// The value that a get returned; `None` if the key is absent.
    Found(Option<Value>),
    /// The condition does not hold for the current object.
    Refused,
    /// An object is required, and there is none.
    Missing,
    /// Unknown: the operation may or may not take effect.
    Unknown,
}

/// An operation: its invocation and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Operation {
    pub(crate) invocation: Invocation,
    pub(crate) response: Response,
}

impl Invocation {
    /// Returns the value that the operation writes.
    pub(crate) fn writes(self) -> Option<Value> {
        match self {
            Invocation::Put(value)
            | Invocation::PutIfAbsent(value)
            | Invocation::PutIfMatch(_, value)
            | Invocation::Write(value) => Some(value),
            Invocation::Create(_) | Invocation::Truncate(_) => Some(EMPTY),
            Invocation::Get | Invocation::Delete | Invocation::Remove | Invocation::Open(_) => None,
        }
    }

    /// Returns the state after the operation succeeded; `None` if it cannot succeed in `state`.
    fn done(self, state: &State) -> Option<State> {
        let is_there = state.value.is_some();
        match self {
            Invocation::Put(value) => Some(State::bound(Some(value))),
            Invocation::PutIfAbsent(value) => (!is_there).then(|| State::bound(Some(value))),
            Invocation::PutIfMatch(wanted, value) => {
                (state.value == Some(wanted)).then(|| State::bound(Some(value)))
            }
            Invocation::Delete => Some(State::bound(None)),
            Invocation::Remove => is_there.then(|| State::bound(None)),
            Invocation::Open(value) if is_there => {
                let mut open = [&state.open[..], &[value]].concat();
                open.sort_unstable();
                Some(State { open, ..*state })
            }
            Invocation::Create(value) if !is_there => {
                Some(State { value: Some(EMPTY), open: vec![value] })
            }
            Invocation::Get | Invocation::Open(_) | Invocation::Create(_) => None,
            Invocation::Truncate(value) => Some(state.written(value, EMPTY)),
            Invocation::Write(value) => {
                let mut after = state.written(value, value);
                after.open.retain(|open| *open != value);
                Some(after)
            }
        }
    }
}

impl SequentialSpec for Operation {
    type State = State;

    fn apply(&self, state: &State) -> Option<State> {
        let possible = match self.response {
            Response::Done | Response::Unknown => return self.invocation.done(state),
            Response::Found(found) => found == state.value,
            Response::Missing => state.value.is_none(),
            Response::Refused => match self.invocation {
                Invocation::PutIfMatch(wanted, _) => {
                    state.value.is_some_and(|value| value != wanted)
                }
                _ => state.value.is_some(),
            },
        };
        possible.then(|| state.clone())
    }

    fn is_read_only(&self) -> bool {
        !matches!(self.response, Response::Done | Response::Unknown)
    }

    fn is_unknown(&self) -> bool {
        self.response == Response::Unknown
    }

    fn is_optional(&self) -> bool {
        matches!(self.invocation, Invocation::Truncate(_))
    }

    fn must_precede(&self, other: &Operation) -> bool {
        match (self.invocation, other.invocation) {
            (
                Invocation::Open(one) | Invocation::Create(one),
                Invocation::Truncate(other) | Invocation::Write(other),
            )
            | (Invocation::Truncate(one), Invocation::Write(other)) => one == other,
            _ => false,
        }
    }
}

impl Operation {
    /// Returns true unless it is a get with an unknown outcome, which proves nothing.
    fn is_evidence(self) -> bool {
        self.invocation != Invocation::Get || self.response != Response::Unknown
    }
}

impl Call<Operation> {
    pub(crate) fn new(
        invocation: Invocation,
        response: Response,
        began: u64,
        ended: u64,
    ) -> Call<Operation> {
        Call { operation: Operation { invocation, response }, began, ended }
    }
}

/// Decides if the calls of one key, which was absent at first, are linearizable. If not, returns
/// the call that fits in no order, and the calls around it.
pub(crate) fn check(calls: &[Call<Operation>]) -> Result<(), String> {
    super::check(&unify(calls))
}

/// Returns the calls that matter, and replaces all values that no call returned by one.
fn unify(calls: &[Call<Operation>]) -> Vec<Call<Operation>> {
    let mut seen = HashSet::new();
    for Operation { invocation, response } in calls.iter().map(|call| call.operation) {
        match (invocation, response) {
            // The steps of one open file share a value, which connects them. So their value stays.
            (Invocation::Write(value), _) | (Invocation::Get, Response::Found(Some(value))) => {
                seen.insert(value)
            }
            (Invocation::PutIfMatch(wanted, _), _) => seen.insert(wanted),
            _ => false,
        };
    }
    let unify = |value: Value| if seen.contains(&value) { value } else { UNSEEN };
    let mut calls: Vec<_> =
        calls.iter().copied().filter(|call| call.operation.is_evidence()).collect();
    for call in &mut calls {
        call.operation.invocation = match call.operation.invocation {
            Invocation::Put(value) => Invocation::Put(unify(value)),
            Invocation::PutIfAbsent(value) => Invocation::PutIfAbsent(unify(value)),
            Invocation::PutIfMatch(wanted, value) => Invocation::PutIfMatch(wanted, unify(value)),
            invocation => invocation,
        };
    }
    calls
}
