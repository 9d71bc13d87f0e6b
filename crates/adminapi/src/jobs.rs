//! Jobs: long work that this gateway does for an operator, and reports in a record.
//!
//! ```text
//! POST /jobs -> record "running" -> task: work, and a report every 2 s -> record "done"
//!                                            └-- order "stop", or the gateway stops -> "stopped"
//! ```
//!
//! For example, a gateway forks a bucket, and the console of another gateway shows the progress and
//! stops the job: the record then holds the order, which the next report finds.
//!
//! A job is dropped when it stops. Its last commit may still complete, as with a client that
//! disconnects.

mod check;
mod collect;
mod delete_bucket;
mod dump;
mod fork;
pub(crate) mod objects;
mod parts;
mod progress;
mod warmup;

use std::sync::Arc;
use std::time::Duration;

use ::admin::{AdminError, JobEnd, JobOrder, NewJob};
use gateway::ExpectedBucket;
use identity::Identity;
use record::{JobKind, JobState, Nonce};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use delete_bucket::BucketDeletion;
use parts::{Completed, JobFailure};
pub(crate) use parts::{JobParts, JobSender};
use progress::JobProgress;

/// The time between two reports of progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// The attempts to write the end of a job, with [`REPORT_INTERVAL`] between them.
const END_ATTEMPTS: u32 = 5;

/// The limit of time for the end of all jobs when the gateway stops.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// The work of a job.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Compares records and blocks.
    Check,
    /// Deletes or counts blocks without a reference.
    Collect(::admin::SweepOptions),
    /// Creates the bucket `target` with the content of `source`.
    Fork { source: String, expected: ExpectedBucket, target: String },
    /// Reads the objects of a bucket whose keys begin with the prefix.
    Warmup { sender: JobSender, bucket: String, prefix: String },
    /// Writes the metadata to a file.
    Dump,
    /// Deletes a bucket with everything in it.
    DeleteBucket(BucketDeletion),
}

impl Work {
    fn kind(&self) -> JobKind {
        match self {
            Work::Check => JobKind::Fsck,
            Work::Collect(_) => JobKind::Gc,
            Work::Fork { .. } => JobKind::Fork,
            Work::Warmup { .. } => JobKind::Warmup,
            Work::Dump => JobKind::Dump,
            Work::DeleteBucket(_) => JobKind::DeleteBucket,
        }
    }

    /// Returns the arguments as the record shows them.
    fn arguments(&self) -> Vec<(String, String)> {
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        match self {
            Work::Check | Work::Dump => Vec::new(),
            Work::Collect(options) => vec![
                named("delete", if options.dry_run { "no" } else { "yes" }),
                ("delete_percent_max".to_owned(), options.share_percent.to_string()),
            ],
            Work::Fork { source, target, .. } => {
                vec![named("source", source), named("target", target)]
            }
            Work::Warmup { bucket, prefix, .. } => {
                vec![named("bucket", bucket), named("prefix", prefix)]
            }
            Work::DeleteBucket(work) => vec![named("bucket", &work.bucket)],
        }
    }
}

/// The jobs of this gateway.
#[derive(Debug)]
pub(crate) struct Jobs {
    parts: Arc<JobParts>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Jobs {
    pub(crate) fn new(parts: JobParts) -> Jobs {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        Jobs { parts: Arc::new(parts), tasks, stop }
    }

    /// Writes the record of a job, and begins its work. Returns its number.
    pub(crate) async fn start(&self, by: &Identity, work: Work) -> Result<u64, AdminError> {
        let session = self.parts.volume.nonce();
        let arguments = work.arguments();
        // The record names the person, whose limit of jobs it counts for. The log does not.
        let (person, user) = (by.person(), &*by.access_key);
        let new = NewJob { kind: work.kind(), arguments: &arguments, user: &person, session };
        let number = self.parts.admin.start_job(&new).await?;
        tracing::info!(job = number, kind = work.kind().name(), user, "a job began");
        let (parts, stop) = (Arc::clone(&self.parts), self.stop.clone());
        self.tasks.spawn(async move { run(&parts, (number, session), work, stop).await });
        Ok(number)
    }

    /// Returns the parts of the process, with which objects are read in the name of a sender.
    pub(crate) fn parts(&self) -> Arc<JobParts> {
        Arc::clone(&self.parts)
    }

    /// Does work until it ends or the gateway stops.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = work => {}
                () = stop.cancelled() => {}
            }
        });
    }

    /// Stops all jobs, and waits until their records say so, at most for [`STOP_WAIT`]. Call this
    /// before the session ends.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_WAIT, self.tasks.wait()).await.is_err() {
            tracing::warn!("some jobs did not stop in time; their records show an interruption");
        }
    }
}

/// Does the work of a job, reports its progress, and writes its end.
async fn run(parts: &JobParts, of: (u64, Nonce), work: Work, stop: CancellationToken) {
    let (number, session) = of;
    let progress = JobProgress::default();
    let end = {
        // Boxed, because the work of all kinds together is a large future.
        let mut doing = Box::pin(carry_out(parts, work, &progress));
        let mut ticks = tokio::time::interval(REPORT_INTERVAL);
        loop {
            tokio::select! {
                done = &mut doing => break ended(done),
                () = stop.cancelled() => break stopped("The gateway that did the work has stopped."),
                _ = ticks.tick() => {
                    match parts.admin.report_job(number, session, &progress.counts()).await {
                        Ok(JobOrder::Continue) => {}
                        Ok(JobOrder::Stop) => break stopped("An operator has stopped the job."),
                        // The work goes on; the next report may succeed.
                        Err(error) => {
                            tracing::warn!(job = number, %error, "cannot report the progress of a job");
                        }
                    }
                }
            }
        }
    };
    tracing::info!(job = number, state = ?end.state, message = %end.message, "a job ended");
    for attempt in 1..=END_ATTEMPTS {
        match parts.admin.end_job(of, &progress.counts(), end.clone()).await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(job = number, attempt, %error, "cannot write the end of a job");
            }
        }
        tokio::time::sleep(REPORT_INTERVAL).await;
    }
}

async fn carry_out(
    parts: &JobParts,
    work: Work,
    progress: &JobProgress,
) -> Result<Completed, JobFailure> {
    match work {
        Work::Check => check::run(parts, progress).await,
        Work::Collect(options) => collect::run(parts, options).await,
        Work::Fork { source, expected, target } => {
            fork::run(parts, (&source, expected, &target), progress).await
        }
        Work::Warmup { sender, bucket, prefix } => {
            warmup::run(parts, &sender, (&bucket, &prefix), progress).await
        }
        Work::Dump => dump::run(parts, progress).await,
        Work::DeleteBucket(work) => delete_bucket::run(parts, &work, progress).await,
    }
}

fn ended(done: Result<Completed, JobFailure>) -> JobEnd {
    match done {
        Ok(Completed { message, lines, has_more_lines }) => {
            JobEnd { state: JobState::Done, message, lines, has_more_lines }
        }
        Err(JobFailure(message)) => {
            JobEnd { state: JobState::Failed, message, lines: Vec::new(), has_more_lines: false }
        }
    }
}

fn stopped(why: &str) -> JobEnd {
    JobEnd {
        state: JobState::Stopped,
        message: why.to_owned(),
        lines: Vec::new(),
        has_more_lines: false,
    }
}
