//! Planted faults: proof that the model of both views, and the tests of leases, find faults.
//!
//! Each patch in `tests/it/planted` plants one fault. The variable `ASHLAR_TEST_PLANTED` turns the
//! fault on by the name of the patch. A plain run checks that the patches apply. The proof copies
//! the checkout, applies all patches to the copy, and builds the tests of the copy once. Then the
//! [`Prover`]s must pass without a fault, and the one of a fault must fail with it. For example,
//! with `page-of-one-entry` a lifecycle pass stays at a page that has one entry, and the model must
//! report it.
//!
//! A crash of the product, a build that fails or a patch that does not apply proves nothing, so
//! each of these fails its step.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::steps::{Run, StepOutcome, Steps, TAIL_LINES};
use crate::child::{Child, tail};
use crate::engines::Engine;
use crate::workspace::{Workspace, stdout};

/// The folder of the patches, below the root.
const PATCHES: &str = "tests/it/planted";

/// The seed of the model's choices.
const SEED: u64 = 1;

/// The number of acts, such as requests and system calls, within which the model must find a fault.
const STEPS_MAX: u64 = 12_000;

/// The number of acts that the model must pass without a fault.
const STEPS_SOUND: u64 = 2_000;

/// A text that the model prints with each failure.
const REPEATED_BY: &str = "again with ASHLAR_TEST_SEED=";

/// The time limit for building the copy.
const BUILD_LIMIT: Duration = Duration::from_mins(40);

/// The time limit of one run of a prover.
const PROVER_LIMIT: Duration = Duration::from_mins(15);

/// A test that must pass without a fault and fail with each fault that it proves.
#[derive(Debug, PartialEq, Eq)]
struct Prover {
    test: &'static str,
    /// The beginning of a panic in the test's own files, by which it reports a fault.
    complaint: &'static str,
}

/// The model of both views.
const MODEL: Prover = Prover {
    test: "views_model::both_views_match_the_model_memory",
    complaint: "panicked at tests/it/tests/it/views_model",
};

/// The tests of leases, each with the names of its faults.
const LEASES: [(&[&str], Prover); 4] = [
    (
        &["lease-deaf"],
        Prover {
            test: "leased::histories::files_and_objects_with_leases_are_linearizable::redis",
            complaint: "panicked at tests/it/tests/it/leased/histories",
        },
    ),
    (
        &["lease-kernel"],
        Prover {
            test: "leased::kernel::the_kernel_shows_each_change_of_another_session::redis",
            complaint: "panicked at tests/it/tests/it/leased/kernel",
        },
    ),
    (
        &["lease-stale-grant"],
        Prover {
            test: "leased::a_write_without_notice_is_seen_after_the_next_grant::drawn",
            complaint: "panicked at tests/it/tests/it/leased.rs",
        },
    ),
    (
        &["lease-late", "lease-impatient"],
        Prover {
            test: "leased::network::histories_are_linearizable_over_a_network_that_fails::drawn",
            complaint: "panicked at tests/it/tests/it/leased/network",
        },
    ),
];

/// A planted fault: a patch that adds it to the product, so that a test can prove that it finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The value of `ASHLAR_TEST_PLANTED` that turns it on.
    name: String,
    patch: PathBuf,
}

/// A copy of the checkout to which the patches of all planted faults are applied, with a build
/// folder of its own.
struct Copy {
    source: PathBuf,
    target: PathBuf,
}

/// Returns the faults that the user wants: all in a full run, or those that `--only` names.
pub(super) fn wanted(run: &Run<'_>) -> Result<Vec<Fault>> {
    if !run.builds() || !run.options.full && run.options.only.is_empty() {
        return Ok(Vec::new());
    }
    let mut faults = faults(&run.workspace.root)?;
    faults.retain(|fault| run.wants(&fault.step()));
    Ok(faults)
}

/// Checks that all patches apply in sequence.
pub(super) fn check(run: &Run<'_>) -> Result<StepOutcome> {
    let faults = faults(&run.workspace.root)?;
    let mut command = git(&run.workspace.root);
    command.args(["apply", "--check"]).args(faults.iter().map(|fault| &fault.patch));
    let mut outcome = run.watch(command, "planted-patches")?;
    if !outcome.failed {
        outcome.remark = format!("{} patches apply", faults.len());
    }
    Ok(outcome)
}

/// Builds the tests with all faults, and runs the provers with each of the wanted ones and without
/// any.
pub(super) fn prove(steps: &mut Steps<'_>, wanted: &[Fault]) -> Result<()> {
    let mut copy = None;
    steps.step("planted build", |run| {
        let made = copied(run.workspace)?;
        apply(&made, &faults(&run.workspace.root)?)?;
        let outcome = run.watch_for(made.tests(&["--no-run"]), "planted-build", BUILD_LIMIT)?;
        copy = Some(made).filter(|_| !outcome.failed);
        Ok(outcome)
    })?;
    // Without a build, the steps of the faults would fail for another reason than the model.
    let Some(copy) = copy else { return Ok(()) };
    // A test that always complains would find each fault, so it must pass without faults first.
    let mut provers: Vec<&Prover> = Vec::new();
    for prover in wanted.iter().map(Fault::prover) {
        if !provers.contains(&prover) {
            provers.push(prover);
        }
    }
    steps.step("planted nothing", |run| {
        let mut outcome = StepOutcome::default();
        for prover in provers {
            let command = copy.prover(prover, "", STEPS_SOUND);
            outcome = run.watch_for(command, "planted-nothing", PROVER_LIMIT)?;
            if outcome.failed {
                break;
            }
        }
        Ok(outcome)
    })?;
    for fault in wanted {
        steps.step(&fault.step(), |run| run.finds(&copy, fault))?;
    }
    Ok(())
}

impl Run<'_> {
    /// Runs the prover of a fault with it. The step fails if the prover does not find the fault.
    fn finds(&self, copy: &Copy, fault: &Fault) -> Result<StepOutcome> {
        let name = format!("planted-{}", fault.name);
        let log = self.log(&name);
        let command = copy.prover(fault.prover(), &fault.name, STEPS_MAX);
        let status = Child::spawn(command, &name, &log)?.wait(self.stop, PROVER_LIMIT)?;
        let text = fs::read_to_string(&log).context("cannot read the log")?;
        Ok(match complaint(fault.prover(), status.success(), &text) {
            Ok(complaint) => StepOutcome { remark: complaint, ..StepOutcome::default() },
            Err(reason) => {
                let remark = format!("{reason}\n{}", tail(&log, TAIL_LINES));
                StepOutcome { remark, failed: true, ..StepOutcome::default() }
            }
        })
    }
}

impl Fault {
    /// Returns the name of the step that proves that a test finds this fault.
    fn step(&self) -> String {
        format!("planted {}", self.name)
    }

    /// Returns the test that must find the fault.
    fn prover(&self) -> &'static Prover {
        let of_leases = LEASES.iter().find(|(names, _)| names.contains(&self.name.as_str()));
        of_leases.map_or(&MODEL, |(_, prover)| prover)
    }
}

impl Copy {
    /// Returns the command `cargo test` in the copy, with these arguments.
    fn tests(&self, arguments: &[&str]) -> Command {
        let mut command = Workspace::cargo_at(&self.source);
        command
            .args(["test", "--package", "it", "--test", "it", "--locked"])
            .args(arguments)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_TERM_COLOR", "never")
            // Without debug information these programs build faster, and they are not debugged.
            .env("CARGO_PROFILE_DEV_DEBUG", "none")
            .env("CARGO_PROFILE_TEST_DEBUG", "none")
            .env_remove("RUSTC_WORKSPACE_WRAPPER");
        command
    }

    /// Returns the command that runs a prover with a fault, or without one if `fault` is empty.
    fn prover(&self, prover: &Prover, fault: &str, steps: u64) -> Command {
        let mut command = self.tests(&["--", "--exact", prover.test, "--nocapture"]);
        command
            .env("ASHLAR_TEST_PLANTED", fault)
            // The processes of a test of leases must have the fault too.
            .env_remove("ASHLAR_BIN")
            .env("ASHLAR_TEST_REQUIRE_SERVICES", "1")
            // A fault of leases shows if the next lease begins before the change feed reports a
            // write. The feed of Redis leaves the most time for that.
            .env("ASHLAR_TEST_DRAWN", Engine::Redis.name())
            .env("ASHLAR_TEST_SEED", SEED.to_string())
            .env("ASHLAR_TEST_VIEW_STEPS", steps.to_string());
        command
    }
}

/// Returns all faults, sorted by name. Fails if a patch does not contain the name of its fault.
fn faults(root: &Path) -> Result<Vec<Fault>> {
    let folder = root.join(PATCHES);
    let mut faults = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))? {
        let patch = entry?.path();
        if patch.extension().is_some_and(|extension| extension == "patch") {
            let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read_to_string(&patch).context("cannot read a patch")?;
            if !text.contains(&format!("\"{name}\"")) {
                bail!("{}: no line asks for the fault \"{name}\"", patch.display());
            }
            faults.push(Fault { name, patch });
        }
    }
    if faults.is_empty() {
        bail!("{} has no patches", folder.display());
    }
    faults.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(faults)
}

/// Copies the files that git tracks or would track. An unchanged file keeps its modification time,
/// so cargo builds only the changed crates.
fn copied(workspace: &Workspace) -> Result<Copy> {
    let folder = workspace.target.join("planted");
    let copy = Copy { source: folder.join("source"), target: folder.join("target") };
    let mut command = git(&workspace.root);
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = stdout(command)?;
    let mut names: Vec<&str> = listed.split('\0').filter(|name| !name.is_empty()).collect();
    names.retain(|name| workspace.root.join(name).is_file());
    names.sort_unstable();
    // A source that was deleted in the checkout must not stay in the copy, where cargo finds it.
    remove_others(&copy.source, &copy.source, &names)?;
    for name in names {
        let (from, to) = (workspace.root.join(name), copy.source.join(name));
        let bytes = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        // Writing an equal file would change its time, and cargo would build its crate again.
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        let above = to.parent().context("a file is in a folder")?;
        fs::create_dir_all(above)?;
        fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(copy)
}

/// Removes the files of an older copy that are not among `names`, which must be sorted.
fn remove_others(source: &Path, folder: &Path, names: &[&str]) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(source, &path, names)?;
            continue;
        }
        let name = path.strip_prefix(source)?.to_string_lossy().into_owned();
        if names.binary_search(&name.as_str()).is_err() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Applies all patches to the copy, and checks that the changed files contain the faults.
fn apply(copy: &Copy, faults: &[Fault]) -> Result<()> {
    let mut command = git(&copy.source);
    // The copy is inside of the checkout. In a repository, git ignores the paths of a patch that
    // are not below the current folder, so it must not find the checkout's repository.
    let above = copy.source.parent().context("the copy is in a folder")?;
    command.env("GIT_CEILING_DIRECTORIES", above).arg("apply");
    command.args(faults.iter().map(|fault| &fault.patch));
    stdout(command)?;
    // `git apply` also succeeds if it skips a file, so check the result.
    for Fault { name, patch } in faults {
        let text = fs::read_to_string(patch)?;
        let changed = text.lines().find_map(|line| line.strip_prefix("+++ b/"));
        let changed = changed.with_context(|| format!("{} changes no file", patch.display()))?;
        if !fs::read_to_string(copy.source.join(changed))?.contains(&format!("\"{name}\"")) {
            bail!("{changed} does not have the fault {name}");
        }
    }
    Ok(())
}

fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    // The checkout of a container may belong to another user.
    command.args(["-c", "safe.directory=*"]).current_dir(folder);
    command
}

/// Returns the complaint, the panic text with which a prover reports a fault, from the log of its
/// run, with the act before it if the prover is the model. `passed` is true if the run had no
/// failed test. Fails with the reason if the log does not show that the prover has found the fault.
fn complaint(prover: &Prover, passed: bool, log: &str) -> Result<String, &'static str> {
    if passed {
        return Err("the test passes with the fault");
    }
    // The text of a panic is in the line behind the line with its place.
    let mut lines = log.lines();
    if !lines.any(|line| line.contains(prover.complaint)) {
        return Err("the test fails, and not by a complaint of its own");
    }
    let complaint = lines.next().unwrap_or_default().to_owned();
    if *prover != MODEL {
        return Ok(complaint);
    }
    if !log.contains(REPEATED_BY) {
        return Err("the test fails outside of the model's steps");
    }
    let step = log.lines().rev().find_map(|line| line.strip_prefix("memory, step "));
    let step = step.and_then(|line| line.split_once(':')).map_or("?", |(step, _)| step);
    Ok(format!("step {step}: {complaint}"))
}

#[cfg(test)]
mod tests;
