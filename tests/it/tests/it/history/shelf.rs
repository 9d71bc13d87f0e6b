//! The history of a few keys with their metadata and tags, and of copies between them. All keys
//! together are one history, because a copy reads one key and writes another at the same instant.

use super::{Call, Deed, Value};

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
pub(crate) enum When {
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

/// An operation on these keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Ask {
    Get(usize),
    GetTags(usize),
    /// A PUT, or the completion of an upload.
    Put(usize, Object, When),
    PutTags(usize, Value),
    Delete(usize, When),
    Copy(Copying),
    /// A part copied from a key that must have this `ETag`. The part stays invisible until the
    /// completion.
    CopyPart(usize, Tag),
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Told {
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
    Nothing,
}

/// An operation and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Asked {
    pub(crate) ask: Ask,
    pub(crate) told: Told,
}

/// The object of each key.
type State = [Option<Object>; KEYS];

impl When {
    fn holds(self, found: Option<Object>) -> bool {
        match self {
            When::Always => true,
            When::Absent => found.is_none(),
            When::Is(tag) => found.is_some_and(|object| object.content.tag == tag),
        }
    }
}

impl Ask {
    /// Returns the key of the condition, or of the required object, and the condition.
    fn wants(self) -> (usize, When) {
        match self {
            Ask::Get(key) | Ask::GetTags(key) | Ask::PutTags(key, _) => (key, When::Always),
            Ask::Put(key, _, when) | Ask::Delete(key, when) => (key, when),
            Ask::CopyPart(key, tag) => (key, When::Is(tag)),
            Ask::Copy(copy) => (copy.from, copy.when.map_or(When::Always, When::Is)),
        }
    }

    /// Returns true if the operation requires an object.
    fn wants_one(self) -> bool {
        let asks = matches!(self, Ask::PutTags(..) | Ask::Copy(_) | Ask::CopyPart(..));
        asks || matches!(self.wants().1, When::Is(_))
    }

    /// Returns the state after the operation succeeded; `None` if it cannot succeed in `state`.
    fn done(self, state: &State) -> Option<State> {
        let (key, when) = self.wants();
        if !when.holds(state[key]) {
            return None;
        }
        let mut after = *state;
        match self {
            Ask::Get(_) | Ask::GetTags(_) => return None,
            Ask::CopyPart(..) => {}
            Ask::Put(key, object, _) => after[key] = Some(object),
            Ask::PutTags(key, tags) => {
                after[key] = Some(Object { tags: Some(tags), ..state[key]? });
            }
            Ask::Delete(key, _) => after[key] = None,
            Ask::Copy(copy) => {
                let Object { content, note, tags } = state[copy.from]?;
                let (note, tags) = (copy.note.unwrap_or(note), copy.tags.or(tags));
                after[copy.to] = Some(Object { content, note, tags });
            }
        }
        Some(after)
    }
}

impl Deed for Asked {
    type State = State;

    fn apply(&self, state: &State) -> Option<State> {
        let (key, when) = self.ask.wants();
        let there = state[key];
        let possible = match self.told {
            Told::Copied(tag) if !When::Is(tag).holds(there) => false,
            Told::Done | Told::Copied(_) | Told::Nothing => return self.ask.done(state),
            Told::Found(found) => {
                let seen = |object: Object| (object.content, object.note, object.tags.is_some());
                found == there.map(seen)
            }
            Told::Tags(tags) => tags == there.map(|object| object.tags),
            Told::Refused => !when.holds(there) && (when == When::Absent || there.is_some()),
            Told::Missing => self.ask.wants_one() && there.is_none(),
        };
        possible.then_some(*state)
    }

    fn only_looks(&self) -> bool {
        let changes = matches!(self.told, Told::Done | Told::Copied(_) | Told::Nothing);
        !changes || matches!(self.ask, Ask::CopyPart(..))
    }

    fn is_in_doubt(&self) -> bool {
        self.told == Told::Nothing
    }
}

/// Decides if the calls of these keys, which were absent at first, are linearizable. If not,
/// returns the call that fits in no order, and the calls around it.
pub(crate) fn check(calls: &[Call<Asked>]) -> Result<(), String> {
    let says = |call: &&Call<Asked>| !(call.deed.is_in_doubt() && call.deed.says_nothing());
    super::check(&calls.iter().filter(says).copied().collect::<Vec<_>>())
}

impl Asked {
    /// Returns true if the operation has no visible effect.
    fn says_nothing(self) -> bool {
        matches!(self.ask, Ask::Get(_) | Ask::GetTags(_) | Ask::CopyPart(..))
    }
}
