//! Jobs: the records of long work that operators start.
//!
//! This module keeps the records; the process that does the work is elsewhere. For example, a
//! gateway that forks a bucket calls [`Admin::start_job`], then [`Admin::report_job`] every few
//! seconds, and [`Admin::end_job`] at the end.

use namespace::{JobEnd, JobOrder, ListJobs, NumberedJob, RemoveJob, ReportJob, StartJob, StopJob};
use record::{JobKind, JobRecord, JobState, Nonce};

use crate::{Admin, AdminError};

/// The limit of lines of the result of a job, for example of findings.
pub const JOB_LINES_MAX: usize = 200;

/// The limit of one line and of the message of a job, in bytes.
const LINE_BYTES_MAX: usize = 500;

/// A job to start.
#[derive(Clone, Copy, Debug)]
pub struct NewJob<'a> {
    /// The kind of work.
    pub kind: JobKind,
    /// The arguments by name.
    pub arguments: &'a [(String, String)],
    /// The name of the user who starts the job.
    pub user: &'a str,
    /// The session that does the work.
    pub session: Nonce,
}

impl Admin {
    /// Adds the record of a job, and returns its number.
    ///
    /// # Errors
    /// [`AdminError::Job`] if too many jobs run, or one of a kind that must run alone.
    pub async fn start_job(&self, new: &NewJob<'_>) -> Result<u64, AdminError> {
        let now = self.surroundings.clock.now();
        let job = JobRecord {
            kind: new.kind,
            arguments: new.arguments.to_vec(),
            user: new.user.to_owned(),
            session: new.session,
            place: self.surroundings.place.clone(),
            began: now,
            changed: now,
            state: JobState::Running,
            progress: Vec::new(),
            message: String::new(),
            lines: Vec::new(),
            has_more_lines: false,
        };
        Ok(self.change(&StartJob { job: &job }).await??)
    }

    /// Writes the progress of a job, and returns its order: to continue or to stop.
    ///
    /// # Errors
    /// Those of each change.
    pub async fn report_job(
        &self,
        number: u64,
        session: Nonce,
        progress: &[(String, u64)],
    ) -> Result<JobOrder, AdminError> {
        self.change(&ReportJob { number, session, progress, end: None }).await
    }

    /// Writes the end of a job. Lines beyond [`JOB_LINES_MAX`] and long lines are cut.
    ///
    /// # Errors
    /// Those of each change.
    pub async fn end_job(
        &self,
        (number, session): (u64, Nonce),
        progress: &[(String, u64)],
        mut end: JobEnd,
    ) -> Result<(), AdminError> {
        if end.lines.len() > JOB_LINES_MAX {
            end.lines.truncate(JOB_LINES_MAX);
            end.has_more_lines = true;
        }
        end.lines.iter_mut().for_each(shorten);
        shorten(&mut end.message);
        self.change(&ReportJob { number, session, progress, end: Some(&end) }).await.map(drop)
    }

    /// Returns all jobs, the newest first.
    ///
    /// # Errors
    /// Those of each read.
    pub async fn jobs(&self) -> Result<Vec<NumberedJob>, AdminError> {
        self.look(&ListJobs).await
    }

    /// Asks a running job to stop. The session that does the work learns of it within seconds.
    ///
    /// # Errors
    /// [`AdminError::Job`] if there is no such job, or it does not run.
    pub async fn stop_job(&self, number: u64) -> Result<(), AdminError> {
        Ok(self.change(&StopJob { number }).await??)
    }

    /// Removes the record of a job that does not run.
    ///
    /// # Errors
    /// [`AdminError::Job`] if there is no such job, or it runs.
    pub async fn remove_job(&self, number: u64) -> Result<(), AdminError> {
        Ok(self.change(&RemoveJob { number }).await??)
    }
}

/// Cuts a text at [`LINE_BYTES_MAX`], between characters.
fn shorten(text: &mut String) {
    if text.len() > LINE_BYTES_MAX {
        text.truncate(text.floor_char_boundary(LINE_BYTES_MAX));
        text.push('…');
    }
}
