//! What a run shows while it runs: on a terminal a moving line for each step under way, in a pipe
//! plain lines.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// How often a moving line moves.
const TICK: Duration = Duration::from_millis(120);

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// As it should.
    Passed,
    /// Not as it should.
    Failed,
    /// It was not run, for a reason that its line tells.
    Skipped,
}

impl Mark {
    /// As printed in tables, four letters wide.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Passed => "ok  ",
            Self::Failed => "FAIL",
            Self::Skipped => "skip",
        }
    }
}

/// The lines that show what runs; none in a pipe.
#[derive(Debug)]
pub(crate) struct Progress {
    lines: Option<MultiProgress>,
    silent: bool,
}

/// One step under way.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    progress: &'a Progress,
    line: Option<ProgressBar>,
    name: String,
    since: Instant,
}

impl Progress {
    /// Draws only where somebody watches.
    pub(crate) fn new() -> Self {
        Self { lines: std::io::stderr().is_terminal().then(MultiProgress::new), silent: false }
    }

    /// In a pipe nothing, not even plain lines.
    pub(crate) fn for_watchers() -> Self {
        let all = Self::new();
        Self { silent: all.lines.is_none(), ..all }
    }

    /// Prints a line above the moving ones.
    pub(crate) fn say(&self, line: &str) {
        match &self.lines {
            Some(lines) => lines.suspend(|| println!("{line}")),
            None if self.silent => {}
            None => println!("{line}"),
        }
    }

    /// Announces a step.
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
    /// Since it was announced.
    pub(crate) fn since(&self) -> Duration {
        self.since.elapsed()
    }

    /// Says how far it is, on a terminal only.
    pub(crate) fn show(&self, line: &str) {
        if let Some(shown) = &self.line {
            shown.set_message(line.to_owned());
        }
    }

    /// Says how it ended, and returns how long it took.
    pub(crate) fn end(self, mark: Mark, remark: &str) -> Duration {
        let took = self.since.elapsed();
        let line =
            format!("{} {:<28} {:>7.1} s  {remark}", mark.word(), self.name, took.as_secs_f64());
        self.progress.say(line.trim_end());
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
