//! A statement of a policy.
//!
//! A statement applies if its principals, its actions, its resources and all of its conditions
//! match. For example, a statement with `NotAction: s3:GetObject` applies to each other action.

use crate::conditions::Condition;
use crate::glob::Glob;
use crate::keys::ConditionKey;
use crate::pattern::{MatchResult, Pattern};
use crate::principals::{Mention, Principals};
use crate::question::Question;

/// A statement of a policy: a rule that allows or denies actions of principals on resources, under
/// conditions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) denies: bool,
    /// The senders to which the statement applies. `None` in the policy of a user or session, which
    /// applies to this user or session.
    pub(crate) principals: Option<Principals>,
    /// Patterns of action names, in lower case.
    pub(crate) actions: List<Glob>,
    /// Those of the patterns that are written with the prefix `admin:`. An Allow covers an
    /// administrative action by these alone: a policy for S3 with the action `*` gives no
    /// administration. A Deny covers it by all patterns.
    pub(crate) admin_actions: Vec<Glob>,
    /// Patterns of resource names, without `arn:aws:s3:::`.
    pub(crate) resources: List<Pattern>,
    pub(crate) conditions: Vec<Condition>,
}

/// A list of patterns, one of which must match. If the list is negated, none of them may match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List<P> {
    pub(crate) negated: bool,
    pub(crate) patterns: Vec<P>,
}

impl Statement {
    /// Returns the mention, that is, the way in which the statement names the sender, if the
    /// statement applies to the question; `None` if it does not. `action` is in lower case.
    pub(crate) fn covers(&self, action: &str, question: &Question<'_>) -> Option<Mention> {
        let mention = match &self.principals {
            None => Mention::Broad,
            Some(principals) => principals.mention(question.principal)?,
        };
        // The cheap tests come first: conditions compute values of the request.
        let covers = self.covers_action(action)
            && self.covers_resource(question)
            && self.conditions.iter().all(|one| one.holds(question, self.denies));
        covers.then_some(mention)
    }

    /// Returns true if the statement covers an action, which is in lower case.
    pub(crate) fn covers_action(&self, action: &str) -> bool {
        if self.denies || !action.starts_with("admin:") {
            return self.actions.covers(action);
        }
        self.admin_actions.iter().any(|pattern| pattern.matches(action))
    }

    /// Returns true if the statement certainly covers each resource: one of its patterns is `*`.
    pub(crate) fn covers_all_resources(&self) -> bool {
        let List { negated, patterns } = &self.resources;
        !negated && patterns.iter().any(Pattern::is_any)
    }

    /// Returns true if the statement, if its conditions hold, certainly covers each resource whose
    /// name begins with `prefix`, and does not depend on the object.
    pub(crate) fn covers_all_below(&self, prefix: &str, question: &Question<'_>) -> bool {
        let List { negated, patterns } = &self.resources;
        let covers = if *negated {
            patterns.iter().all(|pattern| pattern.leaves_out_all_below(prefix, question))
        } else {
            patterns.iter().any(|pattern| pattern.covers_all_below(prefix, question))
        };
        covers && !self.keys().any(ConditionKey::is_of_object)
    }

    /// Returns the most specific mention, that is, way of naming a sender, that the statement has
    /// for any sender.
    pub(crate) fn closest(&self) -> Mention {
        self.principals.as_ref().map_or(Mention::Broad, Principals::closest)
    }

    fn covers_resource(&self, question: &Question<'_>) -> bool {
        let List { negated, patterns } = &self.resources;
        let hits = patterns.iter().map(|pattern| pattern.covers(question.resource, question));
        MatchResult::of_list(hits, *negated, self.denies)
    }

    /// Returns the condition keys that the conditions and policy variables of the statement name. A
    /// key can occur several times.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &ConditionKey> {
        let variables = self.resources.patterns.iter().flat_map(Pattern::variables);
        self.conditions.iter().flat_map(Condition::keys).chain(variables)
    }
}

impl List<Glob> {
    pub(crate) fn covers(&self, text: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(text)) != self.negated
    }
}
