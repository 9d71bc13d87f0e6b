//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    account, bench, bucket, check, dump, fstab, mount, node, policy, trash, upkeep, user, warmup,
};
use crate::config::{Common, File, Mounting, Opening, Serving, VolumeSettings};
use crate::outcome::Outcome;
use crate::output::say;
use crate::problem::Problem;
use crate::serve::GatewaySettings;
use crate::{logging, serve};

/// Threads that may wait for disks at a time.
const BLOCKING_THREADS_MAX: usize = 64;

/// An S3 gateway over a namespace in a database, with blocks in a folder or a bucket.
#[derive(Debug, Parser)]
#[command(name = "ashlar", version, about, max_term_width = 100)]
struct Cli {
    /// A configuration file; flags and variables beat it
    #[arg(long, value_name = "FILE", env = "ASHLAR_CONFIG", global = true)]
    config: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve S3, and show the volume as files if told to
    Serve(Box<GatewayOptions>),
    /// Show the volume as files in a folder, until it is unmounted
    Mount(Box<mount::Mount>),
    /// Take a mount away
    Umount(mount::Umount),
    /// Tell what is known of a file, and where its content stands
    Info(node::ShowNode),
    /// Read files of a mount, so that they are in its cache
    Warmup(warmup::Warmup),
    /// Manage accounts
    #[command(subcommand)]
    Account(account::AccountCommand),
    /// Manage access keys
    #[command(subcommand)]
    User(user::UserCommand),
    /// Manage named policies
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Show and change the settings of buckets
    #[command(subcommand)]
    Bucket(bucket::BucketCommand),
    /// Look into the trash of a bucket, restore from it, and empty it
    #[command(subcommand)]
    Trash(trash::TrashCommand),
    /// Compare records with blocks, both ways; exits 3 if anything is wrong
    Fsck(upkeep::Fsck),
    /// Find blocks that no record names, and delete them if told to
    Gc(upkeep::Gc),
    /// Write the volume's metadata to a file, while gateways go on; blocks are not part of it
    Dump(dump::Dump),
    /// Fill an empty metadata store of any kind from a dump
    Load(dump::Load),
    /// Measure how fast an S3 endpoint or a folder is
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Exit 0 if the gateway on this machine is ready to serve
    Health(Box<GatewayOptions>),
    /// Print what the gateway on this machine says of itself
    Status(Box<GatewayOptions>),
    /// Check the configuration and print what is in force
    CheckConfig(Box<GatewayOptions>),
    /// Print the version
    Version,
}

/// What a gateway is started with.
#[derive(Debug, clap::Args)]
struct GatewayOptions {
    #[command(flatten)]
    serving: Serving,
    #[command(flatten)]
    opening: Opening,
    #[command(flatten)]
    mounting: Mounting,
}

impl GatewayOptions {
    fn settle(self, volume: VolumeSettings, file: &File) -> Result<GatewaySettings, Problem> {
        Ok(GatewaySettings {
            volume,
            open: self.opening.settle(file)?,
            mount: self.mounting.settle(file)?,
            serve: self.serving.settle(file)?,
        })
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    let mut words = std::env::args_os();
    if words.next().is_some_and(|program| fstab::is_asked_for(&program)) {
        eprintln!("ashlar: {}", fstab::run(words));
        return ExitCode::FAILURE;
    }
    match run(Cli::parse()) {
        Ok(Outcome::Well) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(3),
        Err(problem) => {
            // Not a log line: a person, or a service manager's journal, reads it as it is.
            eprintln!("ashlar: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<Outcome, Problem> {
    let file = cli.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
    let volume = cli.common.settle(&file)?;
    match cli.command {
        Command::Serve(options) => {
            let settings = options.settle(volume, &file)?;
            logging::start(&settings.volume)?;
            runtime()?.block_on(serve::serve(settings))?;
        }
        Command::Mount(command) => {
            mount::run(*command, volume, &file, runtime)?;
        }
        Command::Umount(command) => command.run()?,
        Command::Info(command) => administer(&volume, |volume| node::run(volume, command))?,
        Command::Warmup(command) => command.run()?,
        Command::Account(command) => {
            administer(&volume, |volume| account::run(volume, command))?;
        }
        Command::User(command) => administer(&volume, |volume| user::run(volume, command))?,
        Command::Policy(command) => administer(&volume, |volume| policy::run(volume, command))?,
        Command::Bucket(command) => administer(&volume, |volume| bucket::run(volume, command))?,
        Command::Trash(command) => administer(&volume, |volume| trash::run(volume, command))?,
        Command::Fsck(command) => {
            logging::start(&volume)?;
            return runtime()?.block_on(upkeep::fsck(volume, command));
        }
        Command::Gc(command) => {
            logging::start(&volume)?;
            return runtime()?.block_on(upkeep::gc(volume, command));
        }
        Command::Dump(command) => {
            logging::start(&volume)?;
            return runtime()?.block_on(dump::dump(volume, command));
        }
        Command::Load(command) => {
            logging::start(&volume)?;
            return runtime()?.block_on(dump::load(volume, command));
        }
        Command::Bench(command) => runtime()?.block_on(bench::run(command))?,
        Command::Health(options) => {
            runtime()?.block_on(check::health(options.settle(volume, &file)?.serve))?;
        }
        Command::Status(options) => {
            runtime()?.block_on(check::status(options.settle(volume, &file)?.serve))?;
        }
        Command::CheckConfig(options) => check::config(&options.settle(volume, &file)?)?,
        Command::Version => say(format_args!("ashlar {}", env!("CARGO_PKG_VERSION"))),
    }
    Ok(Outcome::Well)
}

fn administer<F>(
    volume: &VolumeSettings,
    command: impl FnOnce(VolumeSettings) -> F,
) -> Result<(), Problem>
where
    F: Future<Output = Result<(), Problem>>,
{
    runtime()?.block_on(command(volume.clone()))
}

fn runtime() -> Result<tokio::runtime::Runtime, Problem> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("ashlar")
        .build()
        .map_err(|error| Problem::new("start", error))
}
