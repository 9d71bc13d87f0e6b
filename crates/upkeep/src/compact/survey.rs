//! The survey that finds files to compact which this gateway has not queued.
//!
//! Other gateways or an earlier process wrote to them. For example, after a restart the survey
//! walks over all inodes, 500 per second, and queues those with sparse blocks.

use bytes::Bytes;
use record::{Ino, Inode, key::space};
use session::{VolumeError, closing};
use std::time::Duration;
use tokio::time::Instant;

use crate::compact_queue::may_need_compaction;
use crate::repack::{SURVEY_DELAY, SURVEY_INTERVAL};
use crate::upkeep::Upkeep;

/// Inodes that one step of the survey reads.
const WALK_INODES: u32 = 500;

/// The pause between two steps of the survey of all inodes.
const WALK_PAUSE: Duration = Duration::from_secs(1);

/// The position of a survey, a walk over all inodes that finds files to compact.
#[derive(Debug)]
pub(super) struct Survey {
    /// The time at which the next step is due.
    pub(super) due: Instant,
    /// The time at which this walk began.
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
    /// Queues those files of the next step's inodes for the compactor whose blocks may be mostly
    /// hidden. After the last inode a new walk begins, one interval after this one began.
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

    /// Queues all files for the compactor whose blocks may be mostly hidden by later writes.
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
            // A record that cannot be decoded is reported by the operation that needs it.
            if Inode::decode(&key, &record).is_ok_and(|inode| may_need_compaction(&inode)) {
                self.compacting.note(Ino(key.partition()));
            }
        }
        Ok(page.resume)
    }
}
