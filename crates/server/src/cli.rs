//! The command line: parses it, settles the configuration, and runs the command.
//!
//! The documentation of each command and option is its `--help` text. A command exits with 0 on
//! success, 1 if it fails, 2 if its arguments are wrong, 3 if `fsck` has findings, 75 if a store is
//! away for now, and 78 if the settings are wrong. For example, `ashlar fsck` of a volume with a
//! lost block prints the finding and exits with 3.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::administer::AdminCommand;
use crate::commands::{bench, check, dump, fstab, mount, node, pages, ring, stats, upkeep, warmup};
use crate::config::{Common, File, Mounting, Opening, Serving, VolumeSettings};
use crate::minio_variables::{Found, MinioVariables};
use crate::outcome::Outcome;
use crate::serve::GatewaySettings;
use crate::serve::SettingsSource;
use crate::unknown_variables::Unknown;
use crate::{environment, logging, serve, supervisor, unknown_variables};
use problem::{Cause, Problem};

/// The size of a thread's stack in bytes. Only touched pages take memory. Without optimization, the
/// futures of all operations have places on the stack at once: a request of the console that is
/// served as an S3 request needs 2 MiB.
const STACK_BYTES: usize = 4 << 20;

/// The most threads that block on disks at a time.
const BLOCKING_THREADS_MAX: usize = 64;

/// An S3 gateway over a namespace in a database, with blocks in a folder or a bucket.
#[derive(Debug, Parser)]
#[command(name = "ashlar", version = crate::build::VERSION, max_term_width = 100)]
struct Cli {
    /// The configuration file. Flags and variables override it
    #[arg(long, value_name = "FILE", env = "ASHLAR_CONFIG", global = true)]
    config: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve S3, and mount the volume if --mount is given
    Serve(Box<GatewayOptions>),
    /// Mount the volume as a file system on a directory
    Mount(Box<mount::Mount>),
    /// Unmount a mount
    Umount(mount::Umount),
    /// Print the attributes of files, and where their content is stored
    Info(node::ShowNode),
    /// Print the activity of a mount, one line for each second
    Stats(stats::Stats),
    /// Observe a mount for some seconds, and print the operations by their time
    Profile(stats::Profile),
    /// Read files of a mount into the cache
    Warmup(warmup::Warmup),
    #[command(flatten)]
    Administer(AdminCommand),
    /// List and rotate the keys under which content is encrypted, and replace the master key
    #[command(subcommand)]
    Ring(ring::RingCommand),
    /// Change the settings of the volume
    #[command(subcommand)]
    Volume(ring::VolumeCommand),
    /// Check that records and blocks agree; exit with 3 if there are findings
    Fsck(upkeep::Fsck),
    /// Count or delete deleted files, and blocks without a reference
    Gc(upkeep::Gc),
    /// Write the metadata of a volume to a file. Gateways can run meanwhile; blocks are not
    /// included
    Dump(dump::Dump),
    /// Load a dump into an empty metadata store of any kind
    Load(dump::Load),
    /// Measure the throughput and latency of an S3 endpoint or a directory
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Exit with 0 if the gateway on this machine is ready
    Health(Box<GatewayOptions>),
    /// Print the status of the gateway on this machine, as JSON
    Status(Box<GatewayOptions>),
    /// Check the configuration, and print the settings in force
    CheckConfig(Box<GatewayOptions>),
    /// Print the version
    Version(pages::Version),
    /// Print the completion of commands and options for a shell
    Completion(pages::Completion),
    /// Write the manual pages of this program and its commands to a directory
    Manual(pages::Manual),
}

impl Command {
    /// Returns the name of a command that works on the metadata store itself, and for which the API
    /// has no endpoint.
    fn needs_store(&self) -> Option<&'static str> {
        match self {
            Command::Fsck(_) => Some("fsck"),
            Command::Gc(_) => Some("gc"),
            Command::Dump(_) => Some("dump"),
            Command::Load(_) => Some("load"),
            Command::Ring(_) => Some("ring"),
            Command::Volume(_) => Some("volume"),
            Command::Administer(command) => command.needs_store(),
            Command::Serve(_)
            | Command::Mount(_)
            | Command::Umount(_)
            | Command::Info(_)
            | Command::Stats(_)
            | Command::Profile(_)
            | Command::Warmup(_)
            | Command::Bench(_)
            | Command::Health(_)
            | Command::Status(_)
            | Command::CheckConfig(_)
            | Command::Version(_)
            | Command::Completion(_)
            | Command::Manual(_) => None,
        }
    }
}

/// The options of a gateway, and of commands that address the gateway of this machine.
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
    /// Returns the settings in force, from these options, `file`, MinIO's variables and the
    /// defaults. Also returns the variables of MinIO that were found.
    fn settle(
        self,
        VolumeOptions { settings: volume, given, minio }: VolumeOptions,
        file: &File,
    ) -> Result<(GatewaySettings, Vec<Found>), Problem> {
        let settle = || {
            let open = self.opening.settle(file)?;
            let mount = self.mounting.settle(file)?;
            let volumes = minio.check_volumes(&given)?;
            let (serving, mut found) = minio.serving(self.serving.or(Serving::from_file(file)));
            found.extend(volumes);
            Ok((GatewaySettings { volume, open, mount, serve: serving.settle(file)? }, found))
        };
        settle().map_err(|problem: Problem| problem.because(Cause::Settings))
    }
}

/// The settings of the volume, and their sources that a gateway needs.
struct VolumeOptions {
    settings: VolumeSettings,
    /// The options that flags, variables of this program and the file give.
    given: Common,
    minio: MinioVariables,
}

/// Runs the program, and returns its exit status.
pub fn main() -> ExitCode {
    // mount(8) starts this program under another name, with arguments that clap does not parse, so
    // this check comes first.
    let mut words = std::env::args_os();
    if words.next().is_some_and(|program| fstab::is_mount_helper(&program)) {
        eprintln!("ashlar: {}", fstab::run(words));
        return ExitCode::FAILURE;
    }
    match run(parse()) {
        Ok(Outcome::Success) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(3),
        Err(problem) => {
            // Plain text instead of a log line, because a person or the journal of a service
            // manager reads it.
            eprintln!("ashlar: {problem}");
            exit_status(problem.cause())
        }
    }
}

/// Parses the arguments and the variables of options. Ends the program if they are wrong.
fn parse() -> Cli {
    let mut command = without_variables(Cli::command(), &environment::is_empty);
    let mut matches = command.clone().get_matches();
    let parsed = Cli::from_arg_matches_mut(&mut matches);
    parsed.unwrap_or_else(|error| error.format(&mut command).exit())
}

/// Returns the description of the command line without the variables that `is_empty` names. A
/// compose file can unset a variable only by an empty text, which no number and no path parses.
fn without_variables(command: clap::Command, is_empty: &impl Fn(&OsStr) -> bool) -> clap::Command {
    let without = command.mut_args(|arg| {
        if arg.get_env().is_some_and(is_empty) { arg.env(Resettable::Reset) } else { arg }
    });
    without.mut_subcommands(|command| without_variables(command, is_empty))
}

/// Returns the exit status of a failed command. systemd and other service managers know the two
/// numbers above 64 from sysexits(3).
fn exit_status(cause: Cause) -> ExitCode {
    match cause {
        Cause::Other => ExitCode::FAILURE,
        Cause::Unavailable => ExitCode::from(75),
        Cause::Settings => ExitCode::from(78),
    }
}

/// Runs the command. The log of a command that needs one starts after its settings are checked.
fn run(cli: Cli) -> Result<Outcome, Problem> {
    // The file is read for each command, so that an invalid file is reported by the first command
    // that uses it, not only by `serve`.
    let wrong_setting = |problem: Problem| problem.because(Cause::Settings);
    let file = cli.config.as_deref().map(File::read).transpose().map_err(wrong_setting)?;
    let file = file.unwrap_or_default();
    // The options of the stores are global: each command accepts them before and after its name.
    let common = cli.common.clone();
    refuse_wrong_form(&cli.command)?;
    let minio = MinioVariables::read()?;
    let given = cli.common.or(Common::from_file(&file));
    let volume = minio.common(given.clone()).settle(&file).map_err(wrong_setting)?;
    let of_gateway = |settings| VolumeOptions { settings, given, minio };
    match cli.command {
        Command::Serve(options) => {
            let serving = options.serving.clone();
            let (settings, found) = options.settle(of_gateway(volume), &file)?;
            let filter = logging::start(&settings.volume).map_err(wrong_setting)?;
            found.iter().for_each(Found::log);
            unknown_variables(settings.serve.bootstrap.as_deref()).iter().for_each(Unknown::log);
            let source = SettingsSource { config: cli.config, common, serving, filter };
            runtime()?.block_on(supervisor::watched(serve::serve(settings, source)))?;
        }
        Command::Mount(command) => {
            let command = (*command, &unknown_variables(None)[..]);
            mount::run(command, (volume, cli.config, common), &file, runtime)?;
        }
        Command::Umount(command) => command.run()?,
        Command::Info(command) => {
            runtime()?.block_on(node::run(volume, command))?;
        }
        Command::Stats(command) => command.run()?,
        Command::Profile(command) => command.run()?,
        Command::Warmup(command) => command.run()?,
        Command::Administer(command) => return command.run(volume, &runtime()?),
        Command::Ring(command) => runtime()?.block_on(ring::run(volume, command))?,
        Command::Volume(command) => runtime()?.block_on(ring::change(volume, &command))?,
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
            runtime()?
                .block_on(check::health(options.settle(of_gateway(volume), &file)?.0.serve))?;
        }
        Command::Status(options) => {
            runtime()?
                .block_on(check::status(options.settle(of_gateway(volume), &file)?.0.serve))?;
        }
        Command::CheckConfig(options) => {
            let settings = options.settle(of_gateway(volume), &file)?.0;
            check::config(&settings)?;
            // After the settings, which help to find the variable.
            unknown_variables::check(&unknown_variables(settings.serve.bootstrap.as_deref()))?;
        }
        Command::Version(command) => command.run()?,
        Command::Completion(command) => command.run(Cli::command())?,
        Command::Manual(command) => command.run(Cli::command())?,
    }
    Ok(Outcome::Success)
}

/// Returns the description of the command line.
pub(crate) fn description() -> clap::Command {
    Cli::command()
}

/// Returns the variables of this process that no option reads. `bootstrap` is the bootstrap file,
/// which can name variables with secrets.
fn unknown_variables(bootstrap: Option<&Path>) -> Vec<Unknown> {
    // A file that cannot be read fails the start elsewhere.
    let document = bootstrap.and_then(|path| std::fs::read_to_string(path).ok());
    unknown_variables::find(&description(), &document.unwrap_or_default())
}

/// Ends the program if the command does not exist in the form that the options name: over an API,
/// or over the metadata store.
fn refuse_wrong_form(command: &Command) -> Result<(), Problem> {
    let has_endpoint = if let Command::Administer(command) = command {
        command.endpoint().is_set()
    } else {
        // No option names the endpoint here, but the operator expects that no command opens a
        // store.
        environment::variable("ASHLAR_ENDPOINT")?.is_some()
    };
    if let Some(name) = command.needs_store().filter(|_| has_endpoint) {
        let text = format!(
            "`ashlar {name}` works on the metadata store itself: give no --endpoint, and unset \
             ASHLAR_ENDPOINT. `ashlar job start` makes a gateway check, collect, dump or fork"
        );
        // The exit status is 2, as for other wrong arguments.
        Cli::command().error(ErrorKind::ArgumentConflict, text).exit();
    }
    let Command::Administer(command) = command else { return Ok(()) };
    if let Some(name) = command.needs_endpoint().filter(|_| !has_endpoint) {
        let text = format!(
            "a gateway carries out `ashlar {name}`: give its console with --endpoint, or use \
             `ashlar fsck`, `gc`, `dump` or `bucket fork`, which work in their own process"
        );
        Cli::command().error(ErrorKind::MissingRequiredArgument, text).exit();
    }
    Ok(())
}

/// Returns a runtime with as many worker threads as the machine has cores.
fn runtime() -> Result<tokio::runtime::Runtime, Problem> {
    tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("ashlar")
        .build()
        .map_err(|error| Problem::new("start", error))
}

#[cfg(test)]
mod tests;
