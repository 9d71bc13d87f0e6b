//! Whether those who have gathered wait for those whose pack has just landed.
//!
//! Clients that only write fall into two groups by themselves: one gathers while the pack of the
//! other is under way, and so on in turn. If those who have gathered wait for a moment when a pack
//! lands, its members are back, and all leave in one pack and one commit: half the requests for the
//! same bodies. Clients that also do other things are not back so soon, and waiting for them is lost.
//! So what came of it decides how often it is tried.

use std::time::Duration;

/// How long they wait at most: a commit, and a client's next body.
pub(super) const REUNION_WINDOW: Duration = Duration::from_millis(3);

/// Landings after one at which it did not pay that pass without a try, at most.
const SKIPPED_MAX: u32 = 127;

/// What is known of those who were waited for.
#[derive(Debug, Default)]
pub(super) struct Reunions {
    /// Whether some are waiting now.
    awaited: bool,
    /// Landings that are still to pass without a try.
    skip: u32,
    /// How many those were after the last try that failed; one fewer for each that did not.
    penalty: u32,
}

impl Reunions {
    /// When a pack has landed while others have gathered: whether they are to wait.
    pub(super) fn is_due(&mut self) -> bool {
        self.awaited = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        self.awaited
    }

    /// Whether those who were waited for last have not come.
    pub(super) fn are_in_vain(&self) -> bool {
        self.skip > 0
    }

    /// When a pack leaves: whether all who were waited for have come, if any were.
    pub(super) fn ended(&mut self, all_came: bool) {
        if !std::mem::take(&mut self.awaited) {
            return;
        }
        if all_came {
            self.penalty = self.penalty.saturating_sub(1);
        } else {
            self.penalty = (2 * self.penalty + 1).min(SKIPPED_MAX);
            self.skip = self.penalty;
        }
    }
}

#[cfg(test)]
mod tests;
