//! The wait for the end of a job, with its progress on standard error.
//!
//! A terminal has one line that changes. A file or a pipe, for example the log of a nightly task,
//! gets one line a minute.
//!
//! Limits: [`WAIT_MAX`] for the whole wait, and [`ABSENCES_MAX`] reads in a row without a response,
//! for example while a gateway restarts.

use std::io::IsTerminal as _;
use std::time::Duration;

use adminapi::resources::jobs::JobJson;
use indicatif::{ProgressBar, ProgressStyle};
use problem::{Cause, Problem};
use tokio::time::Instant;

use super::shown::progress;

/// The time between two reads of the record. The gateway writes it as often.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// The time between two lines in a file or a pipe.
const LINE_INTERVAL: Duration = Duration::from_mins(1);

/// The limit of the wait.
const WAIT_MAX: Duration = Duration::from_hours(7 * 24);

/// The limit of consecutive reads that fail because the gateway or the store is away.
const ABSENCES_MAX: u32 = 30;

/// The interval between refreshes of the line on a terminal.
const TICK: Duration = Duration::from_millis(200);

/// Waits until a job has ended, and returns its last state. `read` returns its present state.
pub(super) async fn until_end(
    mut job: JobJson,
    read: impl AsyncFn() -> Result<JobJson, Problem>,
) -> Result<JobJson, Problem> {
    let began = Instant::now();
    let mut line = ProgressLine::new();
    let mut absences = 0;
    while !job.has_ended() {
        line.show(&job, Instant::now());
        if began.elapsed() > WAIT_MAX {
            let doing = format!("wait for the job {}", job.number);
            return Err(Problem::new(doing, "it runs for more than 7 days")
                .remedy("`ashlar job show` prints its progress"));
        }
        tokio::time::sleep(READ_INTERVAL).await;
        match read().await {
            Ok(now) => (job, absences) = (now, 0),
            Err(problem) if problem.cause() == Cause::Unavailable && absences < ABSENCES_MAX => {
                absences += 1;
            }
            Err(problem) => return Err(problem),
        }
    }
    line.end();
    Ok(job)
}

/// Returns the progress of a job as a line.
fn text(job: &JobJson) -> String {
    let counts = progress(job).shown(true);
    format!("job {} is {}: {counts}", job.number, job.state)
}

/// The place of the progress.
enum ProgressLine {
    Terminal(ProgressBar),
    /// A file or a pipe, with the time of the next line.
    Lines(Option<Instant>),
}

impl ProgressLine {
    fn new() -> ProgressLine {
        if !std::io::stderr().is_terminal() {
            return ProgressLine::Lines(None);
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        ProgressLine::Terminal(bar)
    }

    fn show(&mut self, job: &JobJson, now: Instant) {
        match self {
            ProgressLine::Terminal(bar) => bar.set_message(text(job)),
            ProgressLine::Lines(next) => {
                if is_due(next, now) {
                    eprintln!("ashlar: {}", text(job));
                }
            }
        }
    }

    fn end(&self) {
        if let ProgressLine::Terminal(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Returns true if a line is due, and sets the time of the next one.
fn is_due(next: &mut Option<Instant>, now: Instant) -> bool {
    if next.is_some_and(|next| now < next) {
        return false;
    }
    *next = Some(now + LINE_INTERVAL);
    true
}

#[cfg(test)]
mod tests;
