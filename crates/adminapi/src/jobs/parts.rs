//! The parts of the process that jobs use, and the results of jobs.

use std::path::PathBuf;
use std::sync::Arc;

use ::admin::Admin;
use block::BlockStore;
use gateway::Gateway;
use identity::{Access, Authenticated, ClientAddress};
use maintained::MaintainedVolume;
use store::MetaStore;

/// The parts of the process that jobs use.
#[derive(Debug)]
pub(crate) struct JobParts {
    pub(crate) admin: Admin,
    pub(crate) volume: MaintainedVolume,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) access: Arc<Access>,
    pub(crate) meta: Arc<dyn MetaStore>,
    pub(crate) blocks: Arc<dyn BlockStore>,
    /// The folder for dumps of the metadata.
    pub(crate) dumps: PathBuf,
}

/// The sender of a job, in whose name it reads and deletes objects.
#[derive(Clone, Debug)]
pub(crate) struct JobSender {
    pub(crate) authenticated: Authenticated,
    pub(crate) client: Option<ClientAddress>,
}

/// The result of a job that is complete: a sentence, and further lines.
#[derive(Debug, Default)]
pub(crate) struct Completed {
    pub(crate) message: String,
    pub(crate) lines: Vec<String>,
    pub(crate) has_more_lines: bool,
}

impl Completed {
    pub(super) fn with(message: String) -> Completed {
        Completed { message, ..Completed::default() }
    }
}

/// The reason why a job failed, as a sentence for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct JobFailure(pub(crate) String);

impl JobFailure {
    /// Returns the failure of a step, for example of "read the objects of the bucket".
    pub(super) fn of(doing: &str, error: &dyn std::fmt::Display) -> JobFailure {
        JobFailure(format!("The gateway could not {doing}: {error}."))
    }
}
