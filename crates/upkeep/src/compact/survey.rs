//! Finds files that nobody here has noted: others wrote to them, or an earlier process.

use bytes::Bytes;
use record::{Ino, Inode, key::space};
use session::{VolumeError, closing};
use std::time::Duration;
use tokio::time::Instant;

use crate::compacting::is_worth_a_look;
use crate::repack::{SURVEY_DELAY, SURVEY_INTERVAL};
use crate::upkeep::Upkeep;

/// Inodes that one step of a walk reads.
const WALK_INODES: u32 = 500;

/// The pause between two steps of a walk, however many files there are.
const WALK_PAUSE: Duration = Duration::from_secs(1);

/// A walk over all inodes that goes on in small steps.
#[derive(Debug)]
pub(super) struct Survey {
    /// When its next step is due.
    pub(super) due: Instant,
    /// When this walk began.
    began: Instant,
    resume: Option<Bytes>,
}

impl Survey {
    pub(super) fn begin() -> Survey {
        let began = Instant::now();
        Survey { due: began + SURVEY_DELAY, began, resume: None }
    }
}

impl Upkeep {
    /// Takes note of files that are worth a look, among the next few; after the last one the walk begins
    /// anew, an interval after it began.
    pub(super) async fn survey_some(&self, survey: &mut Survey) -> Result<(), VolumeError> {
        let now = Instant::now();
        if survey.resume.is_none() {
            survey.began = now;
        }
        survey.resume = self.survey_page(survey.resume.clone()).await?;
        survey.due = match survey.resume {
            Some(_) => now + WALK_PAUSE,
            None => (survey.began + SURVEY_INTERVAL).max(now + WALK_PAUSE),
        };
        Ok(())
    }

    /// Takes note of every file that is worth a look.
    pub(super) async fn survey_files(&self) -> Result<(), VolumeError> {
        let mut resume = None;
        loop {
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
            resume = self.survey_page(resume).await?;
            if resume.is_none() {
                return Ok(());
            }
        }
    }

    async fn survey_page(&self, resume: Option<Bytes>) -> Result<Option<Bytes>, VolumeError> {
        let page = self.session.store().walk(space::INODE, resume, WALK_INODES).await?;
        for (key, record) in page.records {
            // What cannot be read is told of by whoever needs it.
            if Inode::decode(&key, &record).is_ok_and(|inode| is_worth_a_look(&inode)) {
                self.compacting.note(Ino(key.partition()));
            }
        }
        Ok(page.resume)
    }
}
