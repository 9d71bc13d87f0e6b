//! Patterns in which policy variables stand: `home/${aws:username}/*`.
//!
//! What is put in for a variable is literal. A variable without a value leaves the pattern
//! unresolved; it covers nothing then.

use crate::glob::{Glob, Symbol, symbols};
use crate::keys::ConditionKey;
use crate::question::Question;

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
    fold: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Symbols(Vec<Symbol>),
    Variable { key: ConditionKey, default: Option<String> },
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

/// What is wrong with a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadVariable {
    NotClosed,
    UnknownKey,
    SeveralValues,
    BadDefault,
}

impl std::fmt::Display for BadVariable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BadVariable::NotClosed => "a policy variable has no }",
            BadVariable::UnknownKey => "a policy variable names no key that is known here",
            BadVariable::SeveralValues => "a policy variable names a key of several values",
            BadVariable::BadDefault => "the default of a policy variable stands in no quotes",
        })
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
        Ok(Pattern::Template(Box::new(Template { parts, fold: syntax.fold })))
    }

    /// Whether the pattern covers the text, whose case the caller has folded where the pattern's
    /// was.
    pub(crate) fn covers(&self, text: &str, question: &Question<'_>) -> Hit {
        match self {
            Pattern::Fixed(glob) => glob.matches(text).into(),
            Pattern::Template(template) => match template.resolve(question) {
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

    /// What all covered texts begin with, where the rest of them does not matter.
    pub(crate) fn literal_prefix(&self) -> Option<&str> {
        match self {
            Pattern::Fixed(Glob::Prefix(prefix)) => Some(prefix),
            _ => None,
        }
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = &ConditionKey> {
        let parts: &[Part] = match self {
            Pattern::Fixed(_) => &[],
            Pattern::Template(template) => &template.parts,
        };
        parts.iter().filter_map(|part| match part {
            Part::Symbols(_) => None,
            Part::Variable { key, .. } => Some(key),
        })
    }
}

/// A pattern with its variables' values may have this many characters. Nothing that is compared with
/// one needs more, and a sender chooses what stands in its headers.
const RESOLVED_CHARS_MAX: usize = 2_048;

impl Template {
    /// The pattern with the values of its variables; `None` if one has none, or they are too long.
    fn resolve(&self, question: &Question<'_>) -> Option<Glob> {
        let mut all = Vec::new();
        for part in &self.parts {
            match part {
                Part::Symbols(symbols) => all.extend_from_slice(symbols),
                Part::Variable { key, default } => {
                    let value = question.one_value(key);
                    let value = value.as_deref().or(default.as_deref())?;
                    if self.fold {
                        let beginning: String =
                            value.chars().take(RESOLVED_CHARS_MAX + 1).collect();
                        all.extend(fold(&beginning).chars().map(Symbol::Char));
                    } else {
                        all.extend(value.chars().take(RESOLVED_CHARS_MAX + 1).map(Symbol::Char));
                    }
                }
            }
            if all.len() > RESOLVED_CHARS_MAX {
                return None;
            }
        }
        Some(Glob::from_symbols(&all))
    }
}

impl Part {
    /// Reads what stands in the braces: `aws:username` or `aws:username, 'nobody'`.
    fn variable(text: &str) -> Result<Part, BadVariable> {
        let (name, default) = match text.split_once(',') {
            None => (text, None),
            Some((name, default)) => {
                let quoted = default.trim().strip_prefix('\'');
                let default = quoted.and_then(|it| it.strip_suffix('\''));
                (name, Some(default.ok_or(BadVariable::BadDefault)?.to_owned()))
            }
        };
        let key = ConditionKey::parse(name.trim()).ok_or(BadVariable::UnknownKey)?;
        if key.is_multivalued() {
            return Err(BadVariable::SeveralValues);
        }
        Ok(Part::Variable { key, default })
    }
}

/// The text in lower case, character by character, so that a text's parts fold as the whole does.
pub(crate) fn fold(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}
