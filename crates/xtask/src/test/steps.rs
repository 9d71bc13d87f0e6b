//! Steps that follow each other: each with a name that can be picked, a log and an outcome.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::summary::Counts;
use crate::child::{Child, Stop, tail};
use crate::engines::{self, Engine};
use crate::progress::{Mark, Progress};
use crate::workspace::Workspace;

/// How long a cargo step may take. On a quiet machine of two cores the longest, all tests, takes a
/// third of that.
const CARGO_LIMIT: Duration = Duration::from_mins(40);

/// Jobs that run at the same time: cells, and the tests in Rust. A cell keeps about one core busy. The
/// tests in Rust wait for most of their time, so a cell beside them uses the core that they leave idle.
const JOBS_AT_ONCE: usize = 2;

/// Lines of a log shown when its step fails.
pub(super) const TAIL_LINES: usize = 80;

/// What to run.
#[derive(clap::Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that the user gives or not")]
pub(crate) struct Options {
    /// Only steps whose name contains these words, as "clients", "boto3 redis-http" or "rust"; may
    /// be given several times.
    ///
    /// Client suites run in cells: folder-http and minio-http over SQLite, postgres-http,
    /// mysql-http and redis-http over blocks in MinIO, and the same over https.
    #[arg(long, value_name = "NAME")]
    pub(super) only: Vec<String>,
    /// Only this metadata engine: its crate's tests, the gateway's tests and the client suites on
    /// it, without the tests that need all engines. May be given several times; otherwise all run.
    #[arg(long, value_enum, value_name = "NAME", conflicts_with = "reference")]
    pub(super) engine: Vec<Engine>,
    /// Run everything that a plain run takes, every client suite in every cell, and the long proofs of
    /// `tests/it` on one engine, which the date decides. This takes hours.
    #[arg(long, conflicts_with_all = ["reference", "files", "external"])]
    pub(super) full: bool,
    /// Test this engine more thoroughly than the others, instead of the one that the date draws. Use it
    /// to repeat a run of another day.
    #[arg(long, value_enum, value_name = "NAME", conflicts_with = "reference")]
    pub(super) drawn: Option<Engine>,
    /// Keep the folder with all logs and data, and print where it is.
    #[arg(long)]
    pub(super) keep: bool,
    /// Install nothing; fail where something is missing.
    #[arg(long)]
    pub(super) skip_install: bool,
    /// Run the client suites against plain MinIO instead of the gateway: the proof that a failing
    /// suite blames the right side.
    #[arg(long)]
    pub(super) reference: bool,
    /// Run the suites of the file view alone, and all of each: pjdfstest, fsx and real programs on
    /// a mount, in the cells mount-folder, mount-postgres, mount-mysql and mount-redis. Without it
    /// they are a short part of the whole.
    #[arg(long, conflicts_with = "reference")]
    pub(super) files: bool,
    /// Run the suites that others wrote, and programs that rest on what a store promises, and
    /// nothing else: versitygw, minio-go, minio-py, mc, Terraform, table formats. A plain run leaves
    /// them out.
    #[arg(long, conflicts_with_all = ["reference", "files"])]
    pub(super) external: bool,
    /// Run the client suites, and those of the file view, against this program instead of a build
    /// of this checkout.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "reference")]
    pub(super) gateway: Option<PathBuf>,
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

/// Steps that follow each other, and what they have found so far.
pub(super) struct Steps<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) taken: Vec<FinishedStep>,
}

/// A finished step.
pub(super) struct FinishedStep {
    pub(super) name: String,
    pub(super) mark: Mark,
    pub(super) took: Duration,
    pub(super) remark: String,
    /// Its test runner's own summary lines.
    pub(super) summary: Vec<String>,
    pub(super) counts: Counts,
}

/// How a step ended, before it has a name and a time.
#[derive(Default)]
pub(super) struct StepOutcome {
    pub(super) remark: String,
    pub(super) summary: Vec<String>,
    pub(super) counts: Counts,
    pub(super) failed: bool,
}

impl Steps<'_> {
    pub(super) fn wanted_step(
        &mut self,
        name: &str,
        work: impl FnOnce(&Run<'_>) -> Result<StepOutcome>,
    ) -> Result<()> {
        if self.run.wants(name) { self.step(name, work) } else { Ok(()) }
    }

    /// Runs one step and records it. An error is a failed step, but a wish to stop ends the run.
    pub(super) fn step(
        &mut self,
        name: &str,
        work: impl FnOnce(&Run<'_>) -> Result<StepOutcome>,
    ) -> Result<()> {
        self.run.stop.check()?;
        let running = self.run.progress.begin(name);
        let finding = work(self.run).unwrap_or_else(|error| StepOutcome {
            remark: format!("{error:#}"),
            failed: true,
            ..StepOutcome::default()
        });
        let mark = if finding.failed { Mark::Failed } else { Mark::Passed };
        let took = running.end(mark, &finding.remark);
        self.run.stop.check()?;
        let remark = finding.remark.lines().next().unwrap_or_default().to_owned();
        self.taken.push(FinishedStep {
            summary: finding.summary,
            counts: finding.counts,
            ..FinishedStep::new(name, mark, took, remark)
        });
        Ok(())
    }

    /// Records a step that cannot be taken on this machine, and why.
    pub(super) fn skip(&mut self, name: &str, remark: &str) {
        self.run.progress.begin(name).end(Mark::Skipped, remark);
        let skipped = FinishedStep::new(name, Mark::Skipped, Duration::ZERO, remark.to_owned());
        self.taken.push(skipped);
    }

    /// Runs `background` in a thread of its own while `foreground` runs. Records the steps of
    /// `foreground`, then those of `background`, and returns what `background` returned.
    pub(super) fn side_by_side<T: Send>(
        &mut self,
        foreground: impl FnOnce(&mut Self) -> Result<()>,
        background: impl FnOnce(&mut Steps<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        let run = self.run;
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut steps = Steps { run, taken: Vec::new() };
                let outcome = background(&mut steps);
                (steps.taken, outcome)
            });
            let ended = foreground(self);
            let (taken, outcome) = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            self.taken.extend(taken);
            ended.and(outcome)
        })
    }

    /// Runs `work` for each job, in the order in which the jobs are given and [`JOBS_AT_ONCE`] at a
    /// time. Records the steps of each job together, in that order.
    pub(super) fn with_each<T: Sync>(
        &mut self,
        jobs: &[T],
        work: impl Fn(&mut Steps<'_>, &T) -> Result<()> + Sync,
    ) -> Result<()> {
        let run = self.run;
        let left = Mutex::new(jobs.iter().enumerate());
        let in_turn = || -> Result<Vec<(usize, Vec<FinishedStep>)>> {
            let mut done = Vec::new();
            let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some((place, job)) = next() {
                let mut steps = Steps { run, taken: Vec::new() };
                work(&mut steps, job)?;
                done.push((place, steps.taken));
            }
            Ok(done)
        };
        let mut done = Vec::new();
        thread::scope(|scope| -> Result<()> {
            let workers: Vec<_> = (0..JOBS_AT_ONCE).map(|_| scope.spawn(in_turn)).collect();
            for worker in workers {
                done.extend(worker.join().unwrap_or_else(|panic| resume_unwind(panic))?);
            }
            Ok(())
        })?;
        done.sort_by_key(|(place, _)| *place);
        self.taken.extend(done.into_iter().flat_map(|(_, taken)| taken));
        Ok(())
    }

    /// Prints the table, then the runners' own last words, then one line for the client suites.
    pub(super) fn report(&self, took: Duration) -> bool {
        let progress = &self.run.progress;
        progress.say("\nstep                           result     time");
        for step in &self.taken {
            let line = format!(
                "{:<30} {}   {:>7.1} s  {}",
                step.name,
                step.mark.word(),
                step.took.as_secs_f64(),
                step.remark
            );
            progress.say(line.trim_end());
        }
        progress.say(&format!("\n{:.0} s in all", took.as_secs_f64()));
        for step in self.taken.iter().filter(|step| !step.summary.is_empty()) {
            progress.say(&format!("\n{}:", step.name));
            step.summary.iter().for_each(|line| progress.say(line));
        }
        let total: Counts = self.taken.iter().map(|step| step.counts).sum();
        progress.say(&format!("\n{} passed, {} failed", total.passed, total.failed));
        self.taken.iter().all(|step| step.mark != Mark::Failed)
    }
}

impl Run<'_> {
    /// Runs a command to its end with a log; the log's end is the remark if it fails.
    pub(super) fn watch(&self, command: Command, name: &str) -> Result<StepOutcome> {
        self.watch_for(command, name, CARGO_LIMIT)
    }

    /// Does the same as [`Run::watch`], with another limit of its time.
    pub(super) fn watch_for(
        &self,
        command: Command,
        name: &str,
        limit: Duration,
    ) -> Result<StepOutcome> {
        let log = self.log(name);
        let status = Child::spawn(command, name, &log)?.wait(self.stop, limit)?;
        let mut finding = StepOutcome { failed: !status.success(), ..StepOutcome::default() };
        if finding.failed {
            finding.remark = format!("{status}\n{}", tail(&log, TAIL_LINES));
        }
        Ok(finding)
    }

    /// Returns true if the programs under test are built from this checkout.
    pub(super) fn builds(&self) -> bool {
        !self.options.reference && self.options.gateway.is_none()
    }

    /// The engines that the user wants.
    pub(super) fn engines(&self) -> Vec<Engine> {
        engines::wanted(&self.options.engine)
    }

    /// The gateway under test.
    pub(super) fn gateway(&self) -> PathBuf {
        self.options.gateway.clone().unwrap_or_else(|| self.workspace.gateway("debug"))
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// Whether the user wants a step of this name.
    pub(super) fn wants(&self, name: &str) -> bool {
        let Options { only, files, external, .. } = self.options;
        let named = only.is_empty() || only.iter().any(|only| has_words(name, only));
        named && (!files || has_words(name, "files")) && (!external || has_words(name, "external"))
    }
}

/// Whether a step's name contains these words as whole ones: http is not a part of https.
pub(super) fn has_words(name: &str, words: &str) -> bool {
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
