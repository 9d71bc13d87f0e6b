//! Patterns in which policy variables stand: `home/${aws:username}/*`.
//!
//! What is put in for a variable is literal. A variable without a value leaves the pattern
//! unresolved; it covers nothing then.

use crate::glob::{Glob, Symbol, symbols};
use crate::keys::ConditionKey;
use crate::question::Question;
pub(crate) use crate::template::{BadVariable, fold};
use crate::template::{Part, Template};

/// How a text is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syntax {
    /// Whether `*` and `?` are wildcards.
    pub(crate) wildcards: bool,
    /// Whether `${…}` is a variable.
    pub(crate) variables: bool,
    /// Whether upper and lower case are the same.
    pub(crate) fold: bool,
}

/// A pattern, ready to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Fixed(Glob),
    Template(Box<Template>),
}

/// Whether a pattern covers a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    Yes,
    No,
    /// A variable has no value, so that nobody can say.
    Unresolved,
}

impl From<bool> for Hit {
    fn from(covers: bool) -> Hit {
        if covers { Hit::Yes } else { Hit::No }
    }
}

impl Hit {
    /// Whether one of a list of patterns covers, or, if the list is negated, none of them does.
    ///
    /// Where an unresolved pattern could make the difference in a negated list, the safe side is
    /// taken: a statement that denies applies, and one that allows does not.
    pub(crate) fn of_list(hits: impl Iterator<Item = Hit>, negated: bool, denies: bool) -> bool {
        let mut unresolved = false;
        for hit in hits {
            match hit {
                Hit::Yes => return !negated,
                Hit::No => {}
                Hit::Unresolved => unresolved = true,
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
                "*" | "?" | "$" => fixed.extend(variable.chars().map(Symbol::Char)),
                _ => {
                    parts.push(Part::Symbols(std::mem::take(&mut fixed)));
                    parts.push(Part::variable(variable)?);
                }
            }
        }
        fixed.extend(written(rest));
        if parts.is_empty() {
            return Ok(Pattern::Fixed(Glob::from_symbols(&fixed)));
        }
        parts.push(Part::Symbols(fixed));
        Ok(Pattern::Template(Box::new(Template::new(parts, syntax.fold))))
    }

    /// Whether the pattern covers the text, whose case the caller has folded where the pattern's
    /// was.
    pub(crate) fn covers(&self, text: &str, question: &Question<'_>) -> Hit {
        match self {
            Pattern::Fixed(glob) => glob.matches(text).into(),
            Pattern::Template(template) => match template
                .resolved(question.conditions.resolved(), &|key| question.one_value(key))
            {
                Some(glob) => glob.matches(text).into(),
                None => Hit::Unresolved,
            },
        }
    }

    /// The text, where the pattern stands for one text alone, whatever the request.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self {
            Pattern::Fixed(glob) => glob.literal(),
            Pattern::Template(_) => None,
        }
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
