//! Starts the maintenance tasks.
//!
//! For example, an opened volume calls [`Upkeep::begin`] once, and from then on its reaper runs
//! without further calls.

use std::sync::Arc;

use crate::relocate::run_relocator;
use crate::relocation_queue::Policy;
use crate::upkeep::Upkeep;
use crate::{late_writers, locks, reaper, sweeper};

impl Upkeep {
    /// Starts all maintenance tasks. They run until the session closes.
    pub fn begin(self: &Arc<Self>) {
        let tasks = self.session.tasks();
        drop(tasks.spawn("reaper", reaper::run_reaper(Arc::downgrade(self))));
        let changes = Arc::clone(self.session.session_changes());
        drop(tasks.spawn("sweeper", sweeper::run_sweeper(Arc::downgrade(self), changes)));
        for (name, policy) in
            [("destage", Policy::Destage), ("repack", Policy::Repack), ("compact", Policy::Compact)]
        {
            drop(tasks.spawn(name, run_relocator(Arc::downgrade(self), policy)));
        }
        drop(tasks.spawn("locks", locks::run_lock_cleaner(Arc::downgrade(self))));
        drop(tasks.spawn("late_writers", late_writers::delete_late_blocks(Arc::downgrade(self))));
    }
}
