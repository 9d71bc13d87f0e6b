//! A statement, and whether it covers what is asked.

use crate::conditions::Condition;
use crate::glob::Glob;
use crate::keys::ConditionKey;
use crate::pattern::{Hit, Pattern};
use crate::principals::{Mention, Principals};
use crate::question::Question;

/// One rule of a policy: for whom it allows or denies which actions, on which resources, and when.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) denies: bool,
    /// None in the policy of a user or session, who is the principal.
    pub(crate) principals: Option<Principals>,
    /// In lower case.
    pub(crate) actions: List<Glob>,
    /// Without their `arn:aws:s3:::`.
    pub(crate) resources: List<Pattern>,
    pub(crate) conditions: Vec<Condition>,
}

/// Patterns of which one must fit, or, negated, none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List<P> {
    pub(crate) negated: bool,
    pub(crate) patterns: Vec<P>,
}

impl Statement {
    /// How the statement speaks of the sender, if it covers the question. The action is in lower
    /// case.
    pub(crate) fn covers(&self, action: &str, question: &Question<'_>) -> Option<Mention> {
        let mention = match &self.principals {
            None => Mention::Broad,
            Some(principals) => principals.mention(question.principal)?,
        };
        let covers = self.actions.covers(action)
            && self.covers_resource(question)
            && self.conditions.iter().all(|one| one.holds(question, self.denies));
        covers.then_some(mention)
    }

    /// The closest mention of a sender that the statement can make.
    pub(crate) fn closest(&self) -> Mention {
        self.principals.as_ref().map_or(Mention::Broad, Principals::closest)
    }

    fn covers_resource(&self, question: &Question<'_>) -> bool {
        let List { negated, patterns } = &self.resources;
        let hits = patterns.iter().map(|pattern| pattern.covers(question.resource, question));
        Hit::of_list(hits, *negated, self.denies)
    }

    /// The keys that the statement asks for, some maybe more than once.
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
