//! SIGHUP of `ashlar mount`: each process of a mount opens its log again and reads the log level
//! again.
//!
//! For example, logrotate renames `mount.log`, creates a new file, and sends SIGHUP to the keeper.
//! The keeper and its worker continue in the new file.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use problem::Problem;

use crate::config::{Common, File};
use crate::logging::LogFilter;

/// The parts of a process of a mount that SIGHUP loads again.
#[derive(Debug)]
pub(super) struct MountReload {
    /// The configuration file.
    pub(super) config: Option<PathBuf>,
    /// The options that override it.
    pub(super) common: Common,
    pub(super) filter: LogFilter,
    /// The level in force.
    pub(super) level: Mutex<String>,
    /// The data directory with `mount.log`, if this process logs to it.
    pub(super) log_in: Option<PathBuf>,
}

impl MountReload {
    /// Opens the log again, and sets the level that the configuration names now. A part that fails
    /// stays as it was.
    pub(super) fn again(&self) {
        if let Some(data_dir) = &self.log_in {
            match mountd::reopen_log(data_dir) {
                Ok(()) => tracing::info!("opened the log again"),
                Err(problem) => {
                    tracing::warn!(%problem, "cannot open the log again; the previous file stays in use");
                }
            }
        }
        match self.read() {
            Ok(new) => {
                let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
                self.filter.change(&mut level, new);
            }
            Err(problem) => {
                tracing::warn!(%problem, "cannot read the configuration again; the log level stays");
            }
        }
    }

    fn read(&self) -> Result<String, Problem> {
        let file = self.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
        Ok(self.common.clone().settle(&file)?.log)
    }
}
