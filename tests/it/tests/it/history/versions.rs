//! The history of one key in a versioned bucket: all versions, the newest first.
//!
//! Each version and each delete marker has its own value. A listing returns the newest of them, in
//! order.

use super::{Call, Deed, Value};

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
pub(crate) enum Asked {
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

impl Deed for Asked {
    type State = Vec<Version>;

    fn apply(&self, state: &Vec<Version>) -> Option<Vec<Version>> {
        let add = |version| {
            let mut after = vec![version];
            after.extend_from_slice(state);
            Some(after)
        };
        let possible = match *self {
            Asked::Put(value) => return add(Version::Object(value)),
            Asked::Delete(value) => return add(Version::Marker(value)),
            Asked::Remove(value) => {
                let left = state.iter().copied().filter(|version| version.value() != value);
                return Some(left.collect());
            }
            Asked::Get(found) => found == state.first().copied(),
            Asked::GetVersion(value, found) => found == state.contains(&Version::Object(value)),
            Asked::List(found) => found == newest(state.iter().map(|version| version.value())),
        };
        possible.then(|| state.clone())
    }

    fn only_looks(&self) -> bool {
        matches!(self, Asked::Get(_) | Asked::GetVersion(..) | Asked::List(_))
    }

    fn is_in_doubt(&self) -> bool {
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
pub(crate) fn check(calls: &[Call<Asked>]) -> Result<(), String> {
    super::check(calls)
}
