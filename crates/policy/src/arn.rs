//! Patterns of ARNs.
//!
//! "Each of the six colon-delimited components of the ARN is checked separately and each can
//! include multi-character match wildcards (*) or single-character match wildcards (?)" (AWS, IAM
//! JSON policy elements, on `ArnEquals` and `ArnLike`, which "behave identically").

use crate::keys::ConditionKey;
use crate::pattern::{BadVariable, MatchResult, Pattern, Syntax};
use crate::question::Question;

const COMPONENTS: usize = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArnPattern {
    /// One pattern for the whole ARN: `*`, or a text with policy variables, such as
    /// `${aws:PrincipalArn}`, whose values make a whole ARN.
    Whole(Pattern),
    /// One pattern for each of the six components of an ARN, which are separated by colons.
    Components(Vec<Pattern>),
}

/// The reason why a text in a policy is not a pattern of ARNs, that is, of Amazon resource names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadArn {
    Variable(BadVariable),
    /// The text has fewer than six components, so it would match no ARN.
    TooShort,
}

impl std::fmt::Display for BadArn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadArn::Variable(why) => why.fmt(f),
            BadArn::TooShort => f.write_str("an ARN has six components"),
        }
    }
}

impl From<BadVariable> for BadArn {
    fn from(why: BadVariable) -> BadArn {
        BadArn::Variable(why)
    }
}

impl ArnPattern {
    pub(crate) fn parse(text: &str, variables: bool) -> Result<ArnPattern, BadArn> {
        let syntax = Syntax { wildcards: true, variables, fold: false };
        let components = components(text, variables);
        if components.len() == COMPONENTS {
            let patterns = components.into_iter().map(|it| Pattern::parse(it, syntax));
            return Ok(ArnPattern::Components(patterns.collect::<Result<_, _>>()?));
        }
        let pattern = Pattern::parse(text, syntax)?;
        if text == "*" || pattern.variables().next().is_some() {
            return Ok(ArnPattern::Whole(pattern));
        }
        Err(BadArn::TooShort)
    }

    pub(crate) fn covers(&self, arn: &str, question: &Question<'_>) -> MatchResult {
        let patterns = match self {
            ArnPattern::Whole(pattern) => return pattern.covers(arn, question),
            ArnPattern::Components(patterns) => patterns,
        };
        let components: Vec<&str> = arn.splitn(COMPONENTS, ':').collect();
        let is_arn = components.len() == COMPONENTS;
        let texts = components.into_iter().chain(std::iter::repeat(""));
        let mut all = MatchResult::from(is_arn);
        for (pattern, text) in patterns.iter().zip(texts) {
            match pattern.covers(text, question) {
                MatchResult::Yes => {}
                MatchResult::No => all = MatchResult::No,
                MatchResult::Unresolved => return MatchResult::Unresolved,
            }
        }
        all
    }

    /// Returns the patterns: one for each component of the ARN, or the only one for the whole ARN.
    pub(crate) fn patterns(&self) -> &[Pattern] {
        match self {
            ArnPattern::Whole(pattern) => std::slice::from_ref(pattern),
            ArnPattern::Components(patterns) => patterns,
        }
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = &ConditionKey> {
        self.patterns().iter().flat_map(Pattern::variables)
    }
}

/// Splits a pattern at its colons into at most six components. A colon in the braces of a variable,
/// as in `${aws:username}`, does not separate components.
fn components(text: &str, variables: bool) -> Vec<&str> {
    let mut components = Vec::new();
    let (mut begin, mut in_variable, mut before) = (0, false, ' ');
    for (at, found) in text.char_indices() {
        match found {
            // Braces without a dollar are literal, so their colons separate components.
            '{' if variables && before == '$' => in_variable = true,
            '}' => in_variable = false,
            ':' if !in_variable && components.len() < COMPONENTS - 1 => {
                components.extend(text.get(begin..at));
                begin = at + 1;
            }
            _ => {}
        }
        before = found;
    }
    components.extend(text.get(begin..));
    components
}
