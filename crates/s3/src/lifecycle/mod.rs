//! Lifecycle configurations: rules by which the objects of a bucket expire.
//!
//! A [`LifecycleConfiguration`] is parsed as S3 parses it, and written back as it was received. A
//! [`Rule`] has a filter and actions with due times. For example, the rule with the prefix `logs/`
//! and 30 days expires `logs/a` at the first midnight that is at least 30 days after the write.
//!
//! The module does not know the current time and deletes nothing. Transitions between storage
//! classes are not implemented, because there is only one.

mod due;
mod matching;
mod parse;
mod write;

#[cfg(test)]
mod tests;

pub use due::{due_at, expiration_header};

use time::OffsetDateTime;

/// The lifecycle configuration of one bucket: 1 to 1,000 rules by which objects expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecycleConfiguration {
    /// The rules, in order. Their ids are distinct, as far as they have ids. Either all rules have
    /// a prefix of their own, or all have a filter.
    pub rules: Vec<Rule>,
}

impl LifecycleConfiguration {
    /// The maximum number of lifecycle rules of a bucket.
    pub const RULES_MAX: usize = 1_000;

    /// The maximum length of the id of a lifecycle rule in characters.
    pub const ID_CHARACTERS_MAX: usize = 255;

    /// The maximum length in bytes of the key prefix in a rule. It is the maximum length of a key.
    pub const PREFIX_BYTES_MAX: usize = 1_024;

    /// The maximum object size that a predicate of a filter can name, in bytes.
    pub const SIZE_MAX: u64 = 1_000 << 40;

    /// The maximum number of newest noncurrent versions of a key that a rule can retain regardless
    /// of their age.
    pub const NEWER_VERSIONS_MAX: u32 = 100;
}

/// A lifecycle rule: the objects that it matches, and at least one action, such as their
/// expiration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The id: 1 to 255 characters. The caller that stores a rule without an id generates one.
    pub id: Option<String>,
    /// True if the rule's actions are executed.
    pub enabled: bool,
    /// The objects that the rule matches.
    pub scope: RuleScope,
    /// The expiration of current versions, or of delete markers; `None` if the rule expires
    /// neither.
    pub expiration: Option<RuleExpiration>,
    /// The expiration of noncurrent versions, that is, of replaced or deleted ones; `None` if the
    /// rule does not expire them.
    pub noncurrent_expiration: Option<NoncurrentExpiration>,
    /// The days, at least 1, after which an incomplete multipart upload is aborted. Such a rule
    /// filters only by prefix.
    pub abort_uploads_after_days: Option<u32>,
}

/// The objects that a lifecycle rule matches, in one of the two forms that a document can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleScope {
    /// A key prefix as an element of the rule itself, without a filter: the older form.
    Prefix(String),
    /// A filter with any number of predicates: the newer form.
    Filter(RuleFilter),
}

/// The filter of a lifecycle rule. It matches the objects for which all its predicates hold;
/// without predicates it matches all objects.
///
/// A document has a single predicate as a child of `Filter`, and several predicates as children of
/// `And`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleFilter {
    /// The predicates, all of which must hold: at most one of each kind, except tags, which have
    /// distinct keys.
    pub predicates: Vec<RulePredicate>,
}

/// A predicate of a filter: a condition on an object that a lifecycle rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulePredicate {
    /// The key has this prefix.
    Prefix(String),
    /// The object has this tag.
    Tag {
        /// The tag's key.
        key: String,
        /// The tag's value.
        value: String,
    },
    /// The object is larger than this number of bytes.
    SizeGreaterThan(u64),
    /// The object is smaller than this number of bytes.
    SizeLessThan(u64),
}

/// The action of a lifecycle rule on current versions of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleExpiration {
    /// The version expires this number of days after it was written, at least 1.
    Days(u32),
    /// The version expires at this time, which is a midnight in UTC. Versions written later expire
    /// at once.
    Date(OffsetDateTime),
    /// Current versions do not expire. If the value is true, a delete marker is removed when it is
    /// the only version of its key.
    ExpiredObjectDeleteMarker(bool),
}

/// The action of a lifecycle rule on noncurrent versions, that is, on versions that were replaced
/// or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoncurrentExpiration {
    /// The version expires this number of days after it was replaced, at least 1.
    pub days: u32,
    /// The number of newest noncurrent versions that are retained, regardless of their age: 1 to
    /// 100.
    pub newer_versions: Option<u32>,
}
