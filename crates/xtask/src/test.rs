//! `cargo xtask test`: everything that a change must pass, on a fresh machine, in one command.
//!
//! Cheap checks come first, then one build that the Rust tests and the client suites share. A step
//! that fails does not keep the others from running: one run tells everything.

mod clients;
mod summary;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::certificate::Certificate;
use crate::child::{Child, Stop, tail};
use crate::engines::{self, Databases, Engine};
use crate::progress::{Mark, Progress};
use crate::servers::{ACCESS_KEY, SECRET_KEY, Server};
use crate::tidy;
use crate::tools::Tools;
use crate::workspace::{Workspace, which};

pub(crate) use summary::Counts;

/// How long a cargo step may take; the first build of a clean checkout is the longest.
const CARGO_LIMIT: Duration = Duration::from_mins(25);

/// Lines of a log shown when its step fails.
const TAIL_LINES: usize = 80;

/// What to run.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Only steps whose name contains these words, as "clients", "boto3 redis-http" or "rust"; may
    /// be given several times.
    ///
    /// Client suites run in cells: folder-http and minio-http over SQLite, postgres-http, mysql-http
    /// and redis-http over blocks in MinIO, and the same over https.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only this metadata engine: its crate's tests, the gateway's tests and the client suites on
    /// it, without the tests that need all engines. May be given several times; otherwise all run.
    #[arg(long, value_enum, value_name = "NAME", conflicts_with = "reference")]
    engine: Vec<Engine>,
    /// Keep the folder with all logs and data, and print where it is.
    #[arg(long)]
    keep: bool,
    /// Install nothing; fail where something is missing.
    #[arg(long)]
    skip_install: bool,
    /// Run the client suites against plain MinIO instead of the gateway: the proof that a failing
    /// suite blames the right side.
    #[arg(long)]
    reference: bool,
    /// Run the client suites against this program instead of a build of this checkout.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "reference")]
    gateway: Option<PathBuf>,
}

/// One run: what its steps need.
struct Run<'a> {
    options: &'a Options,
    workspace: &'a Workspace,
    stop: &'a Stop,
    progress: Progress,
    folder: PathBuf,
}

/// Steps that follow each other, and what they have found so far.
struct Steps<'a> {
    run: &'a Run<'a>,
    taken: Vec<Step>,
}

/// A finished step.
struct Step {
    name: String,
    mark: Mark,
    took: Duration,
    remark: String,
    /// Its test runner's own summary lines.
    summary: Vec<String>,
    counts: Counts,
}

/// How a step ended, before it has a name and a time.
#[derive(Default)]
struct Finding {
    remark: String,
    summary: Vec<String>,
    counts: Counts,
    failed: bool,
}

/// Runs it all; false if anything failed.
pub(crate) fn run(workspace: &Workspace, options: &Options, stop: &Stop) -> Result<bool> {
    let began = Instant::now();
    let folder = tempfile::Builder::new().prefix("ashlar-test-").tempdir()?;
    let progress = Progress::new();
    let run = Run { options, workspace, stop, progress, folder: folder.path().to_owned() };
    let mut steps = Steps { run: &run, taken: Vec::new() };
    let outcome = steps.everything();
    if outcome.is_ok() && steps.taken.is_empty() {
        bail!("no step has a name with {}", options.only.join(" or "));
    }
    let passed = outcome.is_ok() && steps.report(began.elapsed());
    if options.keep {
        eprintln!("kept {}", folder.keep().display());
    }
    outcome.map(|()| passed)
}

impl Steps<'_> {
    fn everything(&mut self) -> Result<()> {
        if !self.run.options.reference && self.run.options.gateway.is_none() {
            self.checks()?;
        }
        if self.taken.iter().any(|step| step.name == "build" && step.mark == Mark::Failed) {
            // An older binary may lie around; what it passes would mean nothing.
            return Ok(());
        }
        let wanted = clients::wanted(self.run);
        let built = !self.run.options.reference && self.run.options.gateway.is_none();
        let rust = built && self.run.wants("rust");
        if wanted.is_empty() && !rust {
            return Ok(());
        }
        let engines = if rust { self.run.engines() } else { clients::engines(&wanted) };
        let mut tools = None;
        self.step("install", |run| {
            let install = !run.options.skip_install;
            tools = Some(Tools::prepare(run.workspace, install, &engines, run.stop)?);
            Ok(Finding::default())
        })?;
        let Some(tools) = tools else { return Ok(()) };
        let mut databases = Databases::default();
        for engine in engines.into_iter().filter(|engine| engine.has_server()) {
            self.step(&format!("database {}", engine.name()), |_| {
                databases.start(engine).map(|()| Finding::default())
            })?;
        }
        let certificate = Certificate::make(&self.run.folder.join("certificates"))?;
        let mut minio = Server::minio(&tools.minio, &self.run.folder, None, self.run.stop)?;
        if rust {
            let endpoint = minio.endpoint.clone();
            self.step("rust", |run| run.rust_tests(&endpoint, &tools.minio, &databases))?;
        }
        let (tools, certificate, databases) = (&tools, &certificate, &databases);
        let services = clients::Services { tools, certificate, minio: &minio, databases };
        clients::run(self, &wanted, &services)?;
        minio.child.check_alive()
    }

    /// What needs no service, and the build.
    fn checks(&mut self) -> Result<()> {
        let cargo = |words: &'static [&'static str]| {
            move |run: &Run<'_>| {
                let mut command = run.workspace.cargo();
                command
                    .args(words)
                    .env("RUSTDOCFLAGS", "-D warnings")
                    .env("CARGO_TERM_COLOR", "never");
                run.watch(command, words[0])
            }
        };
        self.wanted_step("fmt", cargo(&["fmt", "--all", "--check", "--", "--color=never"]))?;
        self.wanted_step("tidy", |run| {
            let report = tidy::check(run.workspace)?;
            Ok(Finding {
                remark: report.to_string(),
                failed: !report.errors.is_empty(),
                ..Finding::default()
            })
        })?;
        self.deny()?;
        let needs_build = self.run.wants("build")
            || self.run.wants("rust")
            || !clients::wanted(self.run).is_empty();
        if needs_build {
            self.step("build", cargo(&["build", "--workspace", "--all-targets"]))?;
        }
        self.wanted_step(
            "clippy",
            cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        )?;
        self.wanted_step(
            "doc",
            cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"]),
        )
    }

    /// Building cargo-deny takes longer than all else, so it is used only where it is installed.
    fn deny(&mut self) -> Result<()> {
        if !self.run.wants("deny") {
            return Ok(());
        }
        if which("cargo-deny").is_none() {
            let remark = "cargo-deny is not installed".to_owned();
            self.run.progress.begin("deny").end(Mark::Skipped, &remark);
            self.taken.push(Step::new("deny", Mark::Skipped, Duration::ZERO, remark));
            return Ok(());
        }
        self.step("deny", |run| {
            let mut command = run.workspace.cargo();
            command.args(["deny", "check"]);
            run.watch(command, "deny")
        })
    }

    fn wanted_step(
        &mut self,
        name: &str,
        work: impl FnOnce(&Run<'_>) -> Result<Finding>,
    ) -> Result<()> {
        if self.run.wants(name) { self.step(name, work) } else { Ok(()) }
    }

    /// Runs one step and records it. An error is a failed step, but a wish to stop ends the run.
    fn step(&mut self, name: &str, work: impl FnOnce(&Run<'_>) -> Result<Finding>) -> Result<()> {
        self.run.stop.check()?;
        let running = self.run.progress.begin(name);
        let finding = work(self.run).unwrap_or_else(|error| Finding {
            remark: format!("{error:#}"),
            failed: true,
            ..Finding::default()
        });
        let mark = if finding.failed { Mark::Failed } else { Mark::Passed };
        let took = running.end(mark, &finding.remark);
        self.run.stop.check()?;
        let remark = finding.remark.lines().next().unwrap_or_default().to_owned();
        self.taken.push(Step {
            summary: finding.summary,
            counts: finding.counts,
            ..Step::new(name, mark, took, remark)
        });
        Ok(())
    }

    /// Prints the table, then the runners' own last words, then one line for the client suites.
    fn report(&self, took: Duration) -> bool {
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
    /// All of cargo's tests, with the services that they otherwise do without.
    ///
    /// `minio` is an endpoint, and `program` what those start who stop and kill one.
    fn rust_tests(&self, minio: &str, program: &Path, databases: &Databases) -> Result<Finding> {
        let engines = self.engines();
        let mut command = self.workspace.cargo();
        command.args(["test", "--workspace", "--no-fail-fast"]);
        for name in engines::crates_without_servers(&engines) {
            // Cargo has a word to say about names that it does not know.
            if self.workspace.members.iter().any(|member| member.name == name) {
                command.args(["--exclude", &name]);
            }
        }
        let names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
        command
            .envs(databases.variables())
            .env("ASHLAR_TEST_ENGINES", names.join(","))
            .env("ASHLAR_TEST_S3_ENDPOINT", minio)
            .env("ASHLAR_TEST_S3_ACCESS_KEY", ACCESS_KEY)
            .env("ASHLAR_TEST_S3_SECRET_KEY", SECRET_KEY)
            .env("ASHLAR_TEST_MINIO", program)
            .env("ASHLAR_TEST_REQUIRE_SERVICES", "1")
            .env("ASHLAR_BIN", self.gateway());
        let mut finding = self.watch(command, "rust")?;
        let log = std::fs::read_to_string(self.log("rust")).unwrap_or_default();
        finding.summary = summary::cargo_lines(&log);
        let counts = summary::cargo_counts(&finding.summary);
        let failures = summary::cargo_failures(&log);
        finding.remark = format!("{}\n{}{failures}", counts.sentence(), finding.remark);
        finding.remark.truncate(finding.remark.trim_end().len());
        Ok(finding)
    }

    /// Runs a command to its end with a log; the log's end is the remark if it fails.
    fn watch(&self, command: Command, name: &str) -> Result<Finding> {
        let log = self.log(name);
        let status = Child::spawn(command, name, &log)?.wait(self.stop, CARGO_LIMIT)?;
        let mut finding = Finding { failed: !status.success(), ..Finding::default() };
        if finding.failed {
            finding.remark = format!("{status}\n{}", tail(&log, TAIL_LINES));
        }
        Ok(finding)
    }

    /// The engines that the user wants.
    fn engines(&self) -> Vec<Engine> {
        engines::wanted(&self.options.engine)
    }

    /// The gateway under test.
    fn gateway(&self) -> PathBuf {
        self.options.gateway.clone().unwrap_or_else(|| self.workspace.gateway("debug"))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// Whether the user wants a step of this name.
    fn wants(&self, name: &str) -> bool {
        self.options.only.is_empty() || self.options.only.iter().any(|only| has_words(name, only))
    }
}

/// Whether a step's name contains these words as whole ones: http is not a part of https.
fn has_words(name: &str, words: &str) -> bool {
    let inside = |next: Option<char>| next.is_some_and(char::is_alphanumeric);
    name.match_indices(words).any(|(place, _)| {
        let (before, rest) = name.split_at(place);
        let after = rest.strip_prefix(words).unwrap_or_default();
        !inside(before.chars().next_back()) && !inside(after.chars().next())
    })
}

impl Step {
    fn new(name: &str, mark: Mark, took: Duration, remark: String) -> Self {
        let (name, summary, counts) = (name.to_owned(), Vec::new(), Counts::default());
        Self { name, mark, took, remark, summary, counts }
    }
}

#[cfg(test)]
mod tests;
