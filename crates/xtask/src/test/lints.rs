//! One build that lints as it compiles.
//!
//! `cargo clippy` analyses the whole workspace without making programs, so `cargo build` would
//! analyse it again. Clippy's driver is a complete compiler. If it compiles the workspace members,
//! one analysis gives the warnings and the programs.
//!
//! Warnings do not end the build, so a run with a warning still shows the results of its tests. The
//! step `clippy` fails if the log of the build has a warning.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::steps::{Run, StepOutcome};

/// The compiler of workspace members.
const COMPILER: &str = "clippy-driver";

/// The most lines of warnings that the report of the step shows.
const LINES_OF_REPORT: usize = 200;

impl Run<'_> {
    /// A cargo command that compiles workspace members with [`COMPILER`]. All commands that build
    /// or run the same programs must come from here, because cargo builds again if the compiler
    /// differs.
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

/// Fails the step if the log of the build has warnings.
pub(super) fn look(run: &Run<'_>) -> Result<StepOutcome> {
    let log =
        std::fs::read_to_string(run.log("build")).context("cannot read the log of the build")?;
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

/// Returns the warnings. Each begins with "warning: " and ends with an empty line.
fn warnings(log: &str) -> String {
    let mut report = Vec::new();
    let mut inside = false;
    for line in log.lines() {
        let starts = line.starts_with("warning: ") && !line.starts_with("warning: `");
        // The lines with a crate's name only count warnings, and are reported by `warned`.
        inside = (inside || starts) && !line.is_empty();
        if inside && report.len() < LINES_OF_REPORT {
            report.push(line);
        }
    }
    report.join("\n")
}

#[cfg(test)]
mod tests;
