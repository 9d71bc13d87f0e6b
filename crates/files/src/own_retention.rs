//! The retention that the writes of an open file gave its object.
//!
//! A bucket's default retention locks an object at the first commit of a program's writes. The
//! programs that have the file open on this mount may continue to write. For example, a program
//! writes to a log, and `mv` on the same mount gives the log another name: the rename begins a
//! retention anew, and the program's next flush is still allowed.

use volume::RetentionChange;

use crate::open::FileState;

impl FileState {
    /// Notes that this mount gave the file a name, which changed the retention. If the file's own
    /// writes gave it the retention before, its programs may continue to write. So may those that
    /// created it without a name, if this is its first name (`is_first_name`).
    pub(crate) fn keep_own_retention(&mut self, change: RetentionChange, is_first_name: bool) {
        let is_own = match self.own_retention {
            Some(own) => change.before == Some(own),
            None => is_first_name && change.before.is_none(),
        };
        if is_own {
            self.own_retention = change.after;
        }
    }
}
