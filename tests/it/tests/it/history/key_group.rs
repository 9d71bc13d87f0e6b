//! The history of a few keys with their metadata and tags, and of copies between them. All keys
//! together are one history, because a copy reads one key and writes another at the same instant.

use super::{Call, SequentialSpec, Value};

#[cfg(test)]
mod tests;

/// Number of keys. They share one history, so their number is small.
pub(crate) const KEYS: usize = 3;

/// An `ETag`, as a unique number.
pub(crate) type Tag = u64;

/// The content of an object: the write that made it, and its `ETag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Content {
    pub(crate) value: Value,
    pub(crate) tag: Tag,
}

/// An object: its content, a note in its metadata, and its tags, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Object {
    pub(crate) content: Content,
    pub(crate) note: Value,
    pub(crate) tags: Option<Value>,
}

/// The condition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Condition {
    Always,
    Absent,
    Is(Tag),
}

/// A copy. It takes metadata and tags from the source, except those that it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Copying {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The `ETag` that the source must have; `None` for any.
    pub(crate) when: Option<Tag>,
    pub(crate) note: Option<Value>,
    pub(crate) tags: Option<Value>,
}

/// The invocation of an operation on these keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Invocation {
    Get(usize),
    GetTags(usize),
    /// A PUT, or the completion of an upload.
    Put(usize, Object, Condition),
    PutTags(usize, Value),
    Delete(usize, Condition),
    Copy(Copying),
    /// A part copied from a key that must have this `ETag`. The part stays invisible until the
    /// completion.
    CopyPart(usize, Tag),
}

/// The response, that is, the outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Response {
    /// It succeeded.
    Done,
    /// It succeeded, and the source had this `ETag`.
    Copied(Tag),
    /// The result of a get: content, note, and true if there are tags. `None` if there is no
    /// object.
    Found(Option<(Content, Value, bool)>),
    /// The tags that were read: `None` if there is no object.
    Tags(Option<Option<Value>>),
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

/// The object of each key.
type State = [Option<Object>; KEYS];

impl Condition {
    fn holds(self, found: Option<Object>) -> bool {
        match self {
            Condition::Always => true,
            Condition::Absent => found.is_none(),
            Condition::Is(tag) => found.is_some_and(|object| object.content.tag == tag),
        }
    }
}

impl Invocation {
    /// Returns the key of the condition, or of the required object, and the condition.
    fn wants(self) -> (usize, Condition) {
        match self {
            Invocation::Get(key) | Invocation::GetTags(key) | Invocation::PutTags(key, _) => {
                (key, Condition::Always)
            }
            Invocation::Put(key, _, when) | Invocation::Delete(key, when) => (key, when),
            Invocation::CopyPart(key, tag) => (key, Condition::Is(tag)),
            Invocation::Copy(copy) => {
                (copy.from, copy.when.map_or(Condition::Always, Condition::Is))
            }
        }
    }

    /// Returns true if the operation requires an object.
    fn wants_one(self) -> bool {
        let asks = matches!(
            self,
            Invocation::PutTags(..) | Invocation::Copy(_) | Invocation::CopyPart(..)
        );
        asks || matches!(self.wants().1, Condition::Is(_))
    }

    /// Returns the state after the operation succeeded; `None` if it cannot succeed in `state`.
    fn done(self, state: &State) -> Option<State> {
        let (key, when) = self.wants();
        if !when.holds(state[key]) {
            return None;
        }
        let mut after = *state;
        match self {
            Invocation::Get(_) | Invocation::GetTags(_) => return None,
            Invocation::CopyPart(..) => {}
            Invocation::Put(key, object, _) => after[key] = Some(object),
            Invocation::PutTags(key, tags) => {
                after[key] = Some(Object { tags: Some(tags), ..state[key]? });
            }
            Invocation::Delete(key, _) => after[key] = None,
            Invocation::Copy(copy) => {
                let Object { content, note, tags } = state[copy.from]?;
                let (note, tags) = (copy.note.unwrap_or(note), copy.tags.or(tags));
                after[copy.to] = Some(Object { content, note, tags });
            }
        }
        Some(after)
    }
}

impl SequentialSpec for Operation {
    type State = State;

    fn apply(&self, state: &State) -> Option<State> {
        let (key, when) = self.invocation.wants();
        let there = state[key];
        let possible = match self.response {
            Response::Copied(tag) if !Condition::Is(tag).holds(there) => false,
            Response::Done | Response::Copied(_) | Response::Unknown => {
                return self.invocation.done(state);
            }
            Response::Found(found) => {
                let seen = |object: Object| (object.content, object.note, object.tags.is_some());
                found == there.map(seen)
            }
            Response::Tags(tags) => tags == there.map(|object| object.tags),
            Response::Refused => {
                !when.holds(there) && (when == Condition::Absent || there.is_some())
            }
            Response::Missing => self.invocation.wants_one() && there.is_none(),
        };
        possible.then_some(*state)
    }

    fn is_read_only(&self) -> bool {
        let changes =
            matches!(self.response, Response::Done | Response::Copied(_) | Response::Unknown);
        !changes || matches!(self.invocation, Invocation::CopyPart(..))
    }

    fn is_unknown(&self) -> bool {
        self.response == Response::Unknown
    }
}

/// Decides if the calls of these keys, which were absent at first, are linearizable. If not,
/// returns the call that fits in no order, and the calls around it.
pub(crate) fn check(calls: &[Call<Operation>]) -> Result<(), String> {
    let says =
        |call: &&Call<Operation>| !(call.operation.is_unknown() && call.operation.has_no_effect());
    super::check(&calls.iter().filter(says).copied().collect::<Vec<_>>())
}

impl Operation {
    /// Returns true if the operation has no visible effect.
    fn has_no_effect(self) -> bool {
        matches!(
            self.invocation,
            Invocation::Get(_) | Invocation::GetTags(_) | Invocation::CopyPart(..)
        )
    }
}
