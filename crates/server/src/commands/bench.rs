//! `ashlar bench`: measures how fast an S3 endpoint or a folder is, as seen from this machine.
//!
//! The endpoint may be a gateway of ours or any other. Only what clients see is measured; no volume
//! is opened.

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
