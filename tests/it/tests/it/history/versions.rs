//! One key of a bucket that keeps versions: all of them, the newest first.
//!
//! Each version is a value of its own, and so is each delete marker. A listing says the first few of
//! them, in order.

use super::{Call, Deed, Value};

#[cfg(test)]
mod tests;

/// So many of a key's versions are on a page.
pub(crate) const PAGE: usize = 12;

/// The newest versions of a key, with zeros behind the last.
pub(crate) type Newest = [Value; PAGE];

/// A version, or a marker.
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

/// What was asked, and what was told. Whatever was not answered has no place here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Asked {
    /// A new version is there.
    Put(Value),
    /// A new marker is there.
    Delete(Value),
    /// This version, or marker, is not there any more.
    Remove(Value),
    /// What is current: none where there is no version at all.
    Get(Option<Version>),
    /// Whether this version is there.
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

/// The first of these.
pub(crate) fn newest(values: impl Iterator<Item = Value>) -> Newest {
    let mut newest = [0; PAGE];
    newest.iter_mut().zip(values).for_each(|(place, value)| *place = value);
    newest
}

/// Decides whether the calls of one key, which had no versions, are linearizable. If not, says which
/// call has no place, and what went on around it.
pub(crate) fn check(calls: &[Call<Asked>]) -> Result<(), String> {
    super::check(calls)
}
