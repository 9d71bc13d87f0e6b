//! Automation for this workspace: tests with services and clients, checks, benchmarks, and the
//! build for users.
//!
//! A task ends every program that it starts. Each program runs in its own process group, and the
//! value that owns the program ends the group when it is dropped, also after Ctrl-C. For example,
//! Ctrl-C during `cargo xtask test` stops MinIO, the databases and the gateway.
//!
//! The gateway is not linked into this program. Tasks use its command line and its S3 interface, as
//! users do. Only two other parts of the workspace are linked: the load of benchmarks and the start
//! of databases. The task `tidy` checks this.

mod bench;
mod certificate;
mod child;
mod dist;
mod engines;
mod fuzz;
mod mount_point;
mod progress;
mod servers;
mod test;
mod tidy;
mod tools;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;

use crate::child::Stop;
use crate::workspace::Workspace;

/// Automation for this workspace.
#[derive(clap::Parser, Debug)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
enum Task {
    /// Install the programs that tests need, start servers on private ports, run every test, and
    /// clean up.
    Test(test::Options),
    /// Check the rules for dependencies, names, English, pages and commits.
    Tidy(tidy::Options),
    /// Build the program for users, optimized with a profile (PGO): build once, count under load,
    /// and build again with the counts.
    Dist(dist::Options),
    /// Run fuzz targets: search for inputs that break the parsers of untrusted data.
    Fuzz(fuzz::Options),
    /// Measure the gateway next to plain MinIO, over each metadata engine that you name.
    Bench(bench::Options),
}

/// Runs the task that the command line names.
pub fn main() -> ExitCode {
    let outcome = match test::Documents::of_cargo() {
        Some(documents) => documents.check(),
        None => run(&Task::parse()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a task. Returns false if the task completed and found a failure.
fn run(task: &Task) -> Result<bool> {
    let stop = Stop::on_signals()?;
    let workspace = Workspace::find()?;
    match task {
        Task::Test(options) => test::run(&workspace, options, &stop),
        Task::Dist(options) => dist::run(&workspace, options, &stop),
        Task::Fuzz(options) => fuzz::run(&workspace, options, &stop),
        Task::Bench(options) => bench::run(&workspace, options, &stop),
        Task::Tidy(options) => tidy::run(&workspace, *options),
    }
}
