//! `cargo xtask test`: everything that a change must pass, on a fresh machine, in one command.
//!
//! Cheap checks come first, then one build that the Rust tests and the client suites share. A step
//! that fails does not keep the others from running: one run shows all failures.

mod clients;
mod external;
mod files;
mod steps;
mod summary;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::certificate::Certificate;
use crate::child::Stop;
use crate::engines::{self, Databases};
use crate::mount_point;
use crate::progress::{Mark, Progress};
use crate::servers::{ACCESS_KEY, BLOCK_BUCKET, SECRET_KEY, Server};
use crate::tidy;
use crate::tools::{ExternalSuites, Tools};
use crate::workspace::{Workspace, which};

pub(crate) use steps::Options;
use steps::{FinishedStep, Run, StepOutcome, Steps};

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

/// Tests that run at a time, for each core.
const TESTS_PER_CORE: usize = 2;

/// Examples are named so that dependencies have the features that tests give them, and need not be
/// checked once more.
const DOC: [&str; 7] = [
    "doc",
    "--workspace",
    "--no-deps",
    "--document-private-items",
    "--lib",
    "--bins",
    "--examples",
];

impl Steps<'_> {
    fn everything(&mut self) -> Result<()> {
        if !self.run.options.reference && self.run.options.gateway.is_none() {
            self.checks()?;
        }
        if self.taken.iter().any(|step| step.name == "build" && step.mark == Mark::Failed) {
            // An older binary may lie around; what it passes would mean nothing.
            return Ok(());
        }
        let (wanted, mounted) = (clients::wanted(self.run), self.mounted());
        let others = external::wanted(self.run);
        let built = !self.run.options.reference && self.run.options.gateway.is_none();
        let rust = built && self.run.wants("rust");
        if wanted.is_empty() && mounted.is_empty() && others.is_empty() && !rust {
            return Ok(());
        }
        let mut engines = if rust { self.run.engines() } else { clients::engines(&wanted) };
        engines.extend(files::engines(&mounted));
        let engines = engines::each_once(&engines);
        let (mut tools, mut testers) = (None, PathBuf::new());
        let mut suites = ExternalSuites::default();
        self.step("install", |run| {
            let install = !run.options.skip_install;
            tools = Some(Tools::prepare(run.workspace, install, &engines, run.stop)?);
            if wanted.iter().any(clients::Cell::needs_browser) {
                Tools::prepare_browser(run.workspace, install, run.stop)?;
            }
            if !mounted.is_empty() {
                testers = Tools::prepare_files(run.workspace, install, run.stop)?;
            }
            if !others.is_empty() {
                let asked: Vec<_> = others.iter().flat_map(|(_, suites)| suites.clone()).collect();
                suites = Tools::prepare_external(run.workspace, install, &asked, run.stop)?;
            }
            Ok(StepOutcome::default())
        })?;
        let Some(tools) = tools else { return Ok(()) };
        let mut databases = Databases::default();
        for engine in engines.into_iter().filter(|engine| engine.has_server()) {
            self.step(&format!("database {}", engine.name()), |_| {
                databases.start(engine).map(|()| StepOutcome::default())
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
        if wanted.iter().any(clients::Cell::needs_bucket)
            || mounted.iter().any(files::Cell::needs_bucket)
        {
            minio.make_bucket(&tools.mc, &self.run.folder, BLOCK_BUCKET)?;
        }
        clients::run(self, &wanted, &services)?;
        files::run(self, &mounted, &services, &testers)?;
        external::run(self, &others, &services, &suites)?;
        minio.child.check_alive()
    }

    /// The cells of the file view; none where nothing can be mounted, and a line that says so.
    fn mounted(&mut self) -> Vec<files::Cell> {
        let mounted = files::wanted(self.run);
        let Some(remark) = mount_point::hindrance().filter(|_| !mounted.is_empty()) else {
            return mounted;
        };
        let mark = if self.run.options.files { Mark::Failed } else { Mark::Skipped };
        self.run.progress.begin("files").end(mark, remark);
        self.taken.push(FinishedStep::new("files", mark, Duration::ZERO, remark.to_owned()));
        Vec::new()
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
            Ok(StepOutcome {
                remark: report.to_string(),
                failed: !report.errors.is_empty(),
                ..StepOutcome::default()
            })
        })?;
        self.deny()?;
        let needs_build = self.run.wants("build")
            || self.run.wants("rust")
            || !clients::wanted(self.run).is_empty()
            || !files::wanted(self.run).is_empty()
            || !external::wanted(self.run).is_empty();
        if needs_build {
            self.step("build", cargo(&["build", "--workspace", "--all-targets"]))?;
        }
        self.wanted_step(
            "clippy",
            cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        )?;
        self.wanted_step("doc", cargo(&DOC))
    }

    /// Building cargo-deny takes longer than all else, so it is used only where it is installed.
    fn deny(&mut self) -> Result<()> {
        if !self.run.wants("deny") {
            return Ok(());
        }
        if which("cargo-deny").is_none() {
            self.skip("deny", "cargo-deny is not installed");
            return Ok(());
        }
        self.step("deny", |run| {
            let mut command = run.workspace.cargo();
            command.args(["deny", "check"]);
            run.watch(command, "deny")
        })
    }
}

/// Tests of one program that run at a time: much of what those of servers do is to wait.
fn tests_at_once() -> usize {
    TESTS_PER_CORE * thread::available_parallelism().map_or(1, usize::from)
}

impl Run<'_> {
    /// All of cargo's tests, with the services that they otherwise do without.
    ///
    /// `minio` is an endpoint, and `program` what those start who stop and kill one.
    fn rust_tests(
        &self,
        minio: &str,
        program: &Path,
        databases: &Databases,
    ) -> Result<StepOutcome> {
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
            .env("RUST_TEST_THREADS", tests_at_once().to_string())
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
}
