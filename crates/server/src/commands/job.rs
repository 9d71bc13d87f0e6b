//! `ashlar job`: long work that a gateway does for an operator, such as a check or a fork.
//!
//! The record of a job in the metadata store has its progress, so each gateway shows it. For
//! example, `ashlar job start fork photos photos-test --wait` starts a fork on the gateway of
//! `--endpoint`, prints its progress, and exits with 1 if the fork fails.
//!
//! Only a gateway can start a job. The other commands also work over the metadata store, for
//! example while no gateway runs.

mod shown;
mod wait;

use admin::{Admin, AdminError, JobError, SWEEP_SHARE_PERCENT};
use adminapi::resources::jobs::{JobJson, NewJobJson};
use clap::{ArgGroup, Args, Subcommand};
use problem::Problem;
use record::JobKind;

pub(super) use shown::{print, table};

use super::administration::Administration;
use super::refusal;
use crate::config::VolumeSettings;
use crate::outcome::Outcome;
use crate::table::Printing;

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// List jobs, the newest first
    List {
        #[command(flatten)]
        printing: Printing,
    },
    /// Print a job with its progress and its result
    Show {
        /// The number of the job, from `list`
        number: u64,
        #[command(flatten)]
        output: JobOutput,
    },
    /// Start a job on the gateway of --endpoint, and print it
    #[command(subcommand)]
    Start(StartCommand),
    /// Ask a running job to stop, and print it. It stops within seconds; its work so far remains
    Stop {
        /// The number of the job, from `list`
        number: u64,
        #[command(flatten)]
        printing: Printing,
    },
}

/// The jobs to start.
#[derive(Debug, Subcommand)]
pub(crate) enum StartCommand {
    /// Check that records and blocks agree, and change nothing. With --wait, exit with 3 if there
    /// are findings
    Fsck {
        #[command(flatten)]
        output: JobOutput,
    },
    /// Count or delete blocks without a reference
    #[command(group = ArgGroup::new("action").required(true).args(["dry_run", "delete"]))]
    Gc {
        /// Count blocks that can be deleted, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Delete blocks of ended sessions without a reference
        #[arg(long)]
        delete: bool,
        /// Check the blocks of all ended sessions, including sessions that an earlier collection
        /// has checked completely
        #[arg(long)]
        all: bool,
        /// The limit of deletions, in percent of the blocks checked
        #[arg(long, value_name = "PERCENT", default_value_t = SWEEP_SHARE_PERCENT,
              value_parser = clap::value_parser!(u64).range(0..=100))]
        delete_percent_max: u64,
        #[command(flatten)]
        output: JobOutput,
    },
    /// Create a bucket with the current content of another one. The buckets share blocks
    Fork {
        /// The bucket to copy
        source: String,
        /// The new bucket
        target: String,
        #[command(flatten)]
        output: JobOutput,
    },
    /// Read objects of a bucket into the block cache of the gateway
    Warmup {
        /// The bucket
        bucket: String,
        /// Read only objects whose keys have this prefix
        #[arg(default_value = "")]
        prefix: String,
        #[command(flatten)]
        output: JobOutput,
    },
    /// Write the metadata to a file in the data directory of the gateway
    Dump {
        #[command(flatten)]
        output: JobOutput,
    },
    /// Delete a bucket with its objects, versions, uploads and trash permanently
    DeleteBucket {
        /// The bucket
        bucket: String,
        /// The name of the bucket once more
        #[arg(long, value_name = "BUCKET")]
        confirm: String,
        #[command(flatten)]
        output: JobOutput,
    },
}

/// The form of the output of a job, and the time of it.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct JobOutput {
    /// Wait until the job has ended, with its progress on standard error: once a minute if that is
    /// no terminal. Exit with 1 if the job fails or is stopped. The end of this program does not
    /// stop the job
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    printing: Printing,
}

impl StartCommand {
    /// Returns the job in the form of the API, and the form of the output.
    pub(super) fn split(self) -> (NewJobJson, JobOutput) {
        match self {
            StartCommand::Fsck { output } => (NewJobJson::Fsck {}, output),
            StartCommand::Gc { dry_run: _, delete, all, delete_percent_max, output } => {
                let delete_percent_max = Some(delete_percent_max);
                (NewJobJson::Gc { delete, all, delete_percent_max }, output)
            }
            StartCommand::Fork { source, target, output } => {
                (NewJobJson::Fork { source, target }, output)
            }
            StartCommand::Warmup { bucket, prefix, output } => {
                (NewJobJson::Warmup { bucket, prefix }, output)
            }
            StartCommand::Dump { output } => (NewJobJson::Dump {}, output),
            StartCommand::DeleteBucket { bucket, confirm, output } => {
                (NewJobJson::DeleteBucket { bucket, confirm }, output)
            }
        }
    }
}

impl JobCommand {
    /// Returns the action, for error texts.
    pub(super) fn doing(&self) -> String {
        match self {
            JobCommand::List { .. } => "list jobs".to_owned(),
            JobCommand::Show { number, .. } => format!("show the job {number}"),
            JobCommand::Start(_) => "start a job".to_owned(),
            JobCommand::Stop { number, .. } => format!("stop the job {number}"),
        }
    }

    /// Returns true if only a gateway can carry out the command.
    pub(crate) fn needs_endpoint(&self) -> bool {
        match self {
            JobCommand::Start(_) => true,
            JobCommand::List { .. } | JobCommand::Show { .. } | JobCommand::Stop { .. } => false,
        }
    }
}

/// Runs an `ashlar job` command.
pub(crate) async fn run(settings: VolumeSettings, command: JobCommand) -> Result<Outcome, Problem> {
    let within = async |admin: &Admin| within(admin, command).await;
    Administration::with(&settings, "manage jobs", within).await?
}

async fn within(admin: &Admin, command: JobCommand) -> Result<Outcome, Problem> {
    let doing = command.doing();
    let read = async |number: u64| {
        find(admin, number).await.map_err(|error| refusal::problem(doing.as_str(), error))
    };
    match command {
        JobCommand::List { printing } => {
            let jobs = admin.jobs().await;
            let jobs = jobs.map_err(|error| refusal::problem(doing.as_str(), error))?;
            let jobs: Vec<JobJson> = jobs.into_iter().map(JobJson::from).collect();
            table(&jobs).print(printing);
            Ok(Outcome::Success)
        }
        JobCommand::Show { number, output } => {
            follow(read(number).await?, output, async || read(number).await).await
        }
        JobCommand::Stop { number, printing } => {
            let stopped = admin.stop_job(number).await;
            stopped.map_err(|error| refusal::problem(doing.as_str(), error))?;
            print(&read(number).await?, printing);
            Ok(Outcome::Success)
        }
        // The command line refuses it before this.
        JobCommand::Start(_) => Err(Problem::new(doing, "a gateway must do the work")
            .remedy("give the console of a gateway with --endpoint")),
    }
}

async fn find(admin: &Admin, number: u64) -> Result<JobJson, AdminError> {
    let found = admin.jobs().await?.into_iter().find(|job| job.number == number);
    Ok(found.ok_or(JobError::NoSuchJob)?.into())
}

/// Waits for the end of a job if the operator wants it, and prints the job. `read` returns its
/// present state. Fails if the job has been waited for and is not complete.
pub(super) async fn follow(
    job: JobJson,
    output: JobOutput,
    read: impl AsyncFn() -> Result<JobJson, Problem>,
) -> Result<Outcome, Problem> {
    if !output.wait {
        print(&job, output.printing);
        return Ok(Outcome::Success);
    }
    let job = wait::until_end(job, read).await?;
    print(&job, output.printing);
    outcome(&job)
}

/// Returns the result of a job that has ended.
fn outcome(job: &JobJson) -> Result<Outcome, Problem> {
    if job.state == "done" {
        let is_check = job.kind == JobKind::Fsck.name();
        let has_findings = is_check && !job.lines.is_empty();
        return Ok(if has_findings { Outcome::Findings } else { Outcome::Success });
    }
    let why =
        if job.message.is_empty() { format!("it is {}", job.state) } else { job.message.clone() };
    Err(Problem::new(format!("complete the job {}", job.number), why))
}

#[cfg(test)]
mod tests;
