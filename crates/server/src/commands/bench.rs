//! `ashlar bench`: how fast an S3 endpoint is, or a folder, as this machine sees it.
//!
//! Any endpoint will do, ours or another. Nothing is measured but what clients see, and nothing of
//! a volume is opened.

mod folder;
mod live;
mod s3;
mod table;

use clap::Subcommand;

use crate::problem::Problem;

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure an S3 endpoint, alone or beside another one
    S3(Box<s3::S3>),
    /// Measure a folder, through the calls of the operating system
    Fs(folder::Fs),
}

/// Runs a command.
pub(crate) async fn run(command: BenchCommand) -> Result<(), Problem> {
    match command {
        BenchCommand::S3(options) => s3::run(*options).await,
        BenchCommand::Fs(options) => folder::run(options).await,
    }
}
