//! Why a command cannot do its work, in one sentence for whoever runs it.

use std::fmt;

/// Why a command ends: what was being done, what is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    doing: String,
    wrong: String,
    remedy: Option<String>,
    /// All of it, of a problem that another process of this program has put into words.
    said: Option<String>,
}

impl Problem {
    /// `doing` fits after "cannot": "listen on 127.0.0.1:9700".
    pub(crate) fn new(doing: impl Into<String>, wrong: impl fmt::Display) -> Problem {
        Problem { doing: doing.into(), wrong: wrong.to_string(), remedy: None, said: None }
    }

    /// One that another process of this program has put into words.
    pub(crate) fn said(said: impl Into<String>) -> Problem {
        Problem { said: Some(said.into()), ..Problem::new("", "") }
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Problem {
        self.remedy = Some(remedy.into());
        self
    }
}

impl Problem {
    /// Adds a remedy, if there is one.
    #[must_use]
    pub(crate) fn remedy_if(self, remedy: Option<&'static str>) -> Problem {
        match remedy {
            Some(remedy) => self.remedy(remedy),
            None => self,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(said) = &self.said {
            return f.write_str(said);
        }
        // Some drivers write several lines, and a problem is one.
        let wrong = self.wrong.trim().trim_end_matches('.').replace(['\n', '\r'], " ");
        write!(f, "cannot {}: {wrong}", self.doing)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}
