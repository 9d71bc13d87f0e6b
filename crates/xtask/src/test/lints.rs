//! One build that lints as it compiles.
//!
//! `cargo clippy` analyses the whole workspace and makes no code, so `cargo build` would analyse it once
//! more. Clippy's driver is a complete compiler. The build names it as the compiler of workspace
//! members, which gives the warnings and the programs at the cost of one analysis.
//!
//! Warnings do not end the build, so that a run with a warning still shows what its tests found. The
//! step `clippy` fails if the build's log has any.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::steps::{Run, StepOutcome};

/// The compiler of workspace members.
const COMPILER: &str = "clippy-driver";

/// Lines of warnings that the report of the step shows at most.
const LINES_OF_REPORT: usize = 200;

impl Run<'_> {
    /// A cargo command whose compiler of workspace members lints as it compiles. Commands that build
    /// or run the same programs must all be made here: with another compiler, cargo builds anew.
    pub(super) fn linting_cargo(&self) -> Command {
        let mut command = self.workspace.cargo();
        command.env("RUSTC_WORKSPACE_WRAPPER", COMPILER).env("CARGO_TERM_COLOR", "never");
        command
    }
}

/// Builds all targets of the workspace.
pub(super) fn build(run: &Run<'_>) -> Result<StepOutcome> {
    let mut command = run.linting_cargo();
    command.args(["build", "--workspace", "--all-targets"]);
    run.watch(command, "build")
}

/// Looks for warnings in the log of the build.
pub(super) fn look(run: &Run<'_>) -> Result<StepOutcome> {
    let log = std::fs::read_to_string(run.log("build")).context("cannot read the log")?;
    let warned = warned(&log);
    let mut outcome = StepOutcome { failed: !warned.is_empty(), ..StepOutcome::default() };
    if outcome.failed {
        outcome.remark = format!("{}\n{}", warned.join("\n"), warnings(&log));
    }
    Ok(outcome)
}

/// Cargo's lines on crates with warnings, as "warning: `it` (test "it") generated 1 warning". Cargo
/// prints such a line also when the crate is not compiled again.
fn warned(log: &str) -> Vec<&str> {
    let lines = log.lines().filter(|line| line.starts_with("warning: `"));
    lines.filter(|line| line.contains(" generated ") && line.contains(" warning")).collect()
}

/// The warnings themselves: each begins with "warning: " and ends with an empty line.
fn warnings(log: &str) -> String {
    let mut report = Vec::new();
    let mut inside = false;
    for line in log.lines() {
        let starts = line.starts_with("warning: ") && !line.starts_with("warning: `");
        inside = (inside || starts) && !line.is_empty();
        if inside && report.len() < LINES_OF_REPORT {
            report.push(line);
        }
    }
    report.join("\n")
}

#[cfg(test)]
mod tests;
