//! `ashlar bench`: measures the throughput and latency of an S3 endpoint or a directory from this
//! machine.
//!
//! The endpoint may be any S3 server. The measurement includes the network and the client; no
//! volume is opened. For example, `ashlar bench s3 --endpoint A --compare B` measures two servers
//! in turn.

mod folder;
mod live;
mod s3;
mod table;

use clap::Subcommand;

use problem::Problem;

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure an S3 endpoint, alone or in turn with another one
    S3(Box<s3::S3>),
    /// Measure a directory, with system calls
    Fs(folder::Fs),
}

/// Runs an `ashlar bench` command.
pub(crate) async fn run(command: BenchCommand) -> Result<(), Problem> {
    match command {
        BenchCommand::S3(options) => s3::run(*options).await,
        BenchCommand::Fs(options) => folder::run(options).await,
    }
}
