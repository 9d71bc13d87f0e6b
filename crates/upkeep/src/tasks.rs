//! Starts the maintenance tasks.
//!
//! For example, an opened volume calls [`Upkeep::begin`] once, and from then on its reaper runs
//! without further calls.

use std::sync::Arc;

use crate::upkeep::Upkeep;
use crate::{compact, destage, late_writers, locks, reaper, repack, sweeper};

impl Upkeep {
    /// Starts all maintenance tasks. They run until the session closes.
    pub fn begin(self: &Arc<Self>) {
        let tasks = self.session.tasks();
        drop(tasks.spawn("reaper", reaper::run_reaper(Arc::downgrade(self))));
        let changes = Arc::clone(self.session.session_changes());
        drop(tasks.spawn("sweeper", sweeper::run_sweeper(Arc::downgrade(self), changes)));
        drop(tasks.spawn("repacker", repack::run_repacker(Arc::downgrade(self))));
        drop(tasks.spawn("compactor", compact::run_compactor(Arc::downgrade(self))));
        drop(tasks.spawn("destager", destage::run_destager(Arc::downgrade(self))));
        drop(tasks.spawn("locks", locks::run_lock_cleaner(Arc::downgrade(self))));
        drop(tasks.spawn("late_writers", late_writers::delete_late_blocks(Arc::downgrade(self))));
    }
}
