//! A few keys with all that is kept of their objects, and copies between them. They are one thing: a
//! copy looks at one key and writes another at the same instant.

use super::{Call, Deed, Value};

#[cfg(test)]
mod tests;

/// Keys of a shelf. All of them are one history, so they are few.
pub(crate) const KEYS: usize = 3;

/// An `ETag`, as a number that no other one has.
pub(crate) type Tag = u64;

/// The bytes of an object: which write they are of, and under which `ETag` they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Content {
    pub(crate) value: Value,
    pub(crate) tag: Tag,
}

/// An object: bytes, a note in its metadata, and tags, of which there may be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Object {
    pub(crate) content: Content,
    pub(crate) note: Value,
    pub(crate) tags: Option<Value>,
}

/// What must be there for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum When {
    Always,
    Absent,
    Is(Tag),
}

/// A copy. What it does not replace it takes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Copying {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// What the source must be.
    pub(crate) when: Option<Tag>,
    pub(crate) note: Option<Value>,
    pub(crate) tags: Option<Value>,
}

/// What was asked of a shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Ask {
    Get(usize),
    GetTags(usize),
    /// A PUT, or the completion of an upload.
    Put(usize, Object, When),
    PutTags(usize, Value),
    Delete(usize, When),
    Copy(Copying),
    /// A part copied from a key that must hold this. Nobody sees the part before the completion.
    CopyPart(usize, Tag),
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Told {
    /// It is done.
    Done,
    /// It is done, and the source was this.
    Copied(Tag),
    /// What a get found: bytes, note, and whether there are tags.
    Found(Option<(Content, Value, bool)>),
    /// What a look at the tags found: no object, or its tags.
    Tags(Option<Option<Value>>),
    /// Another object is there than the condition wants.
    Refused,
    /// An object is wanted, and none is there.
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

/// What is there.
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
    /// The key that a condition speaks of, or that must be there, and what it must be.
    fn wants(self) -> (usize, When) {
        match self {
            Ask::Get(key) | Ask::GetTags(key) | Ask::PutTags(key, _) => (key, When::Always),
            Ask::Put(key, _, when) | Ask::Delete(key, when) => (key, when),
            Ask::CopyPart(key, tag) => (key, When::Is(tag)),
            Ask::Copy(copy) => (copy.from, copy.when.map_or(When::Always, When::Is)),
        }
    }

    /// Whether an object must be there.
    fn wants_one(self) -> bool {
        let asks = matches!(self, Ask::PutTags(..) | Ask::Copy(_) | Ask::CopyPart(..));
        asks || matches!(self.wants().1, When::Is(_))
    }

    /// What is there after it was done, if it could be done.
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

/// Decides whether the calls of a shelf, which was empty, are linearizable. If not, says which call
/// has no place, and what went on around it.
pub(crate) fn check(calls: &[Call<Asked>]) -> Result<(), String> {
    let says = |call: &&Call<Asked>| !(call.deed.is_in_doubt() && call.deed.says_nothing());
    super::check(&calls.iter().filter(says).copied().collect::<Vec<_>>())
}

impl Asked {
    /// Whether it can have changed nothing.
    fn says_nothing(self) -> bool {
        matches!(self.ask, Ask::Get(_) | Ask::GetTags(_) | Ask::CopyPart(..))
    }
}
