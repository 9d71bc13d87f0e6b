//! Patterns with policy variables, for example `home/${aws:username}/*`.
//!
//! The value of a variable is literal text: a `*` in it is not a wildcard. If a variable has no
//! value, the pattern is unresolved and matches no text.

use crate::glob::{Glob, Symbol, symbols};
use crate::keys::ConditionKey;
use crate::question::Question;
pub(crate) use crate::template::{BadVariable, fold};
use crate::template::{Part, Template};

/// The syntax of a pattern, which depends on its place in the policy: the meaning of wildcards,
/// variables and case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syntax {
    /// True if `*` and `?` are wildcards of the pattern, false if they are ordinary characters.
    pub(crate) wildcards: bool,
    /// True if `${…}` in the pattern is a policy variable, false if it is ordinary text.
    pub(crate) variables: bool,
    /// True if the comparison of the pattern with a text ignores case.
    pub(crate) fold: bool,
}

/// A parsed pattern of a policy. `Fixed` has no policy variables; `Template` has some, which are
/// replaced by values of each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Fixed(Glob),
    Template(Box<Template>),
}

/// The result of the match of a pattern with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchResult {
    Yes,
    No,
    /// A policy variable of the pattern has no value in this request, so the result is unknown.
    Unresolved,
}

impl From<bool> for MatchResult {
    fn from(covers: bool) -> MatchResult {
        if covers { MatchResult::Yes } else { MatchResult::No }
    }
}

impl MatchResult {
    /// Combines the results of a list of patterns. Returns true if one of them matches; for a
    /// negated list, if none of them matches.
    ///
    /// If an unresolved pattern could change the result of a negated list, the result is the safe
    /// one: a Deny applies, and an Allow does not.
    pub(crate) fn of_list(
        hits: impl Iterator<Item = MatchResult>,
        negated: bool,
        denies: bool,
    ) -> bool {
        let mut unresolved = false;
        for hit in hits {
            match hit {
                MatchResult::Yes => return !negated,
                MatchResult::No => {}
                MatchResult::Unresolved => unresolved = true,
            }
        }
        negated && (denies || !unresolved)
    }
}

impl Pattern {
    pub(crate) fn parse(text: &str, syntax: Syntax) -> Result<Pattern, BadVariable> {
        let written = |text: &str| {
            let folded = if syntax.fold { fold(text) } else { text.to_owned() };
            if syntax.wildcards {
                symbols(&folded)
            } else {
                folded.chars().map(Symbol::Char).collect()
            }
        };
        let mut parts = Vec::new();
        let mut fixed = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${").filter(|_| syntax.variables) {
            let (variable, after) = after.split_once('}').ok_or(BadVariable::NotClosed)?;
            fixed.extend(written(before));
            rest = after;
            match variable {
                // `${*}`, `${?}` and `${$}` are the characters themselves, not wildcards.
                "*" | "?" | "$" => fixed.extend(variable.chars().map(Symbol::Char)),
                _ => {
                    parts.push(Part::Symbols(std::mem::take(&mut fixed)));
                    parts.push(Part::variable(variable)?);
                }
            }
        }
        fixed.extend(written(rest));
        // A pattern without variables is compiled now, because it is the same for each request.
        if parts.is_empty() {
            return Ok(Pattern::Fixed(Glob::from_symbols(&fixed)));
        }
        parts.push(Part::Symbols(fixed));
        Ok(Pattern::Template(Box::new(Template::new(parts, syntax.fold))))
    }

    /// Matches the pattern with a text. Policy variables have the values of the `question`. If the
    /// pattern ignores case, the caller has folded the text.
    pub(crate) fn covers(&self, text: &str, question: &Question<'_>) -> MatchResult {
        let matches = self.resolved(question, |glob| glob.matches(text));
        matches.map_or(MatchResult::Unresolved, MatchResult::from)
    }

    /// Returns true if the pattern matches each text that begins with `prefix`.
    pub(crate) fn covers_all_below(&self, prefix: &str, question: &Question<'_>) -> bool {
        self.resolved(question, |glob| glob.covers_all_below(prefix)).unwrap_or(false)
    }

    /// Returns true if the pattern certainly matches no text that begins with `prefix`.
    pub(crate) fn leaves_out_all_below(&self, prefix: &str, question: &Question<'_>) -> bool {
        self.resolved(question, |glob| glob.leaves_out_all_below(prefix)).unwrap_or(false)
    }

    /// Returns the result of a test of the pattern with the values of its policy variables; `None`
    /// if one of them has no value.
    fn resolved(&self, question: &Question<'_>, test: impl Fn(&Glob) -> bool) -> Option<bool> {
        match self {
            Pattern::Fixed(glob) => Some(test(glob)),
            Pattern::Template(template) => {
                let value_of = |key: &ConditionKey| question.one_value(key);
                let glob = template.resolved(question.conditions.resolved(), &value_of)?;
                Some(test(&glob))
            }
        }
    }

    /// Returns the text of a pattern that has neither wildcards nor policy variables; `None` for
    /// other patterns.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self {
            Pattern::Fixed(glob) => glob.literal(),
            Pattern::Template(_) => None,
        }
    }

    /// Returns true if the pattern matches each text.
    pub(crate) fn is_any(&self) -> bool {
        matches!(self, Pattern::Fixed(Glob::All))
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = &ConditionKey> {
        let parts: &[Part] = match self {
            Pattern::Fixed(_) => &[],
            Pattern::Template(template) => template.parts(),
        };
        parts.iter().filter_map(|part| match part {
            Part::Symbols(_) => None,
            Part::Variable { key, .. } => Some(key),
        })
    }
}
