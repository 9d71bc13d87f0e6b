//! Patterns with variables, and the replacement of the variables by values.
//!
//! For example, `${aws:username}/*` becomes `anna/*` for the user `anna`. A request with many keys,
//! such as `DeleteObjects`, resolves each pattern once and keeps the result.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::glob::{Glob, Symbol};
use crate::keys::{ConditionKey, KeySource};

/// A pattern with policy variables, such as `home/${aws:username}/*`, whose values depend on the
/// request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Template {
    parts: Vec<Part>,
    fold: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Symbols(Vec<Symbol>),
    Variable { key: ConditionKey, default: Option<String> },
}

/// The reason why the parser refuses a policy variable, such as `${aws:username}`, in a pattern.
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
            BadVariable::BadDefault => "the default of a policy variable has no quotes",
        })
    }
}

/// The largest number of characters of a pattern after the replacement of its variables. A resource
/// name, which is a bucket and a key, is shorter. The limit is necessary because the sender chooses
/// the values of its headers. A longer pattern matches no text, like a pattern with a variable that
/// has no value.
const RESOLVED_CHARS_MAX: usize = 2_048;

/// A cache for one request: each pattern with policy variables, and the same pattern with their
/// values. `None` is the result for a variable without a value. A request with many object keys
/// then replaces the variables of each pattern once.
#[derive(Debug, Default)]
pub struct ResolvedPatterns(Mutex<HashMap<Template, Option<Arc<Glob>>>>);

impl Template {
    pub(crate) fn new(parts: Vec<Part>, fold: bool) -> Template {
        Template { parts, fold }
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the pattern with the values of its policy variables, which `value_of` returns;
    /// `None` if one has no value or the result is too long. If all variables have the same value
    /// for all questions of a request, the result comes from `known` or is added to it.
    pub(crate) fn resolved<'v>(
        &self,
        known: Option<&ResolvedPatterns>,
        value_of: &dyn Fn(&ConditionKey) -> Option<Cow<'v, str>>,
    ) -> Option<Arc<Glob>> {
        let Some(ResolvedPatterns(known)) = known.filter(|_| self.is_of_request()) else {
            return self.resolve(value_of).map(Arc::new);
        };
        if let Some(glob) = known.lock().unwrap_or_else(PoisonError::into_inner).get(self) {
            return glob.clone();
        }
        // The lock is not held meanwhile, because `value_of` runs code of the caller. Two threads
        // may resolve the same pattern; both get the same result.
        let glob = self.resolve(value_of).map(Arc::new);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(self.clone(), glob.clone());
        glob
    }

    fn is_of_request(&self) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Symbols(_) => true,
            Part::Variable { key, .. } => key.is_of_request(),
        })
    }

    /// Computes the pattern with the values of its variables. Returns `None` if a variable has no
    /// value, or if the pattern becomes longer than `RESOLVED_CHARS_MAX`.
    fn resolve<'v>(
        &self,
        value_of: &dyn Fn(&ConditionKey) -> Option<Cow<'v, str>>,
    ) -> Option<Glob> {
        let mut all = Vec::new();
        for part in &self.parts {
            match part {
                Part::Symbols(symbols) => all.extend_from_slice(symbols),
                Part::Variable { key, default } => {
                    let value = value_of(key);
                    let value = value.as_deref().or(default.as_deref())?;
                    // One character more than the limit is enough to notice that the value is too
                    // long.
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
    /// Parses the text in the braces of a policy variable: `aws:username`, or `aws:username,
    /// 'guest'` with a default.
    pub(crate) fn variable(text: &str) -> Result<Part, BadVariable> {
        let (name, default) = match text.split_once(',') {
            None => (text, None),
            Some((name, default)) => {
                let quoted = default.trim().strip_prefix('\'');
                let default = quoted.and_then(|it| it.strip_suffix('\''));
                (name, Some(default.ok_or(BadVariable::BadDefault)?.to_owned()))
            }
        };
        let key = ConditionKey::parse(name.trim());
        // A variable that never has a value would make the statement match nothing.
        let key = key.filter(|key| key.source() != KeySource::Unsupported);
        let key = key.ok_or(BadVariable::UnknownKey)?;
        if key.is_multivalued() {
            return Err(BadVariable::SeveralValues);
        }
        Ok(Part::Variable { key, default })
    }
}

/// Returns the text in lower case. Each character is folded alone, so that the parts of a text fold
/// in the same way as the whole text.
pub(crate) fn fold(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}
