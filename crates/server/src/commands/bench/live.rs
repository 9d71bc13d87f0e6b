//! The progress line of a measurement, and its end by a signal.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use load::Gauge;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior};

use problem::Problem;

/// The interval between refreshes of the progress line.
const TICK: Duration = Duration::from_millis(200);

/// A progress line. It is shown only if standard error is a terminal.
#[derive(Clone, Debug)]
pub(super) struct Live {
    bar: ProgressBar,
    step: Arc<Mutex<String>>,
    /// Counts the operations of the load, and stops it on request.
    pub(super) gauge: Arc<Gauge>,
}

impl Live {
    fn new() -> Live {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        Live { bar, step: Arc::default(), gauge: Arc::default() }
    }

    /// Sets the name of the step that starts now.
    pub(super) fn step(&self, name: String) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// Prints a line above the progress line.
    pub(super) fn say(&self, line: fmt::Arguments<'_>) {
        self.bar.suspend(|| crate::output::say(line));
    }

    /// Shows the rates since the last call. `since` is the gauge's operations and bytes at that
    /// time.
    fn draw(&self, since: (u64, u64), took: Duration) {
        let (units, bytes, errors) = self.gauge.seen();
        let each_second = |now: u64, before: u64| {
            let micros = took.as_micros().max(1);
            let rate = u128::from(now.saturating_sub(before)) * 1_000_000 / micros;
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (units, bytes) = (each_second(units, since.0), each_second(bytes, since.1));
        let errors = if errors == 0 { String::new() } else { format!(", {errors} errors") };
        let (units, bytes) = (HumanCount(units), HumanBytes(bytes));
        self.bar.set_message(format!("{step}: {units} /s, {bytes}/s{errors}"));
        self.bar.tick();
    }
}

/// Runs `work` on a blocking thread, and shows its progress. After SIGINT or SIGTERM the gauge asks
/// the load to stop, and `work` still cleans up.
pub(super) async fn watched<T: Send + 'static>(
    work: impl FnOnce(Live) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let caught = |kind| signal(kind).map_err(|error| Problem::new("catch signals", error));
    let (mut interrupt, mut terminate) =
        (caught(SignalKind::interrupt())?, caught(SignalKind::terminate())?);
    let live = Live::new();
    let theirs = live.clone();
    let mut working = tokio::task::spawn_blocking(move || work(theirs));
    let mut ticks = tokio::time::interval(TICK);
    // After a late tick the next one comes a full interval later. A burst of ticks would show wrong
    // rates.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = (live.gauge.seen(), Instant::now());
    let done = loop {
        tokio::select! {
            done = &mut working => break done,
            _ = interrupt.recv() => live.gauge.stop(),
            _ = terminate.recv() => live.gauge.stop(),
            _ = ticks.tick() => {
                let ((units, bytes, _), since) = before;
                live.draw((units, bytes), since.elapsed());
                before = (live.gauge.seen(), Instant::now());
            }
        }
    };
    live.bar.finish_and_clear();
    done.map_err(|error| Problem::new("measure", error))?
}
