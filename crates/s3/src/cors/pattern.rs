//! Patterns in which one `*` matches any text.

/// A pattern of origins or header names: a text with at most one `*`, which matches any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(String);

impl Pattern {
    /// Returns the pattern; `None` if it has more than one wildcard.
    pub(super) fn parse(text: &str) -> Option<Pattern> {
        (text.matches('*').count() <= 1).then(|| Pattern(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the pattern matches all texts.
    pub(super) fn is_any(&self) -> bool {
        self.0 == "*"
    }

    /// Returns true if the pattern matches `text`.
    pub(super) fn matches(&self, text: &str) -> bool {
        match self.0.split_once('*') {
            None => self.0 == text,
            // The prefix is removed first, so that prefix and suffix never match the same bytes.
            Some((start, end)) => text.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        }
    }

    /// Returns true if the pattern matches a header name, ignoring the case of ASCII letters.
    pub(super) fn matches_name(&self, name: &str) -> bool {
        let (name, pattern) = (name.as_bytes(), self.0.as_bytes());
        // Bytes are compared, because header names are ASCII and the patterns are, too.
        let Some(star) = pattern.iter().position(|byte| *byte == b'*') else {
            return pattern.eq_ignore_ascii_case(name);
        };
        let (start, end) = (&pattern[..star], &pattern[star + 1..]);
        name.split_at_checked(start.len()).is_some_and(|(head, rest)| {
            let tail = rest.len().checked_sub(end.len()).and_then(|at| rest.get(at..));
            head.eq_ignore_ascii_case(start)
                && tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end))
        })
    }
}
