//! What a run shows while it runs: a moving line on a terminal, plain lines in a pipe.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

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

/// The line that shows what runs.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

/// One step under way.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    progress: &'a Progress,
    name: String,
    since: Instant,
}

impl Progress {
    /// Draws only where somebody watches.
    pub(crate) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
                .expect("the template is a constant that parses");
            ProgressBar::new_spinner().with_style(style)
        });
        Self { bar }
    }

    /// Prints a line above the moving one.
    pub(crate) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| println!("{line}")),
            None => println!("{line}"),
        }
    }

    /// Announces a step.
    pub(crate) fn begin(&self, name: &str) -> Running<'_> {
        match &self.bar {
            Some(bar) => {
                bar.reset();
                bar.set_message(name.to_owned());
                bar.enable_steady_tick(Duration::from_millis(120));
            }
            None => println!("run  {name}"),
        }
        Running { progress: self, name: name.to_owned(), since: Instant::now() }
    }
}

impl Running<'_> {
    /// Says how it ended, and returns how long it took.
    pub(crate) fn end(self, mark: Mark, remark: &str) -> Duration {
        if let Some(bar) = &self.progress.bar {
            bar.disable_steady_tick();
            bar.set_message(String::new());
        }
        let took = self.since.elapsed();
        let line =
            format!("{} {:<28} {:>7.1} s  {remark}", mark.word(), self.name, took.as_secs_f64());
        self.progress.say(line.trim_end());
        took
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
