//! Jobs: long work on the volume, such as a check, a fork, or the deletion of a bucket with
//! content.
//!
//! For example, `POST /jobs` with `{"kind": "fork", "source": "photos", "target": "photos-test"}`
//! returns the number of the job, and `GET /jobs/{number}` shows its progress from each gateway.

use ::admin::{AdminError, JobError, NumberedJob, SWEEP_SHARE_PERCENT, SweepOptions, SweepScope};
use gateway::ExpectedBucket;
use policy::AdminAction;
use record::JobState;
use s3::BucketName;
use s3::operation::Permission;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::times;
use crate::jobs::{BucketDeletion, JobSender, Work};
use crate::page::{ListPage, PageQuery};
use crate::{Actor, AdminApi, ApiError};

/// The limit of the prefix of a warm-up, in bytes: the limit of a key.
const PREFIX_BYTES_MAX: usize = 1024;

/// The limit of running jobs of a user without `admin:StartJob`, so that jobs of operators find
/// room.
const RUNNING_OF_USER_MAX: usize = 2;

/// The limit of records of jobs of such a user, so that they do not displace those of operators.
const RECORDS_OF_USER_MAX: usize = 10;

/// A job to start.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[schema(as = NewJob)]
pub enum NewJobJson {
    /// Compares records and blocks, and changes nothing. Reads everything.
    Fsck {},
    /// Counts blocks without a reference, or deletes them.
    Gc {
        /// True to delete blocks; false to count them.
        #[serde(default)]
        delete: bool,
        /// True to look at all ended sessions, also those that were looked at before.
        #[serde(default)]
        all: bool,
        /// The limit of deletions in percent of the blocks that are looked at. 5 without it.
        delete_percent_max: Option<u64>,
    },
    /// Creates a bucket with the content of another one. The two share blocks.
    Fork {
        /// The bucket to copy.
        source: String,
        /// The new bucket.
        target: String,
    },
    /// Reads objects, so that the block cache of this gateway has them.
    Warmup {
        /// The bucket.
        bucket: String,
        /// The prefix of the keys. All objects without it.
        #[serde(default)]
        prefix: String,
    },
    /// Writes the metadata to a file in the data directory of this gateway.
    Dump {},
    /// Deletes a bucket with its objects, versions, uploads and trash. Nothing brings them back.
    DeleteBucket {
        /// The bucket.
        bucket: String,
        /// The name of the bucket once more.
        confirm: String,
    },
}

/// A count of the finished work of a job.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema, PartialEq, Eq)]
pub struct JobCount {
    /// The kind of items, for example `objects`.
    pub name: String,
    /// The number of items.
    pub count: u64,
}

/// An argument of a job.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema, PartialEq, Eq)]
pub struct JobArgument {
    /// The name, for example `source`.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A job.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema, PartialEq, Eq)]
#[schema(as = Job)]
pub struct JobJson {
    /// The number.
    pub number: String,
    /// The kind: `fsck`, `gc`, `fork`, `warmup`, `dump` or `delete-bucket`.
    pub kind: String,
    /// The arguments.
    pub arguments: Vec<JobArgument>,
    /// The state: `running`, `stopping`, `done`, `failed`, `stopped` or `interrupted`.
    pub state: String,
    /// The user who started the job; for a web identity, its issuer and subject.
    pub user: String,
    /// The host and process of the gateway that does the work.
    pub place: String,
    /// The time of the start.
    pub began: String,
    /// The time of the last report.
    pub changed: String,
    /// The counts of the finished work.
    pub progress: Vec<JobCount>,
    /// The result or the error, as a sentence. Empty while the job runs.
    pub message: String,
    /// Further lines of the result, such as findings.
    pub lines: Vec<String>,
    /// True if the result had more lines.
    pub has_more_lines: bool,
}

impl JobJson {
    /// Returns true if the job does not run any more.
    pub fn has_ended(&self) -> bool {
        !matches!(self.state.as_str(), "running" | "stopping")
    }
}

impl From<NumberedJob> for JobJson {
    fn from(numbered: NumberedJob) -> JobJson {
        let NumberedJob { number, job, was_interrupted } = numbered;
        let state = match job.state {
            _ if was_interrupted => "interrupted",
            JobState::Running => "running",
            JobState::Stopping => "stopping",
            JobState::Done => "done",
            JobState::Failed => "failed",
            JobState::Stopped => "stopped",
        };
        let counts = job.progress.into_iter().map(|(name, count)| JobCount { name, count });
        let arguments = job.arguments.into_iter().map(|(name, value)| JobArgument { name, value });
        JobJson {
            number: number.to_string(),
            kind: job.kind.name().to_owned(),
            arguments: arguments.collect(),
            state: state.to_owned(),
            user: job.user,
            place: job.place,
            began: times::text(job.began),
            changed: times::text(job.changed),
            progress: counts.collect(),
            message: job.message,
            lines: job.lines,
            has_more_lines: job.has_more_lines,
        }
    }
}

impl AdminApi {
    /// Returns a page of jobs, the newest first.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:ListJobs`.
    pub async fn list_jobs(
        &self,
        actor: &Actor<'_>,
        query: &PageQuery,
    ) -> Result<ListPage<JobJson>, ApiError> {
        actor.require(AdminAction::ListJobs)?;
        let mut jobs: Vec<JobJson> =
            self.admin.jobs().await?.into_iter().map(JobJson::from).collect();
        jobs.retain(|job| job.number.starts_with(query.prefix.as_deref().unwrap_or_default()));
        let range = query.range()?;
        // The list of jobs is in descending order, unlike all others.
        if let Some(after) = &range.after {
            jobs.retain(|job| job.number < *after);
        }
        let has_more = jobs.len() > range.limit;
        jobs.truncate(range.limit);
        let next = jobs.last().filter(|_| has_more).map(|job| crate::page::token(&job.number));
        Ok(ListPage { items: jobs, next })
    }

    /// Returns a job.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:ListJobs`, except for one's own jobs; `NoSuchJob`.
    pub async fn job(&self, actor: &Actor<'_>, number: &str) -> Result<JobJson, ApiError> {
        let found = self.found_job(number).await;
        let is_own = found.as_ref().is_ok_and(|job| job.user == actor.identity().person());
        if !(is_own && actor.may_for_itself(AdminAction::ListJobs)) {
            actor.require(AdminAction::ListJobs)?;
        }
        found
    }

    /// Returns a job for a sender that may see it.
    async fn found_job(&self, number: &str) -> Result<JobJson, ApiError> {
        let mut jobs = self.admin.jobs().await?.into_iter().map(JobJson::from);
        jobs.find(|job| job.number == number).ok_or_else(no_such_job)
    }

    /// Starts a job on this gateway.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:StartJob`; for a fork without `admin:ForkBucket`,
    /// `s3:ListBucket` on the source, `s3:GetObject` on all its objects and `s3:CreateBucket`. The
    /// deletion of a bucket needs the permissions of S3 alone, and `admin:EmptyTrash` if the bucket
    /// has a trash; a user without `admin:StartJob` has at most two such jobs at once. `JobRuns`,
    /// `TooManyJobs`, `NoSuchBucket`, `Exists`, `BadRequest`.
    pub async fn post_job(&self, actor: &Actor<'_>, new: &NewJobJson) -> Result<JobJson, ApiError> {
        let sender =
            || JobSender { authenticated: actor.authenticated().clone(), client: actor.client() };
        let work = match new {
            NewJobJson::Fsck {} => {
                actor.require(AdminAction::StartJob)?;
                Work::Check
            }
            NewJobJson::Gc { delete, all, delete_percent_max } => {
                actor.require(AdminAction::StartJob)?;
                let share_percent = delete_percent_max.unwrap_or(SWEEP_SHARE_PERCENT);
                if share_percent > 100 {
                    return Err(ApiError::bad_request("A share has at most 100 percent."));
                }
                let scope = if *all { SweepScope::All } else { SweepScope::Unswept };
                Work::Collect(SweepOptions { scope, dry_run: !delete, share_percent })
            }
            NewJobJson::Fork { source, target } => {
                let expected = self.check_fork(actor, source, target).await?;
                Work::Fork { source: source.clone(), expected, target: target.clone() }
            }
            NewJobJson::Warmup { bucket, prefix } => {
                actor.require(AdminAction::StartJob)?;
                if prefix.len() > PREFIX_BYTES_MAX {
                    return Err(ApiError::bad_request("The prefix is longer than any key."));
                }
                self.bucket(actor, bucket).await?;
                Work::Warmup { sender: sender(), bucket: bucket.clone(), prefix: prefix.clone() }
            }
            NewJobJson::Dump {} => {
                actor.require(AdminAction::StartJob)?;
                Work::Dump
            }
            NewJobJson::DeleteBucket { bucket, confirm } => {
                if bucket != confirm {
                    let why = "The two names of the bucket differ.";
                    return Err(ApiError::bad_request(why));
                }
                let expected = self.check_deletion(actor, bucket).await?;
                let (sender, bucket) = (sender(), bucket.clone());
                let name = BucketName::parse(&bucket)?;
                let may_empty_trash = actor.may(AdminAction::EmptyTrash, Some(&name));
                Work::DeleteBucket(BucketDeletion { sender, bucket, expected, may_empty_trash })
            }
        };
        let mut turn = None;
        if !actor.may(AdminAction::StartJob, None) {
            turn = Some(self.limited_jobs.lock().await);
            self.make_room(&actor.identity().person()).await?;
        }
        let number = self.jobs.start(actor.identity(), work).await?.to_string();
        drop(turn);
        self.found_job(&number).await
    }

    /// Fails with `TooManyJobs` if a user without `admin:StartJob` may start no other job now.
    /// Removes its records that would exceed the limit.
    async fn make_room(&self, user: &str) -> Result<(), ApiError> {
        let jobs = self.admin.jobs().await?;
        for number in displaced(&jobs, user).map_err(AdminError::Job)? {
            match self.admin.remove_job(number).await {
                // Another request has removed it.
                Ok(()) | Err(AdminError::Job(JobError::NoSuchJob)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Asks a job to stop. It stops within seconds; its work so far remains.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:CancelJob`, except for one's own jobs; `NoSuchJob`,
    /// `InvalidState` if the job has ended.
    pub async fn stop_job(&self, actor: &Actor<'_>, number: &str) -> Result<JobJson, ApiError> {
        self.check_cancel(actor, number).await?;
        self.admin.stop_job(parsed(number)?).await?;
        self.job(actor, number).await
    }

    /// Removes the record of a job that has ended.
    ///
    /// # Errors
    /// Those of [`AdminApi::stop_job`]; `InvalidState` if the job runs.
    pub async fn delete_job(&self, actor: &Actor<'_>, number: &str) -> Result<(), ApiError> {
        self.check_cancel(actor, number).await?;
        Ok(self.admin.remove_job(parsed(number)?).await?)
    }

    async fn check_cancel(&self, actor: &Actor<'_>, number: &str) -> Result<(), ApiError> {
        if actor.may(AdminAction::CancelJob, None) {
            return Ok(());
        }
        let found = self.job(actor, number).await?;
        if found.user == actor.identity().person() && !actor.is_temporary() {
            return Ok(());
        }
        Err(ApiError::denied(AdminAction::CancelJob.name()))
    }

    /// Fails unless the sender may copy all of a bucket. A Deny for some keys of the source is not
    /// seen, so `admin:ForkBucket` is for operators who may read all of it. Returns the source for
    /// which this was checked.
    async fn check_fork(
        &self,
        actor: &Actor<'_>,
        source: &str,
        target: &str,
    ) -> Result<ExpectedBucket, ApiError> {
        let (from, to) = (BucketName::parse(source)?, BucketName::parse(target)?);
        actor.require(AdminAction::StartJob)?;
        actor.require_on(AdminAction::ForkBucket, &from)?;
        let rules = self.gateway.rules().get(&self.volume, &from).await;
        let rules = rules.map_err(|_| s3::Code::NoSuchBucket)?;
        let sender = actor.sender();
        let list = Permission::on_bucket("s3:ListBucket", &from);
        if !sender.is_allowed(&list, Some(&rules), None) {
            return Err(ApiError::denied(list.action));
        }
        let every = s3::ObjectKey::parse("*").map_err(ApiError::from)?;
        let get = Permission::on_object("s3:GetObject", &from, &every);
        // The fork has all objects. An Allow for some of them is not enough.
        if !sender.is_allowed_on_all(&get, &rules) {
            return Err(ApiError::denied(get.action));
        }
        let create = Permission::on_bucket("s3:CreateBucket", &to);
        if !sender.is_allowed(&create, None, None) {
            return Err(ApiError::denied(create.action));
        }
        match self.admin.bucket(target).await {
            Ok(_) => Err(AdminError::BucketExists.into()),
            Err(AdminError::NoSuchBucket) => Ok(ExpectedBucket(rules.ino)),
            Err(error) => Err(error.into()),
        }
    }

    /// Fails unless the sender may delete a bucket. The permission for each object is checked when
    /// it is deleted. Returns the bucket for which this was checked.
    async fn check_deletion(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
    ) -> Result<ExpectedBucket, ApiError> {
        let name = BucketName::parse(bucket)?;
        let rules = self.gateway.rules().get(&self.volume, &name).await;
        let rules = rules.map_err(|_| s3::Code::NoSuchBucket)?;
        let delete = Permission::on_bucket("s3:DeleteBucket", &name);
        if !actor.sender().is_allowed(&delete, Some(&rules), None) {
            return Err(ApiError::denied(delete.action));
        }
        if rules.trash_days.is_some() {
            actor.require_on(AdminAction::EmptyTrash, &name)?;
        }
        Ok(ExpectedBucket(rules.ino))
    }
}

/// Returns the numbers of the jobs of a user whose records must go before the user starts another
/// job. `jobs` has the newest first. Fails with [`JobError::TooMany`] if too many jobs of the user
/// run.
fn displaced(jobs: &[NumberedJob], user: &str) -> Result<Vec<u64>, JobError> {
    let own = jobs.iter().filter(|numbered| numbered.job.user == user);
    let (running, ended): (Vec<_>, Vec<_>) = own.partition(|numbered| {
        let runs = matches!(numbered.job.state, JobState::Running | JobState::Stopping);
        runs && !numbered.was_interrupted
    });
    if running.len() >= RUNNING_OF_USER_MAX {
        return Err(JobError::TooMany);
    }
    let kept = RECORDS_OF_USER_MAX - 1 - running.len();
    Ok(ended.iter().skip(kept).map(|numbered| numbered.number).collect())
}

fn no_such_job() -> ApiError {
    ApiError::new(http::StatusCode::NOT_FOUND, "NoSuchJob", "There is no such job.")
}

fn parsed(number: &str) -> Result<u64, ApiError> {
    number.parse().map_err(|_| no_such_job())
}

#[cfg(test)]
mod tests;
