//! The tasks that keep a volume in order by themselves.

use std::sync::Arc;

use crate::upkeep::Upkeep;
use crate::{compact, destage, latecomers, locks, reaper, repack, sweeper};

impl Upkeep {
    /// Does everything by itself from now on, until the session closes.
    pub fn begin(self: &Arc<Self>) {
        let tasks = self.session.tasks();
        drop(tasks.spawn("reaper", reaper::reap_always(Arc::downgrade(self))));
        let changes = Arc::clone(self.session.session_changes());
        drop(tasks.spawn("sweeper", sweeper::sweep_always(Arc::downgrade(self), changes)));
        drop(tasks.spawn("repacker", repack::repack_always(Arc::downgrade(self))));
        drop(tasks.spawn("compactor", compact::compact_always(Arc::downgrade(self))));
        drop(tasks.spawn("destager", destage::destage_always(Arc::downgrade(self))));
        drop(tasks.spawn("locks", locks::forget_always(Arc::downgrade(self))));
        drop(tasks.spawn("latecomers", latecomers::delete_latecomers(Arc::downgrade(self))));
    }
}
