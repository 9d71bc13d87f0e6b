//! `cargo xtask test`: all checks and tests that a change must pass, in one command, also on a
//! fresh machine.
//!
//! Cheap checks come first. Then one build lints the code and makes the programs of the Rust tests
//! and of the suites, while external programs are installed. Then the Rust tests and the suites run
//! in parallel. If a step fails, the other steps still run, so one run shows all failures. For
//! example, a warning of clippy does not hide a failing client suite.
//!
//! docs/TESTING.md describes the plain run, `--full`, and the suites with their own options.

mod clients;
mod delivery;
mod documents;
mod draw;
mod external;
mod files;
mod lints;
mod planted;
mod rust;
mod scratch;
mod steps;
mod summary;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::certificate::Certificate;
use crate::child::Stop;
use crate::engines::{self, Databases, Engine};
use crate::mount_point;
use crate::progress::{Mark, Progress};
use crate::servers::{BLOCK_BUCKET, Server};
use crate::tidy;
use crate::tools::{Delivery, ExternalSuites, Tools};
use crate::workspace::{Workspace, which};

pub(crate) use documents::Documents;
use draw::Day;
pub(crate) use steps::Options;
use steps::{FinishedStep, Run, StepOutcome, Steps};

/// Runs the wanted steps and prints their results. Returns false if a step failed.
pub(crate) fn run(workspace: &Workspace, options: &Options, stop: &Stop) -> Result<bool> {
    let began = Instant::now();
    let (folder, place) = scratch::make(options.is_short())?;
    let progress = Progress::new();
    let drawn = drawn(options)?;
    let run = Run { options, workspace, stop, progress, folder: folder.path().to_owned(), drawn };
    if !options.reference {
        let name = drawn.name();
        run.progress.print(&format!("drawn engine: {name} (--drawn {name} repeats the choice)"));
    }
    run.progress.print(&format!("data of servers and tests: {place}"));
    let mut steps = Steps { run: &run, finished: Vec::new() };
    let outcome = steps.everything();
    if outcome.is_ok() && steps.finished.is_empty() {
        bail!("no step has a name that contains {}", options.only.join(" or "));
    }
    let passed = outcome.is_ok() && steps.report(began.elapsed());
    // Otherwise the temporary folder is removed when `folder` is dropped.
    if options.keep {
        eprintln!("logs and data are in {}", folder.keep().display());
    }
    outcome.map(|()| passed)
}

/// Returns the drawn engine, which this run tests more thoroughly than the others: the one that the
/// user named, or else the one that the date selects from the wanted engines.
fn drawn(options: &Options) -> Result<Engine> {
    let engines = engines::wanted(&options.engine);
    match options.drawn {
        Some(engine) if !engines.contains(&engine) => {
            bail!("--engine leaves out {}, which --drawn names", engine.name())
        }
        Some(engine) => Ok(engine),
        None => Ok(Day::today().draw(&engines)),
    }
}

/// The parts of a run that the user wants and that need a build or services, such as databases.
struct Wanted {
    /// The tests in Rust.
    rust: bool,
    /// The tests of `tests/it` at full length.
    proofs: bool,
    clients: Vec<clients::Cell>,
    mounted: Vec<files::Cell>,
    external: Vec<(external::Cell, Vec<&'static str>)>,
    /// The suites of the image, of packages and of the chart.
    delivery: Vec<&'static str>,
}

impl Wanted {
    fn is_empty(&self) -> bool {
        let cells = [self.clients.is_empty(), self.mounted.is_empty(), self.external.is_empty()];
        let rest = self.delivery.is_empty() && !self.rust && !self.proofs;
        rest && cells.iter().all(|empty| *empty)
    }

    /// The jobs in the order in which they start. The longest ones start first, so that no core is
    /// idle at the end.
    fn jobs(&self) -> Vec<Job<'_>> {
        let (longest, others) = self.clients.split_at(self.clients.len().min(1));
        let rust = self.rust.then_some(Job::Rust).into_iter();
        // The first cell of clients has the most suites.
        let long = rust.chain(longest.iter().map(Job::Client));
        let mounted = self.mounted.iter().map(Job::Mounted);
        let delivery = (!self.delivery.is_empty()).then_some(Job::Delivery);
        long.chain(mounted).chain(others.iter().map(Job::Client)).chain(delivery).collect()
    }

    /// The engines that any part uses, each once.
    fn engines(&self, run: &Run<'_>) -> Vec<Engine> {
        let mut engines = clients::engines(&self.clients);
        engines.extend(files::engines(&self.mounted));
        if self.rust || self.proofs {
            engines.extend(run.engines());
        }
        engines::each_once(&engines)
    }
}

/// The external programs of a run, found or installed.
struct Installed {
    tools: Tools,
    /// The folder whose `bin` contains the file system testers.
    testers: PathBuf,
    external: ExternalSuites,
    delivery: Delivery,
}

/// A part of a run: the tests in Rust, all suites of one cell, that is, of one server under test,
/// or the suites of the image and of packages. A job waits for much of its time, so several jobs
/// run at the same time.
enum Job<'a> {
    Rust,
    Client(&'a clients::Cell),
    Mounted(&'a files::Cell),
    Delivery,
}

impl Job<'_> {
    /// Returns the number of places that the job takes beside others.
    fn places(&self) -> usize {
        match self {
            Self::Rust => 2,
            Self::Client(_) | Self::Mounted(_) | Self::Delivery => 1,
        }
    }
}

impl Steps<'_> {
    fn everything(&mut self) -> Result<()> {
        let wanted = self.wanted();
        let engines = wanted.engines(self.run);
        // Downloads wait for the network, so they run while the build uses the cores. The rules of
        // `tidy` are checked by one thread, so they run beside the build, too.
        let installed = self.side_by_side(
            |steps| if steps.run.builds() { steps.checks(&wanted) } else { Ok(()) },
            |steps| {
                let installed = steps.install(&wanted, &engines);
                if steps.run.builds() {
                    steps.tidy()?;
                }
                installed
            },
        )?;
        if self.finished.iter().any(|step| step.name == "build" && step.mark == Mark::Failed) {
            // A binary of an older build may exist, and its results would be wrong for this one.
            return Ok(());
        }
        // Rustdoc runs for one member after the other, so it uses one core.
        self.side_by_side(
            |steps| {
                if steps.run.builds() { steps.wanted_step("doc", documents::step) } else { Ok(()) }
            },
            |steps| match &installed {
                Some(installed) => steps.with_services(&wanted, &engines, installed),
                None => Ok(()),
            },
        )?;
        let faults = planted::wanted(self.run)?;
        if faults.is_empty() { Ok(()) } else { planted::prove(self, &faults) }
    }

    /// Returns the parts that the user wants.
    fn wanted(&mut self) -> Wanted {
        let run = self.run;
        Wanted {
            rust: run.builds() && run.wants("rust"),
            proofs: run.options.full && run.wants("proofs"),
            clients: clients::wanted(run),
            mounted: self.mounted(),
            external: external::wanted(run),
            delivery: self.delivered(),
        }
    }

    /// Finds or installs the external programs of the wanted parts. Returns `None` if no part needs
    /// any, or if the installation fails.
    fn install(&mut self, wanted: &Wanted, engines: &[Engine]) -> Result<Option<Installed>> {
        let mut installed = None;
        if wanted.is_empty() {
            return Ok(None);
        }
        self.step("install", |run| {
            let install = !run.options.skip_install;
            let tools = Tools::prepare(run.workspace, install, engines, run.stop)?;
            let (mut testers, mut external) = (PathBuf::new(), ExternalSuites::default());
            if wanted.clients.iter().any(clients::Cell::needs_browser) {
                Tools::prepare_browser(run.workspace, install, run.stop)?;
            }
            if !wanted.mounted.is_empty() {
                testers = Tools::prepare_files(run.workspace, install, run.stop)?;
            }
            if !wanted.external.is_empty() {
                let suites = wanted.external.iter().flat_map(|(_, suites)| suites.clone());
                let suites: Vec<_> = suites.collect();
                external = Tools::prepare_external(run.workspace, install, &suites, run.stop)?;
            }
            let mut delivery = Delivery::default();
            if !wanted.delivery.is_empty() {
                let helm = delivery::needs_helm(&wanted.delivery);
                delivery = Tools::prepare_delivery(run.workspace, helm, install, run.stop)?;
            }
            installed = Some(Installed { tools, testers, external, delivery });
            Ok(StepOutcome::default())
        })?;
        Ok(installed)
    }

    /// Starts MinIO and the databases, and runs the wanted parts.
    fn with_services(
        &mut self,
        wanted: &Wanted,
        engines: &[Engine],
        installed: &Installed,
    ) -> Result<()> {
        // The Rust tests have their own servers, because they stop and restart servers. A cell must
        // not be disturbed by that.
        let data = scratch::data(&self.run.folder);
        let (mut for_rust, mut for_cells) = (Databases::within(&data), Databases::within(&data));
        let cells = !wanted.clients.is_empty() || !wanted.mounted.is_empty();
        // Each server is a step of its own, so the table shows which one did not start.
        for &engine in engines.iter().filter(|engine| engine.has_server()) {
            self.step(&format!("database {}", engine.name()), |_| {
                if wanted.rust || wanted.proofs {
                    for_rust.start(engine)?;
                }
                if cells {
                    for_cells.start(engine)?;
                }
                Ok(StepOutcome::default())
            })?;
        }
        let certificate = Certificate::make(&self.run.folder.join("certificates"))?;
        let tools = &installed.tools;
        // MinIO always starts: it keeps the blocks of cells, and the Rust tests of `block` use it.
        let mut minio = Server::minio(&tools.minio, &self.run.folder, None, self.run.stop)?;
        if wanted.clients.iter().any(clients::Cell::needs_bucket)
            || wanted.mounted.iter().any(files::Cell::needs_bucket)
        {
            minio.make_bucket(&tools.mc, &self.run.folder, BLOCK_BUCKET)?;
        }
        let services = clients::Services {
            tools,
            certificate: &certificate,
            minio: &minio,
            databases: &for_cells,
        };
        let rust =
            rust::Services { endpoint: &minio.endpoint, minio: &tools.minio, databases: &for_rust };
        let jobs = wanted.jobs();
        self.with_each(&jobs, Job::places, |steps, job| match job {
            Job::Rust => steps.step("rust", |run| run.rust_tests(&rust)),
            Job::Mounted(cell) => files::one_cell(steps, cell, &services, &installed.testers),
            Job::Client(cell) => clients::one_cell(steps, cell, &services),
            Job::Delivery => delivery::run(steps, &wanted.delivery, tools, &installed.delivery),
        })?;
        if wanted.proofs {
            let name = format!("proofs {}", self.run.drawn.name());
            self.step(&name, |run| run.long_proofs(&rust))?;
        }
        external::run(self, &wanted.external, &services, &installed.external)?;
        // If MinIO ended during the run, results of cells that used it are wrong.
        minio.child.check_alive()
    }

    /// Returns the wanted cells of the file view. A cell is a volume, mounted over one metadata
    /// engine, with the suites to run on it. If this machine cannot mount, records the step `files`
    /// as skipped (as failed with `--files`) and returns none.
    fn mounted(&mut self) -> Vec<files::Cell> {
        let mounted = files::wanted(self.run);
        let Some(remark) = mount_point::obstacle().filter(|_| !mounted.is_empty()) else {
            return mounted;
        };
        // With `--files` the user wants just these suites, so their absence is a failure.
        let mark = if self.run.options.files { Mark::Failed } else { Mark::Skipped };
        self.run.progress.begin("files").end(mark, remark);
        self.finished.push(FinishedStep::new("files", mark, Duration::ZERO, remark.to_owned()));
        Vec::new()
    }

    /// Returns the wanted suites of the image, of packages and of the chart. If this machine cannot
    /// run them, records them as steps that did not run, and returns none.
    fn delivered(&mut self) -> Vec<&'static str> {
        let suites = delivery::wanted(self.run);
        match delivery::obstacle() {
            Some(remark) => {
                delivery::leave_out(self, &suites, remark);
                Vec::new()
            }
            None => suites,
        }
    }

    /// Checks the rules of the project.
    fn tidy(&mut self) -> Result<()> {
        self.wanted_step("tidy", |run| {
            let report = tidy::check(run.workspace)?;
            Ok(StepOutcome {
                remark: report.to_string(),
                failed: !report.errors.is_empty(),
                ..StepOutcome::default()
            })
        })
    }

    /// Runs the other steps that need no service, and the build.
    fn checks(&mut self, wanted: &Wanted) -> Result<()> {
        let cargo = |words: &'static [&'static str]| {
            move |run: &Run<'_>| {
                let mut command = run.workspace.cargo();
                command.args(words).env("CARGO_TERM_COLOR", "never");
                run.watch(command, words[0])
            }
        };
        self.wanted_step("fmt", cargo(&["fmt", "--all", "--check", "--", "--color=never"]))?;
        self.wanted_step("planted patches", planted::check)?;
        self.deny()?;
        if self.run.wants("build") || self.run.wants("clippy") || !wanted.is_empty() {
            self.step("build", lints::build)?;
            self.wanted_step("clippy", lints::look)?;
        }
        Ok(())
    }

    /// Checks licences and advisories if cargo-deny is installed. Building it would take longer
    /// than all other steps.
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
