//! Runs what a machine must do around the code: tests with services and clients, checks,
//! benchmarks.
//!
//! Whatever a task starts, it ends: every program runs in a process group of its own, which ends
//! with the value that owns it, also on Ctrl-C. Of ours, only what starts databases for tests is
//! linked in here; the gateway is known by its command line and its S3 interface only, as users
//! know it.

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
#[command(name = "cargo xtask", version)]
enum Task {
    /// Install what tests need, start it on private ports, run every test, clean up.
    Test(test::Options),
    /// Check the rules for dependencies, names, English, pages and commits.
    Tidy(tidy::Options),
    /// Build the program as it is shipped: twice, the second time with what the first one counted
    /// under load.
    Dist(dist::Build),
    /// Look for inputs that break the parsers of what strangers send.
    Fuzz(fuzz::Options),
    /// Measure the gateway beside direct MinIO, over each metadata engine that is named.
    Bench(bench::Options),
}

fn main() -> ExitCode {
    match run(&Task::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a task; false if it has run and found something wrong.
fn run(task: &Task) -> Result<bool> {
    let stop = Stop::on_signals()?;
    let workspace = Workspace::find()?;
    match task {
        Task::Test(options) => test::run(&workspace, options, &stop),
        Task::Dist(options) => dist::run(&workspace, *options, &stop),
        Task::Fuzz(options) => fuzz::run(&workspace, options, &stop),
        Task::Bench(options) => bench::run(&workspace, options, &stop),
        Task::Tidy(options) => tidy::run(&workspace, *options),
    }
}
