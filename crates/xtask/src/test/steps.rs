//! The steps of a run. A step has a name, a log and an outcome, and `--only` selects it by words of
//! its name.
//!
//! For example, `--only "boto3 redis-http"` selects the step of that suite in that cell.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::summary::{self, Counts};
use crate::child::{Child, Stop, tail};
use crate::engines::{self, Engine};
use crate::progress::{Mark, Progress};
use crate::workspace::Workspace;

/// The time limit of a cargo step. The longest one, all tests, takes a third of it alone on a
/// machine with two cores, and a little more than half of it beside client suites.
const CARGO_LIMIT: Duration = Duration::from_mins(55);

/// The longest time in which a cargo step writes nothing. The longest compilation and the longest
/// test take a third of it. A test that hangs is ended after it, and the report names the test.
const QUIET_LIMIT: Duration = Duration::from_mins(8);

/// The number of places for jobs that run at the same time. A job is the tests in Rust, or all
/// suites of one cell, that is, of one server. A cell takes one place. A client waits for its
/// server, and some suites wait for times such as the end of a key, so three cells keep two cores
/// busy. The tests in Rust take two places: many of them run at the same time.
const PLACES: usize = 3;

/// The number of log lines that the report of a failed step shows.
pub(super) const TAIL_LINES: usize = 80;

/// Options of `cargo xtask test`.
#[derive(clap::Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that the user gives or not")]
pub(crate) struct Options {
    /// Run only steps whose name contains these words, for example "clients", "boto3 redis-http" or
    /// "rust". May be given several times.
    ///
    /// Client suites run in cells. The cells folder-http and minio-http have SQLite as engine, with
    /// blocks in a folder or in MinIO. The cells postgres-http, mysql-http, redis-http and
    /// etcd-http have blocks in MinIO. Each cell also exists with https.
    #[arg(long, value_name = "NAME")]
    pub(super) only: Vec<String>,
    /// Test only this metadata engine: the tests of its crate, the gateway's tests and the client
    /// suites on it. Tests that need all engines are left out. May be given several times; without
    /// it, all engines are tested.
    #[arg(long, value_enum, value_name = "NAME", conflicts_with = "reference")]
    pub(super) engine: Vec<Engine>,
    /// Run all steps of a plain run, every client suite in every cell, the planted faults, and the
    /// tests of `tests/it` at full length on the drawn engine. This takes hours.
    #[arg(long, conflicts_with_all = ["reference", "files", "external"])]
    pub(super) full: bool,
    /// Test this engine more thoroughly than the others. By default, the date selects the engine.
    /// Use it to repeat a run of another day.
    #[arg(long, value_enum, value_name = "NAME", conflicts_with = "reference")]
    pub(super) drawn: Option<Engine>,
    /// Keep the folder with all logs and data, and print its path.
    #[arg(long)]
    pub(super) keep: bool,
    /// Install nothing. A missing program is a failure.
    #[arg(long)]
    pub(super) skip_install: bool,
    /// Run the client suites against plain MinIO instead of the gateway. If a suite fails there
    /// too, the suite is wrong and not the gateway.
    #[arg(long)]
    pub(super) reference: bool,
    /// Run only the suites of the file view, at full length: pjdfstest, fsx and real programs on a
    /// mount, in the cells mount-folder, mount-postgres, mount-mysql and mount-redis. A plain run
    /// takes a short part of them.
    #[arg(long, conflicts_with = "reference")]
    pub(super) files: bool,
    /// Run only the suites of other projects and of programs that depend on the guarantees of S3:
    /// versitygw, minio-go, minio-py, mc, Terraform, table formats. A plain run leaves them out.
    #[arg(long, conflicts_with_all = ["reference", "files"])]
    pub(super) external: bool,
    /// Test this program instead of a build of this checkout, with the client suites and the suites
    /// of the file view.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "reference")]
    pub(super) gateway: Option<PathBuf>,
}

impl Options {
    /// Returns true if the run takes each suite in its short form.
    pub(super) fn is_short(&self) -> bool {
        !self.full && !self.files && !self.external
    }
}

/// One run: what its steps need.
pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) workspace: &'a Workspace,
    pub(super) stop: &'a Stop,
    pub(super) progress: Progress,
    pub(super) folder: PathBuf,
    /// The engine that this run tests more thoroughly than the others.
    pub(super) drawn: Engine,
}

/// Runs steps one after the other, and records them.
pub(super) struct Steps<'a> {
    pub(super) run: &'a Run<'a>,
    /// The steps that have run or were skipped, in their order.
    pub(super) finished: Vec<FinishedStep>,
}

/// A finished step of a run, such as one suite in one cell, as the table at the end shows it.
pub(super) struct FinishedStep {
    pub(super) name: String,
    pub(super) mark: Mark,
    pub(super) took: Duration,
    /// One line for the table, or more lines if the step failed.
    pub(super) remark: String,
    /// The summary lines of the step's test runners.
    pub(super) summary: Vec<String>,
    pub(super) counts: Counts,
}

/// The result of a step's work, without its name and time.
#[derive(Default)]
pub(super) struct StepOutcome {
    pub(super) remark: String,
    pub(super) summary: Vec<String>,
    pub(super) counts: Counts,
    pub(super) failed: bool,
}

impl Steps<'_> {
    /// Runs a step if the user wants it.
    pub(super) fn wanted_step(
        &mut self,
        name: &str,
        work: impl FnOnce(&Run<'_>) -> Result<StepOutcome>,
    ) -> Result<()> {
        if self.run.wants(name) { self.step(name, work) } else { Ok(()) }
    }

    /// Runs one step and records it. An error of `work` makes the step fail. This function fails
    /// only if the user ends the run.
    pub(super) fn step(
        &mut self,
        name: &str,
        work: impl FnOnce(&Run<'_>) -> Result<StepOutcome>,
    ) -> Result<()> {
        self.run.stop.check()?;
        let running = self.run.progress.begin(name);
        let outcome = work(self.run).unwrap_or_else(|error| StepOutcome {
            remark: format!("{error:#}"),
            failed: true,
            ..StepOutcome::default()
        });
        let mark = if outcome.failed { Mark::Failed } else { Mark::Passed };
        let took = running.end(mark, &outcome.remark);
        // A step that the user interrupted has no result, so it is not recorded.
        self.run.stop.check()?;
        // The table has one line for each step. The progress output has printed the rest.
        let remark = outcome.remark.lines().next().unwrap_or_default().to_owned();
        self.finished.push(FinishedStep {
            summary: outcome.summary,
            counts: outcome.counts,
            ..FinishedStep::new(name, mark, took, remark)
        });
        Ok(())
    }

    /// Records a step that this machine cannot run, with the reason.
    pub(super) fn skip(&mut self, name: &str, remark: &str) {
        self.run.progress.begin(name).end(Mark::Skipped, remark);
        let skipped = FinishedStep::new(name, Mark::Skipped, Duration::ZERO, remark.to_owned());
        self.finished.push(skipped);
    }

    /// Runs `background` in a new thread while `foreground` runs in this one. Records the steps of
    /// `foreground`, then the steps of `background`, and returns the value of `background`.
    pub(super) fn side_by_side<T: Send>(
        &mut self,
        foreground: impl FnOnce(&mut Self) -> Result<()>,
        background: impl FnOnce(&mut Steps<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        let run = self.run;
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut steps = Steps { run, finished: Vec::new() };
                let outcome = background(&mut steps);
                (steps.finished, outcome)
            });
            // The background thread must be joined before errors of the foreground are returned.
            let ended = foreground(self);
            let (finished, outcome) = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            self.finished.extend(finished);
            ended.and(outcome)
        })
    }

    /// Runs `work` for each job, so many at a time as [`PLACES`] allow. `places` returns the number
    /// of places that a job takes. Jobs start in the order of `jobs`. The steps of a job are
    /// recorded together, in the same order.
    pub(super) fn with_each<T: Sync>(
        &mut self,
        jobs: &[T],
        places: impl Fn(&T) -> usize,
        work: impl Fn(&mut Steps<'_>, &T) -> Result<()> + Sync,
    ) -> Result<()> {
        let run = self.run;
        let outcomes = in_places(jobs, places, |job| {
            let mut steps = Steps { run, finished: Vec::new() };
            let outcome = work(&mut steps, job);
            (steps.finished, outcome)
        });
        let mut ended = Ok(());
        for (finished, outcome) in outcomes {
            self.finished.extend(finished);
            ended = ended.and(outcome);
        }
        ended
    }

    /// Prints the table of steps, the summaries of the test runners, and the sum of their counts.
    /// Returns false if a step failed.
    pub(super) fn report(&self, took: Duration) -> bool {
        let progress = &self.run.progress;
        progress.print("\nstep                           result     time");
        for step in &self.finished {
            let line = format!(
                "{:<30} {}   {:>7.1} s  {}",
                step.name,
                step.mark.word(),
                step.took.as_secs_f64(),
                step.remark
            );
            progress.print(line.trim_end());
        }
        progress.print(&format!("\n{:.0} s in all", took.as_secs_f64()));
        for step in self.finished.iter().filter(|step| !step.summary.is_empty()) {
            progress.print(&format!("\n{}:", step.name));
            step.summary.iter().for_each(|line| progress.print(line));
        }
        let total: Counts = self.finished.iter().map(|step| step.counts).sum();
        let failed = self.finished.iter().filter(|step| step.mark == Mark::Failed);
        let failed: Vec<&str> = failed.map(|step| step.name.as_str()).collect();
        // A step such as `doc` fails without a failed test, so the counts alone could hide it.
        if !failed.is_empty() {
            progress.print(&format!("\nfailed steps: {}", failed.join(", ")));
        }
        progress.print(&format!("\n{} passed, {} failed", total.passed, total.failed));
        failed.is_empty()
    }
}

impl Run<'_> {
    /// Runs a command until it ends, with a log. If it fails, the remark is the end of the log.
    pub(super) fn watch(&self, command: Command, name: &str) -> Result<StepOutcome> {
        self.watch_for(command, name, CARGO_LIMIT)
    }

    /// Does the same as [`Run::watch`], with another time limit.
    pub(super) fn watch_for(
        &self,
        command: Command,
        name: &str,
        limit: Duration,
    ) -> Result<StepOutcome> {
        let log = self.log(name);
        let mut child = Child::spawn(command, name, &log)?;
        // Proofs at full length have longer tests.
        let quiet = QUIET_LIMIT.max(limit / 12);
        let end = match child.wait_while_it_writes(self.stop, limit, quiet) {
            Ok(status) if status.success() => return Ok(StepOutcome::default()),
            Ok(status) => status.to_string(),
            Err(error) => {
                // The user's request to end is not a failure of the step.
                self.stop.check()?;
                format!("{error:#}")
            }
        };
        let written = std::fs::read_to_string(&log).unwrap_or_default();
        let hung = summary::unfinished(&written);
        let remark = format!("{end}\n{hung}{}", tail(&log, TAIL_LINES));
        Ok(StepOutcome { failed: true, remark, ..StepOutcome::default() })
    }

    /// Returns true if this run builds the programs under test from this checkout.
    pub(super) fn builds(&self) -> bool {
        !self.options.reference && self.options.gateway.is_none()
    }

    /// The engines that the user wants.
    pub(super) fn engines(&self) -> Vec<Engine> {
        engines::wanted(&self.options.engine)
    }

    /// True if the user has picked neither steps nor engines, and not the full run.
    pub(super) fn is_plain(&self) -> bool {
        let Options { only, engine, full, .. } = self.options;
        only.is_empty() && engine.is_empty() && !full
    }

    /// The path of the gateway under test.
    pub(super) fn gateway(&self) -> PathBuf {
        self.options.gateway.clone().unwrap_or_else(|| self.workspace.gateway("debug"))
    }

    /// The path of a step's log.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// Returns true if the user wants a step of this name.
    pub(super) fn wants(&self, name: &str) -> bool {
        let Options { only, files, external, .. } = self.options;
        let named = only.is_empty() || only.iter().any(|only| has_words(name, only));
        named && (!files || has_words(name, "files")) && (!external || has_words(name, "external"))
    }
}

/// Runs `work` for each job in a thread of its own, and returns the results in the order of `jobs`.
/// Jobs start in this order too, as soon as the places that `places` returns are free. A job that
/// takes more than [`PLACES`] runs alone.
fn in_places<T: Sync, R: Send>(
    jobs: &[T],
    places: impl Fn(&T) -> usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let mut results = Vec::new();
    thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        let mut remaining = jobs.iter().enumerate().peekable();
        let (mut free, mut running) = (PLACES, 0_usize);
        loop {
            let fits = |job: &T| running == 0 || places(job) <= free;
            if let Some((place, job)) = remaining.next_if(|(_, job)| fits(job)) {
                free = free.saturating_sub(places(job));
                running += 1;
                let (sender, work) = (sender.clone(), &work);
                scope.spawn(move || {
                    let result = catch_unwind(AssertUnwindSafe(|| work(job)));
                    // The receiver lives until each job has ended or one has panicked.
                    let _ = sender.send((place, result));
                });
            } else if running > 0
                && let Ok((place, result)) = ended.recv()
            {
                running -= 1;
                free += jobs.get(place).map_or(0, &places).min(PLACES);
                results.push((place, result.unwrap_or_else(|panic| resume_unwind(panic))));
            } else {
                break;
            }
        }
    });
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Returns true if a step's name contains these words as whole words. For example, `http` does not
/// match `folder-https`.
pub(super) fn has_words(name: &str, words: &str) -> bool {
    // A hyphen separates words, so `redis` matches `redis-http`.
    let inside = |next: Option<char>| next.is_some_and(char::is_alphanumeric);
    name.match_indices(words).any(|(place, _)| {
        let (before, rest) = name.split_at(place);
        let after = rest.strip_prefix(words).unwrap_or_default();
        !inside(before.chars().next_back()) && !inside(after.chars().next())
    })
}

impl FinishedStep {
    pub(super) fn new(name: &str, mark: Mark, took: Duration, remark: String) -> Self {
        let (name, summary, counts) = (name.to_owned(), Vec::new(), Counts::default());
        Self { name, mark, took, remark, summary, counts }
    }
}

#[cfg(test)]
mod tests;
