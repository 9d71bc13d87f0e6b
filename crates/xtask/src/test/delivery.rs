//! The suites of everything that users install: the image with its `compose.yaml`, the package, the
//! units and the chart.
//!
//! The image is built by buildah around the program of the run, from a base image that mmdebstrap
//! makes, and podman runs it: no daemon and no registry of images takes part. The suites run in
//! namespaces of their own. For example, the bridges and chains of a test that is killed end with
//! its network namespace, and its containers with its process namespace.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::clients;
use super::steps::{FinishedStep, Run, StepOutcome, Steps, TAIL_LINES};
use crate::child::{Child, tail};
use crate::engines::Engine;
use crate::mount_point;
use crate::progress::Mark;
use crate::tools::{Delivery, Tools};

/// The suites, each the files `test_NAME.py` and `test_NAME_*.py`.
const SUITES: [&str; 3] = [IMAGE, "package", CHART];

/// The suite of the image.
const IMAGE: &str = "image";

/// The suite of the chart. Its tool takes minutes of CPU time to build, and the suite depends on
/// the chart and the options of the program alone. So a plain run takes it when `SQLite` is drawn.
const CHART: &str = "chart";

/// The time limit of a suite, and of the build of its images without a kept base image.
const LIMIT: Duration = Duration::from_mins(6);

/// The words that run a command in namespaces of its own. Their processes end with the command.
const NAMESPACES: [&str; 5] = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// The variable by which a run demands that no suite is skipped, as the run of CI does.
const REQUIRED: &str = "ASHLAR_TEST_REQUIRE_SERVICES";

/// Returns the suites that the user wants.
pub(super) fn wanted(run: &Run<'_>) -> Vec<&'static str> {
    // The suites use SQLite.
    if run.options.reference || !run.engines().contains(&Engine::Sqlite) {
        return Vec::new();
    }
    let options = run.options;
    let plain = options.only.is_empty() && options.engine.is_empty() && !options.full;
    let is_taken = |suite: &&str| *suite != CHART || !plain || run.drawn == Engine::Sqlite;
    let suites = SUITES.into_iter().filter(is_taken);
    suites.filter(|suite| run.wants(&format!("delivery {suite}"))).collect()
}

/// Returns true if one of the suites needs helm.
pub(super) fn needs_helm(suites: &[&str]) -> bool {
    suites.contains(&CHART)
}

/// Returns the reason if this machine or user cannot run the suites.
pub(super) fn obstacle() -> Option<&'static str> {
    // Containers and mounts need the same permissions.
    mount_point::obstacle()
}

/// Records the suites as steps that did not run: as failures if the run demands all suites.
pub(super) fn leave_out(steps: &mut Steps<'_>, suites: &[&'static str], remark: &str) {
    let is_required = std::env::var_os(REQUIRED).is_some() || !steps.run.options.only.is_empty();
    let mark = if is_required { Mark::Failed } else { Mark::Skipped };
    for suite in suites {
        let name = format!("delivery {suite}");
        steps.run.progress.begin(&name).end(mark, remark);
        let step = FinishedStep::new(&name, mark, Duration::ZERO, remark.to_owned());
        steps.finished.push(step);
    }
}

/// Runs the suites one after the other.
pub(super) fn run(
    steps: &mut Steps<'_>,
    suites: &[&'static str],
    tools: &Tools,
    delivery: &Delivery,
) -> Result<()> {
    let scratch = steps.run.folder.join("delivery");
    std::fs::create_dir_all(&scratch)?;
    let mut built = false;
    steps.step("images", |run| {
        let outcome = build(run, &scratch, tools, delivery)?;
        built = !outcome.failed;
        Ok(outcome)
    })?;
    for &suite in suites {
        steps.step(&format!("delivery {suite}"), |run| {
            if !built {
                return Ok(clients::unfinished("its images were not built"));
            }
            let mut command = isolated(run, &scratch, tools, delivery, &["--net"]);
            command.args(["-m", "pytest"]).args(clients::files(&folder(run), suite)?);
            let log = run.log(&format!("delivery-{suite}"));
            clients::pytest(run, command, suite, &log, LIMIT, Path::new(""))
        })?;
    }
    // Later cells need the disk space.
    if !steps.run.options.keep {
        std::fs::remove_dir_all(&scratch)?;
    }
    Ok(())
}

/// Builds the images. The network is that of the machine, because a layer gets Debian's packages.
fn build(run: &Run<'_>, scratch: &Path, tools: &Tools, delivery: &Delivery) -> Result<StepOutcome> {
    let mut command = isolated(run, scratch, tools, delivery, &[]);
    command.arg("build.py");
    let log = run.log("images");
    let status = Child::spawn(command, "the build of images", &log)?.wait(run.stop, LIMIT)?;
    let mut outcome = StepOutcome { failed: !status.success(), ..StepOutcome::default() };
    if outcome.failed {
        outcome.remark = format!("{status}\n{}", tail(&log, TAIL_LINES));
    }
    Ok(outcome)
}

/// Returns a command of the suites' Python in namespaces of its own: [`NAMESPACES`] and `further`.
fn isolated(
    run: &Run<'_>,
    scratch: &Path,
    tools: &Tools,
    delivery: &Delivery,
    further: &[&str],
) -> Command {
    let mut command = Command::new("unshare");
    // The package is made by this program.
    if let Ok(xtask) = std::env::current_exe() {
        command.env("ASHLAR_TEST_XTASK", xtask);
    }
    command
        .args(NAMESPACES)
        .args(further)
        .arg(&delivery.python)
        .current_dir(folder(run))
        .env("ASHLAR_TEST_PROGRAM", run.gateway())
        .env("ASHLAR_TEST_MINIO", &tools.minio)
        .env("ASHLAR_TEST_MC", &tools.mc)
        .env("ASHLAR_TEST_HELM", &delivery.helm)
        .env("ASHLAR_TEST_IMAGES", &delivery.images)
        .env("ASHLAR_TEST_SCRATCH", scratch)
        // Runs must not write into the checkout.
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// The folder of the suites.
fn folder(run: &Run<'_>) -> std::path::PathBuf {
    run.workspace.delivery()
}
