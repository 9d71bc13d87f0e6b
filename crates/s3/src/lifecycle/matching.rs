//! The filters of lifecycle rules.

use super::{Rule, RulePredicate, RuleScope};

impl Rule {
    /// Returns true if the rule's filter matches an object with this key, size and tags. The rule's
    /// status is not checked.
    ///
    /// Multipart uploads and delete markers have neither a size nor tags, so rules that act on them
    /// use `covers_key`.
    pub fn matches(&self, key: &str, size: u64, tags: &[(String, String)]) -> bool {
        let holds = |predicate: &RulePredicate| match predicate {
            RulePredicate::Prefix(prefix) => key.starts_with(prefix.as_str()),
            RulePredicate::Tag { key, value } => {
                tags.iter().any(|(name, text)| name == key && text == value)
            }
            RulePredicate::SizeGreaterThan(bound) => size > *bound,
            RulePredicate::SizeLessThan(bound) => size < *bound,
        };
        // A rule in the older form has its prefix outside the filter, so it is compared here for
        // both forms.
        key.starts_with(self.prefix()) && self.scope.predicates().iter().all(holds)
    }

    /// Returns true if the key begins with the rule's prefix. The rule's other predicates (tags and
    /// sizes) are ignored.
    pub fn covers_key(&self, key: &str) -> bool {
        key.starts_with(self.prefix())
    }

    /// Returns true if the rule's filter has only prefixes, so that it also matches delete markers
    /// and uploads.
    pub fn filters_by_prefix_only(&self) -> bool {
        let is_prefix = |predicate: &RulePredicate| matches!(predicate, RulePredicate::Prefix(_));
        self.scope.predicates().iter().all(is_prefix)
    }

    /// Returns true if the rule's filter has tags.
    pub fn filters_by_tags(&self) -> bool {
        let is_tag = |predicate: &RulePredicate| matches!(predicate, RulePredicate::Tag { .. });
        self.scope.predicates().iter().any(is_tag)
    }

    /// Returns the prefix of all keys that the rule matches; empty if the rule has none.
    pub fn prefix(&self) -> &str {
        if let RuleScope::Prefix(prefix) = &self.scope {
            return prefix;
        }
        let prefix = self.scope.predicates().iter().find_map(|predicate| match predicate {
            RulePredicate::Prefix(prefix) => Some(prefix.as_str()),
            RulePredicate::Tag { .. }
            | RulePredicate::SizeGreaterThan(_)
            | RulePredicate::SizeLessThan(_) => None,
        });
        prefix.unwrap_or_default()
    }
}

impl RuleScope {
    /// Returns the predicates (prefix, tags and sizes) of the rule's filter; an empty list for a
    /// rule in the older form, which has a prefix and no filter.
    pub(super) fn predicates(&self) -> &[RulePredicate] {
        match self {
            RuleScope::Prefix(_) => &[],
            RuleScope::Filter(filter) => &filter.predicates,
        }
    }
}
