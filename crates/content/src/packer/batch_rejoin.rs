//! Whether bodies that have gathered wait for the clients whose pack has just landed.
//!
//! Clients that only write fall into two groups by themselves: one gathers while the pack of the
//! other is under way, and so on in turn. If the bodies that have gathered wait for a moment when a
//! pack lands, its clients are back with their next bodies, and all go in one pack and one commit.
//! That is half the requests for the same bodies. Clients that also do other things are not back so
//! soon, and the time is wasted. So the outcome of each try decides how soon the next one is made.

use std::time::Duration;

/// How long bodies wait at most: as long as a commit and the arrival of a client's next body take.
pub(super) const REJOIN_WINDOW: Duration = Duration::from_millis(3);

/// The most landings that pass without a try after one that failed.
const SKIPPED_MAX: u32 = 127;

/// What is known from earlier tries.
#[derive(Debug, Default)]
pub(super) struct BatchRejoin {
    /// Whether bodies are waiting for others now.
    awaited: bool,
    /// Landings that are still to pass without a try.
    skip: u32,
    /// How many those were after the last try that failed; one fewer for each that succeeded since.
    penalty: u32,
}

impl BatchRejoin {
    /// When a pack has landed and bodies have gathered: whether they are to wait.
    pub(super) fn is_due(&mut self) -> bool {
        self.awaited = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        self.awaited
    }

    /// Whether the last try failed, and it is too soon for the next one.
    pub(super) fn is_backing_off(&self) -> bool {
        self.skip > 0
    }

    /// When a pack is sent: takes note whether all that were waited for have come, if any were.
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
