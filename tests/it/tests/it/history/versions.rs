//! The history of one key in a versioned bucket: all versions, the newest first.
//!
//! Each version and each delete marker has its own value. A listing returns the newest of them, in
//! order.

use super::{Call, SequentialSpec, Value};

#[cfg(test)]
mod tests;

/// Number of a key's versions on a page.
pub(crate) const PAGE: usize = 12;

/// The newest versions of a key, padded with zeros.
pub(crate) type Newest = [Value; PAGE];

/// A version or a delete marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Version {
    Object(Value),
    Marker(Value),
}

impl Version {
    fn value(self) -> Value {
        match self {
            Version::Object(value) | Version::Marker(value) => value,
        }
    }
}

/// An operation and its outcome. Operations with an unknown outcome cannot be represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// A new version was written.
    Put(Value),
    /// A new delete marker was written.
    Delete(Value),
    /// This version or delete marker was removed.
    Remove(Value),
    /// The current version; `None` if the key has no version at all.
    Get(Option<Version>),
    /// True if this version exists.
    GetVersion(Value, bool),
    List(Newest),
}

impl SequentialSpec for Operation {
    type State = Vec<Version>;

    fn apply(&self, state: &Vec<Version>) -> Option<Vec<Version>> {
        let add = |version| {
            let mut after = vec![version];
            after.extend_from_slice(state);
            Some(after)
        };
        let possible = match *self {
            Operation::Put(value) => return add(Version::Object(value)),
            Operation::Delete(value) => return add(Version::Marker(value)),
            Operation::Remove(value) => {
                let left = state.iter().copied().filter(|version| version.value() != value);
                return Some(left.collect());
            }
            Operation::Get(found) => found == state.first().copied(),
            Operation::GetVersion(value, found) => found == state.contains(&Version::Object(value)),
            Operation::List(found) => found == newest(state.iter().map(|version| version.value())),
        };
        possible.then(|| state.clone())
    }

    fn is_read_only(&self) -> bool {
        matches!(self, Operation::Get(_) | Operation::GetVersion(..) | Operation::List(_))
    }

    fn is_unknown(&self) -> bool {
        false
    }
}

/// Returns the first values, padded with zeros.
pub(crate) fn newest(values: impl Iterator<Item = Value>) -> Newest {
    let mut newest = [0; PAGE];
    newest.iter_mut().zip(values).for_each(|(place, value)| *place = value);
    newest
}

/// Decides if the calls of one key, which had no versions at first, are linearizable. If not,
/// returns the call that fits in no order, and the calls around it.
pub(crate) fn check(calls: &[Call<Operation>]) -> Result<(), String> {
    super::check(calls)
}
