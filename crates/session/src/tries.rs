//! The tries of an operation that checks an object before it commits.
//!
//! For example, a copy finds its source, checks the permissions of the client for it, and commits
//! on the condition that the key still has this object. After a failed try it has a turn
//! (`contention::turn`).

use std::future::Future;
use std::sync::Arc;

use store::{Guard, Key};
use tokio::time::Instant;

use crate::Session;
use crate::backoff::Backoff;
use crate::contention::reservations::Reservation;
use crate::contention::turn::{Place, Turn, in_place};
use crate::times::TURN_DURATION;

/// The number of failed tries in turns after which an operation pauses before each turn. Plans of
/// this process that were already in flight when the turn began may cause this many failures.
const TRIES_WITHOUT_PAUSE: u32 = 2;

/// The tries of one operation that checks an object and then commits if the key still has it.
#[derive(Debug)]
pub struct Tries<'s> {
    session: &'s Session,
    backoff: Backoff,
    only_reads: bool,
    turn: Option<Arc<Reservation>>,
    /// True if others have waited for this operation as long as they must. It gets no further turn.
    has_expired: bool,
    failures: u32,
}

impl Session {
    /// Begins the tries of an operation that changes the checked object, or that `only_reads` it
    /// and changes another one. They end after [`crate::CONTENTION_DEADLINE`].
    pub fn tries(&self, only_reads: bool) -> Tries<'_> {
        let backoff = Backoff::default();
        Tries { session: self, backoff, only_reads, turn: None, has_expired: false, failures: 0 }
    }
}

impl Tries<'_> {
    /// Runs the part of a try that commits.
    pub fn run<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        let deadline = self.backoff.deadline();
        let turn = self.turn.clone().map(|reservation| Turn { reservation, deadline });
        in_place(future, Place(turn))
    }

    /// Waits before the next try, after one has failed because another client has changed one of
    /// `records`. Reserves them for the next try: when its turn comes, other operations of this
    /// process leave them as they are for [`TURN_DURATION`]. Without `records` it pauses only: a
    /// caller that moves many bytes must not let others wait.
    ///
    /// Returns false if the time for tries is over.
    pub async fn again(&mut self, records: &[Key]) -> bool {
        self.failures += 1;
        let table = &self.session.reservations.table;
        self.has_expired |= self.turn.as_ref().is_some_and(|turn| !table.has(turn.place));
        if records.is_empty() {
            self.turn = None;
            return self.backoff.pause().await;
        }
        if self.failures > TRIES_WITHOUT_PAUSE {
            // Only a session elsewhere can have made so many tries fail. The writers of this
            // process do not wait for the pause.
            self.turn = None;
            if !self.backoff.pause().await {
                return false;
            }
        }
        self.take_turn(records).await && Instant::now() < self.backoff.deadline()
    }

    /// Reserves these records, and waits until all earlier reservations of them have ended. Only
    /// pauses if the operation gets no turn. Returns false at the deadline.
    async fn take_turn(&mut self, records: &[Key]) -> bool {
        let Some(place) = self.place(records) else { return self.backoff.pause().await };
        let table = &self.session.reservations.table;
        let keys = || records.iter().collect();
        while let Some(earlier) = table.earlier_of(keys(), Some(place), self.only_reads) {
            if !table.wait_until(self.backoff.deadline(), earlier).await {
                return false;
            }
        }
        // The time begins at the front of the queue.
        table.expire_at(place, Instant::now() + TURN_DURATION);
        true
    }

    /// Returns the place in the queue, with these records reserved. `None` if the queue is full, or
    /// if others have waited long enough for this operation.
    fn place(&mut self, records: &[Key]) -> Option<u64> {
        let queue = &self.session.reservations;
        let guards: Vec<Guard> = records.iter().cloned().map(Guard::Present).collect();
        if let Some(turn) = &self.turn {
            if queue.table.reserve_too(turn.place, &guards) {
                return Some(turn.place);
            }
            self.has_expired = true;
        }
        self.turn = None;
        let joined =
            if self.has_expired { None } else { queue.table.join(&guards, self.only_reads) };
        let place = joined?;
        let reservations = Arc::clone(queue);
        self.turn = Some(Arc::new(Reservation { place, reservations }));
        Some(place)
    }
}
