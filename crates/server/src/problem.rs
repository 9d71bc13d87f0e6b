//! Why a command cannot do its work, in one sentence for whoever runs it.

use std::fmt;

/// Why a command ends: what was being done, what is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    doing: String,
    wrong: String,
    remedy: Option<String>,
}

impl Problem {
    /// `doing` fits after "cannot": "listen on 127.0.0.1:9700".
    pub(crate) fn new(doing: impl Into<String>, wrong: impl fmt::Display) -> Problem {
        Problem { doing: doing.into(), wrong: wrong.to_string(), remedy: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Problem {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wrong = self.wrong.trim().trim_end_matches('.');
        write!(f, "cannot {}: {wrong}", self.doing)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}
