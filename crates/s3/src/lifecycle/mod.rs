//! Lifecycle: rules by which the objects of a bucket expire.
//!
//! A [`LifecycleConfiguration`] is read as S3 reads it and written as it was read. A [`Rule`] says
//! which objects it is about, and when its actions are due; nothing here asks what time it is, or
//! deletes anything. Objects are not moved between classes of storage, since there is one.

mod due;
mod matching;
mod parse;
mod write;

#[cfg(test)]
mod tests;

pub use due::{due_at, expiration_header};

use time::OffsetDateTime;

/// The configuration of one bucket: 1 to 1,000 rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecycleConfiguration {
    /// The rules, in order. Those that have ids have distinct ones, and either all have a prefix of
    /// their own or all have a filter.
    pub rules: Vec<Rule>,
}

impl LifecycleConfiguration {
    /// The most rules of a bucket.
    pub const RULES_MAX: usize = 1_000;

    /// The longest id of a rule, in characters.
    pub const ID_CHARACTERS_MAX: usize = 255;

    /// The longest prefix, in bytes: the longest key.
    pub const PREFIX_BYTES_MAX: usize = 1_024;

    /// The largest size that a filter may name, in bytes.
    pub const SIZE_MAX: u64 = 1_000 << 40;

    /// The most newer versions that a rule may spare.
    pub const NEWER_VERSIONS_MAX: u32 = 100;
}

/// A rule: which objects, and at least one action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its id: 1 to 255 characters. Whoever stores a rule without one gives it one.
    pub id: Option<String>,
    /// Whether its actions take place.
    pub enabled: bool,
    /// Which objects it is about.
    pub scope: RuleScope,
    /// When current versions expire, or when their delete markers are cleared away.
    pub expiration: Option<RuleExpiration>,
    /// When versions expire that are no longer current.
    pub noncurrent_expiration: Option<NoncurrentExpiration>,
    /// The days, at least 1, after which an upload that was not completed is aborted. Such a rule
    /// goes by the prefix alone.
    pub abort_uploads_after_days: Option<u32>,
}

/// Which objects a rule is about, in the form in which it was put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleScope {
    /// A prefix of keys that stands in the rule itself: the old form.
    Prefix(String),
    /// A filter.
    Filter(RuleFilter),
}

/// What must hold of an object. Without predicates, all objects are meant.
///
/// Documents have a single predicate as it is, and several of them within `And`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleFilter {
    /// All of these must hold: at most one of each kind, but for tags, whose keys are distinct.
    pub predicates: Vec<RulePredicate>,
}

/// One thing that must hold of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulePredicate {
    /// Its key begins so.
    Prefix(String),
    /// It has this tag.
    Tag {
        /// The tag's key.
        key: String,
        /// The tag's value.
        value: String,
    },
    /// It is larger than so many bytes.
    SizeGreaterThan(u64),
    /// It is smaller than so many bytes.
    SizeLessThan(u64),
}

/// When the current version of an object expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleExpiration {
    /// So many days after it was written, at least 1.
    Days(u32),
    /// At a time that is midnight in UTC, and ever after.
    Date(OffsetDateTime),
    /// Never; but a delete marker goes when it is the last version of its key, if this is set.
    ExpiredObjectDeleteMarker(bool),
}

/// When versions expire that are no longer current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoncurrentExpiration {
    /// So many days after they were replaced, at least 1.
    pub days: u32,
    /// How many of those that were replaced last are spared, whatever their age: 1 to 100.
    pub newer_versions: Option<u32>,
}
