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

/// The longest time that bodies wait for the clients whose pack was just stored: about the time of
/// a commit and of the arrival of a client's next body.
pub(super) const REJOIN_WINDOW: Duration = Duration::from_millis(3);

/// The most packs that are stored without a try, after tries to wait for their clients have failed.
const SKIPPED_MAX: u32 = 127;

/// The outcome of the earlier tries to wait for the clients whose pack was just stored.
#[derive(Debug, Default)]
pub(super) struct BatchRejoin {
    /// True while bodies wait for the clients whose pack was just stored.
    awaited: bool,
    /// The number of packs that are still to be stored before the next try.
    skip: u32,
    /// The number of packs stored without a try after the last failure, minus one for each success
    /// since then.
    penalty: u32,
}

impl BatchRejoin {
    /// Called when a pack was stored and other bodies have gathered. Returns true if these bodies
    /// are to wait for the next bodies of that pack's clients.
    pub(super) fn is_due(&mut self) -> bool {
        self.awaited = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        self.awaited
    }

    /// Called when a pack is sent. If its bodies waited for the clients of the pack before, records
    /// whether all of these came.
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
