//! The error of a command, as one sentence for the operator: the action, the cause, and the remedy.
//!
//! For example: "cannot listen on 127.0.0.1:9700: Address already in use; another program has this
//! port: stop it, or choose another port".

use std::fmt;

/// The reach of a problem: whether a service manager should start the program again. It decides the
/// exit status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// Any other cause.
    #[default]
    Other,
    /// The settings: another start fails in the same way until an operator changes them.
    Settings,
    /// A store or another process that is away for now: a later start can succeed.
    Unavailable,
}

/// The error of a command. `Display` is `cannot ACTION: CAUSE; REMEDY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The action, as a phrase after "cannot".
    doing: String,
    /// The cause.
    wrong: String,
    /// The operator's next step.
    remedy: Option<String>,
    cause: Cause,
    /// The complete text, if another process of this program has rendered the problem.
    rendered: Option<String>,
}

impl Problem {
    /// Returns a problem without a remedy. `doing` is a phrase after "cannot", for example "listen
    /// on 127.0.0.1:9700".
    pub fn new(doing: impl Into<String>, wrong: impl fmt::Display) -> Problem {
        Problem {
            doing: doing.into(),
            wrong: wrong.to_string(),
            remedy: None,
            cause: Cause::Other,
            rendered: None,
        }
    }

    /// Returns a problem that another process of this program has rendered.
    pub fn rendered(text: impl Into<String>) -> Problem {
        Problem { rendered: Some(text.into()), ..Problem::new("", "") }
    }

    /// Sets the cause, if none is set yet: the place of the failure knows it better than its
    /// callers.
    #[must_use]
    pub fn because(mut self, cause: Cause) -> Problem {
        if self.cause == Cause::Other {
            self.cause = cause;
        }
        self
    }

    /// Returns the cause.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Adds the remedy: the operator's next step.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Problem {
        self.remedy = Some(remedy.into());
        self
    }
}

impl Problem {
    /// Adds a remedy if there is one.
    #[must_use]
    pub fn remedy_if(self, remedy: Option<&'static str>) -> Problem {
        match remedy {
            Some(remedy) => self.remedy(remedy),
            None => self,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rendered) = &self.rendered {
            return f.write_str(rendered);
        }
        // Errors of some drivers have several lines; a problem is one line.
        let wrong = self.wrong.trim().trim_end_matches('.').replace(['\n', '\r'], " ");
        write!(f, "cannot {}: {wrong}", self.doing)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}
