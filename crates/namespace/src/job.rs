//! Jobs: long work that operators start, with a record that shows its progress.
//!
//! The invariant: the session in the record of a job is the only one that writes progress, and a
//! job that has ended never runs again. If the session of a running job has ended, the job was
//! interrupted, even if its record says that it runs. For example, [`StopJob`] marks a running job,
//! and the session that does the work learns of it when it reports progress with [`ReportJob`].

use record::{DecodeError, JobKind, JobRecord, JobState, Nonce, key};
use store::{Guard, Plan, Value, Write};

use crate::Halt;
use crate::access::all;
use crate::run::{Env, Planner, Step};
use crate::view::{View, decode};

/// The limit of jobs in the store. A new job removes the oldest ended ones beyond it.
pub const JOBS_KEPT_MAX: usize = 100;

/// The limit of jobs that run at the same time in a volume.
pub const JOBS_RUNNING_MAX: usize = 8;

/// The reason why an operation on jobs is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// [`JOBS_RUNNING_MAX`] jobs run.
    #[error("{JOBS_RUNNING_MAX} jobs are running")]
    TooMany,
    /// A job of this kind runs, and a second one would only repeat its work. The value is its
    /// number.
    #[error("the job {0} is running already")]
    Runs(u64),
    /// There is no job of this number.
    #[error("no such job")]
    NoSuchJob,
    /// The job has ended, so it cannot be stopped.
    #[error("the job has ended")]
    HasEnded,
    /// The job runs, so its record cannot be removed.
    #[error("the job is running")]
    IsRunning,
}

/// A job with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedJob {
    /// The number.
    pub number: u64,
    /// The record.
    pub job: JobRecord,
    /// True if the record says that the job runs, and its session has ended.
    pub was_interrupted: bool,
}

impl NumberedJob {
    /// Returns true if a session does the work of the job now.
    fn runs(&self) -> bool {
        !self.job.state.has_ended() && !self.was_interrupted
    }
}

/// Lists all jobs, the newest first.
#[derive(Clone, Copy, Debug)]
pub struct ListJobs;

impl Planner for ListJobs {
    type Output = Vec<NumberedJob>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let mut jobs: Vec<NumberedJob> = jobs(view)?.into_iter().map(|(job, _)| job).collect();
        jobs.reverse();
        Ok(Step::Done(jobs))
    }
}

/// Reads all jobs with their bytes, the oldest first.
fn jobs(view: &mut View<'_>) -> Result<Vec<(NumberedJob, Value)>, Halt> {
    let mut found = Vec::new();
    for entry in all(view, key::partition(key::space::JOB, 0))? {
        let number = <[u8; 8]>::try_from(entry.key.suffix()).map(u64::from_be_bytes);
        let number =
            number.map_err(|_| Halt::Corrupt(entry.key.clone(), DecodeError::Field("number")))?;
        let job = decode(&entry.key, &entry.value, JobRecord::decode)?;
        found.push((NumberedJob { number, job, was_interrupted: false }, entry.value));
    }
    // One round trip for the sessions of all jobs.
    let running = found.iter().filter(|(job, _)| !job.job.state.has_ended());
    let keys: Vec<_> = running.map(|(job, _)| key::session(job.job.session)).collect();
    let sessions = view.many(&keys)?;
    let mut sessions = sessions.iter();
    for (job, _) in &mut found {
        if !job.job.state.has_ended() {
            job.was_interrupted = sessions.next().is_some_and(Option::is_none);
        }
    }
    Ok(found)
}

/// Returns true if the two jobs must not run at the same time.
fn exclude_each_other(one: &JobRecord, other: &JobRecord) -> bool {
    one.kind == other.kind
        && match one.kind {
            JobKind::Fsck | JobKind::Gc | JobKind::Dump => true,
            // A second deletion of the same bucket would only repeat the requests of the first one.
            JobKind::DeleteBucket => one.arguments == other.arguments,
            JobKind::Fork | JobKind::Warmup => false,
        }
}

/// Adds a job and returns its number. Fails with `Runs` if a job that excludes this one is running,
/// and with `TooMany` if [`JOBS_RUNNING_MAX`] jobs run.
#[derive(Clone, Copy, Debug)]
pub struct StartJob<'a> {
    /// The new job.
    pub job: &'a JobRecord,
}

impl Planner for StartJob<'_> {
    type Output = Result<u64, JobError>;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Self::Output>, Halt> {
        let known = jobs(view)?;
        let running = || known.iter().map(|(job, _)| job).filter(|job| job.runs());
        if let Some(same) = running().find(|job| exclude_each_other(&job.job, self.job)) {
            return Ok(Step::Done(Err(JobError::Runs(same.number))));
        }
        if running().count() >= JOBS_RUNNING_MAX {
            return Ok(Step::Done(Err(JobError::TooMany)));
        }
        let last = known.last().map_or(0, |(job, _)| job.number);
        let now = u64::try_from(env.now.0 / 1_000_000).unwrap_or(0);
        let number = now.max(last + 1);
        let (_, end) = key::partition(key::space::JOB, 0);
        let at = key::job(number);
        let mut plan = Plan {
            // Two starts at the same time must see each other, because of the limits.
            guards: vec![Guard::Empty(key::job(last + 1), end)],
            writes: vec![Write::Put(at.clone(), self.job.encode(&at))],
        };
        let surplus = (known.len() + 1).saturating_sub(JOBS_KEPT_MAX);
        for (job, value) in known.iter().filter(|(job, _)| !job.runs()).take(surplus) {
            plan.guards.push(Guard::Equals(key::job(job.number), value.clone()));
            plan.writes.push(Write::Delete(key::job(job.number)));
        }
        Ok(Step::Commit(plan, Ok(number)))
    }
}

/// The order that the session of a job gets when it reports progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOrder {
    /// Continue.
    Continue,
    /// Stop: an operator has asked for it, or the record is gone.
    Stop,
}

/// Writes the progress of a job, and perhaps its end. Changes nothing if the job has ended or
/// belongs to another session.
#[derive(Clone, Copy, Debug)]
pub struct ReportJob<'a> {
    /// The number of the job.
    pub number: u64,
    /// The session that does the work.
    pub session: Nonce,
    /// The counts of the finished work.
    pub progress: &'a [(String, u64)],
    /// The end of the job; `None` while it runs.
    pub end: Option<&'a JobEnd>,
}

/// The end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// `Done`, `Failed` or `Stopped`.
    pub state: JobState,
    /// The result or the error, as a sentence.
    pub message: String,
    /// Further lines of the result.
    pub lines: Vec<String>,
    /// True if there are more lines than these.
    pub has_more_lines: bool,
}

impl Planner for ReportJob<'_> {
    type Output = JobOrder;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<JobOrder>, Halt> {
        let at = key::job(self.number);
        let Some(found) = view.record(&at)? else { return Ok(Step::Done(JobOrder::Stop)) };
        let mut job = decode(&at, &found, JobRecord::decode)?;
        if job.session != self.session || job.state.has_ended() {
            return Ok(Step::Done(JobOrder::Stop));
        }
        let order = match job.state {
            JobState::Stopping => JobOrder::Stop,
            JobState::Running | JobState::Done | JobState::Failed | JobState::Stopped => {
                JobOrder::Continue
            }
        };
        job.progress = self.progress.to_vec();
        job.changed = env.now;
        if let Some(JobEnd { state, message, lines, has_more_lines }) = self.end {
            (job.state, job.message, job.lines) = (*state, message.clone(), lines.clone());
            job.has_more_lines = *has_more_lines;
        }
        let writes = vec![Write::Put(at.clone(), job.encode(&at))];
        Ok(Step::Commit(Plan { guards: vec![Guard::Equals(at, found)], writes }, order))
    }
}

/// Asks a running job to stop. Fails with `NoSuchJob`, and with `HasEnded` if the job has ended or
/// was interrupted.
#[derive(Clone, Copy, Debug)]
pub struct StopJob {
    /// The number of the job.
    pub number: u64,
}

impl Planner for StopJob {
    type Output = Result<(), JobError>;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Self::Output>, Halt> {
        let at = key::job(self.number);
        let Some(found) = view.record(&at)? else {
            return Ok(Step::Done(Err(JobError::NoSuchJob)));
        };
        let job = decode(&at, &found, JobRecord::decode)?;
        let session = key::session(job.session);
        let is_alive = view.record(&session)?.is_some();
        if job.state.has_ended() || !is_alive {
            return Ok(Step::Done(Err(JobError::HasEnded)));
        }
        let job = JobRecord { state: JobState::Stopping, changed: env.now, ..job };
        let writes = vec![Write::Put(at.clone(), job.encode(&at))];
        // A session that has ended never learns that it must stop.
        let guards = vec![Guard::Equals(at, found), Guard::Present(session)];
        Ok(Step::Commit(Plan { guards, writes }, Ok(())))
    }
}

/// Removes the record of a job that does not run. Fails with `NoSuchJob`, and with `IsRunning` if
/// the job runs.
#[derive(Clone, Copy, Debug)]
pub struct RemoveJob {
    /// The number of the job.
    pub number: u64,
}

impl Planner for RemoveJob {
    type Output = Result<(), JobError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let at = key::job(self.number);
        let Some(found) = view.record(&at)? else {
            return Ok(Step::Done(Err(JobError::NoSuchJob)));
        };
        let job = decode(&at, &found, JobRecord::decode)?;
        if !job.state.has_ended() && view.record(&key::session(job.session))?.is_some() {
            return Ok(Step::Done(Err(JobError::IsRunning)));
        }
        let writes = vec![Write::Delete(at.clone())];
        Ok(Step::Commit(Plan { guards: vec![Guard::Equals(at, found)], writes }, Ok(())))
    }
}
