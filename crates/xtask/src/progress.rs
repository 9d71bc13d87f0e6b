//! The progress of a task: a moving line for each running step on a terminal, plain lines in a
//! pipe.
//!
//! For example, `cargo xtask test | tee log` prints one line when a step begins and one when it
//! ends.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// The time between two redraws of a moving line.
const TICK: Duration = Duration::from_millis(120);

/// The result of a step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The step succeeded.
    Passed,
    /// The step failed, so the whole run fails.
    Failed,
    /// The step did not run. Its line gives the reason.
    Skipped,
}

impl Mark {
    /// The word that tables print, padded to four letters.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Passed => "ok  ",
            Self::Failed => "FAIL",
            Self::Skipped => "skip",
        }
    }
}

/// The moving lines of running steps. A pipe has none.
#[derive(Debug)]
pub(crate) struct Progress {
    lines: Option<MultiProgress>,
    silent: bool,
}

/// A running step of a task, with its moving line on a terminal.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    progress: &'a Progress,
    line: Option<ProgressBar>,
    name: String,
    since: Instant,
}

impl Progress {
    /// Shows moving lines if standard error is a terminal.
    pub(crate) fn new() -> Self {
        Self { lines: std::io::stderr().is_terminal().then(MultiProgress::new), silent: false }
    }

    /// Shows moving lines on a terminal, and prints nothing in a pipe.
    pub(crate) fn terminal_only() -> Self {
        let all = Self::new();
        Self { silent: all.lines.is_none(), ..all }
    }

    /// Prints a line above the moving ones.
    pub(crate) fn print(&self, line: &str) {
        match &self.lines {
            // The moving lines are removed while the line is printed.
            Some(lines) => lines.suspend(|| println!("{line}")),
            None if self.silent => {}
            None => println!("{line}"),
        }
    }

    /// Shows the beginning of a step.
    pub(crate) fn begin(&self, name: &str) -> Running<'_> {
        let line = self.lines.as_ref().map(|lines| {
            let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
                .expect("the template is a constant that parses");
            let line = lines.add(ProgressBar::new_spinner().with_style(style));
            line.set_message(name.to_owned());
            line.enable_steady_tick(TICK);
            line
        });
        if line.is_none() && !self.silent {
            println!("run  {name}");
        }
        Running { progress: self, line, name: name.to_owned(), since: Instant::now() }
    }
}

impl Running<'_> {
    /// The time since the step began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Replaces the moving line of the step. In a pipe this prints nothing.
    pub(crate) fn show(&self, line: &str) {
        if let Some(shown) = &self.line {
            shown.set_message(line.to_owned());
        }
    }

    /// Prints the result of the step, and returns the time that it took.
    pub(crate) fn end(self, mark: Mark, remark: &str) -> Duration {
        let took = self.since.elapsed();
        let line =
            format!("{} {:<28} {:>7.1} s  {remark}", mark.word(), self.name, took.as_secs_f64());
        self.progress.print(line.trim_end());
        took
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}
