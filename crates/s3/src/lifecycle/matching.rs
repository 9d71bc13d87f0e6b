//! Which objects a rule is about.

use super::{Rule, RulePredicate, RuleScope};

impl Rule {
    /// Whether the rule is about an object of this key, size and tags, be it enabled or not.
    ///
    /// An upload that was not completed, and a delete marker, have neither a size nor tags; a rule
    /// that acts on them does not ask.
    pub fn matches(&self, key: &str, size: u64, tags: &[(String, String)]) -> bool {
        let holds = |predicate: &RulePredicate| match predicate {
            RulePredicate::Prefix(prefix) => key.starts_with(prefix.as_str()),
            RulePredicate::Tag { key, value } => {
                tags.iter().any(|(name, text)| name == key && text == value)
            }
            RulePredicate::SizeGreaterThan(bound) => size > *bound,
            RulePredicate::SizeLessThan(bound) => size < *bound,
        };
        key.starts_with(self.prefix()) && self.scope.predicates().iter().all(holds)
    }

    /// Whether the rule is about keys like this one, whatever else it asks for.
    pub fn covers_key(&self, key: &str) -> bool {
        key.starts_with(self.prefix())
    }

    /// Whether the rule goes by the key alone, and so acts on what has neither a size nor tags.
    pub fn filters_by_prefix_only(&self) -> bool {
        let is_prefix = |predicate: &RulePredicate| matches!(predicate, RulePredicate::Prefix(_));
        self.scope.predicates().iter().all(is_prefix)
    }

    /// Whether the rule goes by tags, too.
    pub fn filters_by_tags(&self) -> bool {
        let is_tag = |predicate: &RulePredicate| matches!(predicate, RulePredicate::Tag { .. });
        self.scope.predicates().iter().any(is_tag)
    }

    /// How the keys of all objects begin that the rule is about; empty if it does not say.
    pub fn prefix(&self) -> &str {
        if let RuleScope::Prefix(prefix) = &self.scope {
            return prefix;
        }
        let prefix = self.scope.predicates().iter().find_map(|predicate| match predicate {
            RulePredicate::Prefix(prefix) => Some(prefix.as_str()),
            _ => None,
        });
        prefix.unwrap_or_default()
    }
}

impl RuleScope {
    /// The predicates of the filter, if there is one.
    pub(super) fn predicates(&self) -> &[RulePredicate] {
        match self {
            RuleScope::Prefix(_) => &[],
            RuleScope::Filter(filter) => &filter.predicates,
        }
    }
}
