//! Predicts whether waiting bodies gain by waiting for the clients whose pack has just landed.
//!
//! Clients that only write fall into two groups: one group gathers while the pack of the other one
//! is under way, and so on in turn. If the gathered bodies wait for a moment after a pack has
//! landed, the clients of that pack send their next bodies in this moment. Then all of them go in
//! one pack and one commit. That halves the requests for the same number of bodies.
//!
//! Clients that do other work between their writes do not return so soon, and the wait is wasted.
//! Therefore the outcome of each try determines how many landings pass before the next try. For
//! example, after three failures in a row seven landings pass.

use std::time::Duration;

/// The longest wait: about the time of a commit and of the arrival of a client's next body.
pub(super) const REJOIN_WINDOW: Duration = Duration::from_millis(3);

/// The most landings that pass without a try after a failure.
const SKIPPED_MAX: u32 = 127;

/// The outcome of the earlier tries.
#[derive(Debug, Default)]
pub(super) struct BatchRejoin {
    /// True while bodies wait for the clients of a landed pack.
    awaited: bool,
    /// The landings that still pass without a try.
    skip: u32,
    /// The landings skipped after the last failure, minus one for each success since then.
    penalty: u32,
}

impl BatchRejoin {
    /// Called when a pack has landed and other bodies have gathered. Returns true if these are to
    /// wait.
    pub(super) fn is_due(&mut self) -> bool {
        self.awaited = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        self.awaited
    }

    /// Returns true if the last try failed and the next one is not due yet.
    pub(super) fn is_backing_off(&self) -> bool {
        self.skip > 0
    }

    /// Called when a pack is sent. If its bodies waited for others, records whether all of them
    /// came.
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
