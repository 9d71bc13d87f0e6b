//! The lease of a peer that this session holds, with the peer's batches in flight.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use runtime::Moment;
use store::Key;

use crate::records::RecordCache;
use crate::watch::Watches;

/// Most questions to one peer without an answer.
pub(super) const ASKS_MAX: usize = 8;

/// The lease of a peer that this session holds.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Time until which the lease lasts; `None` before the first grant over this link.
    pub(super) until: Option<Moment>,
    /// The questions without an answer, each with the time before it was sent; the oldest first.
    asked: VecDeque<(u64, Moment)>,
    /// The peer's batches in flight, with their keys, and those with an unknown outcome.
    pub(super) noticed: HashMap<u64, Arc<[Key]>>,
    pub(super) noticed_keys: usize,
}

impl Held {
    /// Returns the time until which the lease lasts, which may have passed; `None` if there is
    /// none.
    pub(super) fn until(&self) -> Option<Moment> {
        self.until
    }

    /// Returns true if there is neither a lease nor a batch in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.until.is_none() && self.noticed.is_empty()
    }

    /// Gives up the lease, and ends the registration of the peer's batches. The caller has ended
    /// the authority.
    pub(super) fn release(&mut self, records: &RecordCache, watches: &Watches) {
        let noticed = std::mem::take(self).noticed;
        for keys in noticed.values() {
            records.peer_batch_ended(keys);
        }
        watches.peer_batches_ended(noticed.len());
    }

    /// Returns true if as many questions have no answer as may be sent.
    pub(super) fn is_unanswered(&self) -> bool {
        self.asked.len() >= ASKS_MAX
    }

    /// Registers a question that is about to be sent. Returns false if too many have no answer.
    pub(super) fn ask(&mut self, number: u64) -> bool {
        let fits = self.asked.len() < ASKS_MAX;
        if fits {
            self.asked.push_back((number, Moment::now()));
        }
        fits
    }

    /// Forgets the questions, and returns true, if the last one was sent long ago.
    pub(super) fn give_up_asking(&mut self, patience: Duration) -> bool {
        let is_old = self.asked.back().is_none_or(|(_, asked)| asked.after(patience).has_passed());
        if is_old {
            self.asked.clear();
        }
        is_old
    }

    /// Returns the time before the question `number` was sent, and forgets it and all earlier ones.
    pub(super) fn answered(&mut self, number: u64) -> Option<Moment> {
        while let Some((asked, at)) = self.asked.pop_front() {
            if asked == number {
                return Some(at);
            }
        }
        None
    }
}
